//! The job master's machine: attempts from claim to end.
//!
//! # Driving it
//! Send [`MasterEvent::Start`] once, then everything that [`MasterEvent`] lists, with the [`MasterEnv`] that carries out
//! effects. [`next_timeout`](JobMaster::next_timeout) says when to send [`MasterEvent::Timeout`]. The order of an
//! attempt: claim → check the snapshot → settle sinks → clean up → enumerators → deploy → run. Nothing is
//! settled, deleted or restored before the claim is durable.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_protocol::coordinator::{
    Claim, Coordinator, CoordinatorAction, CoordinatorEvent, CoordinatorSettings, History, Identity, NewestComplete,
    Request, RequestFailure, RequestId, RestoredFrom, StartMode,
};
use tidegate_protocol::message::{Envelope, FromTask};
use tidegate_protocol::restart::{RestartDecision, Restarts};
use tidegate_storage::Snapshot;
use tidegate_types::{AttemptNumber, CheckpointId, Generation, LeaderEpoch, Nanos, SubtaskId};

use crate::error::chain_of;
use crate::graph::{Attempt, JobGraph};

use super::attempt::Enumerators;
use super::env::{CommitFailure, IoReply, IoRequest, MasterEnv, MasterEvent, Report, RestoreChoice};
use super::error::JobError;
use super::io::{COMMIT_AGAIN, Executor};
use super::restore::{RestoreChecks, restore_plan};
use super::status::JobState;

/// How often readers that wait for splits are asked about again.
const SPLITS_AGAIN: Duration = Duration::from_secs(1);

/// How a job came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    /// Its sources ended and everything is committed.
    Finished,
    /// The snapshot to restore says that the job had finished: nothing was run.
    AlreadyFinished(CheckpointId),
    /// It was stopped with a snapshot, to go on later.
    Suspended,
    /// It was cancelled.
    Canceled,
}

/// What a job master is made of.
pub struct MasterParts {
    /// The dataflow.
    pub graph: Arc<JobGraph>,
    /// Checkpoint settings.
    pub checkpoints: CoordinatorSettings,
    /// When and whether failed attempts are followed by another.
    pub restart: Restarts,
    /// What the first attempt starts from.
    pub restore: RestoreChoice,
    /// The user accepts a new line of committed output.
    pub new_lineage: bool,
    /// Whether `cancel` deletes checkpoints.
    pub delete_on_cancel: bool,
    /// Where the snapshot's small parts are read.
    pub executor: Executor,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Created,
    Claiming,
    Settling,
    Running,
    /// Tasks are told to stop; each must be gone and every decision made.
    Stopping,
    /// A failed attempt is followed by another at this time.
    Waiting(Nanos),
    /// Checkpoints are being deleted after a cancellation.
    Closing,
    Ended,
}

/// What comes after tasks have stopped.
enum After {
    Restart(Duration),
    End(Box<Result<JobOutcome, JobError>>),
}

/// One job.
pub struct JobMaster {
    parts: MasterParts,
    phase: Phase,
    coordinator: Option<Coordinator>,
    history: Option<History>,
    enumerators: Enumerators,
    attempt: Attempt,
    snapshot: Option<Box<Snapshot>>,
    claim: Claim,
    alive: BTreeSet<SubtaskId>,
    after: Option<After>,
    restarts: u32,
    /// The highest checkpoint id that any attempt of this process gave out.
    highest_used: Option<CheckpointId>,
    requests: BTreeSet<RequestId>,
    suspends: BTreeSet<RequestId>,
    suspended: bool,
    cancelled: bool,
    /// Checkpoints are being deleted; the reply is on its way.
    closing: bool,
    sweeping: bool,
    sweep_again: bool,
    commit_again: Option<(Nanos, CheckpointId, Vec<tidegate_types::snapshot::Section>)>,
    splits_again: Option<Nanos>,
}

