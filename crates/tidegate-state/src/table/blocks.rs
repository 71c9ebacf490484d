//! Raw blocks of slots: where the entries of a table live in memory.
//!
//! A block is a power of two of *groups*. A group is a control word and seven slots, laid out so that one or two
//! cache lines hold all that an access touches: the tags that find the entry, the bits that say it was written,
//! and the entry itself. Blocks stand in chunks that are aligned to 2 MiB pages once a table is large.
//!
//! ```text
//! block:  group 0 | group 1 | … | group 15 | [last-touched times, if the state has a time-to-live]
//! group:  tag 0 … tag 6, overflow | slot 0 | … | slot 6        tag: 0 empty, else 7 hash bits; bit 7 = written
//! ```
//!
//! Owns: memory, probing within one block, the written bits, drop glue. Does not own: which block a hash belongs
//! to (`directory`), how many entries a block may have, and snapshots.
//!
//! This is the one module of the crate with `unsafe` code. Its functions are safe to call with any argument: a
//! slot is checked to be occupied before it is touched.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::prefetch::prefetch;

/// Slots of one group.
pub(crate) const GROUP_SLOTS: usize = 7;
/// Most groups of a block, so that a bitmap of its slots is one `u128` (a bit of eight per group is unused).
const MAX_GROUPS: usize = 16;
/// A block is kept below this by having fewer groups when entries are large.
const MAX_BLOCK_BYTES: usize = 64 * 1024;
const LINE_BYTES: usize = 64;
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// The first chunk grows by copying until it is this large; what is copied at once stays below.
const SMALL_CHUNK_BYTES: usize = 512 * 1024;

const LSB: u64 = 0x0101_0101_0101_0101;
const LOW7: u64 = 0x7f7f_7f7f_7f7f_7f7f;
/// The top bits of the seven tag bytes.
const TOPS: u64 = 0x0080_8080_8080_8080;
const WRITTEN: u8 = 0x80;

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
    stride_bytes: usize,
    /// Where a block's last-touched times begin; 0 if it has none.
    stamps_offset: usize,
    _entries: PhantomData<E>,
}

// SAFETY: the entries are owned, reached only through `&self` and `&mut self`, and nothing is shared with another
// `Blocks`; so sending the whole is sending the entries.
unsafe impl<E: Send> Send for Blocks<E> {}

/// Seven bits of the hash that are neither in the directory's prefix nor in the group's index; never 0.
#[inline]
fn tag(hash: u64) -> u8 {
    (((hash >> 4) & 0x7f) as u8).max(1)
}

/// The top bit of every tag byte that is 0 after `word ^ pattern`, ignoring written bits.
#[inline]
fn matching(word: u64, pattern: u64) -> u64 {
    // Each byte is at most 0x7f, so adding 0x7f carries into its own top bit only, and does so unless it is 0.
    let differs = ((word & LOW7) ^ pattern).wrapping_add(LOW7);
    !differs & TOPS
}

#[inline]
fn occupied(word: u64) -> u64 {
    (word & LOW7).wrapping_add(LOW7) & TOPS
}

