//! Every option is read: each changes the settings, and each setting is used where the table below says.
//!
//! The table is checked against the source, so an option without a reader, or one whose reader went away, fails here.
//! That the readers do the right thing is for the tests of each; this one only keeps options from being decoration.

use std::collections::BTreeMap;
use std::path::Path;

use tidegate::types::options::{Configuration, Settings, keys};

/// Option, a value other than its default, the file or directory that uses the setting, and the words with which it
/// does.
const READERS: &[(&str, &str, &str, &str)] = &[
    (
        "pipeline.name",
        "another",
        "tidegate/src/build.rs",
        "settings.job.name",
    ),
    (
        "pipeline.job-id",
        "another",
        "tidegate/src/build.rs",
        "settings.job.id",
    ),
    (
        "parallelism.default",
        "3",
        "tidegate/src/build.rs",
        "settings.job.parallelism",
    ),
    (
        "pipeline.max-parallelism",
        "77",
        "tidegate/src/build.rs",
        "settings.job.max_parallelism",
    ),
    (
        "pipeline.auto-watermark-interval",
        "1 s",
        DEFAULTS,
        "settings.job.auto_watermark_interval",
    ),
    (
        "execution.state-recovery.path",
        "latest",
        LOCAL,
        "settings.recovery.from",
    ),
    (
        "execution.state-recovery.new-lineage",
        "true",
        LOCAL,
        "settings.recovery.new_lineage",
    ),
    (
        "execution.checkpointing.interval",
        "7 s",
        CONFIGURED,
        "c.interval",
    ),
    (
        "execution.checkpointing.mode",
        "at-least-once",
        CONFIGURED,
        "c.mode",
    ),
    (
        "execution.checkpointing.unaligned.enabled",
        "true",
        CONFIGURED,
        "c.mode",
    ),
    (
        "execution.checkpointing.aligned-checkpoint-timeout",
        "7 s",
        CONFIGURED,
        "c.mode",
    ),
    ("execution.checkpointing.timeout", "7 s", CONFIGURED, "c.timeout"),
    (
        "execution.checkpointing.min-pause",
        "7 s",
        CONFIGURED,
        "c.min_pause",
    ),
    (
        "execution.checkpointing.max-concurrent-checkpoints",
        "2",
        CONFIGURED,
        "c.max_concurrent",
    ),
    (
        "execution.checkpointing.tolerable-failed-checkpoints",
        "2",
        CONFIGURED,
        "c.tolerable_failures",
    ),
    ("execution.checkpointing.dir", "/elsewhere", LOCAL, ".dir\n"),
    (
        "execution.checkpointing.savepoint-dir",
        "/elsewhere",
        LOCAL,
        "checkpoints.savepoint_dir",
    ),
    (
        "execution.checkpointing.num-retained",
        "2",
        CONFIGURED,
        "c.num_retained",
    ),
    (
        "execution.checkpointing.externalized-checkpoint-retention",
        "RETAIN_ON_CANCELLATION",
        LOCAL,
        "checkpoints.retention",
    ),
    (
        "execution.checkpointing.checkpoints-after-tasks-finish",
        "false",
        CONFIGURED,
        "c.after_tasks_finish",
    ),
    (
        "execution.checkpointing.data-inline-threshold",
        "1 kb",
        LOCAL,
        "inline_threshold",
    ),
    (
        "execution.checkpointing.data-inline-total-limit",
        "1 kb",
        LOCAL,
        "inline_total",
    ),
    ("web.checkpoints.history", "7", CONFIGURED, "c.history_size"),
    (
        "task.cancellation.timeout",
        "7 s",
        LOCAL,
        "tasks.cancellation_timeout",
    ),
    (
        "execution.buffer-timeout.interval",
        "7 s",
        CONFIGURED,
        "t.buffer_timeout",
    ),
    ("task.gate.budget", "fixed:7", CONFIGURED, "t.gate_budget"),
    ("task.gate.max-bytes", "7 mb", CONFIGURED, "t.gate_max_bytes"),
    (
        "task.overdraft.max-bytes",
        "7 mb",
        CONFIGURED,
        "t.overdraft_max_bytes",
    ),
    (
        "task.overdraft.max-time",
        "7 s",
        CONFIGURED,
        "t.overdraft_max_time",
    ),
    (
        "source.max-staged-records",
        "7",
        DEFAULTS,
        "settings.sources.max_staged_records",
    ),
    (
        "source.idle-timeout",
        "7 s",
        DEFAULTS,
        "settings.sources.idle_timeout",
    ),
    (
        "rest.address",
        "0.0.0.0",
        "tidegate-web/src/address.rs",
        "settings.address",
    ),
    ("rest.port", "7", "tidegate-web/src/address.rs", "settings.port"),
];

