//! The one record type of random jobs: a tag that stands for so many.
//!
//! Every operator of a random job is linear in the amounts: two records of one tag may always be put together, or
//! one be put out in portions, without anything downstream coming to another total. So what a sink sees is
//! determined per tag, however the records of a run interleave.

use serde::{Deserialize, Serialize};

use crate::checks::output::Counted;

/// A record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// What it is.
    pub tag: u64,
    /// How many of them it stands for. Never below 1.
    pub n: i64,
    /// Its event time. What an operator puts out never depends on it, only when.
    pub at: i64,
}

impl Counted for Item {
    type Key = u64;

    fn counted(&self) -> (u64, i64) {
        (self.tag, self.n)
    }
}

/// A number that depends on both in no visible way.
pub fn mix(a: u64, b: u64) -> u64 {
    let mut z = a
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(b.wrapping_mul(0xd6e8_feb8_6659_fd93));
    z = (z ^ (z >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 29)
}
