//! The task's step: what it does between two looks at the world.
//!
//! # Driving it
//! A driver calls [`Task::open`] once and then [`Task::step`] again and again. `Busy`: call again at once. `Idle`
//! and `Backpressured`: sleep until the signal is notified or the time has come. `Finished` and `Failed`: call
//! [`Task::close`] and drop it. A step never blocks, except in user code.

mod ending;
mod events;
mod mail;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tidegate_protocol::barrier::{BarrierEvent, BarrierHandler};
use tidegate_protocol::message::{FromTask, HeldSplits};
use tidegate_protocol::subtask::SubtaskSnapshots;
use tidegate_types::snapshot::SubtaskSnapshot;
use tidegate_types::{CheckpointId, CheckpointKind, Generation, Nanos, OperatorUid, SubtaskId};

use crate::chain::{Control, Flow, OpenContext, OperatorDefaults, Pass};
use crate::clock::Clock;
use crate::error::{OpError, chain_of};
use crate::signal::TaskSignal;

use super::body::{Body, BodyTaken};
use super::cut::{CutWait, OpenSnapshot, PendingCut};
use super::io::{Outbox, SnapshotIo};
use super::mailbox::{Mail, Mailbox};
use super::metrics::{TaskMetrics, TaskStatus};

/// How often a task that waits for a last checkpoint says so again: the answer is a hint.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Ordinary mails that one step reads at most.
const MAILS_PER_STEP: usize = 64;

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There is more to do.
    Busy,
    /// Nothing to do before a notification or this time.
    Idle(Nanos),
    /// The outputs are full; nothing to do before a notification or this time.
    Backpressured(Nanos),
    /// The task is done.
    Finished,
    /// The task has failed, and said so.
    Failed,
}

/// Limits and switches of a task.
#[derive(Debug, Clone)]
pub struct TaskSettings {
    /// Whether a task whose inputs ended waits for a checkpoint that contains this.
    pub awaits_last_checkpoint: bool,
    /// How long a suspended record may run on into overdraft for a snapshot.
    pub max_overdraft: Duration,
    /// How many encoded bytes it may put out beyond a full output.
    pub max_overdraft_bytes: u64,
    /// How long the state is swept at once after a cut.
    pub first_sweep: Duration,
    /// What holds for operators where the program says nothing.
    pub defaults: OperatorDefaults,
}

impl Default for TaskSettings {
    fn default() -> Self {
        Self {
            awaits_last_checkpoint: true,
            max_overdraft: Duration::from_secs(1),
            max_overdraft_bytes: 64 << 20,
            first_sweep: Duration::from_micros(100),
            defaults: OperatorDefaults::default(),
        }
    }
}

/// What a task is made of.
pub struct TaskParts {
    /// Who it is.
    pub id: SubtaskId,
    /// Its display name.
    pub name: Arc<str>,
    /// Inputs and chain.
    pub body: Box<dyn Body>,
    /// Its mailbox.
    pub mailbox: Arc<Mailbox>,
    /// Its signal.
    pub signal: Arc<TaskSignal>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Where its messages go.
    pub outbox: Arc<dyn Outbox>,
    /// Who writes its snapshots.
    pub io: Arc<dyn SnapshotIo>,
    /// Limits and switches.
    pub settings: TaskSettings,
    /// Its counters.
    pub metrics: Arc<TaskMetrics>,
}

/// One subtask.
pub struct Task {
    pub(super) id: SubtaskId,
    name: Arc<str>,
    pub(super) body: Box<dyn Body>,
    mailbox: Arc<Mailbox>,
    pub(super) signal: Arc<TaskSignal>,
    pub(super) clock: Arc<dyn Clock>,
    outbox: Arc<dyn Outbox>,
    pub(super) io: Arc<dyn SnapshotIo>,
    pub(super) settings: TaskSettings,
    pub(super) metrics: Arc<TaskMetrics>,
    handler: BarrierHandler,
    snapshots: SubtaskSnapshots,
    pub(super) cuts: VecDeque<PendingCut>,
    pub(super) open: BTreeMap<CheckpointId, OpenSnapshot>,
    timeouts: Vec<(Nanos, CheckpointId)>,
    events: Vec<BarrierEvent>,
    held_mail: VecDeque<Mail>,
    paused: Option<CheckpointId>,
    /// Up to here no checkpoint makes it pause any more.
    let_go: CheckpointId,
    /// Records taken from the inputs, for what was processed while aligning.
    pub(super) records: u64,
    pub(super) last_cut: CheckpointId,
    newest_seen: CheckpointId,
    held_splits: Vec<HeldSplits>,
    ended: Option<Nanos>,
    /// The lowest checkpoint known to contain this subtask's end.
    first_finished: Option<CheckpointId>,
    final_sections: Option<SubtaskSnapshot>,
    may_finish: bool,
    over: Option<Step>,
}

