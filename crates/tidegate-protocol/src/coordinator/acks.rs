//! What tasks say, and how a checkpoint collects it until everything is there.
//!
//! Owns: fencing of messages, acknowledgements and declines (also late, doubled and unknown ones), the external phase
//! and the savepoint's copy. Does not own: what follows when a checkpoint is ready (`decision.rs`) or fails
//! (`abort.rs`), ends of tasks (`last.rs`).

use std::mem;

use tidegate_types::snapshot::{Location, Section, SubtaskSnapshot, SubtaskStats};
use tidegate_types::{CheckpointId, SnapshotMode, SubtaskId};

use super::Coordinator;
use super::action::CoordinatorAction;
use super::event::Verdict;
use super::failure::FailureReason;
use super::pending::{Parts, Pending, Purpose, Stage};
use super::tasks::TaskState;
use super::trace::TraceStep;
use crate::message::{DeclineReason, Envelope, FromTask, ToTask};

impl Coordinator {
    pub(super) fn on_message(&mut self, envelope: Envelope<FromTask>) {
        let Envelope {
            job,
            attempt,
            epoch,
            subtask,
            body,
        } = envelope;
        let ours =
            job == self.identity.job && attempt == self.identity.attempt && epoch == self.identity.epoch;
        if !ours || !self.tasks.plan().contains(subtask) {
            return self.ignore(None, subtask, "a message of another job, attempt or leadership");
        }
        match body {
            FromTask::Running => self.on_running(subtask),
            FromTask::StillRunning { newest_seen, held } => self.on_still_running(subtask, newest_seen, held),
            FromTask::Acknowledged { id, snapshot, stats } => {
                if snapshot.subtask == subtask {
                    self.on_acknowledged(id, snapshot, stats);
                } else {
                    self.ignore(Some(id), subtask, "an acknowledgement for another subtask");
                }
            }
            FromTask::Declined { id, reason, detail } => self.on_declined(id, subtask, reason, detail),
            FromTask::AwaitingLastCheckpoint => self.on_awaiting(subtask),
            FromTask::Finished {
                snapshot,
                newest_seen,
            } => {
                if snapshot.subtask == subtask {
                    self.on_finished(snapshot, newest_seen);
                } else {
                    self.ignore(None, subtask, "the end of another subtask");
                }
            }
            FromTask::Failed { error, retryable: _ } => self.on_task_failed(subtask, &error),
            // For the split enumerators; the driver hands them there.
            FromTask::RequestSplit { .. } => {}
        }
    }

    pub(super) fn on_running(&mut self, subtask: SubtaskId) {
        match self.tasks.state(subtask) {
            // One that is taken over says what it holds, when it is asked, and only that counts.
            Some(TaskState::Deploying) if self.is_adopting() => {}
            Some(TaskState::Deploying) => {
                self.tasks.set(subtask, TaskState::Running);
            }
            Some(TaskState::Running | TaskState::Awaiting(_) | TaskState::Finished(_)) | None => {}
        }
    }

    fn on_acknowledged(&mut self, id: CheckpointId, snapshot: SubtaskSnapshot, stats: SubtaskStats) {
        let subtask = snapshot.subtask;
        let Some(pending) = self.undecided.get_mut(&id) else {
            return self.on_late_ack(id, snapshot);
        };
        let count = match &mut pending.stage {
            Stage::Collecting { missing, parts } => {
                if !missing.remove(&subtask) {
                    return self.ignore(Some(id), subtask, "a doubled acknowledgement");
                }
                self.history.acknowledged(id, &snapshot, stats, self.now);
                parts.subtasks.insert(subtask, snapshot);
                missing.len()
            }
            // Its files go with the directory, once `aborted` stands.
            Stage::Aborting { .. } => {
                return self.ignore(Some(id), subtask, "an acknowledgement after the failure");
            }
            Stage::SnapshottingEnumerators
            | Stage::ExternalPhase(_)
            | Stage::CopyingSavepoint(_)
            | Stage::AwaitingTurn(_)
            | Stage::WritingComplete(_) => {
                return self.ignore(Some(id), subtask, "an acknowledgement nobody waits for");
            }
        };
        self.trace(Some(id), || TraceStep::Acknowledged {
            subtask,
            missing: count as u32,
        });
        self.on_maybe_all_in(id);
    }

