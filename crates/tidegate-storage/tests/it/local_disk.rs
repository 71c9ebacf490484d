//! What only a disk has: staging files, empty directories, two processes, and no room.

use std::sync::Arc;

use object_store::local::LocalFileSystem;
use object_store::path::Path;
use tidegate_storage::fault::{Fault, FaultStore, OpKind, Script};
use tidegate_storage::*;
use tidegate_types::*;

use crate::common::*;

fn paths(job: &JobStore) -> Vec<String> {
    fn walk(dir: &std::path::Path, prefix: &str, out: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{prefix}{}", entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                out.push(format!("{path}/"));
                walk(&entry.path(), &format!("{path}/"), out);
            } else {
                out.push(path);
            }
        }
    }
    let mut out = Vec::new();
    walk(job.dir().local_path().unwrap(), "", &mut out);
    out.sort();
    out
}

/// The checkpoint directory over a store that fails on purpose.
fn faulty(root: &tempfile::TempDir) -> (FaultStore, JobStore) {
    let path = root.path().canonicalize().unwrap();
    let local = LocalFileSystem::new_with_prefix(&path).unwrap().with_fsync(true);
    let faults = FaultStore::new(Arc::new(local), |_| Fault::None).with_local(&path);
    let url = path.to_str().unwrap().to_owned();
    let dir = StoreDir::new(Arc::new(faults.clone()), Path::ROOT, Some(path), url);
    (faults, CheckpointStore::at(dir).job(&job_id()).unwrap())
}

#[test]
fn a_whole_life_on_disk_leaves_no_staging_file_and_no_empty_directory() {
    let root = tempfile::tempdir().unwrap();
    let job = CheckpointStore::open(root.path().to_str().unwrap())
        .unwrap()
        .job(&job_id())
        .unwrap();
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    for _ in 0..3 {
        block_on(complete_next(&job, &mut claim.leadership, &[]));
        let view = claim.leadership.view();
        let report = block_on(job.sweep(&mut claim.deletes, &view)).unwrap();
        assert!(
            report.warnings.is_empty() && report.unknown.is_empty(),
            "{report:?}"
        );
    }
    let file = file_name(4, 0, claim.leadership.epoch(), 4).in_checkpoint();
    assert_eq!(
        paths(&job),
        ["chk-1/", "chk-1/_metadata", "chk-4/", "chk-4/_metadata", &file]
    );
}

#[test]
fn what_a_torn_write_leaves_is_invisible_and_swept_by_the_next_leader() {
    for (torn, what) in [("chk-2/n2", "state"), ("chk-2/_metadata", "decision")] {
        let root = tempfile::tempdir().unwrap();
        let (faults, job) = faulty(&root);
        let mut claim = block_on(job.claim(Nonce(1))).unwrap();
        faults.set_plan(
            Script::new()
                .on(OpKind::Put, torn, 0, Fault::Torn { bytes: 7 })
                .plan(),
        );
        let name = file_name(2, 0, claim.leadership.epoch(), 1);
        let written = block_on(job.write_state_file(&name, Place::Checkpoint, 0, [piece("sum", "c", "xyz")]));
        if let Ok(written) = written {
            let subtasks = vec![tidegate_types::snapshot::SubtaskSnapshot {
                subtask: subtask(0),
                sections: written.sections,
                finished: false,
            }];
            let metadata = complete(checkpoint(subtasks, &[]));
            assert!(
                block_on(job.decide(&mut claim.leadership, CheckpointId(2), metadata)).is_err(),
                "{what}"
            );
        }
        assert!(faults.is_crashed());
        let staging: Vec<_> = paths(&job)
            .into_iter()
            .filter(|path| path.ends_with("#1"))
            .collect();
        assert_eq!(staging.len(), 1, "{what}");

        let job = CheckpointStore::open(root.path().to_str().unwrap())
            .unwrap()
            .job(&job_id())
            .unwrap();
        let mut claim = block_on(job.claim(Nonce(2))).unwrap();
        assert!(matches!(claim.newest, Newest::None), "torn, so never decided");
        assert_eq!(claim.leadership.epoch(), LeaderEpoch(2));
        // A file that a newer leader is writing.
        let newer = job
            .dir()
            .local_path()
            .unwrap()
            .join(format!("{}#1", file_name(3, 0, LeaderEpoch(9), 1).in_shared()));
        std::fs::create_dir_all(newer.parent().unwrap()).unwrap();
        std::fs::write(&newer, b"x").unwrap();
        let view = claim.leadership.view();
        let report = block_on(job.sweep(&mut claim.deletes, &view)).unwrap();
        assert_eq!((report.staging, report.warnings), (1, vec![]), "{what}");
        assert!(newer.exists());
        let left: Vec<_> = paths(&job)
            .into_iter()
            .filter(|path| !path.starts_with("shared/"))
            .collect();
        assert_eq!(
            left,
            ["chk-1/", "chk-1/_metadata", "chk-2/", "chk-2/_metadata"],
            "{what}"
        );
    }
}

