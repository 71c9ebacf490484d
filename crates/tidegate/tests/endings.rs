//! How jobs end when what isn't a task goes wrong: factories, enumerators and committers of user code, settings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};

use tidegate::prelude::*;
use tidegate::runtime::master::local::{Engine, REMEMBERED_JOBS};
use tidegate::runtime::operators::{Committer, Prepared, Sink, SinkContext, SinkWriter};
use tidegate::runtime::source::{
    NextSplit, Poll, PollContext, ReaderContext, Source, Split, SplitEnumerator, SplitReader,
};
use tidegate::types::SubtaskIndex;

struct Nothing;

impl ProcessFunction<u64, u64, u64> for Nothing {
    fn process(&mut self, record: u64, cx: &mut ProcessContext<'_, u64, u64>) -> Result<(), BoxError> {
        cx.collect(record);
        Ok(())
    }
}

fn error_of(env: &Environment) -> String {
    let job = env
        .build()
        .expect("builds")
        .start(StartOptions::default())
        .expect("starts");
    job.wait_blocking().expect_err("it fails").to_string()
}

fn says(env: &Environment, words: &[&str]) {
    let error = error_of(env);
    for word in words {
        assert!(error.contains(word), "{word:?} isn't in {error:?}");
    }
}

#[test]
fn a_factory_that_panics_is_an_error_and_the_job_can_be_started_again() {
    let env = Environment::new("factory");
    let broken = Arc::new(AtomicU64::new(1));
    let breaks = broken.clone();
    let result = env
        .from_collection("numbers", vec![1u64, 2, 3])
        .uid("numbers")
        .key_by(|n: &u64| *n)
        .process("made", move || {
            assert_eq!(breaks.load(Ordering::Relaxed), 0, "no such thing");
            Nothing
        })
        .uid("made")
        .collect("result");
    says(
        &env,
        &["can't be deployed", "user code panicked", "no such thing"],
    );
    broken.store(0, Ordering::Relaxed);
    let job = env
        .build()
        .expect("builds")
        .start(StartOptions::default())
        .expect("nothing of the first one is left");
    assert_eq!(job.wait_blocking().expect("ends well"), JobOutcome::Finished);
    let mut numbers = result.take();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3]);
}

/// A source whose enumerator panics in the call of this number.
struct Panics {
    at: u64,
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Never;

impl Split for Never {
    fn id(&self) -> String {
        "never".to_owned()
    }
}

impl SplitEnumerator<Never, u64> for Panics {
    fn next_split(&mut self, _: SubtaskIndex) -> Result<NextSplit<Never>, BoxError> {
        assert_ne!(self.at, 1, "no more shelves");
        Ok(NextSplit::NoMore)
    }

    fn take_over(&mut self, _: Vec<Never>) {}

    fn snapshot(&mut self) -> Result<u64, BoxError> {
        Ok(self.at)
    }
}

impl SplitReader<u64, Never> for Panics {
    fn add_split(&mut self, _: Never) -> Result<(), BoxError> {
        Ok(())
    }

    fn poll(
        &mut self,
        _: &mut tidegate::runtime::chain::OutBatch<u64>,
        _: &mut PollContext<'_>,
    ) -> Result<Poll, BoxError> {
        Ok(Poll::SplitsDone)
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Vec<Never>, BoxError> {
        Ok(Vec::new())
    }
}

impl Source for Panics {
    type Out = u64;
    type Split = Never;
    type Enumeration = u64;

    fn enumerator(&self, _: Option<u64>) -> Result<Box<dyn SplitEnumerator<Never, u64>>, BoxError> {
        assert_ne!(self.at, 0, "no shelf at all");
        Ok(Box::new(Self { at: self.at }))
    }

    fn reader(&self, _: ReaderContext) -> Result<Box<dyn SplitReader<u64, Never>>, BoxError> {
        Ok(Box::new(Self { at: self.at }))
    }
}

#[test]
fn an_enumerator_that_panics_is_an_error_of_its_source() {
    for (at, text) in [(0, "no shelf at all"), (1, "no more shelves")] {
        let env = Environment::new(format!("enumerator-{at}"));
        let _out = env.source("library", Panics { at }).uid("library").discard("out");
        says(&env, &["source `library`", "user code panicked", text]);
    }
}

/// A two-phase sink whose committer panics when it settles or commits.
struct Fragile {
    settles: bool,
    /// Hears of each commit before it panics.
    commits: Sender<()>,
}

struct Count(u64);

impl Sink<u64> for Fragile {
    type Committable = u64;

    fn writer(&self, _: SinkContext) -> Result<Box<dyn SinkWriter<u64, u64>>, BoxError> {
        Ok(Box::new(Count(0)))
    }

    fn committer(&self, _: SinkContext) -> Result<Option<Box<dyn Committer<u64>>>, BoxError> {
        Ok(Some(Box::new(Self {
            settles: self.settles,
            commits: self.commits.clone(),
        })))
    }
}

impl SinkWriter<u64, u64> for Count {
    fn write(&mut self, _: u64, _: Option<EventTime>) -> Result<(), BoxError> {
        self.0 += 1;
        Ok(())
    }

    fn prepare(&mut self, _: CheckpointId) -> Result<Option<Prepared<u64>>, BoxError> {
        let count = self.0;
        Ok(Some(Box::new(move || Ok(vec![count]))))
    }
}

impl Committer<u64> for Fragile {
    fn settle(&mut self, _: Vec<u64>) -> Result<(), BoxError> {
        assert!(self.settles, "the cellar is locked");
        Ok(())
    }

