//! C7, the commit window: a two-phase sink over a log with begin, prepare, commit, abort, fencing and expiry. A crash
//! at every place of the window, two restores from the same checkpoint, and transactions that expired in between.

use tidegate::prelude::*;
use tidegate_sim::log::{Topic, TxnState};
use tidegate_sim::process::Job;

use crate::kit::{CaseSink, Commits, Feed, Probe, Sum, World, configure, ids_and_sums, job_of};

const KEYS: u64 = 9;
const SINKS: u32 = 3;

struct Case {
    feed: Feed<u64>,
    topic: Topic<(String, u64)>,
    commits: Commits,
}

impl Case {
    fn new(seed: u64) -> (World, Self) {
        let world = World::new(seed);
        let case = Self {
            feed: Feed::new(1),
            topic: world.topic("out", ids_and_sums(0..200, KEYS)),
            commits: Commits::all(),
        };
        case.feed.append(0, 0..100);
        (world, case)
    }

    fn job(&self, world: &World) -> Job {
        let mut env = Environment::new("window");
        configure(
            &mut env,
            &[
                ("execution.checkpointing.mode", "unaligned"),
                ("parallelism.default", "3"),
                (
                    "execution.checkpointing.externalized-checkpoint-retention",
                    "retain-on-cancellation",
                ),
                ("restart-strategy.type", "fixed-delay"),
                ("restart-strategy.fixed-delay.attempts", "infinite"),
            ],
        );
        let tools = world.tools.clone();
        let _sink = env
            .source("source", self.feed.clone())
            .uid("source")
            .parallelism(1)
            .key_by(|n: &u64| n % KEYS)
            .process("sum", move || Sum::new(&tools, &Probe::default()))
            .uid("sum")
            .sink("out", CaseSink::new(&self.topic, &self.commits))
            .uid("out");
        job_of(&env)
    }

    /// Everything that was fed stands in open transactions of all sink subtasks.
    fn run_and_write(&self, world: &mut World) {
        let job = self.job(world);
        world.run(job);
        world.watch_commits(&self.topic);
        world.until("all subtasks write", |_| {
            self.topic.in_state(TxnState::Open).len() == SINKS as usize
        });
        world.turns(2_000);
    }

    /// Restores twice from the same checkpoint, the first time only until sinks are settled, and runs to the end.
    fn restore_twice_and_finish(&self, world: &mut World) {
        let before = self.commits.settled();
        let job = self.job(world);
        world.start(job.clone());
        world.until("sinks are settled", |_| self.commits.settled() > before);
        assert_eq!(self.topic.in_state(TxnState::Open).len(), 0);
        assert_eq!(
            self.topic.in_state(TxnState::Prepared).len(),
            0,
            "no transaction stays open"
        );
        let visible = self.topic.visible();
        world.crash();

        world.run(job);
        assert!(self.topic.visible() >= visible);
        self.feed.append(0, 100..200);
        self.feed.end_all();
        world.finish(&self.topic);
        world.assert_no_orphans();
    }
}

#[test]
fn after_prepare_and_before_completion() {
    for seed in 0..10 {
        let (mut world, case) = Case::new(seed);
        case.run_and_write(&mut world);
        world.trigger();
        world.until("all have prepared", |_| {
            case.topic.in_state(TxnState::Prepared).len() == SINKS as usize
        });
        assert_eq!(world.complete_in_store(), []);
        world.crash();
        case.restore_twice_and_finish(&mut world);
    }
}

#[test]
fn after_completion_and_before_commit() {
    for seed in 0..10 {
        let (mut world, case) = Case::new(seed);
        case.run_and_write(&mut world);
        world.trigger();
        world.until("it is complete in the store", |w| {
            !w.complete_in_store().is_empty()
        });
        assert_eq!(case.topic.visible(), 0, "nothing is committed yet");
        world.crash();
        case.restore_twice_and_finish(&mut world);
    }
}

#[test]
fn half_way_through_commits() {
    for seed in 0..9 {
        let (mut world, case) = Case::new(seed);
        case.run_and_write(&mut world);
        let before = 1 + seed % 2;
        case.commits.only(before);
        world.trigger();
        world.until("some are committed", |_| {
            case.topic.in_state(TxnState::Committed).len() as u64 == before
        });
        assert!(!case.topic.in_state(TxnState::Prepared).is_empty());
        world.crash();
        case.commits.only(u64::MAX);
        case.restore_twice_and_finish(&mut world);
    }
}

