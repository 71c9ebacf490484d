//! Tests of reading, one file per topic; this one drives enumerators and readers without a task around them.

mod bad;
mod csv;
mod discover;
mod long;
mod restore;
mod splits;
mod turns;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tidegate_runtime::chain::OutBatch;
use tidegate_runtime::clock::SystemClock;
use tidegate_runtime::error::BoxError;
use tidegate_runtime::signal::TaskSignal;
use tidegate_runtime::source::{
    NextSplit, Poll, PollContext, ReaderContext, Source, SplitEnumerator, SplitReader,
};
use tidegate_types::{CheckpointId, Nanos, Parallelism, SubtaskIndex};

use super::*;

/// A directory with these files in it.
pub(super) fn files(named: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in named {
        write(&dir.path().join(name), content);
    }
    dir
}

pub(super) fn write(path: &Path, content: &[u8]) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
    path.to_owned()
}

pub(super) type Enumerator = Box<dyn SplitEnumerator<FileSplit, FileEnumeration>>;
pub(crate) type Reader<T> = Box<dyn SplitReader<T, FileSplit>>;

pub(crate) fn reader<F: Format>(source: &FileSource<F>) -> Reader<F::Out> {
    let signal = Arc::new(TaskSignal::new());
    let cx = ReaderContext {
        subtask: SubtaskIndex(0),
        parallelism: Parallelism(1),
        signal,
        max_staged_records: 1,
        periodic_checkpoints: true,
    };
    source.reader(cx).unwrap()
}

/// One poll; with an `urgent` that is asked each time.
pub(super) fn poll_with<T>(
    reader: &mut Reader<T>,
    room: usize,
    urgent: &dyn Fn() -> bool,
) -> Result<(Vec<T>, Poll), BoxError> {
    let mut out = OutBatch::with_room(room);
    let mut cx = PollContext {
        wall_ms: 0,
        now: Nanos(0),
        clock: &SystemClock::new(),
        urgent,
    };
    let poll = reader.poll(&mut out, &mut cx)?;
    Ok((out.into_batch().values, poll))
}

pub(super) fn poll<T>(reader: &mut Reader<T>, room: usize) -> Result<(Vec<T>, Poll), BoxError> {
    poll_with(reader, room, &|| false)
}

/// Everything that a reader still has, `room` records at a time.
pub(crate) fn drain<T>(reader: &mut Reader<T>, room: usize) -> Result<Vec<T>, BoxError> {
    let mut all = Vec::new();
    // More polls than any test's input has bytes: a reader that goes round in circles fails instead of hanging.
    for _ in 0..10_000_000 {
        let (records, poll) = poll(reader, room)?;
        assert!(
            records.len() <= room,
            "a reader emits no more than there is room for"
        );
        all.extend(records);
        match poll {
            Poll::SplitsDone => return Ok(all),
            Poll::More => {}
            Poll::Wait(_) => panic!("a file has nothing to wait for"),
        }
    }
    panic!("the reader doesn't come to an end")
}

/// All splits that an enumerator has left.
pub(super) fn splits(enumerator: &mut Enumerator) -> Vec<FileSplit> {
    let mut all = Vec::new();
    loop {
        match enumerator.next_split(SubtaskIndex(0)).unwrap() {
            NextSplit::Split(split) => all.push(split),
            NextSplit::NoMore => return all,
            NextSplit::Later => panic!("a directory is listed once"),
        }
    }
}

/// Reads all of a source with one reader, split by split, as a job does.
pub(super) fn read_all<F: Format>(source: &FileSource<F>) -> Result<Vec<F::Out>, BoxError> {
    let mut enumerator = source.enumerator(None)?;
    let mut reader = reader(source);
    let mut all = Vec::new();
    for split in splits(&mut enumerator) {
        reader.add_split(split)?;
        all.extend(drain(&mut reader, 100)?);
    }
    Ok(all)
}

pub(super) fn snapshot<T>(reader: &mut Reader<T>) -> Vec<FileSplit> {
    reader.snapshot(CheckpointId(1)).unwrap()
}

/// The error as a person reads it.
pub(super) fn said<T: std::fmt::Debug>(result: Result<T, BoxError>) -> String {
    result.unwrap_err().to_string()
}
