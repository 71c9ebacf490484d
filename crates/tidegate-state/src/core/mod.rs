//! What all keyed states share: a table, its cuts, time-to-live, and the paths of an access.
//!
//! Owns: [`Core`], an opened state of some kind of [`Cell`], and [`Declared`], the inside of every handle. Does
//! not own: what users see (`value`, `list`, `map`, …) and the table itself. [`drive`] has the runtime's side:
//! cut, sweep, restore.

mod drive;
mod restore;

use tidegate_types::codec::{CodecError, Key, TypeFormat, encode_as};
use tidegate_types::hash::key_hash;
use tidegate_types::shape::Shape;
use tidegate_types::snapshot::Encoding;

use crate::apart::LARGE_BYTES;
use crate::cell::{Cell, Store, StoreContext};
use crate::context::KeyContext;
use crate::cuts::{Cuts, Owed};
use crate::describe::{Formats, StateDescription, StateKind, TypeDescription, TypePart};
use crate::error::StatePlace;
use crate::keyed::StateSetup;
use crate::table::{BlockTable, Home, Slot};
use crate::ttl::{Ttl, TtlUpdate, TtlVisibility};

pub(crate) use drive::impl_keyed_table;

/// The inside of a handle: what was declared, and the state once it is opened.
pub(crate) struct Declared<K: Key, C: Cell> {
    kind: StateKind,
    ttl: Option<Ttl>,
    core: Option<Core<K, C>>,
}

impl<K: Key, C: Cell> Declared<K, C> {
    pub(crate) fn new(kind: StateKind, ttl: Option<Ttl>) -> Self {
        Self {
            kind,
            ttl,
            core: None,
        }
    }

    /// The opened state.
    ///
    /// # Panics
    /// If it never was opened, because the operator didn't declare it.
    #[inline]
    pub(crate) fn core(&mut self) -> &mut Core<K, C> {
        match &mut self.core {
            Some(core) => core,
            None => undeclared(self.kind, std::any::type_name::<K>()),
        }
    }

    /// The opened state, to be read.
    pub(crate) fn core_ref(&self) -> &Core<K, C> {
        match &self.core {
            Some(core) => core,
            None => undeclared(self.kind, std::any::type_name::<K>()),
        }
    }

    pub(crate) fn describe(&self, formats: &Formats) -> StateDescription {
        let mut types = vec![TypeDescription::of::<K>(TypePart::Key, formats)];
        types.extend(C::describe(formats));
        StateDescription {
            kind: self.kind,
            types,
            ttl: self.ttl,
        }
    }

    pub(crate) fn open(&mut self, name: &str, setup: &StateSetup) {
        let description = self.describe(&setup.formats);
        self.core = Some(Core::new(name, setup, description));
    }
}

#[cold]
#[inline(never)]
fn undeclared(kind: StateKind, key: &str) -> ! {
    panic!(
        "{kind} keyed by {key} was used but never declared: name it in the operator's state function, as in \
         `s.value(\"name\", &mut self.field)`"
    )
}

/// How far a sweep along the table is.
#[derive(Debug, Clone, Copy)]
struct Lap {
    /// Cuts up to this epoch are complete at its end.
    target: u32,
    /// The next block; none when all are done.
    at: Option<u64>,
    /// Entries that have expired by then are cleaned up on the way.
    now_ms: i64,
}

/// An opened keyed state.
pub(crate) struct Core<K: Key, C: Cell> {
    place: StatePlace,
    kind: StateKind,
    ttl: Option<Ttl>,
    pub(crate) table: BlockTable<K, C>,
    pub(crate) cuts: Cuts,
    pub(crate) store: C::Store<K>,
    lap: Option<Lap>,
    /// Whether all types are stored natively unless a value forbids it.
    native: bool,
    shapes: Vec<Shape>,
    key_format: TypeFormat<K>,
    cell_formats: C::Formats,
    opened_ms: i64,
}

/// The hash of a key that is in the table and therefore had one.
pub(crate) fn rehash<K: Key>(key: &K) -> u64 {
    match key_hash(key) {
        Ok(hash) => hash,
        Err(error) => panic!(
            "a key of type {} had a hash when it was stored and has none now ({error}): its Serialize must not \
             depend on anything but the key",
            std::any::type_name::<K>()
        ),
    }
}

impl<K: Key, C: Cell> Core<K, C> {
    fn new(name: &str, setup: &StateSetup, description: StateDescription) -> Self {
        let native = description
            .types
            .iter()
            .all(|t| t.encoding == Encoding::Native && t.shape.is_some());
        let shapes = description.types.into_iter().filter_map(|t| t.shape).collect();
        Self {
            place: StatePlace {
                uid: setup.uid.clone(),
                name: name.to_owned(),
            },
            kind: description.kind,
            ttl: description.ttl,
            table: BlockTable::new(setup.range, description.ttl.is_some(), 0, rehash::<K>),
            cuts: Cuts::new(),
            store: C::Store::<K>::default(),
            lap: None,
            native,
            shapes,
            key_format: setup.formats.of(),
            cell_formats: C::formats(&setup.formats),
            opened_ms: setup.now_ms,
        }
    }

