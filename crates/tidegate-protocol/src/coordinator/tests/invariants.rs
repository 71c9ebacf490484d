//! The assertions catch what they are for: each is shown a state that must not be.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::rig::*;
use crate::coordinator::decider::Periodic;
use crate::coordinator::pending::{Parts, Stage};
use crate::coordinator::*;

/// What checking a spoilt coordinator says.
fn said(spoil: impl FnOnce(&mut Coordinator)) -> String {
    let settings = CoordinatorSettings {
        max_concurrent: 2,
        ..every_second()
    };
    let mut rig = Rig::collecting(settings, pair());
    rig.after(1000);
    rig.c.check_invariants();
    spoil(&mut rig.c);
    let panicked =
        catch_unwind(AssertUnwindSafe(|| rig.c.check_invariants())).expect_err("it must be noticed");
    panicked.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn a_gap_in_the_undecided_ids() {
    assert!(said(|c| c.next_id = id(4)).contains("is missing"));
}

#[test]
fn a_decision_out_of_turn() {
    let parts = |c: &Coordinator| {
        let subtasks = c
            .tasks
            .plan()
            .subtasks()
            .map(|subtask| (subtask, last_state(subtask)))
            .collect();
        Parts {
            subtasks,
            ..Parts::default()
        }
    };
    let text = said(|c| {
        let parts = parts(c);
        c.undecided.get_mut(&id(2)).expect("2 is pending").stage = Stage::WritingComplete(parts);
    });
    assert!(text.contains("out of turn"), "{text}");
}

#[test]
fn a_checkpoint_that_waits_for_nobody() {
    let text = said(|c| {
        let pending = c.undecided.get_mut(&id(1)).expect("1 is pending");
        pending.stage = Stage::Collecting {
            missing: Default::default(),
            parts: Parts::default(),
        };
    });
    assert!(text.contains("waits for nobody"), "{text}");
}

#[test]
fn a_timer_that_would_fire_without_end() {
    let text = said(|c| c.periodic = Periodic::Due(at(2000)));
    assert!(text.contains("would fire without end"), "{text}");
}

#[test]
fn an_id_decided_above_an_undecided_one() {
    let text = said(|c| c.decided.record(id(5), Verdict::Complete));
    assert!(text.contains("was overtaken"), "{text}");
}

#[test]
#[should_panic(expected = "time went")]
fn time_that_goes_backwards() {
    let mut rig = Rig::running(every_second(), pair());
    rig.after(10);
    rig.now = at(1);
    rig.on(CoordinatorEvent::Timeout);
}

#[test]
#[should_panic(expected = "told of its claim once")]
fn a_second_claim() {
    let mut rig = Rig::running(every_second(), pair());
    rig.claim(Claim {
        next_id: id(1),
        ..Claim::default()
    });
}
