use tidegate_types::SnapshotMode;

use super::rig::*;
use crate::coordinator::*;
use crate::message::FromTask;

#[test]
fn the_first_trigger_comes_one_interval_after_all_tasks_run() {
    let mut rig = Rig::new(every_second(), line());
    rig.claim(Claim {
        next_id: id(1),
        ..Claim::default()
    });
    assert_eq!(rig.c.next_timeout(), None, "nothing is due before tasks run");
    rig.after(5000);
    for subtask in rig.all() {
        rig.say(subtask, FromTask::Running);
    }
    assert_eq!(rig.c.next_timeout(), Some(at(6000)));
    assert_eq!(rig.after(999), []);
    assert_eq!(rig.after(1), [snapshot_enumerators(1)]);
    assert_eq!(rig.c.next_id(), id(2));
}

#[test]
fn without_an_interval_nothing_is_ever_due() {
    let mut rig = Rig::running(
        CoordinatorSettings {
            interval: None,
            ..every_second()
        },
        line(),
    );
    assert_eq!(rig.c.next_timeout(), None);
    assert_eq!(rig.after(1_000_000), []);
}

#[test]
fn a_due_trigger_is_held_once_and_never_stacked() {
    let mut rig = Rig::collecting(every_second(), line());
    assert_eq!(rig.after(1000), []);
    assert_eq!(rig.c.held(), Some(Hold::MaxConcurrent));
    assert_eq!(rig.after(5000), [], "five more intervals add nothing");
    rig.ack_all(1);
    let actions = rig.complete_stands(1);
    assert_eq!(
        actions.last(),
        Some(&snapshot_enumerators(2)),
        "the held one starts as soon as it may"
    );
    assert_eq!(rig.c.held(), None);
    assert_eq!(rig.c.pending().collect::<Vec<_>>(), [id(2)]);
    rig.committed(1);
    rig.enumerators(2);
    rig.complete(2);
    assert_eq!(
        rig.after(999),
        [],
        "and the next is due one interval after that start"
    );
    assert_eq!(rig.after(1), [snapshot_enumerators(3)]);
}

#[test]
fn as_many_run_at_once_as_may() {
    let mut rig = Rig::collecting(
        CoordinatorSettings {
            max_concurrent: 2,
            ..every_second()
        },
        line(),
    );
    assert_eq!(rig.after(1000), [snapshot_enumerators(2)]);
    rig.enumerators(2);
    assert_eq!(rig.after(1000), []);
    assert_eq!(rig.c.held(), Some(Hold::MaxConcurrent));
    rig.decline(1, sub(0, 0), crate::message::DeclineReason::NotReady);
    assert_eq!(
        rig.c.pending().collect::<Vec<_>>(),
        [id(2), id(3)],
        "a failed one makes room"
    );
}

#[test]
fn a_pause_is_counted_from_the_last_completion() {
    let mut rig = Rig::collecting(
        CoordinatorSettings {
            min_pause: ms(800),
            ..every_second()
        },
        line(),
    );
    rig.after(700);
    rig.complete(1);
    assert_eq!(rig.after(300), []);
    assert_eq!(rig.c.held(), Some(Hold::MinPause { until: at(2500) }));
    assert_eq!(rig.c.next_timeout(), Some(at(2500)));
    assert_eq!(rig.after(499), []);
    assert_eq!(rig.after(1), [snapshot_enumerators(2)]);
}

#[test]
fn a_late_timer_triggers_once() {
    let mut rig = Rig::running(every_second(), line());
    assert_eq!(rig.after(10_500), [snapshot_enumerators(1)], "ten intervals late");
    rig.enumerators(1);
    rig.complete(1);
    assert_eq!(rig.c.next_timeout(), Some(at(11_000)), "no burst to catch up");
}

#[test]
fn while_a_savepoint_is_aligned_unaligned_triggers_are_held() {
    let settings = CoordinatorSettings {
        mode: SnapshotMode::Unaligned,
        max_concurrent: 3,
        ..every_second()
    };
    let mut rig = Rig::running(settings, line());
    assert_eq!(
        rig.request(1, Request::Savepoint(order())),
        [snapshot_enumerators(1)]
    );
    rig.enumerators(1);
    assert_eq!(rig.after(1000), []);
    assert_eq!(rig.c.held(), Some(Hold::AlignedSavepoint(id(1))));
    rig.decline(1, sub(0, 0), crate::message::DeclineReason::AsyncFailed);
    assert_eq!(rig.c.pending().collect::<Vec<_>>(), [id(2)]);
}

#[test]
fn while_a_savepoint_is_aligned_adaptive_triggers_start() {
    let mode = SnapshotMode::Adaptive { timeout: ms(1) };
    let mut rig = Rig::running(
        CoordinatorSettings {
            mode,
            max_concurrent: 3,
            ..every_second()
        },
        line(),
    );
    rig.request(1, Request::Savepoint(order()));
    rig.enumerators(1);
    assert_eq!(
        rig.after(1000),
        [snapshot_enumerators(2)],
        "the handlers keep it aligned"
    );
}

#[test]
fn an_unaligned_savepoint_holds_nothing() {
    let settings = CoordinatorSettings {
        mode: SnapshotMode::Unaligned,
        max_concurrent: 3,
        ..every_second()
    };
    let mut rig = Rig::running(settings, line());
    rig.request(
        1,
        Request::Savepoint(SavepointOrder {
            unaligned: true,
            ..order()
        }),
    );
    rig.enumerators(1);
    assert_eq!(rig.after(1000), [snapshot_enumerators(2)]);
}

#[test]
fn after_a_task_has_finished_triggers_stop_if_that_is_switched_off() {
    let settings = CoordinatorSettings {
        after_tasks_finish: false,
        ..every_second()
    };
    let mut rig = Rig::running(settings, line());
    rig.finish(sub(0, 0));
    assert_eq!(rig.after(1000), []);
    assert_eq!(rig.c.held(), Some(Hold::AfterFinish));
    assert_eq!(rig.c.next_timeout(), None);
}

#[test]
fn triggers_leave_in_the_order_of_ids() {
    let mut rig = Rig::running(
        CoordinatorSettings {
            max_concurrent: 9,
            ..every_second()
        },
        line(),
    );
    rig.after(1000);
    assert_eq!(
        rig.request(1, Request::Checkpoint { full: false }),
        [],
        "1 still asks the enumerators"
    );
    rig.after(1000);
    assert_eq!(rig.c.held(), Some(Hold::Enumerators(id(1))));
    let actions = rig.enumerators(1);
    assert_eq!(
        actions,
        [
            trigger(&[sub(0, 0), sub(0, 1)], actions_barrier(&actions)),
            snapshot_enumerators(2)
        ]
    );
    assert_eq!(rig.enumerators(2).last(), Some(&snapshot_enumerators(3)));
}

/// The barrier that the first of some actions sends.
fn actions_barrier(actions: &[CoordinatorAction]) -> tidegate_types::Barrier {
    match actions.first() {
        Some(CoordinatorAction::Send {
            message: crate::message::ToTask::Trigger(barrier),
            ..
        }) => {
            assert_eq!(barrier.id, id(1));
            barrier.clone()
        }
        other => panic!("no trigger: {other:?}"),
    }
}
