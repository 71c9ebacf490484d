use super::rig::*;
use crate::coordinator::*;
use crate::message::DeclineReason;

fn never() -> CoordinatorSettings {
    CoordinatorSettings {
        interval: None,
        ..every_second()
    }
}

#[test]
fn a_last_checkpoint_is_triggered_at_once_whatever_the_interval_pause_and_concurrency() {
    let settings = CoordinatorSettings {
        interval: Some(ms(3_600_000)),
        min_pause: ms(3_600_000),
        ..every_second()
    };
    let mut rig = Rig::running(settings, pair());
    rig.request(1, Request::Checkpoint { full: false });
    rig.enumerators(1);
    rig.complete(1);
    rig.request(2, Request::Checkpoint { full: false });
    rig.enumerators(2);
    rig.finish(sub(0, 0));
    assert_eq!(
        rig.wait(sub(1, 0)),
        [snapshot_enumerators(3)],
        "2 was triggered before and doesn't count"
    );
    let barrier = tidegate_types::Barrier {
        base: Some(id(1)),
        oldest_pending: id(2),
        ..rig.barrier(3)
    };
    assert_eq!(rig.enumerators(3), [trigger(&[sub(1, 0)], barrier)]);
}

#[test]
fn with_checkpoints_off_it_is_taken_all_the_same() {
    let mut rig = Rig::running(never(), pair());
    rig.finish(sub(0, 0));
    assert_eq!(rig.wait(sub(1, 0)), [snapshot_enumerators(1)]);
    rig.enumerators(1);
    rig.ack(1, sub(1, 0));
    assert_eq!(rig.complete_stands(1), [commit(1), completed(&[sub(1, 0)], 1, 2)]);
    rig.finish(sub(1, 0));
    assert!(!rig.c.is_finished());
    rig.committed(1);
    assert!(rig.c.is_finished());
}

#[test]
fn without_a_store_the_job_fails_with_a_remedy() {
    let mut rig = Rig::running(
        CoordinatorSettings {
            storage: false,
            ..never()
        },
        pair(),
    );
    rig.finish(sub(0, 0));
    let actions = rig.wait(sub(1, 0));
    let [CoordinatorAction::FailJob(record)] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(record.reason, FailureReason::NoStorage);
    assert!(
        record.to_string().contains("execution.checkpointing.dir"),
        "{record}"
    );
}

#[test]
fn asking_again_is_answered_again_and_triggers_nothing() {
    let mut rig = Rig::running(never(), pair());
    rig.finish(sub(0, 0));
    rig.wait(sub(1, 0));
    assert_eq!(rig.wait(sub(1, 0)), []);
    rig.enumerators(1);
    assert_eq!(rig.wait(sub(1, 0)), []);
    rig.ack(1, sub(1, 0));
    rig.complete_stands(1);
    for _ in 0..3 {
        assert_eq!(
            rig.wait(sub(1, 0)),
            [completed(&[sub(1, 0)], 1, 2)],
            "the answer may have been lost"
        );
    }
    rig.finish(sub(1, 0));
    assert_eq!(rig.wait(sub(1, 0)), []);
}

#[test]
fn it_waits_for_those_that_are_about_to_wait_too() {
    let mut rig = Rig::running(never(), line());
    rig.finish(sub(0, 0));
    rig.finish(sub(0, 1));
    rig.finish(sub(1, 0));
    assert_eq!(rig.wait(sub(2, 0)), [], "1/1 still flushes, and 2/1 after it");
    assert_eq!(rig.finish(sub(1, 1)), []);
    assert_eq!(rig.wait(sub(2, 1)), [snapshot_enumerators(1)], "one for both");
}

#[test]
fn it_does_not_wait_for_subtasks_that_may_never_end() {
    let plan = Plan::new(
        vec![
            vertex(0, "a", 1),
            vertex(1, "a-sink", 1),
            vertex(2, "b", 1),
            vertex(3, "b-sink", 1),
        ],
        vec![
            edge(0, 1, EdgePattern::AllToAll),
            edge(2, 3, EdgePattern::AllToAll),
        ],
    )
    .expect("two pipelines");
    let mut rig = Rig::running(never(), plan);
    rig.finish(sub(0, 0));
    assert_eq!(rig.wait(sub(1, 0)), [snapshot_enumerators(1)], "b runs on");
    assert_eq!(rig.enumerators(1).len(), 1);
}

