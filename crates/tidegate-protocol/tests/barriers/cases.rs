//! Barrier handling in the situations that hurt users of other engines, one by one: late cancels, several gates,
//! mixed edges, several checkpoints in flight, triggers to busy producers.

use crate::common::*;
use tidegate_protocol::barrier::{BarrierAction as A, BarrierEvent as E, BarrierHandler};
use tidegate_protocol::message::DeclineReason;
use tidegate_protocol::oracle::model::Model;
use tidegate_types::EdgeKind::{Normal, Sealed};
use tidegate_types::SnapshotMode::{Aligned, Unaligned};

/// A passes barriers 1 and 2, B is slow with 1, which is aborted: barrier 2 from A, cancel 1 from B, barrier 2
/// from B. The abort's own message may reach the join before, between or never.
#[test]
fn a_late_cancel_neither_ends_nor_holds_the_next_checkpoint() {
    for hint in [Some(0), Some(1), Some(2), None] {
        let mut join = BarrierHandler::new(vec![Normal, Normal]);
        let block = on(&mut join, at(0), E::Barrier(ch(0), barrier(1, Aligned)));
        assert_eq!(block, [A::Block(ch(0))]);
        let mut markers = Vec::new();
        let mut hint_at = |n, join: &mut BarrierHandler| {
            if hint == Some(n) {
                let aborted = E::Aborted {
                    id: id(1),
                    oldest_pending: id(2),
                };
                markers.extend(on(join, at(5), aborted));
            }
        };
        hint_at(0, &mut join);
        // In A's queue behind barrier 1. It says that 1 is decided, so A is released and it can be reached.
        let newer = oldest(2, barrier(2, Aligned));
        let announced = on(&mut join, at(10), E::Announced(ch(0), newer.clone()));
        assert!(!join.is_blocked(ch(0)));
        assert_eq!(
            on(&mut join, at(10), E::Barrier(ch(0), newer.clone())),
            [A::Block(ch(0))]
        );
        hint_at(1, &mut join);
        let cancelled = on(&mut join, at(20), E::Cancel(ch(1), id(1)));
        hint_at(2, &mut join);
        let cut = on(&mut join, at(30), E::Barrier(ch(1), newer));

        assert_eq!(the_cut(&cut).barrier.id, id(2));
        assert_eq!(
            the_cut(&cut).alignment,
            ms(20),
            "counted from barrier 2, not from barrier 1"
        );
        assert!(cut.contains(&A::AllBarriersIn(id(2))));
        assert!(!join.is_blocked(ch(0)) && !join.is_blocked(ch(1)));
        assert_eq!(join.pending().count(), 0);
        markers.extend(announced);
        markers.extend(cancelled);
        let forwarded = markers.iter().filter(|a| **a == A::ForwardCancel(id(1))).count();
        assert_eq!(forwarded, 1, "hint {hint:?}: one marker for 1");
        assert!(!markers.contains(&A::ForwardCancel(id(2))));
    }
}

/// The same without barrier 1 ever having reached the join.
#[test]
fn a_cancel_of_an_unseen_checkpoint_is_passed_on_once() {
    let mut join = BarrierHandler::new(vec![Normal, Normal]);
    assert_eq!(
        on(&mut join, at(0), E::Barrier(ch(0), barrier(2, Aligned))),
        [A::Block(ch(0))]
    );
    let cancelled = on(&mut join, at(1), E::Cancel(ch(1), id(1)));
    assert_eq!(cancelled[0], A::ForwardCancel(id(1)));
    assert!(
        matches!(&cancelled[1], A::Decline { id: n, reason: DeclineReason::CancelMarker, .. } if *n == id(1))
    );
    assert_eq!(on(&mut join, at(2), E::Cancel(ch(0), id(1))), []);
    assert_eq!(
        on(&mut join, at(3), E::Barrier(ch(1), barrier(1, Aligned))),
        [],
        "swallowed, not blocked"
    );
    let cut = on(&mut join, at(4), E::Barrier(ch(1), barrier(2, Aligned)));
    assert_eq!(the_cut(&cut).barrier.id, id(2));
}

