//! Which block a hash belongs to.
//!
//! An array over the leading bits of the hash, relative to the subtask's range, in hash order; several
//! neighbouring entries may name one block (extendible hashing, Fagin et al. 1979, with the leading bits).
//! Beside the block an entry has the epoch in which the block was last preserved, so that the first load of an
//! access answers "does an open snapshot still want this block as it is?".
//!
//! Owns: the map from hash to block and epoch. Does not own: blocks, or when one splits.

use tidegate_types::key_group::HashRange;

use super::prefetch::prefetch;

/// A directory of this many entries (128 KiB) stays in the second-level cache by itself.
const LARGE: usize = 16 * 1024;
/// Set in an entry whose block has others chained to it.
const CHAINED: u32 = 1 << 31;

/// One directory entry.
#[derive(Debug, Clone, Copy)]
struct Entry {
    block: u32,
    epoch: u32,
}

/// What a hash leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Home {
    /// The block, or the first of a chain.
    pub(crate) block: u32,
    /// Whether more blocks are chained to it.
    pub(crate) chained: bool,
    /// The epoch in which it was last preserved (or made).
    pub(crate) epoch: u32,
}

/// The directory of one table.
#[derive(Debug)]
pub(crate) struct Directory {
    range: Option<HashRange>,
    /// `range.last - range.first`.
    width: u64,
    /// How far a distance from `range.first` is shifted so that its leading bit can be set.
    lead: u32,
    /// The array has `1 << bits` entries.
    bits: u32,
    entries: Vec<Entry>,
}

impl Directory {
    /// Everything leads to `block`, preserved in `epoch`. Without a range no hash leads anywhere.
    pub(crate) fn new(range: Option<HashRange>, block: u32, epoch: u32) -> Self {
        let width = range.map_or(0, |r| r.last - r.first);
        let entries = vec![Entry { block, epoch }];
        Self {
            range,
            width,
            lead: width.leading_zeros().min(63),
            bits: 0,
            entries,
        }
    }

    /// The hashes that lead somewhere.
    pub(crate) fn range(&self) -> Option<HashRange> {
        self.range
    }

    /// How many leading bits the array distinguishes.
    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.entries.capacity() * size_of::<Entry>()) as u64
    }

    /// A hash as a fraction of the range, with the binary point before the top bit.
    ///
    /// # Panics
    /// If the hash lies outside the subtask's range: a record was routed wrongly, and what it writes here would
    /// be lost at the next restore.
    #[inline]
    pub(crate) fn position(&self, hash: u64) -> u64 {
        let first = match self.range {
            Some(range) => range.first,
            None => outside(hash, None),
        };
        let distance = hash.wrapping_sub(first);
        if distance > self.width {
            outside(hash, self.range);
        }
        distance << self.lead
    }

    /// The position of a hash, or the nearest one of the range.
    pub(crate) fn clamped_position(&self, hash: u64) -> u64 {
        let Some(range) = self.range else { return 0 };
        (hash.clamp(range.first, range.last) - range.first) << self.lead
    }

    /// The index of the entry for a position.
    #[inline]
    pub(crate) fn index(&self, position: u64) -> usize {
        // Two shifts, because with no bits one would be by 64.
        ((position >> 1) >> (63 - self.bits)) as usize
    }

    /// What an entry says.
    #[inline]
    pub(crate) fn home(&self, index: usize) -> Home {
        let Entry { block, epoch } = self.entries[index];
        Home {
            block: block & !CHAINED,
            chained: block & CHAINED != 0,
            epoch,
        }
    }

    /// Whether entries are worth fetching ahead.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.entries.len() > LARGE
    }

    /// Fetches the entry for a hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch(self.entries.as_ptr().wrapping_add(self.guess(hash)));
    }

    /// The index for a hash, or some index if it is outside the range.
    #[inline]
    fn guess(&self, hash: u64) -> usize {
        let first = self.range.map_or(0, |range| range.first);
        self.index(hash.wrapping_sub(first) << self.lead)
    }

    /// The block that a hash leads to, or some block if it is outside the range.
    #[inline]
    pub(crate) fn guess_block(&self, hash: u64) -> u32 {
        self.home(self.guess(hash)).block
    }

    /// The entries that share `depth` leading bits with the one at `index`.
    pub(crate) fn span(&self, index: usize, depth: u32) -> std::ops::Range<usize> {
        let len = 1usize << (self.bits - depth);
        let start = index & !(len - 1);
        start..start + len
    }

    /// The first position after those of a span, unless no hash lies there: the array reaches over the range's
    /// end.
    pub(crate) fn position_after(&self, span: &std::ops::Range<usize>) -> Option<u64> {
        let end = span.end as u64;
        let after = (end < 1 << self.bits).then(|| end << (64 - self.bits));
        after.filter(|position| *position <= self.width << self.lead)
    }

    /// The hashes of a span.
    pub(crate) fn hashes(&self, span: &std::ops::Range<usize>) -> HashRange {
        let Some(range) = self.range else {
            return HashRange { first: 0, last: 0 };
        };
        // A position is a distance shifted by `lead`: the first distance at or after a position is rounded up.
        let distance = |position: u64| position.div_ceil(1 << self.lead);
        let start = (span.start as u64).checked_shl(64 - self.bits).unwrap_or(0);
        let first = range.first + distance(start).min(self.width);
        let last = match self.position_after(span) {
            Some(after) => range.first + (distance(after) - 1).min(self.width),
            None => range.last,
        };
        HashRange { first, last }
    }

    /// Says that the blocks of a span were preserved in `epoch`.
    pub(crate) fn set_epoch(&mut self, span: std::ops::Range<usize>, epoch: u32) {
        for entry in &mut self.entries[span] {
            entry.epoch = epoch;
        }
    }

    /// Says that blocks are chained to that of a span.
    pub(crate) fn set_chained(&mut self, span: std::ops::Range<usize>) {
        for entry in &mut self.entries[span] {
            entry.block |= CHAINED;
        }
    }

    /// Lets the upper half of a span lead to `block`.
    pub(crate) fn split(&mut self, span: std::ops::Range<usize>, block: u32) {
        let middle = span.start + span.len() / 2;
        for entry in &mut self.entries[middle..span.end] {
            entry.block = block;
        }
    }

    /// Distinguishes one more bit. Copies the array, eight bytes an entry: a millisecond at ten million keys.
    pub(crate) fn double(&mut self) {
        let mut doubled = Vec::with_capacity(self.entries.len() * 2);
        for entry in &self.entries {
            doubled.extend_from_slice(&[*entry, *entry]);
        }
        self.entries = doubled;
        self.bits += 1;
    }

    /// Whether the hashes of a single entry can still be told apart.
    pub(crate) fn can_double(&self) -> bool {
        self.bits + 1 < 64 - self.lead
    }
}

#[cold]
#[inline(never)]
fn outside(hash: u64, range: Option<HashRange>) -> ! {
    match range {
        Some(HashRange { first, last }) => panic!(
            "keyed state was accessed with hash {hash:#018x}, but this subtask owns {first:#018x} to {last:#018x}: \
             the record was partitioned by another key than the one it is processed under"
        ),
        None => panic!("keyed state was accessed in a subtask that owns no keys (hash {hash:#018x})"),
    }
}
