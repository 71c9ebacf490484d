//! C16, watermarks in the cut: a crash in the middle of one watermark's timers, a record after the restore that was
//! late before it, and 3 → 2 subtasks with a high watermark queued beside an older channel's records.

use std::time::Duration;

use tidegate::prelude::*;
use tidegate_sim::log::{LogSink, Topic};
use tidegate_sim::process::Job;
use tidegate_types::SubtaskId;

use crate::kit::{Feed, Probe, World, configure, job_of};

/// A record with its key, its time, and what it is.
type Row = (u64, i64, u64);

/// Sets a timer for every record that isn't late, and says which were, and which timers fired.
struct Timed {
    probe: Probe,
    waiting: ListState<u64, (i64, u64)>,
}

impl Timed {
    fn new(probe: &Probe) -> Self {
        Self {
            probe: probe.clone(),
            waiting: ListState::default(),
        }
    }
}

impl ProcessFunction<u64, Row, (String, u64)> for Timed {
    fn state(&mut self, states: &mut States<'_, u64>) {
        states.list("waiting", &mut self.waiting);
    }

    fn process(
        &mut self,
        (_, time, what): Row,
        cx: &mut ProcessContext<'_, u64, (String, u64)>,
    ) -> Result<(), BoxError> {
        if cx.timestamp() != Some(time) {
            return Err(format!("record {what} came with time {:?}", cx.timestamp()).into());
        }
        if time <= cx.watermark() {
            cx.collect(("late".to_owned(), what));
        } else {
            self.waiting.add(cx.at(), (time, what));
            cx.register_event_timer(time);
        }
        Ok(())
    }

    fn on_timer(
        &mut self,
        timer: Timer,
        cx: &mut ProcessContext<'_, u64, (String, u64)>,
    ) -> Result<(), BoxError> {
        let waiting: Vec<(i64, u64)> = self.waiting.take(cx.at());
        let (due, left): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(t, _)| *t == timer.time);
        if due.is_empty() {
            return Err(format!("a timer at {} fired for nothing", timer.time).into());
        }
        self.waiting.set(cx.at(), left);
        for (_, what) in due {
            cx.collect(("fired".to_owned(), what));
        }
        self.probe.count();
        Ok(())
    }
}

struct Case {
    feed: Feed<Row>,
    topic: Topic<(String, u64)>,
    probe: Probe,
}

impl Case {
    fn new(world: &World, partitions: u32, expected: Vec<(String, u64)>) -> Self {
        Self {
            feed: Feed::new(partitions),
            topic: world.topic("out", expected),
            probe: Probe::default(),
        }
    }

    fn job(&self, mode: &str, readers: u32, timers: u32) -> Job {
        let mut env = Environment::new("watermarks");
        configure(
            &mut env,
            &[
                ("execution.checkpointing.mode", mode),
                ("execution.buffer-timeout.interval", "0 ms"),
                ("task.gate.budget", "fixed:400"),
            ],
        );
        let probe = self.probe.clone();
        let strategy = WatermarkStrategy::monotonous().with_interval(Duration::ZERO);
        let _sink = env
            .source("source", self.feed.clone())
            .uid("source")
            .parallelism(readers)
            .assign_timestamps("times", strategy, |row: &Row| row.1)
            .uid("times")
            .parallelism(readers)
            .key_by(|row: &Row| row.0)
            .process("timed", move || Timed::new(&probe))
            .uid("timed")
            .parallelism(timers)
            .sink("out", LogSink::new(self.topic.clone()))
            .uid("out")
            .parallelism(timers);
        job_of(&env)
    }
}

fn outcome(what: &str, records: impl IntoIterator<Item = u64>) -> Vec<(String, u64)> {
    records.into_iter().map(|n| (what.to_owned(), n)).collect()
}

fn out(world: &World, uid: &str, subtask: u32) -> u64 {
    let id: SubtaskId = world.id(uid, subtask);
    world.records_out(id)
}

