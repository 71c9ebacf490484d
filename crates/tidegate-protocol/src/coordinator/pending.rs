//! One checkpoint between getting its id and being decided.
//!
//! Owns: why it was started and how far it is. Does not own: moving it on (`trigger.rs`, `acks.rs`,
//! `decision.rs`, `abort.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_types::snapshot::{Section, SubtaskSnapshot};
use tidegate_types::{CheckpointId, CheckpointKind, Nanos, SavepointFormat, SnapshotMode, SubtaskId};

use super::event::{RequestId, SavepointOrder};
use super::failure::FailureRecord;

/// Why a checkpoint was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The interval passed.
    Periodic,
    /// Subtasks wait for one before they finish.
    Last,
    /// Someone asked for a checkpoint.
    Requested { request: RequestId, full: bool },
    /// Someone asked for a savepoint of the running job.
    Savepoint {
        request: RequestId,
        order: SavepointOrder,
    },
    /// The job is to end with it as it is.
    Suspend {
        request: RequestId,
        savepoint: Option<SavepointOrder>,
    },
    /// The last checkpoint of a drained job, as a savepoint.
    Drain {
        request: RequestId,
        order: SavepointOrder,
    },
    /// Its id was used by an earlier leadership or attempt; it is aborted.
    Inherited,
}

impl Purpose {
    /// What its barriers say it is.
    pub(super) fn barrier_kind(&self) -> CheckpointKind {
        match self {
            Self::Periodic | Self::Last | Self::Requested { .. } | Self::Inherited => {
                CheckpointKind::Checkpoint
            }
            Self::Savepoint { order, .. } | Self::Drain { order, .. } => CheckpointKind::Savepoint {
                format: order.format,
                stop: false,
            },
            // Without a savepoint too: only a savepoint's barrier can say that sources stop behind it.
            Self::Suspend { savepoint, .. } => CheckpointKind::Savepoint {
                format: savepoint
                    .as_ref()
                    .map_or(SavepointFormat::Native, |order| order.format),
                stop: true,
            },
        }
    }

    /// What the history says it is.
    pub(super) fn shown_kind(&self) -> CheckpointKind {
        match self {
            Self::Suspend { savepoint: None, .. } => CheckpointKind::Checkpoint,
            Self::Periodic
            | Self::Last
            | Self::Requested { .. }
            | Self::Savepoint { .. }
            | Self::Suspend {
                savepoint: Some(_), ..
            }
            | Self::Drain { .. }
            | Self::Inherited => self.barrier_kind(),
        }
    }

    /// The savepoint to make of it.
    pub(super) fn order(&self) -> Option<&SavepointOrder> {
        match self {
            Self::Savepoint { order, .. } | Self::Drain { order, .. } => Some(order),
            Self::Suspend { savepoint, .. } => savepoint.as_ref(),
            Self::Periodic | Self::Last | Self::Requested { .. } | Self::Inherited => None,
        }
    }

    /// Who is answered when it is complete.
    pub(super) fn request(&self) -> Option<RequestId> {
        match self {
            Self::Requested { request, .. }
            | Self::Savepoint { request, .. }
            | Self::Suspend { request, .. }
            | Self::Drain { request, .. } => Some(*request),
            Self::Periodic | Self::Last | Self::Inherited => None,
        }
    }

    /// Whether a newer checkpoint may be ready first and do away with it. What a person asked for by name may not.
    pub(super) fn is_subsumable(&self) -> bool {
        match self {
            Self::Periodic | Self::Last | Self::Requested { .. } => true,
            Self::Savepoint { .. } | Self::Suspend { .. } | Self::Drain { .. } | Self::Inherited => false,
        }
    }

    /// Whether its failures count against the tolerance. What a person asked for fails for that person; but a
    /// drained job can't end without its last checkpoint.
    pub(super) fn counts(&self) -> bool {
        match self {
            Self::Periodic | Self::Last | Self::Requested { .. } | Self::Drain { .. } => true,
            Self::Savepoint { .. } | Self::Suspend { .. } | Self::Inherited => false,
        }
    }
}

