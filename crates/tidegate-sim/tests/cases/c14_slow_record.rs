//! C14, one slow record: a record takes 5 ms of user code, 40 more sit behind it in the same batch. The slow operator
//! is the first, second and third of its chain, and the pass size has adapted to fast records before.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::prelude::*;
use tidegate_sim::process::Job;
use tidegate_types::SnapshotMode;

use crate::kit::{Bench, Feed, Probe, World, configure, job_of};

const FAST: u64 = 2_000;
const BEHIND: u64 = 40;

/// Called by user code while it has the slow record in hand.
type Hook = Arc<Mutex<Option<Box<dyn FnMut() + Send>>>>;

/// Passes records on; with the slow one it takes 5 ms, in the middle of which something happens.
#[derive(Clone)]
struct Work {
    slow: bool,
    seen: Probe,
    hook: Hook,
    tools: tidegate_sim::scenario::Tools,
}

impl Work {
    fn on(&self, value: u64) {
        self.seen.count();
        if self.slow && value == FAST {
            self.tools.clock.spend(Duration::from_micros(2_500));
            if let Some(happen) = &mut *self.hook.lock().expect("not reentered") {
                happen();
            }
            self.tools.clock.spend(Duration::from_micros(2_500));
        }
    }
}

impl ProcessFunction<(), u64, u64> for Work {
    fn process(&mut self, value: u64, cx: &mut ProcessContext<'_, (), u64>) -> Result<(), BoxError> {
        self.on(value);
        cx.collect(value);
        Ok(())
    }
}

/// What the operators are.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Functions, which look up before every record.
    Functions,
    /// Closures, which look up after at most 64 until their records turn out slow.
    Closures,
}

const CHAIN: [&str; 3] = ["first", "second", "third"];

fn job(feed: &Feed<u64>, world: &World, (kind, slow): (Kind, usize), seen: &[Probe; 3], hook: &Hook) -> Job {
    let mut env = Environment::new("slow-record");
    configure(
        &mut env,
        &[
            ("task.gate.budget", "fixed:4000"),
            ("execution.buffer-timeout.interval", "0 ms"),
        ],
    );
    let mut stream = env.source("source", feed.clone()).uid("source").rebalance();
    for (at, uid) in CHAIN.into_iter().enumerate() {
        let work = Work {
            slow: at == slow,
            seen: seen[at].clone(),
            hook: hook.clone(),
            tools: world.tools.clone(),
        };
        stream = match kind {
            Kind::Functions => stream.process(uid, move || work.clone()).uid(uid),
            Kind::Closures => {
                let pass = move |n| {
                    work.on(n);
                    n
                };
                stream.map(uid, pass).uid(uid)
            }
        };
    }
    let _sink = stream.discard("out").uid("out");
    job_of(&env)
}

#[test]
fn an_unaligned_barrier_waits_for_the_record_at_hand_and_the_rest_is_in_flight() {
    for kind in [Kind::Functions, Kind::Closures] {
        for slow in 0..3 {
            barrier_during_the_slow_record(kind, slow);
        }
    }
}

fn barrier_during_the_slow_record(kind: Kind, slow: usize) {
    let world = World::new(0);
    let feed = Feed::new(1);
    let seen: [Probe; 3] = Default::default();
    let hook = Hook::default();
    let job = job(&feed, &world, (kind, slow), &seen, &hook);
    let bench = Bench::new(&job, &world.tools.clock);

    // Fast records first: the pass grows.
    feed.append(0, 0..FAST);
    for _ in 0..200 {
        bench.step("source", 0, 256);
        bench.step("first", 0, 256);
    }
    assert_eq!(seen[2].seen(), FAST, "all fast ones are through");

    // Then the slow one and 40 behind it, in one batch.
    feed.append(0, FAST..FAST + 1 + BEHIND);
    world.sim.shared().clock.advance(Duration::from_millis(2));
    bench.step("source", 0, 256);
    let inner = bench.clone();
    *hook.lock().expect("free") = Some(Box::new(move || {
        inner.trigger("source", 0, 1, SnapshotMode::Unaligned);
        inner.step("source", 0, 1);
    }));
    let before = world.sim.now();
    while seen[slow].seen() == FAST {
        bench.step("first", 0, 256);
    }
    let spent = world.sim.now().since(before);
    assert_eq!(spent, Duration::from_millis(5), "the record at hand alone");
    if kind == Kind::Functions {
        let behind = seen[slow].seen() - FAST - 1;
        assert_eq!(behind, 0, "nothing behind it was processed where it was slow");
    }
    assert!(bench.stored("first", 0).is_none());

    // The next step cuts before it takes any record.
    let processed = seen.each_ref().map(Probe::seen);
    bench.step("first", 0, 1);
    let stored = bench.stored("first", 0).expect("the cut is taken at once");
    let mut came = FAST + 1 + BEHIND;
    for (at, uid) in CHAIN.into_iter().enumerate() {
        let unread = came - processed[at];
        assert_eq!(
            stored.in_flight(uid),
            unread,
            "before `{uid}`, slow is {slow}, {kind:?}"
        );
        came = processed[at];
    }
}

/// Under aligned the chain runs empty first, and nothing is in flight.
#[test]
fn an_aligned_barrier_waits_until_the_chain_is_empty() {
    for slow in 0..3 {
        let world = World::new(0);
        let feed = Feed::new(1);
        let seen: [Probe; 3] = Default::default();
        let hook = Hook::default();
        let job = job(&feed, &world, (Kind::Functions, slow), &seen, &hook);
        let bench = Bench::new(&job, &world.tools.clock);
        feed.append(0, 0..FAST + 1 + BEHIND);
        let inner = bench.clone();
        *hook.lock().expect("free") = Some(Box::new(move || {
            inner.trigger("source", 0, 1, SnapshotMode::Aligned);
        }));
        let mut steps = 0;
        let stored = loop {
            bench.step("source", 0, 64);
            bench.step("first", 0, 7);
            if let Some(stored) = bench.stored("first", 0) {
                break stored;
            }
            steps += 1;
            assert!(steps < 5_000, "it is cut some time");
        };
        for uid in CHAIN {
            assert_eq!(stored.in_flight(uid), 0, "{uid}");
        }
        assert!(seen.iter().all(|s| s.seen() == FAST + 1 + BEHIND));
    }
}
