//! The subtask's snapshots rule by rule.

use crate::common::subtask::{cut, failed, written, written_in_vain};
use crate::common::{at, id, ms};
use tidegate_protocol::message::DeclineReason;
use tidegate_protocol::subtask::{
    CutMeasured, CutTimes, Outcome, REOFFER_EVERY, SnapshotAction as A, SnapshotEvent as E, SubtaskSnapshots,
    Written,
};
use tidegate_types::Nanos;
use tidegate_types::SnapshotMode::{Aligned, Unaligned};
use tidegate_types::snapshot::SubtaskStats;

fn on(machine: &mut SubtaskSnapshots, now: Nanos, event: E) -> Vec<A> {
    let mut actions = Vec::new();
    machine.on_event(now, event, &mut actions);
    actions
}

fn start_of_write(actions: &[A]) -> CutTimes {
    let [A::StartWrite { times, .. }] = actions else {
        panic!("{actions:?}")
    };
    (**times).clone()
}

/// Runs checkpoint `n` to its write.
fn write(machine: &mut SubtaskSnapshots, n: u64) -> CutTimes {
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
    start_of_write(&on(machine, at(110), E::PartDone(id(n))))
}

fn write_done(machine: &mut SubtaskSnapshots, now: Nanos, written: Box<Written>) -> Vec<A> {
    on(
        machine,
        now,
        E::WriteDone {
            id: id(1),
            result: Ok(written),
        },
    )
}

#[test]
fn times_become_statistics() {
    let times = write(&mut SubtaskSnapshots::new(), 1);
    let stats = times.stats(at(150), SubtaskStats::default());
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
    let times = start_of_write(&on(&mut machine, at(1), E::PartDone(id(1))));
    let stats = times.stats(at(2), SubtaskStats::default());
    assert_eq!(stats.mode, Some(Unaligned));
}

#[test]
fn an_unanswered_acknowledgement_is_said_again() {
    let mut machine = SubtaskSnapshots::new();
    assert_eq!(machine.next_tick(), Nanos::NEVER);
    write(&mut machine, 1);
    let Written { snapshot, stats, .. } = *written(1);
    assert_eq!(
        write_done(&mut machine, at(150), written(1)),
        [A::Acknowledged {
            id: id(1),
            snapshot: snapshot.clone()
        }],
        "the writer has sent it"
    );
    assert_eq!(machine.next_tick(), at(150) + REOFFER_EVERY);
    assert_eq!(on(&mut machine, at(151), E::Tick), []);
    let due = machine.next_tick();
    assert_eq!(
        on(&mut machine, due, E::Tick),
        [A::AcknowledgeAgain {
            id: id(1),
            snapshot,
            stats
        }]
    );
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
    let late = write_done(&mut machine, at(2), written_in_vain(1));
    assert_eq!(
        late,
        [A::DeleteFiles {
            id: id(1),
            files: vec!["chk-1/a".into()]
        }]
    );
    assert!(!machine.is_busy());
}

/// The next barrier may be faster than the news of the write, on its way through the task's mailbox.
#[test]
fn a_write_that_a_barrier_says_is_decided_may_be_part_of_a_complete_checkpoint() {
    let passed = [
        A::CancelWrite(id(1)),
        A::Settle(id(1), Outcome::Unknown),
        A::Proceed(cut(2, 2).barrier),
    ];
    let mut machine = SubtaskSnapshots::new();
    write(&mut machine, 1);
    assert_eq!(on(&mut machine, at(160), E::Begin(cut(2, 2))), passed);
    assert_eq!(
        write_done(&mut machine, at(161), written(1)),
        [],
        "acknowledged: its files stay"
    );

    let mut machine = SubtaskSnapshots::new();
    write(&mut machine, 1);
    assert_eq!(on(&mut machine, at(160), E::Begin(cut(2, 2))), passed);
    let files = vec!["chk-1/a".to_owned()];
    assert_eq!(
        write_done(&mut machine, at(161), written_in_vain(1)),
        [A::DeleteFiles { id: id(1), files }],
        "never acknowledged: nobody names them"
    );
}

#[test]
fn an_acknowledged_write_goes_when_the_abort_is_known() {
    let mut machine = SubtaskSnapshots::new();
    write(&mut machine, 1);
    let aborted = E::Aborted {
        id: id(1),
        oldest_pending: id(2),
    };
    on(&mut machine, at(160), E::Begin(cut(2, 2)));
    assert_eq!(on(&mut machine, at(160), aborted), []);
    let files = vec!["chk-1/a".to_owned()];
    assert_eq!(
        write_done(&mut machine, at(161), written(1)),
        [A::DeleteFiles { id: id(1), files }]
    );
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
