//! How a checkpoint is given up, and how the attempt is.
//!
//! Owns: failing a checkpoint with everything that follows, expiry, the report of a culprit that comes behind its
//! echo, stopping and stepping down. Does not own: which reasons count (`failure.rs`), writing `aborted`
//! (`decision.rs`).

use std::mem;

use tidegate_types::{CheckpointId, SnapshotMode, SubtaskId};

use super::action::{CoordinatorAction, RequestFailure};
use super::decider::Periodic;
use super::event::CoordinatorEvent;
use super::failure::{FailureReason, FailureRecord};
use super::last::Ending;
use super::pending::{AbortWrite, Pending, Purpose, Stage};
use super::trace::TraceStep;
use super::{Coordinator, Fate, Phase, StartMode};
use crate::message::ToTask;

/// How many failures are remembered whose reason is only an echo: more than can be pending at once.
const ECHOES: usize = 64;

/// How many missing subtasks an expiry names.
const NAMED_MISSING: usize = 8;

impl Coordinator {
    /// Gives an undecided checkpoint up. Whoever asked for it and tasks that stand still for it hear at once, unless a
    /// complete decision may have been written already; that it is aborted tasks hear when that stands.
    pub(super) fn fail(
        &mut self,
        id: CheckpointId,
        reason: FailureReason,
        subtask: Option<SubtaskId>,
        detail: String,
    ) {
        let Some(pending) = self.undecided.get_mut(&id) else {
            return;
        };
        let (unclear, copy_begun) = match &mut pending.stage {
            Stage::SnapshottingEnumerators | Stage::Collecting { .. } | Stage::ExternalPhase(_) => {
                (None, false)
            }
            Stage::CopyingSavepoint(_) => (None, true),
            Stage::AwaitingTurn(parts) => (None, parts.path.is_some()),
            Stage::WritingComplete(parts) => {
                let copy_begun = parts.path.is_some();
                (Some(Box::new(mem::take(parts))), copy_begun)
            }
            Stage::Aborting { .. } => return,
        };
        let counted = reason.counts() && pending.purpose.counts();
        let record = FailureRecord {
            id: Some(id),
            reason,
            subtask,
            detail,
            counted,
        };
        let (purpose, mode) = (pending.purpose.clone(), pending.mode);
        let untold = unclear.is_some();
        pending.stage = Stage::Aborting {
            record: record.clone(),
            unclear,
            copy_begun,
            write: AbortWrite::AwaitingTurn,
        };
        self.trace(Some(id), || TraceStep::Failed(reason));
        self.history.failed(id, record.clone(), self.now);
        let uncovered = self.tasks.uncover(id, false);
        if uncovered || matches!(purpose, Purpose::Drain { .. }) {
            self.last_retry.failed(self.now);
        }
        if reason.is_echo() {
            self.echoes.push_back(id);
            self.echoes.drain(..self.echoes.len().saturating_sub(ECHOES));
        }
        if !untold {
            self.let_go(id, &purpose, mode);
            self.answer_failed(&purpose, record.clone());
        }
        if counted {
            self.count_failure(record);
        }
    }

    /// Tells tasks that stand still for a failed checkpoint to go on.
    pub(super) fn let_go(&mut self, id: CheckpointId, purpose: &Purpose, mode: SnapshotMode) {
        if !self.tasks_listen() {
            return;
        }
        let stand_still = match purpose {
            Purpose::Suspend { .. } => true,
            // Nobody here knows what the barriers of an earlier leadership said.
            Purpose::Inherited => self.mode == StartMode::Takeover,
            Purpose::Periodic
            | Purpose::Last
            | Purpose::Requested { .. }
            | Purpose::Savepoint { .. }
            | Purpose::Drain { .. } => false,
        };
        if stand_still || matches!(mode, SnapshotMode::Quiesce { .. }) {
            self.send(self.tasks.unfinished(), ToTask::Resume { id });
        }
    }

    /// Answers whoever asked for it. Nothing after this can complete the checkpoint.
    pub(super) fn answer_failed(&mut self, purpose: &Purpose, record: FailureRecord) {
        match purpose {
            Purpose::Requested { request, .. } | Purpose::Savepoint { request, .. } => {
                self.answer(*request, Err(RequestFailure::Failed(Box::new(record))));
            }
            Purpose::Suspend { request, .. } => {
                self.ending = Ending::Not;
                self.answer(*request, Err(RequestFailure::Failed(Box::new(record))));
            }
            // The job can't go back to before its sources ended; it is tried again.
            Purpose::Drain { .. } => {}
            Purpose::Periodic | Purpose::Last | Purpose::Inherited => {}
        }
    }

