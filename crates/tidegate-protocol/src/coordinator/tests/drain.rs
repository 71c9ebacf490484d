use tidegate_types::{Barrier, CheckpointKind, SavepointFormat};

use super::rig::*;
use crate::coordinator::*;
use crate::message::{DeclineReason, ToTask};

fn drain(savepoint: Option<SavepointOrder>) -> Request {
    Request::Drain { savepoint }
}

fn never() -> CoordinatorSettings {
    CoordinatorSettings {
        interval: None,
        ..every_second()
    }
}

/// A drain with a savepoint was asked for (request 1); the source has finished and the sink waits.
fn draining(settings: CoordinatorSettings) -> Rig {
    let mut rig = Rig::running(settings, pair());
    assert_eq!(
        rig.request(1, drain(Some(order()))),
        [send(&[sub(0, 0)], ToTask::Stop { drain: true })],
        "no checkpoint yet"
    );
    assert_eq!(rig.finish(sub(0, 0)), []);
    assert_eq!(rig.wait(sub(1, 0)), [snapshot_enumerators(1)]);
    let kind = CheckpointKind::Savepoint {
        format: SavepointFormat::Canonical,
        stop: false,
    };
    assert_eq!(
        rig.enumerators(1),
        [trigger(
            &[sub(1, 0)],
            Barrier {
                kind,
                ..rig.barrier(1)
            }
        )]
    );
    rig
}

fn copied(rig: &mut Rig, n: u64) -> Vec<CoordinatorAction> {
    rig.on(CoordinatorEvent::SavepointCopied {
        id: id(n),
        path: "/save/1".to_owned(),
    })
}

#[test]
fn the_last_checkpoint_becomes_the_savepoint() {
    let mut rig = draining(never());
    rig.ack(1, sub(1, 0));
    copied(&mut rig, 1);
    assert_eq!(
        rig.complete_stands(1),
        [
            commit(1),
            completed(&[sub(1, 0)], 1, 2),
            answer(1, done(1, Some("/save/1")))
        ]
    );
    rig.committed(1);
    rig.finish(sub(1, 0));
    assert!(rig.c.is_finished());
}

#[test]
fn checkpoints_go_on_while_it_drains_but_none_takes_the_savepoints_place() {
    let mut rig = Rig::running(every_second(), pair());
    rig.request(1, drain(Some(order())));
    assert_eq!(
        rig.after(1000),
        [snapshot_enumerators(1)],
        "draining may take long"
    );
    rig.enumerators(1);
    rig.complete(1);
    rig.finish(sub(0, 0));
    rig.wait(sub(1, 0));
    assert_eq!(rig.after(1000), []);
    assert_eq!(rig.c.held(), Some(Hold::Ending));
}

#[test]
fn a_failed_last_savepoint_is_tried_again_and_counts() {
    let mut rig = draining(CoordinatorSettings {
        tolerable_failures: 1,
        ..never()
    });
    let actions = rig.decline(1, sub(1, 0), DeclineReason::AsyncFailed);
    assert_eq!(actions.len(), 1, "nobody is answered: {actions:?}");
    rig.aborted_stands(1);
    assert_eq!(rig.c.next_timeout(), Some(at(500)));
    assert_eq!(rig.after(500), [snapshot_enumerators(2)]);
    rig.enumerators(2);
    let actions = rig.decline(2, sub(1, 0), DeclineReason::AsyncFailed);
    let job_stopped = FailureRecord {
        id: None,
        reason: FailureReason::JobStopped,
        subtask: None,
        detail: "too many checkpoints failed".to_owned(),
        counted: false,
    };
    assert!(matches!(actions[0], CoordinatorAction::FailJob(_)));
    assert_eq!(actions[1], answer(1, failed(job_stopped)), "only now");
}

#[test]
fn if_nothing_waited_the_savepoint_is_made_of_what_finished_subtasks_left() {
    let mut rig = Rig::running(never(), pair());
    rig.request(1, drain(Some(order())));
    rig.finish(sub(0, 0));
    assert_eq!(rig.finish(sub(1, 0)), [snapshot_enumerators(1)]);
    assert!(!rig.c.is_finished(), "it was promised");
    let actions = rig.enumerators(1);
    let [CoordinatorAction::CopySavepoint { content, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert!(content.subtasks.iter().all(|subtask| subtask.finished));
    copied(&mut rig, 1);
    assert_eq!(
        rig.complete_stands(1),
        [commit(1), answer(1, done(1, Some("/save/1")))]
    );
    rig.committed(1);
    assert!(rig.c.is_finished());
}

#[test]
fn subtasks_that_an_earlier_checkpoint_covers_finish_first() {
    let mut rig = Rig::running(every_second(), line());
    rig.request(1, drain(Some(order())));
    for subtask in [sub(0, 0), sub(0, 1), sub(1, 0)] {
        rig.finish(subtask);
    }
    assert_eq!(rig.wait(sub(2, 0)), [], "2/1 is about to wait too");
    rig.after(1000);
    rig.enumerators(1);
    rig.finish(sub(1, 1));
    rig.wait(sub(2, 1));
    assert_eq!(
        rig.c.pending().collect::<Vec<_>>(),
        [id(1), id(2)],
        "the savepoint is for the other one"
    );
}

#[test]
fn a_drain_without_a_savepoint_is_answered_when_everything_is_committed() {
    let mut rig = Rig::running(never(), pair());
    rig.request(1, drain(None));
    rig.finish(sub(0, 0));
    rig.wait(sub(1, 0));
    rig.enumerators(1);
    rig.ack(1, sub(1, 0));
    rig.complete_stands(1);
    assert_eq!(rig.finish(sub(1, 0)), [], "its commit is outstanding");
    assert_eq!(rig.committed(1), [answer(1, done(1, None))]);
}

#[test]
fn sources_that_have_ended_are_not_told() {
    let plan = Plan::new(vec![vertex(0, "a", 1), vertex(1, "b", 1)], vec![]).expect("two sources");
    let mut rig = Rig::running(never(), plan);
    rig.finish(sub(0, 0));
    assert_eq!(
        rig.request(1, drain(None)),
        [send(&[sub(1, 0)], ToTask::Stop { drain: true })]
    );
}

#[test]
fn a_job_without_a_store_can_still_drain() {
    let mut rig = Rig::running(
        CoordinatorSettings {
            storage: false,
            ..never()
        },
        pair(),
    );
    assert_eq!(rig.request(1, drain(None)).len(), 1);
    rig.finish(sub(0, 0));
    let nothing = Ok(RequestDone { id: None, path: None });
    assert_eq!(rig.finish(sub(1, 0)), [answer(1, nothing)]);
}
