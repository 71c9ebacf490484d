//! What a complete checkpoint is made of, and what follows once it stands.
//!
//! Owns: the content of a decision, commits, notifications, answers and retention. Does not own: when a decision is
//! written (`decision.rs`), committing itself, deleting itself.

use tidegate_types::CheckpointId;
use tidegate_types::snapshot::{Section, SectionKind, SubtaskSnapshot};

use super::action::{
    CheckpointContent, CheckpointRole, CoordinatorAction, OperatorFinish, OperatorSummary, RequestDone,
};
use super::event::Verdict;
use super::pending::{Parts, Purpose};
use super::plan::PlanVertex;
use super::trace::TraceStep;
use super::{Coordinator, Phase};
use crate::message::ToTask;

impl Coordinator {
    /// What the decision says. Clones the parts' handles; payloads are counted references.
    pub(super) fn content(&self, id: CheckpointId, parts: &Parts) -> CheckpointContent {
        let pending = self
            .undecided
            .get(&id)
            .expect("content is made of an undecided checkpoint");
        let subtasks: Vec<SubtaskSnapshot> = parts.subtasks.values().cloned().collect();
        let operators = self
            .tasks
            .plan()
            .vertices()
            .iter()
            .flat_map(|vertex| summaries(vertex, &subtasks))
            .collect();
        CheckpointContent {
            job: self.identity.job.clone(),
            id,
            epoch: self.identity.epoch,
            role: self.role(&pending.purpose, parts),
            mode: pending.mode,
            base: pending.base,
            retained: self.retained_with(id, &pending.purpose),
            operators,
            subtasks,
            enumerators: parts.enumerators.clone(),
            external: parts.external.clone(),
            duration: parts.ready_after,
        }
    }

    fn role(&self, purpose: &Purpose, parts: &Parts) -> CheckpointRole {
        match purpose.order() {
            Some(order) => CheckpointRole::Savepoint {
                format: order.format,
                path: parts.path.clone().unwrap_or_default(),
                terminal: purpose.commits(),
            },
            None => CheckpointRole::Checkpoint,
        }
    }

    /// What is kept once `id` is complete. Savepoints are their owner's and never among them.
    fn retained_with(&self, id: CheckpointId, purpose: &Purpose) -> Vec<CheckpointId> {
        let mut kept: Vec<CheckpointId> = self.retained.iter().copied().collect();
        if purpose.order().is_none() {
            kept.push(id);
            let limit = self.settings.num_retained as usize;
            kept.drain(..kept.len().saturating_sub(limit));
        }
        kept
    }

    /// The complete decision stands, and it is this leadership's.
    pub(super) fn completed(&mut self, id: CheckpointId, purpose: Purpose, parts: Parts) {
        assert!(
            self.phase != Phase::Deposed,
            "a deposed coordinator completes nothing"
        );
        self.decided.record(id, Verdict::Complete);
        self.trace(Some(id), || TraceStep::Decided(Verdict::Complete));
        self.history.completed(id, parts.path.clone(), self.now);
        self.tolerance.succeeded();
        self.last_retry.reset();
        self.last_completion = Some(self.now);
        self.tasks.uncover(id, true);
        let kept = self.retained_with(id, &purpose);
        if purpose.order().is_none() {
            self.base = Some(id);
        }
        if self.tasks_listen() {
            if purpose.commits() {
                self.committing.insert(id);
                self.out.push(CoordinatorAction::Commit {
                    id,
                    committables: committables(&parts),
                });
            }
            let oldest_pending = self.oldest_pending();
            self.send(self.tasks.unfinished(), ToTask::Completed { id, oldest_pending });
        }
        if purpose.order().is_some() {
            // It stands in its own directory.
            self.out.push(CoordinatorAction::DeleteFiles { id });
        }
        if let Some(request) = purpose.request() {
            self.answer(
                request,
                Ok(RequestDone {
                    id: Some(id),
                    path: parts.path,
                }),
            );
        }
        self.retain(kept);
        match purpose {
            Purpose::Suspend { .. } => self.end_suspended(),
            Purpose::Drain { .. } => self.drain_done(),
            Purpose::Periodic
            | Purpose::Last
            | Purpose::Requested { .. }
            | Purpose::Savepoint { .. }
            | Purpose::Inherited => {}
        }
    }

    /// Keeps these and retires the others: the decision that stands doesn't name them.
    fn retain(&mut self, kept: Vec<CheckpointId>) {
        let retired: Vec<_> = self
            .retained
            .iter()
            .copied()
            .filter(|id| !kept.contains(id))
            .collect();
        self.retained = kept.into();
        self.retire(retired);
    }

    pub(super) fn retire(&mut self, ids: Vec<CheckpointId>) {
        ids.iter().for_each(|id| self.history.discarded(*id));
        if !ids.is_empty() {
            self.out.push(CoordinatorAction::Retire { ids });
        }
    }

    /// `aborted` stands: now its files may go.
    pub(super) fn aborted(&mut self, id: CheckpointId, copy_begun: bool) {
        self.decided.record(id, Verdict::Aborted);
        self.trace(Some(id), || TraceStep::Decided(Verdict::Aborted));
        self.history.discarded(id);
        self.out.push(CoordinatorAction::DeleteFiles { id });
        if copy_begun {
            self.out.push(CoordinatorAction::DiscardSavepoint { id });
        }
    }
}

fn committables(parts: &Parts) -> Vec<Section> {
    let sections = parts.subtasks.values().flat_map(|snapshot| &snapshot.sections);
    sections
        .filter(|section| section.head.kind == SectionKind::Committables)
        .cloned()
        .collect()
}

/// The operators of one vertex; `subtasks` has the snapshots of all.
fn summaries(vertex: &PlanVertex, subtasks: &[SubtaskSnapshot]) -> Vec<OperatorSummary> {
    let of_vertex = subtasks
        .iter()
        .filter(|snapshot| snapshot.subtask.vertex == vertex.id);
    let finished = of_vertex.filter(|snapshot| snapshot.finished).count();
    let finished = match finished {
        0 => OperatorFinish::None,
        n if n == vertex.parallelism.0 as usize => OperatorFinish::Fully,
        _ => OperatorFinish::Partly,
    };
    let summary = |uid: &tidegate_types::OperatorUid| OperatorSummary {
        uid: uid.clone(),
        vertex: vertex.id,
        parallelism: vertex.parallelism,
        max_parallelism: vertex.max_parallelism,
        finished,
    };
    vertex.operators.iter().map(summary).collect()
}
