//! How many records a gate may queue: a stretch of time, divided by what a record costs.
//!
//! A gate queues about `task.gate.budget` of its task's work, so that an aligned barrier never waits longer
//! than that behind records and an unaligned one overtakes little. The cost of a record is *busy* time measured
//! by the task. The capacity starts at two records and at most doubles at a time; it moves only when a producer
//! was held up by it, since a starved gate measures the overhead of small passes, not the work.
//!
//! Encoded size caps it too: one record in 1,024 is measured.

use std::time::Duration;

/// Of this many records one is encoded to learn its size.
pub const SIZE_SAMPLE_EVERY: u64 = 1024;

/// What each channel may hold whatever the others do.
pub const OWN_RECORDS: u64 = 2;

/// Busy time that must be seen before the cost of a record is judged anew, unless [`MIN_SAMPLE_RECORDS`] were.
const MIN_SAMPLE: Duration = Duration::from_millis(1);
const MIN_SAMPLE_RECORDS: u64 = 64;

/// How a gate's capacity is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetSettings {
    /// So many records as the task needs this long for, but not more than so many encoded bytes per gate.
    Time {
        /// The stretch of time (default 100 ms).
        budget: Duration,
        /// Upper bound of encoded bytes (default 4 MiB).
        max_bytes: u64,
    },
    /// So many records in each channel, whatever they cost: textbook buffers.
    FixedPerChannel(u64),
}

impl Default for BudgetSettings {
    fn default() -> Self {
        Self::Time {
            budget: Duration::from_millis(100),
            max_bytes: 4 << 20,
        }
    }
}

/// The capacity of one gate, as the consuming task sees it.
#[derive(Debug)]
pub struct Budget {
    settings: BudgetSettings,
    capacity: u64,
    cost_ns: f64,
    record_bytes: f64,
    sample_busy: Duration,
    sample_records: u64,
}

impl Budget {
    /// A gate of `channels` channels that has seen nothing yet.
    pub fn new(settings: BudgetSettings, channels: u64) -> Self {
        let capacity = match settings {
            BudgetSettings::Time { .. } => OWN_RECORDS,
            BudgetSettings::FixedPerChannel(n) => n.max(OWN_RECORDS) * channels,
        };
        Self {
            settings,
            capacity,
            cost_ns: 0.0,
            record_bytes: 0.0,
            sample_busy: Duration::ZERO,
            sample_records: 0,
        }
    }

    /// Records that the gate may hold in all.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// What one of `active` channels may hold.
    pub fn share(&self, active: u64) -> u64 {
        match self.settings {
            BudgetSettings::Time { .. } => (self.capacity / active.max(1)).max(OWN_RECORDS),
            BudgetSettings::FixedPerChannel(n) => n.max(OWN_RECORDS),
        }
    }

    /// Busy nanoseconds per record, as estimated now; zero before the first estimate.
    pub fn cost_ns(&self) -> f64 {
        self.cost_ns
    }

    /// One record was found to take so many bytes.
    pub fn on_record_size(&mut self, bytes: u64) {
        let bytes = bytes.max(1) as f64;
        self.record_bytes = if self.record_bytes == 0.0 {
            bytes
        } else {
            self.record_bytes * 0.75 + bytes * 0.25
        };
    }

    /// The task was busy so long with so many records of this gate. `limited` says that a producer was held up
    /// by the capacity since the last call, `blocked` that the gate stood still for an alignment. True if the
    /// capacity changed.
    pub fn on_busy(&mut self, busy: Duration, records: u64, limited: bool, blocked: bool) -> bool {
        let BudgetSettings::Time { budget, max_bytes } = self.settings else {
            return false;
        };
        if blocked {
            (self.sample_busy, self.sample_records) = (Duration::ZERO, 0);
            return false;
        }
        self.sample_busy += busy;
        self.sample_records += records;
        if self.sample_records == 0
            || (self.sample_busy < MIN_SAMPLE && self.sample_records < MIN_SAMPLE_RECORDS && !limited)
        {
            return false;
        }
        let cost = (self.sample_busy.as_nanos() as f64 / self.sample_records as f64).max(1.0);
        (self.sample_busy, self.sample_records) = (Duration::ZERO, 0);
        self.cost_ns = if self.cost_ns == 0.0 {
            cost
        } else {
            self.cost_ns * 0.75 + cost * 0.25
        };
        if !limited {
            return false;
        }
        let mut target = (budget.as_nanos() as f64 / self.cost_ns) as u64;
        if self.record_bytes > 0.0 {
            target = target.min((max_bytes as f64 / self.record_bytes) as u64);
        }
        let next = target.clamp(OWN_RECORDS, self.capacity * 2);
        let changed = next != self.capacity;
        self.capacity = next;
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_slow_task_gets_a_hundred_milliseconds_of_records() {
        let mut budget = Budget::new(BudgetSettings::default(), 2);
        assert_eq!(budget.capacity(), 2);
        for _ in 0..10 {
            budget.on_busy(5 * MS, 1, true, false);
        }
        assert_eq!(budget.capacity(), 20);
        assert_eq!(budget.share(2), 10);
    }

    #[test]
    fn a_starved_or_blocked_gate_keeps_its_capacity() {
        let mut budget = Budget::new(BudgetSettings::default(), 1);
        for _ in 0..40 {
            budget.on_busy(Duration::from_micros(64), 640, true, false);
        }
        let grown = budget.capacity();
        assert!(grown > 500_000, "{grown}");
        budget.on_busy(50 * MS, 1, false, false);
        budget.on_busy(50 * MS, 1, true, true);
        assert_eq!(budget.capacity(), grown);
    }

    #[test]
    fn bytes_cap_the_records() {
        let mut budget = Budget::new(BudgetSettings::default(), 1);
        budget.on_record_size(1 << 20);
        for _ in 0..10 {
            budget.on_busy(MS, 1000, true, false);
        }
        assert_eq!(budget.capacity(), 4);
    }

    #[test]
    fn fixed_is_per_channel_and_never_moves() {
        let mut budget = Budget::new(BudgetSettings::FixedPerChannel(150), 2);
        assert_eq!(budget.share(2), 150);
        assert!(!budget.on_busy(5 * MS, 1, true, false));
        assert_eq!(budget.share(2), 150);
    }
}
