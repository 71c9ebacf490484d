//! The effects of a master in this process: mailboxes, threads, the pool, the status board.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tidegate_protocol::coordinator::{CheckpointCounts, History, RequestId};
use tidegate_protocol::message::{FromTask, ToTask};
use tidegate_storage::JobLock;
use tidegate_types::options::Settings;
use tidegate_types::snapshot::SubtaskSnapshot;
use tidegate_types::{AttemptNumber, EventTime, LeaderEpoch, Nanos, SubtaskId};

use crate::driver::threads;
use crate::error::BoxError;
use crate::graph::{Attempt, DeployContext, JobGraph, RestorePlan};
use crate::task::{Mail, Mailbox, Outbox};

use super::super::configured::task_options;
use super::super::env::{IoRequest, MasterEnv, MasterEvent, Report};
use super::super::error::JobError;
use super::super::io::{Executor, StoreWorker};
use super::super::machine::{JobMaster, JobOutcome};
use super::super::snapshot_io::{Spawner, StoreIo};
use super::super::status::{JobFailure, JobState, StatusBoard, SubtaskInfo};
use super::job::{Answer, Answers, Ended};
use super::{Engine, STEPS, TraceSink, state_name};

pub(super) struct LocalTask {
    mailbox: Arc<Mailbox>,
    revoke: Box<dyn Fn() + Send + Sync>,
    alive: bool,
}

pub(super) struct LocalEnv {
    pub(super) engine: Arc<Engine>,
    pub(super) worker: Arc<StoreWorker>,
    pub(super) executor: Executor,
    pub(super) graph: Arc<JobGraph>,
    pub(super) settings: Settings,
    pub(super) events: Sender<MasterEvent>,
    pub(super) board: Arc<StatusBoard>,
    pub(super) answers: Answers,
    pub(super) result: tokio::sync::watch::Sender<Option<Ended>>,
    pub(super) tasks: HashMap<SubtaskId, LocalTask>,
    pub(super) attempt: AttemptNumber,
    /// When tasks that didn't stop are given up.
    pub(super) abandon_at: Option<Nanos>,
    pub(super) trace: Option<TraceSink>,
    pub(super) held: Option<JobLock>,
    pub(super) ended: Option<Ended>,
    pub(super) news: News,
}

/// How long the progress of a checkpoint may wait before others see it: copying the history costs more the more
/// subtasks there are, and each of them acknowledges.
const PROGRESS_EVERY: Duration = Duration::from_millis(50);

/// What others don't see yet.
#[derive(Default)]
pub(super) struct News {
    counts: CheckpointCounts,
    restarts: u32,
    published_at: Nanos,
    /// Something may have changed since.
    pending: bool,
    /// They go out once the status shows what they are about.
    answers: Vec<(RequestId, Answer)>,
}

/// The master's thread.
pub(super) fn lead(mut master: JobMaster, mut env: LocalEnv, inbox: &Receiver<MasterEvent>) {
    let led = catch_unwind(AssertUnwindSafe(|| drive(&mut master, &mut env, inbox)));
    if let Err(panic) = led {
        env.give_up(threads::panic_text(&*panic));
    }
    env.finish();
}

fn drive(master: &mut JobMaster, env: &mut LocalEnv, inbox: &Receiver<MasterEvent>) {
    master.on_event(env, MasterEvent::Start);
    while !master.has_ended() {
        let progress = env.news.pending.then(|| env.news.published_at + PROGRESS_EVERY);
        let due = [master.next_timeout(), env.abandon_at, progress]
            .into_iter()
            .flatten()
            .min();
        let event = match due {
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => inbox.recv_timeout(at.since(env.now())),
        };
        env.abandon_what_hangs();
        match event {
            Ok(event) => {
                if let MasterEvent::TaskGone(subtask, attempt) = &event
                    && *attempt == env.attempt
                    && let Some(task) = env.tasks.get_mut(subtask)
                {
                    task.alive = false;
                }
                env.news.pending |= matters(&event);
                master.on_event(env, event);
                env.publish_if_due(master);
            }
            Err(RecvTimeoutError::Timeout) => {
                env.news.pending = true;
                master.on_event(env, MasterEvent::Timeout);
                env.publish_if_due(master);
            }
            Err(RecvTimeoutError::Disconnected) => unreachable!("the environment holds a sender"),
        }
    }
    env.publish(master);
}

