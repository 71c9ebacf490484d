//! The judge is judged: each way to make a snapshot wrong is found, and a right one is accepted.

use tidegate_protocol::oracle::{Oracle, Promise, Share, Violation};
use tidegate_types::{ChannelIndex, CheckpointId};

const ID: CheckpointId = CheckpointId(1);
const CH: ChannelIndex = ChannelIndex(0);

/// One channel, `before` records sent before the barrier and `after` behind it, `seen` of them processed.
fn channel(before: u32, after: u32, seen: u32) -> Oracle {
    let mut oracle = Oracle::new(1);
    (0..before).for_each(|_| assert!(oracle.record_sent(CH) < before));
    oracle.barrier_sent(CH, ID);
    (0..after).for_each(|_| assert!(oracle.record_sent(CH) >= before));
    (0..seen).for_each(|_| oracle.record_processed(CH));
    oracle
}

fn inconsistent(oracle: &mut Oracle) -> bool {
    matches!(
        oracle.complete(ID),
        Err(Violation::Inconsistent {
            id: ID,
            channel: CH,
            ..
        })
    )
}

#[test]
fn state_and_captured_records_up_to_the_barrier_are_a_snapshot() {
    let mut oracle = channel(3, 1, 1);
    oracle.record_captured(ID, CH, 1).unwrap();
    oracle.cut(ID, Promise::ExactlyOnce).unwrap();
    oracle.record_processed(CH);
    oracle.record_captured(ID, CH, 2).unwrap();
    assert_eq!(
        oracle.complete(ID),
        Ok(vec![Share {
            before: 1,
            captured: Some((1, 3))
        }])
    );
}

#[test]
fn a_record_that_is_missing_is_found() {
    for promise in [Promise::ExactlyOnce, Promise::AtLeastOnce] {
        // Neither processed nor captured: at the end, at the beginning, all.
        let mut oracle = channel(3, 0, 1);
        oracle.cut(ID, promise).unwrap();
        oracle.record_captured(ID, CH, 1).unwrap();
        assert!(inconsistent(&mut oracle));
        let mut oracle = channel(3, 0, 1);
        oracle.cut(ID, promise).unwrap();
        oracle.record_captured(ID, CH, 2).unwrap();
        assert!(inconsistent(&mut oracle));
        let mut oracle = channel(3, 0, 1);
        oracle.cut(ID, promise).unwrap();
        assert!(inconsistent(&mut oracle));
    }
}

#[test]
fn a_record_that_is_there_twice_is_found_unless_that_is_allowed() {
    let captured_too = |promise| {
        let mut oracle = channel(3, 0, 2);
        oracle.cut(ID, promise).unwrap();
        oracle.record_captured(ID, CH, 1).unwrap();
        oracle.record_captured(ID, CH, 2).unwrap();
        oracle
    };
    assert!(inconsistent(&mut captured_too(Promise::ExactlyOnce)));
    captured_too(Promise::AtLeastOnce).complete(ID).unwrap();
}

#[test]
fn a_record_from_behind_the_barrier_is_found_unless_that_is_allowed() {
    let mut oracle = channel(2, 2, 3);
    oracle.cut(ID, Promise::ExactlyOnce).unwrap();
    assert!(inconsistent(&mut oracle), "in the state");
    let mut oracle = channel(2, 2, 3);
    oracle.cut(ID, Promise::AtLeastOnce).unwrap();
    oracle.complete(ID).unwrap();
    let mut oracle = channel(2, 2, 2);
    oracle.cut(ID, Promise::ExactlyOnce).unwrap();
    oracle.record_captured(ID, CH, 2).unwrap();
    assert!(inconsistent(&mut oracle), "captured");
}

#[test]
fn captured_records_stand_in_order_and_once() {
    let mut oracle = channel(3, 0, 0);
    oracle.record_captured(ID, CH, 0).unwrap();
    for record in [0, 2] {
        let wrong = Err(Violation::CapturedOutOfOrder {
            id: ID,
            channel: CH,
            record,
        });
        assert_eq!(oracle.record_captured(ID, CH, record), wrong);
    }
}

#[test]
fn a_snapshot_ends_with_the_barrier_or_the_channel() {
    let mut oracle = Oracle::new(1);
    oracle.record_sent(CH);
    oracle.record_captured(ID, CH, 0).unwrap();
    oracle.cut(ID, Promise::ExactlyOnce).unwrap();
    let mut early = oracle.clone();
    assert_eq!(
        early.complete(ID),
        Err(Violation::EndedEarly { id: ID, channel: CH })
    );
    oracle.end_sent(CH);
    oracle.complete(ID).unwrap();
}

#[test]
fn cuts_fall_once_and_in_order() {
    let mut oracle = Oracle::new(1);
    oracle.cut(CheckpointId(2), Promise::ExactlyOnce).unwrap();
    for id in [1, 2].map(CheckpointId) {
        assert!(matches!(
            oracle.cut(id, Promise::ExactlyOnce),
            Err(Violation::WrongCut { .. })
        ));
    }
    assert!(
        matches!(oracle.complete(CheckpointId(3)), Err(Violation::WrongFate { .. })),
        "not cut at all"
    );
}

#[test]
fn what_is_dropped_leaves_no_trace() {
    let mut oracle = channel(1, 0, 0);
    oracle.record_captured(ID, CH, 0).unwrap();
    oracle.drop_snapshot(ID);
    oracle.record_captured(ID, CH, 0).unwrap();
}
