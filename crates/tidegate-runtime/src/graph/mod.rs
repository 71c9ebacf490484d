//! The dataflow as a graph without types: what a job program builds, what a cluster deploys.
//!
//! Owns: operators and their edges ([`Operator`](OperatorNode)), how they are chained into vertices (`chains`), how
//! the tasks of one attempt are wired and made (`deploy`), the plan for people (`explain`). Does not own: the
//! typed API (the facade), running (drivers and the job master).
//!
//! Types come back at two places only: an operator's [`Make`] knows its input and output types, a stream's
//! [`StreamOps`] knows its record type. Everything between passes boxes whose types agree because the typed API
//! made both ends; a mismatch is a bug of ours and named as such.

mod build;
mod chains;
mod deploy;
mod explain;
mod ops;
mod wiring;

use std::any::Any;
use std::sync::Arc;

use tidegate_types::{EdgeKind, JobId, MaxParallelism, OperatorUid, Parallelism, VertexId};

use crate::error::BoxError;
use crate::operators::{AnyCommitter, SinkContext};
use crate::source::{AnyEnumerator, AnySource};

pub use build::{
    Built, Make, MakeContext, Outputs, make_one_input, make_sink_node, make_source, make_two_input,
};
pub use chains::{ChainReason, Chained, Vertex};
pub use deploy::{Attempt, DeployContext, Deployed, Deployment, Fetch, RestorePlan};
pub use ops::{StreamOps, TypedOps};
pub use wiring::{WiredGate, Wiring};

/// An operator's place in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// How an edge spreads records, for people and for chaining; the typed partitioner is beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Spread {
    /// Subtask i to subtask i.
    Forward,
    /// By key.
    Hash,
    /// In turn over all.
    Rebalance,
    /// In turn over neighbours.
    Rescale,
    /// To all.
    Broadcast,
    /// By a function.
    Custom {
        /// It depends on the record alone.
        stable: bool,
    },
}

impl Spread {
    /// What the edge can do about barriers, and why.
    pub fn kind(self) -> (EdgeKind, &'static str) {
        match self {
            Self::Broadcast => (
                EdgeKind::Sealed,
                "every consumer has a copy: restored in-flight records would be delivered more than once",
            ),
            Self::Forward | Self::Hash | Self::Rebalance | Self::Rescale => (
                EdgeKind::Normal,
                "in-flight records can be routed anew after a restore",
            ),
            Self::Custom { stable: true } => (EdgeKind::Normal, "the partitioner is stable"),
            Self::Custom { stable: false } => (
                EdgeKind::Normal,
                "at unchanged parallelism only: the partitioner isn't declared stable",
            ),
        }
    }

    /// Its name, as Flink shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "FORWARD",
            Self::Hash => "HASH",
            Self::Rebalance => "REBALANCE",
            Self::Rescale => "RESCALE",
            Self::Broadcast => "BROADCAST",
            Self::Custom { .. } => "CUSTOM",
        }
    }
}

/// One incoming edge of an operator.
pub struct InputEdge {
    /// The producer.
    pub from: NodeId,
    /// Which of its outputs: `None` the main one, else a side output.
    pub side: Option<usize>,
    /// How records are spread.
    pub spread: Spread,
    /// The typed `Partitioner`, in its box.
    pub partitioner: Arc<dyn Any + Send + Sync>,
    /// Which gate of the operator: 0, or 1 for the second input of a two-input operator.
    pub slot: usize,
}

/// One operator.
pub struct OperatorNode {
    /// Its identity; made from name and position if the user gave none.
    pub uid: OperatorUid,
    /// Whether the user gave the uid.
    pub uid_given: bool,
    /// Display name.
    pub name: Arc<str>,
    /// How many subtasks.
    pub parallelism: Parallelism,
    /// Whether it has state that must be found again.
    pub stateful: bool,
    /// Never chained to what is before it.
    pub starts_chain: bool,
    /// Never chained to what is behind it.
    pub ends_chain: bool,
    /// Incoming edges, in the order of their input index.
    pub inputs: Vec<InputEdge>,
    /// Makes its runtime form.
    pub make: Make,
    /// Its main output's type.
    pub ops: Arc<dyn StreamOps>,
    /// Its side outputs' types.
    pub side_ops: Vec<Arc<dyn StreamOps>>,
    /// For a source.
    pub source: Option<SourceSpec>,
    /// For a sink.
    pub sink: Option<SinkSpec>,
    /// What is worth knowing about it (warnings on types, state descriptions).
    pub notes: Vec<String>,
}

