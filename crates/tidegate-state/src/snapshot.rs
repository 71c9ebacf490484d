//! What a state hands over for a cut: owned bytes, to be put in order away from the task's thread.

use tidegate_types::CheckpointId;
use tidegate_types::snapshot::SectionBytes;

use crate::error::StateError;

/// What one state contributes to one snapshot. `Send` and free of the state's types: a pool orders and writes it.
#[derive(Debug)]
pub struct StateSnapshot {
    id: CheckpointId,
    size_bytes: u64,
    records: u64,
}

impl StateSnapshot {
    /// The checkpoint.
    pub fn id(&self) -> CheckpointId {
        self.id
    }

    /// Bytes of encoded entries.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Entries.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Puts everything in hash order: sections of about 16 MiB each, at least one even if the state is empty.
    ///
    /// # Errors
    /// If a value could not be encoded when its block was preserved. The snapshot is then lost, the state isn't.
    pub fn into_sections(self) -> Result<Vec<SectionBytes>, StateError> {
        crate::pending()
    }
}
