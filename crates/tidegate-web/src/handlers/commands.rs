//! What changes a job: cancelling, savepoints, stopping, checkpoints on request, and what became of them.
//!
//! Owns: the bodies that are understood. Whatever takes longer than a moment is answered at once with a `request-id`
//! and asked about later, as in Flink. Does not own: when a job may be asked for what (its coordinator).

use std::sync::{Arc, PoisonError};

use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tidegate_protocol::coordinator::{Request, RequestDone, RequestFailure, SavepointOrder};
use tidegate_runtime::master::{JobState, JobStatus};
use tidegate_types::{JobId, SavepointFormat};

use crate::error::RestError;
use crate::ids::TriggerId;
use crate::jobs::{Answer, Job};
use crate::operations::{Begun, Key, Kind};
use crate::respond::{Accepted, Json};
use crate::state::{AppState, state_name};

use super::job::query_value;

/// Flink's names of formats.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum FormatType {
    #[default]
    Canonical,
    Native,
}

impl From<FormatType> for SavepointFormat {
    fn from(format: FormatType) -> Self {
        match format {
            FormatType::Canonical => Self::Canonical,
            FormatType::Native => Self::Native,
        }
    }
}

/// Body of `POST /jobs/{job}/savepoints`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct SavepointBody {
    target_directory: Option<String>,
    cancel_job: Option<bool>,
    #[serde(rename = "formatType")]
    format_type: Option<FormatType>,
    #[serde(rename = "triggerId")]
    trigger_id: Option<TriggerId>,
    unaligned: Option<bool>,
}

/// Body of `POST /jobs/{job}/stop`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct StopBody {
    target_directory: Option<String>,
    drain: Option<bool>,
    format_type: Option<FormatType>,
    trigger_id: Option<TriggerId>,
    unaligned: Option<bool>,
    savepoint: Option<bool>,
}

/// Flink's names of what a checkpoint on request may stand on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum CheckpointType {
    #[default]
    Configured,
    Full,
    Incremental,
}

/// Body of `POST /jobs/{job}/checkpoints`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct CheckpointBody {
    checkpoint_type: Option<CheckpointType>,
    trigger_id: Option<TriggerId>,
}

/// Reads a body; none at all is one without fields.
fn body<T: DeserializeOwned + Default>(bytes: &[u8]) -> Result<T, RestError> {
    if bytes.is_empty() {
        return Ok(T::default());
    }
    let problem = |error| RestError::bad_request(format!("the body can't be read: {error}"));
    serde_json::from_slice(bytes).map_err(problem)
}

