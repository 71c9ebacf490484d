//! The job master's machine: attempts from claim to end.
//!
//! # Driving it
//! Send [`MasterEvent::Start`] once, then everything that [`MasterEvent`] lists, with the [`MasterEnv`] that carries
//! out effects. [`next_timeout`](JobMaster::next_timeout) says when to send [`MasterEvent::Timeout`]. The order of an
//! attempt: claim → check the snapshot → settle sinks → clean up → enumerators → deploy → run. Nothing is
//! settled, deleted or restored before the claim is durable.

mod coordination;
mod ending;
mod requests;
mod starting;
mod takeover;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tidegate_protocol::coordinator::{
    Claim, Coordinator, CoordinatorEvent, CoordinatorSettings, History, Request, RequestFailure, RequestId,
};
use tidegate_protocol::message::{Envelope, FromTask};
use tidegate_protocol::restart::Restarts;
use tidegate_storage::Snapshot;
use tidegate_types::{AttemptNumber, CheckpointId, Generation, LeaderEpoch, Nanos, SubtaskId};

use crate::error::chain_of;
use crate::graph::{Attempt, JobGraph};

use super::attempt::Enumerators;
use super::env::{IoRequest, MasterEnv, MasterEvent, RestoreChoice};
use super::error::JobError;
use super::io::Executor;

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
    /// Tasks that an earlier leader left behind, to be taken over instead of deployed.
    pub running: Option<Running>,
    /// Whether `cancel` deletes checkpoints.
    pub delete_on_cancel: bool,
    /// Where the snapshot's small parts are read.
    pub executor: Executor,
}

/// Tasks that run without a leader.
#[derive(Debug, Clone)]
pub struct Running {
    /// The attempt they were deployed in.
    pub attempt: Attempt,
    /// Those that haven't finished.
    pub alive: BTreeSet<SubtaskId>,
    /// What the others said when they finished.
    pub finished: Vec<(SubtaskId, FromTask)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Created,
    Claiming,
    Settling,
    /// Tasks run that an earlier leader deployed; they are asked what they hold.
    TakingOver,
    Running,
    /// Tasks are told to stop; each must be gone and every decision made.
    Stopping,
    /// A failed attempt is followed by another at this time.
    Waiting(Nanos),
    /// Checkpoints are being deleted after a cancellation.
    Closing,
    /// The last clean-up before the end.
    CleaningUp,
    Ended,
}

/// Whether all checkpoints are given up and deleted, which can be done once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Close {
    Not,
    /// The reply is on its way.
    Asked,
    /// Done, or it can't be.
    Done,
}

/// The walks over the store's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CleanUp {
    Idle,
    /// The reply is on its way.
    Walks,
    /// Something has become superfluous that this walk may not see.
    WalksAndIsDueAgain,
}

/// What comes after tasks have stopped.
enum After {
    Restart(Duration),
    End(Box<Result<JobOutcome, JobError>>),
}

/// One job.
pub struct JobMaster {
    parts: MasterParts,
    /// Tasks run already; the claim is followed by a takeover.
    takes_over: bool,
    phase: Phase,
    coordinator: Option<Coordinator>,
    history: Option<History>,
    enumerators: Enumerators,
    attempt: Attempt,
    snapshot: Option<Box<Snapshot>>,
    claim: Claim,
    alive: BTreeSet<SubtaskId>,
    /// What tasks that are being taken over said before there was a coordinator.
    unheard: Vec<MasterEvent>,
    /// Tasks of this attempt that said that they have finished.
    finished: BTreeSet<SubtaskId>,
    after: Option<After>,
    restarts: u32,
    /// A checkpoint of this master's has completed: what a further attempt starts from.
    completed_any: bool,
    /// The highest checkpoint id that any attempt of this process gave out.
    highest_used: Option<CheckpointId>,
    requests: BTreeSet<RequestId>,
    /// Requests that came before all tasks ran.
    early: VecDeque<(RequestId, Request)>,
    suspends: BTreeSet<RequestId>,
    suspended: bool,
    cancelled: bool,
    close: Close,
    /// The last checkpoint whose decision the store didn't take, said once.
    undecided_warned: Option<CheckpointId>,
    /// How often a stopping job asked the store for a decision in vain.
    undecided_tries: u32,
    /// Sinks are being settled or taken over; the reply is on its way.
    settling: bool,
    /// A claim of this master's stands.
    leads: bool,
    clean_up: CleanUp,
    commit_again: Option<(Nanos, CheckpointId, Vec<tidegate_types::snapshot::Section>)>,
    splits_again: Option<Nanos>,
}

