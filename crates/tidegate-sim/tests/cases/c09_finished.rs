//! C9, bounded and finished: A has 10 rows and ends, B has 100 and ends later, C runs until it is stopped with drain.
//! The interval is so long that no periodic checkpoint falls after the end.

use std::time::Duration;

use tidegate::prelude::*;
use tidegate_protocol::coordinator::{CheckpointStatus, Request};
use tidegate_runtime::task::TaskStatus;
use tidegate_sim::log::{LogSink, Topic};
use tidegate_sim::process::Job;
use tidegate_types::CheckpointId;

use crate::kit::{Feed, Probe, Sum, World, configure, ids_and_sums, job_of};

const KEYS: u64 = 7;
const INTERVAL: Duration = Duration::from_secs(3600);

struct Case {
    a: Feed<u64>,
    b: Feed<u64>,
    c: Feed<u64>,
    topic: Topic<(String, u64)>,
}

impl Case {
    /// `readers` of A, each with a partition.
    fn new(seed: u64, readers: u32) -> (World, Self) {
        let world = World::new(seed);
        let case = Self {
            a: Feed::new(readers),
            b: Feed::new(1),
            c: Feed::new(1),
            topic: world.topic("out", ids_and_sums(0..150, KEYS)),
        };
        (world, case)
    }

    fn job(&self, world: &World, mode: &str, readers: u32) -> Job {
        let mut env = Environment::new("bounded");
        configure(
            &mut env,
            &[
                ("execution.checkpointing.mode", mode),
                ("execution.checkpointing.interval", "1 h"),
                ("execution.checkpointing.timeout", "10 s"),
            ],
        );
        let tools = world.tools.clone();
        let a = env.source("a", self.a.clone()).uid("a").parallelism(readers);
        let b = env.source("b", self.b.clone()).uid("b");
        let c = env.source("c", self.c.clone()).uid("c");
        let _sink = a
            .rebalance()
            .union(&[&b.rebalance(), &c.rebalance()])
            .key_by(|n: &u64| n % KEYS)
            .process("sum", move || Sum::new(&tools, &Probe::default()))
            .uid("sum")
            .parallelism(2)
            .sink("out", LogSink::new(self.topic.clone()))
            .uid("out")
            .parallelism(2);
        job_of(&env)
    }

    fn feed_all(&self) {
        self.a.deal(0..10);
        self.a.end_all();
        self.b.append(0, 10..110);
        self.c.append(0, 110..150);
    }
}

const MODES: [&str; 3] = ["aligned", "unaligned", "adaptive"];

#[test]
fn checkpoints_go_on_after_a_source_ended_and_the_last_one_waits_for_no_interval() {
    for mode in MODES {
        for seed in 0..6 {
            let (mut world, case) = Case::new(seed, 1);
            let job = case.job(&world, mode, 1);
            case.feed_all();
            world.run(job);
            world.watch_commits(&case.topic);
            let a = world.id("a", 0);
            world.until("A has ended", |w| {
                w.driven(a).metrics().status() as u8 >= TaskStatus::Ended as u8
            });
            world.until("A is finished", |w| {
                w.driven(a).metrics().status() == TaskStatus::Finished
            });
            let first = world.checkpoint();
            assert!(world.part(&first, "a", 0).finished);
            world.until("B and C are read", |w| w.records_out(w.id("c", 0)) == 40);
            case.b.end_all();
            let b = world.id("b", 0);
            world.until("B is finished", |w| {
                w.driven(b).metrics().status() == TaskStatus::Finished
            });
            let third = world.checkpoint();
            assert!(world.part(&third, "b", 0).finished && third.id > first.id);

            let request = world.request(Request::Drain { savepoint: None });
            let stopped_at = world.sim.now();
            world.release_all();
            world.until("the job has ended", |w| w.process().ended().is_some());
            assert!(matches!(world.answer(request), Some(Ok(_))), "{}", world.tail());
            let last = world.newest_complete().expect("the last one is complete");
            // The next ids in turn, each of a real checkpoint; an end that no pending one contains triggers another.
            assert!(last.id > third.id);
            let next = third.id.0 + 1..=last.id.0;
            assert!(next.into_iter().all(|id| world.stats(CheckpointId(id)).is_some()));
            assert_eq!(
                world.newest_triggered(),
                Some(last.id),
                "nothing was triggered in vain"
            );
            assert_eq!(last.status, CheckpointStatus::Completed);
            let waited = world.sim.now().since(stopped_at);
            assert!(
                waited < INTERVAL / 100,
                "virtual time: it didn't wait for the interval: {waited:?}"
            );
            world.finish(&case.topic);
            world.assert_no_orphans();
        }
    }
}

