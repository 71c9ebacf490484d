//! What task, coordinator and enumerator say to each other: plain data, so that it can travel by queue, be
//! encoded on every hop in the simulator, or go by RPC.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidegate_types::snapshot::{SubtaskSnapshot, SubtaskStats};
use tidegate_types::{AttemptNumber, Barrier, CheckpointId, JobId, LeaderEpoch, OperatorUid, SubtaskId};

/// A message with what fences it: a receiver drops those of another job, attempt or an older leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope<M> {
    /// The job it is about.
    pub job: JobId,
    /// The attempt it was sent in.
    pub attempt: AttemptNumber,
    /// The leadership it was sent under.
    pub epoch: LeaderEpoch,
    /// The subtask it is to or from.
    pub subtask: SubtaskId,
    /// What is said.
    pub body: M,
}

/// From the job master to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToTask {
    /// Take part in a checkpoint: to tasks without running predecessors. Urgent when the barrier is unaligned.
    Trigger(Barrier),
    /// A hint: the checkpoint will not complete. Everything below `oldest_pending` is decided too.
    Aborted {
        /// The aborted checkpoint.
        id: CheckpointId,
        /// The lowest id not yet decided.
        oldest_pending: CheckpointId,
    },
    /// A hint: the checkpoint is complete and durable. Everything below `oldest_pending` is decided too.
    Completed {
        /// The completed checkpoint.
        id: CheckpointId,
        /// The lowest id not yet decided.
        oldest_pending: CheckpointId,
    },
    /// Goes on after a quiesced snapshot, or after a stop with savepoint that failed, and doesn't stand still for this
    /// or an earlier checkpoint any more: it may come before the barrier.
    Resume {
        /// The checkpoint for which it paused.
        id: CheckpointId,
    },
    /// A new leader took over a running job: say again what isn't decided. The task answers with
    /// [`FromTask::StillRunning`], then every acknowledgement it still holds, then
    /// [`FromTask::AwaitingLastCheckpoint`] if it waits. For a task that has finished, whoever holds its
    /// [`FromTask::Finished`] says that again. Sent anew until answered.
    Reoffer,
    /// Splits for a source operator of this task (its own encoding).
    AssignSplits {
        /// The source.
        uid: OperatorUid,
        /// Encoded splits.
        splits: Vec<Bytes>,
    },
    /// No split will be assigned to this source any more; it ends once the ones it has are read.
    NoMoreSplits {
        /// The source.
        uid: OperatorUid,
    },
    /// The source stops reading and ends. With `drain` everything pending downstream is flushed.
    Stop {
        /// Whether the end of the stream is final.
        drain: bool,
    },
    /// The attempt is over; the task gives up at once.
    Cancel,
}

/// From a task to the job master.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromTask {
    /// State is restored, records flow.
    Running,
    /// Answers [`ToTask::Reoffer`].
    StillRunning {
        /// The highest checkpoint whose barrier or trigger this subtask ever saw: no leader may use an id up to it
        /// again. 0 if none.
        newest_seen: CheckpointId,
        /// The splits its readers were assigned since the last checkpoint they know to be complete.
        held: Vec<HeldSplits>,
    },
    /// Everything the subtask stored for the checkpoint is durable.
    Acknowledged {
        /// The checkpoint.
        id: CheckpointId,
        /// What was stored and where.
        snapshot: SubtaskSnapshot,
        /// What was measured.
        stats: SubtaskStats,
    },
    /// The subtask can't take part.
    Declined {
        /// The checkpoint.
        id: CheckpointId,
        /// Why, as one of the named reasons.
        reason: DeclineReason,
        /// The particulars: an error's text, the channel that was missing.
        detail: String,
    },
    /// A source asks for a split.
    RequestSplit {
        /// The source.
        uid: OperatorUid,
    },
    /// All inputs have ended, everything is flushed and the consumers have been sent the end. The subtask waits for
    /// a completed checkpoint that was triggered after this, because it holds output that only a commit makes
    /// visible. Said again from time to time while it waits, since the answer is a hint that may be lost.
    AwaitingLastCheckpoint,
    /// The subtask is done and gone; nothing of it runs any more, and what it had to acknowledge or decline it has.
    /// Where it ran this is kept, and offered again to a new leader, until a checkpoint that was triggered after it
    /// is complete.
    Finished {
        /// Its last state: readable, and what a checkpoint stores for it from now on.
        snapshot: SubtaskSnapshot,
        /// The highest checkpoint whose barrier or trigger it ever saw, 0 if none. Of those it has acknowledged or
        /// declined each; if that was lost on the way, its last state must not stand in for what it cut.
        newest_seen: CheckpointId,
    },
    /// User code or the task failed; the attempt can't go on.
    Failed {
        /// The whole chain of causes, one readable text.
        error: String,
        /// Whether trying again can help (a bug in a key's hash or a changed type doesn't heal).
        retryable: bool,
    },
}

/// Splits that a source reader was assigned, for a new leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldSplits {
    /// The source.
    pub uid: OperatorUid,
    /// The newest checkpoint that the reader had cut when it was assigned them; 0 if none. They are in the reader's
    /// part of every later checkpoint, and in the enumerator's part of this one and earlier ones.
    pub after: CheckpointId,
    /// Encoded splits, as assigned; also those read to their end meanwhile.
    pub splits: Vec<Bytes>,
}

/// Why a subtask declined a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DeclineReason {
    /// The task isn't running yet, or is closing.
    NotReady,
    /// An operator refused in its prepare step.
    PrepareRefused,
    /// Encoding or writing the state failed.
    AsyncFailed,
    /// A cancel marker came in the place of a barrier.
    CancelMarker,
    /// A newer checkpoint's barrier says that this one is decided.
    Subsumed,
    /// The limit of a quiesced snapshot passed before all barriers were in; the detail names a channel.
    QuiesceLimit,
    /// An input ended without a barrier and without being finished.
    InputEnded,
    /// The coordinator's abort reached the subtask first.
    Aborted,
}
