//! The input gate: one FIFO queue per channel behind one mutex, between producers and one consuming task.
//!
//! Owns: queues, blocking, the announcement of barriers, overtaking and capture (`reader`), and the budget
//! that says how many records a channel may hold (`budget`). Does not own: what a barrier means (that is
//! `tidegate_protocol::barrier`) and what happens to records (that is the chain).
//!
//! What the lock guards: the queues, the ready list, the list of announcements. Under it nothing is encoded,
//! no record is dropped and nobody is woken. Producers learn without the lock whether there is room: each
//! channel has a counter of queued records and a share, both atomics.
//!
//! A batch is queued as `Arc<Batch<T>>`, so capturing it for an unaligned snapshot bumps a count.

mod budget;
mod queue;
mod reader;
mod sender;
#[cfg(test)]
mod tests;

pub use budget::{Budget, BudgetSettings};
pub use queue::{Announcement, Gate};
pub use reader::{Captured, CapturedElement, GateReader, Taken};
pub use sender::GateSender;
