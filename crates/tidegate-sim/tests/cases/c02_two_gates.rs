//! C2, two gates, every order: a join with two gates of two channels, three records queued in each. Unaligned barriers
//! arrive in each of the 24 channel orders; a crash right after completion; a restore.

use std::collections::BTreeMap;

use tidegate::prelude::*;
use tidegate_runtime::operators::CoProcessFunction;
use tidegate_sim::log::{LogSink, Topic};
use tidegate_sim::process::Job;
use tidegate_types::SubtaskId;

use crate::kit::{Feed, World, configure, job_of};

/// Puts out what comes in, with how many came before for its key.
#[derive(Default)]
struct Join {
    seen: ValueState<u64, u64>,
}

impl Join {
    fn one(&mut self, value: u64, cx: &mut ProcessContext<'_, u64, (String, u64)>) {
        let seen = self.seen.get(cx.at()).copied().unwrap_or(0) + 1;
        self.seen.set(cx.at(), seen);
        cx.register_event_timer(i64::MAX);
        cx.collect(("n".to_owned(), value));
    }
}

impl CoProcessFunction<u64, u64, u64, (String, u64)> for Join {
    fn state(&mut self, states: &mut States<'_, u64>) {
        states.value("seen", &mut self.seen);
    }

    fn process_first(
        &mut self,
        value: u64,
        cx: &mut ProcessContext<'_, u64, (String, u64)>,
    ) -> Result<(), BoxError> {
        self.one(value, cx);
        Ok(())
    }

    fn process_second(
        &mut self,
        value: u64,
        cx: &mut ProcessContext<'_, u64, (String, u64)>,
    ) -> Result<(), BoxError> {
        self.one(value, cx);
        Ok(())
    }

    fn on_timer(
        &mut self,
        _: Timer,
        cx: &mut ProcessContext<'_, u64, (String, u64)>,
    ) -> Result<(), BoxError> {
        let seen = self.seen.get(cx.at()).copied().unwrap_or(0);
        cx.collect((format!("count of {}", cx.key()), seen));
        Ok(())
    }
}

fn job(feeds: &[Feed<u64>; 2], topic: &Topic<(String, u64)>, joins: u32) -> Job {
    let mut env = Environment::new("two-gates");
    configure(
        &mut env,
        &[
            ("execution.checkpointing.mode", "unaligned"),
            ("task.gate.budget", "fixed:64"),
            ("execution.buffer-timeout.interval", "0 ms"),
        ],
    );
    let a = env.source("a", feeds[0].clone()).uid("a").parallelism(2);
    let b = env.source("b", feeds[1].clone()).uid("b").parallelism(2);
    let _sink = a
        .key_by(|n: &u64| n % 7)
        .connect(&b.key_by(|n: &u64| n % 7))
        .process("join", Join::default)
        .uid("join")
        .parallelism(joins)
        .sink("out", LogSink::new(topic.clone()))
        .uid("out")
        .parallelism(joins);
    job_of(&env)
}

fn orders() -> Vec<[usize; 4]> {
    let mut orders = Vec::new();
    for n in 0..256usize {
        let order = [n / 64, n / 16 % 4, n / 4 % 4, n % 4];
        if (0..4).all(|c| order.contains(&c)) {
            orders.push(order);
        }
    }
    orders
}

#[test]
fn whatever_the_order_of_barriers_each_record_is_processed_once() {
    let orders = orders();
    assert_eq!(orders.len(), 24);
    for (seed, order) in (0..).zip(orders) {
        // The join takes some records between two barriers, or none.
        for between in [0, 1, 4] {
            // Restored by as many, and by another number.
            for joins in [1, 2] {
                two_gates(seed, order, between, joins);
            }
        }
    }
}

fn two_gates(seed: u64, order: [usize; 4], between: usize, joins: u32) {
    let mut world = World::new(seed);
    let feeds = [Feed::new(2), Feed::new(2)];
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    (0..24u64).for_each(|n| *counts.entry(n % 7).or_default() += 1);
    let ids = (0..24u64).map(|n| ("n".to_owned(), n));
    let expected = ids.chain(counts.iter().map(|(k, n)| (format!("count of {k}"), *n)));
    let topic = world.topic("out", expected.collect());
    world.run(job(&feeds, &topic, 1));

    // Channel c is partition c % 2 of feed c / 2. Three records stand in each before its barrier, three follow.
    let sources: Vec<SubtaskId> = vec![
        world.id("a", 0),
        world.id("a", 1),
        world.id("b", 0),
        world.id("b", 1),
    ];
    world.hold("join");
    for channel in 0..4u64 {
        feeds[channel as usize / 2].append(channel as u32 % 2, channel * 3..channel * 3 + 3);
    }
    world.until("three records are queued in each channel", |w| {
        sources.iter().all(|s| w.records_out(*s) == 3)
    });
    world.sim.holds.mail.extend(sources.iter().copied());
    let join = world.id("join", 0);
    let (request, id) = world.begin();
    for channel in order {
        world.sim.holds.mail.remove(&sources[channel]);
        world.until("its barrier is queued", |w| {
            w.task(sources[channel]).barriers().newest_seen() == id
        });
        let after = 12 + channel as u64 * 3;
        feeds[channel / 2].append(channel as u32 % 2, after..after + 3);
        world.until("what follows is queued", |w| w.records_out(sources[channel]) == 6);
        // One step without records: the barrier is heard of, and the first of them cuts.
        for _ in 0..=between {
            world.sim.step_task(join, 1);
        }
        let cut = world.task(join).barriers().newest_seen() == id;
        assert!(cut, "the first barrier cuts at once");
    }
    world.release_all();
    world.until("the checkpoint is complete", |w| w.answer(request).is_some());
    let stats = world.newest_complete().expect("it is complete");
    let stored = world.in_flight(&stats, "join");
    let expected: BTreeMap<_, _> = (0..2)
        .flat_map(|input| (0..2).map(move |producer| ((input, producer, 0), 3)))
        .collect();
    assert_eq!(
        stored, expected,
        "order {order:?}: what was queued before the barriers"
    );
    world.crash();

    world.run(job(&feeds, &topic, joins));
    feeds.iter().for_each(Feed::end_all);
    world.finish(&topic);
}
