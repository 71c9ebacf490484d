//! A value per key.

use tidegate_types::codec::{Key, Record};

use crate::cell::Plain;
use crate::context::KeyContext;
use crate::core::{Declared, impl_keyed_table};
use crate::describe::StateKind;
use crate::ttl::Ttl;

/// A value per key: Flink's `ValueState`.
///
/// Values stand in the table itself, beside their key; what they own on the heap stays there. An access that
/// may write counts as a write, whether it changes anything or not.
///
/// ```
/// use tidegate_state::{Formats, KeyContext, KeyedTable, StateSetup, ValueState};
/// use tidegate_types::{hash::key_hash, key_group::HashRange};
///
/// let mut count: ValueState<u64, u64> = ValueState::new();
/// // A runtime does this for what an operator declares.
/// let setup = StateSetup {
///     uid: "counter".into(),
///     range: Some(HashRange::ALL),
///     formats: Formats::new(),
///     now_ms: 0,
/// };
/// count.open("count", &setup)?;
///
/// let key = 7;
/// let at = KeyContext::new(&key, key_hash(&key)?, 0);
/// count.update(at, |n| *n += 1);
/// assert_eq!(count.get(at), Some(&1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// Every access panics if the state was never declared, or the hash isn't one of the subtask's. Both are
/// programming errors; they fail the task.
pub struct ValueState<K: Key, V: Record> {
    pub(crate) state: Declared<K, Plain<V>>,
}

impl<K: Key, V: Record> Default for ValueState<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, V: Record> ValueState<K, V> {
    /// An undeclared state.
    pub fn new() -> Self {
        Self {
            state: Declared::new(StateKind::Value, None),
        }
    }

    /// An undeclared state whose values expire.
    pub fn with_ttl(ttl: Ttl) -> Self {
        Self {
            state: Declared::new(StateKind::Value, Some(ttl)),
        }
    }

    /// The key's value.
    #[inline]
    pub fn get(&mut self, at: KeyContext<'_, K>) -> Option<&V> {
        let core = self.state.core();
        let slot = core.find(at)?;
        Some(&core.cell(slot).0)
    }

    /// The key's value, to be written.
    #[inline]
    pub fn get_mut(&mut self, at: KeyContext<'_, K>) -> Option<&mut V> {
        let core = self.state.core();
        let slot = core.find_mut(at)?;
        Some(&mut core.cell_mut(slot).0)
    }

    /// The key's value, made if there is none, to be written.
    #[inline]
    pub fn get_or_insert_with(&mut self, at: KeyContext<'_, K>, make: impl FnOnce() -> V) -> &mut V {
        let core = self.state.core();
        let slot = core.find_or_insert(at, || Plain(make()));
        &mut core.cell_mut(slot).0
    }

    /// Sets the key's value and returns the one before.
    #[inline]
    pub fn set(&mut self, at: KeyContext<'_, K>, value: V) -> Option<V> {
        let core = self.state.core();
        match core.find_mut(at) {
            Some(slot) => Some(std::mem::replace(&mut core.cell_mut(slot).0, value)),
            None => {
                core.insert(at, Plain(value));
                None
            }
        }
    }

    /// Changes the key's value in place, starting from the default if there is none. Should `change` panic, the
    /// value is what `change` left.
    #[inline]
    pub fn update<R>(&mut self, at: KeyContext<'_, K>, change: impl FnOnce(&mut V) -> R) -> R
    where
        V: Default,
    {
        let core = self.state.core();
        match core.try_edit(at, |cell| change(&mut cell.0)) {
            Ok(result) => result,
            Err(change) => core.edit_slowly(at, || Plain(V::default()), change),
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

    /// Shows every entry in hash order, expired ones that are still there included. Costs a walk over the whole
    /// table.
    pub fn for_each(&self, mut visit: impl FnMut(&K, &V)) {
        self.state.core_ref().for_each(|key, cell| visit(key, &cell.0));
    }
}

impl_keyed_table!([K: Key, V: Record] ValueState<K, V>);
