//! C11, the lock is real: what a push source emits and changes under `checkpoint_lock` is in a snapshot as a whole or
//! not at all. User code runs on a thread of its own; whatever the machine's schedule, what is asserted holds, and
//! where an order matters the threads meet at channels and never at a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tidegate::prelude::*;
use tidegate_protocol::message::ToTask;
use tidegate_runtime::chain::OutBatch;
use tidegate_runtime::clock::SystemClock;
use tidegate_runtime::signal::TaskSignal;
use tidegate_runtime::source::{
    AnyReader, AnySource, Assignment, Poll, PollContext, PushSplit, ReaderContext, erase,
};
use tidegate_sim::clock::SimClock;
use tidegate_types::codec::canonical;
use tidegate_types::{CheckpointId, Nanos, Parallelism, SnapshotMode, SubtaskIndex};

use crate::kit::{Bench, job_of};

type Pair = (u64, u8);

/// Nothing that is waited for takes nearly as long; a test that would wait for ever fails.
const LIMIT: Duration = Duration::from_secs(120);

/// A push source's reader with its first split, and the signal that wakes its task.
fn reader_of(source: PushSource<Pair>) -> (Box<dyn AnyReader<Pair>>, Arc<TaskSignal>) {
    let source: Arc<dyn AnySource<Pair>> = erase(source);
    let signal = Arc::new(TaskSignal::new());
    let cx = ReaderContext {
        subtask: SubtaskIndex(0),
        parallelism: Parallelism(1),
        max_staged_records: 10_000,
        periodic_checkpoints: true,
        signal: signal.clone(),
    };
    let mut reader = source.reader(cx).expect("opens");
    let mut enumerator = source.enumerator(None).expect("there is one instance");
    let Ok(Assignment::Split(split)) = enumerator.next_split(SubtaskIndex(0)) else {
        panic!("the instance is handed out")
    };
    reader.add_split(&split).expect("starts");
    (reader, signal)
}

/// Takes what there is; false when the source has ended.
fn poll(reader: &mut dyn AnyReader<Pair>, room: usize, into: &mut Vec<Pair>) -> bool {
    let mut out = OutBatch::with_room(room);
    let mut cx = PollContext {
        wall_ms: 0,
        now: Nanos(0),
        clock: &SystemClock::new(),
        urgent: &|| false,
    };
    let polled = reader.poll(&mut out, &mut cx).expect("polls");
    into.extend(out.into_batch().values);
    polled != Poll::SplitsDone
}

/// What a snapshot holds: records that the task hasn't taken, and the number in the named source `written`.
fn contents(splits: &[Bytes]) -> (Vec<Pair>, u64) {
    let mut untaken = Vec::new();
    let mut written = 0;
    for mut split in splits.iter().map(|s| &s[..]) {
        let split: PushSplit<Pair> = canonical::decode_from(&mut split).expect("a split");
        untaken.extend(split.untaken().map(|(r, _)| *r));
        for bytes in split.named("written") {
            written = u64::from_le_bytes(bytes[..].try_into().expect("8 bytes"));
        }
    }
    (untaken, written)
}

fn written(cx: &SourceContext<Pair>) -> Result<Arc<AtomicU64>, BoxError> {
    let count = Arc::new(AtomicU64::new(0));
    let take = count.clone();
    cx.snapshot_sources().register(
        "written",
        move || Ok(take.load(Ordering::Relaxed).to_le_bytes().to_vec()),
        |_| Ok(()),
    )?;
    Ok(count)
}

