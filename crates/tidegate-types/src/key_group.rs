//! The one place that says which key group a hash falls into and which subtask owns a key group.
//!
//! Both maps are monotone in the hash, so a subtask owns one contiguous [`HashRange`], snapshot sections
//! sorted by hash can be cut anywhere, and rescaling reads neighbouring sections only.

use serde::{Deserialize, Serialize};

use crate::ids::{MaxParallelism, Parallelism, SubtaskIndex};

/// An inclusive range of 64-bit key hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HashRange {
    /// Lowest hash inside.
    pub first: u64,
    /// Highest hash inside.
    pub last: u64,
}

impl HashRange {
    /// Every hash.
    pub const ALL: Self = Self {
        first: 0,
        last: u64::MAX,
    };

    /// Whether `hash` is inside.
    pub fn contains(self, hash: u64) -> bool {
        self.first <= hash && hash <= self.last
    }

    /// What both have in common.
    pub fn intersection(self, other: Self) -> Option<Self> {
        let both = Self {
            first: self.first.max(other.first),
            last: self.last.min(other.last),
        };
        (both.first <= both.last).then_some(both)
    }
}

/// The key group of a hash: `mulhi(hash, max_parallelism)`.
#[inline]
pub fn key_group(hash: u64, max: MaxParallelism) -> u32 {
    ((u128::from(hash) * u128::from(max.0)) >> 64) as u32
}

/// The subtask that owns a hash: `key_group * parallelism / max_parallelism`.
#[inline]
pub fn subtask_for(hash: u64, max: MaxParallelism, parallelism: Parallelism) -> SubtaskIndex {
    let group = u64::from(key_group(hash, max));
    SubtaskIndex((group * u64::from(parallelism.0) / u64::from(max.0)) as u32)
}

/// The hashes that a subtask owns; empty (`None`) if there are more subtasks than key groups.
pub fn hash_range(subtask: SubtaskIndex, max: MaxParallelism, parallelism: Parallelism) -> Option<HashRange> {
    let (s, p, m) = (u64::from(subtask.0), u64::from(parallelism.0), u64::from(max.0));
    // The groups g with g * p / m == s are those with s * m / p <= g < (s + 1) * m / p, both rounded up.
    let (from, to) = ((s * m).div_ceil(p), ((s + 1) * m).div_ceil(p));
    (from < to && s < p).then(|| HashRange {
        first: first_hash(from, m),
        last: last_hash(to, m),
    })
}

/// The lowest hash of key group `group`: the least h with `mulhi(h, m) == group`.
fn first_hash(group: u64, m: u64) -> u64 {
    ((u128::from(group) << 64).div_ceil(u128::from(m))) as u64
}

/// The highest hash below key group `to`.
fn last_hash(to: u64, m: u64) -> u64 {
    if to >= m { u64::MAX } else { first_hash(to, m) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_owners_agree_at_every_boundary() {
        for m in [1, 2, 3, 7, 127, 128, 1000, 32768] {
            for p in [1, 2, 3, 5, 7, 64, 127] {
                let (max, par) = (MaxParallelism(m), Parallelism(p));
                let mut next = Some(0u64);
                for s in 0..p {
                    let Some(range) = hash_range(SubtaskIndex(s), max, par) else {
                        continue;
                    };
                    assert_eq!(Some(range.first), next, "ranges follow each other without a gap");
                    for h in [range.first, range.last, range.first / 2 + range.last / 2] {
                        assert_eq!(
                            subtask_for(h, max, par),
                            SubtaskIndex(s),
                            "m {m} p {p} hash {h:x}"
                        );
                    }
                    next = range.last.checked_add(1);
                }
                assert_eq!(next, None, "the last range ends at the last hash");
            }
        }
    }
}
