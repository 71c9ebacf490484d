//! C3, mixed edges under a timeout: source → hash → map → forward → sink, which is fed by a broadcast too. The sink
//! stops consuming; a checkpoint is triggered; its alignment timeout passes; the sink goes on.

use std::time::Duration;

use tidegate::prelude::*;
use tidegate_protocol::coordinator::CheckpointStats;
use tidegate_sim::log::{LogSink, Topic};
use tidegate_sim::process::Job;
use tidegate_types::SnapshotMode;

use crate::kit::{Feed, Probe, Sum, World, configure, ids_and_sums, job_of};

const KEYS: u64 = 11;
const RECORDS: u64 = 300;
const RULES: u64 = 40;

fn job(feed: &Feed<u64>, rules: &Feed<u64>, world: &World, topic: &Topic<(String, u64)>) -> Job {
    let mut env = Environment::new("mixed-edges");
    configure(
        &mut env,
        &[
            ("execution.checkpointing.mode", "adaptive"),
            ("execution.checkpointing.aligned-checkpoint-timeout", "1 s"),
            ("task.gate.budget", "fixed:8"),
            ("parallelism.default", "2"),
        ],
    );
    let tools = world.tools.clone();
    let rules = env
        .source("rules", rules.clone())
        .uid("rules")
        .parallelism(1)
        .map("name", |n: u64| ("rule".to_owned(), n))
        .uid("name")
        .parallelism(1);
    let _sink = env
        .source("source", feed.clone())
        .uid("source")
        .key_by(|n: &u64| n % KEYS)
        .process("map", move || Sum::new(&tools, &Probe::default()))
        .uid("map")
        .forward()
        .connect(&rules.broadcast())
        .flat_map("merge", Some, Some)
        .uid("merge")
        .sink("out", LogSink::new(topic.clone()))
        .uid("out");
    job_of(&env)
}

fn expected() -> Vec<(String, u64)> {
    let rules = (0..RULES).flat_map(|n| [("rule".to_owned(), n), ("rule".to_owned(), n)]);
    ids_and_sums(0..RECORDS, KEYS).into_iter().chain(rules).collect()
}

fn modes(world: &World, stats: &CheckpointStats, uid: &str) -> Vec<bool> {
    (0..2)
        .map(|s| world.part(stats, uid, s).stats.mode == Some(SnapshotMode::Unaligned))
        .collect()
}

/// The mode that a subtask reports is the one it used, and what can't be overtaken wasn't.
#[track_caller]
fn assert_capabilities(world: &World, stats: &CheckpointStats) {
    for (uid, subtasks) in [("source", 2), ("rules", 1), ("map", 2), ("merge", 2)] {
        for subtask in 0..subtasks {
            let part = world.part(stats, uid, subtask).stats;
            let overtook = part.mode == Some(SnapshotMode::Unaligned);
            assert!(
                overtook || part.persisted_records == 0,
                "{uid} {subtask} stored in-flight records and says {:?}",
                part.mode
            );
        }
    }
    // Input 0 of the merge is the forward edge, 1 the broadcast.
    let merge = world.in_flight(stats, "merge");
    assert!(merge.keys().all(|(input, ..)| *input == 0), "{merge:?}");
}

#[test]
fn each_edge_does_what_it_can_while_the_sink_stands_still() {
    for seed in 0..12 {
        // The sink goes on before the map has cut, or after; the rules are behind or through.
        for early in [false, true] {
            let mut world = World::new(seed);
            let (feed, rules) = (Feed::new(2), Feed::new(1));
            let topic = world.topic("out", expected());
            feed.deal(0..RECORDS / 2);
            rules.append(0, 0..RULES / 2);
            let job = job(&feed, &rules, &world, &topic);
            world.run(job.clone());
            world.hold("merge");
            world.turns(4_000);
            let (request, id) = world.begin();
            world.until("barriers are under way", |w| {
                w.task(w.id("map", 0)).barriers().newest_seen() == id || early
            });
            world.sim.pass(Duration::from_secs(2));
            if !early {
                world.until("the map has cut", |w| {
                    w.ids("map").iter().all(|m| w.has_acked(id, *m))
                });
            }
            world.release("merge");
            world.until("the checkpoint is complete", |w| w.answer(request).is_some());
            let stats = world.newest_complete().expect("it is complete");
            assert_capabilities(&world, &stats);
            if !early {
                assert_eq!(
                    modes(&world, &stats, "map"),
                    [true, true],
                    "its hash edge was overtaken"
                );
                assert!(world.in_flight(&stats, "map").values().sum::<u64>() > 0);
                // The map's barrier overtakes on the forward edge as soon as the broadcast's is reached.
                let stored = world.in_flight(&stats, "merge");
                let overtook = modes(&world, &stats, "merge");
                for subtask in 0..2u32 {
                    let records = stored.get(&(0, subtask, subtask)).copied().unwrap_or(0);
                    assert!(overtook[subtask as usize] || records == 0);
                }
            }
            world.crash();

            feed.deal(RECORDS / 2..RECORDS);
            rules.append(0, RULES / 2..RULES);
            feed.end_all();
            rules.end_all();
            world.run(job);
            world.finish(&topic);
        }
    }
}

#[test]
fn in_time_nothing_overtakes_and_nobody_says_so() {
    for seed in 0..12 {
        let mut world = World::new(seed);
        let (feed, rules) = (Feed::new(2), Feed::new(1));
        let topic = world.topic("out", expected());
        feed.deal(0..RECORDS);
        rules.append(0, 0..RULES);
        let job = job(&feed, &rules, &world, &topic);
        world.run(job);
        let stats = world.checkpoint();
        assert!(
            stats.end_to_end() < Duration::from_secs(1),
            "the case wants it so"
        );
        assert_eq!(stats.persisted_bytes(), 0);
        for (uid, subtasks) in [("source", 2), ("rules", 1), ("map", 2), ("merge", 2)] {
            for subtask in 0..subtasks {
                let part = world.part(&stats, uid, subtask).stats;
                assert_ne!(part.mode, Some(SnapshotMode::Unaligned), "{uid} {subtask}");
            }
        }
        feed.end_all();
        rules.end_all();
        world.finish(&topic);
    }
}
