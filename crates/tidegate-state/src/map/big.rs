//! A map that has outgrown its slot: a block table of its own.

use std::hash::{DefaultHasher, Hasher};

use tidegate_types::codec::{Key, Record, encode_as};
use tidegate_types::hash::key_hash;
use tidegate_types::key_group::HashRange;

use crate::apart::{Big, PartSink};
use crate::table::{BlockTable, Slot};

/// A map in blocks of its own.
pub(crate) struct BigMap<UK, UV> {
    pub(crate) table: BlockTable<UK, UV>,
    /// The lap that is under way.
    lap: Option<u32>,
    /// The next block of the lap.
    at: Option<u64>,
}

/// The hash of a map key. It decides where an entry stands in its map and by that the order of the entries,
/// nothing else; the stable hash keeps that order the same on every machine. Keys that have none may be map
/// keys all the same.
#[inline]
pub(crate) fn inner_hash<UK: Key>(key: &UK) -> u64 {
    key_hash(key).unwrap_or_else(|_| {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        hasher.finish()
    })
}

impl<UK: Key, UV: Record> BigMap<UK, UV> {
    /// An empty map made in `epoch`.
    pub(crate) fn new(epoch: u32) -> Self {
        Self {
            table: BlockTable::new(Some(HashRange::ALL), false, epoch, inner_hash::<UK>),
            lap: None,
            at: None,
        }
    }

    /// The value under a key.
    pub(crate) fn get(&self, key: &UK) -> Option<&UV> {
        let slot = self.find(key)?;
        Some(&self.table.get(slot).value)
    }

    fn find(&self, key: &UK) -> Option<Slot> {
        let hash = inner_hash(key);
        self.table.find(self.table.home(hash), hash, key)
    }

    /// The slot of a key, to be written.
    pub(crate) fn find_mut(&mut self, key: &UK, sink: &mut PartSink<'_>) -> Option<Slot> {
        let slot = self.find(key)?;
        self.preserve(self.table.position(inner_hash(key)), sink);
        Some(slot)
    }

    /// Inserts a key that isn't there.
    pub(crate) fn insert(&mut self, key: UK, value: UV, sink: &mut PartSink<'_>) -> Slot {
        let hash = inner_hash(&key);
        self.preserve(self.table.position(hash), sink);
        self.insert_preserved(key, hash, value)
    }

    /// Inserts a key that isn't there into a block that owes nothing.
    pub(crate) fn insert_preserved(&mut self, mut key: UK, hash: u64, mut value: UV) -> Slot {
        loop {
            match self.table.insert(self.table.home(hash), hash, key, value) {
                Ok(slot) => return slot,
                Err(full) => (key, value) = (full.key, full.value),
            }
            self.table.make_room(hash);
        }
    }

    /// Removes and returns the value under a key.
    pub(crate) fn remove(&mut self, key: &UK, sink: &mut PartSink<'_>) -> Option<UV> {
        let slot = self.find_mut(key, sink)?;
        let hash = inner_hash(key);
        Some(
            self.table
                .remove(self.table.home(hash), slot, hash, sink.cuts().has_base()),
        )
    }

    fn preserve(&mut self, position: u64, sink: &mut PartSink<'_>) {
        let (home, _) = self.table.step(position);
        if home.epoch == sink.epoch() {
            return;
        }
        let table = &self.table;
        sink.part(home.epoch, 1, |encoding, out| {
            let mut entries = 0;
            for slot in table.slots_of(home) {
                let entry = table.get(slot);
                encode_as(encoding, &entry.key, out)?;
                encode_as(encoding, &entry.value, out)?;
                entries += 1;
            }
            Ok(entries)
        });
        let cuts = sink.cuts();
        self.table
            .set_preserved(position, cuts.epoch(), |epoch| cuts.fate(epoch));
    }
}

impl<UK: Key, UV: Record> Big for BigMap<UK, UV> {
    fn sweep_one(&mut self, lap: u32, sink: &mut PartSink<'_>) -> bool {
        if self.lap != Some(lap) {
            (self.lap, self.at) = (Some(lap), Some(0));
        }
        let Some(position) = self.at else { return false };
        self.preserve(position, sink);
        self.at = self.table.step(position).1;
        self.at.is_some()
    }

    fn rewind(&mut self) {
        self.lap = None;
    }

    fn memory_bytes(&self) -> u64 {
        self.table.memory_bytes()
    }
}
