//! The gates of one attempt, and which channel of which gate each producer writes.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_types::{InputIndex, SubtaskIndex};

use crate::chain::ChannelOrigin;
use crate::signal::TaskSignal;

use super::ops::AnyGate;
use super::{JobGraph, NodeId};

/// One gate with where its channels come from.
pub struct WiredGate {
    /// The typed gate in its box.
    pub gate: AnyGate,
    /// Per channel.
    pub origins: Vec<ChannelOrigin>,
}

/// All gates of an attempt.
pub struct Wiring {
    /// By head operator, subtask and slot.
    gates: HashMap<(NodeId, u32, usize), WiredGate>,
    /// By consumer, its input, consumer subtask and producer subtask: which channel of the gate.
    channels: HashMap<(NodeId, usize, u32, u32), usize>,
}

impl Wiring {
    /// Lays the gates out. `signals` are those of the tasks, by vertex and subtask. What is sent to operators that have
    /// `finished` is dropped: with at-least-once they may have come to their end in a snapshot in which their producers
    /// hadn't, and have processed already what these read again.
    pub fn new(
        graph: &JobGraph,
        signals: &[Vec<Arc<TaskSignal>>],
        finished: &dyn Fn(NodeId) -> bool,
    ) -> Self {
        let mut wiring = Self {
            gates: HashMap::new(),
            channels: HashMap::new(),
        };
        for at in 0..graph.nodes.len() {
            let node = NodeId(at);
            if !graph.chained.is_chained(node) && !graph.node(node).inputs.is_empty() {
                wiring.wire(graph, node, signals, finished(node));
            }
        }
        wiring
    }

    fn wire(&mut self, graph: &JobGraph, node: NodeId, signals: &[Vec<Arc<TaskSignal>>], finished: bool) {
        let consumer = graph.node(node);
        let vertex = graph.chained.vertex_of[node.0].0 as usize;
        let slots = consumer.inputs.iter().map(|e| e.slot).max().map_or(0, |s| s + 1);
        for subtask in 0..consumer.parallelism.0 {
            for slot in 0..slots {
                let mut origins = Vec::new();
                let mut ends = Vec::new();
                let mut ops = None;
                for (input, edge) in consumer.inputs.iter().enumerate().filter(|(_, e)| e.slot == slot) {
                    let producer = graph.node(edge.from);
                    let stream = edge.side.map_or(&producer.ops, |s| &producer.side_ops[s]);
                    let from = graph.chained.vertex_of[edge.from.0].0 as usize;
                    for p in 0..producer.parallelism.0 {
                        let reached = stream.consumers(
                            &*edge.partitioner,
                            p,
                            producer.parallelism.0,
                            consumer.parallelism.0,
                        );
                        if reached.contains(&subtask) {
                            self.channels.insert((node, input, subtask, p), origins.len());
                            let input = InputIndex(input as u32);
                            origins.push(ChannelOrigin {
                                input,
                                producer: SubtaskIndex(p),
                            });
                            ends.push((edge.spread.kind().0, signals[from][p as usize].clone()));
                        }
                    }
                    ops = Some(stream);
                }
                if let Some(ops) = ops {
                    let gate = ops.gate(signals[vertex][subtask as usize].clone(), ends);
                    if finished {
                        ops.discard(&gate);
                    }
                    self.gates
                        .insert((node, subtask, slot), WiredGate { gate, origins });
                }
            }
        }
    }

    /// The gate of an operator's subtask.
    ///
    /// # Panics
    /// If the operator has no such gate: a bug.
    pub fn gate(&self, node: NodeId, subtask: u32, slot: usize) -> &WiredGate {
        self.gates
            .get(&(node, subtask, slot))
            .expect("every head operator's gates were wired")
    }

    /// Which channel of the consumer's gate a producer writes, for every consumer that it reaches.
    pub fn channels_of(
        &self,
        node: NodeId,
        input: usize,
        consumers: u32,
        producer: u32,
    ) -> Vec<(u32, usize)> {
        (0..consumers)
            .filter_map(|c| Some((c, *self.channels.get(&(node, input, c, producer))?)))
            .collect()
    }
}
