use tidegate_types::{CheckpointId, CheckpointKind, SavepointFormat};

use super::rig::*;
use crate::coordinator::*;
use crate::message::DeclineReason;

fn kind() -> CheckpointKind {
    CheckpointKind::Savepoint {
        format: SavepointFormat::Canonical,
        stop: false,
    }
}

fn copied(rig: &mut Rig, n: u64) -> Vec<CoordinatorAction> {
    rig.on(CoordinatorEvent::SavepointCopied {
        id: id(n),
        path: "/save/sp-1".to_owned(),
    })
}

/// Savepoint 1, asked for by request 1, collects.
fn collecting() -> Rig {
    let mut rig = Rig::running(every_second(), pair());
    assert_eq!(
        rig.request(1, Request::Savepoint(order())),
        [snapshot_enumerators(1)],
        "at once"
    );
    rig.enumerators(1);
    rig
}

#[test]
fn copied_then_decided_then_answered() {
    let mut rig = collecting();
    let content = CheckpointContent {
        kind: kind(),
        ..rig.content(1)
    };
    let copy = CoordinatorAction::CopySavepoint {
        id: id(1),
        order: order(),
        content: Box::new(content.clone()),
    };
    assert_eq!(rig.ack_all(1), [copy]);
    let content = CheckpointContent {
        savepoint: Some("/save/sp-1".to_owned()),
        ..content
    };
    assert_eq!(copied(&mut rig, 1), [write_complete(content)]);
    let all = rig.all();
    assert_eq!(
        rig.complete_stands(1),
        [
            commit(1),
            completed(&all, 1, 2),
            answer(1, done(1, Some("/save/sp-1")))
        ]
    );
    assert_eq!(
        rig.c
            .history()
            .latest_savepoint()
            .and_then(|stats| stats.path.as_deref()),
        Some("/save/sp-1")
    );
    assert_eq!(rig.c.history().latest_completed(), None);
}

#[test]
fn a_failed_copy_answers_and_leaves_nothing() {
    let mut rig = collecting();
    rig.ack_all(1);
    let failed_copy = CoordinatorEvent::SavepointCopyFailed {
        id: id(1),
        error: "no space".to_owned(),
    };
    let record = FailureRecord {
        counted: false,
        ..failure(1, FailureReason::SavepointCopyFailed, None, "no space")
    };
    assert_eq!(
        rig.on(failed_copy),
        [answer(1, failed(record.clone())), write_aborted(record)]
    );
    let discard = CoordinatorAction::DiscardSavepoint { id: id(1) };
    assert_eq!(
        rig.aborted_stands(1),
        [aborted(&rig.all(), 1, 2), delete_files(1), discard]
    );
    assert_eq!(copied(&mut rig, 1), [], "late");
}

#[test]
fn a_savepoint_that_expires_while_it_is_copied_is_discarded_once_aborted_stands() {
    let mut rig = Rig::running(
        CoordinatorSettings {
            timeout: ms(100),
            ..every_second()
        },
        pair(),
    );
    rig.request(1, Request::Savepoint(order()));
    rig.enumerators(1);
    rig.ack_all(1);
    assert_eq!(rig.after(100).len(), 2);
    assert_eq!(copied(&mut rig, 1), [], "too late");
    assert_eq!(
        rig.aborted_stands(1).last(),
        Some(&CoordinatorAction::DiscardSavepoint { id: id(1) })
    );
}

#[test]
fn what_a_person_asked_for_does_not_count_against_the_job() {
    let mut rig = collecting();
    let actions = rig.decline(1, sub(0, 0), DeclineReason::AsyncFailed);
    let record = FailureRecord {
        counted: false,
        ..failure(1, FailureReason::AsyncFailed, Some(sub(0, 0)), "because")
    };
    assert_eq!(
        actions,
        [answer(1, failed(record.clone())), write_aborted(record)],
        "with tolerance 0"
    );
}

#[test]
fn a_failed_decision_is_answered_only_when_it_is_certain() {
    let mut rig = collecting();
    rig.ack_all(1);
    copied(&mut rig, 1);
    let record = FailureRecord {
        counted: false,
        ..failure(1, FailureReason::MetadataWriteFailed, None, "disk full")
    };
    assert_eq!(rig.write_fails(1), [write_aborted(record.clone())]);
    let mut twin = Rig {
        c: rig.c.clone(),
        now: rig.now,
    };
    let actions = rig.aborted_stands(1);
    assert_eq!(actions.last(), Some(&answer(1, failed(record))));
    let actions = twin.complete_stands(1);
    assert_eq!(
        actions.last(),
        Some(&answer(1, done(1, Some("/save/sp-1")))),
        "the write had succeeded"
    );
}

#[test]
fn it_starts_beside_a_pending_checkpoint_and_subsumes_it_when_it_is_ready_first() {
    let mut rig = Rig::collecting(every_second(), pair());
    assert_eq!(
        rig.request(1, Request::Savepoint(order())),
        [snapshot_enumerators(2)]
    );
    rig.enumerators(2);
    rig.ack_all(2);
    assert!(matches!(
        copied(&mut rig, 2)[..],
        [CoordinatorAction::WriteDecision {
            id: CheckpointId(1),
            ..
        }]
    ));
}

#[test]
fn a_checkpoint_that_is_ready_first_waits_for_it() {
    let mut rig = Rig::running(
        CoordinatorSettings {
            max_concurrent: 2,
            ..every_second()
        },
        pair(),
    );
    rig.request(1, Request::Savepoint(order()));
    rig.enumerators(1);
    rig.after(1000);
    rig.enumerators(2);
    assert_eq!(
        rig.ack_all(2),
        [],
        "nobody does away with what a person asked for"
    );
    rig.ack_all(1);
    assert_eq!(copied(&mut rig, 1).len(), 1);
    rig.complete_stands(1);
    assert!(matches!(
        rig.committed(1)[..],
        [CoordinatorAction::WriteDecision {
            id: CheckpointId(2),
            ..
        }]
    ));
}

#[test]
fn a_checkpoint_that_waits_for_a_stuck_savepoint_outlives_it() {
    let settings = CoordinatorSettings {
        max_concurrent: 2,
        timeout: ms(2000),
        ..every_second()
    };
    let mut rig = Rig::running(settings, pair());
    rig.request(1, Request::Savepoint(order()));
    rig.enumerators(1);
    rig.request(2, Request::Checkpoint { full: false });
    rig.enumerators(2);
    rig.after(1000);
    rig.ack_all(2);
    let actions = rig.after(1000);
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, CoordinatorAction::WriteDecision { .. }))
    );
    let actions = rig.aborted_stands(1);
    assert!(
        matches!(
            actions.last(),
            Some(CoordinatorAction::WriteDecision {
                id: CheckpointId(2),
                ..
            })
        ),
        "{actions:?}"
    );
}
