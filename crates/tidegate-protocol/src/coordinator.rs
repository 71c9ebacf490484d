//! The checkpoint coordinator: decides when snapshots are taken, collects them, and decides what they come to.
//!
//! Owns: ids, triggers, acknowledgements, failures, the order of decisions, retention, savepoints, the last
//! checkpoint of what ends, and the history. One coordinator serves one attempt under one leadership.
//!
//! Does not own: any I/O. It never reads a clock or the store; what it wants done it says
//! ([`CoordinatorAction`]), what became of it it is told ([`CoordinatorEvent`]). Split assignment, committing,
//! restarting and leases are the job master's.
//!
//! Where to read next: `decider.rs` (when one may start), `trigger.rs`, `acks.rs`, `decision.rs` (the order of
//! durable effects, argued), `abort.rs`, `requests.rs`, `last.rs`, `takeover.rs`; `tasks.rs` for who is triggered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;

use tidegate_types::{AttemptNumber, CheckpointId, JobId, LeaderEpoch, Nanos, SubtaskId};

mod abort;
mod acks;
mod action;
mod complete;
mod decided;
mod decider;
mod decision;
mod event;
mod failure;
mod history;
mod invariants;
mod last;
mod pending;
mod plan;
mod requests;
mod retention;
mod settings;
mod summary;
mod takeover;
mod tasks;
mod trace;
mod trigger;

#[cfg(test)]
mod tests;

pub use action::{
    CheckpointContent, CoordinatorAction, Decision, OperatorFinish, OperatorSummary, ReaderSplits,
    RequestDone, RequestFailure,
};
pub use decider::Hold;
pub use event::{
    Claim, CoordinatorEvent, DecisionOutcome, NewestComplete, Request, RequestId, RestoredFrom,
    SavepointOrder, Verdict,
};
pub use failure::{FailureReason, FailureRecord};
pub use history::{
    CheckpointCounts, CheckpointStats, CheckpointStatus, CheckpointSummary, History, RestoredStats,
    SubtaskCheckpoint, TaskStats,
};
pub use plan::{EdgePattern, Plan, PlanEdge, PlanError, PlanVertex, pointwise_producers};
pub use settings::{CoordinatorSettings, SettingsError};
pub use summary::Summary;
pub use trace::{TraceEvent, TraceStep};

use decided::DecidedLog;
use decider::Periodic;
use failure::Tolerance;
use last::{Ending, LastRetry};
use pending::Pending;
use requests::RequestQueue;
use retention::Retention;
use takeover::Adopting;
use tasks::Tasks;

/// Whose checkpoints these are; what messages must carry to be heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The job.
    pub job: JobId,
    /// The leadership.
    pub epoch: LeaderEpoch,
    /// The attempt.
    pub attempt: AttemptNumber,
}

/// How the tasks came to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StartMode {
    /// They are deployed anew by this leadership and will say `Running`.
    Deploy,
    /// They ran on under an earlier leadership and are taken over.
    Takeover,
}

/// Where the coordinator is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// The claim isn't durable yet; nothing may be decided.
    Claiming,
    /// Running tasks are asked what they hold.
    Adopting(Adopting),
    /// The enumerators are being restored with what readers hold.
    RestoringEnumerators,
    /// Checkpoints may start.
    Active,
    /// The attempt is over; what is pending is brought to its decision.
    Stopping {
        /// What becomes of complete checkpoints.
        retained: Fate,
    },
    /// Another leadership was met; nothing is done any more.
    Deposed,
}

/// What becomes of a job's complete checkpoints at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// They stay.
    Kept,
    /// They go once everything is decided.
    ToClose,
    /// They were given up.
    Closed,
}

