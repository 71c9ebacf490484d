//! The process as a whole: `/overview`, `/config`, `/jobs`, `/jobs/overview`, `/health`.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tidegate_runtime::master::{JobState, JobStatus};
use tidegate_types::VertexId;

use crate::respond::{Json, json_response};
use crate::state::{AppState, lifetime, state_name};
use crate::times::Times;

use super::cells;

/// This program's version, where Flink has its own.
const VERSION: &str = concat!("tidegate-", env!("CARGO_PKG_VERSION"));

/// `GET /overview`
pub(crate) async fn overview(State(state): State<AppState>) -> Json {
    let (mut running, mut finished, mut cancelled, mut failed, mut slots) = (0, 0, 0, 0, 0);
    for job in state.jobs().into_values() {
        job.board().with(|status| match status.state {
            JobState::Finished => finished += 1,
            JobState::Canceled => cancelled += 1,
            JobState::Failed => failed += 1,
            // Flink counts a suspended job nowhere; it is to go on, so it neither finished nor failed.
            JobState::Suspended => {}
            JobState::Created
            | JobState::Running
            | JobState::Failing
            | JobState::Restarting
            | JobState::Cancelling => {
                running += 1;
                slots += slots_of(status);
            }
        });
    }
    Json(json!({
        "taskmanagers": 1,
        "taskmanagers-blocked": 0,
        "slots-total": slots,
        "slots-available": 0,
        "slots-free-and-blocked": 0,
        "jobs-running": running,
        "jobs-finished": finished,
        "jobs-cancelled": cancelled,
        "jobs-failed": failed,
        "flink-version": VERSION,
        "flink-commit": "unknown",
    }))
}

/// The slots that a job would take in Flink: one can hold a subtask of every vertex.
pub(crate) fn slots_of(status: &JobStatus) -> u32 {
    status
        .vertices
        .iter()
        .map(|vertex| vertex.parallelism)
        .max()
        .unwrap_or(0)
}

/// `GET /config`
pub(crate) async fn config() -> Json {
    Json(json!({
        "refresh-interval": 3000,
        "timezone-name": "Coordinated Universal Time",
        "timezone-offset": 0,
        "flink-version": VERSION,
        "flink-revision": "unknown",
        "features": {
            "web-submit": false,
            "web-cancel": true,
            "web-rescale": false,
            "web-history": false,
        },
    }))
}

/// `GET /jobs`
pub(crate) async fn jobs(State(state): State<AppState>) -> Json {
    let entry = |status: &JobStatus| json!({ "id": status.job.as_str(), "status": state_name(status.state) });
    let jobs: Vec<Value> = state
        .jobs()
        .into_values()
        .map(|job| job.board().with(entry))
        .collect();
    Json(json!({ "jobs": jobs }))
}

/// `GET /jobs/overview`
pub(crate) async fn jobs_overview(State(state): State<AppState>) -> Json {
    let times = state.times();
    let entry = |status: &JobStatus| job_overview(status, &times);
    let jobs: Vec<Value> = state
        .jobs()
        .into_values()
        .map(|job| job.board().with(entry))
        .collect();
    Json(json!({ "jobs": jobs }))
}

fn job_overview(status: &JobStatus, times: &Times) -> Value {
    let (start, end) = lifetime(status);
    let vertices = 0..status.vertices.len();
    let states: Vec<&'static str> = vertices
        .flat_map(|at| cells::states_of(status, VertexId(at as u32)))
        .collect();
    let mut tasks: serde_json::Map<String, Value> = cells::counts(&states)
        .into_iter()
        .map(|(state, n)| (state.to_lowercase(), n))
        .collect();
    tasks.insert("total".to_owned(), json!(states.len()));
    json!({
        "jid": status.job.as_str(),
        "name": status.name,
        "start-time": start,
        "end-time": end.unwrap_or(-1),
        "duration": end.unwrap_or(times.wall_ms).saturating_sub(start),
        "state": state_name(status.state),
        "last-modification": status.since.values().copied().max().unwrap_or(-1),
        "tasks": tasks,
    })
}

/// `GET /health`: whether every job is alive. One that restarts is; one that failed for good isn't.
pub(crate) async fn health(State(state): State<AppState>) -> Response {
    let mut failed = Vec::new();
    for (id, job) in state.jobs() {
        if job.board().with(|status| status.state == JobState::Failed) {
            let error = job
                .error()
                .or_else(|| job.board().with(|status| status.last_failure.clone()));
            failed.push(json!({ "jid": id.as_str(), "error": error }));
        }
    }
    let (code, word) = match failed.is_empty() {
        true => (StatusCode::OK, "ok"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    };
    json_response(code, &json!({ "status": word, "failed-jobs": failed })).into_response()
}
