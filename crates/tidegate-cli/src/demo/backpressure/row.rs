//! One checkpoint as a row of figures.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tidegate::runtime::graph::JobGraph;
use tidegate_protocol::coordinator::CheckpointStats;
use tidegate_types::{OperatorUid, SnapshotMode};

use crate::render::ms;

/// One checkpoint, as `--json` prints it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) mode: String,
    pub(super) in_flight: String,
    pub(super) checkpoint: u64,
    /// From the trigger until the checkpoint was durable.
    pub(super) duration_ms: f64,
    /// From the trigger to the last acknowledgement, which is what Flink calls its duration.
    pub(super) acknowledged_ms: f64,
    pub(super) size_bytes: u64,
    pub(super) state_bytes: u64,
    pub(super) in_flight_bytes: u64,
    pub(super) in_flight_records: u64,
    /// Subtasks in which a barrier overtook, and those in which none did.
    pub(super) switched: u64,
    pub(super) unswitched: u64,
    pub(super) subtasks: Vec<Subtask>,
    #[serde(skip)]
    pub(super) duration: Duration,
    #[serde(skip)]
    pub(super) persisted: Persisted,
}

/// One subtask's part.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Subtask {
    vertex: String,
    subtask: u32,
    start_delay_ms: f64,
    alignment_ms: f64,
    sync_ms: f64,
    async_ms: f64,
    end_to_end_ms: f64,
    persisted_bytes: u64,
    persisted_records: u64,
    unaligned: bool,
}

/// Bytes in flight, by who sent them, by who was to get them, and by the edge between.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Persisted {
    pub(super) by_producer: BTreeMap<String, u64>,
    pub(super) by_consumer: BTreeMap<String, u64>,
    pub(super) by_edge: BTreeMap<String, u64>,
}

impl Persisted {
    /// Adds another checkpoint's.
    pub(super) fn add(&mut self, other: &Self) {
        let maps = [
            (&mut self.by_producer, &other.by_producer),
            (&mut self.by_consumer, &other.by_consumer),
            (&mut self.by_edge, &other.by_edge),
        ];
        for (into, from) in maps {
            from.iter()
                .for_each(|(name, bytes)| *into.entry(name.clone()).or_default() += bytes);
        }
    }
}

/// The row of a complete checkpoint.
pub(super) fn row(graph: &JobGraph, mode: &str, in_flight: &str, stats: &CheckpointStats) -> Row {
    let mut subtasks = Vec::new();
    let mut persisted = Persisted::default();
    for task in &stats.tasks {
        let vertex = graph.vertex_name(task.vertex);
        for (index, part) in task.subtasks.iter().enumerate() {
            let Some(part) = part else { continue };
            let s = &part.stats;
            for channel in &s.channels {
                let (from, to) = ends(graph, &channel.uid, channel.address.input.0);
                let add =
                    |map: &mut BTreeMap<String, u64>, name| *map.entry(name).or_default() += channel.bytes;
                add(
                    &mut persisted.by_producer,
                    format!("{from} #{}", channel.address.producer),
                );
                add(
                    &mut persisted.by_consumer,
                    format!("{to} #{}", channel.address.consumer),
                );
                add(&mut persisted.by_edge, format!("{from} to {to}"));
            }
            subtasks.push(Subtask {
                vertex: vertex.clone(),
                subtask: index as u32,
                start_delay_ms: ms(s.start_delay),
                alignment_ms: ms(s.alignment),
                sync_ms: ms(s.sync),
                async_ms: ms(s.asynchronous),
                end_to_end_ms: ms(s.end_to_end),
                persisted_bytes: s.persisted_bytes,
                persisted_records: s.persisted_records,
                unaligned: s.mode == Some(SnapshotMode::Unaligned),
            });
        }
    }
    let duration = stats
        .ended_at
        .map_or_else(|| stats.end_to_end(), |at| at.since(stats.triggered_at));
    let switched = subtasks.iter().filter(|s| s.unaligned).count() as u64;
    Row {
        mode: mode.to_owned(),
        in_flight: in_flight.to_owned(),
        checkpoint: stats.id.0,
        duration_ms: ms(duration),
        acknowledged_ms: ms(stats.end_to_end()),
        size_bytes: stats.checkpointed_bytes().saturating_add(stats.persisted_bytes()),
        state_bytes: stats.checkpointed_bytes(),
        in_flight_bytes: stats.persisted_bytes(),
        in_flight_records: stats.acked().map(|part| part.stats.persisted_records).sum(),
        switched,
        unswitched: subtasks.len() as u64 - switched,
        subtasks,
        duration,
        persisted,
    }
}

/// The names at both ends of an operator's input.
fn ends(graph: &JobGraph, consumer: &OperatorUid, input: u32) -> (String, String) {
    let Some(node) = graph.nodes.iter().find(|node| node.uid == *consumer) else {
        return ("?".to_owned(), consumer.to_string());
    };
    let from = node
        .inputs
        .get(input as usize)
        .map_or("?", |edge| &*graph.node(edge.from).name);
    (from.to_owned(), node.name.to_string())
}
