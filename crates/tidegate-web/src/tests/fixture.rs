//! A job made by hand: two vertices with two subtasks each; its checkpoints are in [`history`].

mod history;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{Request as HttpRequest, StatusCode};
use axum::response::Response;
use axum::{Router, body};
use serde_json::Value;
use tidegate_protocol::coordinator::{History, Request, RequestFailure};
use tidegate_runtime::master::{JobState, JobStatus, StatusBoard, SubtaskInfo, VertexInfo};
use tidegate_runtime::task::{TaskMetrics, TaskStatus};
use tidegate_types::options::Settings;
use tidegate_types::{CheckpointId, EventTime, JobId, Nanos, SubtaskId, SubtaskIndex, VertexId};
use tokio::sync::oneshot;
use tower::ServiceExt;

use crate::guard::Guard;
use crate::jobs::{Answer, Answering, Job, JobPlan, Jobs, PlanInput, PlanVertex};
use crate::routes::router;
use crate::state::{AppState, Shared};

/// The wall clock when the jobs' clock stands at zero.
pub(super) const EPOCH_MS: EventTime = 1_700_000_000_000;

/// XXH3-128 of `numbers` and `sum`, the heads of the chains, as `xxhsum -H2` prints them.
pub(super) const SOURCE_ID: &str = "d1ec94d19d1e150d3e3a0e2d72c7d719";
pub(super) const SUM_ID: &str = "66e2da9a3d5b79927387636ba3e92f70";

pub(super) struct FakeJob {
    board: StatusBoard,
    settings: Settings,
    pub(super) error: Option<String>,
    pub(super) requests: Mutex<Vec<Request>>,
    answers: Mutex<VecDeque<oneshot::Sender<Answer>>>,
    pub(super) cancels: AtomicUsize,
}

impl FakeJob {
    pub(super) fn new(status: JobStatus) -> Self {
        let mut settings = Settings::default();
        settings.job.id = status.job.clone();
        settings.checkpoints.dir = Some("/checkpoints".to_owned());
        Self {
            board: StatusBoard::new(status),
            settings,
            error: None,
            requests: Mutex::default(),
            answers: Mutex::default(),
            cancels: AtomicUsize::new(0),
        }
    }

    pub(super) fn with_settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// The counters of a subtask, by its place in the status.
    pub(super) fn metrics(&self, at: usize) -> Arc<TaskMetrics> {
        self.board.with(|status| status.subtasks[at].metrics.clone())
    }

    /// Answers the oldest request.
    pub(super) fn answer(&self, answer: Answer) {
        let sender = self
            .answers
            .lock()
            .unwrap()
            .pop_front()
            .expect("something was asked for");
        sender.send(answer).expect("somebody waits for it");
    }
}

impl Job for FakeJob {
    fn board(&self) -> &StatusBoard {
        &self.board
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn plan(&self) -> JobPlan {
        let input = PlanInput {
            from: VertexId(0),
            ship_strategy: "HASH",
            kind: "normal".to_owned(),
        };
        JobPlan {
            max_parallelism: 128,
            vertices: vec![PlanVertex::default(), PlanVertex { inputs: vec![input] }],
        }
    }

    fn checkpoint_path(&self, id: CheckpointId) -> Option<String> {
        Some(format!("/checkpoints/counts/chk-{id}"))
    }

    fn request(&self, what: Request) -> Answering {
        let (sender, receiver) = oneshot::channel();
        self.requests.lock().unwrap().push(what);
        self.answers.lock().unwrap().push_back(sender);
        let refused = || RequestFailure::Refused {
            reason: "the job has ended".to_owned(),
        };
        Box::pin(async move { receiver.await.unwrap_or_else(|_| Err(refused())) })
    }

    fn cancel(&self) {
        self.cancels.fetch_add(1, Relaxed);
    }

    fn error(&self) -> Option<String> {
        self.error.clone()
    }
}

/// Jobs with clocks that stand still until they are moved.
#[derive(Default)]
pub(super) struct FakeJobs {
    pub(super) jobs: Mutex<Vec<Arc<FakeJob>>>,
    now_ms: AtomicU64,
    /// How far the wall clock was set.
    pub(super) set_ms: AtomicI64,
}

impl FakeJobs {
    pub(super) fn of(jobs: Vec<FakeJob>) -> Arc<Self> {
        let this = Self {
            jobs: Mutex::new(jobs.into_iter().map(Arc::new).collect()),
            ..Self::default()
        };
        this.now_ms.store(60_000, Relaxed);
        Arc::new(this)
    }

    pub(super) fn pass(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Relaxed);
    }
}

impl Jobs for FakeJobs {
    fn jobs(&self) -> Vec<Arc<dyn Job>> {
        self.jobs
            .lock()
            .unwrap()
            .iter()
            .map(|job| job.clone() as Arc<dyn Job>)
            .collect()
    }

    fn now(&self) -> Nanos {
        Nanos(self.now_ms.load(Relaxed) * 1_000_000)
    }

