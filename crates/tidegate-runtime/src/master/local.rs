//! Jobs in this process: a master's thread per job, a thread per task, one shared runtime.

mod env;
mod job;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_protocol::coordinator::{History, TraceEvent};
use tidegate_protocol::restart::Restarts;
use tidegate_storage::{CheckpointStore, JobLock, LockHolder, Nonces};
use tidegate_types::options::{CheckpointRetention, Settings};
use tidegate_types::{AttemptNumber, EventTime, JobId, Nanos};

use crate::clock::{Clock, SystemClock};
use crate::driver::pool::Pool;
use crate::driver::ticker::Ticker;
use crate::graph::JobGraph;

use super::configured::{coordinator_settings, restart_strategy};
use super::env::RestoreChoice;
use super::error::JobError;
use super::io::{Executor, StoreWorker, StoreWorkerParts};
use super::machine::{JobMaster, MasterParts};
use super::status::{JobState, JobStatus, StatusBoard, VertexInfo};

pub use job::{Ended, RunningJob};

use env::{LocalEnv, News, lead};

/// How many ended jobs an engine remembers, with their status and what their programs captured.
pub const REMEMBERED_JOBS: usize = 64;

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
#[derive(thiserror::Error)]
pub enum StartError {
    /// The same job runs in this process.
    #[error(
        "job `{0}` runs in this process already; give the second one another name, or another pipeline.job-id (--job-id)"
    )]
    Duplicate(JobId),
    /// A thread or runtime can't be made.
    #[error("the runtime can't be started: {0}")]
    Runtime(#[from] std::io::Error),
    /// The job itself can't be started.
    #[error(transparent)]
    Job(#[from] JobError),
}

/// The text itself: what `main` returns is printed by it.
impl fmt::Debug for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
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

    /// The jobs started here, the newest last: those that run, and the last [`REMEMBERED_JOBS`] that ended.
    pub fn jobs(&self) -> Vec<Arc<RunningJob>> {
        self.boards.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets go of jobs that ended long ago.
    fn forget_old(&self) {
        let mut boards = self.boards.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = boards.iter().filter(|job| job.try_ended().is_some()).count();
        let mut too_many = ended.saturating_sub(REMEMBERED_JOBS);
        boards.retain(|job| {
            let goes = too_many > 0 && job.try_ended().is_some();
            too_many -= usize::from(goes);
            !goes
        });
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
        graph.job_starts();
        let started = self.try_run(graph.clone(), settings, trace, board);
        if started.is_err() {
            graph.job_ended();
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
        let restart = restart_strategy(&settings);
        restart
            .validate()
            .map_err(|e| JobError::Settings(e.to_string()))?;
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
            checkpoints: coordinator_settings(&settings, trace.is_some() || steps_are_logged()),
            restart: Restarts::new(restart, seed()),
            restore: RestoreChoice::from(settings.recovery.from.as_ref()),
            new_lineage: settings.recovery.new_lineage,
            running: None,
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
            news: News::default(),
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

/// Whether anybody listens to the steps of checkpoints; a job that starts before its program logs has none.
fn steps_are_logged() -> bool {
    tracing::enabled!(target: STEPS, tracing::Level::DEBUG)
}

/// The target of the events of each step of a checkpoint.
const STEPS: &str = "tidegate::checkpoints";

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

fn first_status(graph: &JobGraph, settings: &Settings, now: EventTime) -> JobStatus {
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
        history: History::new(settings.checkpoints.history_size),
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
