//! A map per key.
//!
//! Owns: [`MapState`]. A small map stands in its key's slot (`cell`), a large one has a block table of its own
//! (`big`); `ops` works on both.

mod big;
mod cell;
mod ops;

use tidegate_types::codec::{Key, Record};

pub(crate) use big::{BigMap, inner_hash};
pub(crate) use cell::MapCell;

use crate::context::KeyContext;
use crate::core::{Declared, impl_keyed_table};
use crate::describe::StateKind;
use crate::table::Iter;
use crate::ttl::Ttl;

/// A map per key: Flink's `MapState`.
///
/// A map of up to 48 entries (and 64 KiB) is searched entry by entry; a larger one is a hash table. After a cut
/// the first write to a small map preserves it with its neighbours, one to a large map about a hundred of its
/// entries. Time-to-live counts for the whole map of a key.
///
/// # Panics
/// As [`crate::ValueState`].
pub struct MapState<K: Key, UK: Key, UV: Record> {
    state: Declared<K, MapCell<UK, UV>>,
}

impl<K: Key, UK: Key, UV: Record> Default for MapState<K, UK, UV> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, UK: Key, UV: Record> MapState<K, UK, UV> {
    /// An undeclared state.
    pub fn new() -> Self {
        Self {
            state: Declared::new(StateKind::Map, None),
        }
    }

    /// An undeclared state whose maps expire.
    pub fn with_ttl(ttl: Ttl) -> Self {
        Self {
            state: Declared::new(StateKind::Map, Some(ttl)),
        }
    }

    /// The value under `inner` in the key's map.
    pub fn get(&mut self, at: KeyContext<'_, K>, inner: &UK) -> Option<&UV> {
        let core = self.state.core();
        let slot = core.find(at)?;
        core.map_value(slot, inner)
    }

    /// The value under `inner`, to be written.
    pub fn get_mut(&mut self, at: KeyContext<'_, K>, inner: &UK) -> Option<&mut UV> {
        self.state.core().map_value_mut(at, inner)
    }

    /// The value under `inner`, made if there is none, to be written.
    pub fn get_or_insert_with(
        &mut self,
        at: KeyContext<'_, K>,
        inner: UK,
        make: impl FnOnce() -> UV,
    ) -> &mut UV {
        let core = self.state.core();
        if core.map_value_mut(at, &inner).is_none() {
            core.map_insert_new(at, inner.clone(), make());
        }
        core.map_value_mut(at, &inner)
            .expect("it was there or was just inserted")
    }

    /// Sets the value under `inner` and returns the one before.
    pub fn insert(&mut self, at: KeyContext<'_, K>, inner: UK, value: UV) -> Option<UV> {
        let core = self.state.core();
        match core.map_value_mut(at, &inner) {
            Some(old) => Some(std::mem::replace(old, value)),
            None => {
                core.map_insert_new(at, inner, value);
                None
            }
        }
    }

    /// Removes and returns the value under `inner`. A map without entries is no longer there.
    pub fn remove(&mut self, at: KeyContext<'_, K>, inner: &UK) -> Option<UV> {
        self.state.core().map_remove(at, inner)
    }

    /// Whether there is a value under `inner`.
    pub fn contains(&mut self, at: KeyContext<'_, K>, inner: &UK) -> bool {
        self.get(at, inner).is_some()
    }

    /// The entries of the key's map: in the order of insertion while the map is small, else in none that means
    /// anything, but the same on every run.
    pub fn iter(&mut self, at: KeyContext<'_, K>) -> MapIter<'_, UK, UV> {
        let core = self.state.core();
        let Some(slot) = core.find(at) else {
            return MapIter { rest: Rest::Nothing };
        };
        let rest = match core.cell(slot) {
            MapCell::One(key, value) => Rest::One(key, value),
            MapCell::Few(entries) | MapCell::Outgrown(entries) => Rest::Some(entries.iter()),
            MapCell::Apart(number) => Rest::Table(core.store.get(*number).table.iter()),
        };
        MapIter { rest }
    }

    /// Keeps the entries that `keep` wants.
    pub fn retain(&mut self, at: KeyContext<'_, K>, mut keep: impl FnMut(&UK, &UV) -> bool) {
        let gone: Vec<UK> = self
            .iter(at)
            .filter(|(key, value)| !keep(key, value))
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            self.remove(at, &key);
        }
    }

    /// Entries of the key's map.
    pub fn len(&mut self, at: KeyContext<'_, K>) -> usize {
        let core = self.state.core();
        core.find(at).map_or(0, |slot| core.map_len(slot))
    }

    /// Whether the key's map is empty.
    pub fn is_empty(&mut self, at: KeyContext<'_, K>) -> bool {
        self.state.core().find(at).is_none()
    }

    /// Removes the key's map. Constant time even if a cut still wants it.
    pub fn clear(&mut self, at: KeyContext<'_, K>) {
        let core = self.state.core();
        if let Some(cell) = core.remove(at) {
            core.dispose(cell);
        }
    }

    /// How many keys have a map, expired ones included.
    pub fn keys(&self) -> u64 {
        self.state.core_ref().table.len()
    }
}

impl_keyed_table!([K: Key, UK: Key, UV: Record] MapState<K, UK, UV>);

/// The entries of one key's map.
pub struct MapIter<'a, UK, UV> {
    rest: Rest<'a, UK, UV>,
}

enum Rest<'a, UK, UV> {
    Nothing,
    One(&'a UK, &'a UV),
    Some(std::slice::Iter<'a, (UK, UV)>),
    Table(Iter<'a, UK, UV>),
}

impl<'a, UK: Eq, UV> Iterator for MapIter<'a, UK, UV> {
    type Item = (&'a UK, &'a UV);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.rest {
            Rest::Nothing => None,
            Rest::One(key, value) => {
                let entry = (*key, *value);
                self.rest = Rest::Nothing;
                Some(entry)
            }
            Rest::Some(entries) => entries.next().map(|(key, value)| (key, value)),
            Rest::Table(entries) => entries.next().map(|entry| (&entry.key, &entry.value)),
        }
    }
}
