//! A value per key.

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

/// A value per key.
pub struct ValueState<K, V> {
    ttl: Option<Ttl>,
    _types: PhantomData<fn() -> (K, V)>,
}
impl<K, V> Default for ValueState<K, V> {
    fn default() -> Self {
        Self::new()
    }
}
impl<K, V> ValueState<K, V> {
    /// An undeclared state.
    pub fn new() -> Self {
        Self {
            ttl: None,
            _types: PhantomData,
        }
    }
    /// An undeclared state whose values expire.
    pub fn with_ttl(ttl: Ttl) -> Self {
        Self {
            ttl: Some(ttl),
            ..Self::new()
        }
    }
}
#[allow(unused_variables)]
impl<K: Key, V: Record> ValueState<K, V> {
    /// The key's value.
    pub fn get(&mut self, at: KeyContext<'_, K>) -> Option<&V> {
        crate::pending()
    }
    /// The key's value, to be written.
    pub fn get_mut(&mut self, at: KeyContext<'_, K>) -> Option<&mut V> {
        crate::pending()
    }
    /// The key's value, made if there is none, to be written.
    pub fn get_or_insert_with(&mut self, at: KeyContext<'_, K>, make: impl FnOnce() -> V) -> &mut V {
        crate::pending()
    }
    /// Sets the key's value and returns the one before.
    pub fn set(&mut self, at: KeyContext<'_, K>, value: V) -> Option<V> {
        crate::pending()
    }
    /// Changes the key's value in place, starting from the default if there is none.
    pub fn update<R>(&mut self, at: KeyContext<'_, K>, change: impl FnOnce(&mut V) -> R) -> R
    where
        V: Default,
    {
        change(self.get_or_insert_with(at, V::default))
    }
    /// Removes and returns the key's value.
    pub fn take(&mut self, at: KeyContext<'_, K>) -> Option<V> {
        crate::pending()
    }
    /// Removes the key's value.
    pub fn clear(&mut self, at: KeyContext<'_, K>) {
        drop(self.take(at));
    }
    /// Keys with a value, expired ones included.
    pub fn len(&self) -> u64 {
        crate::pending()
    }
    /// Whether no key has a value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Shows every entry, in hash order.
    pub fn for_each(&self, visit: impl FnMut(&K, &V)) {
        crate::pending()
    }
}

impl<K: Key, V: Record> KeyedTable<K> for ValueState<K, V> {
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
