//! A value per key into which others are reduced.

use crate::context::KeyContext;
use crate::describe::{Formats, StateDescription};
use crate::error::StateError;
use crate::keyed::{Cut, KeyedTable, Outcome, Progress, StateMetrics, StateSetup};
use crate::snapshot::StateSnapshot;
use crate::ttl::Ttl;
use std::marker::PhantomData;
use tidegate_types::CheckpointId;
use tidegate_types::codec::{Key, Record};
use tidegate_types::snapshot::SectionHead;

/// A value per key into which others are reduced by `F`: `|into: &mut V, value: V|`.
pub struct ReducingState<K, V, F = fn(&mut V, V)> {
    reduce: F,
    ttl: Option<Ttl>,
    _types: PhantomData<fn() -> (K, V)>,
}
impl<K, V, F> ReducingState<K, V, F> {
    /// An undeclared state.
    pub fn new(reduce: F) -> Self {
        Self {
            reduce,
            ttl: None,
            _types: PhantomData,
        }
    }
    /// An undeclared state whose values expire.
    pub fn with_ttl(reduce: F, ttl: Ttl) -> Self {
        Self {
            ttl: Some(ttl),
            ..Self::new(reduce)
        }
    }
}
#[allow(unused_variables)]
impl<K: Key, V: Record, F: FnMut(&mut V, V) + Send> ReducingState<K, V, F> {
    /// The key's value.
    pub fn get(&mut self, at: KeyContext<'_, K>) -> Option<&V> {
        crate::pending()
    }
    /// Reduces `value` into the key's value.
    pub fn add(&mut self, at: KeyContext<'_, K>, value: V) {
        crate::pending()
    }
    /// Removes and returns the key's value.
    pub fn take(&mut self, at: KeyContext<'_, K>) -> Option<V> {
        crate::pending()
    }
    /// Removes the key's value.
    pub fn clear(&mut self, at: KeyContext<'_, K>) {
        drop(self.take(at));
    }
}

impl<K: Key, V: Record, F> KeyedTable<K> for ReducingState<K, V, F>
where
    F: FnMut(&mut V, V) + Send,
{
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
