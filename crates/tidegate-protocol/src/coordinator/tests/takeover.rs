use bytes::Bytes;
use tidegate_types::{CheckpointId, CheckpointKind, OperatorUid};

use super::rig::*;
use crate::coordinator::*;
use crate::message::{FromTask, HeldSplits, ToTask};

/// An earlier leadership completed 5 and had triggered 6 and 7; this one claimed 6.
fn claim() -> Claim {
    Claim {
        newest: Some(NewestComplete {
            id: id(5),
            kind: CheckpointKind::Checkpoint,
        }),
        next_id: id(7),
        ..Claim::default()
    }
}

fn held(after: u64, split: &'static str) -> HeldSplits {
    HeldSplits {
        uid: OperatorUid::new("source-op"),
        after: id(after),
        splits: vec![Bytes::from_static(split.as_bytes())],
    }
}

fn still_running(newest_seen: u64, held: Vec<HeldSplits>) -> FromTask {
    FromTask::StillRunning {
        newest_seen: id(newest_seen),
        held,
    }
}

fn inherited(n: u64) -> FailureRecord {
    failure(n, FailureReason::Takeover, None, "")
}

fn taking_over() -> Rig {
    let mut rig = Rig::starting(every_second(), pair(), StartMode::Takeover);
    assert_eq!(rig.claim(claim()), [send(&rig.all(), ToTask::Reoffer)]);
    rig
}

#[test]
fn running_tasks_say_what_they_hold_and_the_enumerators_are_restored_with_it() {
    let mut rig = taking_over();
    let splits = vec![
        held(4, "in the checkpoint"),
        held(5, "after it"),
        held(6, "after an aborted one"),
    ];
    assert_eq!(
        rig.say(sub(0, 0), still_running(7, splits)),
        [write_aborted(inherited(7))]
    );
    let of = |split: &'static str| ReaderSplits {
        subtask: sub(0, 0),
        uid: OperatorUid::new("source-op"),
        splits: vec![Bytes::from_static(split.as_bytes())],
    };
    let restore = CoordinatorAction::RestoreEnumerators {
        checkpoint: Some(id(5)),
        held: vec![of("after it"), of("after an aborted one")],
    };
    assert_eq!(rig.say(sub(1, 0), still_running(6, vec![])), [restore]);
    assert_eq!(
        rig.after(60_000),
        [],
        "nothing is triggered before the enumerators know"
    );
    let all = rig.all();
    assert_eq!(
        rig.on(CoordinatorEvent::EnumeratorsRestored),
        [completed(&all, 5, 7), aborted(&all, 6, 7), resume(&all, 7)],
        "what the earlier leadership may not have said"
    );
    assert_eq!(
        rig.aborted_stands(7),
        [aborted(&all, 7, 8), resume(&all, 7), delete_files(7)]
    );
    assert_eq!(rig.c.next_timeout(), Some(at(61_000)));
    assert_eq!(
        rig.after(1000),
        [snapshot_enumerators(8)],
        "no id that a task has seen is used again"
    );
    let barrier = tidegate_types::Barrier {
        base: Some(id(5)),
        ..rig.barrier(8)
    };
    assert_eq!(rig.enumerators(8), [trigger(&[sub(0, 0)], barrier)]);
}

#[test]
fn acknowledgements_are_offered_again_and_settled() {
    let mut rig = taking_over();
    rig.say(sub(0, 0), still_running(7, vec![]));
    assert_eq!(
        rig.ack(7, sub(0, 0)),
        [],
        "7 is being aborted; its directory goes when that stands"
    );
    let discard = CoordinatorAction::DiscardSnapshot {
        id: id(6),
        sections: snapshot(id(6), sub(0, 0)).sections,
    };
    assert_eq!(rig.ack(6, sub(0, 0)), [discard, aborted(&[sub(0, 0)], 6, 7)]);
    assert_eq!(
        rig.ack(5, sub(0, 0)),
        [completed(&[sub(0, 0)], 5, 7)],
        "5 is complete: nothing of it goes"
    );
}

#[test]
fn those_that_do_not_answer_are_asked_again() {
    let mut rig = taking_over();
    rig.say(sub(0, 0), still_running(0, vec![]));
    assert_eq!(rig.c.next_timeout(), Some(at(1000)));
    assert_eq!(rig.after(1000), [send(&[sub(1, 0)], ToTask::Reoffer)]);
    assert_eq!(rig.after(1000), [send(&[sub(1, 0)], ToTask::Reoffer)]);
    assert_eq!(
        rig.say(sub(0, 0), still_running(99, vec![held(5, "again")])),
        [],
        "doubled"
    );
    let actions = rig.say(sub(1, 0), still_running(0, vec![]));
    let restore = CoordinatorAction::RestoreEnumerators {
        checkpoint: Some(id(5)),
        held: vec![],
    };
    assert_eq!(actions, [restore]);
}

#[test]
fn only_an_answer_counts_as_running() {
    let mut rig = Rig::starting(every_second(), pair(), StartMode::Takeover);
    rig.say(sub(0, 0), FromTask::Running);
    rig.wait(sub(1, 0));
    assert_eq!(
        rig.claim(claim()),
        [send(&rig.all(), ToTask::Reoffer)],
        "its splits aren't known"
    );
    rig.say(sub(0, 0), FromTask::Running);
    assert_eq!(rig.after(1000), [send(&rig.all(), ToTask::Reoffer)]);
}