/// The checkpoint coordinator of one attempt.
///
/// # Driving it
///
/// 1. [`new`](Self::new). Feed task messages from the start; feed [`CoordinatorEvent::Claimed`] as soon as the claim
///    is durable and the sinks are settled.
/// 2. For everything that happens call [`on_event`](Self::on_event) and carry the returned actions out in order. An
///    action that takes time must not hold up later ones, with two exceptions: messages to one subtask stay in
///    order, and no split is assigned between [`CoordinatorAction::SnapshotEnumerators`] and the actions that its
///    answer returns. Answers come back as events, each once. Late ones do no harm, nor doubled ones, save
///    that after a doubled "failed" of a decision two writes of the same `aborted` may be under way.
/// 3. After each call ask [`next_timeout`](Self::next_timeout) and feed [`CoordinatorEvent::Timeout`] at that time.
///    It is always later than the `now` of the last call.
/// 4. At the end of the attempt feed [`CoordinatorEvent::Stop`]; once [`is_drained`](Self::is_drained) it can be
///    dropped, its [`into_history`](Self::into_history) going to the next one. Dropping it at any other time is
///    safe too: the next claim settles what it left undecided.
///
/// ```
/// use std::time::Duration;
/// use tidegate_protocol::coordinator::*;
/// use tidegate_protocol::message::{Envelope, FromTask};
/// use tidegate_types::*;
///
/// let source = PlanVertex {
///     id: VertexId(0),
///     name: "source".to_owned(),
///     parallelism: Parallelism(1),
///     max_parallelism: MaxParallelism::DEFAULT,
///     operators: vec![OperatorUid::from("source")],
/// };
/// let settings = CoordinatorSettings { interval: Some(Duration::from_secs(1)), ..Default::default() };
/// let (epoch, attempt) = (LeaderEpoch(1), AttemptNumber(0));
/// let identity = Identity { job: JobId::from("job"), epoch, attempt };
/// let plan = Plan::new(vec![source], vec![])?;
/// let mut coordinator = Coordinator::new(settings, plan, identity, StartMode::Deploy, None);
///
/// // The claim took id 1; the task says that it runs; a second later a checkpoint begins.
/// let claim = Claim { next_id: CheckpointId(2), ..Claim::default() };
/// coordinator.on_event(Nanos(0), CoordinatorEvent::Claimed(claim));
/// let subtask = SubtaskId::new(VertexId(0), SubtaskIndex(0));
/// let running = Envelope { job: JobId::from("job"), attempt, epoch, subtask, body: FromTask::Running };
/// coordinator.on_event(Nanos(0), CoordinatorEvent::FromTask(running));
/// let due = coordinator.next_timeout().expect("one interval after all tasks run");
/// let actions = coordinator.on_event(due, CoordinatorEvent::Timeout);
/// assert_eq!(actions, [CoordinatorAction::SnapshotEnumerators { id: CheckpointId(2) }]);
/// # Ok::<(), PlanError>(())
/// ```
///
/// # Panics
/// If time goes backwards, a second `Claimed` comes, or an invariant is broken: a bug here or in the driver, never
/// something that a task or the store could send.
#[derive(Debug, Clone)]
pub struct Coordinator {
    settings: CoordinatorSettings,
    identity: Identity,
    mode: StartMode,
    phase: Phase,
    tasks: Tasks,
    now: Nanos,
    /// The next id to give out.
    next_id: CheckpointId,
    /// Every id given out whose decision isn't durable, without gaps up to `next_id`.
    undecided: BTreeMap<CheckpointId, Pending>,
    /// What became of the newest decided ids.
    decided: DecidedLog,
    /// Complete checkpoints whose commit isn't confirmed; at most one, since the next waits for it.
    committing: BTreeSet<CheckpointId>,
    retention: Retention,
    /// What the backends of this attempt may build on: the newest complete checkpoint they took part in or were
    /// restored from.
    base: Option<CheckpointId>,
    /// When the newest complete one was decided.
    last_completion: Option<Nanos>,
    periodic: Periodic,
    requests: RequestQueue,
    ending: Ending,
    last_retry: LastRetry,
    tolerance: Tolerance,
    /// Failed ids whose reason is only an echo, newest last.
    echoes: VecDeque<CheckpointId>,
    history: History,
    out: Vec<CoordinatorAction>,
}

