//! What the coordinator wants done: plain data, in the order it is to be done.
//!
//! Owns: [`CoordinatorAction`] and what its variants carry. The order of durable effects is argued where it is
//! made, in `decision.rs`.

use std::time::Duration;

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_types::snapshot::{Section, SubtaskSnapshot};
use tidegate_types::{
    CheckpointId, CheckpointKind, JobId, LeaderEpoch, MaxParallelism, Nanos, OperatorUid, Parallelism,
    SnapshotMode, SubtaskId, VertexId,
};

use super::event::{RequestId, SavepointOrder};
use super::failure::FailureRecord;
use super::trace::TraceEvent;
use crate::message::ToTask;

/// An effect. The driver carries them out in order; those that take time are answered by the event they name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoordinatorAction {
    /// Send one message to each of these subtasks (never none, in ascending order). To one subtask messages keep
    /// their order, with split assignments too.
    Send {
        /// The receivers.
        to: Vec<SubtaskId>,
        /// What to say.
        message: ToTask,
    },
    /// Take every split enumerator's state (and whatever else lives beside the coordinator) for this checkpoint:
    /// [`EnumeratorsSnapshotted`](super::CoordinatorEvent::EnumeratorsSnapshotted) or
    /// [`EnumeratorsFailed`](super::CoordinatorEvent::EnumeratorsFailed). From here until the actions that the
    /// answer returns have been carried out no split may be assigned, or it would be on both sides of the cut.
    SnapshotEnumerators {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// After a takeover: restore the enumerators from this checkpoint (or fresh), minus what running readers
    /// hold: [`EnumeratorsRestored`](super::CoordinatorEvent::EnumeratorsRestored).
    RestoreEnumerators {
        /// The checkpoint; `None` if none was ever complete.
        checkpoint: Option<CheckpointId>,
        /// Splits that readers were assigned after its cut.
        held: Vec<ReaderSplits>,
    },
    /// Nothing is in flight and every subtask has acknowledged: take what lives outside the job
    /// ([`ExternalPhaseDone`](super::CoordinatorEvent::ExternalPhaseDone),
    /// [`ExternalPhaseFailed`](super::CoordinatorEvent::ExternalPhaseFailed)).
    ExternalPhase {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// Make the savepoint's own directory, durably, before its decision
    /// ([`SavepointCopied`](super::CoordinatorEvent::SavepointCopied),
    /// [`SavepointCopyFailed`](super::CoordinatorEvent::SavepointCopyFailed)).
    CopySavepoint {
        /// The savepoint.
        id: CheckpointId,
        /// Where it goes.
        order: SavepointOrder,
        /// What is in it.
        content: Box<CheckpointContent>,
    },
    /// Create `chk-<id>/_metadata`, create-only and durably
    /// ([`DecisionWritten`](super::CoordinatorEvent::DecisionWritten)). At most one is unanswered.
    WriteDecision {
        /// The checkpoint.
        id: CheckpointId,
        /// What to decide.
        decision: Decision,
    },
    /// The checkpoint is durable and this leadership's: let committers commit what it lists
    /// ([`Committed`](super::CoordinatorEvent::Committed), also if there is nothing to commit). The next
    /// checkpoint isn't completed before.
    Commit {
        /// The checkpoint.
        id: CheckpointId,
        /// Its sections of kind `Committables`.
        committables: Vec<Section>,
    },
    /// Delete these complete checkpoints: a newer one is durable and no longer names them.
    Retire {
        /// In ascending order.
        ids: Vec<CheckpointId>,
    },
    /// Delete everything in the checkpoint's directory but `_metadata`: it is durably aborted.
    DeleteFiles {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// Stop copying this savepoint if that still runs, and delete its own directory: it is durably aborted.
    DiscardSavepoint {
        /// The savepoint.
        id: CheckpointId,
    },
    /// Delete the files in `chk-<id>/` that these sections name: they came after the directory was cleared.
    DiscardSnapshot {
        /// The checkpoint, durably aborted.
        id: CheckpointId,
        /// What came late.
        sections: Vec<Section>,
    },
    /// The job was cancelled with its checkpoints: decide the next id as closed, then delete everything. The last
    /// thing that is asked for.
    Close,
    /// Answer a request.
    Answer {
        /// Which one.
        request: RequestId,
        /// How it went.
        result: Result<RequestDone, RequestFailure>,
    },
    /// Too many checkpoints failed, or one that the job can't do without. The attempt is over.
    FailJob(Box<FailureRecord>),
    /// Another leadership stands in the store: stop at once, touch nothing.
    StepDown {
        /// Where it was met.
        id: CheckpointId,
    },
    /// A step, for `--trace-checkpoint`; only with [`trace`](super::CoordinatorSettings::trace) on.
    Trace(TraceEvent),
}

/// What is decided about a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is this.
    Complete(Box<CheckpointContent>),
    /// It never was, and this is why.
    Aborted(FailureRecord),
}

/// A complete checkpoint: what `_metadata` says of it as far as the coordinator knows.
///
/// A savepoint is one too: beside the copy that its owner may move or delete, `chk-<n>` stays what recovery starts
/// from until a newer one is complete, so it commits like any other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointContent {
    /// The job.
    pub job: JobId,
    /// The checkpoint.
    pub id: CheckpointId,
    /// The leadership that decided it.
    pub epoch: LeaderEpoch,
    /// Checkpoint or savepoint.
    pub kind: CheckpointKind,
    /// Where the savepoint's own directory is. `None` in the content handed to
    /// [`CopySavepoint`](CoordinatorAction::CopySavepoint), which makes it.
    pub savepoint: Option<String>,
    /// How its barriers were sent out.
    pub mode: SnapshotMode,
    /// The checkpoint on which subtasks may have built.
    pub base: Option<CheckpointId>,
    /// The older checkpoints that still stand once this one is complete, ascending.
    pub retained: Vec<CheckpointId>,
    /// What each subtask stored, by vertex and index. Finished subtasks stand here with their last state.
    pub subtasks: Vec<SubtaskSnapshot>,
    /// What the split enumerators stored.
    pub enumerators: Vec<Section>,
    /// What the external phase of a quiesced checkpoint stored.
    pub external: Vec<Section>,
    /// Every operator, in the plan's order.
    pub operators: Vec<OperatorSummary>,
    /// When it was triggered, on the driver's clock.
    pub triggered_at: Nanos,
    /// From the trigger until everything was there.
    pub duration: Duration,
}

