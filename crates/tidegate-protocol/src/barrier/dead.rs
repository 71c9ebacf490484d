//! Checkpoints that this task will not cut, remembered so that a barrier which comes later is swallowed and a
//! cancel marker goes downstream once.

use std::collections::BTreeMap;

use tidegate_types::CheckpointId;

/// How many are remembered. Entries go once their barriers can't come any more, so more than a few are there
/// only while a channel stays silent and everything is aborted; then the lowest are forgotten, which costs a
/// wait for the next `oldest_pending` if their barriers come after all.
const MAX_DEAD: usize = 1024;

/// Whether downstream has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Marker {
    /// The coordinator's abort came before anything else of the checkpoint: the marker goes where the barrier
    /// would have gone, if one comes.
    Owed,
    /// Sent, or the barrier itself was.
    Sent,
}

/// The dead ids with their markers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct DeadIds {
    ids: BTreeMap<CheckpointId, Marker>,
}

impl DeadIds {
    pub(super) fn get(&self, id: CheckpointId) -> Option<Marker> {
        self.ids.get(&id).copied()
    }

    pub(super) fn insert(&mut self, id: CheckpointId, marker: Marker) {
        self.ids.insert(id, marker);
        if self.ids.len() > MAX_DEAD {
            self.ids.pop_first();
        }
    }

    /// Forgets decided ids that no channel can bring up again: those below `floor` and not above `seen`, the
    /// least of what the open channels have announced.
    pub(super) fn forget(&mut self, floor: CheckpointId, seen: CheckpointId) {
        while let Some(entry) = self.ids.first_entry() {
            if *entry.key() >= floor || *entry.key() > seen {
                return;
            }
            entry.remove();
        }
    }

    /// The greatest one; 0 if there is none.
    pub(super) fn newest(&self) -> CheckpointId {
        self.ids.last_key_value().map(|(id, _)| *id).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}
