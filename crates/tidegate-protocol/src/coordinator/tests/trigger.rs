use tidegate_types::{Barrier, CheckpointKind, SnapshotMode};

use super::rig::*;
use crate::coordinator::*;
use crate::message::FromTask;

#[test]
fn enumerators_first_then_the_sources() {
    let mut rig = Rig::running(every_second(), line());
    assert_eq!(
        rig.after(1000),
        [snapshot_enumerators(1)],
        "no trigger leaves before the enumerators' cut"
    );
    assert_eq!(
        rig.enumerators(1),
        [trigger(&[sub(0, 0), sub(0, 1)], rig.barrier(1))]
    );
    assert_eq!(rig.enumerators(1), [], "once");
}

#[test]
fn the_barrier_says_how_old_the_checkpoint_is() {
    let mut rig = Rig::running(every_second(), pair());
    rig.after(1000);
    rig.now = rig.now + ms(40);
    let barrier = Barrier {
        age: ms(40),
        ..rig.barrier(1)
    };
    assert_eq!(rig.enumerators(1), [trigger(&[sub(0, 0)], barrier)]);
}

#[test]
fn the_barrier_names_the_newest_complete_one_as_base() {
    let mut rig = Rig::running(every_second(), pair());
    rig.take(1);
    rig.after(1000);
    let barrier = Barrier {
        base: Some(id(1)),
        ..rig.barrier(2)
    };
    assert_eq!(rig.enumerators(2), [trigger(&[sub(0, 0)], barrier)]);
}

#[test]
fn a_full_checkpoint_and_a_savepoint_have_no_base_and_a_savepoint_is_none() {
    let mut rig = Rig::running(every_second(), pair());
    rig.take(1);
    rig.request(1, Request::Checkpoint { full: true });
    assert_eq!(rig.enumerators(2), [trigger(&[sub(0, 0)], rig.barrier(2))]);
    rig.complete(2);
    rig.request(2, Request::Savepoint(order()));
    let kind = CheckpointKind::Savepoint {
        format: tidegate_types::SavepointFormat::Canonical,
        stop: false,
    };
    assert_eq!(
        rig.enumerators(3),
        [trigger(
            &[sub(0, 0)],
            Barrier {
                kind,
                ..rig.barrier(3)
            }
        )]
    );
    rig.ack_all(3);
    rig.on(CoordinatorEvent::SavepointCopied {
        id: id(3),
        path: "/save/1".to_owned(),
    });
    rig.complete_stands(3);
    rig.committed(3);
    rig.request(3, Request::Checkpoint { full: false });
    let barrier = Barrier {
        base: Some(id(2)),
        ..rig.barrier(4)
    };
    assert_eq!(
        rig.enumerators(4),
        [trigger(&[sub(0, 0)], barrier)],
        "the newest that backends can build on"
    );
}

#[test]
fn the_barrier_names_the_lowest_undecided_id() {
    let mut rig = Rig::collecting(
        CoordinatorSettings {
            max_concurrent: 2,
            ..every_second()
        },
        pair(),
    );
    rig.after(1000);
    let barrier = Barrier {
        oldest_pending: id(1),
        ..rig.barrier(2)
    };
    assert_eq!(rig.enumerators(2), [trigger(&[sub(0, 0)], barrier)]);
}

#[test]
fn a_subtask_whose_producers_have_all_finished_is_triggered_by_message() {
    let mut rig = Rig::running(every_second(), line());
    rig.finish(sub(0, 0));
    rig.finish(sub(0, 1));
    rig.after(1000);
    assert_eq!(
        rig.enumerators(1),
        [trigger(&[sub(1, 0), sub(1, 1)], rig.barrier(1))]
    );
}

#[test]
fn one_that_finishes_before_its_trigger_counts_as_finished_and_its_consumers_are_triggered() {
    let mut rig = Rig::collecting(every_second(), line());
    assert_eq!(rig.finish(sub(0, 0)), [], "its consumers have another producer");
    rig.now = rig.now + ms(5);
    let barrier = Barrier {
        age: ms(5),
        ..rig.barrier(1)
    };
    assert_eq!(
        rig.finish(sub(0, 1)),
        [trigger(&[sub(1, 0), sub(1, 1)], barrier.clone())]
    );
    assert_eq!(
        rig.finish(sub(1, 1)),
        [trigger(&[sub(2, 1)], barrier)],
        "forward: only its own consumer"
    );
    rig.ack(1, sub(1, 0));
    rig.ack(1, sub(2, 0));
    let actions = rig.ack(1, sub(2, 1));
    let CoordinatorAction::WriteDecision {
        decision: Decision::Complete(content),
        ..
    } = &actions[0]
    else {
        panic!("{actions:?}")
    };
    let finished: Vec<_> = content
        .subtasks
        .iter()
        .filter(|s| s.finished)
        .map(|s| s.subtask)
        .collect();
    assert_eq!(finished, [sub(0, 0), sub(0, 1), sub(1, 1)]);
    let of_operators: Vec<_> = content
        .operators
        .iter()
        .map(|operator| operator.finished)
        .collect();
    assert_eq!(
        of_operators,
        [
            OperatorFinish::Fully,
            OperatorFinish::Partly,
            OperatorFinish::None
        ]
    );
}

