//! Whole jobs in this process: from a program to its results.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tidegate::prelude::*;
use tidegate::types::options::keys;

#[derive(Default)]
struct Count {
    seen: ValueState<String, u64>,
}

impl ProcessFunction<String, String, (String, u64)> for Count {
    fn state(&mut self, states: &mut States<'_, String>) {
        states.value("seen", &mut self.seen);
    }

    fn process(
        &mut self,
        _: String,
        cx: &mut ProcessContext<'_, String, (String, u64)>,
    ) -> Result<(), BoxError> {
        let seen = self.seen.get(cx.at()).copied().unwrap_or(0) + 1;
        self.seen.set(cx.at(), seen);
        if seen == 1 {
            cx.register_event_timer(i64::MAX);
        }
        Ok(())
    }

    fn on_timer(
        &mut self,
        _: Timer,
        cx: &mut ProcessContext<'_, String, (String, u64)>,
    ) -> Result<(), BoxError> {
        let seen = self.seen.get(cx.at()).copied().unwrap_or(0);
        cx.collect((cx.key().clone(), seen));
        Ok(())
    }
}

fn word_count(env: &Environment, lines: Vec<String>) -> Collected<(String, u64)> {
    env.from_collection("lines", lines)
        .uid("lines")
        .flat_map("words", |line: String| {
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        })
        .key_by(|word: &String| word.clone())
        .process("count", Count::default)
        .uid("count")
        .collect("result")
}

fn lines(n: usize) -> (Vec<String>, HashMap<String, u64>) {
    let lines: Vec<String> = (0..n)
        .map(|i| format!("w{} w{} x{}", i % 7, i % 11, i % 1000))
        .collect();
    let mut expected = HashMap::new();
    for word in lines.iter().flat_map(|l| l.split_whitespace()) {
        *expected.entry(word.to_owned()).or_default() += 1;
    }
    (lines, expected)
}

#[test]
fn a_bounded_job_counts_every_word_once() {
    for parallelism in [1, 2, 3] {
        let mut env = Environment::new(format!("words-{parallelism}"));
        env.configuration()
            .set_text("parallelism.default", &parallelism.to_string());
        let (lines, expected) = lines(5000);
        let result = word_count(&env, lines);
        let job = env
            .build()
            .expect("builds")
            .start(StartOptions::default())
            .expect("starts");
        assert_eq!(job.wait_blocking().expect("ends well"), JobOutcome::Finished);
        let counts: HashMap<String, u64> = result.take().into_iter().collect();
        assert_eq!(counts, expected);
    }
}

#[test]
fn checkpoints_run_along_in_every_mode() {
    for mode in ["aligned", "unaligned", "adaptive", "at-least-once", "quiesce"] {
        let mut env = Environment::new(format!("modes-{mode}"));
        env.configuration()
            .set_text("parallelism.default", "2")
            .set(&keys::CHECKPOINT_INTERVAL, Some(Duration::from_millis(20)))
            .set_text("execution.checkpointing.mode", mode);
        let (lines, expected) = lines(200_000);
        let result = word_count(&env, lines);
        let job = env
            .build()
            .expect("builds")
            .start(StartOptions::default())
            .expect("starts");
        let ended = job.wait_blocking();
        assert_eq!(ended.expect("ends well"), JobOutcome::Finished, "{mode}");
        let counts: HashMap<String, u64> = result.take().into_iter().collect();
        assert_eq!(counts, expected, "{mode}");
        let completed = job.status().history.counts().completed;
        assert!(completed >= 1, "{mode}: {completed} checkpoints");
    }
}

/// Counts, fails once when told to, and says when a checkpoint is complete.
struct Fragile {
    seen: ValueState<u64, u64>,
    fail_at: Arc<AtomicU64>,
    completed: Arc<Signal>,
}

/// Something that happens once.
#[derive(Default)]
struct Signal {
    happened: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    fn set(&self) {
        *self.happened.lock().expect("nobody panics here") = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut happened = self.happened.lock().expect("nobody panics here");
        while !*happened {
            happened = self.changed.wait(happened).expect("nobody panics here");
        }
    }
}

