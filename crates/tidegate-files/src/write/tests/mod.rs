//! Tests of writing, one file per topic; this one drives writers and committers without a task around them.

mod commits;
mod crashes;
mod disks;
mod files;
mod full;
mod model;

use std::path::{Path, PathBuf};

use tidegate_runtime::error::BoxError;
use tidegate_runtime::operators::{Committer, Sink, SinkContext, SinkWriter};
use tidegate_types::{AttemptNumber, CheckpointId, LeaderEpoch, Parallelism, SubtaskIndex};

use super::*;

/// A subtask's place in a job's first attempt, started from the beginning.
pub(super) fn cx(subtask: u32) -> SinkContext {
    SinkContext {
        job: "job".into(),
        uid: "sink".into(),
        subtask: SubtaskIndex(subtask),
        parallelism: Parallelism(4),
        attempt: AttemptNumber(1),
        epoch: LeaderEpoch(1),
        lineage: 0,
        restored: None,
        wall_ms: 0,
    }
}

/// The same job restored from a checkpoint under a later leader.
pub(super) fn restored(subtask: u32, from: u64) -> SinkContext {
    SinkContext {
        restored: Some(CheckpointId(from)),
        epoch: LeaderEpoch(from + 1),
        attempt: AttemptNumber(2),
        ..cx(subtask)
    }
}

pub(super) type Writer<T> = Box<dyn SinkWriter<T, FileCommittable>>;
pub(super) type AnyCommitter = Box<dyn Committer<FileCommittable>>;

pub(super) fn writer<T: 'static, E: Encoder<T>>(sink: &FileSink<E>, cx: SinkContext) -> Writer<T> {
    sink.writer(cx).unwrap()
}

pub(super) fn committer<E: Encoder<String>>(sink: &FileSink<E>, cx: SinkContext) -> AnyCommitter {
    Sink::<String>::committer(sink, cx).unwrap().unwrap()
}

pub(super) fn write<T>(writer: &mut Writer<T>, records: impl IntoIterator<Item = T>) {
    for record in records {
        writer.write(record, None).unwrap();
    }
}

pub(super) fn lines(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|t| (*t).to_owned()).collect()
}

/// Cuts and prepares.
pub(super) fn prepare<T>(writer: &mut Writer<T>, id: u64) -> Result<Vec<FileCommittable>, BoxError> {
    match writer.prepare(CheckpointId(id))? {
        Some(prepared) => prepared(),
        None => Ok(Vec::new()),
    }
}

/// Names in a directory in order, hidden ones too.
pub(super) fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(super) fn hidden(dir: &Path) -> Vec<String> {
    names(dir)
        .into_iter()
        .filter(|name| name.starts_with('.'))
        .collect()
}

pub(super) fn read(path: impl Into<PathBuf>) -> String {
    String::from_utf8(std::fs::read(path.into()).unwrap()).unwrap()
}

/// Contents of all visible files, in the order of their names.
pub(super) fn visible(dir: &Path) -> Vec<String> {
    names(dir)
        .into_iter()
        .filter(|name| !name.starts_with('.'))
        .map(|name| read(dir.join(name)))
        .collect()
}

/// The error as a person reads it.
pub(super) fn said<T: std::fmt::Debug>(result: Result<T, BoxError>) -> String {
    result.unwrap_err().to_string()
}
