//! Which snapshot a job starts from, and what its output belongs to: another directory, an older savepoint, a fresh
//! start beside old checkpoints, each with a failure before the first checkpoint.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tidegate::files::FileSink;
use tidegate::prelude::*;

/// How far the source may read, and how far it has.
#[derive(Default)]
struct Gate {
    limit_and_read: Mutex<(u64, u64)>,
    changed: Condvar,
}

impl Gate {
    fn open(&self, to: u64) {
        self.limit_and_read.lock().expect("nobody panics here").0 = to;
        self.changed.notify_all();
    }

    fn pass(&self, number: u64) {
        let mut state = self.limit_and_read.lock().expect("nobody panics here");
        state.1 = number;
        self.changed.notify_all();
        while state.0 <= number {
            state = self.changed.wait(state).expect("nobody panics here");
        }
    }

    fn wait_until_read(&self, to: u64, job: &JobHandle) {
        let mut state = self.limit_and_read.lock().expect("nobody panics here");
        while state.1 < to {
            let waited = self.changed.wait_timeout(state, Duration::from_secs(1));
            state = waited.expect("nobody panics here").0;
            assert!(job.try_wait().is_none(), "{:?}", job.try_wait());
        }
    }
}

/// Many more than wait anywhere between the source and the sink.
const N: u64 = 30_000;

fn numbers(gate: Arc<Gate>) -> PushSource<u64> {
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
        while next.load(Ordering::Relaxed) < N {
            gate.pass(next.load(Ordering::Relaxed));
            let lock = cx.checkpoint_lock()?;
            let number = next.fetch_add(1, Ordering::Relaxed);
            lock.collect(number)?;
        }
        Ok(())
    })
}

/// What differs from run to run.
struct Run<'a> {
    checkpoints: &'a Path,
    output: &'a Path,
    restore: Option<&'a str>,
    new_lineage: bool,
    /// Cancelling deletes its checkpoints.
    deletes: bool,
    /// Panics once at this number.
    fails_at: Option<u64>,
    /// The uid of the source that ends at once.
    few: &'a str,
}

impl<'a> Run<'a> {
    fn between(checkpoints: &'a TempDir, output: &'a TempDir) -> Self {
        Self {
            checkpoints: checkpoints.path(),
            output: output.path(),
            restore: None,
            new_lineage: false,
            deletes: false,
            fails_at: None,
            few: "few",
        }
    }
}

fn start(run: &Run<'_>, gate: &Arc<Gate>) -> JobHandle {
    let mut env = Environment::new("lines");
    let dir = run.checkpoints.display().to_string();
    env.configuration()
        .set_text("execution.checkpointing.dir", &dir)
        .set_text("execution.checkpointing.interval", "1 h")
        // So that everything is in files that lie somewhere.
        .set_text("execution.checkpointing.data-inline-threshold", "0 b")
        .set_text(
            "execution.checkpointing.externalized-checkpoint-retention",
            match run.deletes {
                true => "DELETE_ON_CANCELLATION",
                false => "RETAIN_ON_CANCELLATION",
            },
        )
        .set_text(
            "execution.state-recovery.new-lineage",
            &run.new_lineage.to_string(),
        )
        .set_text("restart-strategy.type", "fixed-delay")
        .set_text("restart-strategy.fixed-delay.attempts", "1")
        .set_text("restart-strategy.fixed-delay.delay", "0 ms");
    if let Some(path) = run.restore {
        env.configuration()
            .set_text("execution.state-recovery.path", path);
    }
    let (fails_at, failed) = (run.fails_at, AtomicBool::new(false));
    // A source that ends at once, beside the one that goes on.
    let few = env
        .source("few", CollectionSource::new(vec![N, N + 1]))
        .uid(run.few);
    let _sink = env
        .source("numbers", numbers(gate.clone()))
        .uid("numbers")
        .union(&[&few])
        .map("fragile", move |n: u64| {
            assert!(
                fails_at != Some(n) || failed.swap(true, Ordering::Relaxed),
                "told to fail"
            );
            n.to_string()
        })
        .uid("fragile")
        .sink("out", FileSink::text(run.output))
        .uid("out");
    env.build()
        .expect("builds")
        .start(StartOptions::default())
        .expect("starts")
}

