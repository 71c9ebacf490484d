//! Deleting garbage over the life of a job (C6).

use tidegate_storage::fault::{Failure, Fault, FaultStore, OpKind, Script};
use tidegate_storage::*;
use tidegate_types::snapshot::SubtaskSnapshot;
use tidegate_types::*;

use crate::common::*;

fn sweep(job: &JobStore, claim: &mut Claim) -> SweepReport {
    let view = claim.leadership.view();
    block_on(job.sweep(&mut claim.deletes, &view)).unwrap()
}

/// C6, without increments: checkpoint 3 reuses files of 1 that stand among the shared ones, 2 fails half-way.
#[test]
fn the_store_holds_exactly_what_retained_checkpoints_name() {
    let store = memory();
    let faults = FaultStore::new(store.clone(), |_| Fault::None);
    let job = job_over(std::sync::Arc::new(faults.clone()));
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    let epoch = claim.leadership.epoch();
    let write = |id: u64, n: u64, text: &str| {
        block_on(write_one(
            &job,
            &file_name(id, n as u32, epoch, n),
            Place::Shared,
            text,
        ))
    };
    let first: Vec<_> = (1..=3).map(|n| write(2, n, &format!("f{n}"))).collect();
    block_on(job.decide(
        &mut claim.leadership,
        CheckpointId(2),
        complete(checkpoint(first.clone(), &[])),
    ))
    .unwrap();
    sweep(&job, &mut claim);
    assert_eq!(objects(&store).len(), 2 + 3);

    write(3, 4, "f4");
    faults.set_plan(
        Script::new()
            .on(OpKind::Put, "shared/", 0, Fault::Before(Failure::DiskFull))
            .plan(),
    );
    let sections = [piece("sum", "counts", "f5")];
    let error =
        block_on(job.write_state_file(&file_name(3, 5, epoch, 5), Place::Shared, 0, sections)).unwrap_err();
    assert!(matches!(error.problem(), Problem::DiskFull { .. }));
    block_on(job.decide(&mut claim.leadership, CheckpointId(3), failed())).unwrap();
    sweep(&job, &mut claim);
    assert_eq!(
        objects(&store)
            .iter()
            .filter(|path| path.starts_with("shared/"))
            .count(),
        3,
        "nothing of 3 stays"
    );

    // f4's content again, written anew.
    let third: Vec<SubtaskSnapshot> = vec![first[0].clone(), write(4, 4, "f4"), write(4, 6, "f6")];
    block_on(job.decide(
        &mut claim.leadership,
        CheckpointId(4),
        complete(checkpoint(third, &[])),
    ))
    .unwrap();
    let report = sweep(&job, &mut claim);
    assert_eq!(
        (report.checkpoints, report.files),
        (vec![CheckpointId(2), CheckpointId(3)], 2)
    );
    let snapshot = job
        .snapshot(block_on(job.read_decision(CheckpointId(4))).unwrap().unwrap())
        .unwrap();
    assert_eq!(read_all(&snapshot).unwrap(), ["f1", "f4", "f6"]);
    let mut expected: Vec<_> = NamedFiles::of(snapshot.metadata())
        .iter()
        .map(str::to_owned)
        .collect();
    expected.extend(["chk-1/_metadata".to_owned(), "chk-4/_metadata".to_owned()]);
    expected.sort();
    assert_eq!(objects(&store), expected);
}

#[test]
fn retained_checkpoints_stay_until_they_are_named_no_more() {
    let store = memory();
    let job = job_over(store.clone());
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    let leader = &mut claim.leadership;
    block_on(complete_next(&job, leader, &[]));
    block_on(complete_next(&job, leader, &[2]));
    block_on(complete_next(&job, leader, &[2, 3]));
    assert!(sweep(&job, &mut claim).checkpoints.is_empty());
    // Also for a leader that has read nothing yet.
    let mut claim = block_on(job.claim(Nonce(2))).unwrap();
    assert!(sweep(&job, &mut claim).checkpoints.is_empty());
    block_on(complete_next(&job, &mut claim.leadership, &[3]));
    assert_eq!(sweep(&job, &mut claim).checkpoints, [2, 4].map(CheckpointId));
    for id in [3, 6] {
        let object = block_on(job.read_decision(CheckpointId(id))).unwrap().unwrap();
        assert_eq!(
            read_all(&job.snapshot(object).unwrap()).unwrap(),
            [format!("state of {id}")]
        );
    }
}

