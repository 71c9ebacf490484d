//! Deciding, claiming and being fenced, step by step.

use std::sync::Arc;

use tidegate_storage::fault::{Failure, Fault, FaultStore, OpKind, Script};
use tidegate_storage::*;
use tidegate_types::*;

use crate::common::*;

fn claim(job: &JobStore, nonce: u64) -> Claim {
    block_on(job.claim(Nonce(nonce))).unwrap()
}

fn newest_id(claim: &Claim) -> Option<CheckpointId> {
    match &claim.newest {
        Newest::None => None,
        Newest::Complete(object) => Some(object.header.id),
        Newest::Unreadable { error, .. } => panic!("{error}"),
    }
}

#[test]
fn ids_go_on_over_leaders_and_epochs_are_the_claimed_ids() {
    let job = job_over(memory());
    let mut first = claim(&job, 1);
    assert_eq!(
        (first.leadership.epoch(), first.leadership.next_id()),
        (LeaderEpoch(1), CheckpointId(2))
    );
    assert_eq!(newest_id(&first), None);
    block_on(complete_next(&job, &mut first.leadership, &[]));
    block_on(job.decide(&mut first.leadership, CheckpointId(3), failed())).unwrap();
    let mut second = claim(&job, 2);
    assert_eq!(
        (second.leadership.epoch(), second.leadership.next_id()),
        (LeaderEpoch(4), CheckpointId(5))
    );
    assert_eq!(newest_id(&second), Some(CheckpointId(2)));
    assert_eq!(second.leadership.newest_complete(), Some(CheckpointId(2)));
    block_on(complete_next(&job, &mut second.leadership, &[2]));
    let third = claim(&job, 3);
    assert_eq!(
        (third.leadership.epoch(), newest_id(&third)),
        (LeaderEpoch(6), Some(CheckpointId(5)))
    );
}

