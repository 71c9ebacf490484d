//! Every option of the engine, declared once: key, type, default, meaning and Flink's counterpart.
//!
//! The loader, the typed settings, `tidegate config` and `docs/configuration.md` are all made from these
//! declarations. To add an option: declare it here, read it in `settings`, and bless the documentation with
//! `cargo xtask docs`.

use std::time::Duration;

use super::kinds::{
    Attempts, CheckpointRetention, CheckpointingMode, GateBudget, RestPort, RestartStrategyKind, RestoreFrom,
    StateBackendKind,
};
use super::spec::{Declared, DefaultValue, Flink, Opt, Spec};
use super::value::MemorySize;
use crate::ids::{JobId, MaxParallelism, Parallelism};

/// Declares the options as statics, and [`ALL`] with every one of them in order.
macro_rules! declare {
    ($(group $group:literal { $(
        $name:ident: $type:ty = $key:literal {
            default: $default:ident($text:literal),
            $(range: $range:literal => $accepts:expr,)?
            meaning: $meaning:literal,
            flink: $flink:expr,
            $(former: [$($former:literal),+],)?
        }
    )+ })+) => {
        $($(
            #[doc = concat!("`", $key, "`: ", $meaning)]
            pub static $name: Opt<$type> = Opt {
                spec: Spec {
                    key: $key,
                    group: $group,
                    default: DefaultValue::$default($text),
                    range: declare!(@range $($range)?),
                    meaning: $meaning,
                    flink: $flink,
                    former: &[$($($former),+)?],
                },
                accepts: declare!(@accepts $($accepts)?),
            };
        )+)+

        /// Every option, in the order of the documentation.
        pub static ALL: &[&dyn Declared] = &[$($(&$name),+),+];
    };
    (@range) => { None };
    (@range $range:literal) => { Some($range) };
    (@accepts) => { |_| true };
    (@accepts $accepts:expr) => { $accepts };
}

const MS: Duration = Duration::from_millis(1);

