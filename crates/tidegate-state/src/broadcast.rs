//! A map that is the same in every subtask.

use tidegate_types::CheckpointId;
use tidegate_types::codec::{Key, Record, TypeFormat, decode_as, encode_as};
use tidegate_types::snapshot::SectionHead;

use crate::describe::{Formats, StateDescription, StateKind, TypeDescription, TypePart};
use crate::error::StateError;
use crate::keyed::{Cut, Outcome, StateMetrics, StateSetup};
use crate::map::{BigMap, inner_hash};
use crate::operator::{OperatorState, Share};
use crate::operator_core::{OperatorCore, undeclared};
use crate::snapshot::StateSnapshot;

/// A map that is the same in every subtask: Flink's `BroadcastState`. Only elements of a broadcast input may
/// change it, and by the element alone. Meant to be small: a cut encodes it on the task's thread.
pub struct BroadcastState<K: Key, V: Record> {
    core: Option<OperatorCore>,
    formats: Option<(TypeFormat<K>, TypeFormat<V>)>,
    map: BigMap<K, V>,
}

impl<K: Key, V: Record> Default for BroadcastState<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, V: Record> BroadcastState<K, V> {
    /// An empty map.
    pub fn new() -> Self {
        Self {
            core: None,
            formats: None,
            map: BigMap::new(0),
        }
    }

    /// The value under `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.map.get(key)
    }

    /// Sets the value under `key` and returns the one before.
    ///
    /// # Panics
    /// If the state was never declared.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.core.is_none() {
            undeclared(StateKind::Broadcast);
        }
        self.put(key, value)
    }

    fn put(&mut self, key: K, value: V) -> Option<V> {
        let hash = inner_hash(&key);
        let table = &mut self.map.table;
        match table.find(table.home(hash), hash, &key) {
            Some(slot) => Some(std::mem::replace(table.get_mut(slot), value)),
            None => {
                self.map.insert_preserved(key, hash, value);
                None
            }
        }
    }

    /// Removes and returns the value under `key`.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let hash = inner_hash(key);
        let table = &mut self.map.table;
        let home = table.home(hash);
        let slot = table.find(home, hash, key)?;
        Some(table.remove(home, slot, hash, false))
    }

    /// All entries, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.map.table.iter().map(|entry| (&entry.key, &entry.value))
    }

    /// How many entries.
    pub fn len(&self) -> usize {
        self.map.table.len() as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.map = BigMap::new(0);
    }
}

impl<K: Key, V: Record> OperatorState for BroadcastState<K, V> {
    fn describe(&self, formats: &Formats) -> StateDescription {
        let types = vec![
            TypeDescription::of::<K>(TypePart::MapKey, formats),
            TypeDescription::of::<V>(TypePart::Value, formats),
        ];
        StateDescription {
            kind: StateKind::Broadcast,
            types,
            ttl: None,
        }
    }

    fn open(&mut self, name: &str, setup: &StateSetup) -> Result<(), StateError> {
        self.core = Some(OperatorCore::new(name, setup, self.describe(&setup.formats)));
        self.formats = Some((setup.formats.of(), setup.formats.of()));
        self.clear();
        Ok(())
    }

    fn cut(&mut self, cut: Cut) {
        let Some(core) = &mut self.core else {
            undeclared(StateKind::Broadcast)
        };
        let (table, formats) = (&self.map.table, &self.formats);
        core.cut(cut, |encoding, out| {
            if let (Some(first), Some(formats)) = (table.iter().next(), formats) {
                formats.0.check_first(encoding, &first.key)?;
                formats.1.check_first(encoding, &first.value)?;
            }
            for entry in table.iter() {
                encode_as(encoding, &entry.key, out)?;
                encode_as(encoding, &entry.value, out)?;
            }
            Ok(table.len() as u32)
        });
    }

    fn take_finished(&mut self) -> Option<StateSnapshot> {
        self.core.as_mut()?.take_finished()
    }

    fn decided(&mut self, id: CheckpointId, outcome: Outcome) {
        if let Some(core) = &mut self.core {
            core.decided(id, outcome);
        }
    }

    fn restore(&mut self, head: &SectionHead, bytes: &[u8], _: Share) -> Result<u64, StateError> {
        let Some(core) = self.core.take() else {
            undeclared(StateKind::Broadcast)
        };
        let mut restored = 0;
        let result = core.restore(head, bytes, |_, encoding, input| {
            let key = decode_as(encoding, input)?;
            self.put(key, decode_as(encoding, input)?);
            restored += 1;
            Ok(())
        });
        self.core = Some(core);
        result.map(|()| restored)
    }

    fn metrics(&self) -> StateMetrics {
        let (buffered_bytes, open_cuts) = self
            .core
            .as_ref()
            .map_or((0, 0), |core| (core.buffered_bytes(), core.open_cuts()));
        StateMetrics {
            entries: self.len() as u64,
            table_bytes: self.map.table.memory_bytes(),
            buffered_bytes,
            open_cuts,
        }
    }
}