/// Gathers the top bits of the tag bytes into the low seven bits.
#[inline]
fn gather(tops: u64) -> u8 {
    // Byte i contributes bit 8i, which the multiplier's bit 7 * (8 - i) moves to bit 56 + i; no two sums meet.
    ((tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

const fn align_up(value: usize, to: usize) -> usize {
    value.div_ceil(to) * to
}

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
            stride_bytes,
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
        self.memory.bytes
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
        self.memory.block(block, self.stride_bytes)
    }

    /// The start of a group within a block.
    #[inline]
    fn group_in(base: NonNull<u8>, group: usize) -> NonNull<u8> {
        // SAFETY: `base` is the start of a block (from `block`), which is at least GROUPS * GROUP_BYTES long, and the
        // group is masked to below GROUPS.
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
        // SAFETY: in bounds (see `stamp_at`), aligned, and written by `insert` if the slot was ever occupied; it
        // is asked for occupied slots only, and for one just emptied by `take_all`.
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

impl<E> Drop for Blocks<E> {
    fn drop(&mut self) {
        /// Goes on with the rest should a drop panic, as a vector does.
        struct Rest<'a, E>(&'a mut Blocks<E>);
        impl<E> Drop for Rest<'_, E> {
            fn drop(&mut self) {
                self.0.drop_entries();
            }
        }
        if std::mem::needs_drop::<E>() {
            let rest = Rest(self);
            rest.0.drop_entries();
        }
    }
}

impl<E> Blocks<E> {
    fn drop_entries(&mut self) {
        for block in 0..self.len {
            for group in 0..Self::GROUPS {
                let mut left = occupied(self.word(block, group));
                while left != 0 {
                    let slot = Slot {
                        block,
                        index: (group * 8) as u8 + (left.trailing_zeros() >> 3) as u8,
                    };
                    // Emptied first: nothing is dropped twice, whatever the drop does.
                    self.set_control(slot, 0);
                    // SAFETY: the slot was occupied and no longer is, so the entry is dropped exactly once.
                    unsafe { self.entry(slot).drop_in_place() };
                    left &= left - 1;
                }
            }
        }
    }
}

/// The memory of blocks: one growing chunk while the table is small, then chunks of equal size.
struct Chunks {
    starts: Vec<NonNull<u8>>,
    layouts: Vec<Layout>,
    /// Blocks that the only chunk has room for, as long as there is only one.
    first_capacity: u32,
    /// A full chunk has `1 << shift` blocks.
    shift: u32,
    align: usize,
    stride_bytes: usize,
    bytes: u64,
}

impl Chunks {
    fn new(stride_bytes: usize, align: usize) -> Self {
        Self {
            starts: Vec::new(),
            layouts: Vec::new(),
            first_capacity: 0,
            shift: chunk_shift(stride_bytes),
            align,
            stride_bytes,
            bytes: 0,
        }
    }

    #[inline]
    fn block(&self, block: u32, stride_bytes: usize) -> NonNull<u8> {
        let start = self.starts[(block >> self.shift) as usize];
        let within = block as usize & ((1 << self.shift) - 1);
        // SAFETY: callers pass blocks for which `reserve` made room; a chunk has room for all blocks up to the one
        // last reserved in it.
        unsafe { start.add(within * stride_bytes) }
    }

    /// Makes room for block number `len`, the one after the last.
    fn reserve(&mut self, len: u32) {
        let full = 1u32 << self.shift;
        if len >= full {
            if (len >> self.shift) as usize == self.starts.len() {
                let chunk = self.allocate(full);
                self.add(chunk);
            }
            return;
        }
        if len < self.first_capacity {
            return;
        }
        let mut capacity = (self.first_capacity * 4).clamp(1, full);
        if capacity as usize * self.stride_bytes > SMALL_CHUNK_BYTES {
            capacity = full;
        }
        let grown = self.allocate(capacity);
        if let Some((old, layout)) = self.starts.pop().zip(self.layouts.pop()) {
            let used = self.first_capacity as usize * self.stride_bytes;
            // SAFETY: both are at least `used` long and distinct; entries are moved bitwise and the old memory is
            // released without dropping them. No reference into it exists: `&mut self` comes from `push`.
            unsafe { std::ptr::copy_nonoverlapping(old.as_ptr(), grown.0.as_ptr(), used) };
            self.release(old, layout);
        }
        self.add(grown);
        self.first_capacity = capacity;
    }

    fn add(&mut self, (memory, layout): (NonNull<u8>, Layout)) {
        self.starts.push(memory);
        self.layouts.push(layout);
    }

    fn allocate(&mut self, blocks: u32) -> (NonNull<u8>, Layout) {
        let bytes = blocks as usize * self.stride_bytes;
        let huge = bytes >= HUGE_PAGE_BYTES;
        let (size, align) = match huge {
            true => (align_up(bytes, HUGE_PAGE_BYTES), HUGE_PAGE_BYTES.max(self.align)),
            false => (bytes, self.align),
        };
        let layout = Layout::from_size_align(size, align).expect("a chunk is at most tens of megabytes");
        // SAFETY: a block has groups, so the size isn't 0.
        let memory = unsafe { alloc(layout) };
        let Some(memory) = NonNull::new(memory) else {
            handle_alloc_error(layout)
        };
        if huge {
            advise_huge_pages(memory, size);
        }
        self.bytes += size as u64;
        (memory, layout)
    }

    fn release(&mut self, memory: NonNull<u8>, layout: Layout) {
        self.bytes -= layout.size() as u64;
        // SAFETY: it was allocated with this layout and its owner gave it up.
        unsafe { dealloc(memory.as_ptr(), layout) };
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        while let Some((memory, layout)) = self.starts.pop().zip(self.layouts.pop()) {
            self.release(memory, layout);
        }
    }
}

/// How many blocks make a chunk (as a power of two) that wastes at most a sixteenth of its 2 MiB pages.
fn chunk_shift(stride_bytes: usize) -> u32 {
    let mut shift = (HUGE_PAGE_BYTES / stride_bytes).max(1).ilog2();
    loop {
        let bytes = stride_bytes << shift;
        let pages = align_up(bytes, HUGE_PAGE_BYTES);
        if bytes >= HUGE_PAGE_BYTES && (pages - bytes <= bytes / 16 || bytes >= 16 * HUGE_PAGE_BYTES) {
            return shift;
        }
        shift += 1;
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn advise_huge_pages(memory: NonNull<u8>, bytes: usize) {
    // SAFETY: the range was just allocated and belongs to us whole; the advice doesn't change its content. A
    // refusal (a kernel without huge pages) only costs speed.
    unsafe { libc::madvise(memory.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn advise_huge_pages(_: NonNull<u8>, _: usize) {}