    fn count_failure(&mut self, record: FailureRecord) {
        if self.tolerance.failed() && self.tasks_listen() {
            self.fail_job(record);
        }
    }

    /// The attempt can't go on.
    pub(super) fn fail_job(&mut self, record: FailureRecord) {
        self.out.push(CoordinatorAction::FailJob(Box::new(record)));
        self.begin_stopping(
            FailureReason::JobStopped,
            None,
            "too many checkpoints failed",
            false,
        );
    }

    /// A decline of a checkpoint that has failed: if what is known so far is only an echo of this, this is the reason.
    pub(super) fn on_late_decline(
        &mut self,
        id: CheckpointId,
        reason: FailureReason,
        subtask: SubtaskId,
        detail: String,
    ) {
        let Some(place) = self.echoes.iter().position(|echo| *echo == id) else {
            return self.ignore(Some(id), subtask, "a decline of what has failed");
        };
        if reason.is_echo() {
            return;
        }
        self.echoes.remove(place);
        let purpose_counts = match self.undecided.get(&id) {
            Some(pending) => pending.purpose.counts(),
            None => !self
                .history
                .get(id)
                .is_some_and(|stats| stats.kind.is_savepoint()),
        };
        let counted = reason.counts() && purpose_counts;
        let record = FailureRecord {
            id: Some(id),
            reason,
            subtask: Some(subtask),
            detail,
            counted,
        };
        self.trace(Some(id), || TraceStep::Failed(reason));
        self.history.failed(id, record.clone(), self.now);
        if counted {
            self.count_failure(record);
        }
    }

    /// Gives up what has taken too long.
    pub(super) fn expire(&mut self) {
        let now = self.now;
        let late = |pending: &&Pending| pending.is_live() && pending.timeout().is_some_and(|at| at <= now);
        let late: Vec<_> = self
            .undecided
            .values()
            .filter(late)
            .map(|pending| pending.id)
            .collect();
        for id in late {
            let Some(pending) = self.undecided.get(&id) else {
                continue;
            };
            let at_rest_too_long = pending.quiesce_until.is_some_and(|until| until <= now);
            let reason = if at_rest_too_long {
                FailureReason::QuiesceLimit
            } else {
                FailureReason::Expired
            };
            let (subtask, detail) = self.what_is_missing(pending);
            self.fail(id, reason, subtask, detail);
        }
    }

    /// What a late checkpoint waits for, and the subtask if it is only one.
    fn what_is_missing(&self, pending: &Pending) -> (Option<SubtaskId>, String) {
        match &pending.stage {
            Stage::SnapshottingEnumerators => (None, "the split enumerators have not answered".to_owned()),
            Stage::Collecting { missing, .. } => {
                let named: Vec<_> = missing
                    .iter()
                    .take(NAMED_MISSING)
                    .map(|id| self.name_of(*id))
                    .collect();
                let more = missing.len().saturating_sub(NAMED_MISSING);
                let more = if more > 0 {
                    format!(" and {more} more")
                } else {
                    String::new()
                };
                let only = if missing.len() == 1 {
                    missing.first().copied()
                } else {
                    None
                };
                (
                    only,
                    format!("no acknowledgement from {}{more}", named.join(", ")),
                )
            }
            Stage::ExternalPhase(_) => (None, "the external phase has not ended".to_owned()),
            Stage::CopyingSavepoint(_) => (None, "the savepoint's directory is not complete".to_owned()),
            Stage::AwaitingTurn(_) => match self.committing.first() {
                Some(id) => (None, format!("what checkpoint {id} lists is not committed yet")),
                None => (
                    None,
                    "the decision on an earlier checkpoint could not be written yet".to_owned(),
                ),
            },
            Stage::WritingComplete(_) | Stage::Aborting { .. } => (None, String::new()),
        }
    }

    fn name_of(&self, subtask: SubtaskId) -> String {
        let plan = self.tasks.plan();
        match plan.vertices().iter().find(|vertex| vertex.id == subtask.vertex) {
            Some(vertex) => format!("{} ({}/{})", subtask, vertex.name, subtask.index),
            None => subtask.to_string(),
        }
    }