/// One writer thread and 200 snapshots in a row: no snapshot holds half a pair, and it agrees with the store that is
/// written twice per record.
#[test]
fn no_snapshot_holds_half_a_pair() {
    let (mut reader, _) = reader_of(PushSource::new(|cx: &SourceContext<Pair>| {
        let written = written(cx)?;
        for n in 0.. {
            let lock = cx.checkpoint_lock()?;
            lock.collect((n, 0))?;
            written.fetch_add(1, Ordering::Relaxed);
            lock.collect((n, 1))?;
            written.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }));
    let mut taken = Vec::new();
    for id in 0..200 {
        // The task only tries; until it succeeds it goes on taking records.
        while !reader.hold_for_cut() {
            poll(&mut *reader, 16, &mut taken);
            std::hint::spin_loop();
        }
        let splits = reader.snapshot(CheckpointId(id)).expect("cuts");
        reader.release_after_cut();
        let (untaken, written) = contents(&splits);
        let all: Vec<Pair> = taken.iter().chain(&untaken).copied().collect();
        assert_eq!(all.len() % 2, 0, "snapshot {id}");
        assert_eq!(written, all.len() as u64, "snapshot {id}");
        let in_order = all.iter().enumerate();
        assert!(
            in_order
                .into_iter()
                .all(|(at, r)| *r == (at as u64 / 2, (at % 2) as u8))
        );
        poll(&mut *reader, 64, &mut taken);
    }
    reader.stop();
}

fn pair<T: Send>() -> (Sender<T>, Mutex<Receiver<T>>) {
    let (tx, rx) = channel();
    (tx, Mutex::new(rx))
}

fn wait<T>(rx: &Mutex<Receiver<T>>) -> T {
    let rx = rx.lock().unwrap_or_else(PoisonError::into_inner);
    rx.recv_timeout(LIMIT).expect("the other side comes")
}

/// One triggered during a held write waits, and contains it.
#[test]
fn a_snapshot_during_a_held_write_waits_and_contains_it() {
    let (holds, held) = pair::<()>();
    let (go_on, may_go_on) = pair::<()>();
    let (mut reader, signal) = reader_of(PushSource::new(move |cx: &SourceContext<Pair>| {
        let written = written(cx)?;
        {
            let lock = cx.checkpoint_lock()?;
            lock.collect((0, 0))?;
            holds.send(())?;
            wait(&may_go_on);
            lock.collect((0, 1))?;
            written.store(2, Ordering::Relaxed);
        }
        holds.send(())?;
        Ok(())
    }));
    wait(&held);
    assert!(!reader.hold_for_cut(), "the lock is held");
    signal.take_notified();
    signal.clear_urgent();
    go_on.send(()).expect("it waits");
    wait(&held);
    assert!(signal.is_urgent(), "letting go wakes the task");
    assert!(reader.hold_for_cut(), "the lock is free");
    let splits = reader.snapshot(CheckpointId(1)).expect("cuts");
    reader.release_after_cut();
    assert_eq!(contents(&splits), (vec![(0, 0), (0, 1)], 2));
}

/// A producer that holds the lock while its output is full: staged first, then published although the lock is held; the
/// snapshot is put off and the task goes on draining, so nobody waits for good.
#[test]
fn a_producer_that_fills_its_output_under_the_lock_puts_the_snapshot_off_and_nothing_stands_still() {
    const RECORDS: u64 = 5_000;
    let (holds, held) = pair::<()>();
    let (cuts, is_cut) = pair::<()>();
    let source = PushSource::new(move |cx: &SourceContext<Pair>| {
        let written = written(cx)?;
        let lock = cx.checkpoint_lock()?;
        holds.send(())?;
        for n in 0..RECORDS {
            lock.collect((n, 0))?;
        }
        written.store(RECORDS, Ordering::Relaxed);
        drop(lock);
        // Once it has returned and all is taken, there is nothing left to be in a snapshot.
        wait(&is_cut);
        Ok(())
    });
    let (mut reader, _) = reader_of(source.max_staged(50));
    wait(&held);
    let mut taken = Vec::new();
    let mut refused = 0u64;
    while !reader.hold_for_cut() {
        refused += 1;
        poll(&mut *reader, 32, &mut taken);
        std::hint::spin_loop();
    }
    assert!(refused > 0, "the snapshot was put off");
    let splits = reader.snapshot(CheckpointId(1)).expect("cuts");
    reader.release_after_cut();
    cuts.send(()).expect("it waits");
    let (untaken, written) = contents(&splits);
    assert_eq!(written, RECORDS, "the whole hold is inside");
    taken.extend(untaken);
    assert_eq!(taken, (0..RECORDS).map(|n| (n, 0)).collect::<Vec<_>>());
}

/// A checkpoint that waits for the lock is given up, in whichever way its task hears of it. The producer that was to
/// let it go first is held up no longer.
#[test]
fn a_snapshot_that_is_given_up_while_it_waits_for_the_lock_keeps_nobody_out() {
    let id = CheckpointId(1);
    let later = CheckpointId(2);
    let ways = [
        ToTask::Aborted {
            id,
            oldest_pending: later,
        },
        // Its own abort was lost; a later one says that it is decided.
        ToTask::Aborted {
            id: later,
            oldest_pending: CheckpointId(3),
        },
    ];
    for given_up in ways {
        let (holds, held) = pair::<()>();
        let (go_on, may_go_on) = pair::<()>();
        let env = Environment::new("given-up");
        let source = PushSource::new(move |cx: &SourceContext<u64>| {
            let lock = cx.checkpoint_lock()?;
            holds.send(())?;
            wait(&may_go_on);
            drop(lock);
            let _lock = cx.checkpoint_lock()?;
            holds.send(())?;
            Ok(())
        });
        let _sink = env.source("push", source).uid("push").discard("nothing");
        let bench = Bench::new(&job_of(&env), &SimClock::new());
        bench.step("push", 0, 1);
        wait(&held);
        bench.trigger("push", 0, id.0, SnapshotMode::Aligned);
        bench.step("push", 0, 1);
        bench.mail("push", 0, given_up.clone());
        bench.step("push", 0, 1);
        go_on.send(()).expect("it waits");
        wait(&held);
        assert!(bench.stored("push", 0).is_none(), "{given_up:?}");
    }
}

/// A job on threads over `records` pushed records, in order, through a sink that lets them through one by one.
fn in_order(records: u64, interval: Option<&str>) -> Vec<u64> {
    let mut env = Environment::new(format!("order-{records}"));
    if let Some(interval) = interval {
        env.configuration()
            .set_text("execution.checkpointing.interval", interval);
    }
    let ended = Arc::new(AtomicBool::new(false));
    let told = ended.clone();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = seen.clone();
    let _sink = env
        .source(
            "push",
            PushSource::new(move |cx: &SourceContext<u64>| {
                for n in 0..records {
                    cx.collect(n)?;
                }
                told.store(true, Ordering::Relaxed);
                Ok(())
            }),
        )
        .uid("push")
        .rebalance()
        .for_each("slow", move |n: u64| {
            // Slower than its source.
            (0..200).for_each(|_| std::hint::spin_loop());
            into.lock().unwrap_or_else(PoisonError::into_inner).push(n);
        })
        .uid("slow");
    let job = env.build().expect("builds").start(StartOptions::default());
    let outcome = job.expect("starts").wait_blocking().expect("ends well");
    assert_eq!(outcome, JobOutcome::Finished);
    assert!(ended.load(Ordering::Relaxed));
    std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner))
}

#[test]
fn a_hundred_thousand_records_through_a_slow_sink_keep_their_order() {
    assert_eq!(in_order(100_000, None), (0..100_000).collect::<Vec<_>>());
}

#[test]
fn twenty_thousand_records_with_checkpoints_running_all_along_lose_none() {
    assert_eq!(in_order(20_000, Some("10 ms")), (0..20_000).collect::<Vec<_>>());
}