    fn wall_ms(&self) -> EventTime {
        EPOCH_MS + self.now_ms.load(Relaxed) as i64 + self.set_ms.load(Relaxed)
    }
}

/// A router over some jobs, and a runtime to drive it.
pub(super) struct App {
    pub(super) jobs: Arc<FakeJobs>,
    pub(super) state: AppState,
    pub(super) router: Router,
    pub(super) runtime: tokio::runtime::Runtime,
}

impl App {
    pub(super) fn new(jobs: Vec<FakeJob>) -> Self {
        let jobs = FakeJobs::of(jobs);
        let state = Shared::new(jobs.clone());
        let router = router(state.clone(), Guard::loopback("localhost"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        Self {
            jobs,
            state,
            router,
            runtime,
        }
    }

    /// One running job.
    pub(super) fn counts() -> Self {
        Self::new(vec![FakeJob::new(counts())])
    }

    pub(super) fn job(&self, at: usize) -> Arc<FakeJob> {
        self.jobs.jobs.lock().unwrap()[at].clone()
    }

    pub(super) fn respond(&self, request: HttpRequest<Body>) -> Response {
        self.runtime
            .block_on(self.router.clone().oneshot(request))
            .unwrap()
    }

    pub(super) fn send(&self, method: &str, path: &str, content: &str) -> (StatusCode, String) {
        let request = HttpRequest::builder()
            .method(method)
            .uri(path)
            .body(Body::from(content.to_owned()));
        let response = self.respond(request.unwrap());
        let status = response.status();
        let bytes = self
            .runtime
            .block_on(body::to_bytes(response.into_body(), usize::MAX))
            .unwrap();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    pub(super) fn json(&self, method: &str, path: &str, content: &str) -> (StatusCode, Value) {
        let (status, text) = self.send(method, path, content);
        (
            status,
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{path} answered {text}")),
        )
    }

    /// The answer of a path that is fine.
    pub(super) fn get(&self, path: &str) -> Value {
        let (status, value) = self.json("GET", path, "");
        assert_eq!(status, StatusCode::OK, "{path}: {value}");
        value
    }

    /// Lets what was spawned before go on until it waits: the runtime has one queue, and this ends behind it.
    pub(super) fn settle(&self) {
        self.runtime.block_on(async {
            tokio::spawn(async {}).await.unwrap();
            tokio::spawn(async {}).await.unwrap();
        });
    }
}

pub(super) fn sub(vertex: u32, index: u32) -> SubtaskId {
    SubtaskId::new(VertexId(vertex), SubtaskIndex(index))
}

fn vertices() -> Vec<VertexInfo> {
    let vertex = |name: &str, uids: &[&str]| VertexInfo {
        name: name.to_owned(),
        uids: uids.iter().map(|uid| (*uid).to_owned()).collect(),
        parallelism: 2,
    };
    vec![
        vertex("Source: numbers", &["numbers"]),
        vertex("sum -> print", &["sum", "print"]),
    ]
}

/// Counters of a subtask after ten seconds: what it was doing follows from its number.
fn metrics(id: SubtaskId) -> Arc<TaskMetrics> {
    let metrics = TaskMetrics::default();
    let share = u64::from(id.index.0 + 1);
    metrics
        .records_in
        .store(if id.vertex.0 == 0 { 0 } else { 1000 * share }, Relaxed);
    metrics.records_out.store(2000 * share, Relaxed);
    metrics.busy_ns.store(2_000_000_000, Relaxed);
    metrics.idle_ns.store(5_000_000_000, Relaxed);
    metrics.backpressured_ns.store(3_000_000_000, Relaxed);
    metrics.queued.store(25, Relaxed);
    metrics.capacity.store(100, Relaxed);
    metrics.watermark.store(1234, Relaxed);
    metrics.set_status(TaskStatus::Running);
    Arc::new(metrics)
}

/// The running job.
pub(super) fn counts() -> JobStatus {
    let all = [sub(0, 0), sub(0, 1), sub(1, 0), sub(1, 1)];
    JobStatus {
        job: JobId::from("counts"),
        name: "Counts of <words>".to_owned(),
        state: JobState::Running,
        since: BTreeMap::from([
            ("CREATED".to_owned(), EPOCH_MS + 1000),
            ("RUNNING".to_owned(), EPOCH_MS + 2000),
        ]),
        attempts: 1,
        restarts: 0,
        last_failure: None,
        failures: VecDeque::new(),
        abandoned_threads: 0,
        vertices: vertices(),
        subtasks: all
            .map(|id| SubtaskInfo {
                id,
                metrics: metrics(id),
            })
            .to_vec(),
        history: history::history(),
    }
}

/// A job that never took a checkpoint.
pub(super) fn plain(job: &str, state: JobState, entered: &[(&str, EventTime)]) -> JobStatus {
    JobStatus {
        job: JobId::from(job),
        name: job.to_owned(),
        state,
        since: entered
            .iter()
            .map(|(state, at)| ((*state).to_owned(), EPOCH_MS + at))
            .collect(),
        attempts: 0,
        subtasks: Vec::new(),
        history: History::new(10),
        ..counts()
    }
}
