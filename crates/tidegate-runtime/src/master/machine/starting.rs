//! From a claim to running tasks.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_protocol::coordinator::{
    Claim, Coordinator, CoordinatorEvent, DecisionOutcome, Identity, NewestComplete, RestoredFrom, StartMode,
    Verdict,
};
use tidegate_protocol::message::FromTask;
use tidegate_protocol::restart::RestartDecision;
use tidegate_storage::{Finished, Snapshot};
use tidegate_types::{AttemptNumber, CheckpointId, Generation, OperatorUid, SubtaskId};

use crate::error::{BoxError, chain_of, guarded};
use crate::graph::Attempt;
use crate::operators::OutputLost;

use super::super::attempt::Enumerators;
use super::super::env::{
    ClaimFailure, ClaimedStore, CommitFailure, IoReply, IoRequest, MasterEnv, Refusal, Report,
};
use super::super::error::JobError;
use super::super::io::COMMIT_AGAIN;
use super::super::restore::restore_plan;
use super::super::status::JobState;
use super::{Close, JobMaster, JobOutcome, Phase};

impl JobMaster {
    pub(super) fn on_reply(&mut self, env: &mut dyn MasterEnv, reply: IoReply) {
        match reply {
            IoReply::Claimed(Ok(claimed)) => {
                self.leads = true;
                self.on_claimed(env, *claimed);
            }
            IoReply::Claimed(Err(error)) => self.on_claim_failed(env, error),
            IoReply::Settled(result) => self.on_settled(env, result),
            IoReply::Decided { id, outcome } => {
                self.completed_any |= outcome == DecisionOutcome::Mine(Verdict::Complete);
                if let DecisionOutcome::Failed { error } = &outcome {
                    self.on_undecided(env, id, error);
                }
                self.tell(env, CoordinatorEvent::DecisionWritten { id, outcome });
            }
            IoReply::Copied { id, result: Ok(path) } => {
                self.tell(env, CoordinatorEvent::SavepointCopied { id, path });
            }
            IoReply::Copied {
                id,
                result: Err(error),
            } => {
                self.tell(env, CoordinatorEvent::SavepointCopyFailed { id, error });
            }
            IoReply::Committed { id, result: Ok(()) } => self.tell(env, CoordinatorEvent::Committed { id }),
            IoReply::Committed {
                id,
                result: Err(failure),
            } => self.on_commit_failed(env, id, failure),
            IoReply::Swept { warnings } => self.on_swept(env, warnings),
            IoReply::Closed(result) => {
                if let Err(error) = result {
                    env.report(Report::Warning(format!(
                        "the job's checkpoints could not be deleted: {error}"
                    )));
                }
                self.close = Close::Done;
                if self.phase == Phase::Closing {
                    self.end(env, Ok(JobOutcome::Canceled));
                }
            }
        }
    }

    fn on_settled(&mut self, env: &mut dyn MasterEnv, result: Result<(), (OperatorUid, BoxError)>) {
        self.settling = false;
        let failed = result.map_err(|(uid, error)| JobError::Settle {
            uid: uid.to_string(),
            lost: error.is::<OutputLost>(),
            reason: chain_of(&*error),
        });
        match (failed, &self.phase) {
            (Ok(()), Phase::TakingOver) => self.lead_running(env),
            (Ok(()), Phase::Settling) => self.start_attempt(env),
            // The tasks that were to be taken over failed meanwhile.
            (_, Phase::Stopping) => {}
            (Err(error), Phase::TakingOver) => self.fail(env, None, &chain_of(&error), error.heals(), error),
            (Err(error), _) => {
                let heals = error.heals();
                self.not_started(env, heals, error);
            }
            (Ok(()), phase) => debug_assert!(false, "sinks were settled while {phase:?}"),
        }
    }

