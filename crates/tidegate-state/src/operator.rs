//! The contract of states that belong to an operator's subtask rather than to a key.

use tidegate_types::CheckpointId;
use tidegate_types::snapshot::SectionHead;

use crate::describe::{Formats, StateDescription};
use crate::error::StateError;
use crate::keyed::{Cut, Outcome, StateMetrics, StateSetup};
use crate::snapshot::StateSnapshot;

/// Which part of a stored list falls to a subtask on restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// How many entries of this state the sections before this one hold, over all old subtasks in order.
    pub before: u64,
    /// The restoring subtask.
    pub subtask: u32,
    /// How many subtasks restore; at least 1.
    pub parallelism: u32,
}

impl Share {
    /// Whether the entry at `index` of the section falls to the subtask: entries are dealt out in turn.
    pub fn takes(&self, index: u64) -> bool {
        (self.before + index) % u64::from(self.parallelism.max(1)) == u64::from(self.subtask)
    }
}

/// What drives an operator state, whatever its types.
///
/// These states are meant to be small: they are encoded in the cut, on the task's thread.
pub trait OperatorState: Send {
    /// What this state is. Works before it is opened.
    fn describe(&self, formats: &Formats) -> StateDescription;

    /// Binds the state to its operator and name and makes it ready, empty.
    ///
    /// # Errors
    /// None today.
    fn open(&mut self, name: &str, setup: &StateSetup) -> Result<(), StateError>;

    /// Encodes the state for a cut: time in proportion to its size.
    fn cut(&mut self, cut: Cut);

    /// The bytes of the oldest cut not yet taken.
    fn take_finished(&mut self) -> Option<StateSnapshot>;

    /// The fate of a checkpoint.
    fn decided(&mut self, id: CheckpointId, outcome: Outcome);

    /// Adds what falls to this subtask of a stored section. Split lists look at `share`, union lists take
    /// everything; a broadcast state takes everything too, so it is to be given the section of *one* old
    /// subtask.
    ///
    /// # Errors
    /// If kind or types changed or the bytes are damaged.
    fn restore(&mut self, head: &SectionHead, bytes: &[u8], share: Share) -> Result<u64, StateError>;

    /// Sizes.
    fn metrics(&self) -> StateMetrics;
}
