//! The subtask's snapshots through every order of events: two checkpoints, each prepared, cut, collected in two
//! parts, written well or badly, declined by the handler, aborted or completed by the coordinator, known by its
//! own message or only by a later `oldest_pending`; a new leader asks once.

mod common;

use std::collections::HashSet;

use common::*;
use tidegate_protocol::barrier::Cut;
use tidegate_protocol::message::DeclineReason;
use tidegate_protocol::subtask::{
    CutMeasured, Outcome, REOFFER_EVERY, SnapshotAction as A, SnapshotEvent as E, SubtaskSnapshots,
    WriteFailed, Written,
};
use tidegate_types::SnapshotMode::{Aligned, Unaligned};
use tidegate_types::snapshot::{SubtaskSnapshot, SubtaskStats};
use tidegate_types::{CheckpointId, Nanos, SubtaskId, SubtaskIndex, VertexId};

const PARTS: u32 = 2;

fn cut(n: u64, oldest_pending: u64) -> Cut {
    let barrier = oldest(oldest_pending, barrier(n, Aligned).aged(ms(30)));
    Cut {
        barrier,
        mode: Aligned,
        start_delay: ms(10),
        alignment: ms(20),
    }
}

fn written(n: u64) -> Box<Written> {
    let subtask = SubtaskId::new(VertexId(0), SubtaskIndex(0));
    let snapshot = SubtaskSnapshot {
        subtask,
        sections: Vec::new(),
        finished: false,
    };
    Box::new(Written {
        snapshot,
        stats: SubtaskStats::default(),
        files: vec![format!("chk-{n}/a")],
    })
}

fn failed(n: u64) -> WriteFailed {
    WriteFailed {
        detail: "disk full".into(),
        files: vec![format!("chk-{n}/a")],
    }
}

/// What the world knows of one checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Known {
    begun: bool,
    proceeding: bool,
    cut_taken: bool,
    /// The cut was taken before the checkpoint was off, barrier and all.
    barrier_left: bool,
    parts: u32,
    writing: bool,
    written: bool,
    handler_declined: bool,
    refused: bool,
    aborted: bool,
    completed: bool,
    /// The coordinator decided it without saying so.
    passed: bool,
    acknowledged: bool,
    declined: bool,
    markers: u32,
    file_exists: bool,
    settled: Option<Outcome>,
}

impl Known {
    fn is_decided(&self) -> bool {
        self.aborted || self.completed || self.passed
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Begin(u64),
    Refuse(u64),
    CutTaken(u64),
    PartDone(u64),
    WriteDone(u64, bool),
    Decline(u64),
    Abort(u64),
    Complete(u64),
    /// The coordinator decides it, and the message is lost.
    Pass(u64),
    Reoffer,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    machine: SubtaskSnapshots,
    known: [Known; 2],
    reoffered: bool,
}

impl World {
    fn at(&mut self, n: u64) -> &mut Known {
        &mut self.known[n as usize - 1]
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for n in [1, 2] {
            let k = &self.known[n as usize - 1];
            let lower_begun = n == 1 || self.known[0].begun || self.known[0].is_decided();
            if !k.begun && lower_begun && !(n == 1 && self.known[1].begun) {
                steps.push(Step::Begin(n));
            }
            if k.proceeding && !k.cut_taken && !k.refused {
                steps.extend([Step::Refuse(n), Step::CutTaken(n)]);
            }
            // The input side's part may be first; the other one follows the cut.
            let parts = if k.cut_taken { PARTS } else { 1 };
            if k.proceeding && !k.refused && k.parts < parts {
                steps.push(Step::PartDone(n));
            }
            if k.writing && !k.written {
                steps.extend([Step::WriteDone(n, true), Step::WriteDone(n, false)]);
            }
            // Without channels left to wait for, the handler has nothing to decline.
            if !k.handler_declined && k.parts == 0 {
                steps.push(Step::Decline(n));
            }
            if !k.is_decided() {
                steps.extend([Step::Abort(n), Step::Pass(n)]);
                if k.acknowledged {
                    steps.push(Step::Complete(n));
                }
            }
        }
        if !self.reoffered {
            steps.push(Step::Reoffer);
        }
        steps
    }

    fn oldest_pending(&self) -> CheckpointId {
        id(self.known.iter().take_while(|k| k.is_decided()).count() as u64 + 1)
    }

