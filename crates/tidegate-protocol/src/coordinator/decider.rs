//! When a checkpoint may start: policy, apart from the machine.
//!
//! Owns: the periodic timer with its one held trigger, and the reasons for holding. Does not own: starting
//! (`trigger.rs`).

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_types::{CheckpointId, Nanos};

/// Why a trigger is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Hold {
    /// Not every task runs yet.
    NotAllRunning,
    /// The enumerators are being snapshotted for an earlier one: its triggers must leave first.
    Enumerators(CheckpointId),
    /// As many are pending as may be.
    MaxConcurrent,
    /// The last one completed too recently.
    MinPause {
        /// Until then.
        until: Nanos,
    },
    /// An aligned savepoint is pending, and barriers that overtake would overtake its barriers' alignment.
    AlignedSavepoint(CheckpointId),
    /// Under `quiesce` a pending checkpoint has the job to itself.
    Exclusive,
    /// Sources stand still for a savepoint that the job is to end in.
    Suspending,
    /// The job ends, and its last checkpoint is a savepoint.
    Ending,
    /// Too many ids wait for their decision to be written.
    Backlog,
    /// All tasks have finished; nothing changes any more.
    AllFinished,
    /// A task has finished, and checkpoints after that are switched off.
    AfterFinish,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllRunning => f.write_str("not all tasks run yet"),
            Self::Enumerators(id) => write!(
                f,
                "the split enumerators are being snapshotted for checkpoint {id}"
            ),
            Self::MaxConcurrent => {
                f.write_str("as many checkpoints are pending as max-concurrent-checkpoints allows")
            }
            Self::MinPause { until } => write!(f, "min-pause lasts until {until}"),
            Self::AlignedSavepoint(id) => write!(f, "savepoint {id} is being aligned"),
            Self::Exclusive => {
                f.write_str("another checkpoint is pending, and under quiesce there may be only one")
            }
            Self::Suspending => f.write_str("the job is being stopped with a savepoint"),
            Self::Ending => f.write_str("the job is ending, and its last checkpoint will be a savepoint"),
            Self::Backlog => f.write_str("too many checkpoints wait for their decision to be written"),
            Self::AllFinished => f.write_str("all tasks have finished"),
            Self::AfterFinish => {
                f.write_str("a task has finished, and checkpoints-after-tasks-finish is switched off")
            }
        }
    }
}

/// The periodic trigger: due at some time, or held. One at most, by construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Periodic {
    /// There is none, or not yet: tasks are to run first.
    Off,
    /// Due then.
    Due(Nanos),
    /// It was due and may not start.
    Held(Hold),
}

impl Periodic {
    /// When it is to be looked at again if nothing happens before.
    pub(super) fn timeout(self) -> Option<Nanos> {
        match self {
            Self::Due(at) => Some(at),
            Self::Held(Hold::MinPause { until }) => Some(until),
            Self::Off
            | Self::Held(
                Hold::NotAllRunning
                | Hold::Enumerators(_)
                | Hold::MaxConcurrent
                | Hold::AlignedSavepoint(_)
                | Hold::Exclusive
                | Hold::Suspending
                | Hold::Ending
                | Hold::Backlog
                | Hold::AllFinished
                | Hold::AfterFinish,
            ) => None,
        }
    }
}
