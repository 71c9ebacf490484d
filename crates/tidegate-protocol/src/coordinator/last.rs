//! How jobs and parts of jobs end: the last checkpoint, suspending and draining.
//!
//! Owns: what follows when a subtask waits for its last checkpoint or has finished, when that checkpoint is triggered
//! (at once, with a real id, whatever the interval, the pause and the concurrency say), and the two ways to stop
//! with a savepoint. Does not own: who could still end (`tasks.rs`), how a checkpoint goes on from its start.

use std::time::Duration;

use tidegate_types::snapshot::SubtaskSnapshot;
use tidegate_types::{CheckpointId, Nanos, SubtaskId};

use super::action::RequestDone;
use super::event::{RequestId, SavepointOrder};
use super::failure::{FailureReason, FailureRecord};
use super::pending::Purpose;
use super::tasks::{Covered, TaskState};
use super::{Coordinator, Phase};
use crate::message::ToTask;

/// What was asked for about the end of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// Nothing.
    Not,
    /// To end as it is, with a checkpoint that waits to start or is pending.
    Suspending,
    /// To end when everything is flushed; the last checkpoint becomes this savepoint.
    Draining {
        request: RequestId,
        savepoint: Option<SavepointOrder>,
    },
    /// What was asked for has been; tasks are finishing.
    Ended,
    /// The job ends as it was in the checkpoint that this came with: nothing behind that is ever checkpointed. What
    /// tasks say of their end now is no end of their work.
    Suspended,
}

/// When a failed last checkpoint is tried again. The first try is at once, so this is what keeps a checkpoint that is
/// declined at once from being triggered without end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LastRetry {
    delay: Duration,
    not_before: Nanos,
}

impl LastRetry {
    const FIRST: Duration = Duration::from_millis(500);
    const LONGEST: Duration = Duration::from_secs(30);

