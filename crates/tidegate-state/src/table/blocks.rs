//! Raw blocks of slots: where the entries of a table live in memory.
//!
//! A block is a power of two of *groups*. A group is a control word and seven slots, laid out so that one or
//! two cache lines hold all that an access touches: the tags that find the entry, the bits that say it was
//! written, and the entry itself. Blocks stand in chunks that are aligned to 2 MiB pages once a table is large.
//!
//! ```text
//! block:  group 0 | group 1 | … | group 15 | [last-touched times, if the state has a time-to-live]
//! group:  tag 0 … tag 6, overflow | slot 0 | … | slot 6        tag: 0 empty, else 7 hash bits; bit 7 = written
//! ```
//!
//! Owns: memory, probing within one block, the written bits, drop glue. Does not own: which block a hash
//! belongs to (`directory`), how many entries a block may have, and snapshots.
//!
//! With `chunks` and `prefetch` this is all `unsafe` code of the crate. The functions here are safe to call with any
//! argument: a slot is checked to be occupied before it is touched.

mod release;

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::chunks::{Chunks, align_up};
use super::prefetch::prefetch;
use super::word::{LSB, TOPS, WRITTEN, gather, matching, occupied, tag};

/// Slots of one group.
pub(crate) const GROUP_SLOTS: usize = 7;
/// Most groups of a block, so that a bitmap of its slots is one `u128` (a bit of eight per group is unused).
const MAX_GROUPS: usize = 16;
/// A block is kept below this by having fewer groups when entries are large.
const MAX_BLOCK_BYTES: usize = 64 * 1024;
const LINE_BYTES: usize = 64;

/// The place of an entry: which block, and eight times the group plus the slot within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) block: u32,
    pub(crate) index: u8,
}

/// An entry taken out of its slot, with what stood beside it.
pub(crate) struct Taken<E> {
    pub(crate) index: u8,
    pub(crate) written: bool,
    pub(crate) stamp_ms: i64,
    pub(crate) entry: E,
}

/// Blocks of one table.
pub(crate) struct Blocks<E> {
    memory: Chunks,
    len: u32,
    /// Where a block's last-touched times begin; 0 if it has none.
    stamps_offset: usize,
    _entries: PhantomData<E>,
}

// SAFETY: the entries are owned, reached only through `&self` and `&mut self`, and nothing is shared with
// another `Blocks`; so sending the whole is sending the entries.
unsafe impl<E: Send> Send for Blocks<E> {}

const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

impl<E> Blocks<E> {
    const ENTRY_OFFSET: usize = max(8, align_of::<E>());
    /// Rounded up to whole cache lines where that costs no more than an eighth.
    const GROUP_BYTES: usize = {
        let bytes = align_up(
            Self::ENTRY_OFFSET + GROUP_SLOTS * size_of::<E>(),
            max(8, align_of::<E>()),
        );
        let lines = align_up(bytes, LINE_BYTES);
        if lines <= bytes + bytes / 8 { lines } else { bytes }
    };
    const GROUPS: usize = {
        let mut groups = MAX_GROUPS;
        while groups > 2 && groups * Self::GROUP_BYTES > MAX_BLOCK_BYTES {
            groups /= 2;
        }
        groups
    };
    /// Slots of a block.
    pub(crate) const SLOTS: usize = Self::GROUPS * GROUP_SLOTS;
    const ALIGN: usize = max(LINE_BYTES, align_of::<E>());
    /// Lines worth fetching ahead: the whole group if it is small, else the tags and what follows.
    const PREFETCH_LINES: usize = {
        let lines = Self::GROUP_BYTES.div_ceil(LINE_BYTES);
        if lines <= 4 { lines } else { 2 }
    };

    /// No blocks; with `stamped` every slot has a last-touched time.
    pub(crate) fn new(stamped: bool) -> Self {
        let groups = Self::GROUPS * Self::GROUP_BYTES;
        let stamps_offset = if stamped { align_up(groups, 8) } else { 0 };
        let used = if stamped {
            stamps_offset + Self::GROUPS * 8 * size_of::<i64>()
        } else {
            groups
        };
        let stride_bytes = align_up(used, Self::ALIGN);
        Self {
            memory: Chunks::new(stride_bytes, Self::ALIGN),
            len: 0,
            stamps_offset,
            _entries: PhantomData,
        }
    }

    /// How many blocks.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Whether slots have times.
    pub(crate) fn is_stamped(&self) -> bool {
        self.stamps_offset != 0
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.bytes(self.len)
    }

