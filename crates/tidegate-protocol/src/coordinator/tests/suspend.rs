use tidegate_types::{Barrier, CheckpointKind, SavepointFormat};

use super::rig::*;
use crate::coordinator::*;
use crate::message::{DeclineReason, ToTask};

fn suspend(savepoint: Option<SavepointOrder>) -> Request {
    Request::Suspend { savepoint }
}

fn stop_kind(format: SavepointFormat) -> CheckpointKind {
    CheckpointKind::Savepoint { format, stop: true }
}

/// Suspension 1 collects.
fn suspending() -> Rig {
    let mut rig = Rig::running(every_second(), pair());
    rig.request(1, suspend(Some(order())));
    let barrier = Barrier {
        kind: stop_kind(SavepointFormat::Canonical),
        ..rig.barrier(1)
    };
    assert_eq!(rig.enumerators(1), [trigger(&[sub(0, 0)], barrier)]);
    rig
}

#[test]
fn once_complete_the_sources_end_without_draining() {
    let mut rig = suspending();
    rig.ack_all(1);
    rig.on(CoordinatorEvent::SavepointCopied {
        id: id(1),
        path: "/save/1".to_owned(),
    });
    let all = rig.all();
    assert_eq!(
        rig.complete_stands(1),
        [
            commit(1),
            completed(&all, 1, 2),
            answer(1, done(1, Some("/save/1"))),
            send(&[sub(0, 0)], ToTask::Stop { drain: false }),
        ]
    );
    assert_eq!(rig.after(60_000), [], "no more periodic checkpoints");
    assert_eq!(rig.c.held(), Some(Hold::Ending));
    rig.committed(1);
    rig.finish(sub(0, 0));
    rig.finish(sub(1, 0));
    assert!(rig.c.is_finished());
}

#[test]
fn behind_a_suspension_there_is_no_last_checkpoint() {
    let mut rig = Rig::running(every_second(), line());
    rig.request(1, suspend(None));
    rig.enumerators(1);
    assert_eq!(
        rig.wait(sub(0, 1)),
        [],
        "nothing comes between the suspension and its decision"
    );
    rig.ack_all(1);
    assert_eq!(
        rig.complete_stands(1),
        [
            commit(1),
            completed(&rig.all(), 1, 2),
            answer(1, done(1, None)),
            send(&[sub(0, 0), sub(0, 1)], ToTask::Stop { drain: false }),
        ],
        "also to the one that waits: it must not wait for ever"
    );
    rig.committed(1);
    rig.finish(sub(0, 0));
    assert_eq!(
        rig.wait(sub(1, 0)),
        [send(&[sub(1, 0)], ToTask::Stop { drain: false })],
        "its inputs may have ended in earnest"
    );
    assert_eq!(
        rig.after(60_000),
        [],
        "what ended now has no end to be checkpointed"
    );
}

#[test]
fn if_it_fails_the_sources_go_on_and_so_does_the_job() {
    let mut rig = suspending();
    let record = FailureRecord {
        counted: false,
        ..failure(1, FailureReason::AsyncFailed, Some(sub(1, 0)), "because")
    };
    assert_eq!(
        rig.decline(1, sub(1, 0), DeclineReason::AsyncFailed),
        [
            resume(&rig.all(), 1),
            answer(1, failed(record.clone())),
            write_aborted(record)
        ]
    );
    rig.aborted_stands(1);
    assert_eq!(rig.after(1000), [snapshot_enumerators(2)]);
    rig.enumerators(2);
    assert_eq!(
        rig.request(2, suspend(None)),
        [snapshot_enumerators(3)],
        "and it may be asked for again"
    );
}

#[test]
fn a_failed_write_lets_the_sources_go_on_when_it_is_certain() {
    let mut rig = suspending();
    rig.ack_all(1);
    rig.on(CoordinatorEvent::SavepointCopied {
        id: id(1),
        path: "/save/1".to_owned(),
    });
    assert_eq!(rig.write_fails(1).len(), 1, "it may yet turn out to be complete");
    let actions = rig.aborted_stands(1);
    assert_eq!(
        actions[..3],
        [aborted(&rig.all(), 1, 2), resume(&rig.all(), 1), delete_files(1)]
    );
}

#[test]
fn without_a_savepoint_it_is_a_checkpoint_whose_barrier_stops_the_sources() {
    let mut rig = Rig::running(every_second(), pair());
    rig.request(1, suspend(None));
    let barrier = Barrier {
        kind: stop_kind(SavepointFormat::Native),
        ..rig.barrier(1)
    };
    assert_eq!(rig.enumerators(1), [trigger(&[sub(0, 0)], barrier)]);
    let content = rig.content(1);
    assert_eq!(
        rig.ack_all(1),
        [write_complete(content)],
        "kept like any checkpoint"
    );
    rig.complete_stands(1);
    assert_eq!(
        rig.c.history().latest_completed().map(|stats| stats.id),
        Some(id(1))
    );
}

#[test]
fn nothing_starts_between_its_barrier_and_its_decision() {
    let mut rig = suspending();
    assert_eq!(rig.after(1000), []);
    assert_eq!(rig.c.held(), Some(Hold::Suspending));
    for (n, what) in [
        (2, Request::Checkpoint { full: false }),
        (3, Request::Savepoint(order())),
        (4, suspend(None)),
        (5, Request::Drain { savepoint: None }),
    ] {
        let reason = "the job is being stopped already. Wait for that to end.".to_owned();
        assert_eq!(
            rig.request(n, what),
            [answer(n, Err(RequestFailure::Refused { reason }))]
        );
    }
}

#[test]
fn it_covers_subtasks_that_wait_for_their_last_checkpoint() {
    let settings = every_second();
    let plan = Plan::new(vec![vertex(0, "a", 1), vertex(1, "b", 1)], vec![]).expect("two lone vertices");
    let mut rig = Rig::running(
        CoordinatorSettings {
            interval: None,
            ..settings
        },
        plan,
    );
    rig.request(1, suspend(None));
    assert_eq!(rig.wait(sub(1, 0)), [], "before the triggers");
    rig.enumerators(1);
    rig.ack_all(1);
    rig.complete_stands(1);
    rig.committed(1);
    assert_eq!(rig.c.next_timeout(), None);
    assert_eq!(rig.wait(sub(1, 0)), [completed(&[sub(1, 0)], 1, 2)]);
}
