//! Barrier handling rule by rule: put the handler into a state, tell it one thing, compare the actions.

use crate::common::*;
use tidegate_protocol::barrier::{BarrierAction as A, BarrierEvent as E, BarrierHandler};
use tidegate_protocol::message::DeclineReason;
use tidegate_types::EdgeKind::{Feedback, Normal, Sealed};
use tidegate_types::SnapshotMode::{Aligned, AtLeastOnce, Unaligned};

fn declined(actions: &[A]) -> Option<(DeclineReason, &str)> {
    actions.iter().find_map(|a| match a {
        A::Decline { reason, detail, .. } => Some((*reason, detail.as_str())),
        _ => None,
    })
}

#[test]
fn aligned_blocks_cuts_and_releases() {
    let mut task = BarrierHandler::new(vec![Normal, Sealed]);
    assert_eq!(on(&mut task, at(0), E::Announced(ch(0), barrier(1, Aligned))), []);
    assert_eq!(
        on(
            &mut task,
            at(10),
            E::Barrier(ch(0), barrier(1, Aligned).aged(ms(40)))
        ),
        [A::Block(ch(0))]
    );
    assert_eq!(task.missing(id(1)).collect::<Vec<_>>(), [ch(1)]);
    let actions = on(&mut task, at(25), E::Barrier(ch(1), barrier(1, Aligned)));
    let cut = the_cut(&actions);
    assert_eq!((cut.start_delay, cut.alignment), (ms(10), ms(15)));
    assert_eq!(
        cut.barrier.age,
        ms(25),
        "since it was seen first: the trigger is the same for all"
    );
    assert_eq!(
        (&actions[0], &actions[2..]),
        (
            &A::Block(ch(1)),
            &[A::Release(ch(0)), A::Release(ch(1)), A::AllBarriersIn(id(1))][..]
        )
    );
    assert_eq!(cut.mode, Aligned);
}

#[test]
fn at_least_once_counts_and_never_blocks() {
    let mut task = BarrierHandler::new(vec![Normal, Sealed]);
    assert_eq!(
        on(&mut task, at(0), E::Barrier(ch(1), barrier(1, AtLeastOnce))),
        []
    );
    assert_eq!(
        on(&mut task, at(0), E::Barrier(ch(1), barrier(2, AtLeastOnce))),
        []
    );
    let first = on(&mut task, at(0), E::Barrier(ch(0), barrier(1, AtLeastOnce)));
    assert_eq!(
        (the_cut(&first).barrier.id, the_cut(&first).mode),
        (id(1), AtLeastOnce)
    );
    let second = on(&mut task, at(0), E::Barrier(ch(0), barrier(2, AtLeastOnce)));
    assert_eq!(the_cut(&second).barrier.id, id(2));
}

#[test]
fn unaligned_captures_until_the_last_barrier() {
    let mut task = BarrierHandler::new(vec![Normal, Normal]);
    let actions = on(&mut task, at(0), E::Announced(ch(1), barrier(1, Unaligned)));
    assert_eq!(
        (&actions[..3], actions.len()),
        (
            &[
                A::BeginCapture(id(1), ch(0)),
                A::BeginCapture(id(1), ch(1)),
                A::Overtake(id(1), ch(1))
            ][..],
            4
        )
    );
    // The channel brings its barrier, still called adaptive: its producer hadn't heard.
    let last = on(&mut task, at(0), E::Announced(ch(0), barrier(1, ADAPTIVE)));
    assert_eq!(last, [A::Overtake(id(1), ch(0)), A::AllBarriersIn(id(1))]);
}

#[test]
fn a_barrier_reached_before_its_announcement_ends_the_capture_where_it_stands() {
    let mut task = BarrierHandler::new(vec![Normal, Normal]);
    on(&mut task, at(0), E::Announced(ch(1), barrier(1, Unaligned)));
    let last = on(&mut task, at(0), E::Barrier(ch(0), barrier(1, Unaligned)));
    assert_eq!(last, [A::EndCapture(id(1), ch(0)), A::AllBarriersIn(id(1))]);
    assert_eq!(
        on(&mut task, at(0), E::Announced(ch(0), barrier(1, Unaligned))),
        [],
        "old news"
    );
}