#[test]
fn finished_subtasks_are_offered_again_by_whoever_keeps_their_state() {
    let mut rig = Rig::starting(every_second(), pair(), StartMode::Takeover);
    rig.finish_having_seen(sub(0, 0), 8);
    assert_eq!(
        rig.claim(claim()),
        [send(&rig.all(), ToTask::Reoffer)],
        "also when it was offered before the claim"
    );
    assert_eq!(
        rig.finish_having_seen(sub(0, 0), 8),
        [write_aborted(inherited(7))]
    );
    rig.aborted_stands(7);
    rig.aborted_stands(8);
    let actions = rig.say(sub(1, 0), still_running(5, vec![]));
    assert!(matches!(
        actions[..],
        [CoordinatorAction::RestoreEnumerators { .. }]
    ));
    rig.on(CoordinatorEvent::EnumeratorsRestored);
    assert_eq!(
        rig.wait(sub(1, 0)),
        [snapshot_enumerators(9)],
        "its barriers may still be in its channels"
    );
    assert_eq!(rig.enumerators(9).len(), 1);
    let actions = rig.ack(9, sub(1, 0));
    assert!(matches!(actions[..], [CoordinatorAction::WriteDecision { .. }]));
}

#[test]
fn the_old_leader_that_wakes_can_neither_complete_nor_commit() {
    // 1 is acknowledged by all but one when this leader stalls; its successor claims 1 and deletes its files.
    let mut old = Rig::collecting(every_second(), pair());
    old.ack(1, sub(0, 0));
    let actions = old.ack(1, sub(1, 0));
    assert!(
        matches!(actions[..], [CoordinatorAction::WriteDecision { .. }]),
        "it knows no better"
    );
    assert_eq!(
        old.decided(1, DecisionOutcome::Foreign),
        [CoordinatorAction::StepDown { id: id(1) }]
    );
    for event in [
        CoordinatorEvent::Timeout,
        CoordinatorEvent::Committed { id: id(1) },
    ] {
        assert_eq!(old.on(event), []);
    }
    assert_eq!(old.after(1_000_000), []);
}

#[test]
fn ids_of_an_earlier_attempt_are_aborted_before_any_other_and_never_used_again() {
    let mut rig = Rig::new(every_second(), pair());
    let claim = Claim {
        highest_used: Some(id(8)),
        ..claim()
    };
    assert_eq!(rig.claim(claim), [write_aborted(inherited(7))]);
    assert_eq!(
        rig.aborted_stands(7),
        [
            aborted(&rig.all(), 7, 8),
            delete_files(7),
            write_aborted(inherited(8))
        ]
    );
    for subtask in rig.all() {
        rig.say(subtask, FromTask::Running);
    }
    assert_eq!(rig.after(1000), [snapshot_enumerators(9)]);
    assert_eq!(rig.c.history().counts().total, 1, "they aren't this attempt's");
}

#[test]
fn nonsense_about_used_ids_fails_the_job_instead_of_writing_forever() {
    let mut rig = taking_over();
    let actions = rig.say(sub(0, 0), still_running(u64::MAX, vec![]));
    let [CoordinatorAction::FailJob(record)] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(
        (record.reason, record.subtask),
        (FailureReason::Takeover, Some(sub(0, 0)))
    );
}

#[test]
fn what_backends_may_build_on_depends_on_what_they_were_restored_from() {
    let from = |n, is_savepoint| {
        Some(RestoredFrom {
            id: CheckpointId(n),
            is_savepoint,
            path: None,
        })
    };
    let savepoint = CheckpointKind::Savepoint {
        format: tidegate_types::SavepointFormat::Native,
        stop: true,
    };
    let cases = [
        (
            CheckpointKind::Checkpoint,
            from(5, false),
            Some(id(5)),
            "the newest",
        ),
        (
            CheckpointKind::Checkpoint,
            from(4, false),
            None,
            "an older one: a new lineage",
        ),
        (CheckpointKind::Checkpoint, None, None, "nothing"),
        (savepoint, from(5, true), None, "a savepoint"),
    ];
    for (kind, restored, base, what) in cases {
        let mut rig = Rig::new(every_second(), pair());
        let newest = Some(NewestComplete { id: id(5), kind });
        rig.claim(Claim {
            newest,
            restored,
            retained: vec![id(4)],
            ..claim()
        });
        for subtask in rig.all() {
            rig.say(subtask, FromTask::Running);
        }
        rig.after(1000);
        let barrier = tidegate_types::Barrier {
            base,
            ..rig.barrier(7)
        };
        assert_eq!(rig.enumerators(7), [trigger(&[sub(0, 0)], barrier)], "{what}");
    }
}

#[test]
fn a_first_leadership_has_nothing_to_say_at_a_takeover() {
    let mut rig = Rig::starting(every_second(), pair(), StartMode::Takeover);
    rig.claim(Claim {
        next_id: id(1),
        ..Claim::default()
    });
    rig.say(sub(0, 0), still_running(0, vec![held(0, "latest")]));
    let actions = rig.say(sub(1, 0), still_running(0, vec![]));
    let [
        CoordinatorAction::RestoreEnumerators {
            checkpoint: None,
            held,
        },
    ] = &actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(
        held.len(),
        1,
        "a reader's splits are its own even if nothing was ever complete"
    );
    assert_eq!(rig.on(CoordinatorEvent::EnumeratorsRestored), []);
}

#[test]
fn a_claim_that_comes_after_the_end_changes_nothing() {
    let mut rig = Rig::new(every_second(), pair());
    rig.on(CoordinatorEvent::Stop {
        discard_retained: false,
    });
    assert_eq!(rig.claim(claim()), []);
    assert!(rig.c.is_drained());
}