impl Coordinator {
    /// A coordinator that waits for its claim.
    ///
    /// `history` is that of the attempt before, if there was one.
    ///
    /// # Panics
    /// If the settings weren't [validated](CoordinatorSettings::validate).
    pub fn new(
        settings: CoordinatorSettings,
        plan: Plan,
        identity: Identity,
        mode: StartMode,
        history: Option<History>,
    ) -> Self {
        assert_eq!(
            settings.validate(),
            Ok(()),
            "settings are validated when the job is built"
        );
        Self {
            tolerance: Tolerance::new(settings.tolerable_failures),
            history: history.unwrap_or_else(|| History::new(settings.history_size)),
            settings,
            identity,
            mode,
            phase: Phase::Claiming,
            tasks: Tasks::new(plan),
            now: Nanos(0),
            next_id: CheckpointId(1),
            undecided: BTreeMap::new(),
            decided: DecidedLog::default(),
            committing: BTreeSet::new(),
            retention: Retention::default(),
            base: None,
            last_completion: None,
            periodic: Periodic::Off,
            requests: RequestQueue::default(),
            ending: Ending::Not,
            last_retry: LastRetry::default(),
            echoes: VecDeque::new(),
            out: Vec::new(),
        }
    }

    /// Takes note of what happened and says what is to be done, in order.
    pub fn on_event(&mut self, now: Nanos, event: CoordinatorEvent) -> Vec<CoordinatorAction> {
        assert!(now >= self.now, "time went from {} back to {now}", self.now);
        assert!(
            self.out.is_empty(),
            "actions of the last event were all handed over"
        );
        self.now = now;
        match self.phase {
            Phase::Deposed => self.when_deposed(event),
            Phase::Claiming
            | Phase::Adopting(_)
            | Phase::RestoringEnumerators
            | Phase::Active
            | Phase::Stopping { .. } => {
                self.handle(event);
                self.settle();
            }
        }
        self.check_invariants();
        mem::take(&mut self.out)
    }

    fn handle(&mut self, event: CoordinatorEvent) {
        match event {
            CoordinatorEvent::Claimed(claim) => self.on_claimed(claim),
            CoordinatorEvent::FromTask(envelope) => self.on_message(envelope),
            CoordinatorEvent::Request { request, what } => self.on_request(request, what),
            CoordinatorEvent::EnumeratorsSnapshotted { id, sections } => {
                self.on_enumerators_snapshotted(id, sections);
            }
            CoordinatorEvent::EnumeratorsFailed { id, error } => self.on_enumerators_failed(id, error),
            CoordinatorEvent::EnumeratorsRestored => self.on_enumerators_restored(),
            CoordinatorEvent::ExternalPhaseDone { id, sections } => self.on_external_done(id, sections),
            CoordinatorEvent::ExternalPhaseFailed { id, error } => self.on_external_failed(id, error),
            CoordinatorEvent::SavepointCopied { id, path } => self.on_savepoint_copied(id, path),
            CoordinatorEvent::SavepointCopyFailed { id, error } => self.on_savepoint_copy_failed(id, error),
            CoordinatorEvent::DecisionWritten { id, outcome } => self.on_decision_written(id, outcome),
            CoordinatorEvent::Committed { id } => {
                self.committing.remove(&id);
            }
            CoordinatorEvent::Deposed { id } => self.step_down(id),
            CoordinatorEvent::Stop { discard_retained } => self.on_stop(discard_retained),
            CoordinatorEvent::Timeout => {}
        }
    }

    /// Does everything that has become due or possible. Every event ends here, so nothing waits for an event that has
    /// already been.
    fn settle(&mut self) {
        self.expire();
        self.finish_adopting();
        self.finish_drain();
        self.start_what_may();
        self.advance_decisions();
        self.reoffer_when_due();
        self.close_when_drained();
    }

    /// When to call with [`CoordinatorEvent::Timeout`] if nothing happens before.
    pub fn next_timeout(&self) -> Option<Nanos> {
        let pending = self.undecided.values().filter_map(Pending::timeout).min();
        match &self.phase {
            Phase::Claiming | Phase::Deposed => None,
            Phase::Adopting(adopting) => [pending, Some(adopting.reoffer_at())].into_iter().flatten().min(),
            Phase::RestoringEnumerators | Phase::Stopping { .. } => pending,
            Phase::Active => {
                let others = [pending, self.periodic.timeout(), self.last_timeout()];
                others.into_iter().flatten().min()
            }
        }
    }

