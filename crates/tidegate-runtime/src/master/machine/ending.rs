//! Failures, cancellation and the end.

use tidegate_protocol::coordinator::{Coordinator, CoordinatorEvent, RequestFailure};
use tidegate_protocol::restart::RestartDecision;
use tidegate_types::{CheckpointId, SubtaskId};

use super::super::env::{IoRequest, MasterEnv, Report};
use super::super::error::JobError;
use super::super::status::JobState;
use super::{After, CleanUp, Close, JobMaster, JobOutcome, Phase};

/// How often a stopping job tries to write what became of a checkpoint.
const TRIES_TO_STOP: u32 = 3;

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
        let after = if self.suspended {
            // Whoever suspended it has its snapshot and goes on from there; what fails after that changes nothing.
            After::End(Box::new(Ok(JobOutcome::Suspended)))
        } else {
            env.report(Report::State(JobState::Failing));
            match retryable.then(|| self.parts.restart.on_failure(env.now())) {
                Some(RestartDecision::Restart { after }) => After::Restart(after),
                Some(RestartDecision::Fail { why }) => {
                    if self.restarts > 0 {
                        env.report(Report::Warning(why));
                    }
                    After::End(Box::new(Err(error)))
                }
                None => After::End(Box::new(Err(error))),
            }
        };
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
            Phase::Created => self.end(env, Ok(JobOutcome::Canceled)),
            Phase::Waiting(_) => self.end_cancelled(env),
            // What they wait for comes back, and then they see the flag.
            Phase::Claiming | Phase::Settling | Phase::Closing | Phase::CleaningUp | Phase::Ended => {}
        }
    }

    /// Nothing runs any more; checkpoints go if they are to.
    pub(super) fn end_cancelled(&mut self, env: &mut dyn MasterEnv) {
        if !self.parts.delete_on_cancel || self.close == Close::Done {
            return self.end(env, Ok(JobOutcome::Canceled));
        }
        self.phase = Phase::Closing;
        if self.close == Close::Not {
            self.close = Close::Asked;
            env.request(IoRequest::Close);
        }
    }

    /// The store doesn't take a decision. While the job runs it is tried until it does; a job that stops doesn't wait
    /// for a store that stays away, because the next claim settles what is undecided.
    pub(super) fn on_undecided(&mut self, env: &mut dyn MasterEnv, id: CheckpointId, error: &str) {
        if self.undecided_warned != Some(id) {
            self.undecided_warned = Some(id);
            env.report(Report::Warning(format!(
                "what became of checkpoint {id} could not be written: {error}. It is tried again"
            )));
        }
        if self.phase == Phase::Stopping {
            self.undecided_tries += 1;
            if self.store_is_away() {
                self.drop_coordinator();
                self.refuse_open(env, "the checkpoint store can't be written");
            }
        }
    }

    fn store_is_away(&self) -> bool {
        self.undecided_tries >= TRIES_TO_STOP
    }

    /// Nothing is told to the coordinator any more; what it knew is kept for the history and the next attempt.
    fn drop_coordinator(&mut self) {
        if let Some(coordinator) = self.coordinator.take() {
            self.highest_used = coordinator.next_id().0.checked_sub(1).map(CheckpointId);
            self.history = Some(coordinator.into_history());
        }
    }

    fn refuse_open(&mut self, env: &mut dyn MasterEnv, reason: &str) {
        for request in std::mem::take(&mut self.requests) {
            let reason = reason.to_owned();
            env.answer(request, Err(RequestFailure::Refused { reason }));
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
            | Phase::CleaningUp
            | Phase::Ended => {}
        }
    }

    pub(super) fn stopped(&mut self, env: &mut dyn MasterEnv) {
        self.drop_coordinator();
        self.commit_again = None;
        let store_away = self.store_is_away();
        self.undecided_tries = 0;
        match self.after.take() {
            Some(After::Restart(after)) => {
                self.restarts += 1;
                env.report(Report::State(JobState::Restarting));
                self.phase = Phase::Waiting(env.now() + after);
            }
            Some(After::End(result)) => match *result {
                Ok(JobOutcome::Canceled) if store_away && self.parts.delete_on_cancel => {
                    env.report(Report::Warning(
                        "the job's checkpoints could not be deleted: the checkpoint store can't be written"
                            .into(),
                    ));
                    self.end(env, Ok(JobOutcome::Canceled));
                }
                Ok(JobOutcome::Canceled) => self.end_cancelled(env),
                result => self.end(env, result),
            },
            None => {}
        }
    }

    /// Nothing runs any more. The directory is cleaned up once more before anybody hears of the end, because the
    /// process may exit then: the last checkpoint has made older ones superfluous.
    pub(super) fn end(&mut self, env: &mut dyn MasterEnv, result: Result<JobOutcome, JobError>) {
        self.drop_coordinator();
        self.refuse_open(env, "the job has ended");
        let deposed = matches!(result, Err(JobError::Deposed(_)));
        if self.leads && self.close != Close::Done && !deposed {
            self.sweep(env);
        }
        if self.clean_up != CleanUp::Idle {
            self.phase = Phase::CleaningUp;
            self.after = Some(After::End(Box::new(result)));
        } else {
            self.ended(env, result);
        }
    }

    /// A clean-up is done.
    pub(super) fn on_swept(&mut self, env: &mut dyn MasterEnv, warnings: Vec<String>) {
        warnings.into_iter().for_each(|w| env.report(Report::Warning(w)));
        let before = std::mem::replace(&mut self.clean_up, CleanUp::Idle);
        if before == CleanUp::WalksAndIsDueAgain {
            self.sweep(env);
        } else if self.phase == Phase::CleaningUp
            && let Some(After::End(result)) = self.after.take()
        {
            self.ended(env, *result);
        }
    }

    fn ended(&mut self, env: &mut dyn MasterEnv, result: Result<JobOutcome, JobError>) {
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
