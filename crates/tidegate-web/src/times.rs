//! Points on the jobs' monotone clock as milliseconds since the Unix epoch.
//!
//! The two clocks drift apart when the machine sleeps or its time is set. Histories keep monotone times only, so the
//! distance between the clocks is taken once and used until it is off by more than [`TOLERANCE_MS`]: a checkpoint's
//! timestamp is the same in every answer, and still right after a suspended machine woke up.

use std::sync::{Mutex, PoisonError};

use tidegate_types::{EventTime, Nanos};

use crate::jobs::Jobs;

/// How far the clocks may have moved against each other before the distance is taken anew.
const TOLERANCE_MS: i64 = 1000;

/// The distance between the clocks as it was taken last.
#[derive(Debug, Default)]
pub(crate) struct Offset(Mutex<Option<i64>>);

/// The present, and a way to turn monotone times into wall times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// Monotone.
    pub(crate) now: Nanos,
    /// Milliseconds since the epoch.
    pub(crate) wall_ms: EventTime,
    offset_ms: i64,
}

fn ms(at: Nanos) -> i64 {
    // Fits: 2^64 ns are 2^44 ms.
    (at.0 / 1_000_000) as i64
}

impl Offset {
    /// Reads both clocks.
    pub(crate) fn times(&self, jobs: &dyn Jobs) -> Times {
        let (now, wall_ms) = (jobs.now(), jobs.wall_ms());
        let measured = wall_ms.saturating_sub(ms(now));
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let offset_ms = match *kept {
            Some(kept) if kept.abs_diff(measured) <= TOLERANCE_MS.unsigned_abs() => kept,
            _ => measured,
        };
        *kept = Some(offset_ms);
        Times {
            now,
            wall_ms,
            offset_ms,
        }
    }
}

impl Times {
    /// A monotone time in milliseconds since the epoch.
    pub(crate) fn at(&self, at: Nanos) -> EventTime {
        ms(at).saturating_add(self.offset_ms)
    }
}

/// A duration in whole milliseconds, as Flink counts.
pub(crate) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
