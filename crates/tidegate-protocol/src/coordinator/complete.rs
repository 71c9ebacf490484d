//! What a complete checkpoint is made of, and what follows once it stands.
//!
//! Owns: the content of a decision, commits, notifications and answers. Does not own: when a decision is written
//! (`decision.rs`), which older ones stay (`retention.rs`), committing itself, deleting itself.

use tidegate_types::snapshot::{Section, SectionKind, SubtaskSnapshot};
use tidegate_types::{CheckpointId, SnapshotMode};

use super::action::{CheckpointContent, CoordinatorAction, OperatorFinish, OperatorSummary, RequestDone};
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
            kind: pending.purpose.shown_kind(),
            savepoint: parts.path.clone(),
            mode: pending.mode,
            base: pending.base,
            retained: self
                .retention
                .beside(pending.purpose.shown_kind(), self.settings.num_retained),
            operators,
            subtasks,
            enumerators: parts.enumerators.clone(),
            external: parts.external.clone(),
            triggered_at: pending.triggered_at,
            duration: parts.ready_after,
        }
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
        if !purpose.shown_kind().is_savepoint() {
            self.base = Some(id);
        }
        if self.tasks_listen() {
            self.committing.insert(id);
            self.out.push(CoordinatorAction::Commit {
                id,
                committables: committables(&parts),
            });
            let oldest_pending = self.oldest_pending();
            self.send(self.tasks.unfinished(), ToTask::Completed { id, oldest_pending });
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
        let retired = self
            .retention
            .completed(id, purpose.shown_kind(), self.settings.num_retained);
        if !retired.is_empty() {
            retired.iter().for_each(|id| self.history.discarded(*id));
            self.out.push(CoordinatorAction::Retire { ids: retired });
        }
        match purpose {
            Purpose::Suspend { .. } => self.end_suspended(id),
            Purpose::Drain { .. } => self.drain_done(),
            Purpose::Periodic
            | Purpose::Last
            | Purpose::Requested { .. }
            | Purpose::Savepoint { .. }
            | Purpose::Inherited => {}
        }
    }

    /// `aborted` stands: now tasks may hear of it, and its files may go.
    pub(super) fn aborted(
        &mut self,
        id: CheckpointId,
        purpose: &Purpose,
        mode: SnapshotMode,
        copy_begun: bool,
    ) {
        self.decided.record(id, Verdict::Aborted);
        self.trace(Some(id), || TraceStep::Decided(Verdict::Aborted));
        self.history.discarded(id);
        if self.tasks_listen() {
            let oldest_pending = self.oldest_pending();
            self.send(self.tasks.unfinished(), ToTask::Aborted { id, oldest_pending });
        }
        // Again: the barrier may have reached a task only after it was told to go on.
        self.let_go(id, purpose, mode);
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
