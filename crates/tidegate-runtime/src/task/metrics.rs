//! Counters of one task that others read while it runs.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

use tidegate_types::time::MIN_WATERMARK;
use tidegate_types::{EventTime, Nanos};

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
    const ALL: [Self; 6] = [
        Self::Initializing,
        Self::Running,
        Self::Ended,
        Self::Finished,
        Self::Failed,
        Self::Canceled,
    ];
}

/// Counters of one task. Times are in nanoseconds.
#[derive(Debug)]
pub struct TaskMetrics {
    /// Records taken from gates, or read by the source.
    pub records_in: AtomicU64,
    /// Records handed on over the edges behind the chain; one that goes over two edges counts twice.
    pub records_out: AtomicU64,
    /// Records that were skipped, over all operators of the chain: user code failed on them and they went to a side
    /// output, or the source's reader could make nothing of them.
    pub records_skipped: AtomicU64,
    /// Time spent in passes.
    pub busy_ns: AtomicU64,
    /// Time without anything to do.
    pub idle_ns: AtomicU64,
    /// Time without room in the outputs.
    pub backpressured_ns: AtomicU64,
    /// The watermark at the head of the chain.
    pub watermark: AtomicI64,
    /// Records queued in the gates.
    pub queued: AtomicU64,
    /// Records the gates may hold.
    pub capacity: AtomicU64,
    /// The wait that is under way: when it began, shifted left, and in the lowest bit what for. 0 if there is none.
    waiting: AtomicU64,
    status: AtomicU8,
}

/// What a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Something to do.
    Idle,
    /// Room in its outputs.
    Backpressured,
}

/// A task's counters at one moment, with the wait that is under way counted in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskTotals {
    /// Records taken from gates.
    pub records_in: u64,
    /// Records emitted.
    pub records_out: u64,
    /// Records that were skipped.
    pub records_skipped: u64,
    /// Nanoseconds spent in passes.
    pub busy_ns: u64,
    /// Nanoseconds without anything to do.
    pub idle_ns: u64,
    /// Nanoseconds without room in the outputs.
    pub backpressured_ns: u64,
}

/// How often a reader tries again when the task goes on while it reads.
const READ_AGAIN: usize = 8;

impl Default for TaskMetrics {
    /// The counters of a task that has done nothing.
    fn default() -> Self {
        Self {
            records_in: AtomicU64::new(0),
            records_out: AtomicU64::new(0),
            records_skipped: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
            idle_ns: AtomicU64::new(0),
            backpressured_ns: AtomicU64::new(0),
            watermark: AtomicI64::new(MIN_WATERMARK),
            queued: AtomicU64::new(0),
            capacity: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            status: AtomicU8::new(0),
        }
    }
}

impl TaskMetrics {
    /// Adds to a counter that only the task writes: no read-modify-write needed.
    pub(crate) fn add(counter: &AtomicU64, by: u64) {
        counter.store(
            counter.load(Ordering::Relaxed).wrapping_add(by),
            Ordering::Relaxed,
        );
    }

    /// Takes note of records queued in the gates, and of how many they may hold.
    pub(crate) fn note_fill(&self, (queued, capacity): (u64, u64)) {
        self.queued.store(queued, Ordering::Relaxed);
        self.capacity.store(capacity, Ordering::Relaxed);
    }

    /// Takes note of records emitted in all, and of the watermark.
    pub(crate) fn note_progress(&self, emitted: u64, watermark: EventTime) {
        self.records_out.store(emitted, Ordering::Relaxed);
        self.watermark.store(watermark, Ordering::Relaxed);
    }

    /// The watermark at the head of the chain; below every time before the first one.
    pub fn watermark(&self) -> EventTime {
        self.watermark.load(Ordering::Relaxed)
    }

    /// Records queued in the gates, and how many they may hold.
    pub fn fill(&self) -> (u64, u64) {
        (
            self.queued.load(Ordering::Relaxed),
            self.capacity.load(Ordering::Relaxed),
        )
    }

    /// The task begins to wait.
    pub fn begin_wait(&self, wait: Wait, now: Nanos) {
        // The highest bit is lost: the clock would have to run for 292 years first.
        let kind = u64::from(wait == Wait::Backpressured);
        self.waiting.store(now.0 << 1 | kind, Ordering::Release);
    }

    /// The wait is over: it is added to the counter it belongs to.
    pub fn end_wait(&self, now: Nanos) {
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting != 0 {
            let (counter, since) = self.wait_of(waiting);
            Self::add(counter, now.0.saturating_sub(since));
            self.waiting.store(0, Ordering::Release);
        }
    }

    fn wait_of(&self, waiting: u64) -> (&AtomicU64, u64) {
        let counter = if waiting & 1 == 0 {
            &self.idle_ns
        } else {
            &self.backpressured_ns
        };
        (counter, waiting >> 1)
    }

    /// All counters at a time. A wait that is under way counts, so a task that is stuck shows as such while it is.
    pub fn totals(&self, now: Nanos) -> TaskTotals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        let mut totals = TaskTotals::default();
        for _ in 0..READ_AGAIN {
            let waiting = read(&self.waiting);
            totals = TaskTotals {
                records_in: read(&self.records_in),
                records_out: read(&self.records_out),
                records_skipped: read(&self.records_skipped),
                busy_ns: read(&self.busy_ns),
                idle_ns: read(&self.idle_ns),
                backpressured_ns: read(&self.backpressured_ns),
            };
            if read(&self.waiting) != waiting {
                // It woke up or lay down meanwhile: the wait could count twice, or not at all.
                continue;
            }
            if waiting != 0 {
                let elapsed = now.0.saturating_sub(waiting >> 1);
                let of = if waiting & 1 == 0 {
                    &mut totals.idle_ns
                } else {
                    &mut totals.backpressured_ns
                };
                *of = of.saturating_add(elapsed);
            }
            break;
        }
        totals
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_while_it_lasts_and_once_when_it_ends() {
        let metrics = TaskMetrics::default();
        metrics.begin_wait(Wait::Backpressured, Nanos(100));
        assert_eq!(metrics.totals(Nanos(150)).backpressured_ns, 50);
        metrics.end_wait(Nanos(180));
        assert_eq!(metrics.totals(Nanos(500)).backpressured_ns, 80);
        metrics.begin_wait(Wait::Idle, Nanos(600));
        metrics.end_wait(Nanos(610));
        metrics.end_wait(Nanos(700));
        let totals = metrics.totals(Nanos(900));
        assert_eq!((totals.idle_ns, totals.backpressured_ns), (10, 80));
    }
}
