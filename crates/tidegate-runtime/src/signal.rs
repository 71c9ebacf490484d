//! How a task is woken and interrupted: one small object per task that everybody who has something for it holds.
//!
//! Owns the `urgent` flag that operators read before each record, and the parking protocol between a task and
//! whoever drives it. Does not own threads: a driver installs how to unpark, the simulator just looks at
//! [`TaskSignal::take_notified`].

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use tidegate_types::Nanos;

const RUNNING: u8 = 0;
const NOTIFIED: u8 = 1;
const PARKED: u8 = 2;

/// Wakes and interrupts one task.
#[derive(Default)]
pub struct TaskSignal {
    urgent: AtomicBool,
    state: AtomicU8,
    deadline: AtomicU64,
    unpark: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl std::fmt::Debug for TaskSignal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskSignal")
            .field("urgent", &self.urgent)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl TaskSignal {
    /// A signal for a task that isn't driven yet.
    pub fn new() -> Self {
        Self {
            deadline: AtomicU64::new(u64::MAX),
            ..Self::default()
        }
    }

    /// Says how the task's driver is woken while the task is parked. Only the first call counts.
    pub fn install(&self, unpark: impl Fn() + Send + Sync + 'static) {
        let _first = self.unpark.set(Box::new(unpark));
    }

    /// There may be something to do: runs the task again if it sleeps.
    #[inline]
    pub fn wake(&self) {
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == PARKED
            && let Some(unpark) = self.unpark.get()
        {
            unpark();
        }
    }

    /// There is something that can't wait for the end of a pass: the next record isn't begun.
    pub fn interrupt(&self) {
        self.urgent.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether the task should stop before the next record. One relaxed load.
    #[inline(always)]
    pub fn is_urgent(&self) -> bool {
        self.urgent.load(Ordering::Relaxed)
    }

    /// Takes the urgent flag down; whoever raises it later is noticed again.
    pub fn clear_urgent(&self) {
        // Acquire: what was published before the flag was raised is visible to whoever takes it down.
        self.urgent.swap(false, Ordering::AcqRel);
    }

    /// When the running task wants to be interrupted at the latest (a flush, a timer).
    pub fn set_deadline(&self, at: Nanos) {
        self.deadline.store(at.0, Ordering::Relaxed);
    }

    /// What [`set_deadline`](Self::set_deadline) said last.
    pub fn deadline(&self) -> Nanos {
        Nanos(self.deadline.load(Ordering::Relaxed))
    }

    /// Whether the task was notified since the last call; it counts as running from here on.
    pub fn take_notified(&self) -> bool {
        self.state.swap(RUNNING, Ordering::AcqRel) == NOTIFIED
    }

    /// The driver is about to sleep. False if a notification came in between: then it must not.
    pub fn prepare_park(&self) -> bool {
        self.state
            .compare_exchange(RUNNING, PARKED, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}
