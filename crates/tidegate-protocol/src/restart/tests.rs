use super::*;

fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn at(seconds: u64) -> Nanos {
    Nanos(seconds * 1_000_000_000)
}

fn restart(after: Duration) -> RestartDecision {
    RestartDecision::Restart { after }
}

fn gives_up(decision: RestartDecision) -> bool {
    matches!(decision, RestartDecision::Fail { .. })
}

fn exponential_with(jitter_factor: f64, attempts: Option<u32>) -> RestartStrategy {
    RestartStrategy::ExponentialDelay {
        initial_backoff: s(1),
        max_backoff: s(10),
        backoff_multiplier: 2.0,
        reset_backoff_threshold: s(100),
        jitter_factor,
        attempts_before_reset_backoff: attempts,
    }
}

#[test]
fn none_gives_up_at_once() {
    let mut restarts = Restarts::new(RestartStrategy::None, 0);
    let why = "restart-strategy.type is none".to_owned();
    assert_eq!(restarts.on_failure(at(1)), RestartDecision::Fail { why });
}

#[test]
fn fixed_delay_counts_over_the_whole_life_of_the_job() {
    let mut restarts = Restarts::new(
        RestartStrategy::FixedDelay {
            attempts: 2,
            delay: s(3),
        },
        0,
    );
    assert_eq!(restarts.on_failure(at(1)), restart(s(3)));
    assert_eq!(restarts.on_failure(at(1_000_000)), restart(s(3)));
    assert!(gives_up(restarts.on_failure(at(2_000_000))));
    let mut never = Restarts::new(
        RestartStrategy::FixedDelay {
            attempts: 0,
            delay: s(3),
        },
        0,
    );
    assert!(gives_up(never.on_failure(at(1))));
}

#[test]
fn exponential_delay_grows_to_the_longest_and_begins_anew_after_a_good_run() {
    let mut restarts = Restarts::new(exponential_with(0.0, None), 0);
    let mut now = at(5);
    for seconds in [1, 2, 4, 8, 10, 10] {
        assert_eq!(restarts.on_failure(now), restart(s(seconds)));
        now = now + s(seconds) + s(1);
    }
    // The last failure was at `now - 11 s`, its delay 10 s: 100 s after the restart it is forgiven, not before.
    let last = Nanos(now.0 - at(11).0);
    let mut twin = restarts.clone();
    assert_eq!(twin.on_failure(last + s(110)), restart(s(1)));
    assert_eq!(restarts.on_failure(last + s(109)), restart(s(10)));
}

#[test]
fn a_failure_before_the_restart_is_part_of_the_one_before() {
    let mut restarts = Restarts::new(exponential_with(0.0, Some(1)), 0);
    assert_eq!(restarts.on_failure(at(10)), restart(s(1)));
    let half = at(10) + Duration::from_millis(400);
    assert_eq!(restarts.on_failure(half), restart(Duration::from_millis(600)));
    assert!(
        gives_up(restarts.on_failure(at(11))),
        "the next real one is one too many"
    );
}

#[test]
fn attempts_are_counted_anew_after_a_good_run() {
    let mut restarts = Restarts::new(exponential_with(0.0, Some(2)), 0);
    assert_eq!(restarts.on_failure(at(0)), restart(s(1)));
    assert_eq!(restarts.on_failure(at(10)), restart(s(2)));
    assert_eq!(restarts.on_failure(at(1000)), restart(s(1)));
    assert_eq!(restarts.on_failure(at(1010)), restart(s(2)));
    assert!(gives_up(restarts.on_failure(at(1020))));
}

