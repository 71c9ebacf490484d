//! What the coordinator is told: plain data.
//!
//! Owns: [`CoordinatorEvent`] and what its variants carry. Each effect that can finish or fail
//! ([`CoordinatorAction`](super::CoordinatorAction)) comes back as one of these, with the checkpoint's id.

use serde::{Deserialize, Serialize};
use tidegate_types::snapshot::Section;
use tidegate_types::{CheckpointId, CheckpointKind, SavepointFormat};

use crate::message::{Envelope, FromTask};

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoordinatorEvent {
    /// This leadership's claim is durable and sinks are settled; the coordinator may begin. Comes once, first.
    Claimed(Claim),
    /// A task said something. Messages of another job, attempt or epoch are ignored, and so are those that are
    /// for a split enumerator.
    FromTask(Envelope<FromTask>),
    /// A person (or the job master on their behalf) asks for something.
    Request {
        /// Names the request in its [`Answer`](super::CoordinatorAction::Answer).
        request: RequestId,
        /// What is asked for.
        what: Request,
    },
    /// Answers [`SnapshotEnumerators`](super::CoordinatorAction::SnapshotEnumerators): the enumerators' state.
    EnumeratorsSnapshotted {
        /// The checkpoint.
        id: CheckpointId,
        /// One section or more per source.
        sections: Vec<Section>,
    },
    /// Answers [`SnapshotEnumerators`](super::CoordinatorAction::SnapshotEnumerators): it failed.
    EnumeratorsFailed {
        /// The checkpoint.
        id: CheckpointId,
        /// Which source and why.
        error: String,
    },
    /// Answers [`RestoreEnumerators`](super::CoordinatorAction::RestoreEnumerators): splits may be assigned.
    EnumeratorsRestored,
    /// Answers [`ExternalPhase`](super::CoordinatorAction::ExternalPhase): done.
    ExternalPhaseDone {
        /// The checkpoint.
        id: CheckpointId,
        /// What it stored.
        sections: Vec<Section>,
    },
    /// Answers [`ExternalPhase`](super::CoordinatorAction::ExternalPhase): it failed.
    ExternalPhaseFailed {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        error: String,
    },
    /// Answers [`CopySavepoint`](super::CoordinatorAction::CopySavepoint): the directory is complete and durable.
    SavepointCopied {
        /// The savepoint.
        id: CheckpointId,
        /// Where it is.
        path: String,
    },
    /// Answers [`CopySavepoint`](super::CoordinatorAction::CopySavepoint): it failed.
    SavepointCopyFailed {
        /// The savepoint.
        id: CheckpointId,
        /// Why.
        error: String,
    },
    /// Answers [`WriteDecision`](super::CoordinatorAction::WriteDecision).
    DecisionWritten {
        /// The checkpoint.
        id: CheckpointId,
        /// What stands in the store now.
        outcome: DecisionOutcome,
    },
    /// Answers [`Commit`](super::CoordinatorAction::Commit): everything the checkpoint lists is committed.
    Committed {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// Another leadership was met elsewhere than at a decision, say because a file that a commit needs is gone.
    Deposed {
        /// What it decided.
        id: CheckpointId,
    },
    /// The attempt is over (restart, cancel, end). Pending checkpoints are aborted, nothing starts any more.
    Stop {
        /// Whether retained checkpoints are to be deleted (`cancel` with the default retention).
        discard_retained: bool,
    },
    /// The time named by [`next_timeout`](super::Coordinator::next_timeout) has come. Harmless at any time.
    Timeout,
}

/// What a leadership found and made when it claimed the job's decisions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claim {
    /// The newest complete checkpoint or savepoint.
    pub newest: Option<NewestComplete>,
    /// The older checkpoints that the newest complete one names as still standing.
    pub retained: Vec<CheckpointId>,
    /// The lowest id without a decision; everything between the newest complete one and this is aborted, the
    /// highest of those by this claim.
    pub next_id: CheckpointId,
    /// The highest id that is known to have been in use (a directory, an earlier attempt's coordinator), if
    /// it is above: those ids are decided `aborted` first, and never used again.
    pub highest_used: Option<CheckpointId>,
    /// What the tasks were started from, if anything, for the history. `None` at a takeover of running tasks.
    pub restored: Option<RestoredFrom>,
}

/// The newest complete checkpoint that a claim found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewestComplete {
    /// The checkpoint.
    pub id: CheckpointId,
    /// Checkpoint or savepoint.
    pub kind: CheckpointKind,
}

/// What an attempt was restored from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredFrom {
    /// The checkpoint.
    pub id: CheckpointId,
    /// Whether it was a savepoint.
    pub is_savepoint: bool,
    /// Where it is, if not in the job's own directory.
    pub path: Option<String>,
}

/// What stands at a checkpoint's place in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// The checkpoint itself.
    Complete,
    /// `aborted`.
    Aborted,
}

/// How writing a decision went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionOutcome {
    /// An object of this leadership stands there, durably. It can hold the other verdict than the one asked
    /// for last, if an earlier write whose outcome was unclear did succeed.
    Mine(Verdict),
    /// Another leadership's object stands there: this one is deposed.
    Foreign,
    /// Nothing is known to stand there: it didn't work, or reading it back didn't.
    Failed {
        /// Why, one readable text.
        error: String,
    },
}

/// Names a request until it is answered; the asker's choice, unique while unanswered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub u64);

/// What a person can ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// A checkpoint now, whatever the interval.
    Checkpoint {
        /// Whether it stands on no earlier one.
        full: bool,
    },
    /// A savepoint while the job runs on.
    Savepoint(SavepointOrder),
    /// Sources stop emitting after a barrier, and once it is complete the job ends as it is; nothing that is
    /// pending in windows fires. If it fails, sources go on.
    Suspend {
        /// The savepoint to end in; `None` for an ordinary checkpoint (SIGTERM).
        savepoint: Option<SavepointOrder>,
    },
    /// Sources end, everything pending is flushed, and the job ends after its last checkpoint.
    Drain {
        /// The last checkpoint becomes this savepoint.
        savepoint: Option<SavepointOrder>,
    },
}

/// How a savepoint is to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavepointOrder {
    /// How its state is written.
    pub format: SavepointFormat,
    /// The directory under which it goes; `None` for the configured one.
    pub target: Option<String>,
    /// Whether its barriers may overtake (`--unaligned`); it then holds in-flight data.
    pub unaligned: bool,
}