/// Whether what others see of checkpoints may have changed.
fn matters(event: &MasterEvent) -> bool {
    !matches!(
        event,
        MasterEvent::FromTask(
            _,
            _,
            FromTask::RequestSplit { .. } | FromTask::SplitFinished { .. }
        )
    )
}

impl LocalEnv {
    /// Decisions, restarts and whatever is being answered show at once, progress after a while.
    fn publish_if_due(&mut self, master: &JobMaster) {
        let counts = master.history().map(History::counts).unwrap_or_default();
        let decided = counts != self.news.counts || master.restarts() != self.news.restarts;
        let waited = self.news.pending && self.now() >= self.news.published_at + PROGRESS_EVERY;
        if decided || waited || !self.news.answers.is_empty() {
            self.publish(master);
        }
    }

    fn publish(&mut self, master: &JobMaster) {
        let restarts = master.restarts();
        let history = master.history().cloned();
        self.news.counts = history.as_ref().map(History::counts).unwrap_or_default();
        self.news.restarts = restarts;
        self.news.published_at = self.now();
        self.news.pending = false;
        self.board.update(|status| {
            status.restarts = restarts;
            if let Some(history) = history {
                status.history = history;
            }
        });
        for (request, answer) in std::mem::take(&mut self.news.answers) {
            let mut waiting = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(waiting) = waiting.waiting.remove(&request) {
                let _heard = waiting.send(answer);
            }
        }
    }

    /// Tasks whose user code didn't come back in time: their gates, writes and messages count no more.
    fn abandon_what_hangs(&mut self) {
        let now = self.now();
        if self.abandon_at.is_none_or(|at| at > now) {
            return;
        }
        self.abandon_at = None;
        for (id, task) in self.tasks.iter_mut().filter(|(_, t)| t.alive) {
            (task.revoke)();
            task.alive = false;
            tracing::warn!(subtask = %id, "user code didn't come back after the cancellation; its thread is abandoned");
            self.board.update(|status| status.abandoned_threads += 1);
            let _sent = self.events.send(MasterEvent::TaskGone(*id, self.attempt));
        }
    }

    fn finish(&mut self) {
        // The lock goes before anybody hears of the end: who waits for it may start the job again.
        self.held = None;
        // Before the job may be started again, which opens its sources for it.
        self.graph.job_ended();
        let job = self.graph.job.clone();
        self.engine
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&job);
        // Whoever asked too late learns that from the dropped sender.
        {
            let mut asked = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            asked.closed = true;
            asked.waiting.clear();
        }
        let ended = self.ended.take();
        self.result.send_replace(ended);
        self.engine.forget_old();
    }

    /// The master itself panicked: its tasks end, and whoever waits hears of it.
    fn give_up(&mut self, said: String) {
        tracing::error!(job = %self.graph.job, panic = %said, "the job's master panicked");
        for task in self.tasks.values().filter(|t| t.alive) {
            (task.revoke)();
            task.mailbox
                .send(Mail::Master(LeaderEpoch(u64::MAX), ToTask::Cancel));
        }
        self.report(Report::State(JobState::Failed));
        self.ended = Some(Err(Arc::new(JobError::Bug(said))));
    }

    fn deploy_context(&self, attempt: Attempt, restore: Option<Arc<RestorePlan>>) -> DeployContext {
        let io = StoreIo::new(
            self.worker.store().clone(),
            self.executor.clone(),
            self.engine.pool.clone(),
            attempt.number,
            self.settings.checkpoints.inline_threshold.bytes(),
            self.worker.writer_nonces(),
        );
        let events = self.events.clone();
        let (outputs, budget, task) = task_options(&self.settings, &self.graph);
        DeployContext {
            clock: self.engine.clock.clone(),
            io,
            outputs,
            budget,
            task,
            outbox: Box::new(move |id| {
                Arc::new(ToMaster {
                    events: events.clone(),
                    id,
                    attempt: attempt.number,
                })
            }),
            restore,
        }
    }
}

struct ToMaster {
    events: Sender<MasterEvent>,
    id: SubtaskId,
    attempt: AttemptNumber,
}

impl Outbox for ToMaster {
    fn send(&self, message: FromTask) {
        // A master that is gone needs nothing any more.
        let _sent = self
            .events
            .send(MasterEvent::FromTask(self.id, self.attempt, message));
    }
}

impl MasterEnv for LocalEnv {
    fn now(&self) -> Nanos {
        self.engine.clock.now()
    }

