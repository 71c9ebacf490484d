//! What a task hands to others: messages to the job master, snapshots to be written.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tidegate_protocol::message::FromTask;
use tidegate_protocol::subtask::{WriteFailed, Written};
use tidegate_types::snapshot::SubtaskStats;
use tidegate_types::{CheckpointId, SavepointFormat, SubtaskId};

use crate::chain::SnapshotPart;

/// Takes a task's messages to the job master.
pub trait Outbox: Send {
    /// Sends one. Never blocks.
    fn send(&self, message: FromTask);
}

/// How a write ended.
pub type WriteReply = Result<Box<Written>, WriteFailed>;

/// A snapshot of one subtask to be encoded and made durable.
pub struct WriteJob {
    /// The checkpoint.
    pub id: CheckpointId,
    /// Whose.
    pub subtask: SubtaskId,
    /// What to encode, in the order in which sections of one address belong together.
    pub parts: Vec<SnapshotPart>,
    /// The subtask's inputs have ended.
    pub finished: bool,
    /// For a savepoint: its format.
    pub savepoint: Option<SavepointFormat>,
    /// What the task measured; sizes are filled in by the writer.
    pub stats: SubtaskStats,
    /// The write is pointless and may stop.
    pub cancelled: Arc<AtomicBool>,
    /// Takes the answer back to the task.
    pub reply: Box<dyn FnOnce(WriteReply) + Send>,
}

/// Encodes and writes snapshots away from the task's thread.
pub trait SnapshotIo: Send + Sync {
    /// Starts a write; its reply comes later, from any thread.
    fn write(&self, job: WriteJob);

    /// Deletes files of a snapshot that no checkpoint names. Best effort: what stays is removed at the next start.
    fn delete(&self, files: Vec<String>);
}