#[test]
fn a_missing_retained_checkpoint_is_a_warning() {
    let store = memory();
    let job = job_over(store.clone());
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    block_on(complete_next(&job, &mut claim.leadership, &[]));
    block_on(complete_next(&job, &mut claim.leadership, &[2]));
    delete_raw(&store, "chk-2/_metadata");
    let mut claim = block_on(job.claim(Nonce(2))).unwrap();
    let report = sweep(&job, &mut claim);
    assert_eq!(
        report.warnings,
        [Warning::RetainedMissing { id: CheckpointId(2) }]
    );
    assert!(report.warnings[0].to_string().contains("checkpoint 2"));
}

#[test]
fn a_pinned_checkpoint_stays_while_it_is_restored() {
    let store = memory();
    let job = job_over(store.clone());
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    block_on(complete_next(&job, &mut claim.leadership, &[]));
    block_on(complete_next(&job, &mut claim.leadership, &[]));
    let mut claim = block_on(job.claim(Nonce(2))).unwrap();
    let object = block_on(job.read_decision(CheckpointId(2))).unwrap().unwrap();
    claim.leadership.pin(&object);
    let pinned = object.clone();
    assert!(sweep(&job, &mut claim).checkpoints.is_empty());
    assert_eq!(read_all(&job.snapshot(object).unwrap()).unwrap(), ["state of 2"]);
    block_on(complete_next(&job, &mut claim.leadership, &[]));
    assert_eq!(sweep(&job, &mut claim).checkpoints, [2, 3].map(CheckpointId));
    // A savepoint's decision, restored from its copy after the one here has gone.
    claim.leadership.pin(&pinned);
    assert_eq!(sweep(&job, &mut claim).warnings, []);
}

