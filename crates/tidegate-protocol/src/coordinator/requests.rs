//! What people ask for, and the start of whatever may start.
//!
//! Owns: the queue of requests, refusals and answers (each request is answered exactly once), and the order in which
//! those who want a checkpoint get one: tasks that wait, people, the interval.
//! Does not own: starting itself (`trigger.rs`), what stopping means (`last.rs`).

use std::collections::{BTreeSet, VecDeque};

use tidegate_types::{CheckpointId, SnapshotMode};

use super::action::{CoordinatorAction, RequestDone, RequestFailure};
use super::decider::{Hold, Periodic};
use super::event::{Request, RequestId};
use super::failure::{FailureReason, FailureRecord};
use super::last::Ending;
use super::pending::{Purpose, Stage};
use super::trace::TraceStep;
use super::{Coordinator, Phase};

/// How many requests wait at most; people ask, and each waits for minutes at worst.
pub(super) const MAX_WAITING: usize = 32;

/// How many undecided ids there may be before nothing starts any more: while the store refuses `aborted`, failures
/// would pile up without end.
pub(super) const MAX_UNDECIDED: usize = 32;

/// Requests that aren't answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RequestQueue {
    /// Not started, oldest first.
    waiting: VecDeque<(RequestId, Purpose)>,
    /// All that aren't answered.
    open: BTreeSet<RequestId>,
}

impl Coordinator {
    pub(super) fn on_request(&mut self, request: RequestId, what: Request) {
        if !self.requests.open.insert(request) {
            // The one before keeps its place; its answer is this one's.
            return;
        }
        if let Some(reason) = self.refusal(&what) {
            return self.refuse(request, reason);
        }
        let purpose = match what {
            Request::Checkpoint { full } => Purpose::Requested { request, full },
            Request::Savepoint(order) => Purpose::Savepoint { request, order },
            Request::Suspend { savepoint } => {
                self.ending = Ending::Suspending;
                Purpose::Suspend { request, savepoint }
            }
            Request::Drain { savepoint } => return self.begin_drain(request, savepoint),
        };
        self.requests.waiting.push_back((request, purpose));
    }

    /// Why a request can't even wait.
    fn refusal(&self, what: &Request) -> Option<String> {
        let in_words = |reason: FailureReason| Some(format!("{reason}. {}", reason.remedy()));
        match self.phase {
            Phase::Claiming | Phase::Adopting(_) | Phase::RestoringEnumerators => {
                return in_words(FailureReason::NotReady);
            }
            Phase::Stopping { .. } => return in_words(FailureReason::JobStopped),
            Phase::Deposed => return in_words(FailureReason::Deposed),
            Phase::Active => {}
        }
        let (stops, needs_store) = match what {
            Request::Checkpoint { .. } | Request::Savepoint(_) => (false, true),
            Request::Suspend { .. } => (true, true),
            Request::Drain { savepoint } => (true, savepoint.is_some()),
        };
        if needs_store && !self.settings.storage {
            return in_words(FailureReason::NoStorage);
        }
        if !self.tasks.all_started() {
            return in_words(FailureReason::NotReady);
        }
        let ending = match &self.ending {
            Ending::Not => false,
            Ending::Draining { .. } => stops,
            Ending::Suspending | Ending::Ended | Ending::Suspended => true,
        };
        if ending {
            return Some("the job is being stopped already. Wait for that to end.".to_owned());
        }
        if self.tasks.all_finished() && !matches!(what, Request::Drain { .. }) {
            return Some(format!("{}. Its last checkpoint is complete.", Hold::AllFinished));
        }
        if self.requests.waiting.len() >= MAX_WAITING {
            return Some(format!(
                "{MAX_WAITING} requests are waiting already. Ask again later."
            ));
        }
        None
    }

    pub(super) fn refuse(&mut self, request: RequestId, reason: String) {
        self.answer(request, Err(RequestFailure::Refused { reason }));
    }

    pub(super) fn answer(&mut self, request: RequestId, result: Result<RequestDone, RequestFailure>) {
        if self.requests.open.remove(&request) {
            self.out.push(CoordinatorAction::Answer { request, result });
        }
    }

    pub(super) fn refuse_all(&mut self, record: &FailureRecord) {
        self.requests.waiting.clear();
        for request in self.requests.open.clone() {
            self.answer(request, Err(RequestFailure::Failed(Box::new(record.clone()))));
        }
    }

    /// Whether a drain or suspension has been asked for and isn't answered.
    pub(super) fn is_open(&self, request: RequestId) -> bool {
        self.requests.open.contains(&request)
    }

    /// Starts what may: first what tasks wait for, then what people wait for, then what the interval brings.
    pub(super) fn start_what_may(&mut self) {
        if self.phase != Phase::Active {
            return;
        }
        self.start_last();
        self.start_requested();
        self.start_periodic();
    }

    fn start_requested(&mut self) {
        while self.phase == Phase::Active {
            let Some((request, purpose)) = self.requests.waiting.front().cloned() else {
                return;
            };
            match self.hold(&purpose) {
                None => {
                    self.requests.waiting.pop_front();
                    self.start(purpose);
                }
                Some(hold @ (Hold::AllFinished | Hold::AfterFinish)) => {
                    self.requests.waiting.pop_front();
                    if matches!(purpose, Purpose::Suspend { .. }) {
                        self.ending = Ending::Not;
                    }
                    self.refuse(request, format!("{hold}."));
                }
                Some(_) => return,
            }
        }
    }

