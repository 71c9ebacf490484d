//! Interrupts steps that last long. A task behind slow user code looks up after the record at hand instead of at
//! the end of its pass: that is when it flushes, fires timers and notices timeouts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::Thread;
use std::time::Duration;

use crate::clock::Clock;
use crate::signal::TaskSignal;

/// How long a step may last before it is interrupted, and how often it is looked at.
pub const TICK: Duration = Duration::from_millis(5);

/// After so many ticks without a running step the thread sleeps until one begins.
const IDLE_TICKS: u32 = 20;

/// The ticker of one process.
pub struct Ticker {
    clock: Arc<dyn Clock>,
    tasks: Mutex<Vec<Weak<TaskSignal>>>,
    asleep: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Ticker {
    /// Starts the ticker's thread. It ends when the ticker is dropped by everybody else.
    ///
    /// # Errors
    /// When no thread can be made.
    pub fn start(clock: Arc<dyn Clock>) -> std::io::Result<Arc<Self>> {
        let ticker = Arc::new(Self {
            clock,
            tasks: Mutex::default(),
            asleep: AtomicBool::new(false),
            thread: Mutex::default(),
        });
        let weak = Arc::downgrade(&ticker);
        let handle = std::thread::Builder::new()
            .name("tidegate-ticker".into())
            .spawn(move || run(&weak))?;
        *ticker.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle.thread().clone());
        Ok(ticker)
    }

    /// Watches a task from now on.
    pub fn watch(&self, signal: &Arc<TaskSignal>) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|t| t.strong_count() > 0);
        tasks.push(Arc::downgrade(signal));
        drop(tasks);
        self.wake();
    }

    /// A step begins: the ticker must be awake. One relaxed load in the usual case.
    #[inline]
    pub fn wake(&self) {
        if self.asleep.load(Ordering::Relaxed)
            && self.asleep.swap(false, Ordering::AcqRel)
            && let Some(thread) = &*self.thread.lock().unwrap_or_else(PoisonError::into_inner)
        {
            thread.unpark();
        }
    }

    /// Interrupts what lasts too long. Says whether any step is running.
    fn tick(&self) -> bool {
        let now = self.clock.now();
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = false;
        for signal in tasks.iter().filter_map(Weak::upgrade) {
            let deadline = signal.deadline();
            if deadline != tidegate_types::Nanos::NEVER {
                running = true;
                if deadline <= now {
                    signal.interrupt();
                }
            }
        }
        running
    }
}

fn run(ticker: &Weak<Ticker>) {
    let mut idle = 0;
    loop {
        let Some(alive) = ticker.upgrade() else { return };
        idle = if alive.tick() { 0 } else { idle + 1 };
        let sleeps = idle >= IDLE_TICKS;
        if sleeps {
            alive.asleep.store(true, Ordering::Release);
            // A step that began just before the flag was up didn't wake us.
            if alive.tick() {
                alive.asleep.store(false, Ordering::Release);
                idle = 0;
            }
        }
        let asleep = alive.asleep.load(Ordering::Acquire);
        drop(alive);
        // The long sleep is bounded so that the thread notices the ticker's end.
        std::thread::park_timeout(if asleep { Duration::from_secs(1) } else { TICK });
    }
}
