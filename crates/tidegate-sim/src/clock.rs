//! The virtual clock: it moves when the scheduler says so, and when user code says that it takes its time.
//!
//! Owns monotone and wall time of the whole simulated world, and the part of the production ticker that matters: a
//! step that lasts longer than its task asked for is interrupted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_runtime::clock::Clock;
use tidegate_runtime::signal::TaskSignal;
use tidegate_types::{EventTime, Nanos};

/// What the wall clock shows at the beginning of the world.
const WALL_ORIGIN_MS: EventTime = 1_800_000_000_000;

/// Time in the simulated world.
#[derive(Debug, Default)]
pub struct SimClock {
    nanos: AtomicU64,
    running: Mutex<Option<Arc<TaskSignal>>>,
}

impl SimClock {
    /// A clock at zero.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Lets time pass between two steps.
    pub fn advance(&self, by: Duration) {
        self.advance_to(self.now() + by);
    }

    /// Lets time pass up to a moment; nothing if that has passed.
    pub fn advance_to(&self, to: Nanos) {
        assert_ne!(to, Nanos::NEVER, "time never comes to its end");
        self.nanos.fetch_max(to.0, Ordering::Relaxed);
    }

    /// User code takes so long. If the task that runs wanted to be interrupted by now it is.
    pub fn spend(&self, time: Duration) {
        self.advance(time);
        if let Some(signal) = &*self.running()
            && signal.deadline() <= self.now()
        {
            signal.interrupt();
        }
    }

    /// A task's step begins.
    pub fn begin_step(&self, signal: &Arc<TaskSignal>) {
        *self.running() = Some(signal.clone());
    }

    /// The step has ended.
    pub fn end_step(&self) {
        *self.running() = None;
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<Arc<TaskSignal>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SimClock {
    fn now(&self) -> Nanos {
        Nanos(self.nanos.load(Ordering::Relaxed))
    }

    fn wall_ms(&self) -> EventTime {
        WALL_ORIGIN_MS + (self.now().0 / 1_000_000) as EventTime
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_lasts_too_long_is_interrupted() {
        let clock = SimClock::new();
        let signal = Arc::new(TaskSignal::new());
        signal.set_deadline(clock.now() + Duration::from_millis(5));
        clock.begin_step(&signal);
        clock.spend(Duration::from_millis(4));
        assert!(!signal.is_urgent());
        clock.spend(Duration::from_millis(1));
        assert!(signal.is_urgent());
        clock.end_step();
        signal.clear_urgent();
        clock.spend(Duration::from_millis(9));
        assert!(!signal.is_urgent());
    }
}