    fn take(&mut self, step: Step) {
        let event = match step {
            Step::Begin(n) => {
                self.at(n).begun = true;
                E::Begin(cut(n, self.oldest_pending().0.min(n)))
            }
            Step::Refuse(n) => {
                self.at(n).refused = true;
                E::PrepareRefused {
                    id: id(n),
                    detail: "no".into(),
                }
            }
            Step::CutTaken(n) => {
                let k = self.at(n);
                (k.cut_taken, k.barrier_left) = (true, k.settled.is_none());
                E::CutTaken {
                    id: id(n),
                    parts: PARTS,
                    measured: CutMeasured::default(),
                }
            }
            Step::PartDone(n) => {
                self.at(n).parts += 1;
                E::PartDone(id(n))
            }
            Step::WriteDone(n, ok) => {
                let k = self.at(n);
                (k.written, k.file_exists) = (true, true);
                E::WriteDone {
                    id: id(n),
                    result: if ok { Ok(written(n)) } else { Err(failed(n)) },
                }
            }
            Step::Decline(n) => {
                self.at(n).handler_declined = true;
                E::Declined {
                    id: id(n),
                    reason: DeclineReason::CancelMarker,
                    detail: String::new(),
                }
            }
            Step::Abort(n) => {
                self.at(n).aborted = true;
                E::Aborted {
                    id: id(n),
                    oldest_pending: self.oldest_pending(),
                }
            }
            Step::Complete(n) => {
                self.at(n).completed = true;
                E::Completed {
                    id: id(n),
                    oldest_pending: self.oldest_pending(),
                }
            }
            Step::Pass(n) => {
                self.at(n).passed = true;
                return;
            }
            Step::Reoffer => {
                self.reoffered = true;
                E::Reoffer
            }
        };
        let mut actions = Vec::new();
        self.machine.on_event(Nanos(0), event, &mut actions);
        let mut offered = Vec::new();
        for action in actions {
            self.carry_out(step, action, &mut offered);
        }
        if let Step::Begin(n) = step {
            let k = self.at(n);
            assert!(k.proceeding != (k.markers == 1), "a barrier or a marker goes out");
        }
        if step == Step::Reoffer {
            let held = [1, 2].map(id).into_iter().filter(|n| {
                let k = &self.known[n.0 as usize - 1];
                k.acknowledged && k.settled.is_none()
            });
            assert_eq!(offered, held.collect::<Vec<_>>());
        }
    }

    fn carry_out(&mut self, step: Step, action: A, offered: &mut Vec<CheckpointId>) {
        match action {
            A::Proceed(barrier) => {
                assert_eq!(step, Step::Begin(barrier.id.0));
                assert!(!self.at(barrier.id.0).aborted && !self.at(barrier.id.0).handler_declined);
                self.at(barrier.id.0).proceeding = true;
            }
            A::ForwardCancel(n) => {
                let k = self.at(n.0);
                assert!(!k.barrier_left, "the barrier has left");
                assert!(!k.handler_declined || !k.proceeding, "the handler has sent one");
                k.markers += 1;
                assert_eq!(k.markers, 1);
            }
            A::StartWrite(n) => {
                let k = self.at(n.0);
                assert!(k.cut_taken && k.parts == PARTS && !k.writing && k.settled.is_none());
                k.writing = true;
            }
            A::CancelWrite(n) => assert!(self.at(n.0).writing && !self.at(n.0).written),
            A::Acknowledge { id: n, .. } => {
                let k = self.at(n.0);
                assert!(k.written && k.file_exists && !k.declined && !k.aborted && k.settled.is_none());
                assert!(k.acknowledged == (step == Step::Reoffer), "once unasked");
                k.acknowledged = true;
                offered.push(n);
            }
            A::Decline { id: n, .. } => {
                let k = self.at(n.0);
                assert!(!k.declined && !k.acknowledged && !k.aborted);
                k.declined = true;
            }
            A::DeleteFiles { id: n, files } => {
                let k = self.at(n.0);
                assert_eq!(files, [format!("chk-{n}/a")]);
                assert!(k.file_exists && !k.completed);
                assert!(
                    !k.acknowledged || k.aborted,
                    "an acknowledged one goes when its abort is durable"
                );
                k.file_exists = false;
            }
            A::Settle(n, outcome) => {
                let k = self.at(n.0);
                assert!(k.proceeding && k.settled.is_none());
                match outcome {
                    Outcome::Completed => assert!(k.completed),
                    Outcome::Aborted => assert!(!k.completed && (k.aborted || !k.acknowledged)),
                    Outcome::Unknown => assert!(k.acknowledged && k.passed),
                }
                k.settled = Some(outcome);
            }
        }
    }

    /// Nothing can happen any more: one last barrier says that everything is decided.
    fn check_end(mut self) {
        let mut actions = Vec::new();
        self.machine.on_event(Nanos(0), E::Begin(cut(3, 3)), &mut actions);
        for action in actions {
            match action {
                A::Proceed(barrier) => assert_eq!(barrier.id, id(3)),
                A::Settle(n, Outcome::Unknown) => {
                    self.carry_out(Step::Begin(3), A::Settle(n, Outcome::Unknown), &mut Vec::new());
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(self.machine.acknowledged().count(), 0);
        for k in &self.known {
            let kept = k.file_exists;
            assert!(
                !kept || k.completed || (k.acknowledged && k.passed),
                "a file nobody names stays: {k:?}"
            );
            assert!(!k.completed || kept);
            assert!(
                !k.proceeding || k.settled.is_some(),
                "state waits for an outcome: {k:?}"
            );
            let told = k.markers + u32::from(k.barrier_left) + u32::from(k.handler_declined);
            assert!(!k.begun || told > 0, "downstream waits: {k:?}");
        }
    }
}

#[test]
fn every_order_of_events_of_two_checkpoints() {
    let mut visited = HashSet::new();
    let start = World {
        machine: SubtaskSnapshots::new(),
        known: Default::default(),
        reoffered: false,
    };
    let mut todo = vec![start];
    let mut ends = 0u64;
    while let Some(world) = todo.pop() {
        let steps = world.steps();
        if steps.is_empty() {
            ends += 1;
            world.check_end();
            continue;
        }
        for step in steps {
            let mut next = world.clone();
            next.take(step);
            if visited.insert(next.clone()) {
                todo.push(next);
            }
        }
    }
    println!("{} states, {ends} ends", visited.len());
    assert!(ends > 1000, "the world goes on to its ends");
}

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
