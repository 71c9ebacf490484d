//! Counters of one task that others read while it runs.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tidegate_types::EventTime;

/// What a task is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    /// Not yet running: state is being restored.
    Initializing,
    /// Processes records.
    Running,
    /// Its inputs have ended; it may wait for a last checkpoint.
    Ended,
    /// Gone, well.
    Finished,
    /// Gone, with an error.
    Failed,
    /// Gone, because the attempt was given up.
    Canceled,
}

impl TaskStatus {
    const ALL: [Self; 6] =
        [Self::Initializing, Self::Running, Self::Ended, Self::Finished, Self::Failed, Self::Canceled];
}

/// Counters of one task. Times are in nanoseconds.
#[derive(Debug, Default)]
pub struct TaskMetrics {
    /// Records taken from gates.
    pub records_in: AtomicU64,
    /// Records that the source emitted, or that passed the head of the chain.
    pub records_out: AtomicU64,
    /// Time spent in passes.
    pub busy_ns: AtomicU64,
    /// Time without anything to do.
    pub idle_ns: AtomicU64,
    /// Time without room in the outputs.
    pub backpressured_ns: AtomicU64,
    /// The watermark at the head.
    pub watermark: AtomicU64,
    /// Records queued in the gates.
    pub queued: AtomicU64,
    /// Records the gates may hold.
    pub capacity: AtomicU64,
    status: AtomicU8,
}

impl TaskMetrics {
    /// Adds to a counter that only the task writes: no read-modify-write needed.
    pub(crate) fn add(counter: &AtomicU64, by: u64) {
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    /// Records the watermark.
    pub(crate) fn set_watermark(&self, w: EventTime) {
        self.watermark.store(w.cast_unsigned(), Ordering::Relaxed);
    }

    /// What the task is doing.
    pub fn status(&self) -> TaskStatus {
        TaskStatus::ALL[self.status.load(Ordering::Acquire) as usize]
    }

    /// Says what the task is doing now.
    pub fn set_status(&self, status: TaskStatus) {
        let at = TaskStatus::ALL.iter().position(|s| *s == status).unwrap_or(0);
        self.status.store(at as u8, Ordering::Release);
    }
}
