//! What can happen next, and what does when it is chosen.

use std::time::Duration;

use tidegate_types::{CheckpointKind, SavepointFormat};

use super::checks::Object;
use super::rng::Rng;
use super::task::{State, Upstream};
use super::world::World;
use crate::coordinator::*;
use crate::message::{DeclineReason, FromTask};

#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    ToTask(usize),
    FromTask(usize),
    Cut(usize),
    GiveUp(usize),
    Write(usize),
    End(usize),
    Store(usize),
    Answer(usize),
    Commit(usize),
    Time,
    Ask,
    RunDry(usize),
    Replace,
    Stop,
}

impl World {
    fn upstream(&self, t: usize) -> Vec<Upstream<'_>> {
        let of = |producer: &usize| {
            let producer = &self.tasks[*producer];
            Upstream {
                cut: &producer.cut,
                cancelled: &producer.cancelled,
                ended: producer.has_ended(),
            }
        };
        self.tasks[t].producers.iter().map(of).collect()
    }

    /// What can happen next without a fault and without time passing.
    pub(super) fn enabled(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (t, task) in self.tasks.iter().enumerate() {
            let upstream = self.upstream(t);
            let may = [
                (Step::ToTask(t), !task.inbox.is_empty()),
                (
                    Step::FromTask(t),
                    !task.outbox.is_empty() || task.state == State::Starting,
                ),
                (Step::Cut(t), task.next_cut(&upstream).is_some()),
                (Step::GiveUp(t), task.next_cancel(&upstream).is_some()),
                (Step::Write(t), task.is_writing()),
                (Step::End(t), task.may_end(&upstream)),
            ];
            steps.extend(may.into_iter().filter(|(_, may)| *may).map(|(step, _)| step));
        }
        for (l, leader) in self.leaders.iter().enumerate() {
            let may = [
                (Step::Store(l), !leader.writes.is_empty()),
                (Step::Answer(l), !leader.answers.is_empty()),
                (Step::Commit(l), !leader.commits.is_empty()),
            ];
            steps.extend(may.into_iter().filter(|(_, may)| *may).map(|(step, _)| step));
        }
        steps
    }

    pub(super) fn take(&mut self, step: Step) {
        match step {
            Step::ToTask(t) => {
                if let Some((epoch, message)) = self.tasks[t].inbox.pop_front() {
                    self.tasks[t].hear(epoch, message);
                }
            }
            Step::FromTask(t) => self.deliver(t),
            Step::Cut(t) => {
                if let Some((id, kind, mode)) = self.tasks[t].next_cut(&self.upstream(t)) {
                    if self.faults && self.rng.one_in(40) {
                        let reason = self
                            .rng
                            .pick(&[DeclineReason::PrepareRefused, DeclineReason::NotReady]);
                        self.tasks[t].cancel(id, reason);
                    } else {
                        self.tasks[t].cut(id, kind, mode);
                    }
                }
            }
            Step::GiveUp(t) => {
                if let Some(id) = self.tasks[t].next_cancel(&self.upstream(t)) {
                    self.tasks[t].cancel(id, DeclineReason::CancelMarker);
                }
            }
            Step::Write(t) => {
                let fails = self.faults && self.rng.one_in(30);
                self.tasks[t].write(&mut self.rng, fails);
            }
            Step::End(t) => {
                self.tasks[t].end();
                if self.tasks[t].state == State::Waiting {
                    self.summary.saw("waited");
                }
            }
            Step::Store(l) => self.write(l),
            Step::Answer(l) => self.answer(l),
            Step::Commit(l) => {
                if let Some(id) = self.leaders[l].commits.pop_first() {
                    self.leaders[l].answers.push(CoordinatorEvent::Committed { id });
                }
            }
            Step::Time => self.pass_time(),
            Step::Ask => self.ask(),
            Step::RunDry(t) => self.tasks[t].ends = true,
            Step::Replace => {
                if self.rng.one_in(2) && self.tasks.iter().all(|task| task.state != State::Starting) {
                    self.take_over();
                } else {
                    self.deploy();
                }
            }
            Step::Stop => {
                let discard_retained = self.rng.one_in(2);
                self.tell(self.current(), CoordinatorEvent::Stop { discard_retained });
            }
        }
    }

    fn deliver(&mut self, t: usize) {
        if self.tasks[t].state == State::Starting {
            self.tasks[t].state = State::Running;
            self.tasks[t].say(FromTask::Running);
            return;
        }
        let Some(envelope) = self.tasks[t].outbox.pop_front() else {
            return;
        };
        let may_be_lost = matches!(
            envelope.body,
            FromTask::Acknowledged { .. }
                | FromTask::Declined { .. }
                | FromTask::AwaitingLastCheckpoint
                | FromTask::StillRunning { .. }
        );
        if self.faults && may_be_lost && self.rng.one_in(20) {
            return;
        }
        if self.faults && self.rng.one_in(20) {
            self.tasks[t].outbox.push_back(envelope.clone());
        }
        // Everybody hears it; who it isn't for ignores it.
        for l in 0..self.leaders.len() {
            self.tell(l, CoordinatorEvent::FromTask(envelope.clone()));
        }
    }

    /// The store carries out a write, well, not at all, or without saying so.
    fn write(&mut self, l: usize) {
        let Some((id, decision)) = self.leaders[l].writes.pop() else {
            return;
        };
        let epoch = self.leaders[l].epoch;
        let how = if self.faults { self.rng.below(10) } else { 9 };
        let error = String::new;
        if how == 0 {
            let outcome = DecisionOutcome::Failed { error: error() };
            return self.leaders[l]
                .answers
                .push(CoordinatorEvent::DecisionWritten { id, outcome });
        }
        let unclear_before = self
            .store
            .objects
            .get(&id)
            .is_some_and(|object| object.epoch == epoch);
        let object = self.store.objects.entry(id).or_insert_with(|| Object {
            epoch,
            content: match decision {
                Decision::Complete(content) => Some(*content),
                Decision::Aborted(_) => None,
            },
        });
        let outcome = if object.epoch == epoch {
            DecisionOutcome::Mine(object.verdict())
        } else {
            DecisionOutcome::Foreign
        };
        let complete = object.content.as_ref().map(|content| content.kind);
        let outcome = if how == 1 {
            self.summary.saw("unclear");
            DecisionOutcome::Failed { error: error() }
        } else {
            match complete {
                Some(kind) => {
                    self.summary.saw("complete");
                    if unclear_before {
                        self.summary.saw("unclear but complete");
                    }
                    match kind {
                        CheckpointKind::Checkpoint => {}
                        CheckpointKind::Savepoint { stop: true, .. } => self.summary.saw("suspended"),
                        CheckpointKind::Savepoint { stop: false, .. } => self.summary.saw("savepoint"),
                    }
                }
                None => self.summary.saw("aborted"),
            }
            outcome
        };
        self.leaders[l]
            .answers
            .push(CoordinatorEvent::DecisionWritten { id, outcome });
    }

    fn answer(&mut self, l: usize) {
        let n = self.rng.below(self.leaders[l].answers.len());
        let event = self.leaders[l].answers.remove(n);
        // All but this can be told apart from an answer to what is asked next.
        let failed_write = matches!(
            event,
            CoordinatorEvent::DecisionWritten {
                outcome: DecisionOutcome::Failed { .. },
                ..
            }
        );
        if self.faults && !failed_write && self.rng.one_in(20) {
            self.leaders[l].answers.push(event.clone());
        }
        self.tell(l, event);
    }

    /// To the next timeout, or some other way ahead; tasks say again what they may have said in vain.
    fn pass_time(&mut self) {
        let l = self.current();
        let next = self.leaders[l].c.next_timeout();
        let jump = self.now + Duration::from_millis(1 + self.rng.next() % 3000);
        self.now = match next {
            Some(next) if !self.faults || self.rng.one_in(2) => next,
            Some(_) | None => jump,
        };
        for task in self.tasks.iter_mut().filter(|task| task.outbox.is_empty()) {
            task.offer_again();
        }
        for l in 0..self.leaders.len() {
            if l == self.current() || self.rng.one_in(3) {
                self.tell(l, CoordinatorEvent::Timeout);
            }
        }
    }

    fn ask(&mut self) {
        let order = |rng: &mut Rng| SavepointOrder {
            format: rng.pick(&[SavepointFormat::Canonical, SavepointFormat::Native]),
            target: None,
            unaligned: rng.one_in(3),
        };
        let savepoint = order(&mut self.rng);
        let maybe = if self.rng.one_in(2) {
            Some(savepoint.clone())
        } else {
            None
        };
        let what = match self.rng.below(9) {
            0..3 => Request::Checkpoint {
                full: self.rng.one_in(2),
            },
            3..6 => Request::Savepoint(savepoint),
            6 | 7 => Request::Suspend { savepoint: maybe },
            _ => Request::Drain { savepoint: maybe },
        };
        self.request(what);
    }

    pub(super) fn request(&mut self, what: Request) -> RequestId {
        let request = RequestId(self.requests);
        self.requests += 1;
        let l = self.current();
        self.leaders[l].asked.insert(request);
        self.tell(l, CoordinatorEvent::Request { request, what });
        request
    }
}
