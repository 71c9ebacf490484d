//! Which operators run together in one task.

use tidegate_protocol::coordinator::{EdgePattern, Plan, PlanEdge, PlanError, PlanVertex};
use tidegate_types::{Parallelism, VertexId};

use super::{JobGraph, NodeId, OperatorNode, Spread};

/// Why an operator is chained to its producer, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainReason {
    /// It is.
    Chained,
    /// It is a source.
    Source,
    /// It has several incoming edges.
    SeveralInputs,
    /// Records are not handed on subtask by subtask.
    NotForward,
    /// The parallelism differs.
    Parallelism,
    /// Somebody asked for a chain to start or end here.
    Asked,
    /// Chaining is off.
    Off,
}

/// One chain: what becomes a task per subtask.
#[derive(Debug, Clone)]
pub struct Vertex {
    /// Its operators, head first; producers stand before consumers.
    pub nodes: Vec<NodeId>,
    /// How many subtasks.
    pub parallelism: Parallelism,
}

/// The chains of a graph.
#[derive(Debug, Clone)]
pub struct Chained {
    /// The chains.
    pub vertices: Vec<Vertex>,
    /// The chain of each operator.
    pub vertex_of: Vec<VertexId>,
    /// Why each operator is chained or not.
    pub reasons: Vec<ChainReason>,
}

impl Chained {
    pub(super) fn of(nodes: &[OperatorNode], chaining: bool) -> Self {
        let mut chained = Self {
            vertices: Vec::new(),
            vertex_of: Vec::new(),
            reasons: Vec::new(),
        };
        for (at, node) in nodes.iter().enumerate() {
            let reason = reason(nodes, node, chaining);
            chained.reasons.push(reason);
            let vertex = if reason == ChainReason::Chained {
                let vertex = chained.vertex_of[node.inputs[0].from.0];
                chained.vertices[vertex.0 as usize].nodes.push(NodeId(at));
                vertex
            } else {
                chained.vertices.push(Vertex {
                    nodes: vec![NodeId(at)],
                    parallelism: node.parallelism,
                });
                VertexId(chained.vertices.len() as u32 - 1)
            };
            chained.vertex_of.push(vertex);
        }
        chained
    }

    /// Whether an operator is chained to its producer.
    pub fn is_chained(&self, node: NodeId) -> bool {
        self.reasons[node.0] == ChainReason::Chained
    }

    /// The head of a chain.
    pub fn head(&self, vertex: VertexId) -> NodeId {
        self.vertices[vertex.0 as usize].nodes[0]
    }
}

fn reason(nodes: &[OperatorNode], node: &OperatorNode, chaining: bool) -> ChainReason {
    match &node.inputs[..] {
        [] => ChainReason::Source,
        [_, _, ..] => ChainReason::SeveralInputs,
        [edge] => {
            let producer = &nodes[edge.from.0];
            if edge.spread != Spread::Forward {
                ChainReason::NotForward
            } else if producer.parallelism != node.parallelism {
                ChainReason::Parallelism
            } else if node.starts_chain || producer.ends_chain {
                ChainReason::Asked
            } else if !chaining {
                ChainReason::Off
            } else {
                ChainReason::Chained
            }
        }
    }
}

impl JobGraph {
    /// The graph as the coordinator sees it.
    ///
    /// # Errors
    /// If the graph is empty or has a loop: the API can't make either.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        let vertices = self
            .chained
            .vertices
            .iter()
            .enumerate()
            .map(|(at, v)| PlanVertex {
                id: VertexId(at as u32),
                name: self.vertex_name(VertexId(at as u32)),
                parallelism: v.parallelism,
                max_parallelism: self.max_parallelism,
                operators: v.nodes.iter().map(|n| self.node(*n).uid.clone()).collect(),
            });
        let mut edges = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            if self.chained.is_chained(NodeId(at)) {
                continue;
            }
            for edge in &node.inputs {
                edges.push(PlanEdge {
                    from: self.chained.vertex_of[edge.from.0],
                    to: self.chained.vertex_of[at],
                    kind: edge.spread.kind().0,
                    pattern: match edge.spread {
                        Spread::Forward | Spread::Rescale => EdgePattern::Pointwise,
                        _ => EdgePattern::AllToAll,
                    },
                });
            }
        }
        Plan::new(vertices.collect(), edges)
    }
}
