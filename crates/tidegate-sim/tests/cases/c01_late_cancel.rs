//! C1, late cancel: sources A and B, a join. A passes barriers 1 and 2, B is slow with 1, which is aborted. The join
//! sees barrier 2 from A, then cancel 1 from B, then barrier 2 from B.

use std::time::Duration;

use tidegate::prelude::*;
use tidegate_protocol::coordinator::CheckpointStatus;
use tidegate_sim::log::{LogSink, Topic};
use tidegate_sim::process::{Holds, Job};
use tidegate_types::{CheckpointId, Nanos};

use crate::kit::{Feed, Probe, Sum, World, configure, ids_and_sums, job_of};

const KEYS: u64 = 5;

fn job(a: &Feed<u64>, b: &Feed<u64>, world: &World, topic: &Topic<(String, u64)>) -> Job {
    let mut env = Environment::new("late-cancel");
    configure(
        &mut env,
        &[
            ("execution.checkpointing.mode", "aligned"),
            ("execution.checkpointing.timeout", "60 s"),
            ("execution.checkpointing.tolerable-failed-checkpoints", "10"),
            ("restart-strategy.type", "none"),
        ],
    );
    let tools = world.tools.clone();
    let a = env.source("a", a.clone()).uid("a");
    let b = env.source("b", b.clone()).uid("b");
    let _sink = a
        .rebalance()
        .union(&[&b.rebalance()])
        .key_by(|n: &u64| n % KEYS)
        .process("join", move || Sum::new(&tools, &Probe::default()))
        .uid("join")
        .sink("out", LogSink::new(topic.clone()))
        .uid("out");
    job_of(&env)
}

/// When the join reads the abort's own message: before everything, after barrier 2 from A, after the cancel, never.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Hint {
    First,
    AfterBarrier,
    AfterCancel,
    Never,
}

#[test]
fn checkpoint_two_completes_although_one_was_cancelled_late() {
    for hint in [Hint::First, Hint::AfterBarrier, Hint::AfterCancel, Hint::Never] {
        for seed in 0..8 {
            late_cancel(hint, seed);
        }
    }
}

fn late_cancel(hint: Hint, seed: u64) {
    let mut world = World::new(seed);
    let (a, b) = (Feed::new(1), Feed::new(1));
    let topic = world.topic("out", ids_and_sums(0..60, KEYS));
    a.append(0, 0..10);
    b.append(0, 10..20);
    let job = job(&a, &b, &world, &topic);
    world.run(job);
    let join = world.id("join", 0);

    // B doesn't hear of 1; A's barrier 1 blocks the join's channel.
    world.hold_mail("b");
    let (_, first) = world.begin();
    world.until("barrier 1 of A is reached", |w| w.blocked(join).len() == 1);
    a.append(0, 20..30);
    b.append(0, 30..40);

    // The coordinator gives 1 up. B will read that together with the trigger, before it acts on either.
    if hint != Hint::First {
        world.hold_mail("join");
    }
    world.hold("b");
    world.sim.pass(Duration::from_secs(120));
    world.until("1 is aborted", |w| {
        w.stats(first)
            .is_some_and(|s| s.status == CheckpointStatus::Failed)
    });
    world.turns(200);
    let (request, second) = world.begin();
    world.until("barrier 2 of A is reached", |w| {
        w.task(join).barriers().newest_seen() == second && w.blocked(join).len() == 1
    });
    if hint == Hint::AfterBarrier {
        world.release_mail("join");
        world.turns(200);
    }
    let triggered = world.stats(second).expect("2 is pending").triggered_at;
    world.sim.pass(Duration::from_millis(100));

    // B has mail 1, abort of 1, mail 2 in its box when it steps again.
    world.release_mail("b");
    world.turns(200);
    world.release("b");
    if hint == Hint::AfterCancel {
        world.until("the cancel and barrier 2 of B are in", |w| {
            w.task(join).barriers().pending().next().is_none()
        });
        world.release_mail("join");
    }
    world.until("2 is complete", |w| w.answer(request).is_some());
    assert_complete(&world, second, triggered, hint);

    a.append(0, 40..50);
    b.append(0, 50..60);
    a.end_all();
    b.end_all();
    if hint == Hint::Never {
        // The rest of the job's mail must come, the hint is long out of date.
        world.sim.holds = Holds::default();
    }
    world.finish(&topic);
}

/// It completed, what it says of its alignment is possible, and no channel waits any more.
fn assert_complete(world: &World, second: CheckpointId, triggered: Nanos, hint: Hint) {
    let join = world.id("join", 0);
    let stats = world.stats(second).expect("2 is known");
    assert_eq!(
        stats.status,
        CheckpointStatus::Completed,
        "{hint:?} {}",
        world.tail()
    );
    let part = world.part(&stats, "join", 0).stats;
    assert!(
        part.alignment >= Duration::from_millis(100) && part.alignment <= part.end_to_end,
        "counted from barrier 2 of A on: {part:?}"
    );
    assert!(part.end_to_end <= world.sim.now().since(triggered));
    assert_eq!(world.blocked(join), [0u32; 0], "{hint:?}");
}
