//! The two kinds of time: a monotone clock handed in by the driver, and event time carried by records.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch as records and watermarks carry them.
pub type EventTime = i64;

/// Below every event time: what a channel's watermark is before its first.
pub const MIN_WATERMARK: EventTime = i64::MIN;

/// Above every event time: sent when a source has ended and everything pending must fire.
pub const MAX_WATERMARK: EventTime = i64::MAX;

/// A point on the driver's monotone clock, in nanoseconds since an origin of the driver's choice.
///
/// Nothing below the drivers reads a clock: a machine is told `now`. Differences mean something, absolute
/// values and values of another process don't.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// A point that is never reached.
    pub const NEVER: Self = Self(u64::MAX);

    /// How much later this is than `earlier`; zero if it isn't.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Nanos {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}ms", self.0 as f64 / 1e6)
    }
}