    fn on_commit_failed(&mut self, env: &mut dyn MasterEnv, id: CheckpointId, failure: CommitFailure) {
        let CommitFailure {
            uid,
            error,
            lost,
            overtaken,
            committables,
        } = failure;
        if let Some(id) = overtaken {
            return self.tell(env, CoordinatorEvent::Deposed { id });
        }
        if lost {
            let failed = JobError::Commit {
                uid: uid.to_string(),
                checkpoint: id,
                reason: error,
            };
            // A restart would settle the same output and fail again.
            self.fail(env, None, &chain_of(&failed), false, failed);
            // Nobody waits for this commit any more.
            return self.tell(env, CoordinatorEvent::Committed { id });
        }
        let stopping = self.phase == Phase::Stopping;
        let then = match (stopping, self.cancelled && self.parts.delete_on_cancel) {
            (false, _) => "It is tried again",
            (true, false) => "Whoever starts from this checkpoint commits it",
            (true, true) => "The job is cancelled and its checkpoints are deleted: it stays uncommitted",
        };
        env.report(Report::Warning(format!(
            "sink `{uid}` could not commit checkpoint {id}: {error}. {then}"
        )));
        if stopping {
            // Its system may be away for long, and the next attempt settles what its snapshot lists anyway.
            return self.tell(env, CoordinatorEvent::Committed { id });
        }
        self.commit_again = Some((env.now() + COMMIT_AGAIN, id, committables));
    }

    /// A store that is away for a moment costs a restart like any other failure; at the start it is an error.
    pub(super) fn on_claim_failed(&mut self, env: &mut dyn MasterEnv, error: ClaimFailure) {
        match error {
            ClaimFailure::Overtaken(id) => self.end(env, Err(JobError::Deposed(id))),
            ClaimFailure::Store(error) => {
                let heals = error.kind() == tidegate_storage::ErrorKind::Retry;
                self.not_started(env, heals, JobError::Store(error));
            }
        }
    }

    /// An attempt failed before it had tasks. The first one says so at once: whoever started the job is there.
    fn not_started(&mut self, env: &mut dyn MasterEnv, heals: bool, error: JobError) {
        if self.cancelled {
            env.report(Report::Warning(chain_of(&error)));
            return self.end(env, Ok(JobOutcome::Canceled));
        }
        let again = (self.restarts > 0 || self.takes_over) && heals;
        if again && let RestartDecision::Restart { after } = self.parts.restart.on_failure(env.now()) {
            env.report(Report::Failure {
                subtask: None,
                error: chain_of(&error),
            });
            self.restarts += 1;
            env.report(Report::State(JobState::Restarting));
            self.phase = Phase::Waiting(env.now() + after);
        } else {
            self.end(env, Err(error));
        }
    }

    pub(super) fn on_claimed(&mut self, env: &mut dyn MasterEnv, claimed: ClaimedStore) {
        if self.takes_over {
            return self.take_over(env, claimed);
        }
        if self.cancelled {
            return self.end_cancelled(env);
        }
        // Until then nothing that follows the chosen snapshot is committed.
        let first = !self.completed_any;
        self.claim = self.claim_of(&claimed);
        let lineage = claimed.snapshot.as_ref().map_or(0, |s| s.metadata().lineage.0);
        let from = claimed.snapshot.as_ref().map(|s| s.id());
        let foreign = claimed.foreign.is_some();
        // Output is committed that follows what this run starts from.
        let committed = claimed
            .committed
            .filter(|id| first && (foreign || from.is_none_or(|from| from < *id)));
        let anew = committed.is_some() || (first && from.is_none() && self.parts.new_lineage);
        self.attempt = Attempt {
            number: AttemptNumber(self.attempt.number.0 + 1),
            epoch: claimed.epoch,
            // A new line of output is named after the leadership that began it, so no two share a name.
            lineage: match claimed.foreign {
                Some(line) => line,
                None if anew => claimed.epoch.0,
                None => lineage,
            },
            generation: Generation(u32::try_from(claimed.epoch.0).unwrap_or(u32::MAX)),
        };
        if let Some(snapshot) = &claimed.snapshot
            && !is_finished(snapshot)
            && let Err(error) = restore_plan(snapshot, &self.parts.graph, &self.parts.executor)
        {
            return self.end(env, Err(error));
        }
        let refusal = match committed {
            _ if !self.parts.checkpoints.after_tasks_finish => Some(Refusal::NoLastCheckpoint),
            Some(committed) if !self.parts.new_lineage => Some(Refusal::Twice {
                committed,
                from,
                foreign,
            }),
            Some(_) | None => None,
        };
        self.snapshot.clone_from(&claimed.snapshot);
        self.phase = Phase::Settling;
        self.settling = true;
        env.request(IoRequest::Settle {
            snapshot: claimed.snapshot,
            attempt: self.attempt,
            refusal,
        });
    }