/// Two gates of two channels, three records in each; unaligned barriers in every order, with the task taking
/// `taken` records between any two of them.
#[test]
fn every_order_of_barriers_over_two_gates_captures_what_was_queued_before() {
    let orders = orders(4, 1);
    assert_eq!(orders.len(), 24);
    for order in orders {
        for taken in 0..=3 {
            let mut task = Model::new(&[Normal; 4]);
            for channel in 0..4 {
                for _ in 0..3 {
                    task.send_record(channel).unwrap();
                }
            }
            let mut held = Vec::new();
            for (n, &channel) in order.iter().enumerate() {
                task.send_barrier(channel, barrier(1, Unaligned));
                task.send_record(channel).unwrap();
                task.announce_all(channel).unwrap();
                assert_eq!(!cuts(task.actions()).is_empty(), n == 0, "the first barrier cuts");
                held.extend_from_slice(task.completed());
                for step in 0..taken {
                    let next = (channel + step) % 4;
                    if task.can_take(next) {
                        task.take(next).unwrap();
                    }
                }
            }
            let [(completed, shares)] = &held[..] else {
                panic!("complete with the last barrier: {held:?}")
            };
            assert_eq!(*completed, id(1));
            // Nothing was taken before the first barrier: all that stood before the barriers is in flight.
            assert!(
                shares.iter().all(|s| s.before == 0 && s.captured == Some((0, 3))),
                "{order:?} {shares:?}"
            );
        }
    }
}

/// source → hash → map → forward → sink fed by a broadcast too. The timeout passes while the sink stands still.
#[test]
fn each_edge_does_what_it_can_when_the_timeout_passes() {
    // The map has hash inputs: it converts at once.
    let mut map = BarrierHandler::new(vec![Normal, Normal]);
    let armed = on(
        &mut map,
        at(100),
        E::Announced(ch(0), barrier(1, ADAPTIVE).aged(ms(300))),
    );
    assert_eq!(armed, [A::ArmTimeout(id(1), ms(700))], "counted from the trigger");
    let converted = on(&mut map, at(800), E::AlignmentTimeout(id(1)));
    assert_eq!(
        converted[..2],
        [A::BeginCapture(id(1), ch(0)), A::Overtake(id(1), ch(0))]
    );
    assert_eq!(converted[2], A::BeginCapture(id(1), ch(1)));
    let cut = the_cut(&converted);
    assert_eq!(
        (cut.mode, cut.barrier.mode, cut.barrier.age),
        (Unaligned, Unaligned, ms(1000))
    );
    assert_eq!((cut.start_delay, cut.alignment), (ms(1000), ms(0)));

    // The sink's broadcast channel can't be overtaken.
    let sink = || {
        let mut sink = BarrierHandler::new(vec![Normal, Sealed]);
        on(&mut sink, at(0), E::Announced(ch(0), barrier(1, ADAPTIVE)));
        on(&mut sink, at(0), E::Announced(ch(1), barrier(1, ADAPTIVE)));
        sink
    };
    // It stands still with both barriers queued: nothing overtakes, on neither edge.
    let mut still = sink();
    assert_eq!(on(&mut still, at(1000), E::AlignmentTimeout(id(1))), []);
    // It goes on and reaches the broadcast's barrier first: the forward one overtakes.
    let overtook = on(&mut still, at(1200), E::Barrier(ch(1), barrier(1, ADAPTIVE)));
    assert_eq!(
        overtook[..3],
        [
            A::Block(ch(1)),
            A::BeginCapture(id(1), ch(0)),
            A::Overtake(id(1), ch(0))
        ],
        "the broadcast isn't captured"
    );
    assert_eq!(
        (the_cut(&overtook).mode, the_cut(&overtook).alignment),
        (Unaligned, ms(200))
    );
    assert_eq!(overtook[4..], [A::Release(ch(1)), A::AllBarriersIn(id(1))]);
    // It goes on and reaches the forward barrier first: that channel waits, and nothing overtook here after all.
    let mut aligned = sink();
    on(&mut aligned, at(1000), E::AlignmentTimeout(id(1)));
    assert_eq!(
        on(&mut aligned, at(1100), E::Barrier(ch(0), barrier(1, ADAPTIVE))),
        [A::Block(ch(0))]
    );
    let cut = on(&mut aligned, at(1200), E::Barrier(ch(1), barrier(1, ADAPTIVE)));
    assert_eq!(
        (the_cut(&cut).mode, the_cut(&cut).barrier.mode),
        (Aligned, Unaligned)
    );
    // Fed by the map, the barrier says itself that it overtook.
    let mut told = BarrierHandler::new(vec![Normal, Sealed]);
    on(&mut told, at(0), E::Announced(ch(1), barrier(1, ADAPTIVE)));
    assert_eq!(
        on(&mut told, at(1), E::Announced(ch(0), barrier(1, Unaligned))),
        []
    );
    let cut = on(&mut told, at(2), E::Barrier(ch(1), barrier(1, ADAPTIVE)));
    assert_eq!(the_cut(&cut).mode, Unaligned);
}

