//! One key's list, as it stands in a slot.

use tidegate_types::codec::{CodecError, Key, Record, TypeFormat, decode_as, encode_as};
use tidegate_types::snapshot::Encoding;

use super::big::BigList;
use crate::apart::{Apart, LARGE_BYTES};
use crate::cell::{Cell, Store, StoreContext, StoredPart, invalid, truncated};
use crate::context::KeyContext;
use crate::core::Core;
use crate::cuts::Cuts;
use crate::describe::{Formats, TypeDescription, TypePart};
use crate::keyed::Progress;
use crate::section::take_u32;

/// Stands for the number of elements of a list whose content is in parts.
const IN_PARTS: u32 = u32::MAX;

/// A list. Never empty, except while it is being restored: a key without elements has no slot.
pub(crate) enum ListCell<T> {
    /// All of it.
    Small(Vec<T>),
    /// All of it, large when encoded.
    Outgrown(Vec<T>),
    /// Segments of its own.
    Apart(u32),
}

impl<T: Record> ListCell<T> {
    /// Whether a write should take it apart.
    pub(super) fn should_move(&self) -> bool {
        match self {
            Self::Small(items) => (items.len() + 1) * size_of::<T>() > LARGE_BYTES,
            Self::Outgrown(_) => true,
            Self::Apart(_) => false,
        }
    }
}

impl<T: Record> Cell for ListCell<T> {
    type Formats = TypeFormat<T>;
    type Store<K: Key> = Apart<K, BigList<T>>;

    fn formats(formats: &Formats) -> TypeFormat<T> {
        formats.of()
    }

    fn describe(formats: &Formats) -> Vec<TypeDescription> {
        vec![TypeDescription::of::<T>(TypePart::Value, formats)]
    }

    fn encode(&self, encoding: Encoding, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let (count, items) = match self {
            Self::Small(items) | Self::Outgrown(items) => (items.len() as u32, items.as_slice()),
            Self::Apart(_) => (IN_PARTS, &[][..]),
        };
        out.extend_from_slice(&count.to_le_bytes());
        for item in items {
            encode_as(encoding, item, out)?;
        }
        Ok(())
    }

    fn decode(encoding: Encoding, input: &mut &[u8]) -> Result<Option<Self>, CodecError> {
        let count = take_u32(input).ok_or_else(|| truncated(4, input))?;
        match count {
            IN_PARTS => Ok(None),
            0 => Err(invalid("an empty list has no entry in the table")),
            _ => Ok(Some(Self::Small(decode_items(count, encoding, input)?))),
        }
    }

    fn restore_part<K: Key>(
        core: &mut Core<K, Self>,
        at: KeyContext<'_, K>,
        part: StoredPart<'_, '_>,
    ) -> Result<(), CodecError> {
        let items = decode_items(part.entries, part.encoding, part.input)?;
        let home = core.table.home(at.hash);
        let slot = match core.table.find(home, at.hash, at.key) {
            Some(slot) => slot,
            None => {
                let big = BigList::for_elements_like(&items);
                let number = core.store.add(at.key.clone(), at.hash, at.now_ms, big);
                core.insert(at, Self::Apart(number))
            }
        };
        let Self::Apart(number) = *core.cell(slot) else {
            return Err(invalid("a list that is stored whole has parts as well"));
        };
        if items.is_empty() {
            return Ok(());
        }
        let epoch = core.cuts.epoch();
        match core.store.get_mut(number).restore(part.ordinal, items, epoch) {
            true => Ok(()),
            false => Err(invalid("a part of a list occurs twice")),
        }
    }

    fn outgrown(&mut self) {
        if let Self::Small(items) = self {
            *self = Self::Outgrown(std::mem::take(items));
        }
    }

    fn check(&self, encoding: Encoding, formats: &TypeFormat<T>) -> Result<(), CodecError> {
        match self {
            Self::Small(items) | Self::Outgrown(items) => items
                .first()
                .map_or(Ok(()), |item| formats.check_first(encoding, item)),
            Self::Apart(_) => Ok(()),
        }
    }

    fn apart(&self) -> Option<u32> {
        match self {
            Self::Apart(number) => Some(*number),
            Self::Small(_) | Self::Outgrown(_) => None,
        }
    }
}

/// Reads elements; allocates no more at first than the input could hold.
fn decode_items<T: Record>(count: u32, encoding: Encoding, input: &mut &[u8]) -> Result<Vec<T>, CodecError> {
    let most = LARGE_BYTES / size_of::<T>().max(1);
    let mut items = Vec::with_capacity((count as usize).min(input.len()).min(most));
    for _ in 0..count {
        items.push(decode_as(encoding, input)?);
    }
    Ok(items)
}

impl<K: Key, T: Record> Store<ListCell<T>> for Apart<K, BigList<T>> {
    fn dispose(&mut self, cell: ListCell<T>, cuts: &Cuts) {
        if let ListCell::Apart(number) = cell {
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
