//! Builders and an executor.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use tidegate_storage::*;
use tidegate_types::snapshot::*;
use tidegate_types::*;

/// Runs a future that never waits for another thread; a bounded number of polls, so that a livelock fails.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..1_000_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
    panic!("a future made no progress in a million polls");
}

pub fn job_id() -> JobId {
    JobId::from("word count")
}

pub fn memory() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

pub fn job_over(store: Arc<dyn ObjectStore>) -> JobStore {
    CheckpointStore::over(store, "memory:///").job(&job_id()).unwrap()
}

pub fn head(uid: &str, name: &str) -> SectionHead {
    SectionHead {
        uid: OperatorUid::from(uid),
        kind: SectionKind::Keyed,
        name: name.to_owned(),
        hashes: None,
        encoding: Encoding::Raw,
        shapes: Vec::new(),
        records: 1,
    }
}

pub fn piece(uid: &str, name: &str, bytes: impl Into<Bytes>) -> SectionBytes {
    SectionBytes {
        head: head(uid, name),
        bytes: bytes.into(),
    }
}

pub fn subtask(index: u32) -> SubtaskId {
    SubtaskId::new(VertexId(1), SubtaskIndex(index))
}

pub fn file_name(id: u64, index: u32, epoch: LeaderEpoch, nonce: u64) -> StateFileName {
    StateFileName {
        checkpoint: CheckpointId(id),
        writer: Writer::Subtask(subtask(index)),
        attempt: AttemptNumber(1),
        epoch,
        nonce: Nonce(nonce),
    }
}

/// Writes one file with one section, and returns what the subtask would acknowledge.
pub async fn write_one(job: &JobStore, name: &StateFileName, place: Place, text: &str) -> SubtaskSnapshot {
    let sections = [piece("sum", "counts", text.to_owned())];
    let written = job.write_state_file(name, place, 0, sections).await.unwrap();
    let Writer::Subtask(subtask) = name.writer else {
        panic!("a subtask's file")
    };
    SubtaskSnapshot {
        subtask,
        sections: written.sections,
        finished: false,
    }
}

pub fn checkpoint(subtasks: Vec<SubtaskSnapshot>, retained: &[u64]) -> CheckpointMetadata {
    CheckpointMetadata {
        kind: CheckpointKind::Checkpoint,
        savepoint: None,
        triggered_at_ms: 1_000,
        completed_at_ms: 1_250,
        max_parallelism: MaxParallelism::DEFAULT,
        operators: vec![OperatorMeta {
            uid: OperatorUid::from("sum"),
            name: "Sum".to_owned(),
            parallelism: Parallelism(2),
            vertex: VertexId(1),
            position: 0,
            finished: Finished::No,
            inputs: vec![InputMeta {
                input: InputIndex(0),
                producer: OperatorUid::from("source"),
                producer_parallelism: Parallelism(1),
                kind: EdgeKind::Normal,
                partitioner: "hash".to_owned(),
            }],
        }],
        subtasks,
        master: Vec::new(),
        retained: retained.iter().copied().map(CheckpointId).collect(),
        lineage: LineageId(3),
        stats: StatsSummary {
            end_to_end: Duration::from_millis(250),
            ..StatsSummary::default()
        },
    }
}

pub fn savepoint(subtasks: Vec<SubtaskSnapshot>, retained: &[u64]) -> CheckpointMetadata {
    let kind = CheckpointKind::Savepoint {
        format: SavepointFormat::Canonical,
        stop: false,
    };
    CheckpointMetadata {
        kind,
        ..checkpoint(subtasks, retained)
    }
}

pub fn complete(metadata: CheckpointMetadata) -> Decision {
    Decision::Complete(Box::new(metadata))
}

pub fn failed() -> Decision {
    Decision::Aborted(AbortCause::Failed {
        reason: "expired".to_owned(),
        detail: "10 min".to_owned(),
    })
}

/// Writes one subtask's file for the leader's next id and completes it.
pub async fn complete_next(job: &JobStore, leadership: &mut Leadership, retained: &[u64]) -> CheckpointId {
    let id = leadership.next_id();
    let name = file_name(id.0, 0, leadership.epoch(), id.0);
    let snapshot = write_one(job, &name, Place::Checkpoint, &format!("state of {id}")).await;
    let outcome = job
        .decide(leadership, id, complete(checkpoint(vec![snapshot], retained)))
        .await
        .unwrap();
    assert_eq!(outcome, Outcome::Mine);
    id
}

/// Every object below the job's directory, relative to it.
pub fn objects(store: &Arc<dyn ObjectStore>) -> Vec<String> {
    use futures_util::TryStreamExt;
    let prefix = Path::parse("word%20count").unwrap();
    let listed: Vec<_> = block_on(store.list(Some(&prefix)).try_collect()).unwrap();
    let mut paths: Vec<_> = listed
        .into_iter()
        .map(|o| o.location.as_ref().split_once('/').unwrap().1.to_owned())
        .collect();
    paths.sort();
    paths
}

/// The object at `path` below the job's directory.
pub fn object(path: &str) -> Path {
    Path::parse(format!("word%20count/{path}")).unwrap()
}

pub fn read_raw(store: &Arc<dyn ObjectStore>, path: &str) -> Vec<u8> {
    block_on(async {
        store
            .get(&object(path))
            .await
            .unwrap()
            .bytes()
            .await
            .unwrap()
            .to_vec()
    })
}

pub fn write_raw(store: &Arc<dyn ObjectStore>, path: &str, bytes: Vec<u8>) {
    block_on(store.put(&object(path), PutPayload::from(bytes))).unwrap();
}

pub fn delete_raw(store: &Arc<dyn ObjectStore>, path: &str) {
    block_on(store.delete(&object(path))).unwrap();
}

/// Reads every section of a snapshot.
pub fn read_all(snapshot: &Snapshot) -> Result<Vec<Bytes>, StorageError> {
    let sections: Vec<_> = snapshot.metadata().sections().collect();
    block_on(snapshot.reader().read_sections(&sections))
}