impl JobMaster {
    /// A master that hasn't started.
    pub fn new(parts: MasterParts) -> Self {
        Self {
            parts,
            phase: Phase::Created,
            coordinator: None,
            history: None,
            enumerators: Enumerators::default(),
            attempt: Attempt {
                number: AttemptNumber(0),
                epoch: LeaderEpoch(0),
                lineage: 0,
                generation: Generation(0),
            },
            snapshot: None,
            claim: Claim::default(),
            alive: BTreeSet::new(),
            after: None,
            restarts: 0,
            highest_used: None,
            requests: BTreeSet::new(),
            suspends: BTreeSet::new(),
            suspended: false,
            cancelled: false,
            closing: false,
            sweeping: false,
            sweep_again: false,
            commit_again: None,
            splits_again: None,
        }
    }

    /// What checkpoints came to so far.
    pub fn history(&self) -> Option<&History> {
        self.coordinator.as_ref().map(Coordinator::history).or(self.history.as_ref())
    }

    /// Whether the job has ended.
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// How often it was restarted.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// When to send [`MasterEvent::Timeout`], if nothing happens before.
    pub fn next_timeout(&self) -> Option<Nanos> {
        let waiting = match self.phase {
            Phase::Waiting(at) => Some(at),
            _ => None,
        };
        let coordinator = self.coordinator.as_ref().and_then(Coordinator::next_timeout);
        let commit = self.commit_again.as_ref().map(|(at, ..)| *at);
        [waiting, coordinator, commit, self.splits_again].into_iter().flatten().min()
    }

    /// Takes note of an event and does what follows.
    pub fn on_event(&mut self, env: &mut dyn MasterEnv, event: MasterEvent) {
        if self.phase == Phase::Ended {
            if let MasterEvent::Request(id, _) = event {
                let reason = "the job has ended".to_owned();
                env.answer(id, Err(RequestFailure::Refused { reason }));
            }
            return;
        }
        match event {
            MasterEvent::Start => self.claim(env),
            MasterEvent::FromTask(subtask, attempt, message) => self.on_task(env, subtask, attempt, message),
            MasterEvent::TaskGone(subtask, attempt) => {
                if attempt == self.attempt.number {
                    self.alive.remove(&subtask);
                }
            }
            MasterEvent::Io(reply) => self.on_reply(env, reply),
            MasterEvent::Request(id, request) => self.on_request(env, id, request),
            MasterEvent::Cancel => self.cancel(env),
            MasterEvent::Timeout => self.on_timeout(env),
        }
        self.advance(env);
    }

    fn claim(&mut self, env: &mut dyn MasterEnv) {
        self.phase = Phase::Claiming;
        let choice = if self.attempt.number == AttemptNumber(0) {
            self.parts.restore.clone()
        } else {
            RestoreChoice::Latest
        };
        env.request(IoRequest::Claim(choice));
    }

    fn on_reply(&mut self, env: &mut dyn MasterEnv, reply: IoReply) {
        match reply {
            IoReply::Claimed(Ok(claimed)) => self.on_claimed(env, *claimed),
            IoReply::Claimed(Err(error)) => self.on_claim_failed(env, error),
            IoReply::Settled(Ok(())) => self.start_attempt(env),
            IoReply::Settled(Err((uid, error))) => {
                let reason = chain_of(&*error);
                self.end(env, Err(JobError::Settle { uid: uid.to_string(), reason }));
            }
            IoReply::Decided { id, outcome } => {
                self.tell(env, CoordinatorEvent::DecisionWritten { id, outcome });
            }
            IoReply::Copied { id, result: Ok(path) } => {
                self.tell(env, CoordinatorEvent::SavepointCopied { id, path });
            }
            IoReply::Copied { id, result: Err(error) } => {
                self.tell(env, CoordinatorEvent::SavepointCopyFailed { id, error });
            }
            IoReply::Committed { id, result: Ok(()) } => self.tell(env, CoordinatorEvent::Committed { id }),
            IoReply::Committed { id, result: Err(CommitFailure { uid, error, committables }) } => {
                env.report(Report::Warning(format!(
                    "sink `{uid}` could not commit checkpoint {id}: {error}. It is tried again"
                )));
                self.commit_again = Some((env.now() + COMMIT_AGAIN, id, committables));
            }
            IoReply::Swept { warnings } => {
                warnings.into_iter().for_each(|w| env.report(Report::Warning(w)));
                self.sweeping = false;
                if std::mem::take(&mut self.sweep_again) {
                    self.sweep(env);
                }
            }
            IoReply::Closed(result) => {
                if let Err(error) = result {
                    env.report(Report::Warning(format!("the job's checkpoints could not be deleted: {error}")));
                }
                self.closing = false;
                if self.phase == Phase::Closing {
                    self.end(env, Ok(JobOutcome::Canceled));
                }
            }
        }
    }