#[test]
fn an_adaptive_checkpoint_converts_with_its_own_barriers() {
    let mut task = BarrierHandler::new(vec![Normal, Normal]);
    on(&mut task, at(0), E::Announced(ch(0), barrier(1, ADAPTIVE)));
    assert_eq!(
        on(&mut task, at(1), E::Barrier(ch(0), barrier(1, ADAPTIVE))),
        [A::Block(ch(0))]
    );
    let actions = on(&mut task, at(5), E::Announced(ch(1), barrier(1, Unaligned)));
    assert_eq!(
        actions[..2],
        [A::BeginCapture(id(1), ch(1)), A::Overtake(id(1), ch(1))]
    );
    assert_eq!(
        (the_cut(&actions).mode, the_cut(&actions).alignment),
        (Unaligned, ms(4))
    );
    assert_eq!(on(&mut task, at(2000), E::AlignmentTimeout(id(1))), [], "stale");
}

#[test]
fn an_adaptive_checkpoint_that_is_in_time_stays_aligned_and_adaptive() {
    let mut task = BarrierHandler::new(vec![Normal]);
    let actions = on(&mut task, at(0), E::Barrier(ch(0), barrier(1, ADAPTIVE)));
    assert_eq!(actions[0], A::ArmTimeout(id(1), ms(1000)));
    assert_eq!(
        (the_cut(&actions).mode, the_cut(&actions).barrier.mode),
        (Aligned, ADAPTIVE)
    );
}

#[test]
fn an_unaligned_checkpoint_converts_the_aligned_one_before_it() {
    let mut task = BarrierHandler::new(vec![Normal, Normal]);
    on(&mut task, at(0), E::Announced(ch(0), barrier(1, Aligned)));
    let actions = on(&mut task, at(0), E::Announced(ch(0), barrier(2, Unaligned)));
    let order = cuts(&actions)
        .iter()
        .map(|c| (c.barrier.id, c.mode, c.barrier.mode))
        .collect::<Vec<_>>();
    assert_eq!(
        order,
        [(id(1), Unaligned, Unaligned), (id(2), Unaligned, Unaligned)]
    );
}

#[test]
fn sealed_channels_put_off_an_unaligned_cut_and_block_the_others_meanwhile() {
    let mut task = BarrierHandler::new(vec![Normal, Normal, Sealed]);
    assert_eq!(
        on(&mut task, at(0), E::Announced(ch(0), barrier(1, Unaligned))),
        []
    );
    assert_eq!(
        on(&mut task, at(0), E::Announced(ch(2), barrier(1, Unaligned))),
        []
    );
    assert_eq!(
        on(&mut task, at(3), E::Barrier(ch(0), barrier(1, Unaligned))),
        [A::Block(ch(0))]
    );
    let actions = on(&mut task, at(9), E::Barrier(ch(2), barrier(1, Unaligned)));
    assert_eq!(actions[..2], [A::Block(ch(2)), A::BeginCapture(id(1), ch(1))]);
    assert_eq!(actions[3..], [A::Release(ch(0)), A::Release(ch(2))]);
    assert_eq!(
        (the_cut(&actions).start_delay, the_cut(&actions).alignment),
        (ms(0), ms(9))
    );
}

#[test]
fn a_feedback_channel_is_captured_from_the_cut_until_its_barrier_returns_in_every_mode() {
    for mode in [Aligned, ADAPTIVE, AtLeastOnce, QUIESCE, Unaligned] {
        let mut head = BarrierHandler::new(vec![Normal, Feedback]);
        on(&mut head, at(0), E::Announced(ch(0), barrier(1, mode)));
        if mode != Unaligned {
            let actions = on(&mut head, at(0), E::Barrier(ch(0), barrier(1, mode)));
            assert!(actions.contains(&A::BeginCapture(id(1), ch(1))), "{mode}");
            assert!(!actions.contains(&A::Block(ch(1))));
            assert_eq!(
                the_cut(&actions).mode,
                if mode == ADAPTIVE { Aligned } else { mode }
            );
        }
        let back = on(&mut head, at(0), E::Announced(ch(1), barrier(1, mode)));
        assert_eq!(
            back,
            [A::Overtake(id(1), ch(1)), A::AllBarriersIn(id(1))],
            "{mode}"
        );
    }
}