/// How often each number stands in the committed files.
fn numbers_in(dir: &Path) -> BTreeMap<u64, u64> {
    let mut numbers = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("the directory is there") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(!name.starts_with('.'), "{name} is left over");
        for line in std::fs::read_to_string(path).expect("text").lines() {
            *numbers.entry(line.parse().expect("a number")).or_default() += 1;
        }
    }
    numbers
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
        .block_on(future)
}

/// Runs to number `to` and ends there in a savepoint; where it is.
fn run_to(run: &Run<'_>, gate: &Arc<Gate>, to: u64, savepoints: &Path) -> String {
    gate.open(to);
    let job = start(run, gate);
    gate.wait_until_read(to, &job);
    let target = savepoints.display().to_string();
    let path = loop {
        match block_on(job.stop(Drain::Suspend, Some(&target))) {
            Ok(path) => break path,
            // The other source's task may not run yet.
            Err(refused) => assert!(refused.to_string().contains("Ask again"), "{refused}"),
        }
    };
    assert_eq!(job.wait_blocking().expect("ends well"), JobOutcome::Suspended);
    path
}

fn dirs() -> [TempDir; 5] {
    [(); 5].map(|()| tempfile::tempdir().expect("a directory"))
}

/// That every number of the range is there once, and no number twice.
#[track_caller]
fn assert_once(dir: &Path, range: std::ops::Range<u64>) {
    let numbers = numbers_in(dir);
    let missing: Vec<u64> = range.filter(|n| !numbers.contains_key(n)).collect();
    let doubled: Vec<(&u64, &u64)> = numbers.iter().filter(|(_, count)| **count > 1).collect();
    assert!(
        missing.is_empty() && doubled.is_empty(),
        "missing: {missing:?}, more than once: {doubled:?}"
    );
}

/// The decision on the checkpoint with the highest number.
fn newest_decision(checkpoints: &Path) -> PathBuf {
    let mut pending = vec![checkpoints.to_path_buf()];
    let mut newest = (0u64, PathBuf::new());
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            match name.strip_prefix("chk-").and_then(|n| n.parse().ok()) {
                Some(number) if path.join("_metadata").exists() => {
                    newest = newest.max((number, path.join("_metadata")));
                }
                Some(_) => {}
                None if path.is_dir() => pending.push(path),
                None => {}
            }
        }
    }
    newest.1
}

#[test]
fn a_job_moves_into_another_checkpoint_directory() {
    let [first, second, output, savepoints, _] = dirs();
    let gate = Arc::new(Gate::default());
    let mut run = Run::between(&first, &output);
    let path = run_to(&run, &gate, N / 3, savepoints.path());
    // Nothing that the moved job names may lie in the old place.
    run.restore = Some(&path);
    run.checkpoints = second.path();
    run.fails_at = Some(N / 2);
    gate.open(N);
    let job = start(&run, &gate);
    assert_eq!(job.wait_blocking().expect("ends well"), JobOutcome::Finished);
    assert_eq!(job.status().restarts, 1);
    assert_once(output.path(), 0..N + 2);

    // What it committed there would be committed again.
    let error = start(&run, &gate)
        .wait_blocking()
        .expect_err("it is refused")
        .to_string();
    assert!(
        error.contains("of another directory") && error.contains("--new-lineage"),
        "{error}"
    );
}

#[test]
fn a_failure_before_the_first_checkpoint_goes_back_to_the_chosen_savepoint() {
    let [checkpoints, output, other, savepoints, _] = dirs();
    let gate = Arc::new(Gate::default());
    let mut run = Run::between(&checkpoints, &output);
    let third = run_to(&run, &gate, N / 3, savepoints.path());
    run.restore = Some(&third);
    run_to(&run, &gate, N / 3 * 2, savepoints.path());
    // From the older one again, into other output.
    run.output = other.path();
    run.new_lineage = true;
    run.fails_at = Some(N - 10);
    gate.open(N);
    let job = start(&run, &gate);
    assert_eq!(job.wait_blocking().expect("ends well"), JobOutcome::Finished);
    assert_eq!(job.status().restarts, 1);
    assert_once(other.path(), N / 3..N);
    assert!(
        !numbers_in(other.path()).contains_key(&0),
        "it isn't a fresh start"
    );
}