    /// An acknowledgement of an id that isn't undecided here: the subtask hasn't heard what became of it.
    fn on_late_ack(&mut self, id: CheckpointId, snapshot: SubtaskSnapshot) {
        let subtask = snapshot.subtask;
        let oldest_pending = self.oldest_pending();
        let news = match self.decided.verdict(id) {
            Some(Verdict::Complete) => Some(ToTask::Completed { id, oldest_pending }),
            Some(Verdict::Aborted) => {
                self.discard(id, snapshot.sections);
                Some(ToTask::Aborted { id, oldest_pending })
            }
            None => None,
        };
        let gone = matches!(self.tasks.state(subtask), Some(TaskState::Finished(_)));
        if let Some(news) = news
            && self.tasks_listen()
            && !gone
        {
            self.send(vec![subtask], news);
        }
        self.ignore(Some(id), subtask, "a late acknowledgement");
    }

    /// Sections that come for a checkpoint which is no longer pending.
    pub(super) fn on_late_sections(&mut self, id: CheckpointId, sections: Vec<Section>) {
        match self.decided.verdict(id) {
            Some(Verdict::Aborted) => self.discard(id, sections),
            Some(Verdict::Complete) | None => {}
        }
    }

    /// Deletes what came after the directory of an aborted checkpoint was cleared. Only with `aborted` durable.
    fn discard(&mut self, id: CheckpointId, mut sections: Vec<Section>) {
        assert_eq!(
            self.decided.verdict(id),
            Some(Verdict::Aborted),
            "only an aborted checkpoint's files are deleted"
        );
        sections.retain(|section| match section.location {
            Location::File { .. } => true,
            Location::Inline(_) => false,
        });
        if !sections.is_empty() {
            self.out.push(CoordinatorAction::DiscardSnapshot { id, sections });
        }
    }

    fn on_declined(&mut self, id: CheckpointId, subtask: SubtaskId, reason: DeclineReason, detail: String) {
        let reason = FailureReason::from(reason);
        let Some(pending) = self.undecided.get(&id) else {
            return self.on_late_decline(id, reason, subtask, detail);
        };
        match &pending.stage {
            // A subtask that has acknowledged has said its last word; a decline behind it is an echo of another's.
            Stage::Collecting { missing, .. } if missing.contains(&subtask) => {
                self.fail(id, reason, Some(subtask), detail);
            }
            Stage::Aborting { .. } => self.on_late_decline(id, reason, subtask, detail),
            Stage::SnapshottingEnumerators
            | Stage::Collecting { .. }
            | Stage::ExternalPhase(_)
            | Stage::CopyingSavepoint(_)
            | Stage::AwaitingTurn(_)
            | Stage::WritingComplete(_) => self.ignore(Some(id), subtask, "a decline nobody waits for"),
        }
    }

    /// A subtask has ended for good: checkpoints that it is missing from and never saw take its last state. Of one
    /// that it saw its word was lost: it may have cut, and its consumers with it, long before its end.
    pub(super) fn count_as_finished(&mut self, snapshot: &SubtaskSnapshot, newest_seen: CheckpointId) {
        let subtask = snapshot.subtask;
        let seen = self.undecided.range(..=newest_seen).map(|(_, pending)| pending);
        let lost: Vec<_> = seen
            .filter(|pending| match &pending.stage {
                Stage::Collecting { missing, .. } => missing.contains(&subtask),
                Stage::SnapshottingEnumerators
                | Stage::ExternalPhase(_)
                | Stage::CopyingSavepoint(_)
                | Stage::AwaitingTurn(_)
                | Stage::WritingComplete(_)
                | Stage::Aborting { .. } => false,
            })
            .map(|pending| pending.id)
            .collect();
        for id in lost {
            let detail = "it has finished, and what it said of this checkpoint was lost".to_owned();
            self.fail(id, FailureReason::AbortedByTask, Some(subtask), detail);
        }
        let mut counted = Vec::new();
        for pending in self.undecided.values_mut() {
            match &mut pending.stage {
                Stage::Collecting { missing, parts } => {
                    if missing.remove(&subtask) {
                        self.history
                            .acknowledged(pending.id, snapshot, SubtaskStats::default(), self.now);
                        parts.subtasks.insert(subtask, snapshot.clone());
                        counted.push((pending.id, missing.len() as u32));
                    }
                }
                Stage::SnapshottingEnumerators
                | Stage::ExternalPhase(_)
                | Stage::CopyingSavepoint(_)
                | Stage::AwaitingTurn(_)
                | Stage::WritingComplete(_)
                | Stage::Aborting { .. } => {}
            }
        }
        for (id, missing) in counted {
            self.trace(Some(id), || TraceStep::CountedFinished { subtask, missing });
            self.on_maybe_all_in(id);
        }
    }