    pub(super) fn claim_of(&self, claimed: &ClaimedStore) -> Claim {
        let restored = claimed.snapshot.as_ref().map(|s| RestoredFrom {
            id: s.id(),
            is_savepoint: s.metadata().kind.is_savepoint(),
            path: Some(s.location().to_owned()),
        });
        Claim {
            newest: claimed.newest.map(|(id, kind)| NewestComplete { id, kind }),
            retained: claimed.retained.clone(),
            next_id: claimed.next_id,
            highest_used: self.highest_used,
            restored,
        }
    }

    /// Sinks agree with the snapshot: tasks may start.
    pub(super) fn start_attempt(&mut self, env: &mut dyn MasterEnv) {
        if self.cancelled {
            return self.end_cancelled(env);
        }
        self.sweep(env);
        if let Some(finished) = self.snapshot.as_deref().filter(|s| is_finished(s)) {
            // Its sinks had to be settled all the same: the process may have died before it committed.
            let id = finished.id();
            return self.end(env, Ok(JobOutcome::AlreadyFinished(id)));
        }
        let graph = self.parts.graph.clone();
        match Enumerators::make(&graph, self.snapshot.as_deref(), &self.parts.executor) {
            Ok(enumerators) => self.enumerators = enumerators,
            Err(error) => return self.fail(env, None, &chain_of(&error), error.heals(), error),
        }
        let restore = match &self.snapshot {
            None => None,
            Some(snapshot) => match restore_plan(snapshot, &graph, &self.parts.executor) {
                Ok(plan) => Some(Arc::new(plan)),
                Err(error) => return self.end(env, Err(error)),
            },
        };
        self.alive = self.make_coordinator(StartMode::Deploy);
        self.finished.clear();
        self.phase = Phase::Running;
        env.report(Report::Attempt(self.attempt));
        env.report(Report::State(JobState::Running));
        self.tell(env, CoordinatorEvent::Claimed(self.claim.clone()));
        // Factories of user code run in it.
        match guarded(|| env.deploy(self.attempt, restore)) {
            Ok(finished) => {
                for (subtask, snapshot) in finished {
                    self.alive.remove(&subtask);
                    self.finished.insert(subtask);
                    self.hand_to_coordinator(env, subtask, FromTask::Running);
                    self.hand_to_coordinator(
                        env,
                        subtask,
                        FromTask::Finished {
                            snapshot,
                            newest_seen: CheckpointId(0),
                        },
                    );
                }
            }
            Err(error) => {
                self.alive.clear();
                let again = self.restarts > 0;
                self.fail(env, None, &chain_of(&*error), again, JobError::Deploy(error));
            }
        }
    }
}

impl JobMaster {
    /// Makes this leadership's coordinator; returns all subtasks of the job.
    pub(super) fn make_coordinator(&mut self, mode: StartMode) -> BTreeSet<SubtaskId> {
        let graph = &self.parts.graph;
        let plan = graph.plan().expect("a built graph has a valid plan");
        let subtasks = plan.subtasks().collect();
        let identity = Identity {
            job: graph.job.clone(),
            epoch: self.attempt.epoch,
            attempt: self.attempt.number,
        };
        let settings = self.parts.checkpoints.clone();
        let history = self.history.take();
        self.coordinator = Some(Coordinator::new(settings, plan, identity, mode, history));
        subtasks
    }
}

/// Whether there is nothing left to run.
fn is_finished(snapshot: &Snapshot) -> bool {
    snapshot
        .metadata()
        .operators
        .iter()
        .all(|o| o.finished == Finished::Fully)
}
