//! Listing what stands there, and what stands in its place.

use tidegate_storage::{AbortCause, Decision, Nonces};
use tidegate_types::CheckpointId;

use super::*;

fn text_of(error: CliError) -> String {
    assert!(!matches!(error, CliError::Usage(_)), "{error}");
    error.to_string()
}

#[test]
fn a_store_and_a_jobs_directory_are_both_listed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().to_str().expect("its name is text").to_owned();
    let job = JobId::from("a job");
    runtime().expect("a runtime").block_on(async {
        let store = CheckpointStore::open(&path)
            .expect("it is there")
            .job(&job)
            .expect("a usable id");
        let mut claim = store
            .claim(Nonces::seeded(7).draw())
            .await
            .expect("nobody else leads");
        let id = claim.leadership.next_id();
        let cause = AbortCause::Failed {
            reason: "expired".into(),
            detail: String::new(),
        };
        store
            .decide(&mut claim.leadership, id, Decision::Aborted(cause))
            .await
            .expect("it is writable");
        let all = listing(&path).await.expect("it can be listed");
        let of_job = listing(&format!(
            "{path}/{}",
            layout::job_dir_name(&job).expect("a usable id")
        ))
        .await;
        assert_eq!(all, of_job.expect("it can be listed"));
        let [(found, checkpoints)] = &all[..] else {
            panic!("one job: {all:?}")
        };
        assert_eq!(*found, job);
        let aborted = checkpoints.iter().find(|c| c.id == id).expect("it is listed");
        assert_eq!(row(aborted)[4], "aborted: expired");
    });
}

#[test]
fn what_is_no_checkpoint_directory_is_one_clear_error() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().to_str().expect("its name is text").to_owned();
    let runtime = runtime().expect("a runtime");
    let empty = runtime.block_on(listing(&path)).expect_err("it is empty");
    assert!(text_of(empty.into()).contains(&path));
    let missing = runtime
        .block_on(listing(&format!("{path}/none")))
        .expect_err("it isn't there");
    assert!(missing.is_not_there());
    assert!(!dir.path().join("none").exists(), "looking creates nothing");
}

#[test]
fn problems_name_file_operator_state_and_byte() {
    let problem = tidegate_storage::verify::VerifyProblem {
        path: "chk-3/_metadata".into(),
        uid: Some("count".into()),
        state: Some("keyed `seen`".into()),
        offset: Some(64),
        text: "its checksum is wrong".into(),
    };
    let report = VerifyReport {
        location: "/c".into(),
        problems: vec![problem],
        ..VerifyReport::default()
    };
    assert_eq!(
        problems(&report),
        "/c is damaged:\n  chk-3/_metadata, operator `count`, keyed `seen`, byte 64: its checksum is wrong"
    );
    let undecided = CheckpointSummary {
        id: CheckpointId(4),
        state: DecisionSummary::Undecided,
        files: 1,
        size_bytes: 10,
    };
    assert_eq!(
        row(&undecided),
        ["  4", "1", "10 B", "", "in progress, or left behind"]
    );
}
