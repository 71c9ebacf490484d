//! The steps of a checkpoint as values, for `--trace-checkpoint` and tests.
//!
//! Owns: what is worth seeing. Does not own: printing; the driver writes each event with its own clock.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_types::{CheckpointId, CheckpointKind, Nanos, SnapshotMode, SubtaskId};

use super::decider::Hold;
use super::event::Verdict;
use super::failure::FailureReason;

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEvent {
    /// When, on the driver's clock.
    pub at: Nanos,
    /// Of which checkpoint, if of one.
    pub id: Option<CheckpointId>,
    /// What.
    pub step: TraceStep,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TraceStep {
    /// A due periodic trigger may not start yet.
    Held(Hold),
    /// It got its id, and the enumerators are being snapshotted.
    Started {
        /// Checkpoint or savepoint.
        kind: CheckpointKind,
        /// How its barriers go out.
        mode: SnapshotMode,
    },
    /// Triggers were sent.
    Triggered {
        /// To these.
        to: Vec<SubtaskId>,
    },
    /// A subtask acknowledged.
    Acknowledged {
        /// Which.
        subtask: SubtaskId,
        /// How many are missing now.
        missing: u32,
    },
    /// A subtask finished before it took part: its last state counts.
    CountedFinished {
        /// Which.
        subtask: SubtaskId,
        /// How many are missing now.
        missing: u32,
    },
    /// All that takes part is in.
    AllIn,
    /// All is ready, and it waits for lower ids to be decided or an earlier commit to be done.
    AwaitingTurn,
    /// A decision is being written.
    Deciding(Verdict),
    /// A decision stands.
    Decided(Verdict),
    /// It failed.
    Failed(FailureReason),
    /// A message was ignored: late, doubled or of another attempt.
    Ignored {
        /// From whom.
        subtask: SubtaskId,
        /// What it was.
        what: String,
    },
}

impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.at)?;
        match self.id {
            Some(id) => write!(f, "checkpoint {id}: {}", self.step),
            None => write!(f, "checkpoints: {}", self.step),
        }
    }
}

impl fmt::Display for TraceStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceStep::Held(hold) => write!(f, "trigger held, {hold}"),
            TraceStep::Started { kind, mode } => write!(f, "started, {kind:?}, {mode}"),
            TraceStep::Triggered { to } => {
                write!(f, "triggered")?;
                to.iter().try_for_each(|subtask| write!(f, " {subtask}"))
            }
            TraceStep::Acknowledged { subtask, missing } => {
                write!(f, "{subtask} acknowledged, {missing} missing")
            }
            TraceStep::CountedFinished { subtask, missing } => {
                write!(f, "{subtask} finished, its last state counts, {missing} missing")
            }
            TraceStep::AllIn => f.write_str("all in"),
            TraceStep::AwaitingTurn => f.write_str("ready, waits for its turn"),
            TraceStep::Deciding(verdict) => write!(f, "writing decision {verdict:?}"),
            TraceStep::Decided(verdict) => write!(f, "decided {verdict:?}"),
            TraceStep::Failed(reason) => write!(f, "failed: {reason}"),
            TraceStep::Ignored { subtask, what } => write!(f, "ignored {what} of {subtask}"),
        }
    }
}