impl JobMaster {
    /// A master that hasn't started.
    pub fn new(mut parts: MasterParts) -> Self {
        let fresh = Running {
            attempt: Attempt {
                number: AttemptNumber(0),
                epoch: LeaderEpoch(0),
                lineage: 0,
                generation: Generation(0),
            },
            alive: BTreeSet::new(),
            finished: Vec::new(),
        };
        let takes_over = parts.running.is_some();
        let running = parts.running.take().unwrap_or(fresh);
        let number = running.attempt.number;
        let unheard = running
            .finished
            .into_iter()
            .map(|(subtask, said)| MasterEvent::FromTask(subtask, number, said))
            .collect();
        Self {
            parts,
            takes_over,
            phase: Phase::Created,
            coordinator: None,
            history: None,
            enumerators: Enumerators::default(),
            attempt: running.attempt,
            snapshot: None,
            claim: Claim::default(),
            alive: running.alive,
            unheard,
            finished: BTreeSet::new(),
            after: None,
            restarts: 0,
            completed_any: false,
            highest_used: None,
            requests: BTreeSet::new(),
            early: VecDeque::new(),
            suspends: BTreeSet::new(),
            suspended: false,
            cancelled: false,
            close: Close::Not,
            undecided_warned: None,
            undecided_tries: 0,
            settling: false,
            leads: false,
            clean_up: CleanUp::Idle,
            commit_again: None,
            splits_again: None,
        }
    }

    /// What checkpoints came to so far.
    pub fn history(&self) -> Option<&History> {
        self.coordinator
            .as_ref()
            .map(Coordinator::history)
            .or(self.history.as_ref())
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
        [waiting, coordinator, commit, self.splits_again]
            .into_iter()
            .flatten()
            .min()
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
            MasterEvent::TaskGone(subtask, attempt) => self.on_gone(env, subtask, attempt),
            MasterEvent::Io(reply) => self.on_reply(env, reply),
            MasterEvent::Request(id, request) => self.on_request(env, id, request),
            MasterEvent::Cancel => self.cancel(env),
            MasterEvent::Timeout => self.on_timeout(env),
        }
        self.pass_on_early(env);
        self.advance(env);
    }

    fn claim(&mut self, env: &mut dyn MasterEnv) {
        self.phase = Phase::Claiming;
        let choice = if self.takes_over || self.completed_any {
            RestoreChoice::Latest
        } else {
            // What is newest in the store may be of another line of history.
            self.parts.restore.clone()
        };
        env.request(IoRequest::Claim(choice));
    }

    fn on_task(
        &mut self,
        env: &mut dyn MasterEnv,
        subtask: SubtaskId,
        attempt: AttemptNumber,
        message: FromTask,
    ) {
        if attempt != self.attempt.number {
            return;
        }
        if self.takes_over {
            return self
                .unheard
                .push(MasterEvent::FromTask(subtask, attempt, message));
        }
        match message {
            FromTask::RequestSplit { uid } => match self.phase {
                Phase::Running => match self.enumerators.on_request(&uid, subtask) {
                    Ok(Some(answer)) => env.send(self.attempt.epoch, subtask, answer),
                    Ok(None) => self.splits_again = Some(env.now() + SPLITS_AGAIN),
                    Err(error) => self.fail(env, None, &chain_of(&error), error.heals(), error),
                },
                Phase::TakingOver => self.enumerators.wait(uid, subtask),
                _ => {}
            },
            FromTask::Failed { error, retryable } => {
                let text = error.clone();
                let restarts = self.restarts;
                self.fail(
                    env,
                    Some(subtask),
                    &text,
                    retryable,
                    JobError::Task { error, restarts },
                );
            }
            message => {
                if matches!(message, FromTask::Finished { .. }) {
                    self.finished.insert(subtask);
                }
                self.hand_to_coordinator(env, subtask, message);
            }
        }
    }

    fn on_gone(&mut self, env: &mut dyn MasterEnv, subtask: SubtaskId, attempt: AttemptNumber) {
        if attempt != self.attempt.number {
            return;
        }
        if self.takes_over {
            return self.unheard.push(MasterEvent::TaskGone(subtask, attempt));
        }
        self.alive.remove(&subtask);
        if !self.finished.contains(&subtask) {
            // Only while nothing stops the tasks anyway: somebody else did.
            let restarts = self.restarts;
            let error = "the task is gone and didn't say why".to_owned();
            let text = error.clone();
            self.fail(
                env,
                Some(subtask),
                &text,
                true,
                JobError::Task { error, restarts },
            );
        }
    }

    fn hand_to_coordinator(&mut self, env: &mut dyn MasterEnv, subtask: SubtaskId, body: FromTask) {
        let envelope = Envelope {
            job: self.parts.graph.job.clone(),
            attempt: self.attempt.number,
            epoch: self.attempt.epoch,
            subtask,
            body,
        };
        self.tell(env, CoordinatorEvent::FromTask(envelope));
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
            self.ask_for_splits(env);
        }
        self.tell(env, CoordinatorEvent::Timeout);
    }

    /// Asks the enumerators for everybody who waits.
    fn ask_for_splits(&mut self, env: &mut dyn MasterEnv) {
        self.splits_again = None;
        match self.enumerators.ask_again() {
            Ok(answers) => {
                for (to, message) in answers {
                    env.send(self.attempt.epoch, to, message);
                }
            }
            Err(error) => self.fail(env, None, &chain_of(&error), error.heals(), error),
        }
        if self.enumerators.anybody_waits() {
            self.splits_again = Some(env.now() + SPLITS_AGAIN);
        }
    }
}
