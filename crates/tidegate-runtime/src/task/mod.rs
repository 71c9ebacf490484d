//! A task: one subtask of one chain, as a step function.
//!
//! Owns: what one task does between two looks at the world ([`Task::step`]): mails, announcements, timers, the
//! cut, a pass of records; and its inputs ([`Body`]). Does not own: the rules of barriers and of a subtask's
//! snapshots (`tidegate_protocol`), when to step (the drivers), encoding and writing ([`SnapshotIo`]).

mod body;
mod cut;
mod gates;
mod io;
mod mailbox;
mod metrics;
mod source_body;
mod step;

pub use body::{Body, BodyTaken};
pub use gates::{GateBody, GatePort, TwoGateBody, TwoInputHead};
pub use io::{AckRace, Outbox, SnapshotIo, WriteJob, WriteReply, WrittenFiles};
pub use mailbox::{Mail, Mailbox};
pub use metrics::{TaskMetrics, TaskStatus, TaskTotals, Wait};
pub use source_body::SourceBody;
pub use step::{Step, Task, TaskParts, TaskSettings};
