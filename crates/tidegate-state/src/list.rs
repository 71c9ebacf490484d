//! A list per key.

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

/// A list per key.
pub struct ListState<K, T> {
    ttl: Option<Ttl>,
    _types: PhantomData<fn() -> (K, T)>,
}
impl<K, T> Default for ListState<K, T> {
    fn default() -> Self {
        Self::new()
    }
}
impl<K, T> ListState<K, T> {
    /// An undeclared state.
    pub fn new() -> Self {
        Self {
            ttl: None,
            _types: PhantomData,
        }
    }
    /// An undeclared state whose lists expire.
    pub fn with_ttl(ttl: Ttl) -> Self {
        Self {
            ttl: Some(ttl),
            ..Self::new()
        }
    }
}
/// The elements of one key's list, in order.
pub struct ListIter<'a, T> {
    rest: std::slice::Iter<'a, T>,
}
impl<'a, T> Iterator for ListIter<'a, T> {
    type Item = &'a T;
    fn next(&mut self) -> Option<&'a T> {
        self.rest.next()
    }
}
#[allow(unused_variables)]
impl<K: Key, T: Record> ListState<K, T> {
    /// Appends to the key's list.
    pub fn add(&mut self, at: KeyContext<'_, K>, element: T) {
        crate::pending()
    }
    /// Appends all to the key's list.
    pub fn extend(&mut self, at: KeyContext<'_, K>, elements: impl IntoIterator<Item = T>) {
        crate::pending()
    }
    /// Replaces the key's list.
    pub fn set(&mut self, at: KeyContext<'_, K>, elements: Vec<T>) {
        crate::pending()
    }
    /// The key's list.
    pub fn iter(&mut self, at: KeyContext<'_, K>) -> ListIter<'_, T> {
        crate::pending()
    }
    /// Elements of the key's list.
    pub fn len(&mut self, at: KeyContext<'_, K>) -> usize {
        crate::pending()
    }
    /// Whether the key's list is empty.
    pub fn is_empty(&mut self, at: KeyContext<'_, K>) -> bool {
        self.len(at) == 0
    }
    /// Removes and returns the key's list.
    pub fn take(&mut self, at: KeyContext<'_, K>) -> Vec<T> {
        crate::pending()
    }
    /// Removes the key's list.
    pub fn clear(&mut self, at: KeyContext<'_, K>) {
        crate::pending()
    }
}

impl<K: Key, T: Record> KeyedTable<K> for ListState<K, T> {
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
