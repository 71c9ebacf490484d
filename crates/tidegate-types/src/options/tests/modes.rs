//! The checkpointing mode out of three options, and the combinations that are refused.

use std::time::Duration;

use super::problems;
use crate::SnapshotMode;
use crate::options::{Configuration, OptionError, Origin, RestartStrategy};

fn with(options: &[(&str, &str)]) -> Configuration {
    let mut configuration = Configuration::new();
    for (key, text) in options {
        configuration.add_argument(&format!("{key}={text}"));
    }
    configuration
}

const MODE: &str = "execution.checkpointing.mode";
const UNALIGNED: &str = "execution.checkpointing.unaligned.enabled";
const TIMEOUT: &str = "execution.checkpointing.aligned-checkpoint-timeout";

#[test]
fn modes_come_of_three_options() {
    let adaptive = |secs| SnapshotMode::Adaptive {
        timeout: Duration::from_secs(secs),
    };
    let quiesce = SnapshotMode::Quiesce {
        limit: Duration::from_secs(30),
    };
    let cases: &[(&[(&str, &str)], SnapshotMode)] = &[
        (&[], adaptive(1)),
        (&[(TIMEOUT, "5 s")], adaptive(5)),
        (&[(TIMEOUT, "0")], SnapshotMode::Unaligned),
        (&[(UNALIGNED, "true")], SnapshotMode::Unaligned),
        (&[(UNALIGNED, "true"), (TIMEOUT, "5 s")], adaptive(5)),
        (&[(UNALIGNED, "false")], SnapshotMode::Aligned),
        (&[(UNALIGNED, "false"), (TIMEOUT, "5 s")], SnapshotMode::Aligned),
        (&[(MODE, "EXACTLY_ONCE")], adaptive(1)),
        (
            &[(MODE, "EXACTLY_ONCE"), (UNALIGNED, "true"), (TIMEOUT, "0 ms")],
            SnapshotMode::Unaligned,
        ),
        (&[(MODE, "aligned"), (TIMEOUT, "5 s")], SnapshotMode::Aligned),
        (&[(MODE, "aligned"), (UNALIGNED, "false")], SnapshotMode::Aligned),
        (&[(MODE, "unaligned"), (TIMEOUT, "5 s")], SnapshotMode::Unaligned),
        (&[(MODE, "adaptive")], adaptive(1)),
        (&[(MODE, "adaptive"), (UNALIGNED, "true")], adaptive(1)),
        (&[(MODE, "adaptive"), (TIMEOUT, "0")], SnapshotMode::Unaligned),
        (
            &[(MODE, "AT_LEAST_ONCE"), (TIMEOUT, "5 s")],
            SnapshotMode::AtLeastOnce,
        ),
        (&[(MODE, "quiesce")], quiesce),
    ];
    for (options, mode) in cases {
        assert_eq!(
            with(options).resolve().unwrap().checkpoints.mode,
            *mode,
            "{options:?}"
        );
    }
}

#[test]
fn contradictions_name_both_places() {
    let configuration = with(&[(MODE, "at-least-once"), (UNALIGNED, "true")]);
    let errors = configuration.resolve().unwrap_err();
    let expected = OptionError::AtLeastOnceUnaligned {
        mode_origin: Origin::CommandLine,
        unaligned_origin: Origin::CommandLine,
    };
    assert_eq!(errors.problems(), [expected]);

    for (mode, enabled) in [
        ("aligned", "true"),
        ("quiesce", "true"),
        ("unaligned", "false"),
        ("adaptive", "false"),
    ] {
        let errors = with(&[(MODE, mode), (UNALIGNED, enabled)]).resolve().unwrap_err();
        assert!(
            matches!(errors.problems(), [OptionError::ModeContradictsUnaligned { .. }]),
            "{mode} {enabled}: {errors}"
        );
    }
}

#[test]
fn pause_and_concurrency_exclude_each_other() {
    let both = [
        ("execution.checkpointing.min-pause", "1 ms"),
        ("execution.checkpointing.max-concurrent-checkpoints", "2"),
    ];
    assert!(matches!(
        with(&both).resolve().unwrap_err().problems(),
        [OptionError::MinPauseWithConcurrency { concurrent: 2, .. }]
    ));
    for one in both {
        assert_eq!(problems(&with(&[one])), [""; 0], "{one:?} alone is fine");
    }
}

#[test]
fn all_combinations_are_reported_at_once() {
    let configuration = with(&[
        (MODE, "quiesce"),
        (UNALIGNED, "true"),
        ("execution.checkpointing.interval", "1 s"),
        ("execution.checkpointing.min-pause", "1 s"),
        ("execution.checkpointing.max-concurrent-checkpoints", "3"),
        ("parallelism.default", "129"),
        ("restart-strategy.exponential-delay.max-backoff", "1 ms"),
    ]);
    let found = configuration.resolve().unwrap_err();
    let kinds: Vec<&str> = found
        .problems()
        .iter()
        .map(|problem| match problem {
            OptionError::ModeContradictsUnaligned { .. } => "mode",
            OptionError::MinPauseWithConcurrency { .. } => "pause",
            OptionError::QuiesceWithConcurrency { .. } => "quiesce",
            OptionError::ParallelismAboveMax { .. } => "parallelism",
            OptionError::Unnamed { .. } => "unnamed",
            OptionError::BackoffAboveMax { .. } => "backoff",
            other => panic!("unexpected: {other}"),
        })
        .collect();
    assert_eq!(
        kinds,
        ["mode", "pause", "quiesce", "parallelism", "unnamed", "backoff"]
    );
    assert!(
        found.to_string().starts_with("configuration: 6 problems\n  1. "),
        "{found}"
    );
}

#[test]
fn restarts_default_to_exponential_delay_only_with_checkpoints() {
    let off = with(&[]).resolve().unwrap().restart;
    assert_eq!(off, RestartStrategy::None);
    let on = [
        ("pipeline.name", "x"),
        ("execution.checkpointing.interval", "1 s"),
    ];
    assert!(matches!(
        with(&on).resolve().unwrap().restart,
        RestartStrategy::ExponentialDelay { .. }
    ));
}
