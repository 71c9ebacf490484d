//! How a table grows: a full block splits in two by the next bit of its entries' hashes.
//!
//! Keys are hashed anew, because storing hashes would cost a small entry half its size again. The hasher is
//! user code and may panic, so everything it says is collected before anything moves.

use tidegate_types::key_group::HashRange;

use super::blocks::{Slot, Taken};
use super::marks::{NONE, Node};
use super::{BlockTable, Entry, Home, Meta};

/// Directory entries per block (and for a table's first few) beyond which a block is chained instead of split.
/// Hashes that are spread evenly need about two; whoever chooses keys by their hash must not be able to choose
/// the directory's size.
const MAX_ENTRIES_PER_BLOCK: u64 = 64;
const MIN_ENTRIES: u64 = 1024;

/// Where the entries and marks of a splitting block go.
struct Halves {
    low: u32,
    high: u32,
    /// The bit of the position that decides.
    bit: u64,
}

impl<K: Eq, V> BlockTable<K, V> {
    /// Makes room where a hash belongs: splits the block, or chains another to it if its hashes are too alike.
    pub(crate) fn make_room(&mut self, hash: u64) {
        let index = self.directory.index(self.directory.position(hash));
        let home = self.directory.home(index);
        let depth = u32::from(self.meta[home.block as usize].depth);
        if home.chained || (depth == self.directory.bits() && !self.may_double()) {
            self.chain_block(index, home);
        } else {
            self.split(index, home);
        }
    }

    fn may_double(&self) -> bool {
        let entries = 2u64 << self.directory.bits();
        let limit = u64::from(self.blocks.len()) * MAX_ENTRIES_PER_BLOCK + MIN_ENTRIES;
        self.directory.can_double() && entries <= limit
    }

    fn chain_block(&mut self, index: usize, home: Home) {
        let Meta { depth, next, .. } = self.meta[home.block as usize];
        let block = self.push_block(depth);
        self.meta[block as usize].next = next;
        self.meta[home.block as usize].next = block;
        let span = self.directory.span(index, u32::from(depth));
        self.directory.set_chained(span);
    }

    /// Splits the block at `index`.
    pub(super) fn split(&mut self, mut index: usize, home: Home) {
        let hashes = self.hashes_of(home.block);
        let deleted = self.deleted_hashes_of(home.block);
        // From here on nothing of the user's runs.
        let depth = self.meta[home.block as usize].depth;
        if u32::from(depth) == self.directory.bits() {
            self.directory.double();
            index *= 2;
        }
        let high = self.push_block(depth + 1);
        self.meta[home.block as usize].depth = depth + 1;
        let span = self.directory.span(index, u32::from(depth));
        self.directory.split(span, high);
        let halves = Halves {
            low: home.block,
            high,
            bit: 1 << (63 - depth),
        };
        let moves = self.move_entries(&halves, &hashes);
        self.move_marks(&halves, &moves, deleted);
    }

    fn hashes_of(&self, block: u32) -> Vec<u64> {
        self.blocks
            .slots(block)
            .map(|slot| (self.hasher)(&self.blocks.get(slot).key))
            .collect()
    }

    fn deleted_hashes_of(&self, block: u32) -> Vec<u64> {
        let nodes = self.marks.of(self.meta[block as usize].marks);
        nodes
            .flat_map(|node| &node.deleted)
            .map(|key| (self.hasher)(key))
            .collect()
    }

    /// Deals the entries out; says for each old slot where it went.
    fn move_entries(&mut self, halves: &Halves, hashes: &[u64]) -> Vec<(u8, Slot)> {
        let mut taken: Vec<Taken<Entry<K, V>>> = Vec::with_capacity(hashes.len());
        self.blocks.take_all(halves.low, &mut taken);
        self.meta[halves.low as usize].len = 0;
        let mut moves = Vec::with_capacity(taken.len());
        for (
            Taken {
                index,
                written,
                stamp_ms,
                entry,
            },
            &hash,
        ) in taken.into_iter().zip(hashes)
        {
            let target = self.half(halves, hash);
            // Both halves are as large as the whole was, so this can't fail.
            if let Ok(slot) = self.blocks.insert(target, hash, written, entry) {
                self.blocks.set_stamp(slot, stamp_ms);
                self.meta[target as usize].len += 1;
                moves.push((index, slot));
            }
        }
        moves
    }

    fn half(&self, halves: &Halves, hash: u64) -> u32 {
        // A key that hashes differently than when it came may be anywhere; it stays where it isn't lost to a
        // sweep.
        let position = self.directory.clamped_position(hash);
        if position & halves.bit == 0 {
            halves.low
        } else {
            halves.high
        }
    }

    fn move_marks(&mut self, halves: &Halves, moves: &[(u8, Slot)], deleted: Vec<u64>) {
        let nodes = self.marks.take(&mut self.meta[halves.low as usize].marks);
        let (mut low, mut high) = (Vec::new(), Vec::new());
        let mut deleted_hashes = deleted.into_iter();
        for mut node in nodes {
            let (mut written_low, mut written_high) = (0u128, 0u128);
            for (from, to) in moves {
                let bit = node.written >> from & 1;
                let side = if to.block == halves.low {
                    &mut written_low
                } else {
                    &mut written_high
                };
                *side |= bit << to.index;
            }
            let (mut deleted_low, mut deleted_high) = (Vec::new(), Vec::new());
            for key in std::mem::take(&mut node.deleted) {
                // There is a hash for each: they were taken from the same nodes in the same order.
                let hash = deleted_hashes.next().unwrap_or(0);
                let side = if self.half(halves, hash) == halves.low {
                    &mut deleted_low
                } else {
                    &mut deleted_high
                };
                side.push(key);
            }
            low.push(node.part(written_low, deleted_low));
            high.push(node.part(written_high, deleted_high));
        }
        self.give_marks(halves.low, low);
        self.give_marks(halves.high, high);
    }

    fn give_marks(&mut self, block: u32, nodes: Vec<Node<K>>) {
        debug_assert!(self.meta[block as usize].marks == NONE, "a half has no marks yet");
        self.marks.give(&mut self.meta[block as usize].marks, nodes);
    }

    /// Splits until entries that are spread evenly over `hashes` fit, so that restoring them splits nothing.
    pub(crate) fn reserve(&mut self, hashes: HashRange, entries: u64) {
        let Some(common) = self.range().and_then(|range| range.intersection(hashes)) else {
            return;
        };
        let width = |range: HashRange| (range.last - range.first) as f64 + 1.0;
        let density = entries as f64 / width(hashes);
        // Counts vary around their mean by its root: most blocks stay below full.
        let most = f64::from(Self::FULL) - 2.0 * f64::from(Self::FULL).sqrt();
        let mut at = Some(self.directory.position(common.first));
        while let Some(position) = at {
            let index = self.directory.index(position);
            let home = self.directory.home(index);
            let block = self.directory.hashes(&self.span_at(index));
            let expected = block
                .intersection(common)
                .map_or(0.0, |both| density * width(both));
            let depth = u32::from(self.meta[home.block as usize].depth);
            let may = !home.chained && (depth < self.directory.bits() || self.may_double());
            if expected > most && may {
                self.split(index, home);
                continue;
            }
            at = self.step(position).1.filter(|_| block.last < common.last);
        }
    }
}
