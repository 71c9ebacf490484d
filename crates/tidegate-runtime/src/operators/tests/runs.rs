//! Loops that do many records at once: they do what one by one would, and look up in time.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_types::{Batch, CheckpointId, EventTime, OperatorUid};

use super::Hands;
use crate::chain::{Cursor, Flow, Operator, OutBatch, Pass, Strider};
use crate::error::BoxError;
use crate::operators::sink::{Prepared, SinkRecords, SinkWriter};
use crate::operators::stateless::{FilterOp, MapOp, OnError};
use crate::signal::TaskSignal;

fn uid() -> OperatorUid {
    OperatorUid::new("under-test".to_owned())
}

/// Numbers up to `to`, each with its time and hash if asked for.
fn numbers(to: u64, timed: bool) -> Batch<u64> {
    Batch {
        values: (0..to).collect(),
        times: timed.then(|| (0..to as EventTime).map(|n| n * 10).collect()),
        hashes: timed.then(|| (0..to).map(|n| n + 1000).collect()),
    }
}

fn run<O: Send>(op: &mut dyn Operator<u64, O>, input: &mut Cursor<u64>, room: usize) -> (Batch<O>, Flow) {
    let (signal, clock) = (TaskSignal::new(), Hands::default());
    let mut out = OutBatch::with_room(room);
    let mut pass = Pass::new(&signal, &clock, usize::MAX);
    let flow = op.process(input, &mut out, &mut pass).expect("it can't fail");
    (out.into_batch(), flow)
}

#[test]
fn a_map_keeps_order_times_and_what_there_is_no_room_for() {
    for timed in [false, true] {
        let mut op = MapOp::new(
            Arc::new(|n: u64| Ok::<_, Infallible>(n * 2)),
            uid(),
            OnError::Fail,
        );
        let mut input = Cursor::new(numbers(1000, timed));
        let (out, flow) = run(&mut op, &mut input, 300);
        assert_eq!(flow, Flow::Full);
        assert!(out.values.iter().copied().eq((0..300).map(|n| n * 2)));
        assert_eq!(out.times.as_ref().map(|t| t[299]), timed.then_some(2990));
        // What is left is whole: values, times and hashes belong together.
        assert_eq!(input.values()[0], 300);
        assert_eq!(
            input.hashes().map(|h| (h.len(), h[0])),
            timed.then_some((700, 1300))
        );
        let (out, flow) = run(&mut op, &mut input, usize::MAX);
        assert_eq!((out.values.len(), flow), (700, Flow::Done));
        assert_eq!(out.times.map(|t| t[0]), timed.then_some(3000));
    }
}

#[test]
fn a_filter_keeps_what_it_says_yes_to_and_its_time() {
    for timed in [false, true] {
        let third = Arc::new(|n: &u64| Ok::<_, Infallible>(n.is_multiple_of(3)));
        let mut op = FilterOp::new(third, uid(), OnError::Fail);
        let mut input = Cursor::new(numbers(500, timed));
        let (out, flow) = run(&mut op, &mut input, usize::MAX);
        assert_eq!(flow, Flow::Done);
        assert!(out.values.iter().copied().eq((0..500).step_by(3)));
        assert_eq!(out.times.map(|t| (t.len(), t[1])), timed.then_some((167, 30)));
    }
}

#[test]
fn a_fallible_map_stops_at_the_record_that_fails() {
    let f = Arc::new(|n: u64| if n == 70 { Err("no") } else { Ok(n) });
    let mut op = MapOp::new(f, uid(), OnError::Fail);
    let (signal, clock) = (TaskSignal::new(), Hands::default());
    let mut out = OutBatch::with_room(usize::MAX);
    let mut pass = Pass::new(&signal, &clock, usize::MAX);
    let mut input = Cursor::new(numbers(100, false));
    let error = op.process(&mut input, &mut out, &mut pass).expect_err("70 fails");
    assert!(error.to_string().contains("under-test"), "{error}");
    assert_eq!(out.len(), 70);
}

