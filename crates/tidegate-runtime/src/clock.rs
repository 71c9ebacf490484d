//! The clock that drivers hand in. Nothing else in the engine asks the system for the time.
//!
//! Owns the trait and the system implementation. The simulator has its own, which moves only when told.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tidegate_types::{EventTime, Nanos};

/// Where drivers, tasks and the job master take the time from.
pub trait Clock: Send + Sync + 'static {
    /// The monotone time.
    fn now(&self) -> Nanos;

    /// Milliseconds since the Unix epoch: what processing-time timers, TTLs and file names use.
    fn wall_ms(&self) -> EventTime;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A monotone clock that starts at zero now.
    // The one place where the engine reads the system's clocks.
    #[allow(clippy::disallowed_methods)]
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    #[allow(clippy::disallowed_methods)]
    fn wall_ms(&self) -> EventTime {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
    }
}
