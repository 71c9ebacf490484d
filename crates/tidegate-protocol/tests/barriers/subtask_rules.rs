//! The subtask's snapshots rule by rule.

use crate::common::subtask::{cut, failed, written};
use crate::common::{at, id, ms};
use tidegate_protocol::message::DeclineReason;
use tidegate_protocol::subtask::{
    CutMeasured, Outcome, REOFFER_EVERY, SnapshotAction as A, SnapshotEvent as E, SubtaskSnapshots,
};
use tidegate_types::Nanos;
use tidegate_types::SnapshotMode::{Aligned, Unaligned};

fn on(machine: &mut SubtaskSnapshots, now: Nanos, event: E) -> Vec<A> {
    let mut actions = Vec::new();
    machine.on_event(now, event, &mut actions);
    actions
}

/// Runs checkpoint `n` to its acknowledgement.
fn acknowledge(machine: &mut SubtaskSnapshots, n: u64) -> Vec<A> {
    on(machine, at(100), E::Begin(cut(n, 1)));
    let measured = CutMeasured {
        chain_delay: ms(3),
        record_delay: ms(2),
        sync: ms(1),
        overtook: false,
    };
    on(
        machine,
        at(106),
        E::CutTaken {
            id: id(n),
            parts: 1,
            measured,
        },
    );
    assert_eq!(on(machine, at(110), E::PartDone(id(n))), [A::StartWrite(id(n))]);
    on(
        machine,
        at(150),
        E::WriteDone {
            id: id(n),
            result: Ok(written(n)),
        },
    )
}

#[test]
fn times_become_statistics() {
    let actions = acknowledge(&mut SubtaskSnapshots::new(), 1);
    let [A::Acknowledge { stats, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(stats.start_delay, ms(15), "with the chain's and the record's");
    assert_eq!((stats.alignment, stats.sync), (ms(20), ms(1)));
    assert_eq!((stats.asynchronous, stats.end_to_end), (ms(44), ms(80)));
    assert_eq!(stats.mode, Some(Aligned));
}

#[test]
fn a_barrier_that_overtakes_on_an_output_makes_the_subtask_unaligned() {
    let mut machine = SubtaskSnapshots::new();
    on(&mut machine, at(0), E::Begin(cut(1, 1)));
    on(
        &mut machine,
        at(0),
        E::CutTaken {
            id: id(1),
            parts: 2,
            measured: CutMeasured::default(),
        },
    );
    on(&mut machine, at(0), E::PartDone(id(1)));
    on(&mut machine, at(1), E::OutputOvertook(id(1)));
    on(&mut machine, at(1), E::PartDone(id(1)));
    let actions = on(
        &mut machine,
        at(2),
        E::WriteDone {
            id: id(1),
            result: Ok(written(1)),
        },
    );
    let [A::Acknowledge { stats, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(stats.mode, Some(Unaligned));
}

#[test]
fn an_unanswered_acknowledgement_is_said_again() {
    let mut machine = SubtaskSnapshots::new();
    assert_eq!(machine.next_tick(), Nanos::NEVER);
    let first = acknowledge(&mut machine, 1);
    assert_eq!(machine.next_tick(), at(150) + REOFFER_EVERY);
    assert_eq!(on(&mut machine, at(151), E::Tick), []);
    let due = machine.next_tick();
    assert_eq!(on(&mut machine, due, E::Tick), first);
    let completed = E::Completed {
        id: id(1),
        oldest_pending: id(2),
    };
    assert_eq!(
        on(&mut machine, at(20_000), completed),
        [A::Settle(id(1), Outcome::Completed)]
    );
    assert_eq!(machine.next_tick(), Nanos::NEVER);
}

#[test]
fn a_late_write_is_deleted_and_not_acknowledged() {
    let mut machine = SubtaskSnapshots::new();
    on(&mut machine, at(0), E::Begin(cut(1, 1)));
    on(
        &mut machine,
        at(0),
        E::CutTaken {
            id: id(1),
            parts: 0,
            measured: CutMeasured::default(),
        },
    );
    let aborted = on(
        &mut machine,
        at(1),
        E::Aborted {
            id: id(1),
            oldest_pending: id(2),
        },
    );
    assert_eq!(
        aborted,
        [A::CancelWrite(id(1)), A::Settle(id(1), Outcome::Aborted)]
    );
    assert!(machine.is_busy());
    let late = on(
        &mut machine,
        at(2),
        E::WriteDone {
            id: id(1),
            result: Ok(written(1)),
        },
    );
    assert_eq!(
        late,
        [A::DeleteFiles {
            id: id(1),
            files: vec!["chk-1/a".into()]
        }]
    );
    assert!(!machine.is_busy());
}

#[test]
fn an_abort_that_comes_before_the_barrier_puts_a_marker_in_its_place() {
    let mut machine = SubtaskSnapshots::new();
    assert_eq!(
        on(
            &mut machine,
            at(0),
            E::Aborted {
                id: id(2),
                oldest_pending: id(1)
            }
        ),
        []
    );
    assert_eq!(
        on(&mut machine, at(0), E::Begin(cut(1, 1)))[..],
        [A::Proceed(cut(1, 1).barrier)]
    );
    assert_eq!(
        on(&mut machine, at(0), E::Begin(cut(2, 1))),
        [A::ForwardCancel(id(2))]
    );
    assert_eq!(
        on(
            &mut machine,
            at(0),
            E::Aborted {
                id: id(1),
                oldest_pending: id(3)
            }
        ),
        [A::ForwardCancel(id(1)), A::Settle(id(1), Outcome::Aborted)],
        "while the task prepares"
    );
}

#[test]
fn a_failed_write_is_declined_with_its_error() {
    let mut machine = SubtaskSnapshots::new();
    on(&mut machine, at(0), E::Begin(cut(1, 1)));
    on(
        &mut machine,
        at(0),
        E::CutTaken {
            id: id(1),
            parts: 0,
            measured: CutMeasured::default(),
        },
    );
    let actions = on(
        &mut machine,
        at(0),
        E::WriteDone {
            id: id(1),
            result: Err(failed(1)),
        },
    );
    let declined = A::Decline {
        id: id(1),
        reason: DeclineReason::AsyncFailed,
        detail: "disk full".into(),
    };
    let deleted = A::DeleteFiles {
        id: id(1),
        files: vec!["chk-1/a".into()],
    };
    assert_eq!(actions, [deleted, declined, A::Settle(id(1), Outcome::Aborted)]);
}
