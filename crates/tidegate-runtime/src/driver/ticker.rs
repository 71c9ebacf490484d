//! Interrupts steps that last long. A task behind slow user code looks up after the record at hand instead of at
//! the end of its pass: that is when it flushes, fires timers and notices timeouts.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::Thread;
use std::time::Duration;

use tidegate_types::Nanos;

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

    /// A step begins, to be interrupted at `deadline` at the latest: the ticker must be awake.
    #[inline]
    pub fn begin_step(&self, signal: &TaskSignal, deadline: Nanos) {
        let asleep = say_then_look(
            || signal.set_deadline(deadline),
            || self.asleep.load(Ordering::Relaxed),
        );
        if asleep {
            self.wake();
        }
    }

    fn wake(&self) {
        if self.asleep.swap(false, Ordering::AcqRel)
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
            if deadline != Nanos::NEVER {
                running = true;
                if deadline <= now {
                    signal.interrupt();
                }
            }
        }
        running
    }
}

/// Says something, and looks whether the other side has said something; it does the same. At least one of the two sees
/// the other's word: without the fence each store may still be on its way when the other side loads, and a step would
/// begin unwatched while the ticker lies down.
#[inline]
fn say_then_look<R>(say: impl FnOnce(), look: impl FnOnce() -> R) -> R {
    say();
    fence(Ordering::SeqCst);
    look()
}

fn run(ticker: &Weak<Ticker>) {
    let mut idle = 0;
    loop {
        let Some(alive) = ticker.upgrade() else { return };
        idle = if alive.tick() { 0 } else { idle + 1 };
        let sleeps = idle >= IDLE_TICKS;
        if sleeps {
            // A step that began just before the flag was up didn't wake us.
            let running = say_then_look(|| alive.asleep.store(true, Ordering::Release), || alive.tick());
            if running {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    const ROUNDS: u64 = 1_000_000;

    /// Says the numbers from 1 up in `mine` and notes what it saw in `theirs` after each.
    fn converse(mine: &AtomicU64, theirs: &AtomicU64) -> Vec<u64> {
        let say = |n| {
            say_then_look(
                || mine.store(n, Ordering::Relaxed),
                || theirs.load(Ordering::Relaxed),
            )
        };
        (1..=ROUNDS).map(say).collect()
    }

    /// Both sides run free, so their rounds meet in every order that the machine has. If one side, after its `n`, saw
    /// no more than `m`, then the other's `m + 1` came after that look, and its own look must see `n`.
    #[test]
    fn of_two_sides_that_say_and_look_one_sees_the_other() {
        let (one, other) = (AtomicU64::new(0), AtomicU64::new(0));
        let (saw, other_saw) = std::thread::scope(|s| {
            let there = s.spawn(|| converse(&other, &one));
            let here = converse(&one, &other);
            (here, there.join().expect("it only counts"))
        });
        for (n, m) in (1..).zip(&saw) {
            if let Some(seen) = other_saw.get(*m as usize) {
                assert!(*seen >= n, "{n} saw {m}, and {} saw {seen}", m + 1);
            }
        }
    }
}
