//! What a job says about its checkpoints, as plain data.
//!
//! Owns: the options that the coordinator obeys, their defaults, and which combinations make no sense.
//! Does not own: parsing of configuration keys (that is `tidegate-types::options`), where snapshots are stored.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tidegate_types::SnapshotMode;

/// The options of checkpointing (`execution.checkpointing.*`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorSettings {
    /// Time between the starts of two periodic checkpoints; `None` takes none (savepoints, requested checkpoints
    /// and a last one still work). `execution.checkpointing.interval`
    pub interval: Option<Duration>,
    /// From the trigger until a checkpoint that isn't ready to be decided is given up; and as long again for one that
    /// is, but can't be (an earlier commit isn't done, the store refuses). `execution.checkpointing.timeout`
    pub timeout: Duration,
    /// From the completion of a checkpoint until a periodic one may start.
    /// `execution.checkpointing.min-pause`
    pub min_pause: Duration,
    /// How many may be pending when a periodic one starts. Savepoints and the last checkpoint start regardless,
    /// and count. `execution.checkpointing.max-concurrent-checkpoints`
    pub max_concurrent: u32,
    /// How many counted failures in a row the job survives.
    /// `execution.checkpointing.tolerable-failed-checkpoints`
    pub tolerable_failures: u32,
    /// How barriers and in-flight data are treated. An adaptive timeout of zero is unaligned from the start.
    pub mode: SnapshotMode,
    /// How many complete checkpoints are kept. `execution.checkpointing.num-retained`
    pub num_retained: u32,
    /// Whether periodic and requested checkpoints go on once a task has finished. The last checkpoint is taken
    /// regardless: sinks could not commit without it.
    /// `execution.checkpointing.checkpoints-after-tasks-finish`
    pub after_tasks_finish: bool,
    /// Whether there is a store for decisions at all. Without one, a sink that waits for a last checkpoint fails
    /// the job with a remedy, and every request is refused.
    pub storage: bool,
    /// How many checkpoints the history keeps (`web.checkpoints.history`).
    pub history_size: u32,
    /// Whether every step is reported as a [`Trace`](super::CoordinatorAction::Trace) action.
    pub trace: bool,
}

impl Default for CoordinatorSettings {
    fn default() -> Self {
        Self {
            interval: None,
            timeout: Duration::from_secs(600),
            min_pause: Duration::ZERO,
            max_concurrent: 1,
            tolerable_failures: 0,
            mode: SnapshotMode::Adaptive {
                timeout: Duration::from_secs(1),
            },
            num_retained: 1,
            after_tasks_finish: true,
            storage: true,
            history_size: 10,
            trace: false,
        }
    }
}

/// Options that exclude each other or are out of range. The user's to fix, when the job is built.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// An interval of nothing would trigger without end.
    #[error("execution.checkpointing.interval is {0:?}; it must be at least {min:?}", min = CoordinatorSettings::MIN_DURATION)]
    Interval(Duration),
    /// No subtask could ever answer in time.
    #[error("execution.checkpointing.timeout is {0:?}; it must be at least {min:?}", min = CoordinatorSettings::MIN_DURATION)]
    Timeout(Duration),
    /// Nothing could ever start.
    #[error("execution.checkpointing.max-concurrent-checkpoints is 0; it must be at least 1")]
    NoConcurrency,
    /// A pause between checkpoints means nothing when they overlap.
    #[error(
        "execution.checkpointing.min-pause is {min_pause:?} and max-concurrent-checkpoints is {max_concurrent}; \
         a pause between checkpoints needs max-concurrent-checkpoints = 1"
    )]
    PauseWithConcurrency {
        /// The pause asked for.
        min_pause: Duration,
        /// The concurrency asked for.
        max_concurrent: u32,
    },
    /// The newest complete checkpoint must be kept, or there is nothing to restore.
    #[error("execution.checkpointing.num-retained is 0; it must be at least 1")]
    NothingRetained,
}

impl CoordinatorSettings {
    /// The least interval and timeout, as in Flink: below it a job does nothing but checkpoints.
    pub const MIN_DURATION: Duration = Duration::from_millis(10);

    /// Whether these options make sense together.
    ///
    /// # Errors
    /// Names the first option that doesn't.
    pub fn validate(&self) -> Result<(), SettingsError> {
        if let Some(interval) = self.interval
            && interval < Self::MIN_DURATION
        {
            return Err(SettingsError::Interval(interval));
        }
        if self.timeout < Self::MIN_DURATION {
            return Err(SettingsError::Timeout(self.timeout));
        }
        if self.max_concurrent == 0 {
            return Err(SettingsError::NoConcurrency);
        }
        if self.min_pause > Duration::ZERO && self.max_concurrent > 1 {
            return Err(SettingsError::PauseWithConcurrency {
                min_pause: self.min_pause,
                max_concurrent: self.max_concurrent,
            });
        }
        if self.num_retained == 0 {
            return Err(SettingsError::NothingRetained);
        }
        Ok(())
    }

    /// Whether a checkpoint must have the job to itself: under `quiesce` tasks stand still while one is pending.
    pub fn exclusive(&self) -> bool {
        match self.mode {
            SnapshotMode::Quiesce { .. } => true,
            SnapshotMode::Aligned
            | SnapshotMode::Unaligned
            | SnapshotMode::Adaptive { .. }
            | SnapshotMode::AtLeastOnce => false,
        }
    }

    /// The mode a checkpoint's barriers carry.
    pub fn checkpoint_mode(&self) -> SnapshotMode {
        match self.mode {
            SnapshotMode::Adaptive { timeout } if timeout.is_zero() => SnapshotMode::Unaligned,
            mode @ (SnapshotMode::Aligned
            | SnapshotMode::Unaligned
            | SnapshotMode::Adaptive { .. }
            | SnapshotMode::AtLeastOnce
            | SnapshotMode::Quiesce { .. }) => mode,
        }
    }

    /// The mode a savepoint's barriers carry: aligned unless asked otherwise, and what the job is bound to
    /// (`quiesce`, `at-least-once`) in any case.
    pub fn savepoint_mode(&self, unaligned: bool) -> SnapshotMode {
        match self.mode {
            mode @ (SnapshotMode::Quiesce { .. } | SnapshotMode::AtLeastOnce) => mode,
            SnapshotMode::Aligned | SnapshotMode::Unaligned | SnapshotMode::Adaptive { .. } => {
                if unaligned {
                    SnapshotMode::Unaligned
                } else {
                    SnapshotMode::Aligned
                }
            }
        }
    }
}
