//! Ends that cross other things: a failure behind a suspension's answer, a cancellation in every phase, a store that
//! takes nothing any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate::prelude::*;
use tidegate_protocol::coordinator::Request;
use tidegate_sim::log::{LogSink, Topic};
use tidegate_sim::process::Job;

use crate::kit::{Feed, Probe, Sum, World, configure, ids_and_sums, job_of};

const KEYS: u64 = 5;

struct Case {
    feed: Feed<u64>,
    topic: Topic<(String, u64)>,
    fails: Arc<AtomicBool>,
    failed: Arc<AtomicU64>,
}

impl Case {
    fn new(seed: u64) -> (World, Self) {
        let world = World::new(seed);
        let case = Self {
            feed: Feed::new(1),
            topic: world.topic("out", ids_and_sums(0..400, KEYS)),
            fails: Arc::default(),
            failed: Arc::default(),
        };
        case.feed.append(0, 0..400);
        (world, case)
    }

    /// Slow, so that a snapshot which overtakes leaves something in flight; user code fails once it is told to.
    fn job(&self, world: &World, more: &[(&str, &str)]) -> Job {
        let mut env = Environment::new("ends");
        configure(
            &mut env,
            &[
                ("execution.checkpointing.mode", "unaligned"),
                ("task.gate.budget", "fixed:16"),
                ("restart-strategy.type", "fixed-delay"),
                ("restart-strategy.fixed-delay.attempts", "infinite"),
            ],
        );
        configure(&mut env, more);
        let (tools, fails, failed) = (world.tools.clone(), self.fails.clone(), self.failed.clone());
        let _sink = env
            .source("source", self.feed.clone())
            .uid("source")
            .parallelism(1)
            .rebalance()
            .try_map("fails", move |n: u64| -> Result<u64, BoxError> {
                if fails.load(Ordering::Relaxed) {
                    failed.fetch_add(1, Ordering::Relaxed);
                    return Err(format!("injected at {n}").into());
                }
                Ok(n)
            })
            .uid("fails")
            .parallelism(2)
            .key_by(|n: &u64| n % KEYS)
            .process("sum", move || {
                Sum::new(&tools, &Probe::default()).takes(Duration::from_millis(20))
            })
            .uid("sum")
            .parallelism(2)
            .sink("out", LogSink::new(self.topic.clone()))
            .uid("out");
        job_of(&env)
    }

    /// Goes on from the newest checkpoint to the end.
    fn finish(&self, world: &mut World) {
        self.fails.store(false, Ordering::Relaxed);
        self.feed.end_all();
        world.run(self.job(world, &[]));
        world.finish(&self.topic);
        world.assert_no_orphans();
    }
}

/// Whoever suspended the job has its snapshot: what fails behind it must not start it again.
#[test]
fn a_failure_after_a_suspension_ends_as_suspended() {
    let mut failed = 0;
    for seed in 0..20 {
        let (mut world, case) = Case::new(seed);
        world.run(case.job(&world, &[]));
        world.turns(500);
        let request = world.request(Request::Suspend { savepoint: None });
        world.until("it is answered", |w| w.answer(request).is_some());
        let answer = world.answer(request).cloned();
        assert!(matches!(answer, Some(Ok(_))), "{answer:?}");
        case.fails.store(true, Ordering::Relaxed);
        let ended = world.ended();
        assert!(
            matches!(ended, Ok(JobOutcome::Suspended)),
            "{ended:?}\n{}",
            world.tail()
        );
        failed += case.failed.load(Ordering::Relaxed);
        case.finish(&mut world);
    }
    assert!(failed > 0, "nothing failed behind a suspension");
}

/// In whatever phase a job is cancelled: it ends as cancelled, and its checkpoints are gone if they are to go.
#[test]
fn a_job_that_is_cancelled_at_any_moment_leaves_no_checkpoint() {
    for seed in 0..60 {
        let (mut world, case) = Case::new(seed);
        world.start(case.job(&world, &[("execution.checkpointing.interval", "10ms")]));
        world.turns(seed * 40);
        if seed % 2 == 0 {
            // It is failing, or waits for its next attempt.
            case.fails.store(true, Ordering::Relaxed);
            world.turns(seed * 7 % 100);
        }
        world.sim.newest().cancel();
        let ended = world.ended();
        assert!(
            matches!(ended, Ok(JobOutcome::Canceled)),
            "seed {seed}: {ended:?}\n{}",
            world.tail()
        );
        assert_eq!(world.complete_in_store(), [], "seed {seed}");
    }
}
