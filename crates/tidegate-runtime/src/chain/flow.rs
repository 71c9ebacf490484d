//! One pass over a chain: how much it may do and what makes it stop.

use tidegate_types::{EventTime, Nanos};

use crate::clock::Clock;
use crate::signal::TaskSignal;

/// Records that operators hand each other at once, at most.
pub const PASS_RECORDS: usize = 1024;

/// Stateless loops look at the urgent flag this often, unless their records turn out slow.
const STATELESS_STRIDE: usize = 64;

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
    stride: usize,
    records: u64,
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
            stride: STATELESS_STRIDE,
            records: 0,
            now: clock.now(),
            wall_ms: clock.wall_ms(),
            overdraft: false,
        }
    }

    /// A pass that ignores room, urgency and fuel: what a snapshot must have out of the way before its barrier.
    pub fn overdraft(signal: &'a TaskSignal, clock: &'a dyn Clock) -> Self {
        Self { overdraft: true, ..Self::new(signal, clock, usize::MAX) }
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

    /// How many records a stateless loop may do before it asks [`must_yield`](Self::must_yield) again.
    #[inline]
    pub fn stride(&self) -> usize {
        if self.overdraft { usize::MAX } else { self.stride.min(self.fuel) }
    }

    /// A stateless loop has done `records`. Once a run of them took over a millisecond, it is asked to look up
    /// after every one.
    pub fn spend_run(&mut self, records: usize) {
        self.fuel = self.fuel.saturating_sub(records);
        self.records += records as u64;
        if records >= STATELESS_STRIDE && self.stride > 1 {
            let now = self.clock.now();
            if now.since(self.now).as_nanos() > 1_000_000 * (self.records as u128).div_ceil(STATELESS_STRIDE as u128)
            {
                self.stride = 1;
            }
        }
    }

    /// Starts with every-record checks, because this operator's records were slow before.
    pub fn set_stride(&mut self, stride: usize) {
        self.stride = stride.clamp(1, STATELESS_STRIDE);
    }

    /// Records processed so far, over all operators of the chain.
    pub fn records(&self) -> u64 {
        self.records
    }
}