    fn start_periodic(&mut self) {
        if self.phase != Phase::Active {
            return;
        }
        let Some(interval) = self.settings.interval else {
            return;
        };
        let due = match self.periodic {
            Periodic::Off => {
                if self.tasks.all_started() {
                    self.periodic = Periodic::Due(self.now + interval);
                }
                return;
            }
            Periodic::Due(at) if at > self.now => return,
            Periodic::Due(at) => at,
            Periodic::Held(_) => self.now,
        };
        match self.hold(&Purpose::Periodic) {
            None => {
                self.start(Purpose::Periodic);
                // In step while the timer is kept; never two in quick succession after a late start.
                let next = (due + interval).max(self.now + interval / 2);
                self.periodic = Periodic::Due(next);
            }
            Some(hold) => {
                if self.periodic != Periodic::Held(hold) {
                    self.periodic = Periodic::Held(hold);
                    self.trace(None, || TraceStep::Held(hold));
                }
            }
        }
    }

    /// Why a checkpoint may not start now, if it may not.
    pub(super) fn hold(&self, purpose: &Purpose) -> Option<Hold> {
        if !self.tasks.all_started() {
            return Some(Hold::NotAllRunning);
        }
        self.hold_by_end(purpose)
            .or_else(|| self.hold_by_pending(purpose))
            .or_else(|| self.hold_by_pause(purpose))
    }

    fn hold_by_end(&self, purpose: &Purpose) -> Option<Hold> {
        let (drains, suspends, last) = match purpose {
            Purpose::Drain { .. } => (true, false, true),
            Purpose::Suspend { .. } => (false, true, false),
            Purpose::Last => (false, false, true),
            Purpose::Periodic
            | Purpose::Requested { .. }
            | Purpose::Savepoint { .. }
            | Purpose::Inherited => (false, false, false),
        };
        if self.tasks.all_finished() && !drains {
            return Some(Hold::AllFinished);
        }
        match &self.ending {
            Ending::Not => {}
            Ending::Suspending => {
                // What was asked for before it still comes before it; nothing comes between it and its decision.
                if !suspends && (last || *purpose == Purpose::Periodic || self.suspending().is_some()) {
                    return Some(Hold::Suspending);
                }
            }
            Ending::Draining { savepoint, .. } => {
                if savepoint.is_some() && self.tasks.all_ended() && !drains {
                    return Some(Hold::Ending);
                }
            }
            Ending::Ended => {
                if !last {
                    return Some(Hold::Ending);
                }
            }
            Ending::Suspended => return Some(Hold::Ending),
        }
        let needs_all = match purpose {
            Purpose::Periodic | Purpose::Requested { .. } => true,
            Purpose::Last
            | Purpose::Savepoint { .. }
            | Purpose::Suspend { .. }
            | Purpose::Drain { .. }
            | Purpose::Inherited => false,
        };
        (needs_all && self.tasks.any_finished() && !self.settings.after_tasks_finish)
            .then_some(Hold::AfterFinish)
    }

    fn hold_by_pending(&self, purpose: &Purpose) -> Option<Hold> {
        if self.undecided.len() >= MAX_UNDECIDED {
            return Some(Hold::Backlog);
        }
        // Triggers leave in the order of ids, since barriers never pass each other.
        let asking = self
            .undecided
            .values()
            .find(|pending| pending.stage == Stage::SnapshottingEnumerators);
        if let Some(asking) = asking {
            return Some(Hold::Enumerators(asking.id));
        }
        let pending = self.pending().count();
        if pending > 0 && self.settings.exclusive() {
            return Some(Hold::Exclusive);
        }
        if self.mode_of(purpose) == SnapshotMode::Unaligned
            && let Some(id) = self.aligned_savepoint()
        {
            return Some(Hold::AlignedSavepoint(id));
        }
        let limited = *purpose == Purpose::Periodic;
        (limited && pending >= self.settings.max_concurrent as usize).then_some(Hold::MaxConcurrent)
    }

    fn hold_by_pause(&self, purpose: &Purpose) -> Option<Hold> {
        if *purpose != Purpose::Periodic {
            return None;
        }
        let until = self.last_completion? + self.settings.min_pause;
        (until > self.now).then_some(Hold::MinPause { until })
    }

    /// A pending savepoint whose barriers align.
    fn aligned_savepoint(&self) -> Option<CheckpointId> {
        let mut pending = self.undecided.values().filter(|pending| pending.is_live());
        pending
            .find(|pending| pending.purpose.order().is_some() && pending.mode == SnapshotMode::Aligned)
            .map(|pending| pending.id)
    }

    /// The pending checkpoint that the job is to end in as it is.
    fn suspending(&self) -> Option<CheckpointId> {
        let mut pending = self.undecided.values();
        pending
            .find(|pending| matches!(pending.purpose, Purpose::Suspend { .. }))
            .map(|pending| pending.id)
    }
}