#[test]
fn another_pipeline_that_still_flushes_does_not_hold_it() {
    let plan = Plan::new(
        vec![
            vertex(0, "a", 1),
            vertex(1, "a-sink", 1),
            vertex(2, "b", 1),
            vertex(3, "b-sink", 1),
        ],
        vec![
            edge(0, 1, EdgePattern::AllToAll),
            edge(2, 3, EdgePattern::AllToAll),
        ],
    )
    .expect("two pipelines");
    let mut rig = Rig::running(never(), plan);
    rig.finish(sub(2, 0));
    rig.finish(sub(0, 0));
    assert_eq!(
        rig.wait(sub(1, 0)),
        [snapshot_enumerators(1)],
        "b's sink is about to wait, but not for a"
    );
}

#[test]
fn a_subtask_whose_forward_producer_ended_waits_alone() {
    let plan = Plan::new(
        vec![vertex(0, "source", 2), vertex(1, "sink", 2)],
        vec![edge(0, 1, EdgePattern::Pointwise)],
    )
    .expect("two lanes");
    let mut rig = Rig::running(never(), plan);
    rig.finish(sub(0, 0));
    assert_eq!(
        rig.wait(sub(1, 0)),
        [snapshot_enumerators(1)],
        "the other lane is fed on"
    );
    assert_eq!(
        rig.enumerators(1),
        [trigger(&[sub(0, 1), sub(1, 0)], rig.barrier(1))]
    );
}

#[test]
fn a_failed_one_is_tried_again_after_a_growing_pause() {
    let mut rig = Rig::running(
        CoordinatorSettings {
            tolerable_failures: 9,
            ..never()
        },
        pair(),
    );
    rig.finish(sub(0, 0));
    rig.wait(sub(1, 0));
    for (n, pause) in [(1, 500), (2, 1000), (3, 2000)] {
        rig.enumerators(n);
        rig.decline(n, sub(1, 0), DeclineReason::AsyncFailed);
        rig.aborted_stands(n);
        assert_eq!(rig.after(pause - 1), []);
        assert_eq!(rig.after(1), [snapshot_enumerators(n + 1)]);
    }
    rig.enumerators(4);
    rig.ack(4, sub(1, 0));
    rig.complete_stands(4);
    assert_eq!(rig.c.next_timeout(), None);
}

#[test]
fn a_periodic_one_triggered_since_serves_as_well() {
    let mut rig = Rig::running(every_second(), line());
    rig.finish(sub(0, 0));
    rig.finish(sub(0, 1));
    rig.finish(sub(1, 0));
    rig.wait(sub(2, 0));
    rig.after(1000);
    rig.enumerators(1);
    for subtask in [sub(1, 1), sub(2, 0), sub(2, 1)] {
        rig.ack(1, subtask);
    }
    let told = [sub(1, 1), sub(2, 0), sub(2, 1)];
    assert_eq!(rig.complete_stands(1), [commit(1), completed(&told, 1, 2)]);
    assert_eq!(rig.wait(sub(2, 0)), [completed(&[sub(2, 0)], 1, 2)]);
}

#[test]
fn one_that_starts_to_wait_before_the_triggers_leave_is_served() {
    let mut rig = Rig::running(every_second(), pair());
    rig.finish(sub(0, 0));
    rig.after(1000);
    assert_eq!(rig.wait(sub(1, 0)), [], "the enumerators of 1 are being asked");
    assert_eq!(
        rig.enumerators(1).len(),
        1,
        "its triggers leave only now, so it serves"
    );
    rig.ack(1, sub(1, 0));
    rig.complete_stands(1);
    assert_eq!(rig.wait(sub(1, 0)), [completed(&[sub(1, 0)], 1, 2)]);
}

#[test]
fn a_sink_in_the_middle_that_waits_has_ended_for_its_consumers() {
    let plan = Plan::new(
        vec![vertex(0, "source", 1), vertex(1, "log", 1), vertex(2, "sink", 1)],
        vec![
            edge(0, 1, EdgePattern::AllToAll),
            edge(1, 2, EdgePattern::AllToAll),
        ],
    )
    .expect("a line");
    let mut rig = Rig::collecting(every_second(), plan);
    rig.finish(sub(0, 0));
    let barrier = rig.barrier(1);
    assert_eq!(
        rig.wait(sub(1, 0)),
        [trigger(&[sub(2, 0)], barrier)],
        "no barrier may come from it any more"
    );
    assert_eq!(rig.wait(sub(2, 0)), [snapshot_enumerators(2)], "both wait now");
    let barrier = tidegate_types::Barrier {
        oldest_pending: id(1),
        ..rig.barrier(2)
    };
    assert_eq!(rig.enumerators(2), [trigger(&[sub(1, 0), sub(2, 0)], barrier)]);
}
