//! A map per key.

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

/// A map per key.
pub struct MapState<K, UK, UV> {
    ttl: Option<Ttl>,
    _types: PhantomData<fn() -> (K, UK, UV)>,
}
impl<K, UK, UV> Default for MapState<K, UK, UV> {
    fn default() -> Self {
        Self::new()
    }
}
impl<K, UK, UV> MapState<K, UK, UV> {
    /// An undeclared state.
    pub fn new() -> Self {
        Self {
            ttl: None,
            _types: PhantomData,
        }
    }
    /// An undeclared state whose maps expire.
    pub fn with_ttl(ttl: Ttl) -> Self {
        Self {
            ttl: Some(ttl),
            ..Self::new()
        }
    }
}
/// The entries of one key's map, in no particular but a repeatable order.
pub struct MapIter<'a, UK, UV> {
    rest: std::slice::Iter<'a, (UK, UV)>,
}
impl<'a, UK, UV> Iterator for MapIter<'a, UK, UV> {
    type Item = (&'a UK, &'a UV);
    fn next(&mut self) -> Option<Self::Item> {
        self.rest.next().map(|(k, v)| (k, v))
    }
}
#[allow(unused_variables)]
impl<K: Key, UK: Key, UV: Record> MapState<K, UK, UV> {
    /// The value under `inner` in the key's map.
    pub fn get(&mut self, at: KeyContext<'_, K>, inner: &UK) -> Option<&UV> {
        crate::pending()
    }
    /// The value under `inner`, to be written.
    pub fn get_mut(&mut self, at: KeyContext<'_, K>, inner: &UK) -> Option<&mut UV> {
        crate::pending()
    }
    /// The value under `inner`, made if there is none, to be written.
    pub fn get_or_insert_with(
        &mut self,
        at: KeyContext<'_, K>,
        inner: UK,
        make: impl FnOnce() -> UV,
    ) -> &mut UV {
        crate::pending()
    }
    /// Sets the value under `inner` and returns the one before.
    pub fn insert(&mut self, at: KeyContext<'_, K>, inner: UK, value: UV) -> Option<UV> {
        crate::pending()
    }
    /// Removes and returns the value under `inner`.
    pub fn remove(&mut self, at: KeyContext<'_, K>, inner: &UK) -> Option<UV> {
        crate::pending()
    }
    /// Whether there is a value under `inner`.
    pub fn contains(&mut self, at: KeyContext<'_, K>, inner: &UK) -> bool {
        self.get(at, inner).is_some()
    }
    /// The key's map.
    pub fn iter(&mut self, at: KeyContext<'_, K>) -> MapIter<'_, UK, UV> {
        crate::pending()
    }
    /// Entries of the key's map.
    pub fn len(&mut self, at: KeyContext<'_, K>) -> usize {
        crate::pending()
    }
    /// Whether the key's map is empty.
    pub fn is_empty(&mut self, at: KeyContext<'_, K>) -> bool {
        self.len(at) == 0
    }
    /// Removes the key's map.
    pub fn clear(&mut self, at: KeyContext<'_, K>) {
        crate::pending()
    }
}

impl<K: Key, UK: Key, UV: Record> KeyedTable<K> for MapState<K, UK, UV> {
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
