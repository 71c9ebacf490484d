//! A job's checkpoints: `/jobs/{job}/checkpoints` and its `config`.
//!
//! Owns: how a checkpoint, a list of them and the figures over them look in JSON. `details` has the single checkpoint
//! by vertex and subtask. Fields that Flink doesn't have stand beside Flink's; `docs/rest.md` lists them.

use axum::extract::{Path, State};
use serde_json::{Value, json};
use tidegate_protocol::coordinator::{
    CheckpointStats, CheckpointStatus, FailureRecord, History, RestoredStats, Summary,
};
use tidegate_runtime::master::JobStatus;
use tidegate_types::options::{CheckpointRetention, CheckpointSettings, OptionValue};
use tidegate_types::{CheckpointKind, SavepointFormat, SnapshotMode};

use crate::error::RestError;
use crate::ids::vertex_id;
use crate::jobs::Job;
use crate::respond::Json;
use crate::state::AppState;
use crate::times::{Times, millis};

use super::cells;

/// What Flink shows for an interval that is off.
const NEVER_MS: u64 = i64::MAX.unsigned_abs();

/// `GET /jobs/{job}/checkpoints`
pub(crate) async fn statistics(
    State(state): State<AppState>,
    Path(id): Path<String>,
) -> Result<Json, RestError> {
    let job = state.job(&id)?;
    let times = state.times();
    // A copy: quantiles are sorted for, and the job's master mustn't wait for that.
    let status = job.board().read();
    let history = &status.history;
    let show = |stats: &CheckpointStats| checkpoint(&*job, &status, stats, &times);
    Ok(Json(json!({
        "counts": counts(history),
        "summary": summary(history),
        "latest": {
            "completed": history.latest_completed().map(show),
            "savepoint": history.latest_savepoint().map(show),
            "failed": history.latest_failed().map(show),
            "restored": history.latest_restored().map(|stats| restored(&*job, stats, &times)),
        },
        "history": history.recent().map(show).collect::<Vec<_>>(),
    })))
}

fn counts(history: &History) -> Value {
    let counts = history.counts();
    json!({
        "restored": counts.restored,
        "total": counts.total,
        "in_progress": counts.in_progress,
        "completed": counts.completed,
        "failed": counts.failed,
    })
}

fn summary(history: &History) -> Value {
    let summary = history.summary();
    json!({
        "checkpointed_size": cells::figures(&summary.checkpointed_bytes),
        "state_size": cells::figures(&summary.state_bytes),
        "end_to_end_duration": cells::figures(&summary.end_to_end_ms),
        "alignment_buffered": cells::figures(&Summary::default()),
        "processed_data": cells::figures(&summary.processed_bytes),
        "persisted_data": cells::figures(&summary.persisted_bytes),
    })
}

fn restored(job: &dyn Job, stats: &RestoredStats, times: &Times) -> Value {
    let from = &stats.from;
    json!({
        "id": from.id.0,
        "restore_timestamp": times.at(stats.restored_at),
        "is_savepoint": from.is_savepoint,
        "external_path": from.path.clone().or_else(|| job.checkpoint_path(from.id)),
    })
}

/// A checkpoint without its vertices.
pub(crate) fn checkpoint(job: &dyn Job, status: &JobStatus, stats: &CheckpointStats, times: &Times) -> Value {
    let unaligned = stats
        .acked()
        .filter(|subtask| subtask.stats.mode == Some(SnapshotMode::Unaligned))
        .count();
    let mut value = json!({
        "className": class_name(stats.status),
        "id": stats.id.0,
        "status": stats.status.name(),
        "is_savepoint": stats.kind.is_savepoint(),
        "savepointFormat": format_name(stats.kind),
        "trigger_timestamp": times.at(stats.triggered_at),
        "latest_ack_timestamp": stats.latest_ack_at.map_or(-1, |at| times.at(at)),
        "checkpointed_size": stats.checkpointed_bytes(),
        "state_size": stats.state_bytes(),
        "end_to_end_duration": millis(stats.end_to_end()),
        "alignment_buffered": 0,
        "processed_data": stats.processed_bytes(),
        "persisted_data": stats.persisted_bytes(),
        "num_subtasks": stats.subtask_count(),
        "num_acknowledged_subtasks": stats.acknowledged(),
        "checkpoint_type": type_name(stats),
        "tasks": {},
        "mode": stats.mode.name(),
        "unaligned_subtasks": unaligned,
        "persisted_records": stats.acked().map(|subtask| subtask.stats.persisted_records).sum::<u64>(),
    });
    match stats.status {
        CheckpointStatus::InProgress => {}
        CheckpointStatus::Completed => {
            let path = stats.path.clone().or_else(|| job.checkpoint_path(stats.id));
            value["external_path"] = json!(path);
            value["discarded"] = json!(stats.discarded);
        }
        CheckpointStatus::Failed => {
            value["failure_timestamp"] = json!(stats.ended_at.map_or(-1, |at| times.at(at)));
            value["failure_message"] = json!(stats.failure.as_ref().map(ToString::to_string));
            value["failure"] = json!(stats.failure.as_ref().map(|record| failure(status, record)));
        }
    }
    value
}

