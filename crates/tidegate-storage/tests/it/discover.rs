//! What a path means, and what a listing shows.

use std::path::PathBuf;

use tidegate_storage::*;
use tidegate_types::*;

use crate::common::*;

/// A job on disk: claim 1, checkpoint 2, abort 3, checkpoint 4 (2 retained), files of 5 in progress.
fn job_on_disk(root: &tempfile::TempDir) -> (JobStore, PathBuf) {
    let store = CheckpointStore::open(root.path().to_str().unwrap()).unwrap();
    let job = store.job(&job_id()).unwrap();
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    block_on(complete_next(&job, &mut claim.leadership, &[]));
    block_on(job.decide(&mut claim.leadership, CheckpointId(3), failed())).unwrap();
    block_on(complete_next(&job, &mut claim.leadership, &[2]));
    block_on(write_one(
        &job,
        &file_name(5, 0, claim.leadership.epoch(), 1),
        Place::Checkpoint,
        "x",
    ));
    let dir = job.dir().local_path().unwrap().to_owned();
    (job, dir)
}

fn open(path: impl Into<PathBuf>) -> Result<Snapshot, StorageError> {
    block_on(open_snapshot(path.into().to_str().unwrap()))
}

#[test]
fn every_way_to_name_a_checkpoint_finds_it() {
    let root = tempfile::tempdir().unwrap();
    let (_, dir) = job_on_disk(&root);
    for (path, id) in [
        (dir.join("chk-2"), 2),
        (dir.join("chk-2/"), 2),
        (dir.join("chk-2/_metadata"), 2),
        (dir.join("chk-4"), 4),
        (dir.clone(), 4),
    ] {
        let snapshot = open(&path).unwrap();
        assert_eq!(snapshot.id(), CheckpointId(id), "{}", path.display());
        assert_eq!(read_all(&snapshot).unwrap(), [format!("state of {id}")]);
        snapshot.expect_job(&job_id()).unwrap();
    }
    let url = url::Url::from_directory_path(&dir).unwrap();
    assert_eq!(
        block_on(open_snapshot(url.as_str())).unwrap().id(),
        CheckpointId(4)
    );
}