#[test]
fn a_fresh_start_beside_old_checkpoints_stays_fresh_after_a_failure() {
    let [checkpoints, output, other, savepoints, _] = dirs();
    let gate = Arc::new(Gate::default());
    let mut run = Run::between(&checkpoints, &output);
    run_to(&run, &gate, N / 3, savepoints.path());
    gate.open(N);

    // What is committed would be written twice: somebody has to say that this is meant.
    let error = start(&run, &gate)
        .wait_blocking()
        .expect_err("it is refused")
        .to_string();
    assert!(
        error.contains("from the beginning") && error.contains("--new-lineage"),
        "{error}"
    );

    run.output = other.path();
    run.new_lineage = true;
    run.fails_at = Some(N - 10);
    let job = start(&run, &gate);
    assert_eq!(job.wait_blocking().expect("ends well"), JobOutcome::Finished);
    assert_eq!(job.status().restarts, 1);
    assert_once(other.path(), 0..N + 2);
}

/// A cancelled run's checkpoints are gone, and what it committed isn't.
#[test]
fn a_fresh_start_behind_a_cancelled_run_is_refused_too() {
    let [checkpoints, output, ..] = dirs();
    let gate = Arc::new(Gate::default());
    let mut run = Run::between(&checkpoints, &output);
    run.deletes = true;
    gate.open(N / 3);
    let job = start(&run, &gate);
    gate.wait_until_read(N / 3, &job);
    block_on(job.trigger_checkpoint()).expect("the checkpoint is taken");
    // The next one is decided only when what the first lists is committed.
    block_on(job.trigger_checkpoint()).expect("the checkpoint is taken");
    job.cancel();
    gate.open(N);
    assert_eq!(job.wait_blocking().expect("ends"), JobOutcome::Canceled);
    assert!(!numbers_in(output.path()).is_empty());

    let error = start(&run, &gate)
        .wait_blocking()
        .expect_err("it is refused")
        .to_string();
    assert!(
        error.contains("everything would be there twice") && error.contains("--new-lineage"),
        "{error}"
    );
    run.new_lineage = true;
    let outcome = start(&run, &gate).wait_blocking().expect("ends well");
    assert_eq!(outcome, JobOutcome::Finished);
    assert!(numbers_in(output.path()).keys().copied().eq(0..N + 2));
}

/// All its records are read and its readers have finished: what says so is the enumerator's part of the snapshot alone.
#[test]
fn a_source_under_another_uid_is_refused_and_not_read_again() {
    let [checkpoints, output, savepoints, ..] = dirs();
    let gate = Arc::new(Gate::default());
    let mut run = Run::between(&checkpoints, &output);
    let path = run_to(&run, &gate, N / 3, savepoints.path());
    gate.open(N);
    run.restore = Some(&path);
    run.few = "renamed";
    let error = start(&run, &gate)
        .wait_blocking()
        .expect_err("it is refused")
        .to_string();
    assert!(error.contains("source positions of operator `few`"), "{error}");
    run.few = "few";
    let outcome = start(&run, &gate).wait_blocking().expect("ends well");
    assert_eq!(outcome, JobOutcome::Finished);
    assert_once(output.path(), 0..N + 2);
}

/// Whether the newest checkpoint was complete nobody can say, so its output may be out.
#[test]
fn an_unreadable_newest_checkpoint_counts_as_committed() {
    let [checkpoints, output, savepoints, ..] = dirs();
    let gate = Arc::new(Gate::default());
    let mut run = Run::between(&checkpoints, &output);
    let older = run_to(&run, &gate, N / 3, savepoints.path());
    run.restore = Some(&older);
    run_to(&run, &gate, N / 3 * 2, savepoints.path());
    let newest = newest_decision(checkpoints.path());
    let whole = std::fs::read(&newest).expect("it is there");
    std::fs::write(&newest, &whole[..whole.len() / 2]).expect("half of it is written");
    gate.open(N);
    for restore in [Some(older.as_str()), None] {
        run.restore = restore;
        let error = start(&run, &gate)
            .wait_blocking()
            .expect_err("it is refused")
            .to_string();
        assert!(error.contains("--new-lineage"), "{error}");
    }
}