#[test]
fn a_fenced_leader_learns_who_decided_and_can_do_nothing_any_more() {
    let store = memory();
    let job = job_over(store.clone());
    let mut old = claim(&job, 1);
    let new = claim(&job, 2);
    let before = objects(&store);
    let outcome = block_on(job.decide(
        &mut old.leadership,
        CheckpointId(2),
        complete(checkpoint(vec![], &[])),
    ))
    .unwrap();
    let Outcome::Other(object) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(object.header.epoch, new.leadership.epoch());
    assert!(old.leadership.is_fenced() && !new.leadership.is_fenced());
    let error = block_on(job.decide(&mut old.leadership, CheckpointId(2), failed())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    assert!(error.to_string().contains("epoch 2"), "{error}");
    let view = old.leadership.view();
    assert_eq!(
        block_on(job.sweep(&mut old.deletes, &view)).unwrap_err().kind(),
        ErrorKind::Fenced
    );
    let metadata = &mut savepoint(vec![], &[]);
    let target = StoreDir::create("memory:///target").unwrap();
    let error = block_on(job.write_savepoint(&old.leadership, CheckpointId(2), &target, Nonce(5), metadata));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(objects(&store), before);
}

#[test]
fn a_leader_that_looks_learns_that_it_was_overtaken_but_not_by_its_own_claims() {
    let job = job_over(memory());
    let mut old = claim(&job, 1);
    assert_eq!(block_on(job.overtaken(&mut old.leadership, &[])).unwrap(), None);
    block_on(complete_next(&job, &mut old.leadership, &[]));
    assert_eq!(block_on(job.overtaken(&mut old.leadership, &[])).unwrap(), None);
    let _new = claim(&job, 2);
    // A claim whose outcome this process never learned.
    let own = [Nonce(7), Nonce(2)];
    assert_eq!(block_on(job.overtaken(&mut old.leadership, &own)).unwrap(), None);
    assert!(!old.leadership.is_fenced());
    let by = block_on(job.overtaken(&mut old.leadership, &own[..1])).unwrap();
    assert_eq!(by, Some(CheckpointId(3)));
    assert!(old.leadership.is_fenced(), "looking is enough to be fenced");
}

#[test]
fn ids_are_decided_in_order_and_never_by_a_claim() {
    let job = job_over(memory());
    let mut leader = claim(&job, 1);
    for id in [1, 3] {
        let error = block_on(job.decide(&mut leader.leadership, CheckpointId(id), failed())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Bug);
    }
    let claims = Decision::Aborted(AbortCause::Claim);
    assert_eq!(
        block_on(job.decide(&mut leader.leadership, CheckpointId(2), claims))
            .unwrap_err()
            .kind(),
        ErrorKind::Bug
    );
    let other = CheckpointStore::over(memory(), "m")
        .job(&JobId::from("other"))
        .unwrap();
    let error = block_on(other.decide(&mut leader.leadership, CheckpointId(2), failed())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Bug);
    assert_eq!(
        block_on(job.decide(&mut leader.leadership, CheckpointId(2), failed())).unwrap(),
        Outcome::Mine
    );
}

/// Every combination of what can happen to the write and to reading it back, up to the limit of tries.
#[test]
fn an_unclear_write_is_settled_by_reading_and_otherwise_reported_as_undecided() {
    let fails = [
        Fault::None,
        Fault::Before(Failure::Unavailable),
        Fault::After(Failure::Unavailable),
    ];
    for first in &fails {
        for second in &fails {
            for reads_fail in 0..3 {
                let store = memory();
                let mut script = Script::new().on(OpKind::Put, "chk-2", 0, first.clone()).on(
                    OpKind::Put,
                    "chk-2",
                    0,
                    second.clone(),
                );
                for _ in 0..reads_fail {
                    script = script.on(OpKind::Get, "chk-2", 0, Fault::Before(Failure::Unavailable));
                }
                let faults = FaultStore::new(store.clone(), |_| Fault::None);
                let job = job_over(Arc::new(faults.clone()));
                let mut leader = claim(&job, 1);
                faults.set_plan(script.plan());
                let decided = block_on(job.decide(&mut leader.leadership, CheckpointId(2), failed()));
                assert_eq!(
                    decided.unwrap(),
                    Outcome::Mine,
                    "{first:?} {second:?} {reads_fail}"
                );
                assert_eq!(leader.leadership.next_id(), CheckpointId(3));
            }
        }
    }
}

#[test]
fn an_undetermined_decision_is_asked_for_again_and_may_turn_out_otherwise() {
    let store = memory();
    let faults = FaultStore::new(store.clone(), |_| Fault::None);
    let job = job_over(Arc::new(faults.clone()));
    let mut leader = claim(&job, 1);
    // The write arrives, and nothing that is said about it does.
    faults.set_plan(|op| match op.kind {
        OpKind::Put => Fault::After(Failure::Unavailable),
        _ => Fault::Before(Failure::Unavailable),
    });
    let id = CheckpointId(2);
    let error =
        block_on(job.decide(&mut leader.leadership, id, complete(checkpoint(vec![], &[])))).unwrap_err();
    assert!(matches!(error.problem(), Problem::Undetermined { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert_eq!(
        leader.leadership.next_id(),
        id,
        "undecided as far as the leader knows"
    );
    faults.set_plan(|_| Fault::None);
    // The coordinator gave it up meanwhile; but it is complete, and that counts.
    let outcome = block_on(job.decide(&mut leader.leadership, id, failed())).unwrap();
    assert!(matches!(outcome, Outcome::MineEarlier(object) if object.complete().is_some()));
    assert_eq!(leader.leadership.newest_complete(), Some(id));
    assert_eq!(leader.leadership.next_id(), CheckpointId(3));
}

#[test]
fn a_full_disk_leaves_the_checkpoint_undecided_and_the_job_going() {
    let store = memory();
    let faults = FaultStore::new(store.clone(), |_| Fault::None);
    let job = job_over(Arc::new(faults.clone()));
    let mut leader = claim(&job, 1);
    faults.set_plan(|op| {
        if op.kind == OpKind::Put {
            Fault::Before(Failure::DiskFull)
        } else {
            Fault::None
        }
    });
    let error = block_on(job.decide(
        &mut leader.leadership,
        CheckpointId(2),
        complete(checkpoint(vec![], &[])),
    ));
    let error = error.unwrap_err();
    assert!(matches!(error.problem(), Problem::DiskFull { .. }), "{error}");
    assert!(
        error.to_string().contains("chk-2/_metadata") && error.to_string().contains("Free space"),
        "{error}"
    );
    faults.set_plan(|_| Fault::None);
    let outcome = block_on(job.decide(
        &mut leader.leadership,
        CheckpointId(2),
        complete(checkpoint(vec![], &[])),
    ));
    assert_eq!(outcome.unwrap(), Outcome::Mine);
}

#[test]
fn a_damaged_newest_checkpoint_stops_latest_but_not_a_named_one() {
    for damage in [b"garbage".to_vec(), Vec::new()] {
        let store = memory();
        let job = job_over(store.clone());
        let mut leader = claim(&job, 1);
        block_on(complete_next(&job, &mut leader.leadership, &[]));
        block_on(complete_next(&job, &mut leader.leadership, &[2]));
        write_raw(&store, "chk-3/_metadata", damage);
        // Also after more claims on top of it.
        for nonce in 2..4 {
            let mut claim = claim(&job, nonce);
            let Newest::Unreadable { id, error } = &claim.newest else {
                panic!("{:?}", claim.newest)
            };
            assert_eq!((*id, error.kind()), (CheckpointId(3), ErrorKind::Corrupted));
            assert!(error.to_string().contains("chk-3/_metadata"), "{error}");
            let before = objects(&store);
            let view = claim.leadership.view();
            let report = block_on(job.sweep(&mut claim.deletes, &view)).unwrap();
            assert!(matches!(report.warnings[..], [Warning::Unreadable { .. }]));
            assert_eq!(
                objects(&store),
                before,
                "nothing is deleted over what can't be read"
            );
        }
        let named = block_on(snapshot_at(job.dir().child("chk-2"))).unwrap();
        assert_eq!(read_all(&named).unwrap(), ["state of 2"]);
    }
}

#[test]
fn a_deleted_newest_checkpoint_is_missed_not_silently_skipped() {
    let store = memory();
    let job = job_over(store.clone());
    let mut leader = claim(&job, 1);
    block_on(complete_next(&job, &mut leader.leadership, &[]));
    block_on(complete_next(&job, &mut leader.leadership, &[2]));
    block_on(job.decide(&mut leader.leadership, CheckpointId(4), failed())).unwrap();
    delete_raw(&store, "chk-3/_metadata");
    let next = claim(&job, 2);
    let Newest::Unreadable { id, error } = next.newest else {
        panic!("{:?}", next.newest)
    };
    assert!(id == CheckpointId(3) && error.is_not_there(), "{error}");
}

#[test]
fn a_claim_refuses_another_jobs_directory_and_a_newer_programs() {
    let store = memory();
    let job = job_over(store.clone());
    let other = CheckpointStore::over(store.clone(), "memory:///")
        .job(&JobId::from("other"))
        .unwrap();
    claim(&other, 1);
    let copied = block_on(async {
        use object_store::ObjectStoreExt;
        store
            .get(&object_store::path::Path::from("other/chk-1/_metadata"))
            .await
            .unwrap()
            .bytes()
            .await
            .unwrap()
    });
    write_raw(&store, "chk-1/_metadata", copied.to_vec());
    let error = block_on(job.claim(Nonce(2))).unwrap_err();
    assert!(matches!(error.problem(), Problem::OtherJob { .. }), "{error}");
    assert!(error.to_string().contains("\"other\""), "{error}");
}

#[test]
fn closing_gives_everything_up_and_ids_go_on() {
    let store = memory();
    let job = job_over(store.clone());
    let mut leader = claim(&job, 1);
    block_on(complete_next(&job, &mut leader.leadership, &[]));
    block_on(complete_next(&job, &mut leader.leadership, &[2]));
    assert_eq!(
        block_on(job.close(&mut leader.leadership)).unwrap(),
        Outcome::Mine
    );
    let error = block_on(job.decide(&mut leader.leadership, CheckpointId(5), failed())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Bug);
    let view = leader.leadership.view();
    let report = block_on(job.sweep(&mut leader.deletes, &view)).unwrap();
    assert_eq!(report.checkpoints, [2, 3].map(CheckpointId));
    assert_eq!(objects(&store), ["chk-1/_metadata", "chk-4/_metadata"]);
    let mut next = claim(&job, 2);
    assert_eq!(
        (newest_id(&next), next.leadership.epoch()),
        (None, LeaderEpoch(5))
    );
    block_on(complete_next(&job, &mut next.leadership, &[]));
    assert_eq!(newest_id(&claim(&job, 3)), Some(CheckpointId(6)));
}

#[test]
fn a_closing_whose_deletions_were_cut_short_is_finished_by_the_next_leader() {
    let store = memory();
    let job = job_over(store.clone());
    let mut leader = claim(&job, 1);
    block_on(complete_next(&job, &mut leader.leadership, &[]));
    block_on(job.close(&mut leader.leadership)).unwrap();
    let mut next = claim(&job, 2);
    assert_eq!(newest_id(&next), None);
    let view = next.leadership.view();
    let report = block_on(job.sweep(&mut next.deletes, &view)).unwrap();
    assert_eq!(
        (report.checkpoints, report.warnings),
        (vec![CheckpointId(2)], vec![])
    );
    assert_eq!(
        objects(&store),
        ["chk-1/_metadata", "chk-3/_metadata", "chk-4/_metadata"]
    );
}

/// C17: the old coordinator has all acknowledgements of n when it falls asleep; its successor aborts n and deletes
/// its files. Awake again it can neither complete n nor anything after it, so there is nothing that it may commit.
#[test]
fn a_leader_that_wakes_after_its_checkpoint_was_aborted_and_deleted_cannot_complete_it() {
    let store = memory();
    let job = job_over(store.clone());
    let mut old = claim(&job, 1);
    block_on(complete_next(&job, &mut old.leadership, &[]));
    let n = old.leadership.next_id();
    let acknowledged = block_on(write_one(
        &job,
        &file_name(n.0, 0, old.leadership.epoch(), 5),
        Place::Checkpoint,
        "n",
    ));

    let mut new = claim(&job, 2);
    let view = new.leadership.view();
    assert_eq!(block_on(job.sweep(&mut new.deletes, &view)).unwrap().files, 1);
    assert_eq!(newest_id(&new), Some(CheckpointId(2)));

    let decision = complete(checkpoint(vec![acknowledged], &[2]));
    let outcome = block_on(job.decide(&mut old.leadership, n, decision.clone())).unwrap();
    let Outcome::Other(standing) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(standing.complete().is_none() && standing.header.id == n);
    for id in [n, n.next()] {
        let error = block_on(job.decide(&mut old.leadership, id, decision.clone())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced);
    }
    assert_eq!(
        block_on(job.close(&mut old.leadership)).unwrap_err().kind(),
        ErrorKind::Fenced
    );
    let id = block_on(complete_next(&job, &mut new.leadership, &[2]));
    assert_eq!(id, n.next(), "the successor goes on");
}
