//! C15, backpressured producer: a task whose output is full gets a trigger, with 1,000 ordinary mails ahead of it, and
//! once with a `flat_map` iterator suspended in the middle.

use tidegate::prelude::*;
use tidegate_protocol::message::ToTask;
use tidegate_runtime::task::Step;
use tidegate_sim::process::Job;
use tidegate_types::{CheckpointId, SnapshotMode};

use crate::kit::{Bench, Feed, Probe, World, configure, job_of};

const MAILS: u64 = 1_000;

/// Source → (flat_map of `each` per record) → rebalance → sink, which nobody steps.
fn job(feed: &Feed<u64>, each: u64, made: &Probe) -> Job {
    let mut env = Environment::new("backpressured");
    configure(
        &mut env,
        &[
            ("task.gate.budget", "fixed:32"),
            ("execution.buffer-timeout.interval", "0 ms"),
        ],
    );
    let made = made.clone();
    let _sink = env
        .source("source", feed.clone())
        .uid("source")
        .flat_map("many", move |n: u64| {
            let made = made.clone();
            (0..each).map(move |i| {
                made.count();
                n * 1_000 + i
            })
        })
        .uid("many")
        .rebalance()
        .discard("sink")
        .uid("sink");
    job_of(&env)
}

/// Steps the producer until its output is full, and puts 1,000 mails into its box.
fn full(world: &World, each: u64, made: &Probe) -> Bench {
    let feed = Feed::new(1);
    feed.append(0, 0..500);
    let bench = Bench::new(&job(&feed, each, made), &world.tools.clock);
    let mut steps = 0;
    while !matches!(bench.step("source", 0, 64), Step::Backpressured(_)) {
        steps += 1;
        assert!(steps < 1_000, "its output gets full some time");
    }
    for _ in 0..MAILS {
        let completed = ToTask::Completed {
            id: CheckpointId(0),
            oldest_pending: CheckpointId(1),
        };
        bench.mail("source", 0, completed);
    }
    bench
}

#[test]
fn an_unaligned_trigger_passes_the_mails_and_its_barrier_the_output() {
    let world = World::new(0);
    let bench = full(&world, 1, &Probe::default());
    bench.trigger("source", 0, 1, SnapshotMode::Unaligned);
    bench.step("source", 0, 64);
    assert!(
        bench.stored("source", 0).is_some(),
        "snapshotted in the same step"
    );
    // The sink hears of the barrier before it takes a record, and what was queued is in flight.
    bench.step("sink", 0, 1);
    assert_eq!(bench.newest_seen("sink", 0), CheckpointId(1));
    let stored = bench.stored("sink", 0).expect("overtaken at once");
    assert!(stored.in_flight("sink") >= 30, "{}", stored.in_flight("sink"));
}

#[test]
fn a_suspended_iterator_is_run_on_into_overdraft_first() {
    const EACH: u64 = 200;
    let (world, made) = (World::new(0), Probe::default());
    let bench = full(&world, EACH, &made);
    let before = made.seen();
    assert!(
        !before.is_multiple_of(EACH),
        "it is in the middle of a record: {before}"
    );
    bench.trigger("source", 0, 1, SnapshotMode::Unaligned);
    bench.step("source", 0, 64);
    assert_eq!(
        made.seen(),
        before.next_multiple_of(EACH),
        "to its end and no further"
    );
    let source = bench.stored("source", 0).expect("snapshotted in the same step");
    bench.step("sink", 0, 1);
    let sink = bench.stored("sink", 0).expect("overtaken at once");
    // All that the iterator made stands before the barrier: before the operator's successor, or in its queue.
    assert_eq!(source.in_flight("sink") + sink.in_flight("sink"), made.seen());
}

#[test]
fn under_aligned_the_mail_keeps_its_place() {
    let world = World::new(0);
    let bench = full(&world, 1, &Probe::default());
    bench.trigger("source", 0, 1, SnapshotMode::Aligned);
    bench.step("source", 0, 64);
    assert!(
        bench.stored("source", 0).is_none(),
        "a thousand mails are before it"
    );
    assert_eq!(bench.newest_seen("source", 0), CheckpointId(0));
    let mut steps = 0;
    while bench.newest_seen("source", 0) == CheckpointId(0) {
        bench.step("source", 0, 64);
        steps += 1;
        assert!(steps < 100, "the mails are read some time");
    }
    // Its barrier stands behind what is queued: the sink takes all of that first.
    let stored = loop {
        bench.step("sink", 0, 8);
        bench.step("source", 0, 8);
        if let Some(stored) = bench.stored("sink", 0) {
            break stored;
        }
        steps += 1;
        assert!(steps < 1_000, "the barrier is reached some time");
    };
    assert_eq!(stored.in_flight("sink"), 0);
}
