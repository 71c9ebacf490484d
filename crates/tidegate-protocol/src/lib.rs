//! Tidegate's pure state machines: barrier handling, checkpoint coordination, sink settlement.
//!
//! Nothing here has a thread, clock, socket or disk: a machine is told what happened and when
//! (`on_event(now, event) -> actions`) and answers with plain data.

pub mod barrier;
pub mod coordinator;
pub mod message;
pub mod oracle;
pub mod restart;
pub mod subtask;
