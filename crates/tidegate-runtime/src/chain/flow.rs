//! One pass over a chain: how much it may do and what makes it stop.

use std::time::Duration;

use tidegate_types::{EventTime, Nanos};

use crate::clock::Clock;
use crate::signal::TaskSignal;

/// Records that operators hand each other at once, at most.
pub const PASS_RECORDS: usize = 1024;

/// Stateless loops look at the urgent flag this often, unless their records turn out slow.
const LONGEST_RUN: usize = 64;

/// Records that take longer on average are slow: a run of them would be noticed.
const SLOW_RECORD: Duration = Duration::from_micros(16);

/// How many records a loop over user code does between two looks at the urgent flag, and between two looks at the
/// clock, which tell it how many. Kept by whoever has the loop, so that slow records are remembered from call to call.
#[derive(Debug, Clone, Copy)]
pub struct Strider {
    stride: usize,
    begun: Nanos,
    done: usize,
    look_after: usize,
}

impl Default for Strider {
    fn default() -> Self {
        Self {
            stride: LONGEST_RUN,
            begun: Nanos(0),
            done: 0,
            look_after: 1,
        }
    }
}

impl Strider {
    /// A call begins.
    #[inline]
    pub fn begin(&mut self, clock: &dyn Clock) {
        (self.begun, self.done) = (clock.now(), 0);
    }

    /// How many of `available` records may be done at once.
    #[inline]
    pub fn run(&self, available: usize) -> usize {
        available.min(self.stride)
    }

    /// So many are done. The clock is read after the first run, and ever more seldom while records are quick.
    #[inline]
    pub fn done(&mut self, records: usize, clock: &dyn Clock) {
        self.done += records;
        if self.done >= self.look_after {
            self.look(clock);
        }
    }

    /// The call ends.
    #[inline]
    pub fn end(&mut self, clock: &dyn Clock) {
        if self.done > 0 {
            self.look(clock);
        }
    }

    fn look(&mut self, clock: &dyn Clock) {
        let now = clock.now();
        if now.since(self.begun) > SLOW_RECORD * u32::try_from(self.done).unwrap_or(u32::MAX) {
            (self.stride, self.look_after) = (1, 1);
        } else {
            // Back to long runs by and by: one fast record among slow ones proves little.
            self.stride = (self.stride * 2).min(LONGEST_RUN);
            self.look_after = (self.look_after * 2).min(PASS_RECORDS);
        }
        (self.begun, self.done) = (now, 0);
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

    /// Records that may still be done. At least one: whoever asks has found that the pass goes on.
    #[inline]
    pub fn allowance(&self) -> usize {
        if self.overdraft {
            usize::MAX
        } else {
            self.fuel.max(1)
        }
    }

    /// Where urgent things are announced.
    pub(crate) fn signal(&self) -> &'a TaskSignal {
        self.signal
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
