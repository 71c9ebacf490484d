//! One pass over a chain: how much it may do and what makes it stop.

use std::time::Duration;

use tidegate_types::{EventTime, Nanos};

use crate::clock::Clock;
use crate::signal::TaskSignal;

/// Records that operators hand each other at once, at most.
pub const PASS_RECORDS: usize = 1024;

/// Stateless loops look at the urgent flag this often, unless their records turn out slow.
const LONGEST_RUN: usize = 64;

/// A run that took longer makes the operator look up after every record.
const SLOW_RUN: Duration = Duration::from_millis(1);

/// How many records a stateless operator does between two looks at the urgent flag. Kept by the operator, so that slow
/// records are remembered from pass to pass.
#[derive(Debug, Clone, Copy)]
pub struct Strider {
    stride: usize,
}

impl Default for Strider {
    fn default() -> Self {
        Self { stride: LONGEST_RUN }
    }
}

impl Strider {
    /// How many of `available` records may be done at once.
    #[inline]
    pub fn run(&self, available: usize, pass: &Pass<'_>) -> usize {
        let fuel = if pass.overdraft {
            usize::MAX
        } else {
            pass.fuel.max(1)
        };
        available.min(self.stride).min(fuel)
    }

    /// A run of `records` that began at `begun` is done.
    #[inline]
    pub fn done(&mut self, records: usize, begun: Nanos, pass: &mut Pass<'_>) {
        pass.spend_run(records);
        if pass.clock.now().since(begun) > SLOW_RUN {
            self.stride = 1;
        } else if self.stride < LONGEST_RUN {
            // Back to long runs by and by: one fast record among slow ones proves little.
            self.stride = (self.stride * 2).min(LONGEST_RUN);
        }
    }
}

/// How an operator's call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// All that it was given is done.
    Done,
    /// It stopped because something is urgent or the pass is over; the rest stands where it was.
    Yielded,
    /// There is no room for more output; call again when what it put out has been taken.
    Full,
}

/// What one pass may use up. Handed through the chain by the task.
pub struct Pass<'a> {
    signal: &'a TaskSignal,
    clock: &'a dyn Clock,
    fuel: usize,
    records: u64,
    skipped: u64,
    now: Nanos,
    wall_ms: EventTime,
    overdraft: bool,
}

impl<'a> Pass<'a> {
    /// A pass of at most `fuel` records, begun at `now`.
    pub fn new(signal: &'a TaskSignal, clock: &'a dyn Clock, fuel: usize) -> Self {
        Self {
            signal,
            clock,
            fuel,
            records: 0,
            skipped: 0,
            now: clock.now(),
            wall_ms: clock.wall_ms(),
            overdraft: false,
        }
    }

    /// A pass that ignores room, urgency and fuel: what a snapshot must have out of the way before its barrier.
    pub fn overdraft(signal: &'a TaskSignal, clock: &'a dyn Clock) -> Self {
        Self {
            overdraft: true,
            ..Self::new(signal, clock, usize::MAX)
        }
    }

    /// When the pass began.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The processing time of the pass.
    #[inline]
    pub fn wall_ms(&self) -> EventTime {
        self.wall_ms
    }

    /// The clock, for code that must know the time more exactly than to a pass.
    pub fn clock(&self) -> &'a dyn Clock {
        self.clock
    }

    /// Whether room, urgency and fuel are ignored.
    #[inline]
    pub fn is_overdraft(&self) -> bool {
        self.overdraft
    }

    /// Whether the pass should end before the next record. Operators with state, timers or I/O ask before each.
    #[inline(always)]
    pub fn must_yield(&self) -> bool {
        (self.fuel == 0 || self.signal.is_urgent()) && !self.overdraft
    }

    /// One record was processed.
    #[inline(always)]
    pub fn spend(&mut self) {
        self.fuel = self.fuel.saturating_sub(1);
        self.records += 1;
    }

    /// A stateless loop has done `records`.
    pub fn spend_run(&mut self, records: usize) {
        self.fuel = self.fuel.saturating_sub(records);
        self.records += records as u64;
    }

    /// Records were skipped: user code failed on them, or a reader could make nothing of them.
    pub fn note_skipped(&mut self, records: u64) {
        self.skipped += records;
    }

    /// Records skipped so far, over all operators of the chain.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Records processed so far, over all operators of the chain.
    pub fn records(&self) -> u64 {
        self.records
    }
}