#[test]
fn a_feedback_barrier_that_is_reached_before_the_cut_waits_for_it() {
    let mut head = BarrierHandler::new(vec![Sealed, Feedback]);
    assert_eq!(
        on(&mut head, at(0), E::Barrier(ch(1), barrier(1, Unaligned))),
        [A::Block(ch(1))]
    );
    let actions = on(&mut head, at(0), E::Barrier(ch(0), barrier(1, Unaligned)));
    assert_eq!(
        actions[2..],
        [A::Release(ch(0)), A::Release(ch(1)), A::AllBarriersIn(id(1))]
    );
}

#[test]
fn ended_channels_count_as_in_and_block_nothing() {
    let mut task = BarrierHandler::new(vec![Normal, Normal, Sealed]);
    on(&mut task, at(0), E::Barrier(ch(0), barrier(1, Aligned)));
    assert_eq!(on(&mut task, at(0), E::End(ch(2))), []);
    let actions = on(&mut task, at(0), E::End(ch(1)));
    assert_eq!(the_cut(&actions).mode, Aligned);
    assert_eq!(actions[1..], [A::Release(ch(0)), A::AllBarriersIn(id(1))]);
    // From now on only the living channel matters.
    let next = on(&mut task, at(0), E::Barrier(ch(0), barrier(2, Aligned)));
    assert_eq!(the_cut(&next).barrier.id, id(2));
}

#[test]
fn an_end_in_the_queue_ends_captures_without_being_reached() {
    // Queued before the cut, as in a channel that only delivers restored records.
    let mut task = BarrierHandler::new(vec![Normal, Normal, Normal]);
    on(&mut task, at(0), E::EndQueued(ch(0)));
    let actions = on(&mut task, at(0), E::Announced(ch(1), barrier(1, Unaligned)));
    assert_eq!(
        actions[..2],
        [A::BeginCapture(id(1), ch(0)), A::CaptureRest(id(1), ch(0))]
    );
    // Queued after the cut.
    let last = on(&mut task, at(0), E::EndQueued(ch(2)));
    assert_eq!(last, [A::CaptureRest(id(1), ch(2)), A::AllBarriersIn(id(1))]);
    // Reached without having been announced.
    let mut task = BarrierHandler::new(vec![Normal, Normal]);
    on(&mut task, at(0), E::Announced(ch(1), barrier(1, Unaligned)));
    assert_eq!(
        on(&mut task, at(0), E::End(ch(0))),
        [A::EndCapture(id(1), ch(0)), A::AllBarriersIn(id(1))]
    );
}

#[test]
fn a_trigger_by_message_is_a_barrier_behind_every_end() {
    let mut aligned = BarrierHandler::new(vec![Normal, Sealed]);
    on(&mut aligned, at(0), E::EndQueued(ch(0)));
    assert_eq!(on(&mut aligned, at(0), E::Triggered(barrier(1, Aligned))), []);
    assert_eq!(on(&mut aligned, at(2), E::End(ch(0))), []);
    let actions = on(&mut aligned, at(6), E::End(ch(1)));
    assert_eq!(
        (the_cut(&actions).mode, the_cut(&actions).alignment),
        (Aligned, ms(6))
    );

    let mut unaligned = BarrierHandler::new(vec![Normal, Normal]);
    on(&mut unaligned, at(0), E::EndQueued(ch(0)));
    let actions = on(&mut unaligned, at(0), E::Triggered(barrier(1, Unaligned)));
    assert_eq!(
        actions[..3],
        [
            A::BeginCapture(id(1), ch(0)),
            A::CaptureRest(id(1), ch(0)),
            A::BeginCapture(id(1), ch(1))
        ]
    );
    let last = on(&mut unaligned, at(0), E::EndQueued(ch(1)));
    assert_eq!(last, [A::CaptureRest(id(1), ch(1)), A::AllBarriersIn(id(1))]);
}