/// A failure in parts, where Flink has one text.
fn failure(status: &JobStatus, record: &FailureRecord) -> Value {
    let vertex = record
        .subtask
        .and_then(|subtask| status.vertices.get(subtask.vertex.0 as usize));
    json!({
        "reason": record.reason.message(),
        "detail": record.detail,
        "remedy": record.remedy(),
        "counted": record.counted,
        "vertex": vertex.map(vertex_id),
        "subtask": record.subtask.map(|subtask| subtask.index.0),
    })
}

fn class_name(status: CheckpointStatus) -> &'static str {
    match status {
        CheckpointStatus::InProgress => "in_progress",
        CheckpointStatus::Completed => "completed",
        CheckpointStatus::Failed => "failed",
    }
}

fn format_name(kind: CheckpointKind) -> Option<&'static str> {
    match kind {
        CheckpointKind::Checkpoint => None,
        CheckpointKind::Savepoint {
            format: SavepointFormat::Canonical,
            ..
        } => Some("CANONICAL"),
        CheckpointKind::Savepoint {
            format: SavepointFormat::Native,
            ..
        } => Some("NATIVE"),
    }
}

fn type_name(stats: &CheckpointStats) -> &'static str {
    match stats.kind {
        CheckpointKind::Savepoint { stop: true, .. } => "SYNC_SAVEPOINT",
        CheckpointKind::Savepoint { stop: false, .. } => "SAVEPOINT",
        CheckpointKind::Checkpoint if stats.overtook() => "UNALIGNED_CHECKPOINT",
        CheckpointKind::Checkpoint => "CHECKPOINT",
    }
}

/// `GET /jobs/{job}/checkpoints/config`
pub(crate) async fn config(State(state): State<AppState>, Path(id): Path<String>) -> Result<Json, RestError> {
    let job = state.job(&id)?;
    let settings = job.settings();
    let backend = settings.job.state_backend.render();
    Ok(Json(config_of(&settings.checkpoints, &backend)))
}

fn config_of(settings: &CheckpointSettings, backend: &str) -> Value {
    let (unaligned, aligned_timeout, quiesce_limit) = match settings.mode {
        SnapshotMode::Unaligned => (true, 0, None),
        SnapshotMode::Adaptive { timeout } => (true, millis(timeout), None),
        SnapshotMode::Quiesce { limit } => (false, 0, Some(millis(limit))),
        SnapshotMode::Aligned | SnapshotMode::AtLeastOnce => (false, 0, None),
    };
    let processing = match settings.mode {
        SnapshotMode::AtLeastOnce => "at_least_once",
        SnapshotMode::Aligned
        | SnapshotMode::Unaligned
        | SnapshotMode::Adaptive { .. }
        | SnapshotMode::Quiesce { .. } => "exactly_once",
    };
    json!({
        "mode": processing,
        "interval": settings.interval.map_or(NEVER_MS, millis),
        "timeout": millis(settings.timeout),
        "min_pause": millis(settings.min_pause),
        "max_concurrent": settings.max_concurrent,
        "externalization": {
            "enabled": settings.dir.is_some(),
            "delete_on_cancellation": settings.retention == CheckpointRetention::DeleteOnCancellation,
        },
        "state_backend": backend,
        "checkpoint_storage": settings.dir.as_deref().unwrap_or("memory"),
        "unaligned_checkpoints": unaligned,
        "aligned_checkpoint_timeout": aligned_timeout,
        "tolerable_failed_checkpoints": settings.tolerable_failures,
        "checkpoints_after_tasks_finish": settings.after_tasks_finish,
        "state_changelog_enabled": false,
        "changelog_periodic_materialization_interval": null,
        "changelog_storage": null,
        "snapshot_mode": settings.mode.name(),
        "quiesce_limit": quiesce_limit,
        "num_retained": settings.num_retained,
        "savepoint_directory": settings.savepoint_dir,
    })
}