#[test]
fn after_commit_and_before_its_acknowledgement() {
    for seed in 0..10 {
        let (mut world, case) = Case::new(seed);
        case.run_and_write(&mut world);
        world.trigger();
        world.until("all are committed", |_| {
            case.topic.in_state(TxnState::Committed).len() == SINKS as usize
        });
        // In the turn in which it committed: the master hasn't heard of it.
        world.crash();
        case.restore_twice_and_finish(&mut world);
    }
}

/// A commit that fails for a while is tried again, by the running job too.
#[test]
fn a_commit_that_fails_for_a_while_holds_up_nothing_for_good() {
    for seed in 0..5 {
        let (mut world, case) = Case::new(seed);
        case.run_and_write(&mut world);
        case.commits.only(1);
        world.trigger();
        world.until("one is committed", |_| {
            case.topic.in_state(TxnState::Committed).len() == 1
        });
        world.turns(3_000);
        case.commits.only(u64::MAX);
        world.until("all are committed", |_| {
            case.topic.in_state(TxnState::Committed).len() == SINKS as usize
        });
        case.feed.append(0, 100..200);
        case.feed.end_all();
        world.finish(&case.topic);
    }
}

/// The sink's system stays away: whoever cancels the job doesn't wait for it, and the next start commits.
#[test]
fn a_cancelled_job_leaves_a_commit_that_fails_to_the_next_start() {
    for seed in 0..5 {
        let (mut world, case) = Case::new(seed);
        case.run_and_write(&mut world);
        case.commits.only(1);
        world.trigger();
        world.until("one is committed", |_| {
            case.topic.in_state(TxnState::Committed).len() == 1
        });
        world.sim.newest().cancel();
        let ended = world.ended();
        assert!(matches!(ended, Ok(JobOutcome::Canceled)), "{ended:?}");
        case.commits.only(u64::MAX);
        case.restore_twice_and_finish(&mut world);
    }
}

/// They expire while the job runs: the same, without a crash.
#[test]
fn expiry_in_a_running_job_ends_it_with_one_error() {
    for seed in 0..5 {
        let (mut world, case) = Case::new(seed);
        case.run_and_write(&mut world);
        world.trigger();
        world.until("it is complete in the store", |w| {
            !w.complete_in_store().is_empty()
        });
        case.topic.expire_prepared();
        match world.ended() {
            Err(JobError::Commit { uid, reason, .. }) => {
                assert_eq!(uid, "out");
                assert!(reason.contains("has expired"), "{reason}");
            }
            other => panic!("{other:?}\n{}", world.tail()),
        }
        assert_eq!(case.commits.settled(), 1, "no restart");
        world.assert_clean();
    }
}

/// Between completion and restore the prepared transactions expired: one error that says so, and no restart.
#[test]
fn expiry_is_one_error_and_not_a_restart_loop() {
    for seed in 0..5 {
        let (mut world, case) = Case::new(seed);
        case.run_and_write(&mut world);
        world.trigger();
        world.until("it is complete in the store", |w| {
            !w.complete_in_store().is_empty()
        });
        world.crash();
        case.topic.expire_prepared();

        let job = case.job(&world);
        for _ in 0..2 {
            let before = case.commits.settled();
            world.start(job.clone());
            match world.ended() {
                Err(JobError::Settle { uid, reason, .. }) => {
                    assert_eq!(uid, "out");
                    assert!(
                        reason.contains("has expired") && reason.contains("lost"),
                        "{reason}"
                    );
                }
                other => panic!("{other:?}\n{}", world.tail()),
            }
            assert_eq!(
                case.commits.settled(),
                before + 1,
                "tried once, not again and again"
            );
        }
        world.assert_clean();

        // The user says that he can do without: counted, and the rest is exact from there on.
        case.commits.skip_expired();
        world.run(job);
        assert_eq!(case.commits.skipped(), u64::from(SINKS));
        let visible = case.topic.visible();
        case.feed.append(0, 100..200);
        case.feed.end_all();
        assert!(matches!(world.ended(), Ok(JobOutcome::Finished)));
        world.assert_clean();
        assert_eq!(visible, 0, "what expired is lost and stays lost");
        assert_eq!(case.topic.visible(), 100 + KEYS, "100 new records and the sums");
        let open = [TxnState::Open, TxnState::Prepared].map(|s| case.topic.in_state(s).len());
        assert_eq!(open, [0, 0]);
    }
}
