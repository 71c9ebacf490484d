//! One job: `/jobs/{job}` with its status, plan, configuration and failures.

use axum::extract::{Path, RawQuery, State};
use serde_json::{Map, Value, json};
use tidegate_runtime::master::{JobFailure, JobStatus};
use tidegate_types::VertexId;
use tidegate_types::options::RestartStrategy;

use crate::error::RestError;
use crate::ids::vertex_id;
use crate::jobs::{Job, JobPlan};
use crate::respond::Json;
use crate::state::{AppState, lifetime, state_name};
use crate::times::Times;

use super::cells;

/// `GET /jobs/{job}`
pub(crate) async fn details(
    State(state): State<AppState>,
    Path(id): Path<String>,
) -> Result<Json, RestError> {
    let job = state.job(&id)?;
    let (times, plan) = (state.times(), job.plan());
    Ok(Json(
        job.board().with(|status| job_details(status, &plan, &times)),
    ))
}

fn job_details(status: &JobStatus, plan: &JobPlan, times: &Times) -> Value {
    let (start, end) = lifetime(status);
    let since = |state: &&str| status.since.get(*state).copied().unwrap_or(0);
    let timestamps: Map<String, Value> = cells::JOB_STATES
        .iter()
        .map(|state| ((*state).to_owned(), json!(since(state))))
        .collect();
    let states: Vec<Vec<&'static str>> = (0..status.vertices.len())
        .map(|at| cells::states_of(status, VertexId(at as u32)))
        .collect();
    let of_vertices: Vec<&'static str> = states.iter().map(|states| cells::vertex_state(states)).collect();
    let vertices: Vec<Value> = (0..status.vertices.len())
        .map(|at| vertex(status, VertexId(at as u32), plan, times))
        .collect();
    json!({
        "jid": status.job.as_str(),
        "name": status.name,
        "isStoppable": false,
        "state": state_name(status.state),
        "job-type": "STREAMING",
        "start-time": start,
        "end-time": end.unwrap_or(-1),
        "duration": end.unwrap_or(times.wall_ms).saturating_sub(start),
        "maxParallelism": plan.max_parallelism,
        "now": times.wall_ms,
        "timestamps": timestamps,
        "vertices": vertices,
        "status-counts": cells::counts(&of_vertices),
        "plan": plan_of(status, plan),
        "attempts": status.attempts,
        "restarts": status.restarts,
        "abandoned-threads": status.abandoned_threads,
    })
}

/// A vertex in a list. When its tasks ended isn't kept, only when the job did.
fn vertex(status: &JobStatus, id: VertexId, plan: &JobPlan, times: &Times) -> Value {
    let info = &status.vertices[id.0 as usize];
    let states = cells::states_of(status, id);
    let start = status.since.get("RUNNING").copied();
    let end = lifetime(status).1;
    let duration = start.map_or(-1, |start| end.unwrap_or(times.wall_ms).saturating_sub(start));
    let subtasks = cells::subtasks_of(status, id).into_iter().flatten();
    json!({
        "id": vertex_id(info),
        "name": info.name,
        "maxParallelism": plan.max_parallelism,
        "parallelism": info.parallelism,
        "status": cells::vertex_state(&states),
        "start-time": start.unwrap_or(-1),
        "end-time": end.filter(|_| start.is_some()).unwrap_or(-1),
        "duration": duration,
        "tasks": cells::counts(&states),
        "metrics": cells::io_metrics(subtasks, times.now),
        "uids": info.uids,
    })
}

/// `GET /jobs/{job}/status`
pub(crate) async fn status(State(state): State<AppState>, Path(id): Path<String>) -> Result<Json, RestError> {
    let job = state.job(&id)?;
    Ok(Json(
        json!({ "status": job.board().with(|status| state_name(status.state)) }),
    ))
}

/// `GET /jobs/{job}/plan`
pub(crate) async fn plan(State(state): State<AppState>, Path(id): Path<String>) -> Result<Json, RestError> {
    let job = state.job(&id)?;
    let plan = job.plan();
    Ok(Json(
        json!({ "plan": job.board().with(|status| plan_of(status, &plan)) }),
    ))
}