    /// What was taken so far, for REST.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Ends the coordinator and keeps its history for the next attempt. What wasn't decided counts as failed.
    pub fn into_history(mut self) -> History {
        for (id, pending) in std::mem::take(&mut self.undecided) {
            if pending.is_live() {
                let record = FailureRecord {
                    id: Some(id),
                    reason: FailureReason::JobStopped,
                    subtask: None,
                    detail: String::new(),
                    counted: false,
                };
                self.history.failed(id, record, self.now);
            }
        }
        self.history
    }

    /// The newest complete checkpoint or savepoint: what a restart begins from.
    pub fn newest_complete(&self) -> Option<CheckpointId> {
        self.decided.newest_complete()
    }

    /// The next id that will be given out; the next attempt's [`Claim::highest_used`] is one below.
    pub fn next_id(&self) -> CheckpointId {
        self.next_id
    }

    /// How many failures that count there were since the last completion.
    pub fn failures_in_a_row(&self) -> u32 {
        self.tolerance.in_a_row()
    }

    /// Why a due periodic trigger doesn't start, if one is held.
    pub fn held(&self) -> Option<Hold> {
        match self.periodic {
            Periodic::Held(hold) => Some(hold),
            Periodic::Off | Periodic::Due(_) => None,
        }
    }

    /// The undecided checkpoints that may still complete, ascending.
    pub fn pending(&self) -> impl Iterator<Item = CheckpointId> + '_ {
        self.undecided
            .values()
            .filter(|pending| pending.is_live())
            .map(|pending| pending.id)
    }

    /// Whether all tasks have said that they run, so that requests are begun with and not refused for that.
    pub fn is_up(&self) -> bool {
        match self.phase {
            Phase::Claiming | Phase::Adopting(_) | Phase::RestoringEnumerators => false,
            Phase::Active => self.tasks.all_started(),
            Phase::Stopping { .. } | Phase::Deposed => true,
        }
    }

    /// Whether every subtask has finished and everything is decided and committed: the job has ended.
    pub fn is_finished(&self) -> bool {
        self.tasks.all_finished()
            && self.undecided.is_empty()
            && self.committing.is_empty()
            && !self.owes_drain()
    }

    /// Whether it was stopped and nothing it began is outstanding.
    pub fn is_drained(&self) -> bool {
        match self.phase {
            Phase::Deposed
            | Phase::Stopping {
                retained: Fate::Closed,
            } => true,
            Phase::Stopping {
                retained: Fate::Kept | Fate::ToClose,
            } => self.undecided.is_empty() && self.committing.is_empty(),
            Phase::Claiming | Phase::Adopting(_) | Phase::RestoringEnumerators | Phase::Active => false,
        }
    }

    /// Whether another leadership was met.
    pub fn is_deposed(&self) -> bool {
        self.phase == Phase::Deposed
    }

    /// Every lower id is decided, durably.
    fn oldest_pending(&self) -> CheckpointId {
        self.undecided
            .first_key_value()
            .map_or(self.next_id, |(id, _)| *id)
    }

    /// Whether tasks are there to be told things.
    fn tasks_listen(&self) -> bool {
        match self.phase {
            Phase::Adopting(_) | Phase::RestoringEnumerators | Phase::Active => true,
            Phase::Claiming | Phase::Stopping { .. } | Phase::Deposed => false,
        }
    }

    fn send(&mut self, to: Vec<SubtaskId>, message: crate::message::ToTask) {
        if !to.is_empty() {
            self.out.push(CoordinatorAction::Send { to, message });
        }
    }

    fn trace(&mut self, id: Option<CheckpointId>, step: impl FnOnce() -> TraceStep) {
        if self.settings.trace {
            self.out.push(CoordinatorAction::Trace(TraceEvent {
                at: self.now,
                id,
                step: step(),
            }));
        }
    }
}
