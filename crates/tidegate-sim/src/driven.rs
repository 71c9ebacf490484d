//! One task with its driver's bookkeeping: what the loop of a thread does in production, a step at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_protocol::message::ToTask;
use tidegate_runtime::clock::Clock;
use tidegate_runtime::driver::threads::panic_text;
use tidegate_runtime::driver::ticker::TICK;
use tidegate_runtime::graph::Deployed;
use tidegate_runtime::signal::TaskSignal;
use tidegate_runtime::task::{Mail, Mailbox, Step, Task, TaskMetrics};
use tidegate_types::{AttemptNumber, LeaderEpoch, Nanos, SubtaskId};

use crate::checks;
use crate::checks::memory::QueueCheck;
use crate::checks::watermarks::WatermarkCheck;
use crate::faults::INJECTED_PANIC;
use crate::process::Shared;
use crate::wire::Lane;

/// Where a task's driver is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not opened yet.
    New,
    /// The last step said that there is more to do.
    Busy,
    /// Sleeps until it is notified, or until then.
    Asleep(Nanos),
    /// In user code that doesn't come back before.
    Hangs(Nanos),
    /// Gone.
    Over,
}

type Open = Box<dyn FnOnce(&mut Task) + Send>;

/// A task and who drives it.
pub struct Driven {
    id: SubtaskId,
    attempt: AttemptNumber,
    task: Option<Task>,
    open: Option<Open>,
    mailbox: Arc<Mailbox>,
    signal: Arc<TaskSignal>,
    metrics: Arc<TaskMetrics>,
    revoke: Box<dyn Fn() + Send + Sync>,
    phase: Phase,
    abandoned: bool,
    /// The most records that stood in its gates at once.
    fullest: u64,
    queues: QueueCheck,
    head: WatermarkCheck<()>,
}

impl Driven {
    /// A task that isn't opened yet.
    pub fn new(deployed: Deployed, attempt: AttemptNumber) -> Self {
        let Deployed {
            task,
            open,
            mailbox,
            signal,
            metrics,
            revoke,
        } = deployed;
        Self {
            id: task.id(),
            attempt,
            task: Some(task),
            open: Some(open),
            mailbox,
            signal,
            metrics,
            revoke,
            phase: Phase::New,
            abandoned: false,
            fullest: 0,
            queues: QueueCheck::default(),
            head: WatermarkCheck::default(),
        }
    }

    /// Who it is.
    pub fn id(&self) -> SubtaskId {
        self.id
    }

    /// Where its messages stand in line.
    pub fn lane(&self) -> Lane {
        (self.attempt, self.id)
    }

    /// Its name in the trace.
    pub fn label(&self) -> String {
        format!("{} a{}", self.id, self.attempt)
    }

    /// Where its driver is.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Its counters.
    pub fn metrics(&self) -> &TaskMetrics {
        &self.metrics
    }

    /// The most records that stood in its gates at once.
    pub fn fullest(&self) -> u64 {
        self.fullest
    }

    /// The task, while it is there.
    pub fn task(&self) -> Option<&Task> {
        self.task.as_ref()
    }

    /// Whether its master still waits for it.
    pub fn is_alive(&self) -> bool {
        !self.abandoned && self.phase != Phase::Over
    }

    /// Whether it was given up and still runs.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned && self.phase != Phase::Over
    }

    /// Gives it up: its gates are out of service. False if it is gone anyway.
    pub fn abandon(&mut self) -> bool {
        if !self.is_alive() {
            return false;
        }
        (self.revoke)();
        self.abandoned = true;
        true
    }

    /// It doesn't come back before this time.
    pub fn hang(&mut self, until: Nanos) {
        self.phase = Phase::Hangs(until);
    }

    /// Whether a driver would step it now.
    pub fn is_runnable(&mut self, now: Nanos) -> bool {
        match self.phase {
            Phase::New | Phase::Busy => true,
            Phase::Asleep(until) => {
                if self.signal.take_notified() {
                    self.phase = Phase::Busy;
                }
                until <= now || self.phase == Phase::Busy
            }
            Phase::Hangs(until) => until <= now,
            Phase::Over => false,
        }
    }

    /// When it wakes by itself.
    pub fn wakes_at(&self) -> Option<Nanos> {
        match self.phase {
            Phase::Asleep(until) | Phase::Hangs(until) => Some(until),
            Phase::New | Phase::Busy | Phase::Over => None,
        }
    }

    /// Puts a message into its mailbox.
    pub fn send(&self, from: LeaderEpoch, message: ToTask) {
        self.mailbox.send(Mail::Master(from, message));
    }

    /// Opens it, or steps it once.
    pub fn step(&mut self, fuel: usize, shared: &Shared) {
        let Some(task) = &mut self.task else { return };
        self.signal.take_notified();
        self.signal.set_deadline(shared.clock.now() + TICK);
        shared.clock.begin_step(&self.signal);
        let stepped = match self.open.take() {
            Some(open) => catch_unwind(AssertUnwindSafe(|| {
                open(task);
                Step::Busy
            })),
            None => catch_unwind(AssertUnwindSafe(|| task.step(fuel))),
        };
        let step = stepped.unwrap_or_else(|panic| {
            let text = panic_text(&*panic);
            if text != INJECTED_PANIC {
                shared
                    .violations
                    .note(format!("task {} panicked: {text}", self.id));
            }
            task.fail(&format!("task `{}` panicked: {text}", task.name()), true);
            Step::Failed
        });
        shared.clock.end_step();
        self.signal.set_deadline(Nanos::NEVER);
        shared.note(&format!("{} {step:?} after {fuel}", self.label()));
        self.phase = match step {
            Step::Busy => Phase::Busy,
            Step::Idle(until) | Step::Backpressured(until) => Phase::Asleep(until),
            Step::Finished | Step::Failed => Phase::Over,
        };
        self.after_step(step, shared);
    }

    /// Looks at what the step left.
    fn watch(&mut self, shared: &Shared) {
        let (queued, capacity) = self.metrics.fill();
        self.fullest = self.fullest.max(queued);
        let burst = shared.burst.load(Ordering::Relaxed);
        let channels = self.task.as_ref().map_or(0, |t| t.body().kinds().len() as u64);
        let crowded = (burst != u64::MAX)
            .then(|| self.queues.saw(queued, capacity, channels, burst))
            .flatten();
        let fell = self.head.saw((), self.metrics.watermark());
        for problem in crowded.into_iter().chain(fell) {
            shared.violations.note(format!("task {}: {problem}", self.id));
        }
    }

    fn after_step(&mut self, step: Step, shared: &Shared) {
        self.watch(shared);
        if self.phase != Phase::Over {
            return;
        }
        if let Some(mut task) = self.task.take() {
            if step == Step::Finished
                && let Some(problem) = checks::blocked::left_blocked(&task, self.metrics.status())
            {
                shared.violations.note(problem);
            }
            let closed = catch_unwind(AssertUnwindSafe(|| task.close()));
            if closed.is_err() {
                shared
                    .violations
                    .note(format!("task {} panicked when it was closed", self.id));
            }
        }
    }
}