#[test]
fn a_quiesced_checkpoint_is_declined_at_its_limit() {
    let mut task = BarrierHandler::new(vec![Normal, Normal, Feedback]);
    let armed = on(
        &mut task,
        at(0),
        E::Announced(ch(0), barrier(1, QUIESCE).aged(ms(10_000))),
    );
    assert_eq!(armed, [A::ArmTimeout(id(1), ms(20_000))]);
    on(&mut task, at(0), E::Barrier(ch(0), barrier(1, QUIESCE)));
    let actions = on(&mut task, at(20_000), E::AlignmentTimeout(id(1)));
    assert_eq!(actions[..2], [A::Release(ch(0)), A::ForwardCancel(id(1))]);
    let (reason, detail) = declined(&actions).unwrap();
    assert_eq!(reason, DeclineReason::QuiesceLimit);
    assert!(detail.contains("channel 1"), "it names what is missing: {detail}");
    // A barrier that is late already is declined where it is met first.
    let mut late = BarrierHandler::new(vec![Normal]);
    let actions = on(
        &mut late,
        at(0),
        E::Announced(ch(0), barrier(1, QUIESCE).aged(ms(30_000))),
    );
    assert_eq!(declined(&actions).unwrap().0, DeclineReason::QuiesceLimit);
    assert_eq!(on(&mut late, at(0), E::Barrier(ch(0), barrier(1, QUIESCE))), []);
}

#[test]
fn a_cancel_marker_gives_up_a_pending_checkpoint_before_and_after_its_cut() {
    let mut before = BarrierHandler::new(vec![Normal, Normal]);
    on(&mut before, at(0), E::Barrier(ch(0), barrier(1, Aligned)));
    let actions = on(&mut before, at(0), E::Cancel(ch(1), id(1)));
    assert_eq!(actions[..2], [A::Release(ch(0)), A::ForwardCancel(id(1))]);
    assert_eq!(declined(&actions).unwrap().0, DeclineReason::CancelMarker);

    let mut after = BarrierHandler::new(vec![Normal, Normal]);
    on(&mut after, at(0), E::Announced(ch(0), barrier(1, Unaligned)));
    let actions = on(&mut after, at(0), E::Cancel(ch(1), id(1)));
    assert_eq!(actions[..2], [A::DropCaptures(id(1)), A::ForwardCancel(id(1))]);
    assert_eq!(
        on(&mut after, at(0), E::Announced(ch(1), barrier(1, Unaligned))),
        [],
        "swallowed"
    );
    assert_eq!(
        on(&mut after, at(0), E::Barrier(ch(1), barrier(1, Unaligned))),
        []
    );
}

#[test]
fn a_cancel_leaves_lower_checkpoints_alone() {
    let mut task = BarrierHandler::new(vec![Normal, Normal]);
    on(&mut task, at(0), E::Announced(ch(0), barrier(1, Aligned)));
    assert_eq!(
        on(&mut task, at(0), E::Cancel(ch(0), id(2)))[0],
        A::ForwardCancel(id(2))
    );
    assert!(task.is_collecting(id(1)));
}

#[test]
fn an_abort_by_message_is_followed_by_a_marker_where_the_barrier_would_have_gone() {
    let mut task = BarrierHandler::new(vec![Normal, Normal]);
    let abort = |id, oldest_pending| E::Aborted { id, oldest_pending };
    assert_eq!(
        on(&mut task, at(0), abort(id(2), id(1))),
        [],
        "nothing came of it"
    );
    on(&mut task, at(0), E::Announced(ch(0), barrier(1, Aligned)));
    assert!(task.is_collecting(id(1)), "a lower one is not meant");
    let swallowed = on(&mut task, at(0), E::Announced(ch(0), barrier(2, Aligned)));
    assert_eq!(swallowed, [A::ForwardCancel(id(2))]);
    assert_eq!(on(&mut task, at(0), E::Announced(ch(1), barrier(1, Aligned))), []);
    assert_eq!(
        on(&mut task, at(0), E::Announced(ch(1), barrier(2, Aligned))),
        [],
        "once"
    );
    // While it waits, and after the cut.
    on(&mut task, at(0), E::Barrier(ch(0), barrier(1, Aligned)));
    assert_eq!(
        on(&mut task, at(0), abort(id(1), id(3))),
        [A::Release(ch(0)), A::ForwardCancel(id(1))]
    );
    on(&mut task, at(0), E::Announced(ch(0), barrier(3, Unaligned)));
    assert_eq!(
        on(&mut task, at(0), abort(id(3), id(4))),
        [A::DropCaptures(id(3))],
        "every task is told"
    );
}

