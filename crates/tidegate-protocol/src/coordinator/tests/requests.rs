use super::rig::*;
use crate::coordinator::*;
use crate::message::DeclineReason;

fn refused(n: u64, reason: &str) -> CoordinatorAction {
    answer(
        n,
        Err(RequestFailure::Refused {
            reason: reason.to_owned(),
        }),
    )
}

#[test]
fn a_checkpoint_starts_at_once_and_is_answered_with_its_id() {
    let settings = CoordinatorSettings {
        min_pause: ms(60_000),
        ..every_second()
    };
    let mut rig = Rig::running(settings, pair());
    rig.take(1);
    assert_eq!(
        rig.request(1, Request::Checkpoint { full: false }),
        [snapshot_enumerators(2)]
    );
    rig.enumerators(2);
    rig.ack_all(2);
    assert!(rig.complete_stands(2).contains(&answer(1, done(2, None))));
}

#[test]
fn a_failure_is_the_answer() {
    let mut rig = Rig::running(
        CoordinatorSettings {
            tolerable_failures: 1,
            ..every_second()
        },
        pair(),
    );
    rig.request(1, Request::Checkpoint { full: false });
    rig.enumerators(1);
    let record = failure(1, FailureReason::AsyncFailed, Some(sub(0, 0)), "because");
    let actions = rig.decline(1, sub(0, 0), DeclineReason::AsyncFailed);
    assert_eq!(
        actions,
        [answer(1, failed(record.clone())), write_aborted(record)]
    );
}

#[test]
fn before_all_tasks_run_requests_are_refused() {
    let mut rig = Rig::new(every_second(), pair());
    let reason = "a task was not running. Ask again once all tasks run.";
    assert_eq!(
        rig.request(1, Request::Checkpoint { full: false }),
        [refused(1, reason)]
    );
    rig.claim(Claim {
        next_id: id(1),
        ..Claim::default()
    });
    rig.say(sub(0, 0), crate::message::FromTask::Running);
    assert_eq!(rig.request(2, Request::Savepoint(order())), [refused(2, reason)]);
    assert_eq!(
        rig.request(3, Request::Drain { savepoint: None }),
        [refused(3, reason)]
    );
}

#[test]
fn without_a_store_only_a_plain_drain_is_possible() {
    let mut rig = Rig::running(
        CoordinatorSettings {
            storage: false,
            ..every_second()
        },
        pair(),
    );
    let reason = "there is no checkpoint storage. Set execution.checkpointing.dir, or use a sink that needs no commit.";
    assert_eq!(rig.request(1, Request::Savepoint(order())), [refused(1, reason)]);
    assert_eq!(
        rig.request(2, Request::Suspend { savepoint: None }),
        [refused(2, reason)]
    );
    assert_eq!(
        rig.request(
            3,
            Request::Drain {
                savepoint: Some(order())
            }
        ),
        [refused(3, reason)]
    );
    assert_eq!(rig.request(4, Request::Drain { savepoint: None }).len(), 1);
}

#[test]
fn when_everything_has_finished_there_is_nothing_to_take() {
    let mut rig = Rig::running(every_second(), pair());
    rig.finish(sub(0, 0));
    rig.finish(sub(1, 0));
    let reason = "all tasks have finished. Its last checkpoint is complete.";
    assert_eq!(
        rig.request(1, Request::Checkpoint { full: false }),
        [refused(1, reason)]
    );
}

#[test]
fn requests_wait_their_turn_and_their_number_is_bounded() {
    let mode = tidegate_types::SnapshotMode::Quiesce { limit: ms(30_000) };
    let mut rig = Rig::collecting(
        CoordinatorSettings {
            mode,
            ..every_second()
        },
        pair(),
    );
    for n in 0..32 {
        assert_eq!(rig.request(n, Request::Savepoint(order())), []);
    }
    let full = "32 requests are waiting already. Ask again later.";
    assert_eq!(rig.request(32, Request::Savepoint(order())), [refused(32, full)]);
    assert_eq!(
        rig.request(3, Request::Savepoint(order())),
        [],
        "doubled: its answer will be that of the first"
    );
    let stopped = rig.on(CoordinatorEvent::Stop {
        discard_retained: false,
    });
    let answered: Vec<_> = stopped
        .iter()
        .filter_map(|action| match action {
            CoordinatorAction::Answer { request, .. } => Some(request.0),
            _ => None,
        })
        .collect();
    assert_eq!(answered, (0..32).collect::<Vec<_>>(), "each once");
}

#[test]
fn those_that_have_become_pointless_while_they_waited_are_refused() {
    let mode = tidegate_types::SnapshotMode::Quiesce { limit: ms(30_000) };
    let mut rig = Rig::collecting(
        CoordinatorSettings {
            mode,
            ..every_second()
        },
        pair(),
    );
    rig.request(1, Request::Checkpoint { full: false });
    rig.request(2, Request::Suspend { savepoint: None });
    rig.finish(sub(0, 0));
    let actions = rig.finish(sub(1, 0));
    assert_eq!(
        actions,
        [
            CoordinatorAction::ExternalPhase { id: id(1) },
            refused(1, "all tasks have finished."),
            refused(2, "all tasks have finished."),
        ]
    );
}
