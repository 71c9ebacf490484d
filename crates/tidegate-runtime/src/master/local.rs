//! Jobs in this process: a master's thread per job, a thread per task, one shared runtime.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_protocol::coordinator::{
    CoordinatorSettings, History, Request, RequestDone, RequestFailure, RequestId, TraceEvent,
};
use tidegate_protocol::message::{FromTask, ToTask};
use tidegate_protocol::restart::Restarts;
use tidegate_storage::{CheckpointStore, JobLock, LockHolder, Nonces, layout};
use tidegate_types::options::{CheckpointRetention, RestoreFrom, Settings};
use tidegate_types::snapshot::SubtaskSnapshot;
use tidegate_types::{AttemptNumber, CheckpointId, EventTime, JobId, Nanos, SubtaskId};

use crate::clock::{Clock, SystemClock};
use crate::driver::pool::Pool;
use crate::driver::threads;
use crate::driver::ticker::Ticker;
use crate::error::BoxError;
use crate::graph::{Attempt, DeployContext, JobGraph, RestorePlan};
use crate::task::{Mail, Mailbox, Outbox};

use super::configured::{coordinator_settings, restart_strategy, task_options};
use super::env::{IoRequest, MasterEnv, MasterEvent, Report, RestoreChoice};
use super::error::JobError;
use super::io::{Executor, StoreWorker, StoreWorkerParts};
use super::machine::{JobMaster, JobOutcome, MasterParts};
use super::snapshot_io::{Spawner, StoreIo};
use super::status::{JobFailure, JobState, JobStatus, StatusBoard, SubtaskInfo, VertexInfo};

/// What jobs of one process share: clock, pools, ticker. Made by the first job, or given.
pub struct Engine {
    clock: Arc<dyn Clock>,
    /// Taken when the engine is dropped.
    tokio: Option<tokio::runtime::Runtime>,
    pool: Arc<Pool>,
    ticker: Arc<Ticker>,
    running: Mutex<BTreeMap<JobId, Arc<StatusBoard>>>,
    boards: Mutex<Vec<Arc<RunningJob>>>,
}

/// A job that can't be started here.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The same job runs in this process.
    #[error("job `{0}` runs in this process already; give the second one another --job-id")]
    Duplicate(JobId),
    /// A thread or runtime can't be made.
    #[error("the runtime can't be started: {0}")]
    Runtime(#[from] std::io::Error),
    /// The job itself can't be started.
    #[error(transparent)]
    Job(#[from] JobError),
}

impl Engine {
    /// A new engine.
    ///
    /// # Errors
    /// When threads can't be made.
    pub fn start() -> std::io::Result<Arc<Self>> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tidegate-io")
            .enable_all()
            .build()?;
        Ok(Arc::new(Self {
            ticker: Ticker::start(clock.clone())?,
            pool: Pool::start("tidegate-pool", 4)?,
            clock,
            tokio: Some(tokio),
            running: Mutex::default(),
            boards: Mutex::default(),
        }))
    }

    /// The engine of this process, made by the first call.
    ///
    /// # Errors
    /// When threads can't be made.
    pub fn shared() -> std::io::Result<Arc<Self>> {
        static SHARED: Mutex<Option<Arc<Engine>>> = Mutex::new(None);
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = &*shared {
            return Ok(engine.clone());
        }
        let engine = Self::start()?;
        *shared = Some(engine.clone());
        Ok(engine)
    }

    /// The runtime that the store uses; a web server may run on it too.
    pub fn handle(&self) -> &tokio::runtime::Handle {
        self.tokio
            .as_ref()
            .expect("taken only when the engine is dropped")
            .handle()
    }

    /// Every job started here, the newest last, ended ones too.
    pub fn jobs(&self) -> Vec<Arc<RunningJob>> {
        self.boards.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The monotone time that histories of checkpoints are written with.
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Processing time.
    pub fn wall_ms(&self) -> EventTime {
        self.clock.wall_ms()
    }

    /// Starts a job.
    ///
    /// # Errors
    /// When it runs already, or its store can't be used.
    pub fn run(
        self: &Arc<Self>,
        graph: Arc<JobGraph>,
        settings: Settings,
        trace: Option<TraceSink>,
    ) -> Result<Arc<RunningJob>, StartError> {
        let job = graph.job.clone();
        let board = Arc::new(StatusBoard::new(first_status(
            &graph,
            &settings,
            self.clock.wall_ms(),
        )));
        {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            if running.contains_key(&job) {
                return Err(StartError::Duplicate(job));
            }
            running.insert(job.clone(), board.clone());
        }
        let started = self.try_run(graph, settings, trace, board);
        if started.is_err() {
            self.running
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&job);
        }
        started
    }

    fn try_run(
        self: &Arc<Self>,
        graph: Arc<JobGraph>,
        settings: Settings,
        trace: Option<TraceSink>,
        board: Arc<StatusBoard>,
    ) -> Result<Arc<RunningJob>, StartError> {
        let executor = Executor::Tokio(self.handle().clone());
        let (store, held) = open_store(&graph.job, &settings).map_err(JobError::Store)?;
        let worker = StoreWorker::new(StoreWorkerParts {
            store,
            graph: graph.clone(),
            executor: executor.clone(),
            nonces: Nonces::seeded(seed()),
            inline_total_bytes: settings.checkpoints.inline_total.bytes(),
            savepoint_dir: settings.checkpoints.savepoint_dir.clone(),
        });
        let (events, inbox) = channel();
        let (result, outcome) = tokio::sync::watch::channel(None);
        let running = Arc::new(RunningJob {
            board: board.clone(),
            events: Mutex::new(events.clone()),
            answers: Arc::default(),
            next_request: Mutex::new(0),
            outcome,
            settings: settings.clone(),
            graph: graph.clone(),
        });
        let master = JobMaster::new(MasterParts {
            graph: graph.clone(),
            checkpoints: coordinator_settings(&settings, trace.is_some()),
            restart: Restarts::new(restart_strategy(&settings), seed()),
            restore: match &settings.recovery.from {
                None => RestoreChoice::Fresh,
                Some(RestoreFrom::Latest) => RestoreChoice::Latest,
                Some(RestoreFrom::Path(path)) => RestoreChoice::Path(path.clone()),
            },
            new_lineage: settings.recovery.new_lineage,
            delete_on_cancel: settings.checkpoints.retention == CheckpointRetention::DeleteOnCancellation,
            executor: executor.clone(),
        });
        let env = LocalEnv {
            engine: self.clone(),
            worker,
            executor,
            graph: graph.clone(),
            settings,
            events,
            board,
            answers: running.answers.clone(),
            result,
            tasks: HashMap::new(),
            attempt: AttemptNumber(0),
            abandon_at: None,
            trace,
            held: Some(held),
            ended: None,
        };
        std::thread::Builder::new()
            .name("tidegate-master".into())
            .spawn(move || lead(master, env, &inbox))?;
        self.boards
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(running.clone());
        Ok(running)
    }
}