#[test]
fn a_decision_that_is_visible_but_was_reported_as_failed_counts() {
    let root = tempfile::tempdir().unwrap();
    let (faults, job) = faulty(&root);
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    // As when the directory's sync fails after the link.
    let script = Script::new().on(OpKind::Put, "chk-2", 0, Fault::After(fault::Failure::DiskFull));
    faults.set_plan(script.plan());
    let decided = block_on(job.decide(
        &mut claim.leadership,
        CheckpointId(2),
        complete(checkpoint(vec![], &[])),
    ));
    assert_eq!(decided.unwrap(), Outcome::Mine);
}

#[test]
fn a_directory_that_may_not_be_written_is_named() {
    let root = tempfile::tempdir().unwrap();
    // A file in the way of the job's directory: the same to every user, root too.
    std::fs::write(root.path().join("word%20count"), b"x").unwrap();
    let job = CheckpointStore::open(root.path().to_str().unwrap())
        .unwrap()
        .job(&job_id())
        .unwrap();
    let error = block_on(job.claim(Nonce(1))).unwrap_err();
    assert!(error.to_string().contains("word%20count"), "{error}");
    let holder = LockHolder {
        pid: 1,
        started: String::new(),
    };
    assert!(job.lock(&holder).is_err());
}

#[test]
fn a_job_id_of_any_characters_works_on_disk() {
    let root = tempfile::tempdir().unwrap();
    let store = CheckpointStore::open(root.path().to_str().unwrap()).unwrap();
    for id in ["..", "a/b", "ü#1", "a b%20c", "x#12", ".hidden", "con.", "{job}"] {
        let job = store.job(&JobId::from(id)).unwrap();
        let mut claim = block_on(job.claim(Nonce(1))).unwrap();
        block_on(complete_next(&job, &mut claim.leadership, &[]));
        let view = claim.leadership.view();
        let report = block_on(job.sweep(&mut claim.deletes, &view)).unwrap();
        assert!(report.unknown.is_empty(), "{id}: {report:?}");
        let snapshot = block_on(open_snapshot(job.dir().url())).unwrap();
        assert_eq!(
            (snapshot.job().as_str(), read_all(&snapshot).unwrap().len()),
            (id, 1)
        );
    }
    let mut jobs = block_on(store.jobs()).unwrap();
    jobs.sort();
    assert_eq!(jobs.len(), 8);
}

/// Inside a tokio context `object_store` moves to the blocking pool; the futures must be `Send` to be spawned.
#[test]
fn the_same_works_inside_a_tokio_runtime() {
    let root = tempfile::tempdir().unwrap();
    let location = root.path().to_str().unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let life = async move {
        let job = CheckpointStore::open(&location).unwrap().job(&job_id()).unwrap();
        let mut claim = job.claim(Nonce(1)).await.unwrap();
        for _ in 0..2 {
            complete_next(&job, &mut claim.leadership, &[]).await;
            let view = claim.leadership.view();
            let report = job.sweep(&mut claim.deletes, &view).await.unwrap();
            assert!(report.warnings.is_empty(), "{report:?}");
        }
        let name = file_name(4, 0, claim.leadership.epoch(), 9);
        let large = [piece("sum", "large", vec![7u8; 40 << 20])];
        let written = job
            .write_state_file(&name, Place::Checkpoint, 0, large)
            .await
            .unwrap();
        let mut metadata = savepoint(
            vec![tidegate_types::snapshot::SubtaskSnapshot {
                subtask: subtask(0),
                sections: written.sections,
                finished: false,
            }],
            &[3],
        );
        let target = StoreDir::create(&format!("{location}/savepoints")).unwrap();
        let id = CheckpointId(4);
        let at = job
            .write_savepoint(&claim.leadership, id, &target, Nonce(3), &mut metadata)
            .await
            .unwrap();
        job.decide(&mut claim.leadership, id, complete(metadata))
            .await
            .unwrap();
        let report = verify(&at).await.unwrap();
        assert!(report.ok && report.checkpoints[0].bytes == 40 << 20, "{report:?}");
        let all = job.checkpoints().await.unwrap();
        assert_eq!(all.len(), 3);
        open_snapshot(job.dir().url()).await.unwrap().id()
    };
    assert_eq!(runtime.block_on(runtime.spawn(life)).unwrap(), CheckpointId(4));
}
