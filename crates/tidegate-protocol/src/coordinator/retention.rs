//! Which complete checkpoints stay: policy, apart from the machine.
//!
//! Owns: the list of those that stand and what a newer one makes of it. A savepoint's `chk-<n>` stands only while
//! nothing newer is complete (its owner has the copy) and takes no checkpoint's place. Does not own: deleting.

use std::collections::BTreeMap;

use tidegate_types::{CheckpointId, CheckpointKind};

/// The complete checkpoints of a job that stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Retention {
    standing: BTreeMap<CheckpointId, CheckpointKind>,
}

impl Retention {
    /// What a claim found: the newest one, and older checkpoints that it names.
    pub(super) fn found(newest: Option<(CheckpointId, CheckpointKind)>, older: &[CheckpointId]) -> Self {
        let older = older.iter().map(|id| (*id, CheckpointKind::Checkpoint));
        Self {
            standing: older.chain(newest).collect(),
        }
    }

    /// The newest that a backend can build on.
    pub(super) fn newest_checkpoint(&self) -> Option<CheckpointId> {
        let mut newest_first = self.standing.iter().rev();
        newest_first
            .find(|(_, kind)| !kind.is_savepoint())
            .map(|(id, _)| *id)
    }

    /// What stands beside a new complete one of this kind, ascending.
    pub(super) fn beside(&self, kind: CheckpointKind, num_retained: u32) -> Vec<CheckpointId> {
        let mut kept: Vec<CheckpointId> = self
            .standing
            .iter()
            .filter(|(_, kind)| !kind.is_savepoint())
            .map(|(id, _)| *id)
            .collect();
        let room = num_retained as usize - usize::from(!kind.is_savepoint());
        kept.drain(..kept.len().saturating_sub(room));
        kept
    }

    /// Takes note that one is complete, and returns those that no longer stand, ascending.
    pub(super) fn completed(
        &mut self,
        id: CheckpointId,
        kind: CheckpointKind,
        num_retained: u32,
    ) -> Vec<CheckpointId> {
        let kept = self.beside(kind, num_retained);
        let retired = self
            .standing
            .keys()
            .copied()
            .filter(|id| !kept.contains(id))
            .collect();
        self.standing.retain(|id, _| kept.contains(id));
        self.standing.insert(id, kind);
        retired
    }
}
