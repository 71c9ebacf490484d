//! What the coordinator of checkpoints orders, carried out.

use std::collections::VecDeque;

use tidegate_protocol::coordinator::{CoordinatorAction, CoordinatorEvent};
use tidegate_types::CheckpointId;

use super::{CleanUp, Close, JobMaster};
use crate::error::chain_of;
use crate::master::env::{IoRequest, MasterEnv, Report};
use crate::master::error::JobError;

impl JobMaster {
    /// Tells the coordinator and carries out what it answers, until nothing follows.
    pub(super) fn tell(&mut self, env: &mut dyn MasterEnv, event: CoordinatorEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Some(coordinator) = &mut self.coordinator else {
                return;
            };
            for action in coordinator.on_event(env.now(), event) {
                self.carry_out(env, action, &mut events);
            }
        }
    }

    fn carry_out(
        &mut self,
        env: &mut dyn MasterEnv,
        action: CoordinatorAction,
        events: &mut VecDeque<CoordinatorEvent>,
    ) {
        let lineage = self.attempt.lineage;
        match action {
            CoordinatorAction::Send { to, message } => {
                for subtask in to {
                    env.send(self.attempt.epoch, subtask, message.clone());
                }
            }
            CoordinatorAction::SnapshotEnumerators { id } => {
                // Answered at once, so nothing can be assigned in between; ahead of everything else.
                events.push_front(self.snapshot_enumerators(id));
            }
            CoordinatorAction::RestoreEnumerators { checkpoint, held } => {
                self.take_over_splits(env, checkpoint, held, events);
            }
            CoordinatorAction::ExternalPhase { id } => {
                events.push_back(CoordinatorEvent::ExternalPhaseDone {
                    id,
                    sections: Vec::new(),
                });
            }
            CoordinatorAction::CopySavepoint { id, order, content } => {
                env.request(IoRequest::CopySavepoint {
                    id,
                    order,
                    content,
                    lineage,
                });
            }
            CoordinatorAction::WriteDecision { id, decision } => {
                env.request(IoRequest::Decide {
                    id,
                    decision,
                    lineage,
                });
            }
            CoordinatorAction::Commit { id, committables } => {
                env.request(IoRequest::Commit { id, committables })
            }
            CoordinatorAction::Retire { .. }
            | CoordinatorAction::DeleteFiles { .. }
            | CoordinatorAction::DiscardSavepoint { .. }
            | CoordinatorAction::DiscardSnapshot { .. } => self.sweep(env),
            CoordinatorAction::Close => {
                self.close = Close::Asked;
                env.request(IoRequest::Close);
            }
            CoordinatorAction::Answer { request, result } => {
                self.requests.remove(&request);
                if self.suspends.remove(&request) && result.is_ok() {
                    self.suspended = true;
                }
                env.answer(request, result);
            }
            CoordinatorAction::FailJob(record) => {
                let error = JobError::Checkpoints(record);
                self.fail(env, None, &chain_of(&error), error.heals(), error);
            }
            CoordinatorAction::StepDown { id } => self.step_down(env, id),
            CoordinatorAction::Trace(event) => env.report(Report::Trace(event)),
        }
    }

    fn snapshot_enumerators(&mut self, id: CheckpointId) -> CoordinatorEvent {
        match self.enumerators.snapshot() {
            Ok(sections) => CoordinatorEvent::EnumeratorsSnapshotted { id, sections },
            Err((uid, error)) => CoordinatorEvent::EnumeratorsFailed {
                id,
                error: format!("source `{uid}`: {}", chain_of(&*error)),
            },
        }
    }

    /// The store's directory is walked at most once at a time; what turns up meanwhile is for the next walk.
    pub(super) fn sweep(&mut self, env: &mut dyn MasterEnv) {
        if self.clean_up == CleanUp::Idle {
            self.clean_up = CleanUp::Walks;
            env.request(IoRequest::Sweep);
        } else {
            self.clean_up = CleanUp::WalksAndIsDueAgain;
        }
    }
}
