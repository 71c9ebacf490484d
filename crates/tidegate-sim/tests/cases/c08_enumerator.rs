//! C8, enumerator crash before assignment: a source that starts at "latest", partitions at offsets 5 and 8. They are
//! discovered and resolved, a checkpoint is taken before any reader gets a split, more is appended, the process
//! crashes.

use tidegate::prelude::*;
use tidegate_sim::log::{LogSink, Topic};
use tidegate_sim::process::{Holds, Job, Offer};
use tidegate_types::SnapshotMode;

use crate::kit::{Feed, Probe, Sum, World, configure, ids_and_sums, job_of};

const KEYS: u64 = 3;

fn job(feed: &Feed<u64>, world: &World, topic: &Topic<(String, u64)>, mode: &str, readers: u32) -> Job {
    let mut env = Environment::new("latest");
    configure(&mut env, &[("execution.checkpointing.mode", mode)]);
    let tools = world.tools.clone();
    let _sink = env
        .source("source", feed.clone())
        .uid("source")
        .parallelism(readers)
        .key_by(|n: &u64| n % KEYS)
        .process("sum", move || Sum::new(&tools, &Probe::default()))
        .uid("sum")
        .sink("out", LogSink::new(topic.clone()))
        .uid("out");
    job_of(&env)
}

/// Where the first checkpoint falls.
#[derive(Debug, Clone, Copy, PartialEq)]
enum When {
    /// No reader has asked yet.
    BeforeRequests,
    /// Splits are assigned and on their way: they belong inside the cut.
    OnTheWay,
}

#[test]
fn reading_starts_where_it_was_resolved_and_a_later_partition_at_zero() {
    for mode in ["aligned", "unaligned", "adaptive"] {
        for when in [When::BeforeRequests, When::OnTheWay] {
            for (seed, readers) in (0..6).zip([2, 2, 3, 1, 2, 3]) {
                before_assignment(mode, when, readers, seed);
            }
        }
    }
}

fn before_assignment(mode: &str, when: When, readers: u32, seed: u64) {
    let mut world = World::new(seed);
    let feed = Feed::latest(2);
    feed.append(0, 0..5);
    feed.append(1, 10..18);
    let kept = (5u64..9).chain(18..25).chain(100..110).collect::<Vec<_>>();
    let topic = world.topic("out", ids_and_sums(kept.iter().copied(), KEYS));
    world.start(job(&feed, &world, &topic, mode, 2));
    world.until("tasks are deployed", |w| !w.process().tasks().is_empty());

    // Open every task, and let the master hear that they run and nothing else.
    let readers_now = world.ids("source");
    world.hold("source");
    world.hold("sum");
    for id in readers_now.iter().copied().chain(world.ids("sum")) {
        assert!(world.sim.step_task(id, 1), "opens");
    }
    world.turns(300);
    if when == When::OnTheWay {
        world.hold_mail("source");
        for id in &readers_now {
            // The first step after opening asks for a split.
            world.sim.step_task(*id, 1);
        }
        world.turns(300);
    }
    let (request, _) = world.begin();
    assert_eq!(feed.begun(), [], "no reader has a split");
    world.release_all();
    world.until("the checkpoint is complete", |w| w.answer(request).is_some());
    let stats = world.newest_complete().expect("it is complete");
    assert_ne!(stats.mode, SnapshotMode::AtLeastOnce);
    feed.append(0, 5..9);
    feed.append(1, 18..25);
    world.turns(seed * 40);
    world.crash();

    feed.set_readers(readers.min(2));
    let before = feed.begun().len();
    world.run(job(&feed, &world, &topic, mode, readers));
    world.until("both partitions are read", |_| feed.begun().len() >= before + 2);
    let mut begun = feed.begun()[before..].to_vec();
    begun.sort_unstable();
    assert_eq!(begun, [(0, 5), (1, 8)], "{mode} {when:?}");
    feed.add_partition();
    feed.append(2, 100..110);
    world.until("the new partition is read", |_| feed.begun().len() >= before + 3);
    assert_eq!(feed.begun()[before + 2], (2, 0));
    feed.end_all();
    world.finish(&topic);
}

/// What the master could do next is what the case steers by.
#[test]
fn a_world_that_holds_its_tasks_offers_no_step() {
    let mut world = World::new(1);
    let feed = Feed::latest(1);
    let topic = world.topic("out", Vec::new());
    world.run(job(&feed, &world, &topic, "aligned", 1));
    world.hold("source");
    world.hold("sum");
    let holds: Holds = world.sim.holds.clone();
    let mut offers = Vec::new();
    world.sim.newest().offers(&holds, &mut offers);
    assert!(!offers.iter().any(|o| matches!(o, Offer::Step(_))), "{offers:?}");
}