    /// The key's slot, to be read.
    #[inline(always)]
    pub(crate) fn find(&mut self, at: KeyContext<'_, K>) -> Option<Slot> {
        let home = self.table.home(at.hash);
        let slot = self.table.find(home, at.hash, at.key)?;
        match self.ttl {
            None => Some(slot),
            Some(ttl) => self.read_with_ttl(at, ttl, slot),
        }
    }

    /// The key's slot, to be written: open cuts have what they are owed of its block.
    #[inline(always)]
    pub(crate) fn find_mut(&mut self, at: KeyContext<'_, K>) -> Option<Slot> {
        let home = self.table.home(at.hash);
        let slot = self.table.find(home, at.hash, at.key)?;
        if home.epoch != self.cuts.epoch() {
            self.preserve(self.table.position(at.hash));
        }
        match self.ttl {
            None => Some(slot),
            Some(ttl) => self.write_with_ttl(at, ttl, slot),
        }
    }

    /// Works on the key's cell where that is simplest: it is there, it can't expire, and no cut is owed its
    /// block. Gives `run` back otherwise, for who asks [`Self::find_mut`] then.
    #[inline(always)]
    pub(crate) fn try_edit<R, F: FnOnce(&mut C) -> R>(
        &mut self,
        at: KeyContext<'_, K>,
        run: F,
    ) -> Result<R, F> {
        let home = self.table.home(at.hash);
        if home.epoch != self.cuts.epoch() || self.ttl.is_some() {
            return Err(run);
        }
        match self.table.find_mut(home, at.hash, at.key) {
            Some(cell) => Ok(run(cell)),
            None => Err(run),
        }
    }

    /// What is left to do when [`Self::try_edit`] didn't.
    #[cold]
    #[inline(never)]
    pub(crate) fn edit_slowly<R>(
        &mut self,
        at: KeyContext<'_, K>,
        make: impl FnOnce() -> C,
        run: impl FnOnce(&mut C) -> R,
    ) -> R {
        let slot = self.find_or_insert(at, make);
        run(self.cell_mut(slot))
    }

    /// The cell in a slot.
    #[inline]
    pub(crate) fn cell(&self, slot: Slot) -> &C {
        &self.table.get(slot).value
    }

    /// The cell in a slot that [`Self::find_mut`] or [`Self::insert`] gave out.
    #[inline(always)]
    pub(crate) fn cell_mut(&mut self, slot: Slot) -> &mut C {
        self.table.get_mut(slot)
    }

    /// The key's slot, with what `make` makes if there is none.
    #[inline(always)]
    pub(crate) fn find_or_insert(&mut self, at: KeyContext<'_, K>, make: impl FnOnce() -> C) -> Slot {
        match self.find_mut(at) {
            Some(slot) => slot,
            None => self.insert(at, make()),
        }
    }

    /// Inserts a key that [`Self::find_mut`] didn't find.
    #[inline(never)]
    pub(crate) fn insert(&mut self, at: KeyContext<'_, K>, cell: C) -> Slot {
        let (mut key, mut cell) = (at.key.clone(), cell);
        loop {
            let home = self.preserved_home(at.hash);
            match self.table.insert(home, at.hash, key, cell) {
                Ok(slot) => {
                    self.stamp(slot, at.now_ms);
                    return slot;
                }
                Err(full) => (key, cell) = (full.key, full.value),
            }
            if self.purge(home, at.now_ms) == 0 {
                self.table.make_room(at.hash);
            }
        }
    }

    /// Removes and returns the key's cell; one that has expired is gone without being returned.
    pub(crate) fn remove(&mut self, at: KeyContext<'_, K>) -> Option<C> {
        let home = self.table.home(at.hash);
        let slot = self.table.find(home, at.hash, at.key)?;
        let expired = self.is_expired(slot, at.now_ms);
        let cell = self.remove_slot(slot, at.hash);
        if expired {
            self.store.dispose(cell, &self.cuts);
            return None;
        }
        Some(cell)
    }

    /// Removes what is in a slot that was found by this hash.
    pub(crate) fn remove_slot(&mut self, slot: Slot, hash: u64) -> C {
        let home = self.preserved_home(hash);
        self.table.remove(home, slot, hash, self.cuts.has_base())
    }

    /// What the store of large content needs for an edit, beside that store.
    pub(crate) fn store_and_context(&mut self) -> (&mut C::Store<K>, StoreContext<'_>) {
        (
            &mut self.store,
            StoreContext {
                cuts: &mut self.cuts,
                place: &self.place,
                ttl: self.ttl,
            },
        )
    }

    /// Drops a cell that was removed, and what it has apart once no cut wants that.
    pub(crate) fn dispose(&mut self, cell: C) {
        self.store.dispose(cell, &self.cuts);
    }

