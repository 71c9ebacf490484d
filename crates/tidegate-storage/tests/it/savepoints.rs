//! Savepoints: whole, movable, and gone without a trace if they were not decided.

use std::path::Path;

use tidegate_storage::*;
use tidegate_types::*;

use crate::common::*;

/// A savepoint of two subtasks, one of which names a shared file of an earlier checkpoint, as checkpoint 3.
fn take(job: &JobStore, claim: &mut Claim, target: &StoreDir) -> (String, CheckpointMetadata) {
    let epoch = claim.leadership.epoch();
    let shared = block_on(write_one(
        job,
        &file_name(2, 0, epoch, 1),
        Place::Shared,
        "shared",
    ));
    let base = complete(checkpoint(vec![shared.clone()], &[]));
    block_on(job.decide(&mut claim.leadership, CheckpointId(2), base)).unwrap();
    let own = block_on(write_one(
        job,
        &file_name(3, 1, epoch, 2),
        Place::Checkpoint,
        "own",
    ));
    let mut metadata = savepoint(vec![shared, own], &[2]);
    let location = block_on(job.write_savepoint(
        &claim.leadership,
        CheckpointId(3),
        target,
        Nonce(9),
        &mut metadata,
    ))
    .unwrap();
    assert_eq!(metadata.savepoint.as_deref(), Some(&*location));
    (location, metadata)
}

fn sweep(job: &JobStore, claim: &mut Claim) -> SweepReport {
    let view = claim.leadership.view();
    block_on(job.sweep(&mut claim.deletes, &view)).unwrap()
}