/// Takes 5 ms for each of its runs' records.
#[test]
fn slow_records_are_done_one_by_one_and_quick_ones_in_runs_again() {
    let clock = Hands::default();
    let mut strider = Strider::default();
    strider.begin(&clock);
    assert_eq!(strider.run(1000), 64);
    clock.set(64 * 5);
    strider.done(64, &clock);
    assert_eq!(strider.run(1000), 1, "slow");
    strider.end(&clock);
    for (call, longest) in [(1, 2), (2, 4), (3, 8), (4, 16)] {
        strider.begin(&clock);
        strider.done(1, &clock);
        strider.end(&clock);
        assert_eq!(strider.run(1000), longest, "after {call} quick calls");
    }
    assert_eq!(strider.run(3), 3);
}

/// While all is quick the clock is read twice a call; records that become slow are found out at the call's end at the
/// latest.
#[test]
fn slow_records_behind_many_quick_ones_are_noticed() {
    let clock = Hands::default();
    let mut strider = Strider::default();
    for _ in 0..20 {
        strider.begin(&clock);
        (0..16).for_each(|_| strider.done(64, &clock));
        strider.end(&clock);
    }
    strider.begin(&clock);
    strider.done(64, &clock);
    clock.set(64 * 5);
    strider.end(&clock);
    assert_eq!(strider.run(1000), 1);
}

/// Counts, and says that something urgent has come at its tenth record.
struct Interrupted {
    written: Vec<u64>,
    signal: Arc<TaskSignal>,
    fails_at: u64,
}

impl SinkWriter<u64, ()> for Interrupted {
    fn write(&mut self, record: u64, _: Option<EventTime>) -> Result<(), BoxError> {
        if record == self.fails_at {
            return Err("told to".into());
        }
        self.written.push(record);
        if record == 10 {
            self.signal.interrupt();
        }
        Ok(())
    }

    fn prepare(&mut self, _: CheckpointId) -> Result<Option<Prepared<()>>, BoxError> {
        Ok(None)
    }
}

#[test]
fn a_sink_stops_behind_the_record_at_which_something_urgent_comes() {
    let (signal, clock) = (Arc::new(TaskSignal::new()), Hands::default());
    let mut writer = Interrupted {
        written: Vec::new(),
        signal: signal.clone(),
        fails_at: 40,
    };
    let mut input = Cursor::new(numbers(100, true));
    let pass = Pass::new(&signal, &clock, usize::MAX);
    writer
        .write_all(&mut SinkRecords::new(&mut input, &pass))
        .expect("writes");
    assert_eq!(writer.written.len(), 11);
    assert_eq!(
        (input.values()[0], input.hashes().map(|h| h[0])),
        (11, Some(1011))
    );
    // A snapshot runs the chain empty, whatever else is urgent; and a pass has a limit.
    let pass = Pass::overdraft(&signal, &clock);
    let error = writer.write_all(&mut SinkRecords::new(&mut input, &pass));
    assert!(error.is_err_and(|e| e.to_string() == "told to"));
    assert_eq!(writer.written.len(), 40);
    signal.clear_urgent();
    let pass = Pass::new(&signal, &clock, 5);
    let mut records = SinkRecords::new(&mut input, &pass);
    writer.write_all(&mut records).expect("writes");
    assert!(records.is_empty());
    assert_eq!(writer.written.last(), Some(&45));
}

/// Counts how often its closure was called, so that one that runs ahead shows.
#[test]
fn a_map_makes_no_record_that_it_doesnt_put_out() {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    let f = move |n: u64| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Infallible>(n)
    };
    let mut op = MapOp::new(Arc::new(f), uid(), OnError::Fail);
    let mut input = Cursor::new(numbers(200, false));
    let (out, _) = run(&mut op, &mut input, 77);
    assert_eq!((out.values.len(), calls.load(Ordering::Relaxed)), (77, 77));
}
