use super::rig::*;
use crate::coordinator::*;
use crate::message::DeclineReason;

fn two_at_once() -> CoordinatorSettings {
    CoordinatorSettings {
        max_concurrent: 2,
        tolerable_failures: 9,
        ..every_second()
    }
}

/// 1 and 2 collect.
fn two_collecting() -> Rig {
    let mut rig = Rig::collecting(two_at_once(), pair());
    rig.after(1000);
    rig.enumerators(2);
    rig
}

fn subsumed(n: u64, by: u64) -> FailureRecord {
    failure(
        n,
        FailureReason::Subsumed,
        None,
        &format!("checkpoint {by} was complete before it"),
    )
}

#[test]
fn complete_then_commit_then_tell() {
    let mut rig = Rig::collecting(every_second(), pair());
    rig.ack_all(1);
    assert_eq!(rig.complete_stands(1), [commit(1), completed(&rig.all(), 1, 2)]);
    assert_eq!(rig.complete_stands(1), [], "doubled");
    assert_eq!(rig.c.newest_complete(), Some(id(1)));
}

#[test]
fn a_newer_one_that_is_ready_first_subsumes_and_waits_until_the_older_is_decided() {
    let mut rig = two_collecting();
    let content = CheckpointContent {
        triggered_at: at(2000),
        ..rig.content(2)
    };
    rig.ack(2, sub(0, 0));
    assert_eq!(rig.ack(2, sub(1, 0)), [write_aborted(subsumed(1, 2))]);
    let actions = rig.aborted_stands(1);
    assert_eq!(
        actions,
        [
            aborted(&rig.all(), 1, 2),
            delete_files(1),
            write_complete(content)
        ]
    );
    assert_eq!(rig.complete_stands(2)[0], commit(2));
    assert_eq!(
        rig.c.failures_in_a_row(),
        0,
        "to be subsumed isn't a failure that counts"
    );
}

#[test]
fn a_ready_one_that_is_being_written_is_not_subsumed() {
    let mut rig = two_collecting();
    rig.ack_all(1);
    assert_eq!(rig.ack_all(2), [], "1 is being written");
    let actions = rig.complete_stands(1);
    assert_eq!(actions[..2], [commit(1), completed(&rig.all(), 1, 2)]);
    assert_eq!(actions.len(), 2, "2 waits for the commit of 1");
    let actions = rig.committed(1);
    assert!(
        matches!(&actions[0], CoordinatorAction::WriteDecision { id: n, decision: Decision::Complete(content) }
        if *n == id(2) && content.retained.is_empty())
    );
    assert_eq!(
        rig.complete_stands(2),
        [commit(2), completed(&rig.all(), 2, 3), retire(&[1])]
    );
}

#[test]
fn a_commit_that_is_not_done_holds_the_next_complete_decision_but_no_abort() {
    let mut rig = two_collecting();
    rig.ack_all(1);
    rig.complete_stands(1);
    let record = failure(2, FailureReason::NotReady, Some(sub(0, 0)), "because");
    assert_eq!(
        rig.decline(2, sub(0, 0), DeclineReason::NotReady),
        [write_aborted(record)]
    );
}

#[test]
fn a_failed_higher_one_waits_for_its_turn() {
    let mut rig = two_collecting();
    assert_eq!(
        rig.decline(2, sub(0, 0), DeclineReason::NotReady),
        [],
        "1 is undecided: `aborted` for 2 must wait"
    );
    rig.ack_all(1);
    let actions = rig.complete_stands(1);
    let record = failure(2, FailureReason::NotReady, Some(sub(0, 0)), "because");
    assert_eq!(actions[2..], [write_aborted(record)]);
}

#[test]
fn another_leaders_object_deposes() {
    let mut rig = two_collecting();
    rig.request(5, Request::Checkpoint { full: false });
    rig.ack_all(1);
    let actions = rig.decided(1, DecisionOutcome::Foreign);
    let record = failure(1, FailureReason::Deposed, None, "");
    assert_eq!(
        actions,
        [
            CoordinatorAction::StepDown { id: id(1) },
            answer(5, failed(record))
        ]
    );
    assert!(rig.c.is_deposed() && rig.c.is_drained());
    assert_eq!(rig.ack_all(2), [], "nothing is done any more");
    assert_eq!(rig.complete_stands(2), []);
    assert_eq!(rig.after(1_000_000), []);
    assert_eq!(
        rig.on(CoordinatorEvent::Stop {
            discard_retained: true
        }),
        []
    );
    assert_eq!(rig.c.next_timeout(), None);
    let refused = rig.request(6, Request::Checkpoint { full: false });
    assert!(matches!(
        &refused[..],
        [CoordinatorAction::Answer {
            result: Err(RequestFailure::Refused { .. }),
            ..
        }]
    ));
}