impl Drop for Engine {
    /// The last reference may go inside a runtime, this one or the user's, where waiting for threads would panic.
    /// Nothing is lost: a job that runs holds a reference of its own.
    fn drop(&mut self) {
        if let Some(tokio) = self.tokio.take() {
            tokio.shutdown_background();
        }
    }
}

/// Takes the steps of checkpoints, for `--trace-checkpoint`.
pub type TraceSink = Arc<dyn Fn(&TraceEvent) + Send + Sync>;

/// A number that no other process starts with.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library's hasher keys are the operating system's randomness.
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}

fn open_store(
    job: &JobId,
    settings: &Settings,
) -> Result<(tidegate_storage::JobStore, JobLock), tidegate_storage::StorageError> {
    let location = settings
        .checkpoints
        .dir
        .as_deref()
        .unwrap_or("memory:///checkpoints");
    let store = CheckpointStore::open(location)?.job(job)?;
    let holder = LockHolder {
        pid: std::process::id(),
        started: format!("job `{job}`"),
    };
    let held = store.lock(&holder)?;
    Ok((store, held))
}

fn first_status(graph: &JobGraph, _: &Settings, now: EventTime) -> JobStatus {
    let vertices = graph
        .chained
        .vertices
        .iter()
        .enumerate()
        .map(|(at, v)| VertexInfo {
            name: graph.vertex_name(tidegate_types::VertexId(at as u32)),
            uids: v.nodes.iter().map(|n| graph.node(*n).uid.to_string()).collect(),
            parallelism: v.parallelism.0,
        });
    JobStatus {
        job: graph.job.clone(),
        name: graph.name.to_string(),
        state: JobState::Created,
        since: BTreeMap::from([("CREATED".to_owned(), now)]),
        attempts: 0,
        restarts: 0,
        last_failure: None,
        failures: std::collections::VecDeque::new(),
        abandoned_threads: 0,
        vertices: vertices.collect(),
        subtasks: Vec::new(),
        history: History::new(CoordinatorSettings::default().history_size),
    }
}

type Answer = Result<RequestDone, RequestFailure>;
type Answers = Arc<Mutex<HashMap<RequestId, tokio::sync::oneshot::Sender<Answer>>>>;

/// How a job ended, for everybody who waits for it.
pub type Ended = Result<JobOutcome, Arc<JobError>>;

/// A job that was started in this process.
pub struct RunningJob {
    board: Arc<StatusBoard>,
    events: Mutex<Sender<MasterEvent>>,
    answers: Answers,
    next_request: Mutex<u64>,
    outcome: tokio::sync::watch::Receiver<Option<Ended>>,
    settings: Settings,
    graph: Arc<JobGraph>,
}

