//! The notation of values.

use std::time::Duration;

use proptest::prelude::*;

use crate::options::{
    Attempts, CheckpointRetention, CheckpointingMode, GateBudget, MAX_DURATION, MemorySize, OptionValue,
    RestPort,
};
use crate::{MaxParallelism, Parallelism};

#[test]
fn durations() {
    let ms = Duration::from_millis;
    for (text, expected) in [
        ("10 min", Some(ms(600_000))),
        ("10m", Some(ms(600_000))),
        ("500ms", Some(ms(500))),
        ("500", Some(ms(500))),
        ("2 S", Some(ms(2_000))),
        ("1 day", Some(ms(86_400_000))),
        ("3 µs", Some(Duration::from_micros(3))),
        ("PT1H30M", Some(ms(5_400_000))),
        ("P1DT0.5S", Some(ms(86_400_500))),
        ("pt0s", Some(ms(0))),
        ("P2D", Some(ms(172_800_000))),
        ("36500 d", Some(MAX_DURATION)),
        ("36501 d", None),
        ("18446744073709551615 d", None),
        ("99999999999999999999 s", None),
        ("-1 s", None),
        ("1.5 s", None),
        ("1 fortnight", None),
        ("s", None),
        ("", None),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("PT1M1H", None),
        ("PT1.5H", None),
        ("P1Y", None),
        ("PT1", None),
        ("PTS", None),
        ("PT1µS", None),
    ] {
        assert_eq!(Duration::parse(text), expected, "{text:?}");
    }
    assert_eq!(<Option<Duration>>::parse("off"), Some(None));
    assert_eq!(<Option<Duration>>::parse("0 s"), Some(None));
    assert_eq!(<Option<Duration>>::parse("1 s"), Some(Some(ms(1_000))));
}

#[test]
fn sizes() {
    for (text, expected) in [
        ("256kb", Some(256 << 10)),
        ("4 MiB", Some(4 << 20)),
        ("4 m", Some(4 << 20)),
        ("17", Some(17)),
        ("17 b", Some(17)),
        ("16777215 tb", Some(16_777_215 << 40)),
        ("16777216 tb", None),
        ("1.5 gb", None),
        ("4 mbit", None),
        ("", None),
    ] {
        assert_eq!(
            MemorySize::parse(text).map(MemorySize::bytes),
            expected,
            "{text:?}"
        );
    }
}

#[test]
fn names_ignore_case_and_kind_of_dash() {
    for text in ["exactly-once", "EXACTLY_ONCE", "Exactly_Once"] {
        assert_eq!(
            CheckpointingMode::parse(text),
            Some(CheckpointingMode::ExactlyOnce)
        );
    }
    assert_eq!(
        CheckpointRetention::parse("retain-on-cancellation"),
        Some(CheckpointRetention::RetainOnCancellation)
    );
    assert_eq!(CheckpointingMode::parse("exactly once"), None);
}

#[test]
fn values_with_a_form_of_their_own() {
    assert_eq!(GateBudget::parse("fixed:10"), Some(GateBudget::Fixed(10)));
    assert_eq!(
        GateBudget::parse("50ms"),
        Some(GateBudget::Time(Duration::from_millis(50)))
    );
    for text in ["fixed:0", "fixed:", "fixed", "0 ms", "loose:3"] {
        assert_eq!(GateBudget::parse(text), None, "{text}");
    }
    assert_eq!(Attempts::parse("infinite"), Some(Attempts::Unlimited));
    assert_eq!(Attempts::parse("1_000"), Some(Attempts::Limited(1_000)));
    assert!(Attempts::Limited(2).allows_another_after(1) && !Attempts::Limited(2).allows_another_after(2));
    assert_eq!(Parallelism::parse("1_0"), Some(Parallelism(10)));
    assert_eq!(MaxParallelism::parse("1_000"), Some(MaxParallelism(1_000)));
    assert_eq!(MaxParallelism::parse("_"), None);
    assert_eq!(RestPort::parse("0"), Some(RestPort::Any));
    assert_eq!(RestPort::parse("8081"), Some(RestPort::Port(8081)));
    assert_eq!(RestPort::parse("65536"), None);
}

proptest! {
    #[test]
    fn durations_survive_their_notation(nanos in 0u64..) {
        let duration = Duration::from_nanos(nanos).min(MAX_DURATION);
        prop_assert_eq!(Duration::parse(&duration.render()), Some(duration));
    }

    #[test]
    fn sizes_survive_their_notation(bytes in any::<u64>(), shift in 0u32..64) {
        let size = MemorySize((bytes >> shift) << (shift / 2));
        prop_assert_eq!(MemorySize::parse(&size.render()), Some(size));
    }

    #[test]
    fn numbers_survive_their_notation(number in any::<f64>().prop_filter("finite", |n| n.is_finite())) {
        prop_assert_eq!(f64::parse(&number.render()), Some(number));
    }
}
