//! Barriers from their arrival to the decision: the handler, the oracle that judges it, the subtask's snapshots.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail like the test")]

mod cases;
mod common;
mod diamond;
mod oracle;
mod rules;
mod search;
mod subtask_orders;
mod subtask_rules;
