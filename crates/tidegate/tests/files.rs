//! Whole jobs from files to files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::files::{CsvFiles, FileSink, OnBadRecord, TextFiles};
use tidegate::prelude::*;

/// Every line of every visible file with how often it is there.
fn lines_of(dir: &Path) -> BTreeMap<String, u64> {
    let mut lines = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("the directory is there") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(!name.starts_with('.'), "{name} is left over");
        for line in std::fs::read_to_string(path).expect("text").lines() {
            *lines.entry(line.to_owned()).or_default() += 1;
        }
    }
    lines
}

fn input(dir: &Path, files: u64, lines: u64) -> BTreeMap<String, u64> {
    let mut expected = BTreeMap::new();
    for file in 0..files {
        let text: Vec<String> = (0..lines).map(|n| format!("file {file} line {n}")).collect();
        std::fs::write(dir.join(format!("{file}.txt")), text.join("\n")).expect("written");
        expected.extend(text.into_iter().map(|line| (line, 1)));
    }
    expected
}

#[test]
fn lines_go_from_files_to_files() {
    for parallelism in [1, 3] {
        let (from, to) = (
            tempfile::tempdir().expect("a directory"),
            tempfile::tempdir().expect("a directory"),
        );
        let expected = input(from.path(), 3, 2000);
        let mut env = Environment::new(format!("copy-{parallelism}"));
        env.configuration()
            .set_text("parallelism.default", &parallelism.to_string());
        env.source("lines", TextFiles::new([from.path()]).split_size(1000))
            .uid("lines")
            .sink("copy", FileSink::text(to.path()))
            .uid("copy");
        let job = env
            .build()
            .expect("builds")
            .start(StartOptions::default())
            .expect("starts");
        assert_eq!(job.wait_blocking().expect("ends well"), JobOutcome::Finished);
        assert_eq!(lines_of(to.path()), expected);
    }
}

#[test]
fn each_line_once_although_the_job_failed_on_the_way() {
    let dirs = [(); 3].map(|()| tempfile::tempdir().expect("a directory"));
    let [from, to, checkpoints] = &dirs;
    let expected = input(from.path(), 4, 40_000);
    let mut env = Environment::new("fragile-copy");
    env.configuration()
        .set_text("parallelism.default", "2")
        .set_text(
            "execution.checkpointing.dir",
            &checkpoints.path().display().to_string(),
        )
        .set_text("execution.checkpointing.interval", "20ms")
        .set_text("restart-strategy.type", "fixed-delay")
        .set_text("restart-strategy.fixed-delay.attempts", "3")
        .set_text("restart-strategy.fixed-delay.delay", "0ms");
    let seen = Arc::new(AtomicU64::new(0));
    env.source("lines", TextFiles::new([from.path()]).split_size(50_000))
        .uid("lines")
        .map("fragile", move |line: String| {
            assert_ne!(seen.fetch_add(1, Ordering::Relaxed), 120_000, "told to fail");
            line
        })
        .sink("copy", FileSink::text(to.path()).roll_at(100_000))
        .uid("copy");
    let job = env
        .build()
        .expect("builds")
        .start(StartOptions::default())
        .expect("starts");
    assert_eq!(job.wait_blocking().expect("ends well"), JobOutcome::Finished);
    assert_eq!(job.status().restarts, 1);
    assert_eq!(lines_of(to.path()), expected);
}

#[test]
fn bad_records_are_skipped_and_counted_or_end_the_job() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("rows.csv");
    std::fs::write(&path, "name,n\na,1\nb,none\nc,3\n").expect("written");
    let run = |name: &str, rows: CsvFiles<(String, i64)>| {
        let env = Environment::new(name);
        let rows = env.source("rows", rows).uid("rows").collect("rows");
        let job = env
            .build()
            .expect("builds")
            .start(StartOptions::default())
            .expect("starts");
        let ended = job.wait_blocking();
        let tasks = job.status().subtasks;
        let counted = tasks.iter().map(|t| t.metrics.records_skipped.load(Relaxed));
        (ended, (rows.take().len(), counted.sum::<u64>()))
    };
    let rows = CsvFiles::new([&path]).on_bad_record(OnBadRecord::Skip);
    let skipped = rows.skipped();
    let (ended, found) = run("lenient", rows);
    assert_eq!(
        (ended.expect("ends well"), found, skipped.total()),
        (JobOutcome::Finished, (2, 1), 1)
    );
    let (ended, _) = run("strict", CsvFiles::new([&path]));
    let error = ended.expect_err("a bad record is an error").to_string();
    assert!(error.contains("rows.csv`, line 3, byte 11"), "{error}");
    let (ended, _) = run("missing", CsvFiles::new([dir.path().join("none.csv")]));
    let error = ended.expect_err("a missing file is an error").to_string();
    assert!(error.contains("none.csv`. Check the path"), "{error}");
}

#[test]
fn a_bad_record_costs_no_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("rows.csv");
    std::fs::write(&path, "name,n\na,none\n").expect("written");
    let mut env = Environment::new("bad-for-good");
    env.configuration()
        .set_text("restart-strategy.type", "fixed-delay")
        .set_text("restart-strategy.fixed-delay.attempts", "infinite")
        .set_text("restart-strategy.fixed-delay.delay", "0 ms");
    let _rows = env
        .source("rows", CsvFiles::<(String, i64)>::new([&path]))
        .uid("rows")
        .collect("rows");
    let job = env
        .build()
        .expect("builds")
        .start(StartOptions::default())
        .expect("starts");
    let error = job
        .wait_blocking()
        .expect_err("a bad record is an error")
        .to_string();
    assert!(error.contains("rows.csv`, line 2"), "{error}");
    assert_eq!(job.status().restarts, 0);
}

#[test]
fn a_second_run_that_knows_nothing_of_the_first_is_refused() {
    let (from, to) = (
        tempfile::tempdir().expect("a directory"),
        tempfile::tempdir().expect("a directory"),
    );
    let expected = input(from.path(), 1, 10);
    let run = || {
        let env = Environment::new("twice");
        env.source("lines", TextFiles::new([from.path()]))
            .uid("lines")
            .sink("copy", FileSink::text(to.path()))
            .uid("copy");
        env.build()
            .expect("builds")
            .start(StartOptions::default())
            .expect("starts")
            .wait_blocking()
    };
    assert_eq!(run().expect("ends well"), JobOutcome::Finished);
    let error = run().expect_err("the output would be there twice").to_string();
    assert!(
        error.contains("that an earlier run of this job committed"),
        "{error}"
    );
    assert_eq!(lines_of(to.path()), expected);
}
