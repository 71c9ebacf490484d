//! What a task hands to others: messages to the job master, snapshots to be written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tidegate_protocol::message::FromTask;
use tidegate_protocol::subtask::WriteFailed;
use tidegate_types::snapshot::{SubtaskSnapshot, SubtaskStats};
use tidegate_types::{CheckpointId, LeaderEpoch, SavepointFormat, SubtaskId};

use crate::chain::SnapshotPart;

/// Takes a task's messages to the job master, from the task's thread and from those that write its snapshots.
pub trait Outbox: Send + Sync {
    /// Sends one. Never blocks.
    fn send(&self, message: FromTask);
}

/// What a write made durable.
#[derive(Debug)]
pub struct WrittenFiles {
    /// What is stored and where.
    pub snapshot: SubtaskSnapshot,
    /// Sizes and counts.
    pub stats: SubtaskStats,
    /// The files that this write made.
    pub files: Vec<String>,
}

/// How a write ended.
pub type WriteReply = Result<WrittenFiles, WriteFailed>;

/// The race between a write that becomes durable and a checkpoint that is given up: one of them is first.
#[derive(Debug, Default)]
pub struct AckRace(AtomicU8);

const CANCELLED: u8 = 1;
const ACKNOWLEDGED: u8 = 2;

impl AckRace {
    /// Whether the write is pointless and may stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire) == CANCELLED
    }

    /// Gives the write up; too late if it is acknowledged.
    pub fn cancel(&self) {
        self.enter(CANCELLED);
    }

    /// The write is durable; true if it may be acknowledged.
    pub fn acknowledge(&self) -> bool {
        self.enter(ACKNOWLEDGED)
    }

    fn enter(&self, state: u8) -> bool {
        self.0
            .compare_exchange(0, state, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// A snapshot of one subtask to be encoded and made durable.
pub struct WriteJob {
    /// The checkpoint.
    pub id: CheckpointId,
    /// Whose.
    pub subtask: SubtaskId,
    /// The leadership that triggered the checkpoint.
    pub epoch: LeaderEpoch,
    /// What to encode, in the order in which sections of one address belong together.
    pub parts: Vec<SnapshotPart>,
    /// The subtask's inputs have ended.
    pub finished: bool,
    /// For a savepoint: its format.
    pub savepoint: Option<SavepointFormat>,
    /// What the task measured; sizes are filled in by the writer.
    pub stats: SubtaskStats,
    /// Says when the write is pointless.
    pub race: Arc<AckRace>,
    /// Takes the answer to the task, and an acknowledgement to the job master.
    pub reply: Box<dyn FnOnce(WriteReply) + Send>,
}

/// Encodes and writes snapshots away from the task's thread.
pub trait SnapshotIo: Send + Sync {
    /// Starts a write; its reply comes later, from any thread.
    fn write(&self, job: WriteJob);

    /// Deletes files of a snapshot that no checkpoint names. Best effort: what stays is removed at the next start.
    fn delete(&self, files: Vec<String>);
}