    /// A store that is away for a moment costs a restart like any other failure; at the start it is an error.
    fn on_claim_failed(&mut self, env: &mut dyn MasterEnv, error: tidegate_storage::StorageError) {
        let again = self.attempt.number > AttemptNumber(0)
            && !self.cancelled
            && error.kind() == tidegate_storage::ErrorKind::Retry;
        if again && let RestartDecision::Restart { after } = self.parts.restart.on_failure(env.now()) {
            env.report(Report::Failure { subtask: None, error: chain_of(&error) });
            self.restarts += 1;
            self.phase = Phase::Waiting(env.now() + after);
        } else {
            self.end(env, Err(JobError::Store(error)));
        }
    }

    fn on_claimed(&mut self, env: &mut dyn MasterEnv, claimed: super::env::ClaimedStore) {
        if self.cancelled {
            return self.end(env, Ok(JobOutcome::Canceled));
        }
        let first = self.attempt.number == AttemptNumber(0);
        let restored = claimed.snapshot.as_ref().map(|s| RestoredFrom {
            id: s.id(),
            is_savepoint: s.metadata().kind.is_savepoint(),
            path: Some(s.location().to_owned()),
        });
        self.claim = Claim {
            newest: claimed.newest.map(|(id, kind)| NewestComplete { id, kind }),
            retained: claimed.retained,
            next_id: claimed.next_id,
            highest_used: self.highest_used,
            restored,
        };
        let lineage = claimed.snapshot.as_ref().map_or(0, |s| s.metadata().lineage.0);
        let older = match (&claimed.snapshot, claimed.newest) {
            (Some(s), Some((newest, _))) => s.id() < newest,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        self.attempt = Attempt {
            number: AttemptNumber(self.attempt.number.0 + 1),
            epoch: claimed.epoch,
            // A new line of output is named after the leadership that began it, so no two share a name.
            lineage: if first && older && (self.parts.new_lineage || claimed.snapshot.is_none()) {
                claimed.epoch.0
            } else {
                lineage
            },
            generation: Generation(u32::try_from(claimed.epoch.0).unwrap_or(u32::MAX)),
        };
        if let Some(snapshot) = &claimed.snapshot {
            let metadata = snapshot.metadata();
            if metadata.operators.iter().all(|o| o.finished == tidegate_storage::Finished::Fully) {
                let id = snapshot.id();
                return self.end(env, Ok(JobOutcome::AlreadyFinished(id)));
            }
            let newest = claimed.newest.map(|(id, _)| id).filter(|_| first);
            let checks = RestoreChecks { newest, new_lineage: self.parts.new_lineage };
            if let Err(error) = restore_plan(snapshot, &self.parts.graph, checks, &self.parts.executor) {
                return self.end(env, Err(error));
            }
        }
        self.snapshot.clone_from(&claimed.snapshot);
        self.phase = Phase::Settling;
        env.request(IoRequest::Settle { snapshot: claimed.snapshot, attempt: self.attempt });
    }

    /// Sinks agree with the snapshot: tasks may start.
    fn start_attempt(&mut self, env: &mut dyn MasterEnv) {
        if self.cancelled {
            return self.end(env, Ok(JobOutcome::Canceled));
        }
        self.sweep(env);
        let graph = self.parts.graph.clone();
        match Enumerators::make(&graph, self.snapshot.as_deref(), &self.parts.executor) {
            Ok(enumerators) => self.enumerators = enumerators,
            Err(error) => return self.fail(env, None, &chain_of(&error), true, error),
        }
        let restore = match &self.snapshot {
            None => None,
            Some(snapshot) => {
                let checks = RestoreChecks { newest: None, new_lineage: true };
                match restore_plan(snapshot, &graph, checks, &self.parts.executor) {
                    Ok(plan) => Some(Arc::new(plan)),
                    Err(error) => return self.end(env, Err(error)),
                }
            }
        };
        let plan = graph.plan().expect("a built graph has a valid plan");
        self.alive = plan.subtasks().collect();
        let identity = Identity {
            job: graph.job.clone(),
            epoch: self.attempt.epoch,
            attempt: self.attempt.number,
        };
        let settings = self.parts.checkpoints.clone();
        let history = self.history.take();
        self.coordinator = Some(Coordinator::new(settings, plan, identity, StartMode::Deploy, history));
        self.phase = Phase::Running;
        env.report(Report::Attempt(self.attempt));
        env.report(Report::State(JobState::Running));
        self.tell(env, CoordinatorEvent::Claimed(self.claim.clone()));
        match env.deploy(self.attempt, restore) {
            Ok(finished) => {
                for (subtask, snapshot) in finished {
                    self.alive.remove(&subtask);
                    self.to_coordinator(env, subtask, FromTask::Running);
                    self.to_coordinator(env, subtask, FromTask::Finished { snapshot, newest_seen: CheckpointId(0) });
                }
            }
            Err(error) => {
                self.alive.clear();
                self.fail(env, None, &chain_of(&*error), false, JobError::Deploy(error));
            }
        }
    }

    fn on_task(&mut self, env: &mut dyn MasterEnv, subtask: SubtaskId, attempt: AttemptNumber, message: FromTask) {
        if attempt != self.attempt.number {
            return;
        }
        match message {
            FromTask::RequestSplit { uid } => {
                if self.phase == Phase::Running {
                    match self.enumerators.on_request(&uid, subtask) {
                        Ok(Some(answer)) => env.send(subtask, answer),
                        Ok(None) => self.splits_again = Some(env.now() + SPLITS_AGAIN),
                        Err(error) => self.fail(env, None, &chain_of(&error), true, error),
                    }
                }
            }
            FromTask::Failed { error, retryable } => {
                let text = error.clone();
                let restarts = self.restarts;
                self.fail(env, Some(subtask), &text, retryable, JobError::Task { error, restarts });
            }
            message => self.to_coordinator(env, subtask, message),
        }
    }

    fn to_coordinator(&mut self, env: &mut dyn MasterEnv, subtask: SubtaskId, body: FromTask) {
        let envelope = Envelope {
            job: self.parts.graph.job.clone(),
            attempt: self.attempt.number,
            epoch: self.attempt.epoch,
            subtask,
            body,
        };
        self.tell(env, CoordinatorEvent::FromTask(envelope));
    }

    fn on_request(&mut self, env: &mut dyn MasterEnv, id: RequestId, what: Request) {
        if self.coordinator.is_none() || self.phase != Phase::Running {
            let reason = "the job isn't running at the moment; try again when it is".to_owned();
            return env.answer(id, Err(RequestFailure::Refused { reason }));
        }
        self.requests.insert(id);
        if matches!(what, Request::Suspend { .. }) {
            self.suspends.insert(id);
        }
        self.tell(env, CoordinatorEvent::Request { request: id, what });
    }

    fn on_timeout(&mut self, env: &mut dyn MasterEnv) {
        let now = env.now();
        if matches!(self.phase, Phase::Waiting(at) if at <= now) {
            return self.claim(env);
        }
        if let Some((at, ..)) = &self.commit_again
            && *at <= now
            && let Some((_, id, committables)) = self.commit_again.take()
        {
            env.request(IoRequest::Commit { id, committables });
        }
        if self.splits_again.is_some_and(|at| at <= now) {
            self.splits_again = None;
            match self.enumerators.ask_again() {
                Ok(answers) => answers.into_iter().for_each(|(to, message)| env.send(to, message)),
                Err(error) => self.fail(env, None, &chain_of(&error), true, error),
            }
            if self.enumerators.anybody_waits() {
                self.splits_again = Some(now + SPLITS_AGAIN);
            }
        }
        self.tell(env, CoordinatorEvent::Timeout);
    }

    /// Tells the coordinator and carries out what it answers, until nothing follows.
    fn tell(&mut self, env: &mut dyn MasterEnv, event: CoordinatorEvent) {
        let mut events = std::collections::VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Some(coordinator) = &mut self.coordinator else { return };
            for action in coordinator.on_event(env.now(), event) {
                self.carry_out(env, action, &mut events);
            }
        }
    }

