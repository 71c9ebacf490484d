//! Which subtasks there are and who feeds whom: what the coordinator must know of the execution graph.
//!
//! Owns: the graph as data, its validation, and the one rule that says which producers a pointwise edge gives a
//! consumer ([`pointwise_producers`]; whoever wires channels uses it too). Does not own: which tasks run or have
//! finished (`tasks.rs`), where they run.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tidegate_types::{EdgeKind, MaxParallelism, OperatorUid, Parallelism, SubtaskId, SubtaskIndex, VertexId};

/// One vertex of the execution graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanVertex {
    /// Its id.
    pub id: VertexId,
    /// What the history calls it.
    pub name: String,
    /// How many subtasks it has.
    pub parallelism: Parallelism,
    /// How many key groups its operators have.
    pub max_parallelism: MaxParallelism,
    /// The operators of its chain, first to last.
    pub operators: Vec<OperatorUid>,
}

/// An edge between two vertices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEdge {
    /// The producers.
    pub from: VertexId,
    /// The consumers.
    pub to: VertexId,
    /// What barriers can do on it. Feedback edges bring no barrier that starts a checkpoint.
    pub kind: EdgeKind,
    /// Which producer has a channel to which consumer.
    pub pattern: EdgePattern,
}

/// Which producers have a channel to which consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EdgePattern {
    /// Every one to every one: hash, rebalance, broadcast, custom.
    AllToAll,
    /// Neighbours only ([`pointwise_producers`]): forward, rescale.
    Pointwise,
}

/// The producers that have a channel to `consumer` on a pointwise edge.
///
/// With as many or more producers than consumers each consumer has a run of neighbouring producers, and no
/// producer has two consumers; with fewer, each consumer has one producer.
pub fn pointwise_producers(
    consumer: SubtaskIndex,
    producers: Parallelism,
    consumers: Parallelism,
) -> Range<u32> {
    let (c, p, n) = (
        u64::from(consumer.0),
        u64::from(producers.0),
        u64::from(consumers.0),
    );
    assert!(c < n && p > 0, "consumer {c} of {n} with {p} producers");
    let first = c * p / n;
    let end = ((c + 1) * p / n).max(first + 1);
    // Both are at most `p`, which came from a u32.
    (first as u32)..(end as u32)
}

/// A graph that can't be checkpointed. A bug in whoever built it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// Two vertices with one id.
    #[error("vertex {0} is in the plan twice")]
    DuplicateVertex(VertexId),
    /// A vertex without subtasks.
    #[error("vertex {0} has parallelism 0")]
    NoSubtasks(VertexId),
    /// An edge from or to nowhere.
    #[error("an edge names vertex {0}, which is not in the plan")]
    UnknownVertex(VertexId),
    /// A loop without a feedback edge: no barrier could ever get through.
    #[error("vertex {0} is on a cycle without a feedback edge")]
    Cycle(VertexId),
    /// Nothing to do.
    #[error("the plan has no vertex")]
    Empty,
}

/// The execution graph, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    vertices: Vec<PlanVertex>,
    edges: Vec<PlanEdge>,
    /// Position of a vertex in `vertices`.
    positions: BTreeMap<VertexId, usize>,
    /// Positions, producers before consumers.
    order: Vec<usize>,
    /// By position: incoming edges that bring barriers, as (producer's position, pattern).
    inputs: Vec<Vec<(usize, EdgePattern)>>,
    /// By position: which connected part of the graph the vertex is in, named by its lowest position.
    components: Vec<usize>,
}

