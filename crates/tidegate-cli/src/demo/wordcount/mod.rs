//! `tidegate demo wordcount`: the job to kill. Text files in, each word with its final count out, exactly once.
//!
//! Words are what Unicode white space separates. A word's count is put out by a timer at the end of time, which comes
//! with the end of the input, so each word stands once in the committed files. SIGTERM and SIGINT suspend the job
//! in a last checkpoint ([`ending`]); `kill -9` needs no preparation: `--restore latest` goes on from the newest
//! checkpoint.

mod ending;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use tidegate::Environment;
use tidegate::files::{FileSink, OnBadRecord, SkippedRecords, TextFiles};
use tidegate::prelude::*;
use tidegate_types::Nanos;
use tidegate_types::options::{RestartStrategyKind, keys};

use super::as_option;
use super::limited::Limited;
use crate::args::{Global, MaybeTime, OnError, WordcountArgs};
use crate::console::Console;
use crate::error::CliError;
use crate::render::{count, plural, time};
use crate::session::{Running, Session, take_over};
use crate::signals::Came;
use ending::{finished, suspend};

/// Between checkpoints, if nobody says anything else.
const INTERVAL: Duration = Duration::from_millis(200);

/// Between two lines about how far it is, where no progress is shown.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Runs the job until it ends or a signal comes.
pub(super) fn run(console: &Console, global: &Global, args: &WordcountArgs) -> Result<(), CliError> {
    let session = Session::start(console, global, "wordcount", &[])?;
    let done = count_words(&session, args).map_err(in_flags);
    session.end(done)
}

fn count_words(session: &Session<'_>, args: &WordcountArgs) -> Result<(), CliError> {
    let console = session.console;
    let mut configured = Ok(());
    let env = session.environment(|c| configured = configure(c, args));
    configured?;
    let tally = Tally::default();
    let skipped = build(&env, args, &tally);
    check(&env)?;
    session.engine.handle().block_on(async {
        // Before the job starts: a signal from now on must not end it in the middle.
        let mut signals = take_over()?;
        let running = session.launch(&env)?;
        let ended = watch(session, &running);
        let came = match select(pin!(ended), pin!(signals.next())).await {
            Either::Left((ended, _)) => return finished(console, args, &running, &skipped, &tally, ended?),
            Either::Right((came, _)) => came,
        };
        console.clear();
        console.note(format_args!(
            "{}: suspending the job in a last checkpoint; once more ends at once",
            came.name
        ));
        let suspended = suspend(session, &running);
        match select(pin!(suspended), pin!(signals.next())).await {
            Either::Left((done, _)) => {
                let outcome = done?;
                if outcome == JobOutcome::Finished {
                    console.clear();
                    console.note("the job came to its end before it was suspended");
                }
                finished(console, args, &running, &skipped, &tally, outcome)
            }
            Either::Right((Came { name, number }, _)) => Err(CliError::Interrupted { name, number }),
        }
    })
}

fn configure(c: &mut Configuration, args: &WordcountArgs) -> Result<(), CliError> {
    c.set(&keys::CHECKPOINT_INTERVAL, Some(INTERVAL));
    // What is wrong with the input is wrong again after a restart, and a person looks at a demo.
    c.set(&keys::RESTART_STRATEGY, RestartStrategyKind::None);
    if let Some(MaybeTime(interval)) = args.interval {
        c.set_flag("--interval", &keys::CHECKPOINT_INTERVAL, interval);
    }
    if let Some(dir) = &args.checkpoint_dir {
        c.set_flag("--checkpoint-dir", &keys::CHECKPOINT_DIR, as_option(dir)?);
    }
    if let Some(mode) = args.mode {
        c.set_flag("--mode", &keys::CHECKPOINT_MODE, mode);
    }
    if let Some(parallelism) = args.parallelism {
        c.set_flag("--parallelism", &keys::PARALLELISM, parallelism);
    }
    Ok(())
}

