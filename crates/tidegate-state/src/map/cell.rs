//! One key's map, as it stands in a slot.

use tidegate_types::codec::{CodecError, Key, Record, TypeFormat, decode_as, encode_as};
use tidegate_types::snapshot::Encoding;

use super::big::{BigMap, inner_hash};
use crate::apart::{Apart, LARGE_BYTES};
use crate::cell::{Cell, Store, StoreContext, StoredPart, invalid, truncated};
use crate::context::KeyContext;
use crate::core::Core;
use crate::cuts::Cuts;
use crate::describe::{Formats, TypeDescription, TypePart};
use crate::keyed::Progress;
use crate::section::take_u32;

/// Entries that are searched one by one; a map with more gets a table of its own.
pub(crate) const FEW: usize = 48;
/// Stands for the number of entries of a map whose content is in parts.
const IN_PARTS: u32 = u32::MAX;

/// A map. Never empty, except while it is being restored: a key without entries has no slot.
pub(crate) enum MapCell<UK, UV> {
    /// One entry: no allocation. Most timers and windows are alone with their key.
    One(UK, UV),
    /// Some, in the order of insertion.
    Few(Vec<(UK, UV)>),
    /// Some, large when encoded.
    Outgrown(Vec<(UK, UV)>),
    /// A table of its own.
    Apart(u32),
}

impl<UK: Key, UV: Record> MapCell<UK, UV> {
    /// The entries of a map that isn't apart.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&UK, &UV)> {
        let (one, some) = match self {
            Self::One(key, value) => (Some((key, value)), &[][..]),
            Self::Few(entries) | Self::Outgrown(entries) => (None, entries.as_slice()),
            Self::Apart(_) => (None, &[][..]),
        };
        one.into_iter()
            .chain(some.iter().map(|(key, value)| (key, value)))
    }

    /// Whether one entry more, or a write at all, should take it apart.
    pub(crate) fn should_move(&self) -> bool {
        match self {
            Self::One(..) | Self::Apart(_) => false,
            Self::Few(entries) => {
                entries.len() >= FEW || (entries.len() + 1) * size_of::<(UK, UV)>() > LARGE_BYTES
            }
            Self::Outgrown(_) => true,
        }
    }
}

impl<UK: Key, UV: Record> Cell for MapCell<UK, UV> {
    type Formats = (TypeFormat<UK>, TypeFormat<UV>);
    type Store<K: Key> = Apart<K, BigMap<UK, UV>>;

    fn formats(formats: &Formats) -> Self::Formats {
        (formats.of(), formats.of())
    }

    fn describe(formats: &Formats) -> Vec<TypeDescription> {
        vec![
            TypeDescription::of::<UK>(TypePart::MapKey, formats),
            TypeDescription::of::<UV>(TypePart::Value, formats),
        ]
    }

    fn encode(&self, encoding: Encoding, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let count = match self {
            Self::One(..) => 1,
            Self::Few(entries) | Self::Outgrown(entries) => entries.len() as u32,
            Self::Apart(_) => IN_PARTS,
        };
        out.extend_from_slice(&count.to_le_bytes());
        for (key, value) in self.entries() {
            encode_as(encoding, key, out)?;
            encode_as(encoding, value, out)?;
        }
        Ok(())
    }

    fn decode(encoding: Encoding, input: &mut &[u8]) -> Result<Option<Self>, CodecError> {
        let count = take_u32(input).ok_or_else(|| truncated(4, input))?;
        if count == IN_PARTS {
            return Ok(None);
        }
        let mut entries = Vec::with_capacity((count as usize).min(FEW).min(input.len()));
        for _ in 0..count {
            entries.push((decode_as(encoding, input)?, decode_as(encoding, input)?));
        }
        match (entries.len(), entries.pop()) {
            (1, Some((key, value))) => Ok(Some(Self::One(key, value))),
            (_, Some(last)) => {
                entries.push(last);
                Ok(Some(Self::Few(entries)))
            }
            (_, None) => Err(invalid("an empty map has no entry in the table")),
        }
    }

    fn restore_part<K: Key>(
        core: &mut Core<K, Self>,
        at: KeyContext<'_, K>,
        part: StoredPart<'_, '_>,
    ) -> Result<(), CodecError> {
        let epoch = core.cuts.epoch();
        let home = core.table.home(at.hash);
        let slot = match core.table.find(home, at.hash, at.key) {
            Some(slot) => slot,
            None => {
                let number = core
                    .store
                    .add(at.key.clone(), at.hash, at.now_ms, BigMap::new(epoch));
                core.insert(at, Self::Apart(number))
            }
        };
        let Self::Apart(number) = *core.cell(slot) else {
            return Err(invalid("a map that is stored whole has parts as well"));
        };
        let big = core.store.get_mut(number);
        for _ in 0..part.entries {
            let key: UK = decode_as(part.encoding, part.input)?;
            let value = decode_as(part.encoding, part.input)?;
            if big.get(&key).is_some() {
                return Err(invalid("a map key occurs twice"));
            }
            let hash = inner_hash(&key);
            big.insert_preserved(key, hash, value);
        }
        Ok(())
    }

    fn outgrown(&mut self) {
        if let Self::Few(entries) = self {
            *self = Self::Outgrown(std::mem::take(entries));
        }
    }

    fn check(&self, encoding: Encoding, formats: &Self::Formats) -> Result<(), CodecError> {
        match self.entries().next() {
            Some((key, value)) => {
                formats.0.check_first(encoding, key)?;
                formats.1.check_first(encoding, value)
            }
            None => Ok(()),
        }
    }

    fn apart(&self) -> Option<u32> {
        match self {
            Self::Apart(number) => Some(*number),
            Self::One(..) | Self::Few(_) | Self::Outgrown(_) => None,
        }
    }
}

impl<K: Key, UK: Key, UV: Record> Store<MapCell<UK, UV>> for Apart<K, BigMap<UK, UV>> {
    fn dispose(&mut self, cell: MapCell<UK, UV>, cuts: &Cuts) {
        if let MapCell::Apart(number) = cell {
            self.doom(number, cuts);
        }
    }

    fn touch(&mut self, apart: u32, stamp_ms: i64) {
        Self::touch(self, apart, stamp_ms);
    }

    fn sweep(&mut self, context: StoreContext<'_>, more: &mut dyn FnMut() -> bool) -> Progress {
        Self::sweep(self, context, more)
    }

    fn restart(&mut self) {
        Self::restart(self);
    }

    fn idle(&mut self) {
        Self::idle(self);
    }

    fn memory_bytes(&self) -> u64 {
        Self::memory_bytes(self)
    }
}
