//! A map that is the same in every subtask.

use crate::describe::{Formats, StateDescription};
use crate::error::StateError;
use crate::keyed::{Cut, Outcome, StateMetrics, StateSetup};
use crate::operator::{OperatorState, Share};
use crate::snapshot::StateSnapshot;
use std::marker::PhantomData;
use tidegate_types::CheckpointId;
use tidegate_types::codec::{Key, Record};
use tidegate_types::snapshot::SectionHead;

/// A map that is the same in every subtask. Only elements of a broadcast input may change it.
pub struct BroadcastState<K, V> {
    _types: PhantomData<fn() -> (K, V)>,
}
impl<K, V> Default for BroadcastState<K, V> {
    fn default() -> Self {
        Self::new()
    }
}
impl<K, V> BroadcastState<K, V> {
    /// An empty map.
    pub fn new() -> Self {
        Self { _types: PhantomData }
    }
}
#[allow(unused_variables)]
impl<K: Key, V: Record> BroadcastState<K, V> {
    /// The value under `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        crate::pending()
    }
    /// Sets the value under `key` and returns the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        crate::pending()
    }
    /// Removes and returns the value under `key`.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        crate::pending()
    }
    /// All entries, in the order in which their keys were first inserted.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        std::iter::empty()
    }
    /// How many entries.
    pub fn len(&self) -> usize {
        crate::pending()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Removes everything.
    pub fn clear(&mut self) {
        crate::pending()
    }
}

impl<K: Key, V: Record> OperatorState for BroadcastState<K, V> {
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