/// The files' reader speaks to programmers; here there is a flag for what it advises.
fn in_flags(error: CliError) -> CliError {
    match error {
        CliError::Failed(text) => CliError::Failed(text.replace("OnBadRecord::Skip", "--on-error skip")),
        other => other,
    }
}

/// What is asked for and can't be.
fn check(env: &Environment) -> Result<(), CliError> {
    let graph = env.build()?;
    let settings = graph.settings();
    if settings.recovery.from.is_some() && settings.checkpoints.dir.is_none() {
        return Err(CliError::Usage(
            "--restore needs the directory in which checkpoints are: name it with --checkpoint-dir, the same each time"
                .to_owned(),
        ));
    }
    Ok(())
}

/// What was written: each word once, with its count.
#[derive(Debug, Clone, Default)]
struct Tally {
    distinct: Arc<AtomicU64>,
    words: Arc<AtomicU64>,
}

impl Tally {
    /// A word that was seen so often is being written.
    fn note(&self, seen: u64) {
        self.distinct.fetch_add(1, Ordering::Relaxed);
        self.words.fetch_add(seen, Ordering::Relaxed);
    }
}

/// Adds the job to the environment.
fn build(env: &Environment, args: &WordcountArgs, tally: &Tally) -> SkippedRecords {
    let on_bad = match args.on_error {
        OnError::Fail => OnBadRecord::Fail,
        OnError::Skip => OnBadRecord::Skip,
    };
    let files = TextFiles::new(args.input.clone()).on_bad_record(on_bad);
    let skipped = files.skipped();
    let written = tally.clone();
    let sink = FileSink::with(
        args.output.clone(),
        "txt",
        move |(word, seen): &(String, u64), out: &mut Vec<u8>| {
            written.note(*seen);
            out.extend_from_slice(word.as_bytes());
            out.extend_from_slice(format!("\t{seen}\n").as_bytes());
            Ok(())
        },
    );
    let _sink = env
        .source("lines", Limited::new(files, args.rate))
        .uid("lines")
        .flat_map("words", |line: String| {
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        })
        .uid("words")
        .key_by(|word: &String| word.clone())
        .process("count", WordCount::default)
        .uid("count")
        .sink("files", sink)
        .uid("files");
    skipped
}

/// Counts each word, and puts the count out when no more can come.
#[derive(Default)]
struct WordCount {
    seen: ValueState<String, u64>,
}

impl ProcessFunction<String, String, (String, u64)> for WordCount {
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

/// How far the job is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Far {
    lines: u64,
    checkpoints: u64,
    failed: u64,
    last: Option<Duration>,
}

fn how_far(running: &Running<'_>, now: Nanos) -> Far {
    running.board().with(|status| {
        let counts = status.history.counts();
        let sources = status.subtasks.iter().filter(|s| s.id.vertex.0 == 0);
        Far {
            lines: sources.map(|s| s.metrics.totals(now).records_in).sum(),
            checkpoints: counts.completed,
            failed: counts.failed,
            last: status
                .history
                .latest_completed()
                .map(|c| c.ended_at.unwrap_or(now).since(c.triggered_at)),
        }
    })
}

fn in_words(far: &Far) -> String {
    let took = far
        .last
        .map(|took| format!(", the last took {}", time(took)))
        .unwrap_or_default();
    let failed = if far.failed > 0 {
        format!(", {} failed", count(far.failed))
    } else {
        String::new()
    };
    format!(
        "{} read, {}{took}{failed}",
        plural(far.lines, "line"),
        plural(far.checkpoints, "checkpoint")
    )
}