/// Barriers 1, 2 and 3 overtake on three channels in every order that FIFO allows, a record between any two.
#[test]
fn concurrent_unaligned_checkpoints_complete_in_every_order() {
    let orders = orders(3, 3);
    assert_eq!(orders.len(), 1680);
    for modes in [
        [Unaligned; 3],
        [Aligned, Unaligned, Unaligned],
        [ADAPTIVE, ADAPTIVE, Unaligned],
    ] {
        for order in &orders {
            let mut task = Model::new(&[Normal; 3]);
            let mut sent = [0; 3];
            let (mut cut, mut completed) = (Vec::new(), Vec::new());
            for &channel in order {
                task.send_record(channel).unwrap();
                sent[channel] += 1;
                task.send_barrier(channel, barrier(sent[channel], modes[sent[channel] as usize - 1]));
                task.announce_all(channel).unwrap();
                cut.extend(cuts(task.actions()).iter().map(|c| c.barrier.id));
                completed.extend(task.completed().iter().map(|(id, _)| *id));
            }
            assert_eq!(cut, [id(1), id(2), id(3)], "in order: {order:?}");
            completed.sort();
            assert_eq!(completed, [id(1), id(2), id(3)]);
            assert!((0..3).all(|channel| !task.is_blocked(channel)));
        }
    }
}

/// Checkpoint 1 is an aligned savepoint: what comes behind it neither converts it nor overtakes before it is cut.
#[test]
fn behind_an_aligned_savepoint_nothing_overtakes() {
    for order in orders(3, 3) {
        let mut task = Model::new(&[Normal; 3]);
        let mut sent = [0; 3];
        for &channel in &order {
            task.send_record(channel).unwrap();
            sent[channel] += 1;
            let barrier = match sent[channel] {
                1 => savepoint(1, Aligned),
                2 => barrier(2, ADAPTIVE),
                id => barrier(id, Unaligned),
            };
            task.send_barrier(channel, barrier);
            task.announce_all(channel).unwrap();
            assert!(
                cuts(task.actions()).is_empty(),
                "the savepoint's barriers weren't reached"
            );
        }
        task.time_out(&barrier(2, ADAPTIVE)).unwrap();
        assert!(cuts(task.actions()).is_empty(), "adaptive ones stay aligned");
        let mut cut = Vec::new();
        for channel in 0..3 {
            // The record, then the savepoint's barrier.
            task.take(channel).unwrap();
            task.take(channel).unwrap();
            cut.extend(cuts(task.actions()).iter().map(|c| (c.barrier.id, c.mode)));
        }
        assert_eq!(
            cut,
            [(id(1), Aligned), (id(2), Unaligned), (id(3), Unaligned)],
            "{order:?}"
        );
    }
}

/// Given up, the savepoint doesn't hold back any longer either.
#[test]
fn an_aborted_savepoint_lets_the_next_overtake() {
    let mut task = BarrierHandler::new(vec![Normal, Normal]);
    on(&mut task, at(0), E::Barrier(ch(0), savepoint(1, Aligned)));
    assert_eq!(
        on(&mut task, at(0), E::Announced(ch(0), barrier(2, Unaligned))),
        []
    );
    let aborted = on(
        &mut task,
        at(0),
        E::Aborted {
            id: id(1),
            oldest_pending: id(2),
        },
    );
    assert_eq!(
        aborted[..4],
        [
            A::Release(ch(0)),
            A::ForwardCancel(id(1)),
            A::BeginCapture(id(2), ch(0)),
            A::Overtake(id(2), ch(0))
        ]
    );
    assert_eq!(the_cut(&aborted).barrier.id, id(2));
}

/// A trigger to a task without channels cuts at once, whatever the mode; how it overtakes what the task itself
/// has queued is the task's affair.
#[test]
fn a_source_cuts_when_it_is_triggered() {
    for mode in [Unaligned, Aligned] {
        let mut source = BarrierHandler::new(Vec::new());
        let actions = on(&mut source, at(7), E::Triggered(barrier(1, mode).aged(ms(5))));
        let [A::Cut(cut), A::AllBarriersIn(n)] = &actions[..] else {
            panic!("{actions:?}")
        };
        assert_eq!((cut.mode, cut.barrier.mode, *n), (mode, mode, id(1)));
        assert_eq!((cut.start_delay, cut.alignment), (ms(5), ms(0)));
    }
    // An adaptive trigger whose time is up when the mail is read is an unaligned one.
    let mut source = BarrierHandler::new(Vec::new());
    let late = on(
        &mut source,
        at(0),
        E::Triggered(barrier(1, ADAPTIVE).aged(ms(1000))),
    );
    assert_eq!(
        (the_cut(&late).mode, the_cut(&late).barrier.mode),
        (Unaligned, Unaligned)
    );
    // One that was aborted before is answered by a marker in the barrier's place.
    let mut source = BarrierHandler::new(Vec::new());
    assert_eq!(
        on(
            &mut source,
            at(0),
            E::Aborted {
                id: id(1),
                oldest_pending: id(1)
            }
        ),
        []
    );
    assert_eq!(
        on(&mut source, at(0), E::Triggered(barrier(1, Aligned))),
        [A::ForwardCancel(id(1))]
    );
}
