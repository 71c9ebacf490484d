use tidegate_types::{Barrier, SnapshotMode};

use super::rig::*;
use crate::coordinator::*;
use crate::message::{DeclineReason, FromTask};

fn quiesce() -> CoordinatorSettings {
    CoordinatorSettings {
        mode: SnapshotMode::Quiesce { limit: ms(30_000) },
        tolerable_failures: 9,
        max_concurrent: 2,
        ..every_second()
    }
}

#[test]
fn all_acknowledge_then_the_external_phase_then_all_go_on() {
    let mut rig = Rig::running(quiesce(), pair());
    rig.after(1000);
    let barrier = Barrier {
        mode: SnapshotMode::Quiesce { limit: ms(30_000) },
        ..rig.barrier(1)
    };
    assert_eq!(rig.enumerators(1), [trigger(&[sub(0, 0)], barrier)]);
    assert_eq!(rig.ack_all(1), [CoordinatorAction::ExternalPhase { id: id(1) }]);
    let content = CheckpointContent {
        mode: SnapshotMode::Quiesce { limit: ms(30_000) },
        external: vec![inline()],
        ..rig.content(1)
    };
    let finished = CoordinatorEvent::ExternalPhaseDone {
        id: id(1),
        sections: vec![inline()],
    };
    assert_eq!(rig.on(finished), [resume(&rig.all(), 1), write_complete(content)]);
}

#[test]
fn a_failed_external_phase_fails_it_and_all_go_on() {
    let mut rig = Rig::collecting(quiesce(), pair());
    rig.ack_all(1);
    let record = failure(1, FailureReason::ExternalPhaseFailed, None, "no answer");
    let event = CoordinatorEvent::ExternalPhaseFailed {
        id: id(1),
        error: "no answer".to_owned(),
    };
    assert_eq!(rig.on(event), [resume(&rig.all(), 1), write_aborted(record)]);
    let late = CoordinatorEvent::ExternalPhaseDone {
        id: id(1),
        sections: vec![],
    };
    assert_eq!(rig.on(late), []);
}

#[test]
fn at_the_limit_the_subtask_that_says_which_channel_is_missing_is_named() {
    let mut rig = Rig::collecting(quiesce(), pair());
    rig.after(1000);
    rig.now = rig.now + ms(29_000);
    let detail = "no barrier from sum/3 on input 0".to_owned();
    let body = FromTask::Declined {
        id: id(1),
        reason: DeclineReason::QuiesceLimit,
        detail: detail.clone(),
    };
    let record = failure(1, FailureReason::QuiesceLimit, Some(sub(1, 0)), &detail);
    let actions = rig.say(sub(1, 0), body);
    assert_eq!(
        actions,
        [
            resume(&rig.all(), 1),
            snapshot_enumerators(2),
            write_aborted(record)
        ]
    );
}

#[test]
fn if_nobody_says_so_the_coordinator_names_who_did_not_answer() {
    let mut rig = Rig::collecting(quiesce(), pair());
    assert_eq!(rig.c.next_timeout(), Some(at(2000)), "the next periodic trigger");
    rig.after(1000);
    assert_eq!(
        rig.c.held(),
        Some(Hold::Exclusive),
        "whatever max-concurrent-checkpoints says"
    );
    rig.ack(1, sub(0, 0));
    assert_eq!(
        rig.c.next_timeout(),
        Some(at(31_500)),
        "a little later than the subtasks themselves"
    );
    let actions = rig.after(29_500);
    let record = failure(
        1,
        FailureReason::QuiesceLimit,
        Some(sub(1, 0)),
        "no acknowledgement from v1/0 (sink/0)",
    );
    assert_eq!(
        actions,
        [
            resume(&rig.all(), 1),
            snapshot_enumerators(2),
            write_aborted(record)
        ]
    );
}

#[test]
fn the_limit_bounds_the_external_phase_but_not_the_decision() {
    let mut rig = Rig::collecting(quiesce(), pair());
    rig.ack_all(1);
    let mut twin = Rig {
        c: rig.c.clone(),
        now: rig.now,
    };
    assert_eq!(twin.after(30_500)[0], resume(&twin.all(), 1));
    rig.on(CoordinatorEvent::ExternalPhaseDone {
        id: id(1),
        sections: vec![],
    });
    assert_eq!(rig.after(30_500), []);
    assert!(rig.complete_stands(1).contains(&commit(1)));
}

#[test]
fn a_checkpoint_has_the_job_to_itself() {
    let mut rig = Rig::collecting(quiesce(), pair());
    assert_eq!(
        rig.request(1, Request::Savepoint(order())),
        [],
        "savepoints wait too"
    );
    rig.finish(sub(0, 0));
    assert_eq!(rig.wait(sub(1, 0)), [], "and the last one");
    rig.ack(1, sub(1, 0));
    rig.on(CoordinatorEvent::ExternalPhaseDone {
        id: id(1),
        sections: vec![],
    });
    assert_eq!(
        rig.complete_stands(1).last(),
        Some(&snapshot_enumerators(2)),
        "tasks that wait come first"
    );
}

#[test]
fn a_suspended_job_stays_at_rest_until_its_checkpoint_is_decided() {
    let mut rig = Rig::running(quiesce(), pair());
    rig.request(1, Request::Suspend { savepoint: None });
    rig.enumerators(1);
    rig.ack_all(1);
    let actions = rig.on(CoordinatorEvent::ExternalPhaseDone {
        id: id(1),
        sections: vec![],
    });
    assert!(
        matches!(actions[..], [CoordinatorAction::WriteDecision { .. }]),
        "{actions:?}"
    );
    let actions = rig.complete_stands(1);
    let stop = send(&[sub(0, 0)], crate::message::ToTask::Stop { drain: false });
    assert_eq!(
        actions[3..],
        [stop, resume(&[sub(1, 0)], 1)],
        "else the end would not get through"
    );
}