    pub(super) fn failed(&mut self, now: Nanos) {
        self.delay = (self.delay * 2).clamp(Self::FIRST, Self::LONGEST);
        self.not_before = now + self.delay;
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

impl Coordinator {
    pub(super) fn on_awaiting(&mut self, subtask: SubtaskId) {
        let suspended = self.ending == Ending::Suspended && self.tasks_listen();
        match self.tasks.state(subtask) {
            // It says what it holds first, and this again.
            Some(TaskState::Deploying) if self.is_adopting() => {}
            Some(TaskState::Deploying | TaskState::Running) => {
                self.tasks.set(subtask, TaskState::Awaiting(Covered::No));
                self.trigger_new_starters();
            }
            Some(TaskState::Awaiting(Covered::Done(id))) => {
                let (id, oldest_pending) = (*id, self.oldest_pending());
                if self.tasks_listen() {
                    self.send(vec![subtask], ToTask::Completed { id, oldest_pending });
                }
            }
            Some(TaskState::Awaiting(Covered::No | Covered::By(_)) | TaskState::Finished(_)) | None => {}
        }
        if suspended && self.tasks.uncovered().contains(&subtask) {
            // It came to its end in earnest, behind the cut: the next run does that again.
            self.send(vec![subtask], ToTask::Stop { drain: false });
        }
    }

    pub(super) fn on_finished(&mut self, snapshot: SubtaskSnapshot, newest_seen: CheckpointId) {
        let subtask = snapshot.subtask;
        match self.tasks.state(subtask) {
            // Before the claim nothing can be made of the ids it has seen; it is offered again when asked for.
            Some(TaskState::Deploying) if self.is_adopting() && self.phase == Phase::Claiming => {}
            Some(TaskState::Deploying | TaskState::Running | TaskState::Awaiting(_)) => {
                if self.is_adopting() {
                    self.inherit_up_to(newest_seen, Some(subtask));
                }
                self.tasks.set(subtask, TaskState::Finished(snapshot.clone()));
                self.count_as_finished(&snapshot, newest_seen);
                self.trigger_new_starters();
            }
            Some(TaskState::Finished(_)) | None => {}
        }
    }

    /// Triggers a last checkpoint if subtasks wait for one.
    pub(super) fn start_last(&mut self) {
        if self.tasks.any_uncovered() && !self.settings.storage {
            return self.fail_job(FailureRecord {
                id: None,
                reason: FailureReason::NoStorage,
                subtask: None,
                detail: "a subtask has ended and holds output that only a complete checkpoint makes visible"
                    .to_owned(),
                counted: false,
            });
        }
        if let Some(purpose) = self.wanted_last()
            && self.last_retry.not_before <= self.now
            && self.hold(&purpose).is_none()
        {
            self.start(purpose);
        }
    }

    /// The last checkpoint that is wanted and not pending.
    fn wanted_last(&self) -> Option<Purpose> {
        match &self.ending {
            Ending::Draining {
                request,
                savepoint: Some(order),
            } if self.tasks.all_ended() => {
                let is_drain = |purpose: &Purpose| matches!(purpose, Purpose::Drain { .. });
                // Also while one that failed is being decided: it may turn out to have been written.
                let begun = self.undecided.values().any(|pending| is_drain(&pending.purpose));
                // Those that an earlier checkpoint covers finish first; their last state is in the savepoint too.
                let wanted = self.tasks.any_uncovered() || self.tasks.all_finished();
                (wanted && !begun).then(|| Purpose::Drain {
                    request: *request,
                    order: order.clone(),
                })
            }
            Ending::Suspending | Ending::Suspended => None,
            Ending::Not | Ending::Draining { .. } | Ending::Ended => {
                self.tasks.wants_last().then_some(Purpose::Last)
            }
        }
    }

    /// When a failed last checkpoint is to be tried again.
    pub(super) fn last_timeout(&self) -> Option<Nanos> {
        let later = self.last_retry.not_before > self.now;
        (later && self.wanted_last().is_some()).then_some(self.last_retry.not_before)
    }

    pub(super) fn begin_drain(&mut self, request: RequestId, savepoint: Option<SavepointOrder>) {
        self.ending = Ending::Draining { request, savepoint };
        self.send(self.tasks.running_sources(), ToTask::Stop { drain: true });
    }

    /// A drain without a savepoint is done when everything has finished and is committed.
    pub(super) fn finish_drain(&mut self) {
        match &self.ending {
            Ending::Draining {
                request,
                savepoint: None,
            } => {
                let request = *request;
                let done = self.phase == Phase::Active
                    && self.tasks.all_finished()
                    && self.undecided.is_empty()
                    && self.committing.is_empty();
                if done {
                    self.ending = Ending::Ended;
                    self.answer(
                        request,
                        Ok(RequestDone {
                            id: self.newest_complete(),
                            path: None,
                        }),
                    );
                }
            }
            Ending::Not
            | Ending::Suspending
            | Ending::Draining {
                savepoint: Some(_), ..
            }
            | Ending::Ended
            | Ending::Suspended => {}
        }
    }

    /// The savepoint of a drained job is complete.
    pub(super) fn drain_done(&mut self) {
        self.ending = Ending::Ended;
    }

    /// Whether a drain was promised a savepoint that isn't complete.
    pub(super) fn owes_drain(&self) -> bool {
        match &self.ending {
            Ending::Draining {
                request,
                savepoint: Some(_),
            } => self.is_open(*request),
            Ending::Draining { savepoint: None, .. }
            | Ending::Not
            | Ending::Suspending
            | Ending::Ended
            | Ending::Suspended => false,
        }
    }

    /// The checkpoint that the job ends in as it is stands: sources emitted nothing after it, and now they end. Whoever
    /// waits for a last checkpoint gets none: it would say of those that end now that they had come to their end. Under
    /// `quiesce` everyone else stands still too, and must go on for the end to get through.
    pub(super) fn end_suspended(&mut self, id: CheckpointId) {
        self.ending = Ending::Suspended;
        if !self.tasks_listen() {
            return;
        }
        let mut stopped = self.tasks.running_sources();
        stopped.extend(self.tasks.uncovered());
        stopped.sort_unstable();
        self.send(stopped.clone(), ToTask::Stop { drain: false });
        if self.settings.exclusive() {
            let others = self
                .tasks
                .unfinished()
                .into_iter()
                .filter(|subtask| !stopped.contains(subtask));
            self.send(others.collect(), ToTask::Resume { id });
        }
    }
}
