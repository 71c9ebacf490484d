//! The block table: a hash table whose content can be fixed at any moment in constant time.
//!
//! A [`Directory`](directory::Directory) over the subtask's hash range leads to blocks of 112 slots; an entry
//! stays in its block until the block is full and splits in two, so no operation ever touches more than one
//! block. Blocks are in hash order through the directory, whatever their place in memory, which is what makes
//! snapshot sections sorted for free.
//!
//! A cut only raises the epoch (`cuts`). Whoever is about to write a block of an older epoch has it *preserved*
//! first; a sweep along the directory preserves the rest. All of it happens on one thread.
//!
//! Owns: finding, inserting and removing entries, splitting, marks, the order of preserving. Does not own: what
//! an entry's bytes are, time-to-live, who decides to sweep (`core`). Read [`blocks`] for the layout of a
//! block; figures are in `docs/decisions/0001-block-table.md`.

mod blocks;
mod chunks;
mod directory;
mod marks;
mod prefetch;
mod split;
#[cfg(test)]
mod tests;
mod word;

use tidegate_types::key_group::HashRange;

use blocks::Blocks;
pub(crate) use blocks::Slot;
use directory::Directory;
pub(crate) use directory::Home;
use marks::Marks;
pub(crate) use marks::{Fate, NONE};

/// A key with its value.
pub(crate) struct Entry<K, V> {
    pub(crate) key: K,
    pub(crate) value: V,
}

/// What is known about a block outside of it: touched when entries come and go, not when they are found.
#[derive(Debug, Clone, Copy)]
struct Meta {
    len: u16,
    /// Leading bits of the position that all its entries share.
    depth: u8,
    /// The next block of a chain.
    next: u32,
    /// Its newest marks.
    marks: u32,
}

/// A block without room, and what was to go in.
pub(crate) struct Full<K, V> {
    pub(crate) key: K,
    pub(crate) value: V,
}

/// The table. `K` needs `Eq` only: hashes are handed in, and computed anew by `hasher` when a block splits.
pub(crate) struct BlockTable<K, V> {
    directory: Directory,
    blocks: Blocks<Entry<K, V>>,
    meta: Vec<Meta>,
    marks: Marks<K>,
    len: u64,
    hasher: fn(&K) -> u64,
}

impl<K: Eq, V> BlockTable<K, V> {
    /// Entries that a block takes before it splits: probing is short up to about this load.
    const FULL: u16 = (Blocks::<Entry<K, V>>::SLOTS - Blocks::<Entry<K, V>>::SLOTS / 16) as u16;

    /// An empty table over a range, or one that no key belongs to, made in `epoch`. With `stamped` entries have
    /// last-touched times.
    pub(crate) fn new(range: Option<HashRange>, stamped: bool, epoch: u32, hasher: fn(&K) -> u64) -> Self {
        let mut table = Self {
            directory: Directory::new(range, 0, epoch),
            blocks: Blocks::new(stamped),
            meta: Vec::new(),
            marks: Marks::new(),
            len: 0,
            hasher,
        };
        table.push_block(0);
        table
    }

    fn push_block(&mut self, depth: u8) -> u32 {
        self.meta.push(Meta {
            len: 0,
            depth,
            next: NONE,
            marks: NONE,
        });
        self.blocks.push()
    }

    /// How many entries.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The hashes it takes.
    pub(crate) fn range(&self) -> Option<HashRange> {
        self.directory.range()
    }

    /// Whether entries have times.
    pub(crate) fn is_stamped(&self) -> bool {
        self.blocks.is_stamped()
    }