/// A checkpoint that is restored from a copy of the directory has an id that is somebody else's here.
#[test]
fn a_pin_from_elsewhere_hides_no_other_leader() {
    let elsewhere = job_over(memory());
    let mut there = block_on(elsewhere.claim(Nonce(5))).unwrap();
    block_on(complete_next(&elsewhere, &mut there.leadership, &[]));
    let pinned = block_on(elsewhere.read_decision(CheckpointId(2)))
        .unwrap()
        .unwrap();
    let job = job_over(memory());
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    claim.leadership.pin(&pinned);
    block_on(job.claim(Nonce(2))).unwrap();
    let view = claim.leadership.view();
    let error = block_on(job.sweep(&mut claim.deletes, &view)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
}

#[test]
fn a_leader_that_was_replaced_deletes_nothing_of_its_successor() {
    let store = memory();
    let job = job_over(store.clone());
    let mut old = block_on(job.claim(Nonce(1))).unwrap();
    block_on(complete_next(&job, &mut old.leadership, &[]));
    let mut new = block_on(job.claim(Nonce(2))).unwrap();
    // Writes for its first checkpoint, not decided yet.
    let name = file_name(4, 0, new.leadership.epoch(), 1);
    block_on(write_one(&job, &name, Place::Checkpoint, "x"));
    block_on(write_one(&job, &name, Place::Shared, "x"));
    let before = objects(&store);
    let view = old.leadership.view();
    let error = block_on(job.sweep(&mut old.deletes, &view)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    assert!(old.leadership.is_fenced(), "the fence is common to both");
    assert_eq!(objects(&store), before);
    block_on(complete_next(&job, &mut new.leadership, &[]));
}

#[test]
fn late_files_of_older_leaders_go_at_the_next_sweep() {
    let store = memory();
    let job = job_over(store.clone());
    let old = block_on(job.claim(Nonce(1))).unwrap();
    let mut new = block_on(job.claim(Nonce(2))).unwrap();
    block_on(complete_next(&job, &mut new.leadership, &[]));
    sweep(&job, &mut new);
    let clean = objects(&store);
    for id in [2, 3, 9] {
        block_on(write_one(
            &job,
            &file_name(id, 0, old.leadership.epoch(), 7),
            Place::Checkpoint,
            "late",
        ));
    }
    assert_eq!(sweep(&job, &mut new).files, 3);
    assert_eq!(objects(&store), clean);
}

#[test]
fn a_file_that_cannot_be_deleted_is_a_warning_and_goes_next_time() {
    let store = memory();
    let faults = FaultStore::new(store.clone(), |_| Fault::None);
    let job = job_over(std::sync::Arc::new(faults.clone()));
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    block_on(complete_next(&job, &mut claim.leadership, &[]));
    block_on(complete_next(&job, &mut claim.leadership, &[]));
    faults.set_plan(
        Script::new()
            .on(OpKind::Delete, "state", 0, Fault::Before(Failure::NotPermitted))
            .plan(),
    );
    let report = sweep(&job, &mut claim);
    assert!(matches!(&report.warnings[..], [Warning::NotDeleted { path, .. }] if path.contains("chk-2/")));
    assert_eq!(report.files, 0);
    assert_eq!(sweep(&job, &mut claim).files, 1);
}

#[test]
fn foreign_files_are_reported_and_left_alone() {
    let store = memory();
    let job = job_over(store.clone());
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    block_on(complete_next(&job, &mut claim.leadership, &[]));
    for path in ["notes.txt", "chk-2/notes.txt", "chk-x/_metadata"] {
        write_raw(&store, path, b"mine".to_vec());
    }
    assert_eq!(
        sweep(&job, &mut claim).unknown,
        ["chk-2/notes.txt", "chk-x/_metadata", "notes.txt"]
    );
    assert_eq!(read_raw(&store, "notes.txt"), b"mine");
}

/// A sweep is slow, and decisions don't wait for it: what is decided meanwhile is neither a stray nor garbage.
#[test]
fn what_completes_while_the_directory_is_listed_is_no_stray() {
    let store = memory();
    let job = job_over(store.clone());
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    let first = block_on(complete_next(&job, &mut claim.leadership, &[]));
    let second = block_on(complete_next(&job, &mut claim.leadership, &[]));
    let view = claim.leadership.view();
    let third = block_on(complete_next(&job, &mut claim.leadership, &[]));
    let report = block_on(job.sweep(&mut claim.deletes, &view)).unwrap();
    assert_eq!(report.warnings, []);
    assert_eq!(report.checkpoints, [first], "it deletes what the view allows");
    let stands = |id: CheckpointId| objects(&store).contains(&format!("chk-{id}/_metadata"));
    assert!(stands(second) && stands(third));
}

#[test]
fn a_complete_checkpoint_where_none_should_be_stops_deletion() {
    let store = memory();
    let job = job_over(store.clone());
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    block_on(complete_next(&job, &mut claim.leadership, &[]));
    block_on(complete_next(&job, &mut claim.leadership, &[]));
    // A person restores a backup of the newest checkpoint over a claim that knew none.
    let newest = read_raw(&store, "chk-3/_metadata");
    let other = memory();
    let other_job = job_over(other.clone());
    for nonce in 1..=4 {
        block_on(other_job.claim(Nonce(nonce))).unwrap();
    }
    write_raw(&other, "chk-3/_metadata", newest);
    let mut claim = block_on(other_job.claim(Nonce(9))).unwrap();
    let before = objects(&other);
    let report = sweep(&other_job, &mut claim);
    assert_eq!(report.warnings, [Warning::Stray { id: CheckpointId(3) }]);
    assert_eq!(objects(&other), before);
}

#[test]
fn what_is_read_once_is_not_read_again() {
    let faults = FaultStore::new(memory(), |_| Fault::None);
    let job = job_over(std::sync::Arc::new(faults.clone()));
    for nonce in 1..20 {
        block_on(job.claim(Nonce(nonce))).unwrap();
    }
    let mut claim = block_on(job.claim(Nonce(20))).unwrap();
    sweep(&job, &mut claim);
    block_on(complete_next(&job, &mut claim.leadership, &[]));
    let before = faults.ops();
    sweep(&job, &mut claim);
    assert_eq!(faults.ops() - before, 1, "one listing");
}

/// What a decision names that could not be deleted stays with it.
#[test]
fn a_decision_that_stays_keeps_its_files() {
    let store = memory();
    let faults = FaultStore::new(store.clone(), |_| Fault::None);
    let job = job_over(std::sync::Arc::new(faults.clone()));
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    let first = block_on(complete_next(&job, &mut claim.leadership, &[]));
    block_on(complete_next(&job, &mut claim.leadership, &[]));
    let path = format!("chk-{first}/_metadata");
    faults.set_plan(
        Script::new()
            .on(OpKind::Delete, &path, 0, Fault::Before(Failure::Unavailable))
            .plan(),
    );
    let report = sweep(&job, &mut claim);
    assert_eq!(
        (report.checkpoints.len(), report.files, report.warnings.len()),
        (0, 0, 1)
    );
    let older = job
        .snapshot(block_on(job.read_decision(first)).unwrap().unwrap())
        .unwrap();
    assert_eq!(read_all(&older).unwrap(), [format!("state of {first}")]);
    let report = sweep(&job, &mut claim);
    assert_eq!((report.checkpoints, report.files), (vec![first], 1));
}
