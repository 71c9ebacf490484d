//! Operators by themselves, driven by hand with a clock that stands still.

mod flat_map;
mod floors;
mod runs;
mod timestamps;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_types::{EventTime, Generation, MaxParallelism, Nanos, OperatorUid, Parallelism, SubtaskIndex};

use crate::chain::{OpenContext, OperatorDefaults};
use crate::clock::Clock;
use crate::signal::TaskSignal;

/// Milliseconds that move only when told.
#[derive(Default)]
struct Hands(AtomicU64);

impl Hands {
    fn set(&self, ms: u64) {
        self.0.store(ms, Ordering::Relaxed);
    }
}

impl Clock for Hands {
    fn now(&self) -> Nanos {
        Nanos(self.0.load(Ordering::Relaxed) * 1_000_000)
    }

    fn wall_ms(&self) -> EventTime {
        self.0.load(Ordering::Relaxed) as EventTime
    }
}

/// Of an operator `under-test` with one subtask.
pub(crate) fn open_context(defaults: OperatorDefaults) -> OpenContext {
    OpenContext {
        uid: OperatorUid::new("under-test".to_owned()),
        name: "under test".into(),
        subtask: SubtaskIndex(0),
        parallelism: Parallelism(1),
        max_parallelism: MaxParallelism(128),
        old_parallelism: None,
        restored: Vec::new(),
        watermark_floors: Vec::new(),
        generation: Generation(0),
        wall_ms: 0,
        signal: Arc::new(TaskSignal::new()),
        defaults,
    }
}