/// `PATCH /jobs/{job}?mode=cancel`
pub(crate) async fn terminate(
    State(state): State<AppState>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Accepted, RestError> {
    let job = state.job(&id)?;
    let mode = query_value(query.as_deref(), "mode");
    if !mode.as_deref().unwrap_or("cancel").eq_ignore_ascii_case("cancel") {
        return Err(RestError::bad_request(format!(
            "mode can only be `cancel`; to stop with a savepoint, POST /jobs/{id}/stop"
        )));
    }
    match job.board().with(|status| status.state) {
        // Done already: asking twice does no harm.
        JobState::Canceled | JobState::Cancelling => {}
        JobState::Failed | JobState::Finished | JobState::Suspended => return Err(over(&*job)),
        JobState::Created | JobState::Running | JobState::Failing | JobState::Restarting => job.cancel(),
    }
    Ok(Accepted(json!({})))
}

fn over(job: &dyn Job) -> RestError {
    let said = |status: &JobStatus| format!("job `{}` has ended: {}", status.job, state_name(status.state));
    RestError::conflict(job.board().with(said))
}

/// `POST /jobs/{job}/savepoints`
pub(crate) async fn savepoint(
    State(state): State<AppState>,
    Path(id): Path<String>,
    bytes: Bytes,
) -> Result<Accepted, RestError> {
    let job = state.job(&id)?;
    let body: SavepointBody = body(&bytes)?;
    let order = order(
        &*job,
        "target-directory",
        body.target_directory,
        body.format_type,
        body.unaligned,
    )?;
    let then_cancel = body.cancel_job == Some(true);
    begin(
        &state,
        job,
        Kind::Savepoint,
        body.trigger_id,
        Request::Savepoint(order),
        then_cancel,
    )
}

/// `POST /jobs/{job}/stop`
pub(crate) async fn stop(
    State(state): State<AppState>,
    Path(id): Path<String>,
    bytes: Bytes,
) -> Result<Accepted, RestError> {
    let job = state.job(&id)?;
    let body: StopBody = body(&bytes)?;
    let savepoint = match body.savepoint {
        Some(false) => None,
        Some(true) | None => Some(order(
            &*job,
            "targetDirectory",
            body.target_directory,
            body.format_type,
            body.unaligned,
        )?),
    };
    let request = match body.drain {
        Some(true) => Request::Drain { savepoint },
        Some(false) | None => Request::Suspend { savepoint },
    };
    begin(&state, job, Kind::Savepoint, body.trigger_id, request, false)
}

fn order(
    job: &dyn Job,
    field: &str,
    target: Option<String>,
    format: Option<FormatType>,
    unaligned: Option<bool>,
) -> Result<SavepointOrder, RestError> {
    let target = target.filter(|target| !target.is_empty());
    if target.is_none() && job.settings().checkpoints.savepoint_dir.is_none() {
        return Err(RestError::bad_request(format!(
            "where is the savepoint to go? Give `{field}`, or set execution.checkpointing.savepoint-dir"
        )));
    }
    Ok(SavepointOrder {
        format: format.unwrap_or_default().into(),
        target,
        unaligned: unaligned == Some(true),
    })
}

/// `POST /jobs/{job}/checkpoints`
pub(crate) async fn checkpoint(
    State(state): State<AppState>,
    Path(id): Path<String>,
    bytes: Bytes,
) -> Result<Accepted, RestError> {
    let job = state.job(&id)?;
    let body: CheckpointBody = body(&bytes)?;
    let full = body.checkpoint_type.unwrap_or_default() == CheckpointType::Full;
    begin(
        &state,
        job,
        Kind::Checkpoint,
        body.trigger_id,
        Request::Checkpoint { full },
        false,
    )
}

/// Asks the job, and remembers what comes of it.
fn begin(
    state: &AppState,
    job: Arc<dyn Job>,
    kind: Kind,
    trigger: Option<TriggerId>,
    request: Request,
    then_cancel: bool,
) -> Result<Accepted, RestError> {
    let trigger = trigger.unwrap_or_else(|| state.triggers.draw());
    let accepted = || Accepted(json!({ "request-id": trigger.to_string() }));
    let (id, ended) = job
        .board()
        .with(|status| (status.job.clone(), status.state.is_terminal()));
    let key = Key {
        job: id,
        kind,
        trigger,
    };
    let known = state
        .operations
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .knows(&key);
    if known {
        return Ok(accepted());
    }
    if ended {
        return Err(over(&*job));
    }
    match state
        .operations
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .begin(key.clone())
    {
        Begun::Already => return Ok(accepted()),
        Begun::Full => {
            return Err(RestError::unavailable(
                "too many operations are in progress; ask again later",
            ));
        }
        Begun::New => {}
    }
    let answering = job.request(request);
    let state = state.clone();
    tokio::spawn(async move {
        let answer = answering.await;
        if then_cancel && answer.is_ok() {
            job.cancel();
        }
        state
            .operations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .end(&key, answer);
    });
    Ok(accepted())
}

/// `GET /jobs/{job}/savepoints/{trigger}`
pub(crate) async fn savepoint_status(
    State(state): State<AppState>,
    Path((id, trigger)): Path<(String, String)>,
) -> Result<Json, RestError> {
    operation(&state, &id, Kind::Savepoint, &trigger, savepoint_result)
}

/// `GET /jobs/{job}/checkpoints/{trigger}`
pub(crate) async fn checkpoint_status(
    State(state): State<AppState>,
    Path((id, trigger)): Path<(String, String)>,
) -> Result<Json, RestError> {
    operation(&state, &id, Kind::Checkpoint, &trigger, checkpoint_result)
}

fn operation(
    state: &AppState,
    job: &str,
    kind: Kind,
    text: &str,
    show: fn(&Answer) -> Value,
) -> Result<Json, RestError> {
    let trigger = TriggerId::parse(text).ok_or_else(|| {
        RestError::bad_request(format!(
            "`{text}` is not a trigger id: 32 hexadecimal digits are expected"
        ))
    })?;
    let key = Key {
        job: JobId::new(job),
        kind,
        trigger,
    };
    let mut operations = state.operations.lock().unwrap_or_else(PoisonError::into_inner);
    match operations.fetch(&key) {
        None => {
            let what = kind.name();
            Err(RestError::not_found(format!(
                "job `{job}` has no {what} under the trigger id {trigger}"
            )))
        }
        Some(None) => Ok(Json(
            json!({ "status": { "id": "IN_PROGRESS" }, "operation": null }),
        )),
        Some(Some(answer)) => Ok(Json(
            json!({ "status": { "id": "COMPLETED" }, "operation": show(answer) }),
        )),
    }
}

fn savepoint_result(answer: &Answer) -> Value {
    match answer {
        Ok(RequestDone { id, path }) => json!({ "location": path, "checkpoint-id": id.map(|id| id.0) }),
        Err(failed) => json!({ "failure-cause": cause(failed) }),
    }
}

fn checkpoint_result(answer: &Answer) -> Value {
    match answer {
        Ok(RequestDone { id, .. }) => json!({ "checkpointId": id.map(|id| id.0) }),
        Err(failed) => json!({ "failureCause": cause(failed) }),
    }
}

/// A failure where Flink has an exception: the text stands in the place of the stack trace.
fn cause(failed: &RequestFailure) -> Value {
    match failed {
        RequestFailure::Refused { reason } => json!({ "class": "Refused", "stack-trace": reason }),
        RequestFailure::Failed(record) => {
            json!({ "class": "CheckpointFailed", "stack-trace": record.to_string() })
        }
    }
}
