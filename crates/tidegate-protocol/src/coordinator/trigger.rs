//! From the wish for a checkpoint to its triggers.
//!
//! Owns: giving out ids, the enumerators' part, barriers, and who is sent one, also when subtasks end meanwhile.
//! Does not own: whether one may start (`decider.rs`, `requests.rs`), acknowledgements (`acks.rs`).

use std::collections::BTreeSet;

use tidegate_types::snapshot::{Section, SubtaskSnapshot, SubtaskStats};
use tidegate_types::{Barrier, CheckpointId, SnapshotMode, SubtaskId};

use super::action::CoordinatorAction;
use super::failure::FailureReason;
use super::pending::{Parts, Pending, Purpose, Stage};
use super::trace::TraceStep;
use super::{Coordinator, Phase};
use crate::message::ToTask;

/// How much longer than a quiesced snapshot's limit the coordinator waits by itself, so that the subtask that found
/// the channel missing can say so first.
pub(super) const QUIESCE_GRACE: std::time::Duration = std::time::Duration::from_millis(500);

impl Coordinator {
    /// Gives a checkpoint its id. The enumerators come first: a split assigned after this is behind the cut on both
    /// sides.
    pub(super) fn start(&mut self, purpose: Purpose) -> CheckpointId {
        assert_eq!(
            self.phase,
            Phase::Active,
            "only an active coordinator starts checkpoints"
        );
        let id = self.next_id;
        self.next_id = id.next();
        let mode = self.mode_of(&purpose);
        let (barrier_kind, shown_kind) = (purpose.barrier_kind(), purpose.shown_kind());
        self.history
            .started(id, shown_kind, mode, self.now, self.tasks.plan());
        self.tasks.cover(id);
        let quiesce_until = match mode {
            SnapshotMode::Quiesce { limit } => Some(self.now + limit + QUIESCE_GRACE),
            SnapshotMode::Aligned
            | SnapshotMode::Unaligned
            | SnapshotMode::Adaptive { .. }
            | SnapshotMode::AtLeastOnce => None,
        };
        let pending = Pending {
            id,
            base: self.base_of(&purpose),
            purpose,
            mode,
            triggered_at: self.now,
            expires_at: self.now + self.settings.timeout,
            quiesce_until,
            triggered: BTreeSet::new(),
            stage: Stage::SnapshottingEnumerators,
        };
        self.undecided.insert(id, pending);
        self.trace(Some(id), || TraceStep::Started {
            kind: barrier_kind,
            mode,
        });
        self.out.push(CoordinatorAction::SnapshotEnumerators { id });
        id
    }

    pub(super) fn mode_of(&self, purpose: &Purpose) -> SnapshotMode {
        match purpose.order() {
            Some(order) => self.settings.savepoint_mode(order.unaligned),
            None => self.settings.checkpoint_mode(),
        }
    }

    /// What a backend may build on: savepoints and full checkpoints stand alone.
    fn base_of(&self, purpose: &Purpose) -> Option<CheckpointId> {
        match purpose {
            Purpose::Periodic | Purpose::Last | Purpose::Requested { full: false, .. } => self.base,
            Purpose::Requested { full: true, .. }
            | Purpose::Savepoint { .. }
            | Purpose::Suspend { .. }
            | Purpose::Drain { .. }
            | Purpose::Inherited => None,
        }
    }

    pub(super) fn on_enumerators_snapshotted(&mut self, id: CheckpointId, sections: Vec<Section>) {
        let Some(pending) = self.undecided.get_mut(&id) else {
            return self.on_late_sections(id, sections);
        };
        match &pending.stage {
            Stage::SnapshottingEnumerators => {}
            Stage::Collecting { .. }
            | Stage::ExternalPhase(_)
            | Stage::CopyingSavepoint(_)
            | Stage::AwaitingTurn(_)
            | Stage::WritingComplete(_)
            | Stage::Aborting { .. } => return,
        }
        let missing: BTreeSet<SubtaskId> = self.tasks.unfinished().into_iter().collect();
        let finished: Vec<SubtaskSnapshot> = self
            .tasks
            .finished()
            .map(|(_, snapshot)| snapshot.clone())
            .collect();
        let mut parts = Parts {
            enumerators: sections,
            ..Parts::default()
        };
        for snapshot in finished {
            self.history
                .acknowledged(id, &snapshot, SubtaskStats::default(), self.now);
            parts.subtasks.insert(snapshot.subtask, snapshot);
        }
        self.tasks.cover(id);
        pending.stage = Stage::Collecting { missing, parts };
        self.trigger_starters(id);
        self.on_maybe_all_in(id);
    }

    pub(super) fn on_enumerators_failed(&mut self, id: CheckpointId, error: String) {
        let waits = self
            .undecided
            .get(&id)
            .is_some_and(|p| p.stage == Stage::SnapshottingEnumerators);
        if waits {
            self.fail(id, FailureReason::EnumeratorFailed, None, error);
        }
    }

    /// Triggers whoever no barrier can reach (any more) and hasn't been triggered. One that has met the barrier on
    /// another channel before is told again, and doesn't mind.
    pub(super) fn trigger_starters(&mut self, id: CheckpointId) {
        let oldest_pending = self.oldest_pending();
        let epoch = self.identity.epoch;
        let pending = self
            .undecided
            .get_mut(&id)
            .expect("only undecided checkpoints are triggered");
        let Stage::Collecting { missing, .. } = &pending.stage else {
            unreachable!("checkpoint {id} is triggered while it collects")
        };
        let to: Vec<SubtaskId> = self
            .tasks
            .starters(missing)
            .filter(|subtask| !pending.triggered.contains(subtask))
            .collect();
        if to.is_empty() {
            return;
        }
        pending.triggered.extend(&to);
        let barrier = Barrier {
            id,
            oldest_pending,
            kind: pending.purpose.barrier_kind(),
            mode: pending.mode,
            age: self.now.since(pending.triggered_at),
            epoch,
            base: pending.base,
        };
        self.trace(Some(id), || TraceStep::Triggered { to: to.clone() });
        self.send(to, ToTask::Trigger(barrier));
    }

    /// A subtask has ended: its consumers may have become starters, of every checkpoint they are missing from.
    pub(super) fn trigger_new_starters(&mut self) {
        let collecting = |pending: &&Pending| matches!(pending.stage, Stage::Collecting { .. });
        let ids: Vec<_> = self
            .undecided
            .values()
            .filter(collecting)
            .map(|pending| pending.id)
            .collect();
        ids.into_iter().for_each(|id| self.trigger_starters(id));
    }
}