#[test]
fn a_foreign_object_at_an_abort_deposes_too_and_deletes_nothing() {
    let mut rig = Rig::collecting(every_second(), pair());
    rig.decline(1, sub(0, 0), DeclineReason::NotReady);
    assert_eq!(
        rig.decided(1, DecisionOutcome::Foreign),
        [CoordinatorAction::StepDown { id: id(1) }]
    );
}

#[test]
fn a_complete_object_that_was_never_asked_for_deposes() {
    let mut rig = Rig::collecting(every_second(), pair());
    rig.decline(1, sub(0, 0), DeclineReason::NotReady);
    assert_eq!(
        rig.complete_stands(1),
        [CoordinatorAction::StepDown { id: id(1) }]
    );
}

#[test]
fn a_failed_write_fails_the_checkpoint_and_nobody_is_told_before_aborted_stands() {
    let mut rig = Rig::collecting(two_at_once(), pair());
    rig.ack_all(1);
    let record = failure(1, FailureReason::MetadataWriteFailed, None, "disk full");
    assert_eq!(rig.write_fails(1), [write_aborted(record)]);
    assert_eq!(rig.c.failures_in_a_row(), 1, "it counts");
    assert_eq!(
        rig.aborted_stands(1),
        [aborted(&rig.all(), 1, 2), delete_files(1)]
    );
}

#[test]
fn a_failed_write_that_had_succeeded_completes_after_all() {
    let mut rig = Rig::collecting(two_at_once(), pair());
    rig.ack_all(1);
    rig.write_fails(1);
    assert_eq!(rig.complete_stands(1), [commit(1), completed(&rig.all(), 1, 2)]);
    assert_eq!(rig.c.failures_in_a_row(), 0);
    let counts = rig.c.history().counts();
    assert_eq!((counts.completed, counts.failed, counts.in_progress), (1, 0, 0));
}

#[test]
fn aborted_is_written_again_until_it_stands() {
    let mut rig = Rig::collecting(two_at_once(), pair());
    let record = failure(1, FailureReason::NotReady, Some(sub(0, 0)), "because");
    assert_eq!(
        rig.decline(1, sub(0, 0), DeclineReason::NotReady),
        [write_aborted(record.clone())]
    );
    assert_eq!(rig.write_fails(1), []);
    assert_eq!(rig.write_fails(1), [], "doubled");
    rig.after(999);
    assert_eq!(
        rig.after(1),
        [snapshot_enumerators(2), write_aborted(record)],
        "beside newer checkpoints"
    );
    assert_eq!(rig.aborted_stands(1)[1], delete_files(1));
}

#[test]
fn while_the_store_refuses_everything_the_backlog_is_bounded() {
    let settings = CoordinatorSettings {
        tolerable_failures: u32::MAX,
        timeout: ms(10),
        ..every_second()
    };
    let mut rig = Rig::running(settings, pair());
    for _ in 0..200 {
        let due = rig.c.next_timeout().expect("something is always tried again");
        rig.now = due;
        rig.on(CoordinatorEvent::Timeout);
        rig.write_fails(1);
    }
    assert_eq!(rig.c.held(), Some(Hold::Backlog));
    assert_eq!(rig.c.undecided.len(), 32);
    rig.now = rig.c.next_timeout().expect("the write is tried again");
    rig.on(CoordinatorEvent::Timeout);
    for n in 1..=32 {
        rig.aborted_stands(n);
    }
    assert_eq!(
        rig.c.pending().collect::<Vec<_>>(),
        [id(33)],
        "the held one starts once there is room"
    );
}

#[test]
fn ids_between_are_decided_one_by_one() {
    let settings = CoordinatorSettings {
        max_concurrent: 3,
        ..two_at_once()
    };
    let mut rig = Rig::collecting(settings, pair());
    rig.after(1000);
    rig.enumerators(2);
    rig.after(1000);
    rig.enumerators(3);
    rig.ack_all(3);
    for n in [1, 2] {
        let actions = rig.aborted_stands(n);
        let writes: Vec<_> = actions
            .iter()
            .filter_map(|action| match action {
                CoordinatorAction::WriteDecision { id, .. } => Some(id.0),
                _ => None,
            })
            .collect();
        assert_eq!(writes, [n + 1]);
    }
}