/// Makes a source's enumerator: a new one or one from its state.
pub type MakeEnumerator =
    Arc<dyn Fn(Option<&[u8]>) -> Result<Box<dyn AnyEnumerator>, BoxError> + Send + Sync>;

/// Makes a sink's committer.
pub type MakeCommitter =
    Arc<dyn Fn(SinkContext) -> Result<Option<Box<dyn AnyCommitter>>, BoxError> + Send + Sync>;

/// What a source has beside the coordinator.
#[derive(Clone)]
pub struct SourceSpec {
    /// Makes its enumerator.
    pub enumerator: MakeEnumerator,
    /// See [`Source::job_starts`](crate::source::Source::job_starts).
    pub job_starts: Arc<dyn Fn() + Send + Sync>,
    /// See [`Source::job_ended`](crate::source::Source::job_ended).
    pub job_ended: Arc<dyn Fn() + Send + Sync>,
}

impl SourceSpec {
    /// What `source` has beside the coordinator.
    pub fn of<T: 'static>(source: &Arc<dyn AnySource<T>>) -> Self {
        let (makes, starts, ended) = (source.clone(), source.clone(), source.clone());
        Self {
            enumerator: Arc::new(move |restored| makes.enumerator(restored)),
            job_starts: Arc::new(move || starts.job_starts()),
            job_ended: Arc::new(move || ended.job_ended()),
        }
    }
}

/// What a sink has beside the coordinator.
#[derive(Clone)]
pub struct SinkSpec {
    /// Makes its committer.
    pub committer: MakeCommitter,
}

/// A job's dataflow.
pub struct JobGraph {
    /// The job.
    pub job: JobId,
    /// Display name.
    pub name: Arc<str>,
    /// Key groups.
    pub max_parallelism: MaxParallelism,
    /// Operators; producers stand before consumers.
    pub nodes: Vec<OperatorNode>,
    /// How they are chained.
    pub chained: Chained,
}

impl JobGraph {
    /// A graph with its chains laid out.
    pub fn new(
        job: JobId,
        name: Arc<str>,
        max_parallelism: MaxParallelism,
        nodes: Vec<OperatorNode>,
        chaining: bool,
    ) -> Self {
        let chained = Chained::of(&nodes, chaining);
        Self {
            job,
            name,
            max_parallelism,
            nodes,
            chained,
        }
    }

    /// An operator.
    pub fn node(&self, id: NodeId) -> &OperatorNode {
        &self.nodes[id.0]
    }

    /// The display name of a vertex: its operators' names.
    pub fn vertex_name(&self, vertex: VertexId) -> String {
        let names: Vec<&str> = self.chained.vertices[vertex.0 as usize]
            .nodes
            .iter()
            .map(|n| &*self.node(*n).name)
            .collect();
        names.join(" -> ")
    }

    /// Tells every source that the job is being started in this process. Whoever starts it does, before the first
    /// attempt.
    pub fn job_starts(&self) {
        self.nodes
            .iter()
            .filter_map(|n| n.source.as_ref())
            .for_each(|s| (s.job_starts)());
    }

    /// Tells every source that the job has ended in this process. Whoever led it does, before others hear of the end.
    pub fn job_ended(&self) {
        self.nodes
            .iter()
            .filter_map(|n| n.source.as_ref())
            .for_each(|s| (s.job_ended)());
    }

    /// All sub-consumers of a node's output, in the order of the graph: (consumer, input index).
    pub fn consumers(&self, of: NodeId, side: Option<usize>) -> Vec<(NodeId, usize)> {
        let mut found = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            for (input, edge) in node.inputs.iter().enumerate() {
                if edge.from == of && edge.side == side {
                    found.push((NodeId(at), input));
                }
            }
        }
        found
    }
}