fn plan_of(status: &JobStatus, plan: &JobPlan) -> Value {
    let id_of = |id: VertexId| status.vertices.get(id.0 as usize).map(vertex_id);
    let nodes = status.vertices.iter().enumerate().map(|(at, info)| {
        let inputs = plan
            .vertices
            .get(at)
            .map(|vertex| &vertex.inputs[..])
            .unwrap_or_default();
        let inputs: Vec<Value> = inputs
            .iter()
            .enumerate()
            .map(|(num, input)| {
                json!({
                    "num": num,
                    "id": id_of(input.from),
                    "ship_strategy": input.ship_strategy,
                    "exchange": "pipelined_bounded",
                    "edge_kind": input.kind,
                })
            })
            .collect();
        json!({
            "id": vertex_id(info),
            "parallelism": info.parallelism,
            "operator": "",
            "operator_strategy": "",
            "description": info.name,
            "optimizer_properties": {},
            "inputs": inputs,
        })
    });
    json!({
        "jid": status.job.as_str(),
        "name": status.name,
        "type": "STREAMING",
        "nodes": nodes.collect::<Vec<_>>(),
    })
}

/// `GET /jobs/{job}/config`
pub(crate) async fn config(State(state): State<AppState>, Path(id): Path<String>) -> Result<Json, RestError> {
    let job = state.job(&id)?;
    let settings = job.settings();
    let name = job.board().with(|status| status.name.clone());
    Ok(Json(json!({
        "jid": settings.job.id.as_str(),
        "name": name,
        "execution-config": {
            "execution-mode": "PIPELINED",
            "restart-strategy": restart_strategy(&settings.restart),
            "job-parallelism": settings.job.parallelism.0,
            "object-reuse-mode": true,
            "user-config": {},
        },
    })))
}

fn restart_strategy(strategy: &RestartStrategy) -> &'static str {
    match strategy {
        RestartStrategy::None => "Restart deactivated.",
        RestartStrategy::FixedDelay { .. } => "Restart with fixed delay.",
        RestartStrategy::ExponentialDelay { .. } => "Restart with exponential delay.",
        RestartStrategy::FailureRate { .. } => "Restart with a limited failure rate.",
    }
}

/// How many failures are shown when the client names no number, as in Flink.
const MAX_EXCEPTIONS: usize = 20;

/// `GET /jobs/{job}/exceptions?maxExceptions=n`
pub(crate) async fn exceptions(
    State(state): State<AppState>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json, RestError> {
    let job = state.job(&id)?;
    let limit = match query_value(query.as_deref(), "maxExceptions") {
        None => MAX_EXCEPTIONS,
        Some(text) => text.parse().map_err(|_| {
            RestError::bad_request(format!("maxExceptions is `{text}`; a number is expected"))
        })?,
    };
    Ok(Json(exceptions_of(&*job, limit)))
}

fn exceptions_of(job: &dyn Job, limit: usize) -> Value {
    let error = job.error();
    job.board().with(|status| {
        let failures = &status.failures;
        let entries: Vec<Value> = failures
            .iter()
            .rev()
            .take(limit)
            .map(|failure| exception(status, failure))
            .collect();
        // What ends a job before its first attempt is no failure of an attempt.
        let root = error.or_else(|| status.last_failure.clone());
        let ended = lifetime(status).1.filter(|_| root.is_some());
        let truncated = failures.len() > limit;
        json!({
            "root-exception": root,
            "timestamp": failures.back().map(|failure| failure.at).or(ended),
            "all-exceptions": [],
            "truncated": truncated,
            "exceptionHistory": { "entries": entries, "truncated": truncated },
        })
    })
}

fn exception(status: &JobStatus, failure: &JobFailure) -> Value {
    let name = failure.error.lines().next().unwrap_or_default();
    let mut entry = json!({
        "exceptionName": name,
        "stacktrace": failure.error,
        "timestamp": failure.at,
        "failureLabels": {},
        "concurrentExceptions": [],
    });
    if let Some(subtask) = failure.subtask {
        let info = status.vertices.get(subtask.vertex.0 as usize);
        let (vertex, parallelism) = info.map_or(("", 0), |info| (info.name.as_str(), info.parallelism));
        entry["taskName"] = json!(format!("{vertex} ({}/{parallelism})", subtask.index.0 + 1));
        entry["vertex"] = json!(info.map(vertex_id));
        entry["subtask"] = json!(subtask.index.0);
    }
    entry
}

/// The first value of a query parameter.
pub(crate) fn query_value(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}