#[test]
fn a_newer_barrier_says_what_is_decided() {
    let mut task = BarrierHandler::new(vec![Normal, Normal]);
    on(&mut task, at(0), E::Barrier(ch(0), barrier(1, Aligned)));
    on(&mut task, at(0), E::Announced(ch(1), barrier(1, Aligned)));
    // Queued behind a block: said all the same.
    let actions = on(
        &mut task,
        at(0),
        E::Announced(ch(0), oldest(2, barrier(2, Aligned))),
    );
    assert_eq!(actions[..2], [A::Release(ch(0)), A::ForwardCancel(id(1))]);
    assert_eq!(declined(&actions).unwrap().0, DeclineReason::Subsumed);
    assert_eq!(
        on(&mut task, at(0), E::Barrier(ch(1), barrier(1, Aligned))),
        [],
        "swallowed"
    );
    on(
        &mut task,
        at(0),
        E::Barrier(ch(0), oldest(2, barrier(2, Aligned))),
    );
    let cut = on(
        &mut task,
        at(0),
        E::Barrier(ch(1), oldest(2, barrier(2, Aligned))),
    );
    assert_eq!(the_cut(&cut).barrier.oldest_pending, id(2));
    assert_eq!(on(&mut task, at(0), E::OldestPending(id(3))), []);
}

#[test]
fn a_channel_that_brings_the_next_barrier_instead_ends_the_wait() {
    // One source never got trigger 1, nobody has decided it.
    let mut task = BarrierHandler::new(vec![Normal, Normal]);
    on(&mut task, at(0), E::Barrier(ch(0), barrier(1, Aligned)));
    let actions = on(&mut task, at(0), E::Announced(ch(1), barrier(2, Aligned)));
    assert_eq!(actions[..2], [A::Release(ch(0)), A::ForwardCancel(id(1))]);
    assert!(declined(&actions).unwrap().1.contains("channel 1"));
    // The other way round.
    let mut task = BarrierHandler::new(vec![Normal, Normal]);
    on(&mut task, at(0), E::Barrier(ch(1), barrier(2, Aligned)));
    let actions = on(&mut task, at(0), E::Announced(ch(0), barrier(1, Aligned)));
    assert_eq!(actions[0], A::ForwardCancel(id(1)));
    assert_eq!(declined(&actions).unwrap().0, DeclineReason::Subsumed);
    assert_eq!(on(&mut task, at(0), E::Barrier(ch(0), barrier(1, Aligned))), []);
    let cut = on(&mut task, at(0), E::Barrier(ch(0), barrier(2, Aligned)));
    assert_eq!(the_cut(&cut).barrier.id, id(2));
}

#[test]
fn what_was_seen_last_bounds_the_ids_of_a_new_coordinator() {
    let mut task = BarrierHandler::new(vec![Normal, Normal]);
    assert_eq!(task.newest_seen(), id(0));
    on(&mut task, at(0), E::Announced(ch(0), barrier(3, Aligned)));
    assert_eq!(task.newest_seen(), id(3));
    on(
        &mut task,
        at(0),
        E::Aborted {
            id: id(5),
            oldest_pending: id(3),
        },
    );
    assert_eq!(task.newest_seen(), id(5));
}

#[test]
#[should_panic(expected = "nothing follows a channel's end")]
fn a_barrier_behind_the_end_is_a_bug() {
    let mut task = BarrierHandler::new(vec![Normal]);
    on(&mut task, at(0), E::End(ch(0)));
    on(&mut task, at(0), E::Barrier(ch(0), barrier(1, Aligned)));
}

#[test]
#[should_panic(expected = "nothing is taken from a blocked channel")]
fn taking_from_a_blocked_channel_is_a_bug() {
    let mut task = BarrierHandler::new(vec![Normal, Normal]);
    on(&mut task, at(0), E::Barrier(ch(0), barrier(1, Aligned)));
    on(&mut task, at(0), E::Barrier(ch(0), barrier(2, Aligned)));
}
