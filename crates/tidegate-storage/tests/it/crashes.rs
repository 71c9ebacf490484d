//! One leader's whole life, with a crash or a fault at each of its writes.

use std::sync::Arc;

use object_store::ObjectStore;
use tidegate_storage::fault::{Failure, Fault, FaultStore, crash_at_write};
use tidegate_storage::layout::{self, Entry};
use tidegate_storage::*;
use tidegate_types::*;

use crate::common::*;

/// Claims, completes two checkpoints with an abort between them, takes a savepoint, and sweeps after each. What it
/// was told to be complete.
async fn life(job: &JobStore, target: &StoreDir, done: &mut Vec<CheckpointId>) -> Result<(), StorageError> {
    let mut claim = job.claim(Nonce(1)).await?;
    let leader = &mut claim.leadership;
    for kind in ["checkpoint", "abort", "savepoint", "checkpoint"] {
        let id = leader.next_id();
        let name = file_name(id.0, 0, leader.epoch(), id.0);
        let text = format!("state of {id}");
        let written = job
            .write_state_file(&name, Place::Checkpoint, 0, [piece("sum", "counts", text)])
            .await?;
        let snapshot = tidegate_types::snapshot::SubtaskSnapshot {
            subtask: subtask(0),
            sections: written.sections,
            finished: false,
        };
        let retained: Vec<u64> = done.iter().rev().take(1).map(|id| id.0).collect();
        let decision = match kind {
            "abort" => failed(),
            "savepoint" => {
                let mut metadata = savepoint(vec![snapshot], &retained);
                job.write_savepoint(leader, id, target, Nonce(id.0), &mut metadata)
                    .await?;
                complete(metadata)
            }
            _ => complete(checkpoint(vec![snapshot], &retained)),
        };
        let completes = matches!(decision, Decision::Complete(_));
        assert_eq!(job.decide(leader, id, decision).await?, Outcome::Mine);
        if completes {
            done.push(id);
        }
        let view = leader.view();
        job.sweep(&mut claim.deletes, &view).await?;
    }
    Ok(())
}

fn target(store: &Arc<dyn ObjectStore>) -> StoreDir {
    StoreDir::new(
        store.clone(),
        object_store::path::Path::from("savepoints"),
        None,
        "memory:///savepoints",
    )
}

/// Claims after the crash and checks everything.
fn recover(store: &Arc<dyn ObjectStore>, done: &[CheckpointId]) {
    let root = CheckpointStore::over(store.clone(), "memory:///");
    let job = root.job(&job_id()).unwrap();
    let mut claim = block_on(job.claim(Nonce(2))).unwrap();
    let newest = match claim.newest {
        Newest::None => None,
        Newest::Complete(object) => Some(*object),
        Newest::Unreadable { error, .. } => panic!("{error}"),
    };
    let newest_id = newest.as_ref().map(|object| object.header.id);
    // One more may be complete than the dead leader was told.
    assert!(newest_id >= done.last().copied(), "{newest_id:?} after {done:?}");
    let view = claim.leadership.view();
    let report = block_on(job.sweep(&mut claim.deletes, &view)).unwrap();
    assert!(report.unknown.is_empty(), "{report:?}");
    let mut expected = Vec::new();
    if let Some(object) = newest {
        let snapshot = job.snapshot(object).unwrap();
        assert_eq!(
            read_all(&snapshot).unwrap(),
            [format!("state of {}", snapshot.id())]
        );
        let mut kept = snapshot.metadata().retained.clone();
        kept.push(snapshot.id());
        for id in kept {
            if let Some(object) = block_on(job.read_decision(id)).unwrap() {
                let kept = job.snapshot(object).unwrap();
                read_all(&kept).unwrap();
                expected.extend(NamedFiles::of(kept.metadata()).iter().map(str::to_owned));
            }
        }
    }
    let state: Vec<_> = objects(store)
        .into_iter()
        .filter(|path| !matches!(layout::parse(path), Entry::Metadata(_)))
        .collect();
    expected.sort();
    assert_eq!(state, expected, "exactly what kept checkpoints name");
    check_savepoints(store, &job);
}

/// A savepoint's directory is there, whole, if it was decided, and not at all if it wasn't.
fn check_savepoints(store: &Arc<dyn ObjectStore>, job: &JobStore) {
    let dir = target(store).child(&layout::savepoint_dir(&job_id(), Nonce(4)));
    let decided = block_on(job.read_decision(CheckpointId(4))).unwrap();
    let savepoint = block_on(snapshot_at(dir));
    match decided {
        Some(object) if object.complete().is_some() => {
            assert_eq!(read_all(&savepoint.unwrap()).unwrap(), ["state of 4"]);
        }
        // Retired, or never decided.
        None if block_on(job.newest())
            .is_ok_and(|newest| matches!(newest, Newest::Complete(o) if o.header.id.0 > 4)) =>
        {
            assert_eq!(read_all(&savepoint.unwrap()).unwrap(), ["state of 4"]);
        }
        _ => assert!(savepoint.unwrap_err().is_not_there()),
    }
}

#[test]
fn a_crash_before_or_after_any_write_loses_nothing_and_leaves_nothing() {
    let total = {
        let inner = memory();
        let faults = FaultStore::new(inner.clone(), |_| Fault::None);
        let store: Arc<dyn ObjectStore> = Arc::new(faults.clone());
        let mut done = Vec::new();
        block_on(life(&job_over(store.clone()), &target(&store), &mut done)).unwrap();
        assert_eq!(done, [2, 4, 5].map(CheckpointId));
        recover(&inner, &done);
        faults.writes()
    };
    assert!(total > 15, "{total} writes");
    for n in 0..total {
        for after_effect in [false, true] {
            let inner = memory();
            let faults = FaultStore::new(inner.clone(), crash_at_write(n, after_effect));
            let store: Arc<dyn ObjectStore> = Arc::new(faults.clone());
            let mut done = Vec::new();
            let result = block_on(life(&job_over(store.clone()), &target(&store), &mut done));
            // A sweep reports what it couldn't delete, so the last crashes go unnoticed.
            assert!(
                result.is_err() || faults.is_crashed(),
                "the crash at write {n} happened"
            );
            recover(&inner, &done);
        }
    }
}

#[test]
fn a_passing_fault_at_any_operation_is_survived_or_reported_and_never_loses_anything() {
    let mut survived = 0;
    for n in 0.. {
        let mut hit = false;
        for after in [false, true] {
            let inner = memory();
            let faults = FaultStore::new(inner.clone(), move |op| match (op.index == n, after) {
                (true, true) => Fault::After(Failure::Unavailable),
                (true, false) => Fault::Before(Failure::Unavailable),
                (false, _) => Fault::None,
            });
            let store: Arc<dyn ObjectStore> = Arc::new(faults.clone());
            let mut done = Vec::new();
            match block_on(life(&job_over(store.clone()), &target(&store), &mut done)) {
                Ok(()) => survived += 1,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Retry, "operation {n}: {error}"),
            }
            hit |= faults.ops() > n;
            recover(&inner, &done);
        }
        if !hit {
            break;
        }
    }
    assert!(survived > 10, "writes are settled by reading back ({survived})");
}