impl RunningJob {
    /// Its status.
    pub fn board(&self) -> &StatusBoard {
        &self.board
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its dataflow.
    pub fn graph(&self) -> &JobGraph {
        &self.graph
    }

    /// Where a checkpoint is; `None` if checkpoints are only in memory.
    pub fn checkpoint_path(&self, id: CheckpointId) -> Option<String> {
        let dir = self.settings.checkpoints.dir.as_deref()?.trim_end_matches('/');
        let job = layout::job_dir_name(&self.graph.job).ok()?;
        Some(format!("{dir}/{job}/{}", layout::checkpoint_dir(id)))
    }

    /// Asks for something. Resolves when that is done or has failed; any runtime will do.
    pub fn request(&self, what: Request) -> impl Future<Output = Answer> + Send + 'static {
        let id = {
            let mut next = self.next_request.lock().unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            RequestId(*next)
        };
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id, sender);
        if !self.tell(MasterEvent::Request(id, what)) {
            self.answers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&id);
        }
        async move {
            let refused = || RequestFailure::Refused {
                reason: "the job has ended".to_owned(),
            };
            receiver.await.unwrap_or_else(|_| Err(refused()))
        }
    }

    /// Cancels the job.
    pub fn cancel(&self) {
        self.tell(MasterEvent::Cancel);
    }

    fn tell(&self, event: MasterEvent) -> bool {
        self.events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(event)
            .is_ok()
    }

    /// Resolves when the job has ended; any runtime will do.
    pub fn ended(&self) -> impl Future<Output = Ended> + Send + 'static {
        let mut outcome = self.outcome.clone();
        async move {
            match outcome.wait_for(Option::is_some).await {
                Ok(ended) => ended.clone().expect("waited for"),
                Err(_) => unreachable!("the master says how the job ended before it goes"),
            }
        }
    }

    /// How it ended, if it has.
    pub fn try_ended(&self) -> Option<Ended> {
        self.outcome.borrow().clone()
    }
}

struct LocalTask {
    mailbox: Arc<Mailbox>,
    revoke: Box<dyn Fn() + Send + Sync>,
    alive: bool,
}

struct LocalEnv {
    engine: Arc<Engine>,
    worker: Arc<StoreWorker>,
    executor: Executor,
    graph: Arc<JobGraph>,
    settings: Settings,
    events: Sender<MasterEvent>,
    board: Arc<StatusBoard>,
    answers: Answers,
    result: tokio::sync::watch::Sender<Option<Ended>>,
    tasks: HashMap<SubtaskId, LocalTask>,
    attempt: AttemptNumber,
    /// When tasks that didn't stop are given up.
    abandon_at: Option<Nanos>,
    trace: Option<TraceSink>,
    held: Option<JobLock>,
    ended: Option<Ended>,
}

/// The master's thread.
fn lead(mut master: JobMaster, mut env: LocalEnv, inbox: &Receiver<MasterEvent>) {
    master.on_event(&mut env, MasterEvent::Start);
    while !master.has_ended() {
        let due = [master.next_timeout(), env.abandon_at]
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
                let news = matters(&event);
                master.on_event(&mut env, event);
                if news {
                    env.publish(&master);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                master.on_event(&mut env, MasterEvent::Timeout);
                env.publish(&master);
            }
            Err(RecvTimeoutError::Disconnected) => unreachable!("the environment holds a sender"),
        }
    }
    env.publish(&master);
    env.finish();
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
    fn publish(&self, master: &JobMaster) {
        let restarts = master.restarts();
        let history = master.history().cloned();
        self.board.update(|status| {
            status.restarts = restarts;
            if let Some(history) = history {
                status.history = history;
            }
        });
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
        let job = self.graph.job.clone();
        self.engine
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&job);
        let ended = self.ended.take();
        self.result.send_replace(ended);
    }

    fn deploy_context(&self, attempt: Attempt, restore: Option<Arc<RestorePlan>>) -> DeployContext {
        let io = StoreIo::new(
            self.worker.store().clone(),
            self.executor.clone(),
            self.engine.pool.clone(),
            (attempt.epoch, attempt.number),
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

    fn send(&mut self, to: SubtaskId, message: ToTask) {
        if let Some(task) = self.tasks.get(&to) {
            task.mailbox.send(Mail::Master(message));
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
            threads::spawn(
                deployed,
                self.engine.clock.clone(),
                self.engine.ticker.clone(),
                done,
            )?;
        }
        Ok(deployment.finished)
    }

    fn cancel_tasks(&mut self) {
        for task in self.tasks.values().filter(|t| t.alive) {
            task.mailbox.send(Mail::Master(ToTask::Cancel));
        }
        self.abandon_at = self.settings.tasks.cancellation_timeout.map(|t| self.now() + t);
    }

    fn answer(&mut self, request: RequestId, result: Answer) {
        let waiting = self
            .answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&request);
        if let Some(waiting) = waiting {
            let _heard = waiting.send(result);
        }
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

/// A state's name as Flink writes it.
pub fn state_name(state: JobState) -> String {
    match state {
        JobState::Created => "CREATED",
        JobState::Running => "RUNNING",
        JobState::Failing => "FAILING",
        JobState::Restarting => "RESTARTING",
        JobState::Cancelling => "CANCELLING",
        JobState::Canceled => "CANCELED",
        JobState::Failed => "FAILED",
        JobState::Finished => "FINISHED",
        JobState::Suspended => "SUSPENDED",
    }
    .to_owned()
}