#[test]
fn one_that_acknowledged_and_then_finished_keeps_what_it_cut() {
    let mut rig = Rig::collecting(every_second(), pair());
    rig.ack(1, sub(0, 0));
    assert_eq!(
        rig.finish(sub(0, 0)),
        [trigger(&[sub(1, 0)], rig.barrier(1))],
        "a barrier may never have left it"
    );
    let mut content = rig.content(1);
    content.subtasks[0] = snapshot(id(1), sub(0, 0));
    assert_eq!(rig.ack(1, sub(1, 0)), [write_complete(content)]);
}

#[test]
fn one_that_finishes_while_the_enumerators_are_asked_is_finished_in_the_checkpoint() {
    let mut rig = Rig::running(every_second(), pair());
    rig.after(1000);
    rig.finish(sub(0, 0));
    assert_eq!(rig.enumerators(1), [trigger(&[sub(1, 0)], rig.barrier(1))]);
    assert_eq!(
        rig.c.history().get(id(1)).map(CheckpointStats::acknowledged),
        Some(1)
    );
}

#[test]
fn everything_finishing_meanwhile_completes_it() {
    let mut rig = Rig::collecting(every_second(), pair());
    rig.finish(sub(0, 0));
    let actions = rig.finish(sub(1, 0));
    let CoordinatorAction::WriteDecision {
        decision: Decision::Complete(content),
        ..
    } = &actions[0]
    else {
        panic!("{actions:?}")
    };
    assert!(
        content
            .operators
            .iter()
            .all(|operator| operator.finished == OperatorFinish::Fully)
    );
    rig.complete_stands(1);
    assert!(!rig.c.is_finished(), "its commit is outstanding");
    rig.committed(1);
    assert!(rig.c.is_finished());
    rig.after(5000);
    assert_eq!(rig.c.held(), Some(Hold::AllFinished), "nothing changes any more");
}

#[test]
fn feedback_brings_no_barrier_that_starts_a_checkpoint() {
    let all = EdgePattern::AllToAll;
    let back = PlanEdge {
        kind: tidegate_types::EdgeKind::Feedback,
        ..edge(1, 1, all)
    };
    let plan = Plan::new(
        vec![vertex(0, "source", 1), vertex(1, "loop", 1)],
        vec![edge(0, 1, all), back],
    )
    .expect("a loop over a feedback edge");
    let mut rig = Rig::running(every_second(), plan);
    rig.finish(sub(0, 0));
    rig.after(1000);
    assert_eq!(rig.enumerators(1), [trigger(&[sub(1, 0)], rig.barrier(1))]);
}

#[test]
fn adaptive_without_a_timeout_goes_out_unaligned() {
    let mode = SnapshotMode::Adaptive { timeout: ms(0) };
    let mut rig = Rig::running(
        CoordinatorSettings {
            mode,
            ..every_second()
        },
        pair(),
    );
    rig.after(1000);
    let barrier = Barrier {
        mode: SnapshotMode::Unaligned,
        ..rig.barrier(1)
    };
    assert_eq!(rig.enumerators(1), [trigger(&[sub(0, 0)], barrier)]);
}

#[test]
fn enumerators_that_fail_fail_the_checkpoint() {
    let mut rig = Rig::running(
        CoordinatorSettings {
            tolerable_failures: 1,
            ..every_second()
        },
        pair(),
    );
    rig.after(1000);
    let record = failure(1, FailureReason::EnumeratorFailed, None, "no partitions");
    let actions = rig.on(CoordinatorEvent::EnumeratorsFailed {
        id: id(1),
        error: "no partitions".to_owned(),
    });
    assert_eq!(actions, [write_aborted(record)]);
    assert_eq!(rig.enumerators(1), [], "late");
}

#[test]
fn tasks_that_were_running_when_the_claim_came_count() {
    let mut rig = Rig::new(every_second(), pair());
    rig.say(sub(0, 0), FromTask::Running);
    rig.say(sub(1, 0), FromTask::Running);
    rig.claim(Claim {
        next_id: id(4),
        ..Claim::default()
    });
    assert_eq!(
        rig.after(1000),
        [snapshot_enumerators(4)],
        "ids go on from the claim"
    );
}
