//! C5, crash during recovery: 1,000 in-flight records are restored into a slow operator; a checkpoint is triggered
//! after 300, the process crashes after 400, and everything is restored again, also at another parallelism.

use std::time::Duration;

use tidegate::prelude::*;
use tidegate_protocol::coordinator::CheckpointStatus;
use tidegate_sim::log::{LogSink, Topic};
use tidegate_sim::process::Job;
use tidegate_types::SnapshotMode;

use crate::kit::{Feed, Probe, Sum, World, configure, ids_and_sums, job_of};

const KEYS: u64 = 40;
const RESTORED: u64 = 1_000;
const RECORDS: u64 = 1_300;

struct Case {
    feed: Feed<u64>,
    topic: Topic<(String, u64)>,
    probe: Probe,
}

impl Case {
    fn job(&self, world: &World, mode: &str, sums: u32, timeout: &str) -> Job {
        let mut env = Environment::new("recovery");
        configure(
            &mut env,
            &[
                ("execution.checkpointing.mode", mode),
                ("execution.checkpointing.timeout", timeout),
                ("execution.checkpointing.tolerable-failed-checkpoints", "10"),
                ("task.gate.budget", "fixed:2000"),
            ],
        );
        let (tools, probe) = (world.tools.clone(), self.probe.clone());
        let _sink = env
            .source("source", self.feed.clone())
            .uid("source")
            .key_by(|n: &u64| n % KEYS)
            .process("sum", move || {
                Sum::new(&tools, &probe).takes(Duration::from_millis(10))
            })
            .uid("sum")
            .parallelism(sums)
            .sink("out", LogSink::new(self.topic.clone()))
            .uid("out")
            .parallelism(sums);
        job_of(&env)
    }

    /// Leaves a checkpoint with 1,000 records in flight.
    fn begin(seed: u64) -> (World, Self) {
        let mut world = World::new(seed);
        let case = Self {
            feed: Feed::new(1),
            topic: world.topic("out", ids_and_sums(0..RECORDS, KEYS)),
            probe: Probe::default(),
        };
        case.feed.append(0, 0..RESTORED);
        let job = case.job(&world, "unaligned", 1, "10 min");
        world.run(job);
        world.hold("sum");
        world.until("1,000 records are queued", |w| {
            w.records_out(w.id("source", 0)) == RESTORED
        });
        let (request, _) = world.begin();
        world.turns(50);
        world.release("sum");
        world.until("the checkpoint is complete", |w| w.answer(request).is_some());
        let stats = world.newest_complete().expect("it is complete");
        assert_eq!(world.in_flight(&stats, "sum").values().sum::<u64>(), RESTORED);
        world.crash();
        case.probe.reset();
        case.feed.append(0, RESTORED..RECORDS);
        (world, case)
    }

    /// Restores, and triggers after 300 records.
    fn restore(&self, world: &mut World, mode: &str, sums: u32, timeout: &str) {
        let job = self.job(world, mode, sums, timeout);
        world.run(job);
        world.until("300 records are through", |_| self.probe.seen() >= 300);
    }

    fn finish(&self, world: &mut World, mode: &str, sums: u32) {
        self.feed.end_all();
        let job = self.job(world, mode, sums, "10 min");
        world.run(job);
        world.finish(&self.topic);
    }
}

#[test]
fn an_unaligned_checkpoint_completes_while_restored_records_remain() {
    for (seed, (then, last)) in (0..).zip([(1, 1), (1, 3), (2, 1), (3, 2)]) {
        let (mut world, case) = Case::begin(seed);
        case.restore(&mut world, "unaligned", then, "10 min");
        let stats = world.checkpoint();
        assert!(
            case.probe.seen() < RESTORED,
            "complete while restored records remain"
        );
        assert!(world.in_flight(&stats, "sum").values().sum::<u64>() > 0);
        assert_eq!(
            world.part(&stats, "sum", 0).stats.mode,
            Some(SnapshotMode::Unaligned)
        );
        world.until("400 records are through", |_| case.probe.seen() >= 400);
        assert!(case.probe.seen() < RESTORED);
        world.crash();
        case.finish(&mut world, "unaligned", last);
    }
}

#[test]
fn an_adaptive_checkpoint_converts_while_restored_records_remain() {
    for (seed, (then, last)) in (0..).zip([(1, 1), (1, 3), (2, 1), (3, 2)]) {
        let (mut world, case) = Case::begin(seed);
        case.restore(&mut world, "adaptive", then, "10 min");
        let stats = world.checkpoint();
        assert!(
            case.probe.seen() < RESTORED,
            "complete while restored records remain"
        );
        assert!(world.in_flight(&stats, "sum").values().sum::<u64>() > 0);
        assert_eq!(
            world.part(&stats, "sum", 0).stats.mode,
            Some(SnapshotMode::Unaligned)
        );
        let waited = world.part(&stats, "sum", 0).stats.end_to_end;
        assert!(
            waited >= Duration::from_secs(1),
            "it was aligned for its timeout: {waited:?}"
        );
        world.until("400 records are through", |_| case.probe.seen() >= 400);
        world.crash();
        case.finish(&mut world, "adaptive", last);
    }
}

#[test]
fn an_aligned_checkpoint_completes_once_the_restored_records_are_done() {
    for (seed, (then, last)) in (0..).zip([(1, 1), (1, 3), (2, 1), (3, 2)]) {
        // Crashed before it completes: the first snapshot holds.
        let (mut world, case) = Case::begin(seed);
        case.restore(&mut world, "aligned", then, "10 min");
        let request = world.trigger();
        world.until("400 records are through", |_| case.probe.seen() >= 400);
        assert!(
            world.answer(request).is_none(),
            "aligned waits for what was restored"
        );
        world.crash();

        // Left alone it completes when the last restored record is done.
        case.probe.reset();
        case.restore(&mut world, "aligned", last, "10 min");
        let stats = world.checkpoint();
        assert!(case.probe.seen() >= RESTORED);
        assert_eq!(stats.persisted_bytes(), 0);
        world.crash();
        case.finish(&mut world, "aligned", then);
    }
}

/// The restored records take longer than a checkpoint may: it is given up at its timeout, and the next one may start.
#[test]
fn an_aligned_checkpoint_holds_the_slot_no_longer_than_its_timeout() {
    for (seed, sums) in (0..).zip([1, 2]) {
        let (mut world, case) = Case::begin(seed);
        case.restore(&mut world, "aligned", sums, "1 s");
        let mut aborted = 0;
        loop {
            let (request, id) = world.begin();
            world.until("it is decided", |w| w.answer(request).is_some());
            let stats = world.stats(id).expect("it is known");
            if stats.status == CheckpointStatus::Completed {
                assert!(case.probe.seen() >= RESTORED);
                break;
            }
            let held = stats.ended_at.expect("it was decided").since(stats.triggered_at);
            assert!(
                (Duration::from_secs(1)..Duration::from_secs(2)).contains(&held),
                "virtual time: given up at its timeout, not before and not much later: {held:?}"
            );
            aborted += 1;
        }
        assert!(
            aborted >= 2,
            "{aborted}: the case wants a recovery that takes longer"
        );
        world.crash();
        case.finish(&mut world, "aligned", 3);
    }
}