/// 200 timers are due at one watermark; the checkpoint falls behind some of them, and the process dies.
#[test]
fn every_timer_of_a_watermark_fires_once_across_a_crash_in_the_middle() {
    for mode in ["unaligned", "adaptive", "aligned"] {
        for (seed, then) in (0..).zip([1, 2, 3, 1]) {
            let mut world = World::new(seed);
            let case = Case::new(&world, 1, outcome("fired", 0..201));
            // Many keys, times below 1,000; the last record pushes the watermark over all of them at once.
            case.feed
                .append(0, (0..200u64).map(|n| (n % 60, 10 + n as i64 / 8, n)));
            world.run(case.job(mode, 1, 1));
            world.until("they are in", |w| out(w, "source", 0) == 200);
            world.hold("timed");
            case.feed.append(0, [(3, 1_000, 200)]);
            world.until("the watermark is queued", |w| out(w, "source", 0) == 201);
            world.turns(200);
            // Steps of three records each, until some timers have fired, and not all.
            let timed = world.id("timed", 0);
            while case.probe.seen() < 40 + seed {
                assert!(world.sim.step_task(timed, 3));
            }
            let (request, id) = world.begin();
            world.sim.holds.fuel = Some(3);
            world.until("the barrier is there", |w| w.has_acked(id, w.id("source", 0)));
            let at_barrier = case.probe.seen();
            world.release("timed");
            world.until("the cut is taken", |w| {
                w.task(timed).barriers().pending().next().is_none() || w.answer(request).is_some()
            });
            let at_cut = case.probe.seen();
            if mode == "unaligned" {
                assert!(at_cut < 160, "in the middle: {at_barrier} to {at_cut} have fired");
            }
            world.until("the checkpoint is complete", |w| w.answer(request).is_some());
            world.crash();

            case.feed.end_all();
            world.run(case.job(mode, 1, then));
            world.finish(&case.topic);
        }
    }
}

/// A record behind the watermark is late before the crash, in flight across it, and after it.
#[test]
fn what_was_late_stays_late_and_nothing_else_is() {
    for mode in ["unaligned", "aligned"] {
        for (seed, then) in (0..).zip([1, 2, 1, 3]) {
            let mut world = World::new(seed);
            let late = outcome("late", [1, 2, 3, 4]);
            let expected = late.into_iter().chain(outcome("fired", [0, 10, 11, 12]));
            let case = Case::new(&world, 1, expected.collect());
            // Time 100 puts the watermark at 99; what follows with 50 is late, with 100 and more it isn't.
            case.feed.append(0, [(0, 100, 0)]);
            world.run(case.job(mode, 1, 1));
            world.until("it is read", |w| out(w, "source", 0) == 1);
            case.feed.append(0, [(0, 50, 1), (0, 100, 10)]);
            world.until("a late one is through", |w| out(w, "source", 0) == 3);
            world.turns(200);
            world.hold("timed");
            case.feed.append(0, [(1, 60, 2), (1, 101, 11)]);
            world.until("a late one is queued", |w| out(w, "source", 0) == 5);
            let (request, id) = world.begin();
            world.until("the barrier is there", |w| w.has_acked(id, w.id("source", 0)));
            world.release("timed");
            world.until("the checkpoint is complete", |w| w.answer(request).is_some());
            if mode == "unaligned" {
                let stats = world.newest_complete().expect("it is complete");
                assert_eq!(world.in_flight(&stats, "timed").values().sum::<u64>(), 2);
            }
            world.crash();

            // 101 put the watermark at 100: that is what 100 comes too late for, in flight or not.
            case.feed.append(0, [(2, 70, 3), (2, 100, 4), (2, 101, 12)]);
            case.feed.end_all();
            world.run(case.job(mode, 1, then));
            world.finish(&case.topic);
        }
    }
}

/// Three subtasks become two while one channel has a high watermark queued and the others' older records stand beside
/// it: none of those counts as late, whoever gets them.
#[test]
fn a_high_watermark_beside_older_records_makes_none_of_them_late() {
    for seed in 0..12 {
        let mut world = World::new(seed);
        let case = Case::new(&world, 3, outcome("fired", 0..120));
        let job = case.job("unaligned", 3, 3);
        world.run(job);
        world.hold("timed");
        // Partition 0 runs ahead to 100,000; 1 and 2 are at a few hundred, in order within themselves.
        case.feed
            .append(0, (0..40u64).map(|n| (n, 100_000 + n as i64, n)));
        case.feed
            .append(1, (40..80u64).map(|n| (n - 40, 300 + n as i64, n)));
        case.feed
            .append(2, (80..110u64).map(|n| (n - 80, 100 + n as i64, n)));
        world.until("all are queued", |w| {
            out(w, "source", 0) == 40 && out(w, "source", 1) == 40 && out(w, "source", 2) == 30
        });
        world.turns(400);
        let (request, id) = world.begin();
        world.until("the sources have cut", |w| {
            w.ids("source").iter().all(|s| w.has_acked(id, *s))
        });
        world.release("timed");
        world.until("the checkpoint is complete", |w| w.answer(request).is_some());
        let stats = world.newest_complete().expect("it is complete");
        assert_eq!(world.in_flight(&stats, "timed").len(), 9, "in every channel");
        world.crash();

        // The rest of partition 2 is older than anything in partition 0, and not late.
        case.feed
            .append(2, (110..120u64).map(|n| (n - 80, 100 + n as i64, n)));
        let job = case.job("unaligned", 3, 2);
        world.run(job);
        case.feed.end_all();
        world.finish(&case.topic);
    }
}