declare! {
    group "Job" {
        PIPELINE_NAME: String = "pipeline.name" {
            default: Value("tidegate-job"),
            meaning: "The job's name, shown in logs, metrics and the web interface.",
            flink: Flink::Differs("Flink's default is `Flink Streaming Job`."),
        }
        JOB_ID: JobId = "pipeline.job-id" {
            default: Unset("the job's name"),
            meaning: "The job's stable identity: it names the checkpoint directory, so a job finds its \
                      checkpoints again after a restart, and a second job with a running id is refused.",
            flink: Flink::Other("$internal.pipeline.job-id", "Flink draws a random id per submission."),
        }
        PARALLELISM: Parallelism = "parallelism.default" {
            default: Value("1"),
            meaning: "Subtasks of an operator that doesn't set its own parallelism.",
            flink: Flink::Same,
        }
        MAX_PARALLELISM: MaxParallelism = "pipeline.max-parallelism" {
            default: Value("128"),
            meaning: "Key groups that keyed state is divided into: the upper bound of a job's parallelism, fixed \
                      for the life of its state.",
            flink: Flink::Differs("Flink derives it from the parallelism when unset (`-1`)."),
        }
        AUTO_WATERMARK_INTERVAL: Duration = "pipeline.auto-watermark-interval" {
            default: Value("200 ms"),
            range: "at least 1 ms" => |d| *d >= MS,
            meaning: "How often watermark generators emit that have no interval of their own.",
            flink: Flink::Differs("Zero isn't accepted; Flink reads it as off."),
        }
        RESTORE_PATH: RestoreFrom = "execution.state-recovery.path" {
            default: Unset("starts without state"),
            meaning: "What to restore: `latest` for the newest completed checkpoint of this job (none there: it \
                      starts without state), or the path of a checkpoint or savepoint.",
            flink: Flink::Differs("`latest` is ours."),
            former: ["execution.savepoint.path"],
        }
        NEW_LINEAGE: bool = "execution.state-recovery.new-lineage" {
            default: Value("false"),
            meaning: "Allows restoring a checkpoint that is older than what two-phase sinks have committed, or \
                      beginning anew beside it: output after it is produced again, under new names.",
            flink: Flink::None,
        }
        STATE_BACKEND: StateBackendKind = "state.backend.type" {
            default: Value("memory"),
            meaning: "Where keyed state lives.",
            flink: Flink::Differs("`hashmap` is read as `memory`."),
            former: ["state.backend"],
        }
    }
    group "Checkpoints" {
        CHECKPOINT_INTERVAL: Option<Duration> = "execution.checkpointing.interval" {
            default: Value("off"),
            range: "at least 10 ms" => |d: &Option<Duration>| d.is_none_or(|d| d >= 10 * MS),
            meaning: "Time from one periodic checkpoint's trigger to the next. Off: only when asked for.",
            flink: Flink::Differs("`off` is ours; in Flink unset means that."),
        }
        CHECKPOINT_MODE: CheckpointingMode = "execution.checkpointing.mode" {
            default: Value("exactly-once"),
            meaning: "How barriers and in-flight data are treated, together with `unaligned.enabled` and \
                      `aligned-checkpoint-timeout`; docs/configuration.md has a table of what comes of the three. By \
                      default: adaptive.",
            flink: Flink::Differs("Flink has `EXACTLY_ONCE` and `AT_LEAST_ONCE`; both are read here."),
        }
        UNALIGNED_ENABLED: bool = "execution.checkpointing.unaligned.enabled" {
            default: Unset("as the mode says"),
            meaning: "Whether barriers may overtake records; narrows `exactly-once`, and must not contradict any \
                      other mode.",
            flink: Flink::Differs("Flink's default is false; here unset means that adaptive decides."),
            former: ["execution.checkpointing.unaligned"],
        }
        ALIGNED_TIMEOUT: Duration = "execution.checkpointing.aligned-checkpoint-timeout" {
            default: Unset("1 s when adaptive; 0 ms when `unaligned.enabled` is set"),
            meaning: "How long, counted from the trigger, an adaptive checkpoint stays aligned before barriers \
                      overtake. Zero: unaligned from the start.",
            flink: Flink::Differs("Flink's default is 0 ms, with unaligned checkpoints off."),
            former: ["execution.checkpointing.alignment-timeout"],
        }
        QUIESCE_LIMIT: Duration = "execution.checkpointing.quiesce-limit" {
            default: Value("30 s"),
            range: "at least 1 ms" => |d| *d >= MS,
            meaning: "How long a quiesced snapshot may hold the sources before it is aborted and the job goes on.",
            flink: Flink::None,
        }
        CHECKPOINT_TIMEOUT: Duration = "execution.checkpointing.timeout" {
            default: Value("10 min"),
            range: "at least 10 ms" => |d| *d >= 10 * MS,
            meaning: "How long a checkpoint may take before it is aborted.",
            flink: Flink::Same,
        }
        MIN_PAUSE: Duration = "execution.checkpointing.min-pause" {
            default: Value("0 ms"),
            meaning: "Least time between the end of one checkpoint and the trigger of the next. Above zero only \
                      with one checkpoint at a time.",
            flink: Flink::Differs("Flink silently sets the number of concurrent checkpoints to one; here both \
                                   together are refused."),
        }
        MAX_CONCURRENT: u32 = "execution.checkpointing.max-concurrent-checkpoints" {
            default: Value("1"),
            range: "at least 1" => |n| *n >= 1,
            meaning: "Checkpoints that may be in progress at once, unaligned ones included.",
            flink: Flink::Differs("Flink refuses more than one with unaligned checkpoints."),
        }
        TOLERABLE_FAILURES: u32 = "execution.checkpointing.tolerable-failed-checkpoints" {
            default: Value("0"),
            meaning: "Consecutive failed checkpoints the job lives through; one more restarts it. Subsumed and \
                      not-ready checkpoints don't count; an error in the cut always fails the task.",
            flink: Flink::Same,
        }
        CHECKPOINT_DIR: String = "execution.checkpointing.dir" {
            default: Unset("no checkpoints can be written"),
            meaning: "Directory of checkpoints: a path or a URL; each job has a directory of its id in it.",
            flink: Flink::Differs("Without it Flink keeps checkpoints in the JobManager's memory."),
            former: ["state.checkpoints.dir"],
        }
        SAVEPOINT_DIR: String = "execution.checkpointing.savepoint-dir" {
            default: Unset("named with each savepoint"),
            meaning: "Directory of savepoints for which none is named.",
            flink: Flink::Same,
            former: ["state.savepoints.dir"],
        }
        NUM_RETAINED: u32 = "execution.checkpointing.num-retained" {
            default: Value("1"),
            range: "at least 1" => |n| *n >= 1,
            meaning: "Completed checkpoints that are kept.",
            flink: Flink::Same,
            former: ["state.checkpoints.num-retained"],
        }
        RETENTION: CheckpointRetention = "execution.checkpointing.externalized-checkpoint-retention" {
            default: Value("DELETE_ON_CANCELLATION"),
            meaning: "What becomes of the retained checkpoints when the job is cancelled. SIGTERM isn't a \
                      cancellation: it takes a last checkpoint and keeps it.",
            flink: Flink::Differs("Flink's default `NO_EXTERNALIZED_CHECKPOINTS` doesn't exist: retained \
                                   checkpoints always survive a failure."),
        }
        AFTER_TASKS_FINISH: bool = "execution.checkpointing.checkpoints-after-tasks-finish" {
            default: Value("true"),
            meaning: "Whether checkpoints go on after some subtasks have finished, and a bounded job takes a last \
                      one before its sinks finish.",
            flink: Flink::Differs("With `false` two-phase sinks refuse to start: their last output would be lost."),
            former: ["execution.checkpointing.checkpoints-after-tasks-finish.enabled"],
        }
        INLINE_THRESHOLD: MemorySize = "execution.checkpointing.data-inline-threshold" {
            default: Value("256 kb"),
            range: "at most 16 mb" => |size| *size <= MemorySize::mib(16),
            meaning: "Bytes of one subtask's state up to which it travels inside `_metadata` and not in a file.",
            flink: Flink::Differs("Flink: 20 kb per state handle, at most 1 mb."),
            former: ["state.storage.fs.memory-threshold", "state.backend.fs.memory-threshold"],
        }
        INLINE_TOTAL: MemorySize = "execution.checkpointing.data-inline-total-limit" {
            default: Value("16 mb"),
            range: "at most 256 mb" => |size| *size <= MemorySize::mib(256),
            meaning: "Bytes of all subtasks' state inside one `_metadata`; what comes after goes into files.",
            flink: Flink::None,
        }
        CHECKPOINT_HISTORY: u32 = "web.checkpoints.history" {
            default: Value("10"),
            range: "from 1 to 10000" => |n| (1..=10_000).contains(n),
            meaning: "Checkpoints, failed ones included, that REST interface and web page remember.",
            flink: Flink::Same,
        }
    }
    group "Restarts" {
        RESTART_STRATEGY: RestartStrategyKind = "restart-strategy.type" {
            default: Unset("exponential-delay if checkpoints are on, else none"),
            meaning: "What happens after a failure.",
            flink: Flink::Same,
            former: ["restart-strategy"],
        }
        FIXED_DELAY_ATTEMPTS: Attempts = "restart-strategy.fixed-delay.attempts" {
            default: Value("1"),
            meaning: "Restarts before the job fails.",
            flink: Flink::Differs("`infinite` is ours."),
        }
        FIXED_DELAY_DELAY: Duration = "restart-strategy.fixed-delay.delay" {
            default: Value("1 s"),
            meaning: "Pause before each restart.",
            flink: Flink::Same,
        }
        EXPONENTIAL_INITIAL: Duration = "restart-strategy.exponential-delay.initial-backoff" {
            default: Value("1 s"),
            range: "at least 1 ms" => |d| *d >= MS,
            meaning: "Pause before the first restart.",
            flink: Flink::Same,
        }
        EXPONENTIAL_MAX: Duration = "restart-strategy.exponential-delay.max-backoff" {
            default: Value("1 min"),
            meaning: "The longest pause.",
            flink: Flink::Same,
        }
        EXPONENTIAL_MULTIPLIER: f64 = "restart-strategy.exponential-delay.backoff-multiplier" {
            default: Value("1.5"),
            range: "from 1 to 100" => |f| (1.0..=100.0).contains(f),
            meaning: "By how much each pause is longer than the one before.",
            flink: Flink::Same,
        }
        EXPONENTIAL_RESET: Duration = "restart-strategy.exponential-delay.reset-backoff-threshold" {
            default: Value("1 h"),
            meaning: "Time without a failure after which the pause is short again and attempts count anew.",
            flink: Flink::Same,
        }
        EXPONENTIAL_JITTER: f64 = "restart-strategy.exponential-delay.jitter-factor" {
            default: Value("0.1"),
            range: "from 0 to 1" => |f| (0.0..=1.0).contains(f),
            meaning: "Part of the pause that is added or taken away at random.",
            flink: Flink::Same,
        }
        EXPONENTIAL_ATTEMPTS: Attempts = "restart-strategy.exponential-delay.attempts-before-reset-backoff" {
            default: Value("infinite"),
            meaning: "Restarts without a reset in between before the job fails.",
            flink: Flink::Same,
        }
        FAILURE_RATE_MAX: u32 = "restart-strategy.failure-rate.max-failures-per-interval" {
            default: Value("1"),
            range: "at least 1" => |n| *n >= 1,
            meaning: "Failures within the interval that the job lives through.",
            flink: Flink::Same,
        }
        FAILURE_RATE_INTERVAL: Duration = "restart-strategy.failure-rate.failure-rate-interval" {
            default: Value("1 min"),
            range: "at least 1 ms" => |d| *d >= MS,
            meaning: "The interval over which failures are counted.",
            flink: Flink::Same,
        }
        FAILURE_RATE_DELAY: Duration = "restart-strategy.failure-rate.delay" {
            default: Value("1 s"),
            meaning: "Pause before each restart.",
            flink: Flink::Same,
        }
    }
    group "Tasks and data exchange" {
        CANCELLATION_TIMEOUT: Option<Duration> = "task.cancellation.timeout" {
            default: Value("30 s"),
            meaning: "How long user code may take to come back after its task was cancelled; then its handles are \
                      revoked and its thread is abandoned. Off: waits for ever.",
            flink: Flink::Differs("Flink's default is 180 s, and at the limit it ends the whole process."),
        }
        BUFFER_TIMEOUT: Duration = "execution.buffer-timeout.interval" {
            default: Value("5 ms"),
            meaning: "How long a batch may stay open before it is sent; a task that goes idle sends at once. \
                      Zero: every pass sends what it has.",
            flink: Flink::Differs("Flink's default is 100 ms."),
            former: ["execution.buffer-timeout"],
        }
        GATE_BUDGET: GateBudget = "task.gate.budget" {
            default: Value("100 ms"),
            meaning: "How much a gate queues: what its task works off in this time, or `fixed:N` records per \
                      channel, the textbook behaviour.",
            flink: Flink::Other(
                "taskmanager.network.memory.buffer-debloat.target",
                "Flink: off by default, target 1 s, in buffers and not records."
            ),
        }
        GATE_MAX_BYTES: MemorySize = "task.gate.max-bytes" {
            default: Value("4 mb"),
            range: "at least 1 kb" => |size| *size >= MemorySize::kib(1),
            meaning: "Encoded bytes a gate queues at most, whatever the budget says. A single larger record still \
                      passes.",
            flink: Flink::Other(
                "taskmanager.network.memory.buffers-per-channel",
                "Flink limits buffers per channel and per gate, not bytes."
            ),
        }
        OVERDRAFT_MAX_BYTES: MemorySize = "task.overdraft.max-bytes" {
            default: Value("64 mb"),
            meaning: "Encoded bytes, estimated from one item in 64, that a suspended `flat_map` iterator may emit \
                      beyond a full output so that a snapshot can begin; after that it waits for room.",
            flink: Flink::Other(
                "taskmanager.network.memory.max-overdraft-buffers-per-gate",
                "Flink: 5 buffers per gate."
            ),
        }
        OVERDRAFT_MAX_TIME: Duration = "task.overdraft.max-time" {
            default: Value("1 s"),
            meaning: "The same in time.",
            flink: Flink::None,
        }
        MAX_STAGED_RECORDS: u32 = "source.max-staged-records" {
            default: Value("10000"),
            range: "at least 1" => |n| *n >= 1,
            meaning: "Records that a push source may emit under one hold of the checkpoint lock before they are \
                      published although it is held; no snapshot falls until it is released. A source's own \
                      `max_staged` goes first.",
            flink: Flink::None,
        }
        IDLE_TIMEOUT: Option<Duration> = "source.idle-timeout" {
            default: Value("off"),
            meaning: "A subtask of a watermark generator that has seen no record for this long marks its stream \
                      idle, which then holds no watermark back. A strategy's own idleness goes first.",
            flink: Flink::Other("table.exec.source.idle-timeout", "In Flink's DataStream API: `withIdleness`."),
        }
    }
    group "REST interface" {
        REST_ADDRESS: String = "rest.address" {
            default: Value("localhost"),
            meaning: "Address the REST interface listens on: a name or an IP address.",
            flink: Flink::Differs("In Flink the address clients connect to; `rest.bind-address` is where it \
                                   listens."),
            former: ["rest.bind-address", "jobmanager.web.address"],
        }
        REST_PORT: RestPort = "rest.port" {
            default: Value("off"),
            meaning: "Port of REST interface, web page and Prometheus metrics; 0 takes any free one. A job that \
                      runs inside your program opens none, unless the program starts a server with these settings. \
                      `tidegate savepoint`, `stop` and `cancel` ask at 8081 unless `--rest` says where.",
            flink: Flink::Differs("Flink's default is 8081."),
            former: ["rest.bind-port", "jobmanager.web.port"],
        }
    }
}