impl Task {
    /// A task that isn't open yet.
    pub fn new(parts: TaskParts) -> Self {
        let handler = BarrierHandler::new(parts.body.kinds());
        Self {
            id: parts.id,
            name: parts.name,
            body: parts.body,
            mailbox: parts.mailbox,
            signal: parts.signal,
            clock: parts.clock,
            outbox: parts.outbox,
            io: parts.io,
            settings: parts.settings,
            metrics: parts.metrics,
            handler,
            snapshots: SubtaskSnapshots::new(),
            cuts: VecDeque::new(),
            open: BTreeMap::new(),
            timeouts: Vec::new(),
            events: Vec::new(),
            held_mail: VecDeque::new(),
            paused: None,
            let_go: CheckpointId(0),
            records: 0,
            last_cut: CheckpointId(0),
            newest_seen: CheckpointId(0),
            held_splits: Vec::new(),
            ended: None,
            first_finished: None,
            final_sections: None,
            may_finish: false,
            over: None,
        }
    }

    /// Who it is.
    pub fn id(&self) -> SubtaskId {
        self.id
    }

    /// Its display name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn mailbox(&self) -> Arc<Mailbox> {
        self.mailbox.clone()
    }

    pub(super) fn outbox(&self) -> Arc<dyn Outbox> {
        self.outbox.clone()
    }

    /// Its signal.
    pub fn signal(&self) -> &Arc<TaskSignal> {
        &self.signal
    }

    /// Its inputs, for whoever takes them out of service.
    pub fn body(&self) -> &dyn Body {
        &*self.body
    }

    /// Its barrier handler, for whoever watches it.
    pub fn barriers(&self) -> &BarrierHandler {
        &self.handler
    }

    /// Opens every operator of the chain with its context, head first, and says that the task runs. A failure is
    /// reported like one in a step.
    pub fn open(
        &mut self,
        context: &mut dyn FnMut(&OperatorUid) -> Result<OpenContext, OpError>,
        generation: Generation,
    ) {
        self.body.set_generation(generation);
        let opened = self.body.chain().visit(&mut |node| {
            let cx = context(&node.meta().uid)?;
            node.open(cx)
        });
        match opened {
            Ok(()) => {
                self.metrics.set_status(TaskStatus::Running);
                self.outbox.send(FromTask::Running);
            }
            Err(e) => self.fail(&chain_of(&e), e.retryable),
        }
    }

    /// Reports a failure that a driver caught (a panic of user code).
    pub fn fail(&mut self, error: &str, retryable: bool) {
        if self.over.is_none() {
            self.metrics.set_status(TaskStatus::Failed);
            self.outbox.send(FromTask::Failed {
                error: error.to_owned(),
                retryable,
            });
            self.over = Some(Step::Failed);
        }
    }

    /// Lets operators close what they hold.
    pub fn close(&mut self) {
        let closed = self.body.chain().visit(&mut |node| {
            node.close();
            Ok(())
        });
        debug_assert!(closed.is_ok(), "closing can't fail");
    }

    /// Does some work: at most about `budget` records.
    pub fn step(&mut self, budget: usize) -> Step {
        if let Some(over) = self.over {
            return over;
        }
        match self.try_step(budget) {
            Ok(step) => self.over.unwrap_or(step),
            Err(e) => {
                self.fail(&chain_of(&e), e.retryable);
                Step::Failed
            }
        }
    }

    fn try_step(&mut self, budget: usize) -> Result<Step, OpError> {
        let now = self.clock.now();
        self.signal.clear_urgent();
        self.read_mail(now)?;
        self.read_announcements(now)?;
        self.expire_timeouts(now)?;
        if self.over.is_some() {
            return Ok(Step::Busy);
        }
        if self.paused.is_none() {
            let wall = self.clock.wall_ms();
            self.body.chain().on_time(wall);
        }
        self.body.chain().control(Control::FlushDue, now);
        let cut_wait = self.advance_cuts(now)?;
        let sweeps = self.sweep_some()?;
        if self.over.is_some() {
            return Ok(Step::Busy);
        }
        let (flow, nothing_until) = self.pass(budget, cut_wait)?;
        self.after_pass(flow, nothing_until, (sweeps, cut_wait))
    }

    /// One pass of records. Says how it ended, and until when the inputs have nothing.
    fn pass(&mut self, budget: usize, cut_wait: CutWait) -> Result<(Flow, Option<Nanos>), OpError> {
        let signal = self.signal.clone();
        let clock = self.clock.clone();
        let limit = budget.min(self.body.pass_limit());
        let mut pass = Pass::new(&signal, &*clock, limit);
        let begun = pass.now();
        let before = self.records;
        let mut nothing_until = None;
        let had_rest = !self.body.chain_is_empty();
        let mut flow = self.body.chain().run(&mut pass)?;
        while flow == Flow::Done && cut_wait != CutWait::Chain && self.over.is_none() {
            self.body.give_back();
            if pass.must_yield() {
                flow = Flow::Yielded;
                break;
            }
            match self.take(&mut pass, cut_wait)? {
                BodyTaken::Nothing(until) => {
                    nothing_until = Some(until.unwrap_or(Nanos::NEVER));
                    break;
                }
                // Not the same as nothing: room may be there again before the step ends, and nobody says so.
                BodyTaken::Full => {
                    flow = Flow::Full;
                    break;
                }
                BodyTaken::Yield => {
                    flow = Flow::Yielded;
                    break;
                }
                BodyTaken::Element(records) => {
                    self.records += records;
                    flow = self.body.chain().run(&mut pass)?;
                }
                BodyTaken::Barrier(channel, barrier) => {
                    self.newest_seen = self.newest_seen.max(barrier.id);
                    self.on_barrier_event(pass.now(), BarrierEvent::Barrier(channel, barrier))?;
                    flow = Flow::Yielded;
                    break;
                }
                BodyTaken::End(channel) => {
                    flow = self.body.chain().run(&mut pass)?;
                    self.on_barrier_event(pass.now(), BarrierEvent::End(channel))?;
                    if !self.cuts.is_empty() {
                        break;
                    }
                }
            }
        }
        self.body.give_back();
        self.request_split();
        let records = self.records - before;
        TaskMetrics::add(&self.metrics.records_skipped, pass.skipped());
        let busy = clock.now().since(begun);
        if records > 0 || had_rest {
            // Records count when they are taken, and their time when it is spent, perhaps passes later.
            self.body.on_busy(busy, records);
            TaskMetrics::add(&self.metrics.records_in, records);
        }
        TaskMetrics::add(
            &self.metrics.busy_ns,
            u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX),
        );
        Ok((flow, nothing_until))
    }

    /// Takes from the inputs what may be taken. In front of a cut that waits for a lock these are records, which are
    /// inside then; the end stays behind the barrier.
    fn take(&mut self, pass: &mut Pass<'_>, cut_wait: CutWait) -> Result<BodyTaken, OpError> {
        let reads = cut_wait == CutWait::No || self.body.source().is_none_or(|s| s.is_reading());
        if reads {
            self.body.take(pass)
        } else {
            Ok(BodyTaken::Nothing(None))
        }
    }

    fn after_pass(
        &mut self,
        flow: Flow,
        nothing_until: Option<Nanos>,
        (sweeps, cut_wait): (bool, CutWait),
    ) -> Result<Step, OpError> {
        if self.ended.is_none() && self.cuts.is_empty() && self.body.has_ended() {
            self.on_ended();
        }
        if self.try_finish() {
            return Ok(Step::Finished);
        }
        self.metrics.note_fill(self.body.fill());
        let chain = self.body.chain();
        self.metrics.note_progress(chain.emitted(), chain.watermark());
        if self.signal.is_urgent() || sweeps {
            return Ok(Step::Busy);
        }
        match (flow, nothing_until) {
            (Flow::Full, _) => {
                if self.body.chain().wait_for_room() {
                    return Ok(Step::Backpressured(self.next_deadline(Nanos::NEVER)));
                }
                Ok(Step::Busy)
            }
            (_, Some(until)) if self.cuts.is_empty() || cut_wait == CutWait::Lock => {
                if !self.body.chain_is_empty() {
                    if self.body.chain().wait_for_room() {
                        return Ok(Step::Backpressured(self.next_deadline(Nanos::NEVER)));
                    }
                    return Ok(Step::Busy);
                }
                let now = self.clock.now();
                self.body.chain().control(Control::Flush, now);
                Ok(Step::Idle(self.next_deadline(until)))
            }
            _ => Ok(Step::Busy),
        }
    }

    /// The next moment at which a sleeping task has to look.
    fn next_deadline(&mut self, until: Nanos) -> Nanos {
        let now = self.clock.now();
        let wall = self.clock.wall_ms();
        let (flush, timer) = self.body.chain().deadlines();
        let timer = timer
            .filter(|_| self.paused.is_none())
            .map(|t| now + Duration::from_millis(u64::try_from(t.saturating_sub(wall)).unwrap_or(0)));
        let timeouts = self.timeouts.iter().map(|(at, _)| *at);
        let overtakes = self.cuts.front().and_then(PendingCut::overtakes_at);
        let asks = self.ended.filter(|_| !self.may_finish).map(|at| at + ASK_AGAIN);
        let least = timeouts
            .chain(flush)
            .chain(timer)
            .chain(asks)
            .chain(overtakes)
            .min()
            .unwrap_or(Nanos::NEVER);
        least.min(until).min(self.snapshots.next_tick())
    }

    /// When the task wants to be interrupted although it is busy.
    pub fn interrupt_at(&mut self) -> Nanos {
        self.next_deadline(Nanos::NEVER)
    }
}

impl OpenSnapshot {
    /// Whether this snapshot is a savepoint, and how it is written.
    pub(super) fn savepoint(&self) -> Option<tidegate_types::SavepointFormat> {
        match self.cut.as_ref().map(|c| c.barrier.kind) {
            Some(CheckpointKind::Savepoint { format, .. }) => Some(format),
            Some(CheckpointKind::Checkpoint) | None => None,
        }
    }
}