/// A checkpoint that isn't decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) id: CheckpointId,
    pub(super) purpose: Purpose,
    pub(super) mode: SnapshotMode,
    pub(super) base: Option<CheckpointId>,
    pub(super) triggered_at: Nanos,
    /// When it is given up, unless it is ready by then; and once it is, when it has waited for its turn too long.
    pub(super) expires_at: Nanos,
    /// When a job at rest must go on.
    pub(super) quiesce_until: Option<Nanos>,
    /// Who was sent a trigger.
    pub(super) triggered: BTreeSet<SubtaskId>,
    pub(super) stage: Stage,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// The enumerators' state is being taken; no trigger was sent.
    SnapshottingEnumerators,
    /// Triggers were sent; `missing` is never empty between two events.
    Collecting {
        missing: BTreeSet<SubtaskId>,
        parts: Parts,
    },
    /// Everything stands still, and what lives outside is being taken.
    ExternalPhase(Parts),
    /// The savepoint's own directory is being made.
    CopyingSavepoint(Parts),
    /// Everything is there; lower ids are to be decided first, and earlier commits to be done.
    AwaitingTurn(Parts),
    /// The complete decision is being written: it can't be given up any more.
    WritingComplete(Parts),
    /// It failed, and `aborted` is to be written.
    Aborting {
        record: FailureRecord,
        /// There if writing it as complete was tried, and who knows how that went. Whoever asked for it is told
        /// when `aborted` stands, not before.
        unclear: Option<Box<Parts>>,
        /// Whether a savepoint's directory may be there.
        copy_begun: bool,
        write: AbortWrite,
    },
}

/// How far writing `aborted` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AbortWrite {
    /// It waits for lower ids.
    AwaitingTurn,
    /// Its answer is outstanding.
    Writing,
    /// It failed and is tried again.
    RetryAt(Nanos),
}

/// What a checkpoint has collected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) subtasks: BTreeMap<SubtaskId, SubtaskSnapshot>,
    pub(super) enumerators: Vec<Section>,
    pub(super) external: Vec<Section>,
    /// Where the savepoint is.
    pub(super) path: Option<String>,
    /// From the trigger until everything was there.
    pub(super) ready_after: Duration,
}

impl Pending {
    /// Whether it may still complete.
    pub(super) fn is_live(&self) -> bool {
        match self.stage {
            Stage::SnapshottingEnumerators
            | Stage::Collecting { .. }
            | Stage::ExternalPhase(_)
            | Stage::CopyingSavepoint(_)
            | Stage::AwaitingTurn(_)
            | Stage::WritingComplete(_) => true,
            Stage::Aborting { .. } => false,
        }
    }

    /// Whether everything it needs is there.
    pub(super) fn is_ready(&self) -> bool {
        match self.stage {
            Stage::AwaitingTurn(_) | Stage::WritingComplete(_) => true,
            Stage::SnapshottingEnumerators
            | Stage::Collecting { .. }
            | Stage::ExternalPhase(_)
            | Stage::CopyingSavepoint(_)
            | Stage::Aborting { .. } => false,
        }
    }

    /// Whether a decision's answer is outstanding.
    pub(super) fn is_writing(&self) -> bool {
        match self.stage {
            Stage::WritingComplete(_)
            | Stage::Aborting {
                write: AbortWrite::Writing,
                ..
            } => true,
            Stage::SnapshottingEnumerators
            | Stage::Collecting { .. }
            | Stage::ExternalPhase(_)
            | Stage::CopyingSavepoint(_)
            | Stage::AwaitingTurn(_)
            | Stage::Aborting {
                write: AbortWrite::AwaitingTurn | AbortWrite::RetryAt(_),
                ..
            } => false,
        }
    }

    /// When something is to happen to it if nothing happens before.
    pub(super) fn timeout(&self) -> Option<Nanos> {
        match &self.stage {
            Stage::SnapshottingEnumerators
            | Stage::Collecting { .. }
            | Stage::ExternalPhase(_)
            | Stage::CopyingSavepoint(_)
            | Stage::AwaitingTurn(_) => Some(
                self.quiesce_until
                    .map_or(self.expires_at, |until| until.min(self.expires_at)),
            ),
            Stage::WritingComplete(_) => None,
            Stage::Aborting { write, .. } => match write {
                AbortWrite::RetryAt(at) => Some(*at),
                AbortWrite::AwaitingTurn | AbortWrite::Writing => None,
            },
        }
    }
}