    /// Adds an empty block.
    ///
    /// # Panics
    /// With 2^31 blocks: hundreds of gigabytes.
    pub(crate) fn push(&mut self) -> u32 {
        assert!(self.len < 1 << 31, "a table has at most 2^31 blocks");
        self.memory.reserve(self.len);
        let block = self.len;
        self.len += 1;
        for group in 0..Self::GROUPS {
            self.set_word(block, group, 0);
        }
        block
    }

    /// The start of a block.
    #[inline]
    fn block(&self, block: u32) -> NonNull<u8> {
        assert!(block < self.len, "block {block} of {}", self.len);
        // SAFETY: `push` reserves every block below `len`.
        unsafe { self.memory.block(block) }
    }

    /// The start of a group within a block.
    #[inline]
    fn group_in(base: NonNull<u8>, group: usize) -> NonNull<u8> {
        // SAFETY: `base` is the start of a block (from `block`), which is at least GROUPS * GROUP_BYTES long,
        // and the group is masked to below GROUPS.
        unsafe { base.add((group & (Self::GROUPS - 1)) * Self::GROUP_BYTES) }
    }

    /// The control word of a group from `group_in`.
    #[inline]
    fn word_of(group: NonNull<u8>) -> u64 {
        // SAFETY: a group begins with its control word, aligned to 8 and written by `push`.
        u64::from_le(unsafe { group.cast::<u64>().read() })
    }

    /// The place of entry `i` of a group from `group_in`.
    #[inline]
    fn entry_of(group: NonNull<u8>, i: usize) -> NonNull<E> {
        assert!(i < GROUP_SLOTS, "slot index in range");
        // SAFETY: a group has room for 7 entries from ENTRY_OFFSET on, aligned for them.
        unsafe { group.add(Self::ENTRY_OFFSET + i * size_of::<E>()).cast() }
    }

    #[inline]
    fn word(&self, block: u32, group: usize) -> u64 {
        Self::word_of(Self::group_in(self.block(block), group))
    }

    #[inline]
    fn set_word(&mut self, block: u32, group: usize, word: u64) {
        // SAFETY: as in `word_of`; `&mut self` excludes readers.
        unsafe {
            Self::group_in(self.block(block), group)
                .cast::<u64>()
                .write(word.to_le())
        }
    }

    #[inline]
    fn entry(&self, slot: Slot) -> NonNull<E> {
        let group = Self::group_in(self.block(slot.block), usize::from(slot.index >> 3));
        Self::entry_of(group, usize::from(slot.index & 7))
    }

    /// The control byte of a slot; 0 if the slot is empty.
    #[inline]
    fn control(&self, slot: Slot) -> u8 {
        (self.word(slot.block, usize::from(slot.index >> 3)) >> (8 * (slot.index & 7))) as u8
    }

    #[inline]
    fn set_control(&mut self, slot: Slot, control: u8) {
        let (group, shift) = (usize::from(slot.index >> 3), 8 * (slot.index & 7));
        let word = self.word(slot.block, group) & !(0xff << shift) | u64::from(control) << shift;
        self.set_word(slot.block, group, word);
    }

    /// Finds an entry by hash and `is`: its group, its index in the group, and the group's number.
    #[inline(always)]
    fn probe(
        &self,
        block: u32,
        hash: u64,
        mut is: impl FnMut(&E) -> bool,
    ) -> Option<(NonNull<u8>, usize, usize)> {
        let base = self.block(block);
        let pattern = LSB * u64::from(tag(hash));
        let mut group = hash as usize & (Self::GROUPS - 1);
        for _ in 0..Self::GROUPS {
            let start = Self::group_in(base, group);
            let word = Self::word_of(start);
            let mut hits = matching(word, pattern);
            while hits != 0 {
                let i = (hits.trailing_zeros() >> 3) as usize;
                // SAFETY: the tag is that of a hash, so not 0, so the slot holds an entry.
                if is(unsafe { Self::entry_of(start, i).as_ref() }) {
                    return Some((start, i, group));
                }
                hits &= hits - 1;
            }
            // Byte 7 counts the entries that belong here or earlier and stand further on.
            if word >> 56 == 0 {
                return None;
            }
            group = (group + 1) & (Self::GROUPS - 1);
        }
        None
    }

    /// The slot of an entry found by hash and `is`.
    #[inline(always)]
    pub(crate) fn find(&self, block: u32, hash: u64, is: impl FnMut(&E) -> bool) -> Option<Slot> {
        self.probe(block, hash, is).map(|(_, i, group)| Slot {
            block,
            index: (group * 8 + i) as u8,
        })
    }