fn tree(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_savepoint_on_disk_outlives_its_job_and_a_move() {
    let root = tempfile::tempdir().unwrap();
    let job_root = root.path().join("checkpoints");
    let store = CheckpointStore::open(job_root.to_str().unwrap()).unwrap();
    let job = store.job(&job_id()).unwrap();
    // Inside the checkpoint directory (hard links) and outside of it (a copy through this process).
    for target in [
        store.root().clone(),
        StoreDir::create(root.path().join("backup").to_str().unwrap()).unwrap(),
    ] {
        let _ = std::fs::remove_dir_all(job.dir().local_path().unwrap());
        let mut claim = block_on(job.claim(Nonce(1))).unwrap();
        let (location, metadata) = take(&job, &mut claim, &target);
        let decided =
            block_on(job.decide(&mut claim.leadership, CheckpointId(3), complete(metadata))).unwrap();
        assert_eq!(decided, Outcome::Mine);
        let report = sweep(&job, &mut claim);
        assert!(
            report.savepoints.is_empty() && report.warnings.is_empty(),
            "{report:?}"
        );
        // The job recovers from its own copy whatever the person does.
        let moved = root.path().join("moved");
        std::fs::rename(&location, &moved).unwrap();
        let Newest::Complete(newest) = block_on(job.newest()).unwrap() else {
            panic!("complete")
        };
        assert_eq!(
            read_all(&job.snapshot(*newest).unwrap()).unwrap(),
            ["shared", "own"]
        );
        // The savepoint does without the job.
        std::fs::remove_dir_all(job.dir().local_path().unwrap()).unwrap();
        for path in [moved.clone(), moved.join("_metadata")] {
            let snapshot = block_on(open_snapshot(path.to_str().unwrap())).unwrap();
            assert_eq!((snapshot.id(), snapshot.job()), (CheckpointId(3), &job_id()));
            assert!(snapshot.metadata().kind.is_savepoint() && snapshot.metadata().retained.is_empty());
            assert_eq!(read_all(&snapshot).unwrap(), ["shared", "own"]);
        }
        assert_eq!(tree(&moved).len(), 3);
        std::fs::remove_dir_all(moved).unwrap();
    }
}

#[test]
fn an_undecided_savepoint_is_removed_by_the_next_leader_and_no_other_is() {
    let root = tempfile::tempdir().unwrap();
    let store = CheckpointStore::open(root.path().join("checkpoints").to_str().unwrap()).unwrap();
    let job = store.job(&job_id()).unwrap();
    let backup = StoreDir::create(root.path().join("backup").to_str().unwrap()).unwrap();
    let mut old = block_on(job.claim(Nonce(1))).unwrap();
    let (first, metadata) = take(&job, &mut old, &backup);
    block_on(job.decide(&mut old.leadership, CheckpointId(3), complete(metadata))).unwrap();
    // A second one is copied; its leader dies before the decision.
    let mut metadata = savepoint(vec![], &[]);
    let second = job.write_savepoint(
        &old.leadership,
        CheckpointId(4),
        &backup,
        Nonce(10),
        &mut metadata,
    );
    let second = block_on(second).unwrap();
    std::fs::write(Path::new(&second).join("_metadata#1"), b"torn").unwrap();
    let mut new = block_on(job.claim(Nonce(2))).unwrap();
    let report = sweep(&job, &mut new);
    assert_eq!(report.savepoints, std::slice::from_ref(&second));
    assert!(report.warnings.is_empty(), "{report:?}");
    assert!(!Path::new(&second).exists());
    assert_eq!(
        read_all(&block_on(open_snapshot(&first)).unwrap()).unwrap(),
        ["shared", "own"]
    );
    assert!(sweep(&job, &mut new).savepoints.is_empty());
}

#[test]
fn an_aborted_savepoint_is_removed_by_its_own_leader() {
    let store = memory();
    let root = CheckpointStore::over(store.clone(), "memory:///");
    let job = root.job(&job_id()).unwrap();
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    let (location, _) = take(&job, &mut claim, root.root());
    assert!(sweep(&job, &mut claim).savepoints.is_empty(), "not decided yet");
    block_on(job.decide(&mut claim.leadership, CheckpointId(3), failed())).unwrap();
    assert_eq!(sweep(&job, &mut claim).savepoints, [location]);
    let left = objects(&store);
    assert_eq!(left.len(), 4, "{left:?}");
    let dir = root.root().child(&layout::savepoint_dir(&job_id(), Nonce(9)));
    assert!(block_on(snapshot_at(dir)).unwrap_err().is_not_there());
}

#[test]
fn a_savepoints_copy_is_never_deleted_once_its_checkpoint_has_gone() {
    let store = memory();
    let root = CheckpointStore::over(store.clone(), "memory:///");
    let job = root.job(&job_id()).unwrap();
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    let (location, metadata) = take(&job, &mut claim, root.root());
    block_on(job.decide(&mut claim.leadership, CheckpointId(3), complete(metadata))).unwrap();
    let intent = objects(&store)
        .into_iter()
        .find(|path| path.ends_with(".intent"))
        .unwrap();
    let intent_bytes = read_raw(&store, &intent);
    block_on(complete_next(&job, &mut claim.leadership, &[]));
    sweep(&job, &mut claim);
    for path in [
        location.clone(),
        format!("{location}/"),
        format!("{location}/_metadata"),
    ] {
        assert_eq!(
            read_all(&block_on(root.open_snapshot(&path)).unwrap()).unwrap(),
            ["shared", "own"],
            "{path}"
        );
    }
    // On a disk without synced deletes the intent may come back after a power cut.
    write_raw(&store, &intent, intent_bytes);
    let report = sweep(&job, &mut claim);
    assert!(report.savepoints.is_empty(), "{report:?}");
    assert!(!objects(&store).contains(&intent));
    let dir = root.root().child(&layout::savepoint_dir(&job_id(), Nonce(9)));
    assert_eq!(
        read_all(&block_on(snapshot_at(dir)).unwrap()).unwrap(),
        ["shared", "own"]
    );
}

#[test]
fn a_damaged_intent_deletes_nothing() {
    let store = memory();
    let root = CheckpointStore::over(store.clone(), "memory:///");
    let job = root.job(&job_id()).unwrap();
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    take(&job, &mut claim, root.root());
    let intent = objects(&store)
        .into_iter()
        .find(|path| path.ends_with(".intent"))
        .unwrap();
    write_raw(&store, &intent, b"TIDEINTN garbage".to_vec());
    block_on(job.decide(&mut claim.leadership, CheckpointId(3), failed())).unwrap();
    let report = sweep(&job, &mut claim);
    assert!(matches!(&report.warnings[..], [Warning::NotDeleted { path, .. }] if path.ends_with(".intent")));
    let dir = root.root().child(&layout::savepoint_dir(&job_id(), Nonce(9)));
    assert!(block_on(snapshot_at(dir)).is_ok());
}

#[test]
fn a_savepoint_says_where_it_is_and_a_checkpoint_does_not() {
    let job = job_over(memory());
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    let without = savepoint(vec![], &[]);
    let with = CheckpointMetadata {
        savepoint: Some("x".into()),
        ..checkpoint(vec![], &[])
    };
    for metadata in [without, with, checkpoint(vec![], &[2])] {
        let error =
            block_on(job.decide(&mut claim.leadership, CheckpointId(2), complete(metadata))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Bug);
    }
    let target = StoreDir::create("memory:///t").unwrap();
    for (id, mut metadata) in [(2, checkpoint(vec![], &[])), (1, savepoint(vec![], &[]))] {
        let written = block_on(job.write_savepoint(
            &claim.leadership,
            CheckpointId(id),
            &target,
            Nonce(1),
            &mut metadata,
        ));
        assert_eq!(written.unwrap_err().kind(), ErrorKind::Bug);
    }
}
