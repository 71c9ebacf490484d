use std::time::Duration;

use tidegate_types::SnapshotMode;

use super::rig::ms;
use crate::coordinator::{CoordinatorSettings, SettingsError};

#[test]
fn defaults_are_those_of_the_documentation() {
    let settings = CoordinatorSettings::default();
    assert_eq!(settings.validate(), Ok(()));
    assert_eq!((settings.interval, settings.timeout), (None, ms(600_000)));
    assert_eq!((settings.min_pause, settings.max_concurrent), (Duration::ZERO, 1));
    assert_eq!(
        (
            settings.tolerable_failures,
            settings.num_retained,
            settings.history_size
        ),
        (0, 1, 10)
    );
    assert_eq!(settings.mode, SnapshotMode::Adaptive { timeout: ms(1000) });
    assert!(settings.after_tasks_finish && settings.storage);
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let base = CoordinatorSettings::default;
    let cases = [
        (
            CoordinatorSettings {
                interval: Some(ms(9)),
                ..base()
            },
            SettingsError::Interval(ms(9)),
            "execution.checkpointing.interval is 9ms; it must be at least 10ms",
        ),
        (
            CoordinatorSettings {
                timeout: Duration::ZERO,
                ..base()
            },
            SettingsError::Timeout(Duration::ZERO),
            "execution.checkpointing.timeout is 0ns; it must be at least 10ms",
        ),
        (
            CoordinatorSettings {
                max_concurrent: 0,
                ..base()
            },
            SettingsError::NoConcurrency,
            "execution.checkpointing.max-concurrent-checkpoints is 0; it must be at least 1",
        ),
        (
            CoordinatorSettings {
                min_pause: ms(1),
                max_concurrent: 2,
                ..base()
            },
            SettingsError::PauseWithConcurrency {
                min_pause: ms(1),
                max_concurrent: 2,
            },
            "execution.checkpointing.min-pause is 1ms and max-concurrent-checkpoints is 2; a pause between \
             checkpoints needs max-concurrent-checkpoints = 1",
        ),
        (
            CoordinatorSettings {
                num_retained: 0,
                ..base()
            },
            SettingsError::NothingRetained,
            "execution.checkpointing.num-retained is 0; it must be at least 1",
        ),
    ];
    for (settings, error, text) in cases {
        assert_eq!(settings.validate(), Err(error.clone()));
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn an_adaptive_timeout_of_zero_is_unaligned() {
    let of = |mode| CoordinatorSettings {
        mode,
        ..CoordinatorSettings::default()
    };
    let adaptive = |timeout| SnapshotMode::Adaptive { timeout };
    assert_eq!(
        of(adaptive(Duration::ZERO)).checkpoint_mode(),
        SnapshotMode::Unaligned
    );
    assert_eq!(of(adaptive(ms(1))).checkpoint_mode(), adaptive(ms(1)));
}

#[test]
fn savepoints_align_unless_asked_or_bound_otherwise() {
    let of = |mode| CoordinatorSettings {
        mode,
        ..CoordinatorSettings::default()
    };
    let quiesce = SnapshotMode::Quiesce { limit: ms(30_000) };
    for mode in [
        SnapshotMode::Aligned,
        SnapshotMode::Unaligned,
        SnapshotMode::Adaptive { timeout: ms(5) },
    ] {
        assert_eq!(of(mode).savepoint_mode(false), SnapshotMode::Aligned);
        assert_eq!(of(mode).savepoint_mode(true), SnapshotMode::Unaligned);
    }
    for mode in [SnapshotMode::AtLeastOnce, quiesce] {
        assert_eq!(of(mode).savepoint_mode(false), mode);
        assert_eq!(of(mode).savepoint_mode(true), mode);
    }
}