/// The numbers below `n`; from `pause_at` on only once a checkpoint is complete.
fn numbers(n: u64, pause_at: u64, completed: Arc<Signal>) -> PushSource<u64> {
    PushSource::new(move |cx: &SourceContext<u64>| {
        let next = Arc::new(AtomicU64::new(0));
        let (take, give) = (next.clone(), next.clone());
        cx.snapshot_sources().register(
            "next",
            move || Ok(take.load(Ordering::Relaxed).to_le_bytes().to_vec()),
            move |old| {
                for (_, bytes) in old {
                    give.store(u64::from_le_bytes(bytes[..].try_into()?), Ordering::Relaxed);
                }
                Ok(())
            },
        )?;
        while next.load(Ordering::Relaxed) < n {
            if next.load(Ordering::Relaxed) >= pause_at {
                completed.wait();
            }
            let lock = cx.checkpoint_lock()?;
            for _ in 0..100 {
                let number = next.load(Ordering::Relaxed);
                if number < n {
                    lock.collect(number)?;
                    next.store(number + 1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    })
}

impl ProcessFunction<u64, u64, (u64, u64)> for Fragile {
    fn state(&mut self, states: &mut States<'_, u64>) {
        states.value("seen", &mut self.seen);
    }

    fn process(&mut self, record: u64, cx: &mut ProcessContext<'_, u64, (u64, u64)>) -> Result<(), BoxError> {
        let seen = self.seen.get(cx.at()).copied().unwrap_or(0) + 1;
        self.seen.set(cx.at(), seen);
        cx.register_event_timer(i64::MAX);
        if record > self.fail_at.load(Ordering::Relaxed)
            && self.fail_at.swap(u64::MAX, Ordering::Relaxed) != u64::MAX
        {
            panic!("told to fail at {record}");
        }
        Ok(())
    }

    fn on_timer(&mut self, _: Timer, cx: &mut ProcessContext<'_, u64, (u64, u64)>) -> Result<(), BoxError> {
        cx.collect((*cx.key(), self.seen.get(cx.at()).copied().unwrap_or(0)));
        Ok(())
    }

    fn checkpoint_completed(&mut self, _: CheckpointId) -> Result<(), BoxError> {
        self.completed.set();
        Ok(())
    }
}

#[test]
fn a_panic_in_user_code_costs_a_restart_and_no_record() {
    for mode in ["aligned", "unaligned", "adaptive", "quiesce"] {
        let mut env = Environment::new(format!("fragile-{mode}"));
        env.configuration()
            .set_text("parallelism.default", "2")
            .set_text("execution.checkpointing.interval", "20ms")
            .set_text("execution.checkpointing.mode", mode)
            .set_text("restart-strategy.type", "fixed-delay")
            .set_text("restart-strategy.fixed-delay.attempts", "3")
            .set_text("restart-strategy.fixed-delay.delay", "0ms");
        let n = 100_000u64;
        let fail_at = Arc::new(AtomicU64::new(n * 3 / 4));
        let completed = Arc::new(Signal::default());
        let result = env
            .source("numbers", numbers(n, n / 2, completed.clone()))
            .uid("numbers")
            .key_by(|n: &u64| n % 97)
            .process("count", move || Fragile {
                seen: ValueState::new(),
                fail_at: fail_at.clone(),
                completed: completed.clone(),
            })
            .uid("count")
            .collect("result");
        let job = env
            .build()
            .expect("builds")
            .start(StartOptions::default())
            .expect("starts");
        assert_eq!(
            job.wait_blocking().expect("ends well"),
            JobOutcome::Finished,
            "{mode}"
        );
        let status = job.status();
        assert_eq!(status.restarts, 1, "{mode}");
        assert!(
            status.history.latest_restored().is_some(),
            "{mode}: restored from a checkpoint"
        );
        let counts: HashMap<u64, u64> = result.take().into_iter().collect();
        let expected: HashMap<u64, u64> = (0..97)
            .map(|k| (k, (0..n).filter(|i| i % 97 == k).count() as u64))
            .collect();
        assert_eq!(counts, expected, "{mode}");
    }
}

/// Opens only when it may.
struct Late {
    may_open: Arc<Signal>,
}

impl ProcessFunction<u64, u64, u64> for Late {
    fn open(&mut self, _: &FunctionContext) -> Result<(), BoxError> {
        self.may_open.wait();
        Ok(())
    }

    fn process(&mut self, record: u64, cx: &mut ProcessContext<'_, u64, u64>) -> Result<(), BoxError> {
        cx.collect(record);
        Ok(())
    }
}

#[test]
fn a_checkpoint_that_is_asked_for_at_once_is_taken_when_all_tasks_run() {
    let env = Environment::new("asked at once");
    let (sender, source) = ChannelSource::<u64>::with_capacity(4);
    let may_open = Arc::new(Signal::default());
    let result = env
        .source("numbers", source)
        .uid("numbers")
        .key_by(|n: &u64| *n)
        .process("late", {
            let may_open = may_open.clone();
            move || Late {
                may_open: may_open.clone(),
            }
        })
        .uid("late")
        .collect("result");
    let job = env
        .build()
        .expect("builds")
        .start(StartOptions::default())
        .expect("starts");
    let mut asked = Box::pin(job.trigger_checkpoint());
    let polled = asked
        .as_mut()
        .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(polled.is_pending(), "a task isn't open yet: {polled:?}");
    may_open.set();
    let taken = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
        .block_on(asked);
    assert!(taken.is_ok(), "{taken:?}");
    sender.send(1, 7).expect("the job listens");
    sender.close();
    assert_eq!(job.wait_blocking().expect("ends well"), JobOutcome::Finished);
    assert_eq!(result.take(), [7]);
}
