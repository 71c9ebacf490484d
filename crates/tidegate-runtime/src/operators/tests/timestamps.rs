//! When watermarks are sent and a stream becomes idle: what the program says, else what the job's settings say.

use std::sync::Arc;
use std::time::Duration;

use tidegate_types::{Batch, EventTime};

use super::{Hands, open_context};
use crate::chain::{Cursor, Operator, OperatorDefaults, OutBatch, Pass};
use crate::operators::{TimestampsOp, WatermarkStrategy};
use crate::signal::TaskSignal;

fn defaults(interval_ms: u64, idle_ms: Option<u64>) -> OperatorDefaults {
    OperatorDefaults {
        watermark_interval: Duration::from_millis(interval_ms),
        idle_after: idle_ms.map(Duration::from_millis),
        ..OperatorDefaults::default()
    }
}

/// Opened at 0 ms, with one record at 10 ms and another at 11 ms: when it wants to be called.
fn next_time(strategy: WatermarkStrategy, defaults: OperatorDefaults) -> Option<EventTime> {
    let (signal, hands) = (TaskSignal::new(), Hands::default());
    let uid = "under-test".to_owned();
    let time = Arc::new(|n: &i64| *n);
    let mut op = TimestampsOp::new(time, strategy, tidegate_types::OperatorUid::new(uid));
    Operator::<i64, i64>::open(&mut op, &mut open_context(defaults)).expect("opens");
    for at in [10, 11] {
        hands.set(at);
        let mut input = Cursor::new(Batch::of(vec![at as i64]));
        let mut out = OutBatch::with_room(10);
        op.process(&mut input, &mut out, &mut Pass::new(&signal, &hands, 10))
            .expect("no error");
    }
    Operator::<i64, i64>::next_time(&op)
}

#[test]
fn the_watermark_interval_is_the_configured_one_unless_the_program_says() {
    let strategy = WatermarkStrategy::monotonous();
    assert_eq!(next_time(strategy, defaults(50, None)), Some(10 + 50));
    let own = strategy.with_interval(Duration::from_millis(7));
    assert_eq!(next_time(own, defaults(50, None)), Some(10 + 7));
}

#[test]
fn the_idle_timeout_is_the_configured_one_unless_the_program_says() {
    let strategy = WatermarkStrategy::monotonous();
    let settings = defaults(1_000, Some(30));
    assert_eq!(next_time(strategy, settings), Some(11 + 30));
    let own = strategy.with_idleness(Duration::from_millis(3));
    assert_eq!(next_time(own, settings), Some(11 + 3));
    assert_eq!(next_time(strategy.without_idleness(), settings), Some(10 + 1_000));
}

#[test]
fn times_beyond_all_times_mean_never() {
    let strategy = WatermarkStrategy::monotonous();
    let idle = strategy.with_idleness(Duration::MAX);
    assert_eq!(next_time(idle, defaults(50, None)), Some(10 + 50));
    let neither = idle.with_interval(Duration::MAX);
    assert_eq!(next_time(neither, defaults(50, None)), Some(EventTime::MAX));
    let (signal, hands) = (TaskSignal::new(), Hands::default());
    let uid = tidegate_types::OperatorUid::new("under-test".to_owned());
    let mut op = TimestampsOp::new(Arc::new(|n: &i64| *n), idle, uid);
    Operator::<i64, i64>::open(&mut op, &mut open_context(defaults(50, None))).expect("opens");
    hands.set(1_000);
    let mut out = OutBatch::<i64>::with_room(10);
    op.on_time(1_000, &mut out, &mut Pass::new(&signal, &hands, 10))
        .expect("no error");
    assert!(
        out.is_empty(),
        "a stream that is never idle isn't so after a second"
    );
}
