//! The typed settings that the rest of the engine is handed: plain data, made once when a job is built.
//!
//! Owns the combinations of options: which checkpointing mode comes of three options, and which pairs are
//! refused. Does not own single values: those were checked where they were given.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::configuration::Configuration;
use super::error::{OptionError, Origin};
use super::keys;
use super::kinds::{
    Attempts, CheckpointRetention, CheckpointingMode, GateBudget, RestPort, RestartStrategyKind, RestoreFrom,
    StateBackendKind,
};
use super::value::{MemorySize, OptionValue};
use crate::barrier::SnapshotMode;
use crate::ids::{JobId, MaxParallelism, Parallelism};

/// Everything that is configured about one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Identity and shape of the job.
    pub job: JobSettings,
    /// What it starts from.
    pub recovery: RecoverySettings,
    /// Checkpoints and savepoints.
    pub checkpoints: CheckpointSettings,
    /// What happens after a failure.
    pub restart: RestartStrategy,
    /// Tasks, gates and outputs.
    pub tasks: TaskSettings,
    /// Sources.
    pub sources: SourceSettings,
    /// The REST interface.
    pub rest: RestSettings,
}

/// Identity and shape of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSettings {
    /// Shown to people.
    pub name: String,
    /// Names the checkpoint directory.
    pub id: JobId,
    /// Of operators that set none.
    pub parallelism: Parallelism,
    /// Key groups.
    pub max_parallelism: MaxParallelism,
    /// Where keyed state lives.
    pub state_backend: StateBackendKind,
    /// How often watermark generators emit.
    pub auto_watermark_interval: Duration,
}

/// What a job starts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoverySettings {
    /// The snapshot to restore, if any.
    pub from: Option<RestoreFrom>,
    /// Whether it may be older than what sinks have committed.
    pub new_lineage: bool,
}

/// Checkpoints and savepoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointSettings {
    /// Between the triggers of periodic checkpoints; `None`: only when asked for.
    pub interval: Option<Duration>,
    /// How barriers and in-flight data are treated.
    pub mode: SnapshotMode,
    /// After which a checkpoint is aborted.
    pub timeout: Duration,
    /// Between the end of a checkpoint and the next trigger; zero if `max_concurrent` is above one.
    pub min_pause: Duration,
    /// In progress at once, at least one.
    pub max_concurrent: u32,
    /// Consecutive failures that don't restart the job.
    pub tolerable_failures: u32,
    /// Where they are written; without it none can be.
    pub dir: Option<String>,
    /// Where savepoints go that name no place.
    pub savepoint_dir: Option<String>,
    /// Completed ones that are kept, at least one.
    pub num_retained: u32,
    /// What becomes of them on cancellation.
    pub retention: CheckpointRetention,
    /// Whether they go on after subtasks finished.
    pub after_tasks_finish: bool,
    /// Up to this size a subtask's state travels in `_metadata`.
    pub inline_threshold: MemorySize,
    /// All state in one `_metadata`.
    pub inline_total: MemorySize,
    /// Checkpoints that are remembered for people, at least one.
    pub history_size: u32,
}

/// What happens after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum RestartStrategy {
    /// The job fails.
    None,
    /// The same pause before each of a number of restarts.
    FixedDelay {
        /// Restarts before the job fails.
        attempts: Attempts,
        /// Pause before each.
        delay: Duration,
    },
    /// A pause that grows.
    ExponentialDelay {
        /// Before the first restart.
        initial: Duration,
        /// The longest.
        max: Duration,
        /// From one to the next, from 1 to 100.
        multiplier: f64,
        /// Time without a failure after which all begins anew.
        reset_threshold: Duration,
        /// Part of the pause, from 0 to 1, that is added or taken away at random.
        jitter: f64,
        /// Restarts without a reset before the job fails.
        attempts: Attempts,
    },
    /// Gives up when failures come too often.
    FailureRate {
        /// Failures within the interval that the job lives through.
        max_failures: u32,
        /// The interval.
        interval: Duration,
        /// Pause before each restart.
        delay: Duration,
    },
}

/// Tasks, gates and outputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSettings {
    /// How long user code may take to come back after a cancellation; `None`: for ever.
    pub cancellation_timeout: Option<Duration>,
    /// How long a batch may stay open; zero: not beyond the pass.
    pub buffer_timeout: Duration,
    /// How much a gate queues.
    pub gate_budget: GateBudget,
    /// Encoded bytes it queues at most.
    pub gate_max_bytes: MemorySize,
    /// Bytes emitted beyond a full output so that a snapshot can begin.
    pub overdraft_max_bytes: MemorySize,
    /// The same in time.
    pub overdraft_max_time: Duration,
}

/// Sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSettings {
    /// Records that a push source may stage under its lock.
    pub max_staged_records: u32,
    /// After which a silent source is idle; `None`: never.
    pub idle_timeout: Option<Duration>,
}

/// The REST interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestSettings {
    /// Address to listen on.
    pub address: String,
    /// Whether and where.
    pub port: RestPort,
}

impl Default for Settings {
    /// The settings of a job that sets nothing.
    fn default() -> Self {
        Configuration::new().resolve().expect("the defaults go together")
    }
}

/// Makes the settings; what doesn't go together is added to `problems`.
pub(super) fn resolve(c: &Configuration, problems: &mut Vec<OptionError>) -> Settings {
    let checkpoints = checkpoints(c, problems);
    Settings {
        job: job(c, checkpoints.interval.is_some(), problems),
        recovery: RecoverySettings {
            from: c.find(&keys::RESTORE_PATH),
            new_lineage: c.get(&keys::NEW_LINEAGE),
        },
        restart: restart(c, checkpoints.interval.is_some(), problems),
        checkpoints,
        tasks: TaskSettings {
            cancellation_timeout: c.get(&keys::CANCELLATION_TIMEOUT),
            buffer_timeout: c.get(&keys::BUFFER_TIMEOUT),
            gate_budget: c.get(&keys::GATE_BUDGET),
            gate_max_bytes: c.get(&keys::GATE_MAX_BYTES),
            overdraft_max_bytes: c.get(&keys::OVERDRAFT_MAX_BYTES),
            overdraft_max_time: c.get(&keys::OVERDRAFT_MAX_TIME),
        },
        sources: SourceSettings {
            max_staged_records: c.get(&keys::MAX_STAGED_RECORDS),
            idle_timeout: c.get(&keys::IDLE_TIMEOUT),
        },
        rest: RestSettings {
            address: c.get(&keys::REST_ADDRESS),
            port: c.get(&keys::REST_PORT),
        },
    }
}

fn job(c: &Configuration, checkpoints_on: bool, problems: &mut Vec<OptionError>) -> JobSettings {
    let (parallelism, max_parallelism) = (c.get(&keys::PARALLELISM), c.get(&keys::MAX_PARALLELISM));
    if parallelism.0 > max_parallelism.0 {
        problems.push(OptionError::ParallelismAboveMax {
            parallelism,
            origin: c.origin(&keys::PARALLELISM),
            max: max_parallelism,
            max_origin: c.origin(&keys::MAX_PARALLELISM),
        });
    }
    let nameless =
        c.origin(&keys::PIPELINE_NAME) == Origin::Default && c.origin(&keys::JOB_ID) == Origin::Default;
    if checkpoints_on && nameless {
        problems.push(OptionError::Unnamed {
            origin: c.origin(&keys::CHECKPOINT_INTERVAL),
        });
    }
    let name = c.get(&keys::PIPELINE_NAME);
    JobSettings {
        id: c.find(&keys::JOB_ID).unwrap_or_else(|| JobId::new(name.clone())),
        name,
        parallelism,
        max_parallelism,
        state_backend: c.get(&keys::STATE_BACKEND),
        auto_watermark_interval: c.get(&keys::AUTO_WATERMARK_INTERVAL),
    }
}

fn checkpoints(c: &Configuration, problems: &mut Vec<OptionError>) -> CheckpointSettings {
    let mode = mode(c, problems);
    let (min_pause, max_concurrent) = (c.get(&keys::MIN_PAUSE), c.get(&keys::MAX_CONCURRENT));
    if max_concurrent > 1 {
        let concurrent_origin = c.origin(&keys::MAX_CONCURRENT);
        if !min_pause.is_zero() {
            problems.push(OptionError::MinPauseWithConcurrency {
                pause_origin: c.origin(&keys::MIN_PAUSE),
                concurrent: max_concurrent,
                concurrent_origin: concurrent_origin.clone(),
            });
        }
        if matches!(mode, SnapshotMode::Quiesce { .. }) {
            problems.push(OptionError::QuiesceWithConcurrency {
                mode_origin: c.origin(&keys::CHECKPOINT_MODE),
                concurrent: max_concurrent,
                concurrent_origin,
            });
        }
    }
    CheckpointSettings {
        interval: c.get(&keys::CHECKPOINT_INTERVAL),
        mode,
        timeout: c.get(&keys::CHECKPOINT_TIMEOUT),
        min_pause,
        max_concurrent,
        tolerable_failures: c.get(&keys::TOLERABLE_FAILURES),
        dir: c.find(&keys::CHECKPOINT_DIR),
        savepoint_dir: c.find(&keys::SAVEPOINT_DIR),
        num_retained: c.get(&keys::NUM_RETAINED),
        retention: c.get(&keys::RETENTION),
        after_tasks_finish: c.get(&keys::AFTER_TASKS_FINISH),
        inline_threshold: c.get(&keys::INLINE_THRESHOLD),
        inline_total: c.get(&keys::INLINE_TOTAL),
        history_size: c.get(&keys::CHECKPOINT_HISTORY),
    }
}

