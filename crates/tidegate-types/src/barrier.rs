//! The barrier: what cuts a stream into before and after a checkpoint.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{CheckpointId, LeaderEpoch};

/// How a snapshot deals with barriers and in-flight data (`execution.checkpointing.mode` and friends).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SnapshotMode {
    /// Channels whose barrier came are blocked until all barriers are in; nothing in flight is stored.
    Aligned,
    /// The first barrier overtakes what is queued; what it overtook is stored.
    Unaligned,
    /// Aligned at first; overtakes once `timeout` has passed since the trigger.
    Adaptive {
        /// `execution.checkpointing.aligned-checkpoint-timeout`, counted from the trigger.
        timeout: Duration,
    },
    /// Barriers are counted and never block: after a restore records may be processed twice.
    AtLeastOnce,
    /// Sources pause before an aligned barrier; when all subtasks have acknowledged, nothing is in flight.
    Quiesce {
        /// How long the pause may last before the checkpoint is aborted and the job goes on.
        limit: Duration,
    },
}

impl SnapshotMode {
    /// The mode's name in configuration, logs and REST answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aligned => "aligned",
            Self::Unaligned => "unaligned",
            Self::Adaptive { .. } => "adaptive",
            Self::AtLeastOnce => "at-least-once",
            Self::Quiesce { .. } => "quiesce",
        }
    }
}

impl fmt::Display for SnapshotMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the state in a savepoint is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SavepointFormat {
    /// Self-describing, named fields, one layout for all backends.
    Canonical,
    /// The backend's own, compact layout.
    Native,
}

/// What a snapshot is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CheckpointKind {
    /// For recovery; owned and retired by the engine.
    Checkpoint,
    /// Asked for by a person, who owns it.
    Savepoint {
        /// How its state is written.
        format: SavepointFormat,
        /// Sources emit nothing after this barrier: the job is being stopped with it (suspend).
        stop: bool,
    },
}

impl CheckpointKind {
    /// Whether a person asked for it.
    pub fn is_savepoint(self) -> bool {
        matches!(self, Self::Savepoint { .. })
    }
}

/// Travels with the records and divides them into those inside checkpoint `id` and those after it.
///
/// It carries no wall clock: `age` is how long ago the checkpoint was triggered *when the barrier was put where
/// it is*. Whoever takes it out of a queue adds the time it stood there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Barrier {
    /// The checkpoint this belongs to.
    pub id: CheckpointId,
    /// Every lower id is decided: a handler that still waits for one drops it.
    pub oldest_pending: CheckpointId,
    /// Checkpoint or savepoint.
    pub kind: CheckpointKind,
    /// How in-flight data is treated from here on.
    pub mode: SnapshotMode,
    /// Time since the trigger, as of when the barrier was queued.
    pub age: Duration,
    /// The coordinator's leadership that triggered it.
    pub epoch: LeaderEpoch,
    /// The newest checkpoint known complete at the trigger; a backend may write only what changed since.
    pub base: Option<CheckpointId>,
}

impl Barrier {
    /// The same barrier as an overtaking one.
    #[must_use]
    pub fn to_unaligned(&self) -> Self {
        Self {
            mode: SnapshotMode::Unaligned,
            ..self.clone()
        }
    }

    /// The same barrier, `by` older.
    #[must_use]
    pub fn aged(&self, by: Duration) -> Self {
        Self {
            age: self.age + by,
            ..self.clone()
        }
    }
}