    fn carry_out(
        &mut self,
        env: &mut dyn MasterEnv,
        action: CoordinatorAction,
        events: &mut std::collections::VecDeque<CoordinatorEvent>,
    ) {
        let lineage = self.attempt.lineage;
        match action {
            CoordinatorAction::Send { to, message } => {
                for subtask in to {
                    env.send(subtask, message.clone());
                }
            }
            CoordinatorAction::SnapshotEnumerators { id } => {
                // Answered at once, so nothing can be assigned in between; ahead of everything else.
                events.push_front(match self.enumerators.snapshot() {
                    Ok(sections) => CoordinatorEvent::EnumeratorsSnapshotted { id, sections },
                    Err((uid, error)) => CoordinatorEvent::EnumeratorsFailed {
                        id,
                        error: format!("source `{uid}`: {}", chain_of(&*error)),
                    },
                });
            }
            CoordinatorAction::RestoreEnumerators { .. } => events.push_back(CoordinatorEvent::EnumeratorsRestored),
            CoordinatorAction::ExternalPhase { id } => {
                events.push_back(CoordinatorEvent::ExternalPhaseDone { id, sections: Vec::new() });
            }
            CoordinatorAction::CopySavepoint { id, order, content } => {
                env.request(IoRequest::CopySavepoint { id, order, content, lineage });
            }
            CoordinatorAction::WriteDecision { id, decision } => {
                env.request(IoRequest::Decide { id, decision, lineage });
            }
            CoordinatorAction::Commit { id, committables } => env.request(IoRequest::Commit { id, committables }),
            CoordinatorAction::Retire { .. }
            | CoordinatorAction::DeleteFiles { .. }
            | CoordinatorAction::DiscardSavepoint { .. }
            | CoordinatorAction::DiscardSnapshot { .. } => self.sweep(env),
            CoordinatorAction::Close => {
                self.closing = true;
                env.request(IoRequest::Close);
            }
            CoordinatorAction::Answer { request, result } => {
                self.requests.remove(&request);
                if self.suspends.remove(&request) && result.is_ok() {
                    self.suspended = true;
                }
                env.answer(request, result);
            }
            CoordinatorAction::FailJob(record) => {
                let error = JobError::Checkpoints(record);
                self.fail(env, None, &chain_of(&error), true, error);
            }
            CoordinatorAction::StepDown { id } => self.stop(env, After::End(Box::new(Err(JobError::Deposed(id))))),
            CoordinatorAction::Trace(event) => env.report(Report::Trace(event)),
        }
    }

