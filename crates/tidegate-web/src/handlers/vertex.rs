//! One vertex and its subtasks: `/jobs/{job}/vertices/{vertex}` with backpressure and watermarks.

use axum::extract::{Path, State};
use serde_json::{Value, json};
use tidegate_types::SubtaskId;
use tidegate_types::SubtaskIndex;

use crate::error::RestError;
use crate::ids::vertex_id;
use crate::respond::Json;
use crate::state::{AppState, vertex_of};

use super::cells;

/// `GET /jobs/{job}/vertices/{vertex}`
pub(crate) async fn details(
    State(state): State<AppState>,
    Path((id, vertex)): Path<(String, String)>,
) -> Result<Json, RestError> {
    let job = state.job(&id)?;
    let (times, plan) = (state.times(), job.plan());
    job.board().with(|status| {
        let vertex = vertex_of(status, &vertex)?;
        let info = &status.vertices[vertex.0 as usize];
        let start = status.since.get("RUNNING").copied().unwrap_or(-1);
        let of_subtask = |(index, subtask): (usize, Option<&_>)| {
            json!({
                "subtask": index,
                "status": cells::state_of(status, subtask),
                "attempt": status.attempts.saturating_sub(1),
                "endpoint": "localhost",
                "start-time": start,
                "end-time": -1,
                "duration": if start < 0 { -1 } else { times.wall_ms.saturating_sub(start) },
                "metrics": cells::io_metrics(subtask.into_iter(), times.now),
                "taskmanager-id": "local",
            })
        };
        let subtasks = cells::subtasks_of(status, vertex)
            .into_iter()
            .enumerate()
            .map(of_subtask);
        Ok(Json(json!({
            "id": vertex_id(info),
            "name": info.name,
            "parallelism": info.parallelism,
            "maxParallelism": plan.max_parallelism,
            "now": times.wall_ms,
            "subtasks": subtasks.collect::<Vec<Value>>(),
        })))
    })
}

/// From which share of its time on a subtask's backpressure is `low`, as in Flink.
const LOW: f64 = 0.1;

/// From which on it is `high`.
const HIGH: f64 = 0.5;

fn level(ratio: f64) -> &'static str {
    if ratio <= LOW {
        "ok"
    } else if ratio <= HIGH {
        "low"
    } else {
        "high"
    }
}

/// `GET /jobs/{job}/vertices/{vertex}/backpressure`
pub(crate) async fn backpressure(
    State(state): State<AppState>,
    Path((id, vertex)): Path<(String, String)>,
) -> Result<Json, RestError> {
    let job = state.job(&id)?;
    let times = state.times();
    job.board().with(|status| {
        let vertex = vertex_of(status, &vertex)?;
        let parallelism = status.vertices[vertex.0 as usize].parallelism;
        let subtasks = (0..parallelism).filter_map(|index| {
            let rate = state.rate(status, SubtaskId::new(vertex, SubtaskIndex(index)))?;
            let ratio = rate.backpressured_ms / 1e3;
            let entry = json!({
                "subtask": index,
                "attempt-number": status.attempts.saturating_sub(1),
                "backpressure-level": level(ratio),
                "ratio": ratio,
                "idleRatio": rate.idle_ms / 1e3,
                "busyRatio": rate.busy_ms / 1e3,
            });
            Some((ratio, entry))
        });
        let (ratios, subtasks): (Vec<f64>, Vec<Value>) = subtasks.unzip();
        let highest = ratios.into_iter().fold(0.0, f64::max);
        Ok(Json(json!({
            // Flink's word for "no figures yet".
            "status": if subtasks.is_empty() { "deprecated" } else { "ok" },
            "backpressure-level": level(highest),
            "end-timestamp": times.wall_ms,
            "subtasks": subtasks,
        })))
    })
}

/// `GET /jobs/{job}/vertices/{vertex}/watermarks`
pub(crate) async fn watermarks(
    State(state): State<AppState>,
    Path((id, vertex)): Path<(String, String)>,
) -> Result<Json, RestError> {
    let job = state.job(&id)?;
    job.board().with(|status| {
        let vertex = vertex_of(status, &vertex)?;
        let subtasks = cells::subtasks_of(status, vertex).into_iter().enumerate();
        let entry = |(index, subtask): (usize, Option<&tidegate_runtime::master::SubtaskInfo>)| {
            let watermark = subtask?.metrics.watermark();
            Some(json!({ "id": format!("{index}.currentInputWatermark"), "value": watermark.to_string() }))
        };
        Ok(Json(Value::Array(subtasks.filter_map(entry).collect())))
    })
}