#[test]
fn a_restore_after_the_end_of_a_source_does_not_start_it_again() {
    for mode in MODES {
        for seed in 0..6 {
            let (mut world, case) = Case::new(seed, 1);
            let job = case.job(&world, mode, 1);
            case.feed_all();
            world.run(job.clone());
            let a = world.id("a", 0);
            world.until("A has ended", |w| {
                w.driven(a).metrics().status() as u8 >= TaskStatus::Ended as u8
            });
            world.checkpoint();
            let read = case.a.begun().len();
            world.crash();

            for _ in 0..2 {
                world.run(job.clone());
                assert!(
                    world.process().tasks().iter().all(|t| t.id() != a),
                    "A has no task"
                );
                world.turns(300);
                world.checkpoint();
                world.crash();
            }
            world.run(job);
            assert_eq!(case.a.begun().len(), read, "nobody reads A again");
            case.b.end_all();
            case.c.end_all();
            world.finish(&case.topic);
        }
    }
}

/// A's end isn't in any checkpoint: it is read again from where the last one was.
#[test]
fn an_end_that_no_checkpoint_contains_is_read_again() {
    for mode in MODES {
        for seed in 0..6 {
            let (mut world, case) = Case::new(seed, 1);
            let job = case.job(&world, mode, 1);
            case.a.append(0, 0..4);
            world.run(job.clone());
            world.until("some of A is read", |w| w.records_out(w.id("a", 0)) == 4);
            world.checkpoint();
            case.a.append(0, 4..10);
            case.a.end_all();
            case.b.append(0, 10..110);
            case.c.append(0, 110..150);
            let a = world.id("a", 0);
            world.until("A has ended", |w| {
                w.driven(a).metrics().status() as u8 >= TaskStatus::Ended as u8
            });
            world.crash();
            world.run(job);
            assert_eq!(case.a.begun().last(), Some(&(0, 4)));
            case.b.end_all();
            case.c.end_all();
            world.finish(&case.topic);
        }
    }
}

/// One of A's two subtasks has ended: the operator restarts with the splits that are left, at any parallelism.
#[test]
fn a_partly_finished_source_goes_on_with_what_is_left() {
    for mode in MODES {
        for (seed, readers) in (0..).zip([2, 1, 3]) {
            let (mut world, case) = Case::new(seed, 2);
            let job = case.job(&world, mode, 2);
            case.a.append(0, 0..5);
            case.a.end(0);
            case.a.append(1, 5..7);
            case.b.append(0, 10..110);
            case.c.append(0, 110..150);
            world.run(job);
            let first = world.id("a", 0);
            world.until("one of A has ended", |w| {
                w.driven(first).metrics().status() as u8 >= TaskStatus::Ended as u8
            });
            world.until("the other has read", |w| w.records_out(w.id("a", 1)) == 2);
            let stats = world.checkpoint();
            assert!(world.part(&stats, "a", 0).finished && !world.part(&stats, "a", 1).finished);
            world.crash();

            case.a.append(1, 7..10);
            case.a.end_all();
            case.b.end_all();
            case.c.end_all();
            let before = case.a.begun().len();
            let job = case.job(&world, mode, readers);
            world.run(job);
            world.finish(&case.topic);
            assert_eq!(case.a.begun()[before..], [(1, 2)], "the split that was left");
        }
    }
}