    pub(super) fn on_task_failed(&mut self, subtask: SubtaskId, error: &str) {
        self.begin_stopping(FailureReason::TaskFailed, Some(subtask), error, false);
    }

    pub(super) fn on_stop(&mut self, discard_retained: bool) {
        self.begin_stopping(FailureReason::JobStopped, None, "", discard_retained);
    }

    /// Nothing starts any more, and what is pending is aborted.
    fn begin_stopping(
        &mut self,
        reason: FailureReason,
        subtask: Option<SubtaskId>,
        detail: &str,
        discard_retained: bool,
    ) {
        match &mut self.phase {
            Phase::Stopping { retained } => {
                if discard_retained && *retained == Fate::Kept {
                    *retained = Fate::ToClose;
                }
                return;
            }
            Phase::Deposed => return,
            Phase::Claiming | Phase::Adopting(_) | Phase::RestoringEnumerators | Phase::Active => {}
        }
        let retained = if discard_retained {
            Fate::ToClose
        } else {
            Fate::Kept
        };
        self.phase = Phase::Stopping { retained };
        self.periodic = Periodic::Off;
        let given_up = self
            .undecided
            .values()
            .filter(|p| p.is_live() && !matches!(p.stage, Stage::WritingComplete(_)));
        let given_up: Vec<_> = given_up.map(|pending| pending.id).collect();
        for id in given_up {
            self.fail(id, reason, subtask, detail.to_owned());
        }
        self.refuse_all(&FailureRecord {
            id: None,
            reason,
            subtask,
            detail: detail.to_owned(),
            counted: false,
        });
    }

    /// After a cancel: complete checkpoints are given up once nothing is undecided, so that none of them is needed.
    pub(super) fn close_when_drained(&mut self) {
        match &mut self.phase {
            Phase::Stopping { retained } if *retained == Fate::ToClose => {
                if self.undecided.is_empty() && self.committing.is_empty() {
                    *retained = Fate::Closed;
                    self.out.push(CoordinatorAction::Close);
                }
            }
            Phase::Stopping { .. }
            | Phase::Claiming
            | Phase::Adopting(_)
            | Phase::RestoringEnumerators
            | Phase::Active
            | Phase::Deposed => {}
        }
    }

    /// Another leadership stands at `id`: from here on nothing is touched.
    pub(super) fn step_down(&mut self, id: CheckpointId) {
        self.phase = Phase::Deposed;
        self.periodic = Periodic::Off;
        let record = |id| FailureRecord {
            id: Some(id),
            reason: FailureReason::Deposed,
            subtask: None,
            detail: String::new(),
            counted: false,
        };
        self.history.failed(id, record(id), self.now);
        for (id, _) in mem::take(&mut self.undecided) {
            self.history.failed(id, record(id), self.now);
        }
        self.committing.clear();
        self.out.push(CoordinatorAction::StepDown { id });
        self.refuse_all(&record(id));
    }

    /// A deposed coordinator answers and does nothing else.
    pub(super) fn when_deposed(&mut self, event: CoordinatorEvent) {
        match event {
            CoordinatorEvent::Request { request, .. } => {
                let reason = format!("{}. {}", FailureReason::Deposed, FailureReason::Deposed.remedy());
                self.out.push(CoordinatorAction::Answer {
                    request,
                    result: Err(RequestFailure::Refused { reason }),
                });
            }
            CoordinatorEvent::Claimed(_)
            | CoordinatorEvent::FromTask(_)
            | CoordinatorEvent::EnumeratorsSnapshotted { .. }
            | CoordinatorEvent::EnumeratorsFailed { .. }
            | CoordinatorEvent::EnumeratorsRestored
            | CoordinatorEvent::ExternalPhaseDone { .. }
            | CoordinatorEvent::ExternalPhaseFailed { .. }
            | CoordinatorEvent::SavepointCopied { .. }
            | CoordinatorEvent::SavepointCopyFailed { .. }
            | CoordinatorEvent::DecisionWritten { .. }
            | CoordinatorEvent::Committed { .. }
            | CoordinatorEvent::Deposed { .. }
            | CoordinatorEvent::Stop { .. }
            | CoordinatorEvent::Timeout => {}
        }
    }
}
