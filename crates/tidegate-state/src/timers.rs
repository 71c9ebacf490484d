//! Timers per key.

use crate::context::KeyContext;
use crate::describe::{Formats, StateDescription};
use crate::error::StateError;
use crate::keyed::{Cut, KeyedTable, Outcome, Progress, StateMetrics, StateSetup};
use crate::snapshot::StateSnapshot;
use std::marker::PhantomData;
use tidegate_types::CheckpointId;
use tidegate_types::codec::Key;
use tidegate_types::snapshot::SectionHead;

/// A timer that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueTimer<K> {
    /// Whose it is.
    pub key: K,
    /// The key's hash.
    pub hash: u64,
    /// When it was to fire.
    pub time: i64,
}
/// Timers of one clock (event time or processing time), deduplicated per key and time.
pub struct Timers<K> {
    _types: PhantomData<fn() -> K>,
}
impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self::new()
    }
}
impl<K> Timers<K> {
    /// Undeclared timers.
    pub fn new() -> Self {
        Self { _types: PhantomData }
    }
}
#[allow(unused_variables)]
impl<K: Key> Timers<K> {
    /// Registers a timer; `false` if the key has one at that time already.
    pub fn register(&mut self, at: KeyContext<'_, K>, time: i64) -> bool {
        crate::pending()
    }
    /// Deletes a timer; `false` if the key has none at that time.
    pub fn delete(&mut self, at: KeyContext<'_, K>, time: i64) -> bool {
        crate::pending()
    }
    /// When the next timer is due.
    pub fn next_due(&self) -> Option<i64> {
        crate::pending()
    }
    /// Removes and returns the earliest timer that is due at or before `up_to`: by time, then by hash.
    pub fn pop_due(&mut self, up_to: i64) -> Option<DueTimer<K>> {
        crate::pending()
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        crate::pending()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Key> KeyedTable<K> for Timers<K> {
    fn describe(&self, _: &Formats) -> StateDescription {
        crate::pending()
    }
    fn open(&mut self, _: &str, _: &StateSetup) -> Result<(), StateError> {
        crate::pending()
    }
    fn prefetch(&self, _: &[u64]) {
        crate::pending()
    }
    fn cut(&mut self, _: Cut) {
        crate::pending()
    }
    fn sweep(&mut self, _: &mut dyn FnMut() -> bool) -> Progress {
        crate::pending()
    }
    fn take_finished(&mut self) -> Option<StateSnapshot> {
        crate::pending()
    }
    fn decided(&mut self, _: CheckpointId, _: Outcome) {
        crate::pending()
    }
    fn restore(&mut self, _: &SectionHead, _: &[u8]) -> Result<u64, StateError> {
        crate::pending()
    }
    fn metrics(&self) -> StateMetrics {
        crate::pending()
    }
}