    /// An entry found by hash and `is`, which counts as written from now on.
    #[inline(always)]
    pub(crate) fn find_mut(&mut self, block: u32, hash: u64, is: impl FnMut(&E) -> bool) -> Option<&mut E> {
        let (group, i, _) = self.probe(block, hash, is)?;
        let (word, written) = (Self::word_of(group), u64::from(WRITTEN) << (8 * i));
        if word & written == 0 {
            // SAFETY: as in `word_of`; `&mut self` excludes readers.
            unsafe { group.cast::<u64>().write((word | written).to_le()) };
        }
        // SAFETY: `probe` found an entry there, and `&mut self` excludes everyone else.
        Some(unsafe { Self::entry_of(group, i).as_mut() })
    }

    /// The entry in a slot.
    ///
    /// # Panics
    /// If the slot is empty.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> &E {
        let group = Self::group_in(self.block(slot.block), usize::from(slot.index >> 3));
        let i = usize::from(slot.index & 7);
        assert!(Self::word_of(group) >> (8 * i) & 0xff != 0, "slot is occupied");
        // SAFETY: an occupied slot holds an entry, and `&self` excludes writers.
        unsafe { Self::entry_of(group, i).as_ref() }
    }

    /// The entry in a slot, which counts as written from now on.
    ///
    /// # Panics
    /// If the slot is empty.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut E {
        let group = Self::group_in(self.block(slot.block), usize::from(slot.index >> 3));
        let i = usize::from(slot.index & 7);
        let word = Self::word_of(group);
        let control = word >> (8 * i) as u32 & 0xff;
        assert!(control != 0, "slot is occupied");
        if control & u64::from(WRITTEN) == 0 {
            // SAFETY: as in `word_of`; `&mut self` excludes readers.
            unsafe {
                group
                    .cast::<u64>()
                    .write((word | u64::from(WRITTEN) << (8 * i)).to_le())
            };
        }
        // SAFETY: an occupied slot holds an entry, and `&mut self` excludes everyone else.
        unsafe { Self::entry_of(group, i).as_mut() }
    }

    /// Puts an entry into the first free slot from its hash's group on; gives it back if the block is full.
    pub(crate) fn insert(&mut self, block: u32, hash: u64, written: bool, entry: E) -> Result<Slot, E> {
        let home = hash as usize & (Self::GROUPS - 1);
        let Some((group, i)) = self.free_slot(block, home) else {
            return Err(entry);
        };
        let mut passed = home;
        while passed != group {
            let word = self.word(block, passed);
            // A block has fewer than 255 slots, so the count can't reach the top of its byte.
            self.set_word(block, passed, word.wrapping_add(1 << 56));
            passed = (passed + 1) & (Self::GROUPS - 1);
        }
        let slot = Slot {
            block,
            index: (group * 8 + i) as u8,
        };
        // SAFETY: the slot is inside the block and empty, so nothing is overwritten without being dropped.
        unsafe { self.entry(slot).write(entry) };
        self.set_control(slot, tag(hash) | if written { WRITTEN } else { 0 });
        if self.is_stamped() {
            self.set_stamp(slot, 0);
        }
        Ok(slot)
    }

    fn free_slot(&self, block: u32, home: usize) -> Option<(usize, usize)> {
        let mut group = home;
        for _ in 0..Self::GROUPS {
            let free = !occupied(self.word(block, group)) & TOPS;
            if free != 0 {
                return Some((group, (free.trailing_zeros() >> 3) as usize));
            }
            group = (group + 1) & (Self::GROUPS - 1);
        }
        None
    }

    /// Takes an entry out. `hash` is the one it was inserted with.
    ///
    /// # Panics
    /// If the slot is empty.
    pub(crate) fn take(&mut self, slot: Slot, hash: u64) -> E {
        assert!(self.control(slot) != 0, "slot is occupied");
        let (mut passed, group) = (hash as usize & (Self::GROUPS - 1), usize::from(slot.index >> 3));
        while passed != group {
            let word = self.word(slot.block, passed);
            // With a hash other than the entry's own the counts go wrong: entries may be lost, never unsound.
            if word >> 56 != 0 {
                self.set_word(slot.block, passed, word - (1 << 56));
            }
            passed = (passed + 1) & (Self::GROUPS - 1);
        }
        self.set_control(slot, 0);
        // SAFETY: it was occupied and no longer is, so the entry is read out exactly once.
        unsafe { self.entry(slot).read() }
    }

    /// Takes everything out of a block.
    pub(crate) fn take_all(&mut self, block: u32, out: &mut Vec<Taken<E>>) {
        for group in 0..Self::GROUPS {
            let word = self.word(block, group);
            // Emptied before its entries are read: should growing `out` fail, they are lost, not owned twice.
            self.set_word(block, group, 0);
            let mut left = occupied(word);
            while left != 0 {
                let i = left.trailing_zeros() >> 3;
                let slot = Slot {
                    block,
                    index: (group * 8) as u8 + i as u8,
                };
                let written = word >> (8 * i) & u64::from(WRITTEN) != 0;
                // SAFETY: the slot was occupied and no longer is, so the entry is read out exactly once.
                let entry = unsafe { self.entry(slot).read() };
                out.push(Taken {
                    index: slot.index,
                    written,
                    stamp_ms: self.stamp_ms(slot),
                    entry,
                });
                left &= left - 1;
            }
        }
    }

    /// The occupied slots of a block.
    pub(crate) fn slots(&self, block: u32) -> impl Iterator<Item = Slot> + '_ {
        (0..Self::GROUPS).flat_map(move |group| {
            let mut left = gather(occupied(self.word(block, group)));
            std::iter::from_fn(move || {
                let i = left.checked_sub(1).map(|_| left.trailing_zeros() as u8)?;
                left &= left - 1;
                Some(Slot {
                    block,
                    index: (group * 8) as u8 + i,
                })
            })
        })
    }

    /// Shows every entry of a block, until `visit` fails.
    #[inline]
    pub(crate) fn try_for_each<R>(
        &self,
        block: u32,
        mut visit: impl FnMut(Slot, &E) -> Result<(), R>,
    ) -> Result<(), R> {
        let base = self.block(block);
        for group in 0..Self::GROUPS {
            let start = Self::group_in(base, group);
            let mut left = occupied(Self::word_of(start));
            while left != 0 {
                let i = (left.trailing_zeros() >> 3) as usize;
                // SAFETY: the slot is occupied, so it holds an entry; `&self` excludes writers.
                let entry = unsafe { Self::entry_of(start, i).as_ref() };
                visit(
                    Slot {
                        block,
                        index: (group * 8 + i) as u8,
                    },
                    entry,
                )?;
                left &= left - 1;
            }
        }
        Ok(())
    }

    /// The slots written since the marks were last taken, as a bitmap over slot indexes.
    pub(crate) fn written(&self, block: u32) -> u128 {
        (0..Self::GROUPS).fold(0, |bits, group| {
            bits | u128::from(gather(self.word(block, group) & TOPS)) << (8 * group)
        })
    }

    /// Takes the marks of a block: it has no written slots from now on.
    pub(crate) fn take_written(&mut self, block: u32) -> u128 {
        let bits = self.written(block);
        for group in 0..Self::GROUPS {
            if bits >> (8 * group) & 0xff != 0 {
                let word = self.word(block, group);
                self.set_word(block, group, word & !TOPS);
            }
        }
        bits
    }

    /// When the entry was last touched; 0 in a table without times.
    #[inline]
    pub(crate) fn stamp_ms(&self, slot: Slot) -> i64 {
        if self.stamps_offset == 0 {
            return 0;
        }
        // SAFETY: in bounds (see `stamp_at`), aligned, and written by `insert` if the slot was ever occupied;
        // it is asked for occupied slots only, and for one just emptied by `take_all`.
        unsafe { self.stamp_at(slot).read() }
    }

    /// Sets when the entry was last touched.
    #[inline]
    pub(crate) fn set_stamp(&mut self, slot: Slot, stamp_ms: i64) {
        if self.stamps_offset != 0 {
            // SAFETY: in bounds and aligned (see `stamp_at`).
            unsafe { self.stamp_at(slot).write(stamp_ms) }
        }
    }

    #[inline]
    fn stamp_at(&self, slot: Slot) -> NonNull<i64> {
        assert!(usize::from(slot.index) < Self::GROUPS * 8, "slot index in range");
        // SAFETY: a stamped block has room for GROUPS * 8 times from `stamps_offset` on, aligned to 8.
        unsafe {
            self.block(slot.block)
                .add(self.stamps_offset + usize::from(slot.index) * 8)
                .cast()
        }
    }

    /// Fetches what an access with this hash touches.
    #[inline]
    pub(crate) fn prefetch(&self, block: u32, hash: u64) {
        let group = Self::group_in(self.block(block), hash as usize).as_ptr();
        for line in 0..Self::PREFETCH_LINES {
            prefetch(group.wrapping_add(line * LINE_BYTES));
        }
    }
}