    /// If no subtask is missing any more: on to what comes then.
    pub(super) fn on_maybe_all_in(&mut self, id: CheckpointId) {
        let Some(pending) = self.undecided.get_mut(&id) else {
            return;
        };
        let parts = match &mut pending.stage {
            Stage::Collecting { missing, parts } if missing.is_empty() => mem::take(parts),
            Stage::Collecting { .. }
            | Stage::SnapshottingEnumerators
            | Stage::ExternalPhase(_)
            | Stage::CopyingSavepoint(_)
            | Stage::AwaitingTurn(_)
            | Stage::WritingComplete(_)
            | Stage::Aborting { .. } => return,
        };
        assert_eq!(
            parts.subtasks.len(),
            self.tasks.plan().subtask_count(),
            "every subtask is in checkpoint {id}"
        );
        let external = match pending.mode {
            SnapshotMode::Quiesce { .. } => true,
            SnapshotMode::Aligned
            | SnapshotMode::Unaligned
            | SnapshotMode::Adaptive { .. }
            | SnapshotMode::AtLeastOnce => false,
        };
        if external {
            pending.stage = Stage::ExternalPhase(parts);
            self.trace(Some(id), || TraceStep::AllIn);
            self.out.push(CoordinatorAction::ExternalPhase { id });
        } else {
            self.trace(Some(id), || TraceStep::AllIn);
            self.copy_or_ready(id, parts);
        }
    }

    pub(super) fn on_external_done(&mut self, id: CheckpointId, sections: Vec<Section>) {
        let Some(pending) = self.undecided.get_mut(&id) else {
            return self.on_late_sections(id, sections);
        };
        let Some(mut parts) = take_external(pending) else {
            return;
        };
        parts.external = sections;
        pending.quiesce_until = None;
        // The content stands, and nothing in the decision needs the tasks at rest: they go on before it is written.
        // Sources that are being stopped stay so.
        let resumes = match pending.purpose {
            Purpose::Suspend { .. } => false,
            Purpose::Periodic
            | Purpose::Last
            | Purpose::Requested { .. }
            | Purpose::Savepoint { .. }
            | Purpose::Drain { .. }
            | Purpose::Inherited => true,
        };
        if resumes && self.tasks_listen() {
            self.send(self.tasks.unfinished(), ToTask::Resume { id });
        }
        self.copy_or_ready(id, parts);
    }

    pub(super) fn on_external_failed(&mut self, id: CheckpointId, error: String) {
        let waits = self
            .undecided
            .get(&id)
            .is_some_and(|pending| matches!(pending.stage, Stage::ExternalPhase(_)));
        if waits {
            self.fail(id, FailureReason::ExternalPhaseFailed, None, error);
        }
    }

    fn copy_or_ready(&mut self, id: CheckpointId, mut parts: Parts) {
        let pending = self.undecided.get_mut(&id).expect("it has just become ready");
        parts.ready_after = self.now.since(pending.triggered_at);
        match pending.purpose.order().cloned() {
            Some(order) => {
                let content = Box::new(self.content(id, &parts));
                let pending = self.undecided.get_mut(&id).expect("it is still there");
                pending.stage = Stage::CopyingSavepoint(parts);
                self.out
                    .push(CoordinatorAction::CopySavepoint { id, order, content });
            }
            None => self.ready(id, parts),
        }
    }

    pub(super) fn on_savepoint_copied(&mut self, id: CheckpointId, path: String) {
        let Some(pending) = self.undecided.get_mut(&id) else {
            return;
        };
        match &mut pending.stage {
            Stage::CopyingSavepoint(parts) => {
                let parts = Parts {
                    path: Some(path),
                    ..mem::take(parts)
                };
                self.ready(id, parts);
            }
            Stage::SnapshottingEnumerators
            | Stage::Collecting { .. }
            | Stage::ExternalPhase(_)
            | Stage::AwaitingTurn(_)
            | Stage::WritingComplete(_)
            | Stage::Aborting { .. } => {}
        }
    }

    pub(super) fn on_savepoint_copy_failed(&mut self, id: CheckpointId, error: String) {
        let waits = self
            .undecided
            .get(&id)
            .is_some_and(|pending| matches!(pending.stage, Stage::CopyingSavepoint(_)));
        if waits {
            self.fail(id, FailureReason::SavepointCopyFailed, None, error);
        }
    }

    pub(super) fn ignore(&mut self, id: Option<CheckpointId>, subtask: SubtaskId, what: &'static str) {
        self.trace(id, || TraceStep::Ignored {
            subtask,
            what: what.to_owned(),
        });
    }
}

fn take_external(pending: &mut Pending) -> Option<Parts> {
    match &mut pending.stage {
        Stage::ExternalPhase(parts) => Some(mem::take(parts)),
        Stage::SnapshottingEnumerators
        | Stage::Collecting { .. }
        | Stage::CopyingSavepoint(_)
        | Stage::AwaitingTurn(_)
        | Stage::WritingComplete(_)
        | Stage::Aborting { .. } => None,
    }
}