/// How long adaptive checkpoints stay aligned when nobody says.
const ADAPTIVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The mode that comes of `mode`, `unaligned.enabled` and `aligned-checkpoint-timeout`; the table in
/// `docs/configuration.md` says the same.
fn mode(c: &Configuration, problems: &mut Vec<OptionError>) -> SnapshotMode {
    let written = c.get(&keys::CHECKPOINT_MODE);
    let unaligned = c.find(&keys::UNALIGNED_ENABLED);
    let timeout = c.find(&keys::ALIGNED_TIMEOUT);
    let contradicted = match written {
        CheckpointingMode::ExactlyOnce => None,
        CheckpointingMode::Unaligned | CheckpointingMode::Adaptive => unaligned.filter(|enabled| !enabled),
        CheckpointingMode::Aligned | CheckpointingMode::AtLeastOnce | CheckpointingMode::Quiesce => {
            unaligned.filter(|enabled| *enabled)
        }
    };
    if let Some(enabled) = contradicted {
        let mode_origin = c.origin(&keys::CHECKPOINT_MODE);
        let unaligned_origin = c.origin(&keys::UNALIGNED_ENABLED);
        problems.push(if written == CheckpointingMode::AtLeastOnce {
            OptionError::AtLeastOnceUnaligned {
                mode_origin,
                unaligned_origin,
            }
        } else {
            let mode = written.render();
            OptionError::ModeContradictsUnaligned {
                mode,
                mode_origin,
                enabled,
                unaligned_origin,
            }
        });
    }
    match (written, unaligned) {
        (CheckpointingMode::ExactlyOnce, None) | (CheckpointingMode::Adaptive, _) => {
            adaptive(timeout.unwrap_or(ADAPTIVE_TIMEOUT))
        }
        (CheckpointingMode::ExactlyOnce, Some(true)) => adaptive(timeout.unwrap_or(Duration::ZERO)),
        (CheckpointingMode::ExactlyOnce, Some(false)) | (CheckpointingMode::Aligned, _) => {
            SnapshotMode::Aligned
        }
        (CheckpointingMode::Unaligned, _) => SnapshotMode::Unaligned,
        (CheckpointingMode::AtLeastOnce, _) => SnapshotMode::AtLeastOnce,
        (CheckpointingMode::Quiesce, _) => SnapshotMode::Quiesce {
            limit: c.get(&keys::QUIESCE_LIMIT),
        },
    }
}

/// Aligned for no time at all is unaligned from the start.
fn adaptive(timeout: Duration) -> SnapshotMode {
    if timeout.is_zero() {
        SnapshotMode::Unaligned
    } else {
        SnapshotMode::Adaptive { timeout }
    }
}

fn restart(c: &Configuration, checkpoints_on: bool, problems: &mut Vec<OptionError>) -> RestartStrategy {
    let default = || match checkpoints_on {
        true => RestartStrategyKind::ExponentialDelay,
        false => RestartStrategyKind::None,
    };
    match c.find(&keys::RESTART_STRATEGY).unwrap_or_else(default) {
        RestartStrategyKind::None => RestartStrategy::None,
        RestartStrategyKind::FixedDelay => RestartStrategy::FixedDelay {
            attempts: c.get(&keys::FIXED_DELAY_ATTEMPTS),
            delay: c.get(&keys::FIXED_DELAY_DELAY),
        },
        RestartStrategyKind::ExponentialDelay => {
            let (initial, max) = (c.get(&keys::EXPONENTIAL_INITIAL), c.get(&keys::EXPONENTIAL_MAX));
            if initial > max {
                problems.push(OptionError::BackoffAboveMax {
                    initial_origin: c.origin(&keys::EXPONENTIAL_INITIAL),
                    max_origin: c.origin(&keys::EXPONENTIAL_MAX),
                });
            }
            RestartStrategy::ExponentialDelay {
                initial,
                max,
                multiplier: c.get(&keys::EXPONENTIAL_MULTIPLIER),
                reset_threshold: c.get(&keys::EXPONENTIAL_RESET),
                jitter: c.get(&keys::EXPONENTIAL_JITTER),
                attempts: c.get(&keys::EXPONENTIAL_ATTEMPTS),
            }
        }
        RestartStrategyKind::FailureRate => RestartStrategy::FailureRate {
            max_failures: c.get(&keys::FAILURE_RATE_MAX),
            interval: c.get(&keys::FAILURE_RATE_INTERVAL),
            delay: c.get(&keys::FAILURE_RATE_DELAY),
        },
    }
}