    fn commit(&mut self, _: Vec<u64>) -> Result<(), BoxError> {
        self.commits.send(())?;
        panic!("the cellar is flooded");
    }
}

#[test]
fn a_committer_that_panics_while_it_settles_is_an_error_of_its_sink() {
    let env = Environment::new("settles");
    let (commits, _) = channel();
    let _out = env
        .from_collection("numbers", vec![1u64])
        .uid("numbers")
        .sink(
            "out",
            Fragile {
                settles: false,
                commits,
            },
        )
        .uid("out");
    says(
        &env,
        &["sink `out`", "user code panicked", "the cellar is locked"],
    );
}

#[test]
fn a_job_whose_commits_panic_can_be_cancelled() {
    let env = Environment::new("commits");
    let (commits, committed) = channel();
    let _out = env
        .from_collection("numbers", vec![1u64])
        .uid("numbers")
        .sink(
            "out",
            Fragile {
                settles: true,
                commits,
            },
        )
        .uid("out");
    let job = env
        .build()
        .expect("builds")
        .start(StartOptions::default())
        .expect("starts");
    // Its last checkpoint is complete, and its commit panics again and again.
    for _ in 0..2 {
        committed.recv().expect("the sink is there");
    }
    job.cancel();
    assert_eq!(job.wait_blocking().expect("ends"), JobOutcome::Canceled);
}

#[test]
fn settings_that_contradict_each_other_are_one_error() {
    let mut env = Environment::new("contradiction");
    env.configuration()
        .set_text("restart-strategy.type", "exponential-delay")
        .set_text("restart-strategy.exponential-delay.initial-backoff", "2min")
        .set_text("restart-strategy.exponential-delay.max-backoff", "1s");
    let _out = env
        .from_collection("numbers", vec![1u64])
        .uid("numbers")
        .discard("out");
    let error = match env.build() {
        Err(error) => error.to_string(),
        Ok(job) => match job.start(StartOptions::default()) {
            Err(error) => error.to_string(),
            Ok(_) => "it started".to_owned(),
        },
    };
    assert!(
        error.contains("initial-backoff") && error.contains("max-backoff"),
        "{error}"
    );
}

/// Nothing is committed behind the last checkpoint, and there would be none.
#[test]
fn a_two_phase_sink_needs_the_last_checkpoint() {
    let mut env = Environment::new("no last one");
    env.configuration()
        .set_text("execution.checkpointing.checkpoints-after-tasks-finish", "false");
    let _result = env
        .from_collection("numbers", vec![1u64])
        .uid("numbers")
        .collect("result");
    says(&env, &["sink `result`", "checkpoints-after-tasks-finish"]);
}

/// What a program's `main` returns is printed by `Debug`.
#[test]
fn errors_read_the_same_where_main_returns_them() {
    let env = Environment::new("nothing");
    let error = env.build().expect_err("there is no source");
    assert_eq!(format!("{error:?}"), error.to_string());
    let error = JobError::Settings("too many".into());
    assert_eq!(format!("{error:?}"), "the job's settings can't be used: too many");
}

/// Puts texts out at its side output 0.
struct Texts;

impl ProcessFunction<(), u64, u64> for Texts {
    fn process(&mut self, record: u64, cx: &mut ProcessContext<'_, (), u64>) -> Result<(), BoxError> {
        cx.side(&SideTag::<String>::new(0, "texts"), record.to_string());
        Ok(())
    }
}

#[test]
fn a_side_output_that_is_consumed_as_another_type_fails_the_job() {
    let env = Environment::new("side");
    let numbers = env
        .from_collection("numbers", vec![1u64])
        .uid("numbers")
        .process("texts", || Texts)
        .uid("texts");
    let _none = numbers
        .side_output(&SideTag::<u64>::new(0, "texts"))
        .collect("none");
    says(&env, &["side output 0", "String", "SideTag"]);
}

/// Checkpoints are counted from 1 again in each run over a store in memory.
#[test]
fn each_run_of_a_graph_collects_its_results() {
    let mut env = Environment::new("twice");
    env.configuration()
        .set_text("restart-strategy.exponential-delay.backoff-multiplier", "1")
        .set_text("restart-strategy.type", "exponential-delay");
    let result = env
        .from_collection("numbers", vec![1u64, 2, 3])
        .uid("numbers")
        .collect("result");
    let graph = env.build().expect("builds");
    for _ in 0..2 {
        let job = graph.start(StartOptions::default()).expect("starts");
        assert_eq!(job.wait_blocking().expect("ends well"), JobOutcome::Finished);
        let mut numbers = result.take();
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2, 3]);
    }
}

/// A service that runs one short job after another doesn't keep them all.
#[test]
fn ended_jobs_are_forgotten_after_a_while() {
    let engine = Engine::start().expect("an engine");
    let mut last = None;
    for n in 0..REMEMBERED_JOBS + 5 {
        let env = Environment::new(format!("short-{n}"));
        let _out = env
            .from_collection("numbers", vec![1u64])
            .uid("numbers")
            .discard("out");
        let options = StartOptions::default().engine(engine.clone());
        let job = env.build().expect("builds").start(options).expect("starts");
        assert_eq!(job.wait_blocking().expect("ends well"), JobOutcome::Finished);
        last = Some(job.id());
    }
    let jobs = engine.jobs();
    // The last one's end may be heard before the older ones are let go.
    assert!(jobs.len() <= REMEMBERED_JOBS + 1, "{} are kept", jobs.len());
    let newest = jobs.last().map(|job| job.board().read().job.clone());
    assert_eq!(newest, last);
}
