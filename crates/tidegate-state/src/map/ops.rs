//! Working on one key's map, wherever it stands: shared by map states and timers.

use tidegate_types::codec::{Key, Record};

use super::big::{BigMap, inner_hash};
use super::cell::MapCell;
use crate::context::KeyContext;
use crate::core::Core;
use crate::table::Slot;

impl<K: Key, UK: Key, UV: Record> Core<K, MapCell<UK, UV>> {
    /// The value under `inner` of the map in a slot.
    pub(crate) fn map_value(&self, slot: Slot, inner: &UK) -> Option<&UV> {
        match self.cell(slot) {
            MapCell::Apart(number) => self.store.get(*number).get(inner),
            cell => cell
                .entries()
                .find(|(key, _)| *key == inner)
                .map(|(_, value)| value),
        }
    }

    /// How many entries the map in a slot has.
    pub(crate) fn map_len(&self, slot: Slot) -> usize {
        match self.cell(slot) {
            MapCell::One(..) => 1,
            MapCell::Few(entries) | MapCell::Outgrown(entries) => entries.len(),
            MapCell::Apart(number) => self.store.get(*number).table.len() as usize,
        }
    }

    /// The value under `inner`, to be written.
    pub(crate) fn map_value_mut(&mut self, at: KeyContext<'_, K>, inner: &UK) -> Option<&mut UV> {
        let slot = self.find_mut(at)?;
        if matches!(self.cell(slot), MapCell::Outgrown(_)) {
            self.take_apart(at, slot);
        }
        if let MapCell::Apart(number) = *self.cell(slot) {
            let (store, context) = self.store_and_context();
            let found = store.edit(number, context, |big, sink| big.find_mut(inner, sink))?;
            return Some(self.store.get_mut(number).table.get_mut(found));
        }
        match self.cell_mut(slot) {
            MapCell::One(key, value) => (key == inner).then_some(value),
            MapCell::Few(entries) | MapCell::Outgrown(entries) => entries
                .iter_mut()
                .find(|(key, _)| key == inner)
                .map(|(_, value)| value),
            MapCell::Apart(_) => None,
        }
    }

    /// Inserts under a key that isn't in the map.
    pub(crate) fn map_insert_new(&mut self, at: KeyContext<'_, K>, inner: UK, value: UV) {
        let Some(slot) = self.find_mut(at) else {
            self.insert(at, MapCell::One(inner, value));
            return;
        };
        if self.cell(slot).should_move() {
            self.take_apart(at, slot);
        }
        if let MapCell::Apart(number) = *self.cell(slot) {
            let (store, context) = self.store_and_context();
            store.edit(number, context, |big, sink| big.insert(inner, value, sink));
            return;
        }
        let cell = self.cell_mut(slot);
        let mut entries = match std::mem::replace(cell, MapCell::Few(Vec::new())) {
            MapCell::One(key, value) => vec![(key, value)],
            MapCell::Few(entries) | MapCell::Outgrown(entries) => entries,
            MapCell::Apart(_) => Vec::new(),
        };
        entries.push((inner, value));
        *cell = MapCell::Few(entries);
    }

    /// Removes and returns the value under `inner`.
    pub(crate) fn map_remove(&mut self, at: KeyContext<'_, K>, inner: &UK) -> Option<UV> {
        let slot = self.find_mut(at)?;
        let (removed, left) = match self.cell(slot) {
            MapCell::Apart(number) => {
                let number = *number;
                let (store, context) = self.store_and_context();
                let removed = store.edit(number, context, |big, sink| big.remove(inner, sink));
                (removed?, self.store.get(number).table.len() as usize)
            }
            MapCell::One(key, _) => {
                if key != inner {
                    return None;
                }
                return match self.remove_slot(slot, at.hash) {
                    MapCell::One(_, value) => Some(value),
                    MapCell::Few(_) | MapCell::Outgrown(_) | MapCell::Apart(_) => None,
                };
            }
            MapCell::Few(_) | MapCell::Outgrown(_) => match self.cell_mut(slot) {
                MapCell::Few(entries) | MapCell::Outgrown(entries) => {
                    let found = entries.iter().position(|(key, _)| key == inner)?;
                    (entries.remove(found).1, entries.len())
                }
                MapCell::One(..) | MapCell::Apart(_) => return None,
            },
        };
        if left == 0 {
            let cell = self.remove_slot(slot, at.hash);
            self.dispose(cell);
        }
        Some(removed)
    }

    /// Gives the map in a slot a table of its own.
    fn take_apart(&mut self, at: KeyContext<'_, K>, slot: Slot) {
        let mut big = BigMap::new(self.cuts.epoch());
        if let MapCell::Few(entries) | MapCell::Outgrown(entries) = self.cell_mut(slot) {
            for (key, value) in std::mem::take(entries) {
                let hash = inner_hash(&key);
                big.insert_preserved(key, hash, value);
            }
            let stamp_ms = self.table.stamp_ms(slot);
            let number = self.store.add(at.key.clone(), at.hash, stamp_ms, big);
            *self.cell_mut(slot) = MapCell::Apart(number);
        }
    }
}
