//! Timers per key.
//!
//! What is stored is a keyed table like any other, a set of times per key, cut in constant time. What says
//! which timer is next is an index by time and hash beside it; it is derived, never stored, and rebuilt on
//! restore. The index holds hashes instead of keys: the table finds the key when the timer fires.

use std::collections::BTreeSet;

use tidegate_types::CheckpointId;
use tidegate_types::codec::Key;
use tidegate_types::key_group::HashRange;
use tidegate_types::snapshot::SectionHead;

use crate::context::KeyContext;
use crate::core::{Core, Declared, rehash};
use crate::describe::{Formats, StateDescription, StateKind};
use crate::error::StateError;
use crate::keyed::{Cut, KeyedTable, Outcome, Progress, StateMetrics, StateSetup};
use crate::map::MapCell;
use crate::snapshot::StateSnapshot;

/// A timer that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueTimer<K> {
    /// Whose it is.
    pub key: K,
    /// The key's hash.
    pub hash: u64,
    /// When it was to fire.
    pub time: i64,
}

/// Timers of one clock (event time or processing time), deduplicated per key and time.
///
/// Registering, deleting and firing take logarithmic time. Firing may stop after any timer: what has fired is
/// gone, the rest stays, and a cut in between has exactly the rest.
///
/// # Panics
/// As [`crate::ValueState`].
pub struct Timers<K: Key> {
    state: Declared<K, Times>,
    /// Time and hash of every timer. Two keys of one hash may share an entry, which stays until both are gone.
    due: BTreeSet<(i64, u64)>,
    len: usize,
}

type Times = MapCell<i64, ()>;

impl<K: Key> Default for Timers<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key> Timers<K> {
    /// Undeclared timers.
    pub fn new() -> Self {
        Self {
            state: Declared::new(StateKind::Timers, None),
            due: BTreeSet::new(),
            len: 0,
        }
    }

    /// Registers a timer; `false` if the key has one at that time already.
    pub fn register(&mut self, at: KeyContext<'_, K>, time: i64) -> bool {
        let core = self.state.core();
        if core
            .find(at)
            .is_some_and(|slot| core.map_value(slot, &time).is_some())
        {
            return false;
        }
        core.map_insert_new(at, time, ());
        self.due.insert((time, at.hash));
        self.len += 1;
        true
    }

    /// Deletes a timer; `false` if the key has none at that time.
    pub fn delete(&mut self, at: KeyContext<'_, K>, time: i64) -> bool {
        let core = self.state.core();
        if core.map_remove(at, &time).is_none() {
            return false;
        }
        self.len -= 1;
        if key_with_timer(core, at.hash, time).is_none() {
            self.due.remove(&(time, at.hash));
        }
        true
    }

    /// When the next timer is due.
    pub fn next_due(&self) -> Option<i64> {
        self.due.first().map(|(time, _)| *time)
    }

    /// Removes and returns the earliest timer that is due at or before `up_to`: by time, then by hash.
    pub fn pop_due(&mut self, up_to: i64) -> Option<DueTimer<K>> {
        loop {
            let place = self.next_from((i64::MIN, 0), up_to)?;
            if let Some(due) = self.pop_at(place) {
                return Some(due);
            }
        }
    }

    /// Time and hash of the first timer at this time and hash or behind it, as far as it is due at or before `up_to`:
    /// for whoever passes some over.
    pub fn next_from(&self, from: (i64, u64), up_to: i64) -> Option<(i64, u64)> {
        let next = self.due.range(from..).next().copied();
        next.filter(|(time, _)| *time <= up_to)
    }

    /// Removes and returns one timer of this time and hash.
    pub fn pop_at(&mut self, (time, hash): (i64, u64)) -> Option<DueTimer<K>> {
        let core = self.state.core();
        let Some(key) = key_with_timer(core, hash, time) else {
            // An entry without a timer can't be; if it were, looping on it would be worse than losing it.
            self.due.remove(&(time, hash));
            return None;
        };
        core.map_remove(KeyContext::new(&key, hash, 0), &time);
        self.len -= 1;
        if key_with_timer(core, hash, time).is_none() {
            self.due.remove(&(time, hash));
        }
        Some(DueTimer { key, hash, time })
    }

    /// Fills `hashes` with those of the next timers to fire, in their order, as far as they are due at or before
    /// `up_to`; says how many. For [`StateSet::prefetch`](crate::StateSet::prefetch): a firing touches other states
    /// of its key too.
    pub fn due_hashes(&self, up_to: i64, hashes: &mut [u64]) -> usize {
        let due = self.due.range(..=(up_to, u64::MAX));
        hashes
            .iter_mut()
            .zip(due)
            .map(|(slot, (_, hash))| *slot = *hash)
            .count()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds what the table has among these hashes to the index.
    fn index(&mut self, hashes: HashRange) {
        let core = self.state.core();
        for home in core.table.homes_in(hashes) {
            for slot in core.table.slots_of(home) {
                let entry = core.table.get(slot);
                let hash = rehash(&entry.key);
                let mut add = |time: &i64| self.len += usize::from(self.due.insert((*time, hash)));
                match entry.value {
                    MapCell::Apart(number) => core
                        .store
                        .get(number)
                        .table
                        .iter()
                        .for_each(|entry| add(&entry.key)),
                    ref cell => cell.entries().for_each(|(time, ())| add(time)),
                }
            }
        }
    }
}

/// A key of this hash that has a timer at this time.
fn key_with_timer<K: Key>(core: &Core<K, Times>, hash: u64, time: i64) -> Option<K> {
    let home = core.table.home(hash);
    let slot = core.table.find_by(home, hash, |entry| match entry.value {
        MapCell::Apart(number) => core.store.get(number).get(&time).is_some() && rehash(&entry.key) == hash,
        ref cell => cell.entries().any(|(known, ())| *known == time) && rehash(&entry.key) == hash,
    })?;
    Some(core.table.get(slot).key.clone())
}

impl<K: Key> KeyedTable<K> for Timers<K> {
    fn describe(&self, formats: &Formats) -> StateDescription {
        self.state.describe(formats)
    }

    fn open(&mut self, name: &str, setup: &StateSetup) -> Result<(), StateError> {
        self.state.open(name, setup);
        (self.due, self.len) = (BTreeSet::new(), 0);
        Ok(())
    }

    fn prefetch(&self, hashes: &[u64]) {
        // Most functions have no timers, and then there is nothing to fetch.
        let core = self.state.core_ref();
        if core.table.len() > 0 {
            core.prefetch(hashes);
        }
    }

    fn cut(&mut self, cut: Cut) {
        self.state.core().cut(cut);
    }

    fn sweep(&mut self, more: &mut dyn FnMut() -> bool) -> Progress {
        self.state.core().sweep(more)
    }

    fn take_finished(&mut self) -> Option<StateSnapshot> {
        self.state.core().take_finished()
    }

    fn decided(&mut self, id: CheckpointId, outcome: Outcome) {
        self.state.core().decided(id, outcome);
    }

    fn restore(&mut self, head: &SectionHead, bytes: &[u8]) -> Result<u64, StateError> {
        let restored = self.state.core().restore(head, bytes)?;
        // A section's blocks may reach over its edges; what is indexed already stays once.
        self.index(head.hashes.unwrap_or(HashRange::ALL));
        Ok(restored)
    }

    fn metrics(&self) -> StateMetrics {
        self.state.core_ref().metrics()
    }
}