    fn wall_ms(&self) -> EventTime {
        self.engine.clock.wall_ms()
    }

    fn send(&mut self, from: LeaderEpoch, to: SubtaskId, message: ToTask) {
        if let Some(task) = self.tasks.get(&to) {
            task.mailbox.send(Mail::Master(from, message));
        }
    }

    fn request(&mut self, request: IoRequest) {
        let (worker, events, clock) = (
            self.worker.clone(),
            self.events.clone(),
            self.engine.clock.clone(),
        );
        self.engine.pool.spawn(Box::new(move || {
            let reply = worker.perform(request, clock.wall_ms());
            let _sent = events.send(MasterEvent::Io(reply));
        }));
    }

    fn deploy(
        &mut self,
        attempt: Attempt,
        restore: Option<Arc<RestorePlan>>,
    ) -> Result<Vec<(SubtaskId, SubtaskSnapshot)>, BoxError> {
        self.attempt = attempt.number;
        self.abandon_at = None;
        self.tasks.clear();
        let cx = self.deploy_context(attempt, restore);
        let deployment = self.graph.deploy(attempt, &cx)?;
        let infos = deployment
            .tasks
            .iter()
            .map(|t| SubtaskInfo {
                id: t.task.id(),
                metrics: t.metrics.clone(),
            })
            .collect();
        self.board.update(|status| {
            status.attempts += 1;
            status.subtasks = infos;
        });
        for mut deployed in deployment.tasks {
            let id = deployed.task.id();
            let revoke = std::mem::replace(&mut deployed.revoke, Box::new(|| {}));
            self.tasks.insert(
                id,
                LocalTask {
                    mailbox: deployed.mailbox.clone(),
                    revoke,
                    alive: true,
                },
            );
            let events = self.events.clone();
            let done = move || {
                let _sent = events.send(MasterEvent::TaskGone(id, attempt.number));
            };
            let (clock, ticker) = (self.engine.clock.clone(), self.engine.ticker.clone());
            if let Err(error) = threads::spawn(deployed, clock, ticker, done) {
                // Others run already: it fails like a task whose first step does.
                let error = format!("a thread can't be started: {error}");
                let events = &self.events;
                let failed = FromTask::Failed {
                    error,
                    retryable: true,
                };
                let _sent = events.send(MasterEvent::FromTask(id, attempt.number, failed));
                let _sent = events.send(MasterEvent::TaskGone(id, attempt.number));
            }
        }
        Ok(deployment.finished)
    }

    fn cancel_tasks(&mut self, from: LeaderEpoch) {
        for task in self.tasks.values().filter(|t| t.alive) {
            task.mailbox.send(Mail::Master(from, ToTask::Cancel));
        }
        self.abandon_at = self.settings.tasks.cancellation_timeout.map(|t| self.now() + t);
    }

    fn answer(&mut self, request: RequestId, result: Answer) {
        self.news.answers.push((request, result));
    }

    fn report(&mut self, report: Report) {
        let job = &self.graph.job;
        match report {
            Report::State(state) => {
                tracing::info!(%job, ?state, "job state");
                let now = self.engine.clock.wall_ms();
                self.board.update(|status| {
                    status.state = state;
                    let name = state_name(state);
                    status.since.insert(name, now);
                });
            }
            Report::Attempt(attempt) => {
                tracing::info!(%job, attempt = %attempt.number, epoch = %attempt.epoch, "attempt");
            }
            Report::Failure { subtask, error } => {
                let at = subtask.map(|s| s.to_string()).unwrap_or_default();
                // A target of its own: a program that tells of failures itself turns it off.
                tracing::warn!(target: "tidegate_runtime::attempts", %job, subtask = at, %error, "the attempt failed");
                let at = self.engine.clock.wall_ms();
                self.board
                    .update(|status| status.failed(JobFailure { at, subtask, error }));
            }
            Report::Trace(event) => {
                let id = event.id.map(|id| id.0);
                tracing::debug!(target: STEPS, %job, checkpoint = id, "{}", event.step);
                if let Some(trace) = &self.trace {
                    trace(&event);
                }
            }
            Report::Warning(text) => tracing::warn!(%job, "{text}"),
        }
    }

    fn ended(&mut self, outcome: Result<JobOutcome, JobError>) {
        self.ended = Some(outcome.map_err(Arc::new));
    }
}
