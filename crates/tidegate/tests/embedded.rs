//! Whole jobs in this process: from a program to its results.

use std::collections::HashMap;
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

    fn on_timer(&mut self, _: Timer, cx: &mut ProcessContext<'_, String, (String, u64)>) -> Result<(), BoxError> {
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
    let lines: Vec<String> = (0..n).map(|i| format!("w{} w{} x{}", i % 7, i % 11, i % 1000)).collect();
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
        env.configuration().set_text("parallelism.default", &parallelism.to_string());
        let (lines, expected) = lines(5000);
        let result = word_count(&env, lines);
        let job = env.build().expect("builds").start(StartOptions::default()).expect("starts");
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
        let job = env.build().expect("builds").start(StartOptions::default()).expect("starts");
        let ended = job.wait_blocking();
        assert_eq!(ended.expect("ends well"), JobOutcome::Finished, "{mode}");
        let counts: HashMap<String, u64> = result.take().into_iter().collect();
        assert_eq!(counts, expected, "{mode}");
        let completed = job.status().history.counts().completed;
        assert!(completed >= 1, "{mode}: {completed} checkpoints");
    }
}