const CONFIGURED: &str = "tidegate-runtime/src/master/configured.rs";
const LOCAL: &str = "tidegate-runtime/src/master";
const DEFAULTS: &str = "tidegate-runtime/src/chain/defaults.rs";

/// Options that mean something together with another one only, with what must be set beside them.
const BESIDE: &[(&str, &str, &str, &str)] = &[
    (
        "execution.checkpointing.quiesce-limit",
        "7 s",
        "execution.checkpointing.mode",
        "quiesce",
    ),
    (
        "restart-strategy.fixed-delay.attempts",
        "7",
        STRATEGY,
        "fixed-delay",
    ),
    (
        "restart-strategy.fixed-delay.delay",
        "7 s",
        STRATEGY,
        "fixed-delay",
    ),
    (
        "restart-strategy.exponential-delay.initial-backoff",
        "7 s",
        STRATEGY,
        EXPONENTIAL,
    ),
    (
        "restart-strategy.exponential-delay.max-backoff",
        "7 s",
        STRATEGY,
        EXPONENTIAL,
    ),
    (
        "restart-strategy.exponential-delay.backoff-multiplier",
        "7",
        STRATEGY,
        EXPONENTIAL,
    ),
    (
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        "7 s",
        STRATEGY,
        EXPONENTIAL,
    ),
    (
        "restart-strategy.exponential-delay.jitter-factor",
        "0.7",
        STRATEGY,
        EXPONENTIAL,
    ),
    (
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        "7",
        STRATEGY,
        EXPONENTIAL,
    ),
    (
        "restart-strategy.failure-rate.max-failures-per-interval",
        "7",
        STRATEGY,
        "failure-rate",
    ),
    (
        "restart-strategy.failure-rate.failure-rate-interval",
        "7 s",
        STRATEGY,
        "failure-rate",
    ),
    (
        "restart-strategy.failure-rate.delay",
        "7 s",
        STRATEGY,
        "failure-rate",
    ),
];

const STRATEGY: &str = "restart-strategy.type";
const EXPONENTIAL: &str = "exponential-delay";

/// Options with one value only so far: nothing can depend on them.
const ONE_VALUE: &[&str] = &["state.backend.type"];

fn settings(set: &[(&str, &str)]) -> Settings {
    let mut configuration = Configuration::new();
    configuration.set_text("pipeline.name", "a-name");
    for (key, value) in set {
        configuration.set_text(key, value);
    }
    configuration.resolve().unwrap_or_else(|e| panic!("{set:?}: {e}"))
}

#[test]
fn the_tables_name_every_option_once() {
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    let named = READERS.iter().map(|r| r.0).chain(BESIDE.iter().map(|r| r.0));
    for key in named.chain(ONE_VALUE.iter().copied()).chain([STRATEGY]) {
        *times.entry(key).or_default() += 1;
    }
    for option in keys::ALL {
        let key = option.spec().key;
        assert_eq!(times.remove(key), Some(1), "{key}: say in this test who reads it");
    }
    assert!(times.is_empty(), "no such options: {times:?}");
}

#[test]
fn every_option_changes_the_settings() {
    for (key, value, ..) in READERS {
        assert_ne!(settings(&[(key, value)]), settings(&[]), "{key} changes nothing");
    }
    for (key, value, other, beside) in BESIDE {
        let (with, without) = (
            settings(&[(other, beside), (key, value)]),
            settings(&[(other, beside)]),
        );
        assert_ne!(with, without, "{key} changes nothing beside {other}: {beside}");
    }
}

/// The text of a file, or of all files below a directory.
fn text(path: &Path) -> String {
    if !path.is_dir() {
        return std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let entries = std::fs::read_dir(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    entries
        .map(|entry| text(&entry.expect("an entry").path()))
        .collect()
}

#[test]
fn every_setting_is_used_where_the_table_says() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (key, _, place, words) in READERS {
        let used = text(&crates.join(place)).contains(words);
        assert!(used, "{key}: {place} doesn't say {words:?} any more");
    }
    let restart = text(&crates.join(CONFIGURED)).contains("match settings.restart");
    assert!(restart, "restart strategies are read");
}
