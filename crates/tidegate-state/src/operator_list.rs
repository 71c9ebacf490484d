//! A list per subtask.

use crate::describe::{Formats, StateDescription};
use crate::error::StateError;
use crate::keyed::{Cut, Outcome, StateMetrics, StateSetup};
use crate::operator::{OperatorState, Share};
use crate::snapshot::StateSnapshot;
use std::marker::PhantomData;
use tidegate_types::CheckpointId;
use tidegate_types::codec::Record;
use tidegate_types::snapshot::SectionHead;

/// A list per subtask.
pub struct OperatorListState<T> {
    _types: PhantomData<fn() -> T>,
}
#[allow(unused_variables)]
impl<T> OperatorListState<T> {
    /// A list whose entries are dealt out over the subtasks on restore.
    pub fn split() -> Self {
        Self { _types: PhantomData }
    }
    /// A list of which every subtask gets all entries on restore.
    pub fn union() -> Self {
        Self { _types: PhantomData }
    }
    /// The entries.
    pub fn entries(&self) -> &[T] {
        crate::pending()
    }
    /// Appends an entry.
    pub fn add(&mut self, entry: T) {
        crate::pending()
    }
    /// Replaces all entries.
    pub fn set(&mut self, entries: Vec<T>) {
        crate::pending()
    }
    /// Removes all entries.
    pub fn clear(&mut self) {
        self.set(Vec::new());
    }
}

impl<T: Record> OperatorState for OperatorListState<T> {
    fn describe(&self, _: &Formats) -> StateDescription {
        crate::pending()
    }
    fn open(&mut self, _: &str, _: &StateSetup) -> Result<(), StateError> {
        crate::pending()
    }
    fn cut(&mut self, _: Cut) {
        crate::pending()
    }
    fn take_finished(&mut self) -> Option<StateSnapshot> {
        crate::pending()
    }
    fn decided(&mut self, _: CheckpointId, _: Outcome) {
        crate::pending()
    }
    fn restore(&mut self, _: &SectionHead, _: &[u8], _: Share) -> Result<u64, StateError> {
        crate::pending()
    }
    fn metrics(&self) -> StateMetrics {
        crate::pending()
    }
}