/// One operator in a complete checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorSummary {
    /// The operator.
    pub uid: OperatorUid,
    /// The vertex it was chained into.
    pub vertex: VertexId,
    /// How many subtasks it had.
    pub parallelism: Parallelism,
    /// How many key groups it has.
    pub max_parallelism: MaxParallelism,
    /// How many of its subtasks had finished.
    pub finished: OperatorFinish,
}

/// How much of an operator had finished; what restarts after a restore depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OperatorFinish {
    /// No subtask.
    None,
    /// Some: it restarts with the splits left.
    Partly,
    /// All: it doesn't restart.
    Fully,
}

/// Splits that a running reader holds and the enumerators' restored state doesn't know of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderSplits {
    /// Whose they are.
    pub subtask: SubtaskId,
    /// The source.
    pub uid: OperatorUid,
    /// Encoded splits.
    pub splits: Vec<bytes::Bytes>,
}

/// A request that was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestDone {
    /// The checkpoint or savepoint. `None` for a drain that needed none.
    pub id: Option<CheckpointId>,
    /// Where the savepoint is.
    pub path: Option<String>,
}

/// A request that wasn't met, with what to do.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum RequestFailure {
    /// It could not start.
    #[error("{reason}")]
    Refused {
        /// Why and what to do.
        reason: String,
    },
    /// Its checkpoint failed.
    #[error("{0}")]
    Failed(Box<FailureRecord>),
}

/// The text itself: what `main` returns is printed by it.
impl fmt::Debug for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
