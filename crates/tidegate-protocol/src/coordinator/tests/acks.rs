use tidegate_types::snapshot::SectionKind;
use tidegate_types::{AttemptNumber, JobId, LeaderEpoch};

use super::rig::*;
use crate::coordinator::*;
use crate::message::{DeclineReason, Envelope, FromTask};

#[test]
fn the_last_acknowledgement_has_the_decision_written() {
    let mut rig = Rig::collecting(every_second(), line());
    let content = rig.content(1);
    assert_eq!(rig.ack_all(1), [write_complete(content)]);
    assert_eq!(rig.after(700_000), [], "what is being written doesn't expire");
}

#[test]
fn doubled_acknowledgements_change_nothing() {
    let mut rig = Rig::collecting(every_second(), pair());
    rig.ack(1, sub(0, 0));
    let before = rig.c.undecided.clone();
    assert_eq!(rig.ack(1, sub(0, 0)), []);
    assert_eq!(rig.c.undecided, before);
}

#[test]
fn messages_of_others_are_ignored() {
    let mut rig = Rig::collecting(every_second(), pair());
    rig.ack(1, sub(0, 0));
    let snapshot = snapshot(id(1), sub(1, 0));
    let body = FromTask::Acknowledged {
        id: id(1),
        snapshot: snapshot.clone(),
        stats: Default::default(),
    };
    let good = rig.envelope(sub(1, 0), body);
    let others = [
        Envelope {
            job: JobId::from("other"),
            ..good.clone()
        },
        Envelope {
            attempt: AttemptNumber(1),
            ..good.clone()
        },
        Envelope {
            epoch: LeaderEpoch(6),
            ..good.clone()
        },
        Envelope {
            epoch: LeaderEpoch(8),
            ..good.clone()
        },
        Envelope {
            subtask: sub(1, 1),
            ..good.clone()
        },
        Envelope {
            subtask: sub(5, 0),
            ..good.clone()
        },
        Envelope {
            subtask: sub(0, 0),
            ..good.clone()
        },
    ];
    for envelope in others {
        assert_eq!(
            rig.on(CoordinatorEvent::FromTask(envelope.clone())),
            [],
            "{envelope:?}"
        );
    }
    assert_eq!(
        rig.on(CoordinatorEvent::FromTask(good)).len(),
        1,
        "the real one completes it"
    );
}

#[test]
fn an_acknowledgement_of_something_never_triggered_is_ignored() {
    let mut rig = Rig::running(every_second(), pair());
    assert_eq!(rig.ack(9, sub(0, 0)), []);
    rig.after(1000);
    assert_eq!(rig.ack(1, sub(0, 0)), [], "not even its trigger has left");
    assert_eq!(rig.enumerators(1).len(), 1);
}

#[test]
fn a_late_acknowledgement_of_an_aborted_one_has_its_files_deleted() {
    let mut rig = Rig::collecting(every_second(), pair());
    rig.decline(1, sub(0, 0), DeclineReason::NotReady);
    assert_eq!(
        rig.ack(1, sub(1, 0)),
        [],
        "not before `aborted` stands: the directory's clearing covers it"
    );
    rig.aborted_stands(1);
    let late = snapshot(id(1), sub(1, 0));
    let discard = CoordinatorAction::DiscardSnapshot {
        id: id(1),
        sections: late.sections,
    };
    assert_eq!(rig.ack(1, sub(1, 0)), [discard, aborted(&[sub(1, 0)], 1, 2)]);
}

#[test]
fn a_repeated_acknowledgement_of_a_complete_one_is_told_so_and_nothing_is_deleted() {
    let mut rig = Rig::running(every_second(), pair());
    rig.take(1);
    assert_eq!(rig.ack(1, sub(1, 0)), [completed(&[sub(1, 0)], 1, 2)]);
}

#[test]
fn late_enumerator_state_of_an_aborted_one_is_deleted_if_it_is_a_file() {
    let mut rig = Rig::running(
        CoordinatorSettings {
            timeout: ms(10),
            ..every_second()
        },
        pair(),
    );
    rig.after(1000);
    let actions = rig.after(10);
    let record = failure(
        1,
        FailureReason::Expired,
        None,
        "the split enumerators have not answered",
    );
    let fail_job = CoordinatorAction::FailJob(Box::new(record.clone()));
    assert_eq!(actions, [fail_job, write_aborted(record)]);
    rig.aborted_stands(1);
    let sections = vec![inline(), section("chk-1/e", SectionKind::Enumerator)];
    let discard = CoordinatorAction::DiscardSnapshot {
        id: id(1),
        sections: vec![sections[1].clone()],
    };
    assert_eq!(
        rig.on(CoordinatorEvent::EnumeratorsSnapshotted { id: id(1), sections }),
        [discard]
    );
}

#[test]
fn committables_of_all_subtasks_are_handed_to_the_committers() {
    let mut rig = Rig::collecting(every_second(), pair());
    rig.ack(1, sub(0, 0));
    let mut sink = snapshot(id(1), sub(1, 0));
    let committable = section("chk-1/c", SectionKind::Committables);
    sink.sections.push(committable.clone());
    rig.ack_with(1, sink);
    let actions = rig.complete_stands(1);
    assert_eq!(
        actions[0],
        CoordinatorAction::Commit {
            id: id(1),
            committables: vec![committable]
        }
    );
}