    /// The store's directory is walked at most once at a time; what turns up meanwhile is for the next walk.
    fn sweep(&mut self, env: &mut dyn MasterEnv) {
        if self.sweeping {
            self.sweep_again = true;
        } else {
            self.sweeping = true;
            env.request(IoRequest::Sweep);
        }
    }

    /// The attempt has failed: another one, or the end.
    fn fail(
        &mut self,
        env: &mut dyn MasterEnv,
        subtask: Option<SubtaskId>,
        text: &str,
        retryable: bool,
        error: JobError,
    ) {
        if !matches!(self.phase, Phase::Running | Phase::Settling) {
            return;
        }
        env.report(Report::Failure { subtask, error: text.to_owned() });
        let decision = retryable.then(|| self.parts.restart.on_failure(env.now()));
        let after = match decision {
            Some(RestartDecision::Restart { after }) => After::Restart(after),
            Some(RestartDecision::Fail { .. }) | None => After::End(Box::new(Err(error))),
        };
        env.report(Report::State(JobState::Failing));
        self.stop(env, after);
    }

    fn cancel(&mut self, env: &mut dyn MasterEnv) {
        self.cancelled = true;
        match self.phase {
            Phase::Running => {
                env.report(Report::State(JobState::Cancelling));
                self.stop(env, After::End(Box::new(Ok(JobOutcome::Canceled))));
            }
            Phase::Stopping => self.after = Some(After::End(Box::new(Ok(JobOutcome::Canceled)))),
            Phase::Waiting(_) if self.parts.delete_on_cancel => {
                self.phase = Phase::Closing;
                self.closing = true;
                env.request(IoRequest::Close);
            }
            Phase::Created | Phase::Waiting(_) => self.end(env, Ok(JobOutcome::Canceled)),
            // What they wait for comes back, and then they see the flag.
            Phase::Claiming | Phase::Settling | Phase::Closing | Phase::Ended => {}
        }
    }

