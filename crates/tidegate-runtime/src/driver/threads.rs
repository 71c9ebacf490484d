//! One OS thread per task.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_types::Nanos;

use crate::clock::Clock;
use crate::graph::Deployed;
use crate::signal::TaskSignal;
use crate::task::{Step, Task, TaskMetrics, Wait};

use super::ticker::{TICK, Ticker};

/// Records of one step at most: how long a task goes without a look at its mail if nothing is urgent.
const STEP_RECORDS: usize = 4096;

/// Runs a task on a thread of its own until it is over. `done` is called last, whatever happened.
///
/// # Errors
/// When no thread can be made.
pub fn spawn(
    deployed: Deployed,
    clock: Arc<dyn Clock>,
    ticker: Arc<Ticker>,
    done: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let Deployed {
        mut task,
        open,
        signal,
        metrics,
        ..
    } = deployed;
    let name = format!("{} #{}", task.name(), task.id().index.0);
    std::thread::Builder::new()
        .name(thread_name(&name))
        .spawn(move || {
            let thread = std::thread::current();
            signal.install(move || thread.unpark());
            ticker.watch(&signal);
            guarded(&mut task, |task| {
                open(task);
                Step::Busy
            });
            drive(&mut task, &signal, &*clock, &ticker, &metrics);
            signal.set_deadline(Nanos::NEVER);
            let _panicked = catch_unwind(AssertUnwindSafe(|| task.close()));
            drop(task);
            done();
        })
}

fn drive(task: &mut Task, signal: &TaskSignal, clock: &dyn Clock, ticker: &Ticker, metrics: &TaskMetrics) {
    loop {
        // Before the step: what is notified while it runs is noticed by the next.
        signal.take_notified();
        ticker.begin_step(signal, clock.now() + TICK);
        let step = guarded(task, |task| task.step(STEP_RECORDS));
        let (until, wait) = match step {
            Step::Busy => continue,
            Step::Finished | Step::Failed => return,
            Step::Idle(until) => (until, Wait::Idle),
            Step::Backpressured(until) => (until, Wait::Backpressured),
        };
        signal.set_deadline(Nanos::NEVER);
        let from = clock.now();
        if until > from && signal.prepare_park() {
            metrics.begin_wait(wait, from);
            if until == Nanos::NEVER {
                std::thread::park();
            } else {
                std::thread::park_timeout(until.since(from).max(Duration::from_micros(50)));
            }
            metrics.end_wait(clock.now());
        }
    }
}

/// User code that panics fails its task only.
fn guarded(task: &mut Task, f: impl FnOnce(&mut Task) -> Step) -> Step {
    match catch_unwind(AssertUnwindSafe(|| f(task))) {
        Ok(step) => step,
        Err(panic) => {
            let text = format!("task `{}` panicked: {}", task.name(), panic_text(&*panic));
            task.fail(&text, true);
            Step::Failed
        }
    }
}

/// What a panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "(no message)".to_owned()
    }
}

/// Linux keeps 15 bytes of a thread's name, and NUL bytes aren't allowed at all.
fn thread_name(name: &str) -> String {
    name.replace('\0', "").chars().take(15).collect()
}