#[test]
fn jitter_stays_in_its_bounds_and_follows_the_seed() {
    let delays = |seed| {
        let mut restarts = Restarts::new(exponential_with(0.25, None), seed);
        let of = |decision| match decision {
            RestartDecision::Restart { after } => after,
            RestartDecision::Fail { why } => panic!("{why}"),
        };
        (0..200)
            .map(|n| of(restarts.on_failure(at(n * 1000))))
            .collect::<Vec<_>>()
    };
    let drawn = delays(1);
    let (low, high) = (Duration::from_millis(750), Duration::from_millis(1250));
    assert!(
        drawn.iter().all(|delay| (low..=high).contains(delay)),
        "{drawn:?}"
    );
    assert!(
        drawn.iter().any(|d| *d < Duration::from_millis(800)),
        "it moves down"
    );
    assert!(drawn.iter().any(|d| *d > Duration::from_millis(1200)), "and up");
    assert_eq!(drawn, delays(1));
    assert_ne!(drawn, delays(2));
}

#[test]
fn jitter_never_exceeds_the_longest() {
    let mut restarts = Restarts::new(exponential_with(1.0, None), 7);
    let mut now = at(0);
    for _ in 0..100 {
        let RestartDecision::Restart { after } = restarts.on_failure(now) else {
            panic!("there is no limit")
        };
        assert!(after <= s(10));
        now = now + after;
    }
}

#[test]
fn failure_rate_survives_so_many_in_an_interval() {
    let strategy = RestartStrategy::FailureRate {
        max_failures_per_interval: 2,
        failure_rate_interval: s(60),
        delay: s(1),
    };
    let mut restarts = Restarts::new(strategy, 0);
    assert_eq!(restarts.on_failure(at(0)), restart(s(1)));
    assert_eq!(restarts.on_failure(at(10)), restart(s(1)));
    assert_eq!(
        restarts.on_failure(at(61)),
        restart(s(1)),
        "the first is out of the interval"
    );
    assert_eq!(restarts.on_failure(at(71)), restart(s(1)));
    let RestartDecision::Fail { why } = restarts.on_failure(at(121)) else {
        panic!("61 to 121 is 60 s")
    };
    assert_eq!(
        why,
        "3 failures within 60s; restart-strategy failure-rate survives 2"
    );
}

#[test]
fn strategies_that_make_no_sense_are_refused() {
    let exponential = |multiplier, jitter_factor, initial, max| RestartStrategy::ExponentialDelay {
        initial_backoff: initial,
        max_backoff: max,
        backoff_multiplier: multiplier,
        reset_backoff_threshold: s(1),
        jitter_factor,
        attempts_before_reset_backoff: None,
    };
    let rate = |max_failures_per_interval, failure_rate_interval| RestartStrategy::FailureRate {
        max_failures_per_interval,
        failure_rate_interval,
        delay: s(1),
    };
    let cases = [
        (exponential(0.9, 0.1, s(1), s(2)), RestartError::Multiplier(0.9)),
        (
            exponential(f64::INFINITY, 0.1, s(1), s(2)),
            RestartError::Multiplier(f64::INFINITY),
        ),
        (exponential(2.0, 1.1, s(1), s(2)), RestartError::Jitter(1.1)),
        (
            exponential(2.0, 0.1, s(0), s(2)),
            RestartError::InitialBackoff(s(0)),
        ),
        (
            exponential(2.0, 0.1, s(3), s(2)),
            RestartError::BackoffOrder {
                initial: s(3),
                max: s(2),
            },
        ),
        (rate(0, s(1)), RestartError::Rate),
        (rate(1, s(0)), RestartError::Interval),
    ];
    for (strategy, error) in cases {
        assert_eq!(strategy.validate(), Err(error), "{strategy:?}");
    }
    let nan = exponential(f64::NAN, 0.1, s(1), s(2));
    assert!(matches!(nan.validate(), Err(RestartError::Multiplier(m)) if m.is_nan()));
    for strategy in [RestartStrategy::None, RestartStrategy::default(), rate(1, s(1))] {
        assert_eq!(strategy.validate(), Ok(()));
    }
    assert_eq!(RestartStrategy::default().name(), "exponential-delay");
}