/// Says how it goes until the job has ended.
async fn watch(session: &Session<'_>, running: &Running<'_>) -> Result<JobOutcome, CliError> {
    let console = session.console;
    let (mut restored_from, mut restarts) = (None, 0);
    let mut say_at = session.engine.now() + SAY_EVERY;
    loop {
        let ended = running.job.try_wait();
        let (restored, restarted, failed) = running.board().with(|status| {
            let restored = status
                .history
                .latest_restored()
                .map(|r| (r.from.id, r.restored_at));
            (restored, status.restarts, status.last_failure.clone())
        });
        if restarted != restarts {
            restarts = restarted;
            let why = failed.unwrap_or_default();
            console.note(format_args!("the job goes on after a failure: {why}"));
        }
        if restored != restored_from {
            restored_from = restored;
            if let Some((id, _)) = restored {
                console.note(format_args!("restored from checkpoint {id}"));
            }
        }
        if ended.is_some() {
            return running.end().await;
        }
        let now = session.engine.now();
        console.progress(|| in_words(&how_far(running, now)));
        if !console.shows_progress() && now >= say_at {
            say_at = now + SAY_EVERY;
            console.note(in_words(&how_far(running, now)));
        }
        running.moment().await?;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::args::Defines;

    fn args(input: &std::path::Path, output: &std::path::Path) -> WordcountArgs {
        WordcountArgs {
            defines: Defines::default(),
            input: vec![input.to_owned()],
            output: output.to_owned(),
            checkpoint_dir: None,
            interval: Some(MaybeTime(Some(Duration::from_millis(20)))),
            mode: None,
            parallelism: Some(tidegate_types::Parallelism(2)),
            rate: None,
            on_error: OnError::Fail,
        }
    }

    #[test]
    fn each_word_stands_once_with_its_count() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (input, output) = (dir.path().join("in.txt"), dir.path().join("out"));
        fs::write(&input, "to be\u{2003}or not\nto be\n\n  ok\u{a0}ok\n").expect("it is writable");
        let args = args(&input, &output);
        let mut configuration = Configuration::new();
        configure(&mut configuration, &args).expect("the paths are text");
        let env = Environment::with_configuration("wordcount", configuration);
        let tally = Tally::default();
        let skipped = build(&env, &args, &tally);
        check(&env).expect("nothing is to be restored");
        let job = env
            .build()
            .expect("it builds")
            .start(StartOptions::default())
            .expect("it starts");
        assert_eq!(job.wait_blocking().expect("it ends well"), JobOutcome::Finished);
        let mut lines: Vec<String> = Vec::new();
        for file in fs::read_dir(&output).expect("it was made") {
            let text = fs::read_to_string(file.expect("it is listed").path()).expect("it is text");
            lines.extend(text.lines().map(str::to_owned));
        }
        lines.sort();
        assert_eq!(lines, ["be\t2", "not\t1", "ok\t2", "or\t1", "to\t2"]);
        assert_eq!(skipped.total(), 0);
        assert_eq!(tally.distinct.load(Ordering::Relaxed), 5);
        assert_eq!(tally.words.load(Ordering::Relaxed), 8);
    }

    #[test]
    fn restoring_needs_to_know_where_from() {
        let mut args = args("in".as_ref(), "out".as_ref());
        let checked = |args: &WordcountArgs| {
            let mut configuration = Configuration::new();
            configuration.add_argument("execution.state-recovery.path=latest");
            configure(&mut configuration, args).expect("the paths are text");
            let env = Environment::with_configuration("wordcount", configuration);
            build(&env, args, &Tally::default());
            check(&env)
        };
        assert!(matches!(checked(&args), Err(CliError::Usage(_))));
        args.checkpoint_dir = Some("checkpoints".into());
        assert!(checked(&args).is_ok());
    }

    #[test]
    fn how_far_it_is_is_said_in_one_line() {
        let far = Far {
            lines: 1234,
            checkpoints: 1,
            failed: 0,
            last: Some(Duration::from_millis(12)),
        };
        assert_eq!(
            in_words(&far),
            "1,234 lines read, 1 checkpoint, the last took 12.0 ms"
        );
        let far = Far {
            failed: 2,
            last: None,
            ..far
        };
        assert_eq!(in_words(&far), "1,234 lines read, 1 checkpoint, 2 failed");
    }
}