    /// Memory held by blocks, directory and marks.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let meta = (self.meta.capacity() * size_of::<Meta>()) as u64;
        self.blocks.memory_bytes() + self.directory.memory_bytes() + self.marks.memory_bytes() + meta
    }

    /// Where a hash belongs.
    ///
    /// # Panics
    /// If the hash is outside the table's range.
    #[inline]
    pub(crate) fn home(&self, hash: u64) -> Home {
        self.directory
            .home(self.directory.index(self.directory.position(hash)))
    }

    /// Finds an entry.
    #[inline(always)]
    pub(crate) fn find(&self, home: Home, hash: u64, key: &K) -> Option<Slot> {
        self.find_by(home, hash, |entry| entry.key == *key)
    }

    /// Finds the first entry with this hash that `is` accepts.
    #[inline(always)]
    pub(crate) fn find_by(
        &self,
        home: Home,
        hash: u64,
        mut is: impl FnMut(&Entry<K, V>) -> bool,
    ) -> Option<Slot> {
        let found = self.blocks.find(home.block, hash, &mut is);
        if found.is_some() || !home.chained {
            return found;
        }
        self.find_chained(home, hash, &mut is)
    }

    /// A value, which counts as written, in the block at `home` but not in a chain. The block must have been
    /// preserved.
    #[inline(always)]
    pub(crate) fn find_mut(&mut self, home: Home, hash: u64, key: &K) -> Option<&mut V> {
        let entry = self
            .blocks
            .find_mut(home.block, hash, |entry| entry.key == *key)?;
        Some(&mut entry.value)
    }

    #[cold]
    #[inline(never)]
    fn find_chained(&self, home: Home, hash: u64, is: &mut dyn FnMut(&Entry<K, V>) -> bool) -> Option<Slot> {
        self.chain(home.block)
            .skip(1)
            .find_map(|block| self.blocks.find(block, hash, &mut *is))
    }

    /// The blocks that stand for `first` and what is chained to it.
    fn chain(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(first), |block| {
            let next = self.meta[*block as usize].next;
            (next != NONE).then_some(next)
        })
    }

    /// An entry.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> &Entry<K, V> {
        self.blocks.get(slot)
    }

    /// An entry's value, which counts as written. Its block must have been preserved ([`Self::home`]'s epoch).
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut V {
        &mut self.blocks.get_mut(slot).value
    }

    /// When an entry was last touched; 0 in a table without times.
    #[inline]
    pub(crate) fn stamp_ms(&self, slot: Slot) -> i64 {
        self.blocks.stamp_ms(slot)
    }

    /// Sets when an entry was last touched.
    #[inline]
    pub(crate) fn set_stamp(&mut self, slot: Slot, stamp_ms: i64) {
        self.blocks.set_stamp(slot, stamp_ms);
    }

    /// Inserts a key that isn't there. Its block must have been preserved.
    pub(crate) fn insert(&mut self, home: Home, hash: u64, key: K, value: V) -> Result<Slot, Full<K, V>> {
        let mut entry = Entry { key, value };
        let mut block = home.block;
        while block != NONE {
            if self.meta[block as usize].len < Self::FULL {
                match self.blocks.insert(block, hash, true, entry) {
                    Ok(slot) => {
                        self.meta[block as usize].len += 1;
                        self.len += 1;
                        return Ok(slot);
                    }
                    Err(back) => entry = back,
                }
            }
            block = self.meta[block as usize].next;
        }
        Err(Full {
            key: entry.key,
            value: entry.value,
        })
    }

    /// Removes an entry; with `remember` the key is kept for an increment. Its block must have been preserved.
    pub(crate) fn remove(&mut self, home: Home, slot: Slot, hash: u64, remember: bool) -> V {
        let Entry { key, value } = self.blocks.take(slot, hash);
        self.meta[slot.block as usize].len -= 1;
        self.len -= 1;
        if remember {
            self.marks.deleted(&mut self.meta[home.block as usize].marks, key);
        }
        value
    }

    /// The entries of the block (or chain) at `home`.
    pub(crate) fn slots_of(&self, home: Home) -> impl Iterator<Item = Slot> + '_ {
        self.chain(home.block).flat_map(|block| self.blocks.slots(block))
    }

    /// Shows every entry of the block (or chain) at `home`, until `visit` fails.
    #[inline]
    pub(crate) fn try_for_each<R>(
        &self,
        home: Home,
        mut visit: impl FnMut(Slot, &Entry<K, V>) -> Result<(), R>,
    ) -> Result<(), R> {
        for block in self.chain(home.block) {
            self.blocks.try_for_each(block, &mut visit)?;
        }
        Ok(())
    }

    /// The hashes of the block at a position.
    pub(crate) fn hashes_at(&self, position: u64) -> HashRange {
        let index = self.directory.index(position);
        self.directory.hashes(&self.span_at(index))
    }

    fn span_at(&self, index: usize) -> std::ops::Range<usize> {
        let home = self.directory.home(index);
        self.directory
            .span(index, u32::from(self.meta[home.block as usize].depth))
    }

    /// The position of a hash: where a walk along the table begins, and what it goes on from.
    pub(crate) fn position(&self, hash: u64) -> u64 {
        self.directory.position(hash)
    }

    /// The block at a position and the position after it.
    pub(crate) fn step(&self, position: u64) -> (Home, Option<u64>) {
        let index = self.directory.index(position);
        let next = self.directory.position_after(&self.span_at(index));
        (self.directory.home(index), next)
    }

    /// The block at a position is preserved as of `epoch`: its marks belong to the first cut that it was owed
    /// to.
    pub(crate) fn set_preserved(&mut self, position: u64, epoch: u32, fate: impl Fn(u32) -> Fate) {
        let index = self.directory.index(position);
        let home = self.directory.home(index);
        debug_assert!(home.epoch < epoch, "a block is preserved once an epoch");
        let mut block = home.block;
        let mut first = true;
        while block != NONE {
            let written = self.blocks.take_written(block);
            // Deleted keys of a chain are remembered at its first block.
            if first || written != 0 {
                self.marks.moved(
                    &mut self.meta[block as usize].marks,
                    written,
                    home.epoch + 1,
                    &fate,
                );
            }
            first = false;
            block = self.meta[block as usize].next;
        }
        self.directory.set_epoch(self.span_at(index), epoch);
    }

    /// All blocks in hash order.
    pub(crate) fn homes(&self) -> impl Iterator<Item = Home> + '_ {
        let mut at = Some(0);
        std::iter::from_fn(move || {
            let (home, next) = self.step(at?);
            at = next;
            Some(home)
        })
    }

    /// The blocks that have something of a range, in hash order.
    pub(crate) fn homes_in(&self, hashes: HashRange) -> impl Iterator<Item = Home> + '_ {
        let common = self.range().and_then(|range| range.intersection(hashes));
        let mut at = common.map(|range| self.directory.position(range.first));
        let end = common.map_or(0, |range| self.directory.position(range.last));
        std::iter::from_fn(move || {
            let (home, next) = self.step(at.filter(|at| *at <= end)?);
            at = next;
            Some(home)
        })
    }

    /// Fetches what accesses with these hashes will touch.
    pub(crate) fn prefetch(&self, hashes: &[u64]) {
        if self.directory.is_large() {
            for &hash in hashes {
                self.directory.prefetch(hash);
            }
        }
        for &hash in hashes {
            self.blocks.prefetch(self.directory.guess_block(hash), hash);
        }
    }
}

/// The entries of a table in hash order of their blocks.
pub(crate) struct Iter<'a, K, V> {
    table: &'a BlockTable<K, V>,
    /// The next block.
    at: Option<u64>,
    /// What is left of the last one.
    slots: std::vec::IntoIter<Slot>,
}

impl<K: Eq, V> BlockTable<K, V> {
    /// All entries.
    pub(crate) fn iter(&self) -> Iter<'_, K, V> {
        Iter {
            table: self,
            at: Some(0),
            slots: Vec::new().into_iter(),
        }
    }
}

impl<'a, K: Eq, V> Iterator for Iter<'a, K, V> {
    type Item = &'a Entry<K, V>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(slot) = self.slots.next() {
                return Some(self.table.get(slot));
            }
            let (home, next) = self.table.step(self.at?);
            self.at = next;
            self.slots = self.table.slots_of(home).collect::<Vec<_>>().into_iter();
        }
    }
}
