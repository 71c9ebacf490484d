//! A value per key into which others are reduced.

use tidegate_types::codec::{Key, Record};

use crate::cell::Plain;
use crate::context::KeyContext;
use crate::core::{Declared, impl_keyed_table};
use crate::describe::StateKind;
use crate::ttl::Ttl;

/// A value per key into which others are reduced: Flink's `ReducingState`.
///
/// `F` is called as `reduce(&mut into, value)`. With the default, a function pointer, the type can be written
/// down in a struct's field; a closure's own type is inlined.
///
/// # Panics
/// As [`crate::ValueState`].
pub struct ReducingState<K: Key, V: Record, F = fn(&mut V, V)> {
    state: Declared<K, Plain<V>>,
    reduce: F,
}

impl<K: Key, V: Record, F: FnMut(&mut V, V) + Send> ReducingState<K, V, F> {
    /// An undeclared state.
    pub fn new(reduce: F) -> Self {
        Self {
            state: Declared::new(StateKind::Reducing, None),
            reduce,
        }
    }

    /// An undeclared state whose values expire.
    pub fn with_ttl(reduce: F, ttl: Ttl) -> Self {
        Self {
            state: Declared::new(StateKind::Reducing, Some(ttl)),
            reduce,
        }
    }

    /// The key's value.
    #[inline]
    pub fn get(&mut self, at: KeyContext<'_, K>) -> Option<&V> {
        let core = self.state.core();
        let slot = core.find(at)?;
        Some(&core.cell(slot).0)
    }

    /// Reduces `value` into the key's value; the first becomes it.
    #[inline]
    pub fn add(&mut self, at: KeyContext<'_, K>, value: V) {
        let core = self.state.core();
        match core.find_mut(at) {
            Some(slot) => (self.reduce)(&mut core.cell_mut(slot).0, value),
            None => {
                core.insert(at, Plain(value));
            }
        }
    }

    /// Removes and returns the key's value.
    pub fn take(&mut self, at: KeyContext<'_, K>) -> Option<V> {
        self.state.core().remove(at).map(|cell| cell.0)
    }

    /// Removes the key's value.
    pub fn clear(&mut self, at: KeyContext<'_, K>) {
        drop(self.take(at));
    }

    /// Keys with a value, expired ones included.
    pub fn len(&self) -> u64 {
        self.state.core_ref().table.len()
    }

    /// Whether no key has a value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl_keyed_table!([K: Key, V: Record, F: FnMut(&mut V, V) + Send] ReducingState<K, V, F>);
