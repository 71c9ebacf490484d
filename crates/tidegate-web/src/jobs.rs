//! What the web interface needs of the jobs it shows: a small trait, and the engine of this process behind it.
//!
//! Owns: [`Jobs`] and [`Job`], the dataflow as REST shows it ([`JobPlan`]), and their implementation for jobs in this
//! process. Does not own: what is shown of them (`handlers`, `prometheus`, `page`).
//!
//! Handlers know nothing but these traits, so tests give them jobs made by hand, and the job manager of a cluster can
//! be put behind them later.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use tidegate_protocol::coordinator::{Request, RequestDone, RequestFailure};
use tidegate_runtime::graph::{JobGraph, NodeId};
use tidegate_runtime::master::StatusBoard;
use tidegate_runtime::master::local::{Engine, RunningJob};
use tidegate_types::options::Settings;
use tidegate_types::{CheckpointId, EventTime, Nanos, VertexId};

/// How a request to a job ended.
pub type Answer = Result<RequestDone, RequestFailure>;

/// An [`Answer`] that is on its way.
pub type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The jobs that a server shows.
pub trait Jobs: Send + Sync + 'static {
    /// Every job, the newest last, ended ones too. Of several with one id, the newest is shown.
    fn jobs(&self) -> Vec<Arc<dyn Job>>;

    /// The clock that the jobs' histories are written with.
    fn now(&self) -> Nanos;

    /// Milliseconds since the Unix epoch.
    fn wall_ms(&self) -> EventTime;
}

/// One job.
pub trait Job: Send + Sync {
    /// Its status.
    fn board(&self) -> &StatusBoard;

    /// Its settings.
    fn settings(&self) -> &Settings;

    /// Its dataflow.
    fn plan(&self) -> JobPlan;

    /// Where a checkpoint of it is; `None` if checkpoints are only in memory.
    fn checkpoint_path(&self, id: CheckpointId) -> Option<String>;

    /// Asks for something; the answer comes when that is done or has failed.
    fn request(&self, what: Request) -> Answering;

    /// Cancels it.
    fn cancel(&self);

    /// The error it ended with, if it did.
    fn error(&self) -> Option<String>;
}

/// A job's dataflow, vertex by vertex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPlan {
    /// Key groups.
    pub max_parallelism: u32,
    /// The vertices, by id.
    pub vertices: Vec<PlanVertex>,
}

/// One vertex of a plan; its name and parallelism are in the status.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanVertex {
    /// Its incoming edges.
    pub inputs: Vec<PlanInput>,
}

/// An edge into a vertex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanInput {
    /// The producer.
    pub from: VertexId,
    /// How records are spread, in Flink's words: `FORWARD`, `HASH`, …
    pub ship_strategy: &'static str,
    /// What barriers can do on it: `normal`, `sealed`, `feedback`.
    pub kind: String,
}

impl JobPlan {
    /// The plan of a graph.
    pub fn of(graph: &JobGraph) -> Self {
        let mut vertices = vec![PlanVertex::default(); graph.chained.vertices.len()];
        for (at, node) in graph.nodes.iter().enumerate() {
            if graph.chained.is_chained(NodeId(at)) {
                continue;
            }
            let vertex = graph.chained.vertex_of[at].0 as usize;
            vertices[vertex]
                .inputs
                .extend(node.inputs.iter().map(|edge| PlanInput {
                    from: graph.chained.vertex_of[edge.from.0],
                    ship_strategy: edge.spread.name(),
                    kind: edge.spread.kind().0.to_string(),
                }));
        }
        Self {
            max_parallelism: graph.max_parallelism.0,
            vertices,
        }
    }
}

impl Job for RunningJob {
    fn board(&self) -> &StatusBoard {
        self.board()
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn plan(&self) -> JobPlan {
        JobPlan::of(self.graph())
    }

    fn checkpoint_path(&self, id: CheckpointId) -> Option<String> {
        self.checkpoint_path(id)
    }

    fn request(&self, what: Request) -> Answering {
        Box::pin(self.request(what))
    }

    fn cancel(&self) {
        self.cancel();
    }

    fn error(&self) -> Option<String> {
        self.try_ended()?.err().map(|error| error.to_string())
    }
}

/// The jobs of an engine, without keeping it alive: connections run on the engine's own runtime, which must not be
/// brought down from inside.
pub(crate) struct EngineJobs(pub(crate) Weak<Engine>);

impl Jobs for EngineJobs {
    fn jobs(&self) -> Vec<Arc<dyn Job>> {
        let Some(engine) = self.0.upgrade() else {
            return Vec::new();
        };
        engine.jobs().into_iter().map(|job| job as Arc<dyn Job>).collect()
    }

    fn now(&self) -> Nanos {
        self.0.upgrade().map_or(Nanos::default(), |engine| engine.now())
    }

    fn wall_ms(&self) -> EventTime {
        self.0.upgrade().map_or(0, |engine| engine.wall_ms())
    }
}