impl Plan {
    /// Checks a graph and keeps it.
    ///
    /// # Errors
    /// If a vertex is missing, doubled or empty, or a cycle has no feedback edge.
    pub fn new(vertices: Vec<PlanVertex>, edges: Vec<PlanEdge>) -> Result<Self, PlanError> {
        if vertices.is_empty() {
            return Err(PlanError::Empty);
        }
        let mut positions = BTreeMap::new();
        for (position, vertex) in vertices.iter().enumerate() {
            if vertex.parallelism.0 == 0 {
                return Err(PlanError::NoSubtasks(vertex.id));
            }
            if positions.insert(vertex.id, position).is_some() {
                return Err(PlanError::DuplicateVertex(vertex.id));
            }
        }
        let at = |id: VertexId| positions.get(&id).copied().ok_or(PlanError::UnknownVertex(id));
        let mut inputs = vec![Vec::new(); vertices.len()];
        let mut components: Vec<usize> = (0..vertices.len()).collect();
        for edge in &edges {
            let (from, to) = (at(edge.from)?, at(edge.to)?);
            match edge.kind {
                EdgeKind::Normal | EdgeKind::Sealed => inputs[to].push((from, edge.pattern)),
                EdgeKind::Feedback => {}
            }
            let (a, b) = (components[from], components[to]);
            components
                .iter_mut()
                .filter(|c| **c == a || **c == b)
                .for_each(|c| *c = a.min(b));
        }
        let order = topological(&inputs).map_err(|position| PlanError::Cycle(vertices[position].id))?;
        Ok(Self {
            vertices,
            edges,
            positions,
            order,
            inputs,
            components,
        })
    }

    /// The vertices, in the order they were given.
    pub fn vertices(&self) -> &[PlanVertex] {
        &self.vertices
    }

    /// The edges.
    pub fn edges(&self) -> &[PlanEdge] {
        &self.edges
    }

    /// How many subtasks there are.
    pub fn subtask_count(&self) -> usize {
        self.vertices
            .iter()
            .map(|vertex| vertex.parallelism.0 as usize)
            .sum()
    }

    /// Every subtask, ascending by vertex in the order they were given.
    pub fn subtasks(&self) -> impl Iterator<Item = SubtaskId> + '_ {
        self.vertices.iter().flat_map(|vertex| {
            (0..vertex.parallelism.0).map(|index| SubtaskId::new(vertex.id, SubtaskIndex(index)))
        })
    }

    /// Whether the plan has this subtask.
    pub fn contains(&self, subtask: SubtaskId) -> bool {
        self.position(subtask.vertex)
            .is_some_and(|position| subtask.index.0 < self.vertices[position].parallelism.0)
    }

    /// Whether no barrier can come to this vertex through a channel.
    pub fn is_source(&self, vertex: VertexId) -> bool {
        self.position(vertex)
            .is_some_and(|position| self.inputs[position].is_empty())
    }

    pub(super) fn position(&self, vertex: VertexId) -> Option<usize> {
        self.positions.get(&vertex).copied()
    }

    /// Positions of vertices, producers before consumers.
    pub(super) fn order(&self) -> &[usize] {
        &self.order
    }

    pub(super) fn inputs(&self, position: usize) -> &[(usize, EdgePattern)] {
        &self.inputs[position]
    }

    pub(super) fn component(&self, position: usize) -> usize {
        self.components[position]
    }
}

/// Positions with producers before consumers, or a position on a cycle.
fn topological(inputs: &[Vec<(usize, EdgePattern)>]) -> Result<Vec<usize>, usize> {
    let mut open: Vec<usize> = inputs.iter().map(Vec::len).collect();
    let mut order: Vec<usize> = (0..inputs.len()).filter(|&v| open[v] == 0).collect();
    let mut next = 0;
    while next < order.len() {
        let done = order[next];
        next += 1;
        for (consumer, producers) in inputs.iter().enumerate() {
            let edges = producers.iter().filter(|(from, _)| *from == done).count();
            if edges > 0 {
                open[consumer] -= edges;
                if open[consumer] == 0 {
                    order.push(consumer);
                }
            }
        }
    }
    match open.iter().position(|&edges| edges > 0) {
        Some(on_cycle) => Err(on_cycle),
        None => Ok(order),
    }
}
