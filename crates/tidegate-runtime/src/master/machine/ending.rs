//! Failures, cancellation and the end.

use tidegate_protocol::coordinator::{Coordinator, CoordinatorEvent, RequestFailure};
use tidegate_protocol::restart::RestartDecision;
use tidegate_types::{CheckpointId, SubtaskId};

use super::super::env::{IoRequest, MasterEnv, Report};
use super::super::error::JobError;
use super::super::status::JobState;
use super::{After, JobMaster, JobOutcome, Phase};

impl JobMaster {
    /// The attempt has failed: another one, or the end.
    pub(super) fn fail(
        &mut self,
        env: &mut dyn MasterEnv,
        subtask: Option<SubtaskId>,
        text: &str,
        retryable: bool,
        error: JobError,
    ) {
        if !matches!(self.phase, Phase::Running | Phase::Settling | Phase::TakingOver) {
            return;
        }
        env.report(Report::Failure {
            subtask,
            error: text.to_owned(),
        });
        let decision = retryable.then(|| self.parts.restart.on_failure(env.now()));
        let after = match decision {
            Some(RestartDecision::Restart { after }) => After::Restart(after),
            Some(RestartDecision::Fail { .. }) | None => After::End(Box::new(Err(error))),
        };
        env.report(Report::State(JobState::Failing));
        self.stop(env, after);
    }

    pub(super) fn cancel(&mut self, env: &mut dyn MasterEnv) {
        self.cancelled = true;
        match self.phase {
            Phase::Running | Phase::TakingOver => {
                env.report(Report::State(JobState::Cancelling));
                self.stop(env, After::End(Box::new(Ok(JobOutcome::Canceled))));
            }
            Phase::Stopping => self.after = Some(After::End(Box::new(Ok(JobOutcome::Canceled)))),
            Phase::Waiting(_) if self.parts.delete_on_cancel => {
                self.phase = Phase::Closing;
                self.closing = true;
                env.request(IoRequest::Close);
            }
            Phase::Created | Phase::Waiting(_) => self.end(env, Ok(JobOutcome::Canceled)),
            // What they wait for comes back, and then they see the flag.
            Phase::Claiming | Phase::Settling | Phase::Closing | Phase::Ended => {}
        }
    }

    pub(super) fn stop(&mut self, env: &mut dyn MasterEnv, after: After) {
        if self.phase == Phase::Stopping {
            return;
        }
        self.phase = Phase::Stopping;
        self.refuse_early(env);
        let deletes = self.cancelled && self.parts.delete_on_cancel;
        self.after = Some(after);
        self.splits_again = None;
        env.cancel_tasks(self.attempt.epoch);
        self.tell(
            env,
            CoordinatorEvent::Stop {
                discard_retained: deletes,
            },
        );
    }

    /// Another process leads the job.
    pub(super) fn step_down(&mut self, env: &mut dyn MasterEnv, met: CheckpointId) {
        let after = After::End(Box::new(Err(JobError::Deposed(met))));
        if self.phase == Phase::Stopping {
            // Another attempt would take back what was taken over.
            self.after = Some(after);
        } else {
            self.stop(env, after);
        }
    }

    /// What can go on without a further event.
    pub(super) fn advance(&mut self, env: &mut dyn MasterEnv) {
        match self.phase {
            Phase::Running => {
                if self.coordinator.as_ref().is_some_and(Coordinator::is_finished) && self.alive.is_empty() {
                    let outcome = if self.suspended {
                        JobOutcome::Suspended
                    } else {
                        JobOutcome::Finished
                    };
                    self.end(env, Ok(outcome));
                }
            }
            Phase::Stopping => {
                let drained = self.coordinator.as_ref().is_none_or(Coordinator::is_drained);
                if drained && self.alive.is_empty() && !self.settling {
                    self.stopped(env);
                }
            }
            Phase::Created
            | Phase::Claiming
            | Phase::Settling
            | Phase::TakingOver
            | Phase::Waiting(_)
            | Phase::Closing
            | Phase::Ended => {}
        }
    }

    pub(super) fn stopped(&mut self, env: &mut dyn MasterEnv) {
        if let Some(coordinator) = self.coordinator.take() {
            self.highest_used = coordinator.next_id().0.checked_sub(1).map(CheckpointId);
            self.history = Some(coordinator.into_history());
        }
        self.commit_again = None;
        match self.after.take() {
            Some(After::Restart(after)) => {
                self.restarts += 1;
                env.report(Report::State(JobState::Restarting));
                self.phase = Phase::Waiting(env.now() + after);
            }
            Some(After::End(result)) => match *result {
                Ok(JobOutcome::Canceled) if self.closing => self.phase = Phase::Closing,
                result => self.end(env, result),
            },
            None => {}
        }
    }

    pub(super) fn end(&mut self, env: &mut dyn MasterEnv, result: Result<JobOutcome, JobError>) {
        if let Some(coordinator) = self.coordinator.take() {
            self.history = Some(coordinator.into_history());
        }
        for request in std::mem::take(&mut self.requests) {
            let reason = "the job has ended".to_owned();
            env.answer(request, Err(RequestFailure::Refused { reason }));
        }
        env.report(Report::State(match &result {
            Ok(JobOutcome::Finished | JobOutcome::AlreadyFinished(_)) => JobState::Finished,
            Ok(JobOutcome::Suspended) => JobState::Suspended,
            Ok(JobOutcome::Canceled) => JobState::Canceled,
            Err(_) => JobState::Failed,
        }));
        self.phase = Phase::Ended;
        env.ended(result);
    }
}