    fn stop(&mut self, env: &mut dyn MasterEnv, after: After) {
        if self.phase == Phase::Stopping {
            return;
        }
        self.phase = Phase::Stopping;
        let deletes = self.cancelled && self.parts.delete_on_cancel;
        self.after = Some(after);
        self.splits_again = None;
        env.cancel_tasks();
        self.tell(env, CoordinatorEvent::Stop { discard_retained: deletes });
    }

    /// What can go on without a further event.
    fn advance(&mut self, env: &mut dyn MasterEnv) {
        match self.phase {
            Phase::Running => {
                if self.coordinator.as_ref().is_some_and(Coordinator::is_finished) && self.alive.is_empty() {
                    let outcome = if self.suspended { JobOutcome::Suspended } else { JobOutcome::Finished };
                    self.end(env, Ok(outcome));
                }
            }
            Phase::Stopping => {
                let drained = self.coordinator.as_ref().is_none_or(Coordinator::is_drained);
                if drained && self.alive.is_empty() {
                    self.stopped(env);
                }
            }
            Phase::Created
            | Phase::Claiming
            | Phase::Settling
            | Phase::Waiting(_)
            | Phase::Closing
            | Phase::Ended => {}
        }
    }

    fn stopped(&mut self, env: &mut dyn MasterEnv) {
        if let Some(coordinator) = self.coordinator.take() {
            self.highest_used = coordinator.next_id().0.checked_sub(1).map(CheckpointId);
            self.history = Some(coordinator.into_history());
        }
        self.commit_again = None;
        match self.after.take() {
            Some(After::Restart(after)) => {
                self.restarts += 1;
                env.report(Report::State(JobState::Restarting));
                self.phase = Phase::Waiting(env.now() + after);
            }
            Some(After::End(result)) => match *result {
                Ok(JobOutcome::Canceled) if self.closing => self.phase = Phase::Closing,
                result => self.end(env, result),
            },
            None => {}
        }
    }

    fn end(&mut self, env: &mut dyn MasterEnv, result: Result<JobOutcome, JobError>) {
        if let Some(coordinator) = self.coordinator.take() {
            self.history = Some(coordinator.into_history());
        }
        for request in std::mem::take(&mut self.requests) {
            let reason = "the job has ended".to_owned();
            env.answer(request, Err(RequestFailure::Refused { reason }));
        }
        env.report(Report::State(match &result {
            Ok(JobOutcome::Finished | JobOutcome::AlreadyFinished(_)) => JobState::Finished,
            Ok(JobOutcome::Suspended) => JobState::Suspended,
            Ok(JobOutcome::Canceled) => JobState::Canceled,
            Err(_) => JobState::Failed,
        }));
        self.phase = Phase::Ended;
        env.ended(result);
    }
}