    /// Shows every live entry in hash order.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&K, &C)) {
        for home in self.table.homes() {
            for slot in self.table.slots_of(home) {
                let entry = self.table.get(slot);
                visit(&entry.key, &entry.value);
            }
        }
    }

    fn preserved_home(&mut self, hash: u64) -> Home {
        let home = self.table.home(hash);
        if home.epoch != self.cuts.epoch() {
            self.preserve(self.table.position(hash));
        }
        home
    }

    fn is_expired(&self, slot: Slot, now_ms: i64) -> bool {
        self.ttl
            .is_some_and(|ttl| ttl.is_expired(self.table.stamp_ms(slot), now_ms))
    }

    fn stamp(&mut self, slot: Slot, now_ms: i64) {
        if self.ttl.is_none() {
            return;
        }
        self.table.set_stamp(slot, now_ms);
        if let Some(apart) = self.table.get(slot).value.apart() {
            self.store.touch(apart, now_ms);
        }
    }

    #[inline(never)]
    fn read_with_ttl(&mut self, at: KeyContext<'_, K>, ttl: Ttl, slot: Slot) -> Option<Slot> {
        if ttl.is_expired(self.table.stamp_ms(slot), at.now_ms) {
            if ttl.visibility == TtlVisibility::ReturnExpiredIfNotCleanedUp {
                return Some(slot);
            }
            let cell = self.remove_slot(slot, at.hash);
            self.dispose(cell);
            return None;
        }
        // A time that doesn't change needs no write, and most reads within a batch come at one time.
        if ttl.update == TtlUpdate::OnReadAndWrite && self.table.stamp_ms(slot) != at.now_ms {
            self.preserved_home(at.hash);
            self.cell_mut(slot);
            self.stamp(slot, at.now_ms);
        }
        Some(slot)
    }

    #[inline(never)]
    fn write_with_ttl(&mut self, at: KeyContext<'_, K>, ttl: Ttl, slot: Slot) -> Option<Slot> {
        let expired = ttl.is_expired(self.table.stamp_ms(slot), at.now_ms);
        if expired && ttl.visibility == TtlVisibility::NeverReturnExpired {
            let cell = self.remove_slot(slot, at.hash);
            self.dispose(cell);
            return None;
        }
        self.cell_mut(slot);
        self.stamp(slot, at.now_ms);
        Some(slot)
    }

    /// Removes what has expired from a preserved block; says how many that were.
    fn purge(&mut self, home: Home, now_ms: i64) -> usize {
        if self.ttl.is_none() {
            return 0;
        }
        let expired: Vec<Slot> = self
            .table
            .slots_of(home)
            .filter(|slot| self.is_expired(*slot, now_ms))
            .collect();
        for slot in &expired {
            let hash = rehash(&self.table.get(*slot).key);
            let cell = self.table.remove(home, *slot, hash, self.cuts.has_base());
            self.store.dispose(cell, &self.cuts);
        }
        expired.len()
    }

    /// Gives open cuts what they are owed of the block at a position, and begins its current epoch.
    #[cold]
    #[inline(never)]
    fn preserve(&mut self, position: u64) {
        let (home, _) = self.table.step(position);
        if self.cuts.owes(home.epoch) {
            let (table, ttl) = (&self.table, self.ttl);
            let (key_format, cell_formats) = (&self.key_format, &self.cell_formats);
            let hashes = table.hashes_at(position);
            let owed = Owed {
                since: home.epoch,
                until: u32::MAX,
                hashes,
                ordinal: 0,
                flags: 0,
            };
            let mut outgrown = Vec::new();
            self.cuts.preserve(owed, &self.place, |target, out| {
                let mut entries = 0;
                table.try_for_each(home, |slot, entry| {
                    let stamp_ms = table.stamp_ms(slot);
                    if ttl.is_some_and(|ttl| ttl.is_expired(stamp_ms, target.now_ms)) {
                        return Ok(());
                    }
                    if entries == 0 {
                        // A type whose `Serialize` and `Deserialize` disagree fails the first snapshot instead of
                        // the restore that depends on one.
                        key_format.check_first(target.encoding, &entry.key)?;
                        entry.value.check(target.encoding, cell_formats)?;
                    }
                    encode_as(target.encoding, &entry.key, out)?;
                    if table.is_stamped() {
                        out.extend_from_slice(&stamp_ms.to_le_bytes());
                    }
                    let before = out.len();
                    entry.value.encode(target.encoding, out)?;
                    if out.len() - before > LARGE_BYTES {
                        outgrown.push(slot);
                    }
                    entries += 1;
                    Ok::<(), CodecError>(())
                })?;
                Ok(entries)
            });
            for slot in outgrown {
                self.table.get_mut(slot).outgrown();
            }
        }
        let cuts = &self.cuts;
        self.table
            .set_preserved(position, cuts.epoch(), |epoch| cuts.fate(epoch));
    }
}
