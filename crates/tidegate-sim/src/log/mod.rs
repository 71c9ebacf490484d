//! A transactional log as sinks meet them outside: begin, append, prepare, commit, abort, fencing, expiry.
//!
//! Owns: one topic's transactions ([`Topic`]), which survive every crash of the job, the two-phase sink over it
//! ([`LogSink`]), and the judgement of what becomes visible (the output oracle, asked at every commit). Does not own:
//! when anything is committed.

mod sink;
mod source;
mod topic;

pub use sink::LogSink;
pub use source::{LogEnumeration, LogSource, LogSplit};
pub use topic::{Expected, LogError, Topic, TxnId, TxnState};