/// Beside the job: directories that are no checkpoints, each in its own way.
fn with_lookalikes(root: &tempfile::TempDir) -> PathBuf {
    let (_, dir) = job_on_disk(root);
    let at = |path: &str| root.path().join(path);
    for name in ["empty", "photos", "fresh/chk-1", "renamed"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    std::fs::write(at("photos/1.jpg"), b"x").unwrap();
    std::fs::copy(dir.join("chk-1/_metadata"), at("fresh/chk-1/_metadata")).unwrap();
    std::fs::copy(dir.join("chk-4/_metadata"), at("renamed/_metadata")).unwrap();
    dir
}

#[test]
fn what_is_no_checkpoint_gets_a_plain_answer() {
    let root = tempfile::tempdir().unwrap();
    let dir = with_lookalikes(&root);
    type Check = fn(&Problem) -> bool;
    let cases: [(PathBuf, Check, &str); 9] = [
        (
            root.path().join("gone"),
            |p| matches!(p, Problem::NotThere),
            "nothing there",
        ),
        (
            root.path().join("empty"),
            |p| matches!(p, Problem::NotThere),
            "nothing there",
        ),
        (
            root.path().join("photos"),
            |p| matches!(p, Problem::NotACheckpoint { .. }),
            "1.jpg",
        ),
        (
            root.path().join("photos/1.jpg"),
            |p| matches!(p, Problem::BadLocation { .. }),
            "file",
        ),
        (
            dir.join("chk-5"),
            |p| matches!(p, Problem::NotACheckpoint { .. }),
            "never completed",
        ),
        (
            dir.join("chk-3"),
            |p| matches!(p, Problem::Aborted { .. }),
            "expired: 10 min",
        ),
        (
            dir.join("chk-1"),
            |p| matches!(p, Problem::Aborted { .. }),
            "new leader",
        ),
        (
            root.path().join("fresh"),
            |p| matches!(p, Problem::NoCheckpoint),
            "no complete checkpoint",
        ),
        (
            root.path().join("renamed"),
            |p| matches!(p, Problem::NotACheckpoint { .. }),
            "chk-4",
        ),
    ];
    for (path, expected, words) in cases {
        let error = open(&path).unwrap_err();
        assert!(expected(error.problem()), "{}: {error}", path.display());
        let text = error.to_string();
        assert!(
            text.contains(words) && text.contains(path.to_str().unwrap()),
            "{text}"
        );
    }
}

#[test]
fn a_checkpoint_of_another_job_and_a_damaged_one_are_refused_by_name() {
    let root = tempfile::tempdir().unwrap();
    let (_, dir) = job_on_disk(&root);
    let error = open(dir.join("chk-2"))
        .unwrap()
        .expect_job(&JobId::from("billing"))
        .unwrap_err();
    let text = error.to_string();
    for words in ["\"word count\"", "\"billing\"", "chk-2", "--job-id"] {
        assert!(text.contains(words), "{text}");
    }
    assert_eq!(error.kind(), ErrorKind::FixConfiguration);
    std::fs::write(dir.join("chk-2/_metadata"), b"zzz").unwrap();
    let error = open(dir.join("chk-2")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupted);
    assert!(error.to_string().contains("chk-2/_metadata"), "{error}");
    assert!(error.to_string().contains("another checkpoint"), "{error}");
}

#[test]
fn a_listing_shows_what_became_of_each() {
    let root = tempfile::tempdir().unwrap();
    let (job, dir) = job_on_disk(&root);
    std::fs::write(dir.join("chk-1/_metadata"), b"zzz").unwrap();
    let all = block_on(job.checkpoints()).unwrap();
    let states: Vec<_> = all
        .iter()
        .map(|summary| match &summary.state {
            DecisionSummary::Complete { state_bytes, .. } => format!("{} complete {state_bytes}", summary.id),
            DecisionSummary::Aborted { reason } => format!("{} aborted {reason}", summary.id),
            DecisionSummary::Undecided => format!("{} undecided {} file", summary.id, summary.files),
            DecisionSummary::Unreadable { .. } => format!("{} unreadable", summary.id),
        })
        .collect();
    let expected = [
        "1 unreadable",
        "2 complete 10",
        "3 aborted expired: 10 min",
        "4 complete 10",
        "5 undecided 1 file",
    ];
    assert_eq!(states, expected);
    assert!(all[1].size_bytes > 10 && all[1].files == 2);
    let json = serde_json::to_value(&all[2]).unwrap();
    assert_eq!(json["state"]["state"], "aborted");
    let store = CheckpointStore::open(root.path().to_str().unwrap()).unwrap();
    let savepoint = root.path().join("savepoint-x-0000000000000001");
    std::fs::create_dir(&savepoint).unwrap();
    std::fs::write(savepoint.join("_metadata"), b"x").unwrap();
    assert_eq!(block_on(store.jobs()).unwrap(), [job_id()]);
}

#[test]
fn reading_needs_no_claim_and_creates_nothing() {
    let store = memory();
    let job = job_over(store.clone());
    assert!(matches!(block_on(job.newest()).unwrap(), Newest::None));
    assert!(block_on(job.checkpoints()).unwrap().is_empty());
    assert_eq!(objects(&store), [""; 0]);
    let root = tempfile::tempdir().unwrap();
    let on_disk = CheckpointStore::open(root.path().to_str().unwrap())
        .unwrap()
        .job(&job_id())
        .unwrap();
    assert!(matches!(block_on(on_disk.newest()).unwrap(), Newest::None));
    assert!(!on_disk.dir().local_path().unwrap().exists());
}
