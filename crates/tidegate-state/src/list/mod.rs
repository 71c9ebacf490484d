//! A list per key.
//!
//! Owns: [`ListState`]. A small list stands in its key's slot (`cell`), a large one in segments of its own
//! (`big`).

mod big;
mod cell;

use tidegate_types::codec::{Key, Record};

use big::{BigList, Segment};
use cell::ListCell;

use crate::context::KeyContext;
use crate::core::{Core, Declared, impl_keyed_table};
use crate::describe::StateKind;
use crate::table::Slot;
use crate::ttl::Ttl;

/// A list per key: Flink's `ListState`.
///
/// After a cut the first append to a list of up to 64 KiB preserves it with its neighbours, one to a larger
/// list the list's last 16 KiB or so. Time-to-live counts for the whole list of a key.
///
/// # Panics
/// As [`crate::ValueState`].
pub struct ListState<K: Key, T: Record> {
    state: Declared<K, ListCell<T>>,
}

impl<K: Key, T: Record> Default for ListState<K, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, T: Record> ListState<K, T> {
    /// An undeclared state.
    pub fn new() -> Self {
        Self {
            state: Declared::new(StateKind::List, None),
        }
    }

    /// An undeclared state whose lists expire.
    pub fn with_ttl(ttl: Ttl) -> Self {
        Self {
            state: Declared::new(StateKind::List, Some(ttl)),
        }
    }

    /// Appends to the key's list.
    pub fn add(&mut self, at: KeyContext<'_, K>, element: T) {
        let core = self.state.core();
        let Some(slot) = core.find_mut(at) else {
            core.insert(at, ListCell::Small(vec![element]));
            return;
        };
        if core.cell(slot).should_move() {
            take_apart(core, at, slot);
        }
        if let ListCell::Apart(number) = *core.cell(slot) {
            let (store, context) = core.store_and_context();
            store.edit(number, context, |big, sink| big.push(element, sink));
            return;
        }
        if let ListCell::Small(items) | ListCell::Outgrown(items) = core.cell_mut(slot) {
            items.push(element);
        }
    }

    /// Appends all to the key's list.
    pub fn extend(&mut self, at: KeyContext<'_, K>, elements: impl IntoIterator<Item = T>) {
        for element in elements {
            self.add(at, element);
        }
    }

    /// Replaces the key's list. Constant time for the old one even if a cut still wants it.
    pub fn set(&mut self, at: KeyContext<'_, K>, elements: Vec<T>) {
        self.clear(at);
        if elements.len() * size_of::<T>() > crate::apart::LARGE_BYTES {
            self.extend(at, elements);
        } else if !elements.is_empty() {
            self.state.core().insert(at, ListCell::Small(elements));
        }
    }

    /// The elements of the key's list, in order.
    pub fn iter(&mut self, at: KeyContext<'_, K>) -> ListIter<'_, T> {
        let core = self.state.core();
        let (small, segments) = match core.find(at).map(|slot| core.cell(slot)) {
            None => (&[][..], &[][..]),
            Some(ListCell::Small(items) | ListCell::Outgrown(items)) => (items.as_slice(), &[][..]),
            Some(ListCell::Apart(number)) => (&[][..], core.store.get(*number).segments.as_slice()),
        };
        ListIter {
            rest: small.iter(),
            segments: segments.iter(),
        }
    }

    /// Elements of the key's list.
    pub fn len(&mut self, at: KeyContext<'_, K>) -> usize {
        let core = self.state.core();
        match core.find(at).map(|slot| core.cell(slot)) {
            None => 0,
            Some(ListCell::Small(items) | ListCell::Outgrown(items)) => items.len(),
            Some(ListCell::Apart(number)) => core.store.get(*number).len,
        }
    }

    /// Whether the key's list is empty.
    pub fn is_empty(&mut self, at: KeyContext<'_, K>) -> bool {
        self.state.core().find(at).is_none()
    }

    /// Removes and returns the key's list.
    pub fn take(&mut self, at: KeyContext<'_, K>) -> Vec<T> {
        let core = self.state.core();
        match core.remove(at) {
            None => Vec::new(),
            Some(ListCell::Small(items) | ListCell::Outgrown(items)) => items,
            // A cut that still wants the list needs it where it is.
            Some(ListCell::Apart(number)) if core.cuts.is_open() => {
                let segments = &core.store.get(number).segments;
                let items = segments
                    .iter()
                    .flat_map(|segment| &segment.items)
                    .cloned()
                    .collect();
                core.dispose(ListCell::Apart(number));
                items
            }
            Some(ListCell::Apart(number)) => {
                core.store.take(number).map_or_else(Vec::new, BigList::into_items)
            }
        }
    }

    /// Removes the key's list. Constant time even if a cut still wants it.
    pub fn clear(&mut self, at: KeyContext<'_, K>) {
        let core = self.state.core();
        if let Some(cell) = core.remove(at) {
            core.dispose(cell);
        }
    }

    /// How many keys have a list, expired ones included.
    pub fn keys(&self) -> u64 {
        self.state.core_ref().table.len()
    }
}

impl_keyed_table!([K: Key, T: Record] ListState<K, T>);

/// Gives the list in a slot segments of its own.
fn take_apart<K: Key, T: Record>(core: &mut Core<K, ListCell<T>>, at: KeyContext<'_, K>, slot: Slot) {
    let epoch = core.cuts.epoch();
    if let ListCell::Small(items) | ListCell::Outgrown(items) = core.cell_mut(slot) {
        let mut big = BigList::for_elements_like(items);
        for item in std::mem::take(items) {
            big.push_preserved(item, epoch);
        }
        let stamp_ms = core.table.stamp_ms(slot);
        let number = core.store.add(at.key.clone(), at.hash, stamp_ms, big);
        *core.cell_mut(slot) = ListCell::Apart(number);
    }
}

/// The elements of one key's list, in order.
pub struct ListIter<'a, T> {
    rest: std::slice::Iter<'a, T>,
    segments: std::slice::Iter<'a, Segment<T>>,
}

impl<'a, T> Iterator for ListIter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(item) = self.rest.next() {
                return Some(item);
            }
            self.rest = self.segments.next()?.items.iter();
        }
    }
}
