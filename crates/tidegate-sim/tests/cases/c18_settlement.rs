//! C18, sink settlement: four sink subtasks, two after the restore; a crash between prepare and commit of each; a
//! restore from an older checkpoint than was committed.

use std::collections::BTreeSet;

use tidegate::prelude::*;
use tidegate_sim::log::{Expected, Topic, TxnState};
use tidegate_sim::process::Job;

use crate::kit::{CaseSink, Commits, Feed, Probe, Sum, World, configure, ids_and_sums, job_of};

const KEYS: u64 = 17;

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
            topic: world.topic("out", ids_and_sums(0..300, KEYS)),
            commits: Commits::all(),
        };
        (world, case)
    }

    fn job(&self, world: &World, sinks: u32, new_lineage: bool) -> Job {
        let mut env = Environment::new("settlement");
        configure(
            &mut env,
            &[
                ("execution.checkpointing.mode", "aligned"),
                ("execution.checkpointing.num-retained", "3"),
                (
                    "execution.state-recovery.new-lineage",
                    if new_lineage { "true" } else { "false" },
                ),
            ],
        );
        let tools = world.tools.clone();
        let _sink = env
            .source("source", self.feed.clone())
            .uid("source")
            .key_by(|n: &u64| n % KEYS)
            .process("sum", move || Sum::new(&tools, &Probe::default()))
            .uid("sum")
            .parallelism(sinks)
            .sink("out", CaseSink::new(&self.topic, &self.commits))
            .uid("out")
            .parallelism(sinks);
        job_of(&env)
    }

    fn in_state(&self, state: TxnState) -> usize {
        self.topic.in_state(state).len()
    }
}

/// Crashes after `committed` of four prepared transactions, with four more open behind them.
#[test]
fn nothing_of_any_old_subtask_stays_and_nothing_is_committed_twice() {
    for committed in 0..4u64 {
        for seed in 0..6 {
            let (mut world, case) = Case::new(seed);
            case.feed.append(0, 0..100);
            let job = case.job(&world, 4, false);
            world.run(job);
            world.watch_commits(&case.topic);
            world.until("all four write", |w| {
                case.in_state(TxnState::Open) == 4 && w.records_out(w.id("source", 0)) == 100
            });
            case.commits.only(committed);
            let request = world.trigger();
            world.until("as many as may be are committed", |w| {
                !w.complete_in_store().is_empty()
                    && case.in_state(TxnState::Committed) as u64 == committed
                    && w.answer(request).is_some()
            });
            // Four more are begun that no checkpoint knows of.
            case.feed.append(0, 100..200);
            world.until("all four write again", |_| case.in_state(TxnState::Open) == 4);
            world.turns(200);
            world.crash();
            assert_eq!(case.in_state(TxnState::Prepared) as u64, 4 - committed);

            case.commits.only(u64::MAX);
            let job = case.job(&world, 2, false);
            world.run(job);
            assert_eq!(
                case.in_state(TxnState::Committed),
                4,
                "what the checkpoint lists, of all old subtasks"
            );
            assert_eq!(case.in_state(TxnState::Aborted), 4, "what it doesn't list");
            assert_eq!(case.in_state(TxnState::Prepared), 0);
            case.feed.append(0, 200..300);
            case.feed.end_all();
            world.finish(&case.topic);
            world.assert_no_orphans();
        }
    }
}

#[test]
fn an_older_checkpoint_than_was_committed_is_refused_without_a_new_lineage() {
    for seed in 0..6 {
        let (mut world, mut case) = Case::new(seed);
        if seed % 2 == 1 {
            // A new line of output repeats what the old one had: the user says that this is all right.
            let expected = Expected::AtLeast(ids_and_sums(0..300, KEYS));
            let (faults, violations) = (world.tools.faults.clone(), world.tools.violations.clone());
            case.topic = Topic::new("out", expected, faults, violations);
        }
        case.feed.append(0, 0..100);
        let job = case.job(&world, 4, false);
        world.run(job);
        world.until("read", |w| w.records_out(w.id("source", 0)) == 100);
        let older = world.checkpoint();
        case.feed.append(0, 100..200);
        world.until("read", |w| w.records_out(w.id("source", 0)) == 200);
        let newer = world.checkpoint();
        world.until("both are committed", |_| case.in_state(TxnState::Prepared) == 0);
        let visible = case.topic.visible();
        world.crash();

        let refused = Job {
            restore: world.path_of(older.id),
            ..case.job(&world, 2, false)
        };
        world.start(refused);
        match world.ended() {
            Err(JobError::Settle { uid, reason, .. }) => {
                assert_eq!(uid, "out");
                let named = [older.id, newer.id].map(|id| format!("checkpoint {id} "));
                assert!(named.iter().all(|name| reason.contains(name)), "{reason}");
                assert!(reason.contains("--new-lineage"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(case.topic.visible(), visible, "nothing was touched");

        // The newest goes on as if nothing had been tried, and an older one on the user's word, under other names.
        if seed % 2 == 0 {
            let job = case.job(&world, 2, false);
            world.run(job);
            case.feed.append(0, 200..300);
            case.feed.end_all();
            world.finish(&case.topic);
        } else {
            let job = Job {
                restore: world.path_of(older.id),
                ..case.job(&world, 2, true)
            };
            world.run(job);
            case.feed.append(0, 200..300);
            case.feed.end_all();
            world.finish(&case.topic);
            let lineages: BTreeSet<u64> = case
                .topic
                .in_state(TxnState::Committed)
                .iter()
                .map(|t| t.lineage)
                .collect();
            assert_eq!(lineages.len(), 2, "what is written twice has a name of its own");
        }
    }
}
