//! The word count: the smallest whole job.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::prelude::*;
use tidegate_runtime::master::RestoreChoice;
use tidegate_types::options::keys;

use crate::checks::commits::Witness;
use crate::log::{Expected, LogSink, Topic};
use crate::process::Job;
use crate::scenario::{Scenario, Tools};
use crate::seed::{Rng, Seed};

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

/// Counts words, with periodic checkpoints.
pub struct WordCount {
    tools: Tools,
    lines: Vec<String>,
    parallelism: u64,
    rescales: bool,
    interval: Duration,
    mode: &'static str,
    budget: &'static str,
    inline: &'static str,
    topic: Topic<(String, u64)>,
}

/// Every mode that promises exactly once.
pub const EXACTLY_ONCE: [&str; 4] = ["aligned", "unaligned", "adaptive", "quiesce"];

impl WordCount {
    /// Draws the job.
    pub fn draw(rng: &mut Rng, tools: Tools) -> Self {
        let count = rng.range(20, 600);
        let lines: Vec<String> = (0..count)
            .map(|i| format!("w{} w{} x{}", i % 7, i % 11, i % 100))
            .collect();
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        for word in lines.iter().flat_map(|l| l.split_whitespace()) {
            *expected.entry(word.to_owned()).or_default() += 1;
        }
        let expected = Expected::Exactly(expected.into_iter().collect());
        let topic = Topic::new("result", expected, tools.faults.clone(), tools.violations.clone());
        Self {
            lines,
            parallelism: rng.range(1, 3),
            rescales: rng.chance(1, 2),
            interval: Duration::from_millis(rng.range(10, 60)),
            mode: rng.pick(&EXACTLY_ONCE),
            budget: rng.pick(&["fixed:2", "fixed:8", "100 ms"]),
            inline: rng.pick(&["0 kb", "1 kb", "256 kb"]),
            topic,
            tools,
        }
    }
}

impl Scenario for WordCount {
    fn describe(&self) -> String {
        format!(
            "word count of {} lines, parallelism {}{}, {} every {:?}, budget {}, inline {}",
            self.lines.len(),
            self.parallelism,
            if self.rescales { " at first" } else { "" },
            self.mode,
            self.interval,
            self.budget,
            self.inline
        )
    }

    fn build(&self, start: Seed) -> Job {
        let mut rng = start.rng();
        let parallelism = if self.rescales {
            rng.range(1, 4)
        } else {
            self.parallelism
        };
        let mut env = Environment::new("words");
        env.configuration()
            .set_text("parallelism.default", &parallelism.to_string())
            .set(&keys::CHECKPOINT_INTERVAL, Some(self.interval))
            .set_text("execution.checkpointing.mode", self.mode)
            .set_text("execution.checkpointing.tolerable-failed-checkpoints", "1000")
            .set_text("execution.checkpointing.data-inline-threshold", self.inline)
            .set_text("task.gate.budget", self.budget)
            .set_text("restart-strategy.type", "fixed-delay")
            .set_text("restart-strategy.fixed-delay.attempts", "infinite")
            .set_text("restart-strategy.fixed-delay.delay", "10 ms");
        let (words, count) = (self.tools.clone(), self.tools.clone());
        let _ = count;
        let _sink = env
            .source(
                "lines",
                CollectionSource::new(self.lines.clone()).with_split_size(37),
            )
            .uid("lines")
            .try_map("fallible", move |line: String| {
                words.faults.user_code("map").map(|()| line)
            })
            .uid("fallible")
            .flat_map("words", |line: String| {
                line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
            })
            .uid("words")
            .key_by(|word: &String| word.clone())
            .process("count", Count::default)
            .uid("count")
            .sink("result", LogSink::new(self.topic.clone()))
            .uid("result");
        let (graph, settings) = env.build().expect("the word count builds").into_parts();
        Job {
            graph,
            settings,
            restore: RestoreChoice::Latest,
        }
    }

    fn set_witness(&self, witness: Witness) {
        self.topic.set_witness(witness);
    }

    fn problems(&self) -> Vec<String> {
        self.topic.problems()
    }
}
