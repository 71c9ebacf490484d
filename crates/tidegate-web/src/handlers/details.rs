//! One checkpoint by vertex and by subtask: `/jobs/{job}/checkpoints/details/…`.
//!
//! Flink's durations are whole milliseconds, of which a cut takes none; ours stand beside them in nanoseconds.

use axum::extract::{Path, State};
use serde_json::{Map, Value, json};
use tidegate_protocol::coordinator::{CheckpointStats, SubtaskCheckpoint, Summary, TaskStats};
use tidegate_runtime::master::JobStatus;
use tidegate_types::snapshot::ChannelStats;
use tidegate_types::{CheckpointId, SnapshotMode};

use crate::error::RestError;
use crate::ids::vertex_id;
use crate::respond::Json;
use crate::state::{AppState, checkpoint_of, vertex_of};
use crate::times::{Times, millis};

use super::{cells, checkpoints};

/// `GET /jobs/{job}/checkpoints/details/{checkpoint}`
pub(crate) async fn checkpoint(
    State(state): State<AppState>,
    Path((id, checkpoint)): Path<(String, String)>,
) -> Result<Json, RestError> {
    let job = state.job(&id)?;
    let (times, checkpoint) = (state.times(), checkpoint_of(&checkpoint)?);
    job.board().with(|status| {
        let stats = find(status, checkpoint)?;
        let mut value = checkpoints::checkpoint(&*job, status, stats, &times);
        let tasks = stats.tasks.iter().filter_map(|task| {
            let info = status.vertices.get(task.vertex.0 as usize)?;
            Some((vertex_id(info), task_value(stats, task, &times)))
        });
        value["tasks"] = Value::Object(tasks.collect::<Map<String, Value>>());
        Ok(Json(value))
    })
}

/// `GET /jobs/{job}/checkpoints/details/{checkpoint}/subtasks/{vertex}`
pub(crate) async fn vertex(
    State(state): State<AppState>,
    Path((id, checkpoint, vertex)): Path<(String, String, String)>,
) -> Result<Json, RestError> {
    let job = state.job(&id)?;
    let (times, checkpoint) = (state.times(), checkpoint_of(&checkpoint)?);
    job.board().with(|status| {
        let stats = find(status, checkpoint)?;
        let vertex = vertex_of(status, &vertex)?;
        let task = stats.tasks.iter().find(|task| task.vertex == vertex);
        let task = task.ok_or_else(|| {
            RestError::not_found(format!("checkpoint {checkpoint} has nothing of vertex v{vertex}"))
        })?;
        let mut value = task_value(stats, task, &times);
        value["summary"] = summary(stats, task);
        let subtasks = task.subtasks.iter().enumerate();
        value["subtasks"] = subtasks
            .map(|(index, part)| subtask(stats, index, part.as_ref(), &times))
            .collect();
        Ok(Json(value))
    })
}

fn find(status: &JobStatus, id: CheckpointId) -> Result<&CheckpointStats, RestError> {
    status.history.get(id).ok_or_else(|| {
        RestError::not_found(format!(
            "job `{}` remembers no checkpoint {id}; web.checkpoints.history says how many it remembers",
            status.job
        ))
    })
}

fn acked(task: &TaskStats) -> impl Iterator<Item = &SubtaskCheckpoint> {
    task.subtasks.iter().flatten()
}

fn sum(task: &TaskStats, of: impl Fn(&SubtaskCheckpoint) -> u64) -> u64 {
    acked(task).map(of).fold(0, u64::saturating_add)
}

fn task_value(stats: &CheckpointStats, task: &TaskStats, times: &Times) -> Value {
    let latest = acked(task).map(|part| part.acked_at).max();
    json!({
        "id": stats.id.0,
        "status": stats.status.name(),
        "latest_ack_timestamp": latest.map_or(-1, |at| times.at(at)),
        "checkpointed_size": sum(task, |part| part.stats.state_bytes),
        "state_size": sum(task, |part| part.state_bytes),
        "end_to_end_duration": latest.map_or(0, |at| millis(at.since(stats.triggered_at))),
        "alignment_buffered": 0,
        "processed_data": sum(task, |part| part.stats.processed_bytes),
        "persisted_data": sum(task, |part| part.stats.persisted_bytes),
        "num_subtasks": task.subtasks.len(),
        "num_acknowledged_subtasks": acked(task).count(),
        "processed_records": sum(task, |part| part.stats.processed_records),
        "persisted_records": sum(task, |part| part.stats.persisted_records),
    })
}

fn summary(stats: &CheckpointStats, task: &TaskStats) -> Value {
    let over = |of: &dyn Fn(&SubtaskCheckpoint) -> u64| cells::figures(&Summary::of(acked(task).map(of)));
    json!({
        "checkpointed_size": over(&|part| part.stats.state_bytes),
        "state_size": over(&|part| part.state_bytes),
        "end_to_end_duration": over(&|part| millis(part.acked_at.since(stats.triggered_at))),
        "checkpoint_duration": {
            "sync": over(&|part| millis(part.stats.sync)),
            "async": over(&|part| millis(part.stats.asynchronous)),
        },
        "alignment": {
            "buffered": over(&|_| 0),
            "processed": over(&|part| part.stats.processed_bytes),
            "persisted": over(&|part| part.stats.persisted_bytes),
            "duration": over(&|part| millis(part.stats.alignment)),
        },
        "start_delay": over(&|part| millis(part.stats.start_delay)),
    })
}

fn subtask(stats: &CheckpointStats, index: usize, part: Option<&SubtaskCheckpoint>, times: &Times) -> Value {
    let Some(part) = part else {
        return json!({ "className": "pending", "index": index, "status": "pending_or_failed" });
    };
    let measured = &part.stats;
    let nanos = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    json!({
        "className": "completed",
        "index": index,
        "status": "completed",
        "ack_timestamp": times.at(part.acked_at),
        "end_to_end_duration": millis(part.acked_at.since(stats.triggered_at)),
        "checkpointed_size": measured.state_bytes,
        "state_size": part.state_bytes,
        "checkpoint": { "sync": millis(measured.sync), "async": millis(measured.asynchronous) },
        "alignment": {
            "buffered": 0,
            "processed": measured.processed_bytes,
            "persisted": measured.persisted_bytes,
            "duration": millis(measured.alignment),
        },
        "start_delay": millis(measured.start_delay),
        "unaligned_checkpoint": measured.mode == Some(SnapshotMode::Unaligned),
        "aborted": false,
        "mode": measured.mode.map(SnapshotMode::name),
        "finished": part.finished,
        "processed_records": measured.processed_records,
        "persisted_records": measured.persisted_records,
        "in_flight": measured.channels.iter().map(channel).collect::<Vec<Value>>(),
        "durations_ns": {
            "start_delay": nanos(measured.start_delay),
            "chain_delay": nanos(measured.chain_delay),
            "record_delay": nanos(measured.record_delay),
            "alignment": nanos(measured.alignment),
            "sync": nanos(measured.sync),
            "async": nanos(measured.asynchronous),
            "end_to_end": nanos(measured.end_to_end),
        },
    })
}

fn channel(channel: &ChannelStats) -> Value {
    json!({
        "uid": channel.uid.as_str(),
        "input": channel.address.input.0,
        "generation": channel.address.generation.0,
        "producer": channel.address.producer.0,
        "consumer": channel.address.consumer.0,
        "bytes": channel.bytes,
        "records": channel.records,
    })
}
