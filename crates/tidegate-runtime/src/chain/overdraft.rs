//! How far a record in progress may run on beyond a full output.
//!
//! Owns the two limits of an overdraft, in time and in bytes, and what is left of them. Does not own when an
//! overdraft is allowed: a task begins one for a cut, and what is used up stays used up until the cut is taken.

use tidegate_types::Nanos;

use crate::clock::Clock;

/// What is left of an overdraft.
pub struct Overdraft<'a> {
    clock: &'a dyn Clock,
    until: Nanos,
    bytes: u64,
    spent: u64,
}

impl<'a> Overdraft<'a> {
    /// Until this moment, and for so many encoded bytes.
    pub fn new(clock: &'a dyn Clock, until: Nanos, bytes: u64) -> Self {
        Self {
            clock,
            until,
            bytes,
            spent: 0,
        }
    }

    /// So many more bytes were put out.
    pub fn spend(&mut self, bytes: u64) {
        self.spent = self.spent.saturating_add(bytes);
    }

    /// Bytes put out so far.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// Whether more may be put out. Asks the clock, so not for every record.
    pub fn may_go_on(&self) -> bool {
        self.spent < self.bytes && self.clock.now() < self.until
    }
}
