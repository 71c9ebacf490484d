//! What became of decided ids: who still speaks of one is answered by this.
//!
//! Owns: a bounded memory of verdicts. What has fallen out of it is neither notified nor deleted again; files that come
//! later than that are left to the clean-up at the next start.

use std::collections::BTreeMap;

use tidegate_types::CheckpointId;

use super::event::Verdict;

/// How many verdicts are remembered: far more than can be pending, so that a message would have to be late by this
/// many checkpoints to meet a coordinator that has forgotten.
pub(super) const REMEMBERED: usize = 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DecidedLog {
    verdicts: BTreeMap<CheckpointId, Verdict>,
}

impl DecidedLog {
    pub(super) fn record(&mut self, id: CheckpointId, verdict: Verdict) {
        let before = self.verdicts.insert(id, verdict);
        assert!(
            before.is_none(),
            "checkpoint {id} is decided {verdict:?} after {before:?}"
        );
        if self.verdicts.len() > REMEMBERED {
            self.verdicts.pop_first();
        }
    }

    pub(super) fn verdict(&self, id: CheckpointId) -> Option<Verdict> {
        self.verdicts.get(&id).copied()
    }

    pub(super) fn newest_complete(&self) -> Option<CheckpointId> {
        let mut newest_first = self.verdicts.iter().rev();
        newest_first
            .find(|(_, verdict)| **verdict == Verdict::Complete)
            .map(|(id, _)| *id)
    }

    pub(super) fn newest(&self) -> Option<(CheckpointId, Verdict)> {
        self.verdicts
            .last_key_value()
            .map(|(id, verdict)| (*id, *verdict))
    }
}
