//! The subtask's snapshots through every order of events: two checkpoints, each prepared, cut, collected in two
//! parts, written well or badly, declined by the handler, aborted or completed by the coordinator, known by its
//! own message or only by a later `oldest_pending`; a new leader asks once.

use std::collections::HashSet;

use crate::common::subtask::{cut, failed, written, written_in_vain};
use crate::common::*;
use tidegate_protocol::message::DeclineReason;
use tidegate_protocol::subtask::{
    CutMeasured, Outcome, SnapshotAction as A, SnapshotEvent as E, SubtaskSnapshots,
};
use tidegate_types::{CheckpointId, Nanos};

const PARTS: u32 = 2;

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
    cancelled: bool,
    /// How the write ended, if it has; the machine is told later.
    wrote: Option<bool>,
    told: bool,
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
    /// The writer is done, well or badly, and has acknowledged; the machine doesn't know.
    Write(u64, bool),
    WriteDone(u64),
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
            match k.wrote {
                None if k.writing => steps.extend([Step::Write(n, true), Step::Write(n, false)]),
                Some(_) if !k.told => steps.push(Step::WriteDone(n)),
                _ => {}
            }
            // Without channels left to wait for, the handler has nothing to decline.
            if !k.handler_declined && k.parts == 0 {
                steps.push(Step::Decline(n));
            }
            if !k.is_decided() {
                steps.extend([Step::Abort(n), Step::Pass(n)]);
                // The coordinator's word comes behind the writer's.
                if k.acknowledged && k.told {
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

    fn write_done(&mut self, n: u64) -> E {
        let k = self.at(n);
        k.told = true;
        E::WriteDone {
            id: id(n),
            result: match k.wrote {
                Some(true) if k.acknowledged => Ok(written(n)),
                Some(true) => Ok(written_in_vain(n)),
                _ => Err(failed(n)),
            },
        }
    }

    /// What the machine is told of a step, if anything.
    fn event(&mut self, step: Step) -> Option<E> {
        Some(match step {
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
            Step::Write(n, well) => {
                let k = self.at(n);
                (k.wrote, k.file_exists) = (Some(well), true);
                k.acknowledged = well && !k.cancelled;
                return None;
            }
            Step::WriteDone(n) => self.write_done(n),
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
                return None;
            }
            Step::Reoffer => {
                self.reoffered = true;
                E::Reoffer
            }
        })
    }

    fn take(&mut self, step: Step) {
        let Some(event) = self.event(step) else { return };
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
                k.acknowledged && k.told && k.settled.is_none()
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
            A::StartWrite { id: n, .. } => {
                let k = self.at(n.0);
                assert!(k.cut_taken && k.parts == PARTS && !k.writing && k.settled.is_none());
                k.writing = true;
            }
            A::CancelWrite(n) => {
                let k = self.at(n.0);
                assert!(k.writing && !k.told);
                // Too late for one that was acknowledged.
                k.cancelled = k.wrote.is_none();
            }
            A::Acknowledged { id: n, .. } => {
                let k = self.at(n.0);
                assert_eq!(step, Step::WriteDone(n.0));
                assert!(k.acknowledged && k.file_exists && !k.declined && !k.aborted && k.settled.is_none());
            }
            A::AcknowledgeAgain { id: n, .. } => {
                let k = self.at(n.0);
                assert!(step == Step::Reoffer && k.acknowledged && k.told);
                assert!(k.file_exists && !k.declined && !k.aborted && k.settled.is_none());
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
                    Outcome::Unknown => assert!(k.writing && k.passed),
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
