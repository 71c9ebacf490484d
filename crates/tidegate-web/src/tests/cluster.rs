//! `/overview`, `/config`, `/jobs`, `/jobs/overview`, `/health`, and what is nowhere.

use axum::http::StatusCode;
use serde_json::json;
use tidegate_runtime::master::JobState;

use super::fixture::{App, EPOCH_MS, FakeJob, counts, plain};

fn mixed() -> App {
    let failed = plain("broken", JobState::Failed, &[("CREATED", 100), ("FAILED", 300)]);
    let mut failed = FakeJob::new(failed);
    failed.error = Some("the checkpoint store can't be used: /checkpoints is a file".to_owned());
    let cancelled = plain(
        "cancelled",
        JobState::Canceled,
        &[("CREATED", 100), ("CANCELED", 500)],
    );
    App::new(vec![failed, FakeJob::new(cancelled), FakeJob::new(counts())])
}

#[test]
fn overview() {
    let expected = json!({
        "taskmanagers": 1,
        "taskmanagers-blocked": 0,
        "slots-total": 2,
        "slots-available": 0,
        "slots-free-and-blocked": 0,
        "jobs-running": 1,
        "jobs-finished": 0,
        "jobs-cancelled": 1,
        "jobs-failed": 1,
        "flink-version": concat!("tidegate-", env!("CARGO_PKG_VERSION")),
        "flink-commit": "unknown",
    });
    let app = mixed();
    assert_eq!(app.get("/overview"), expected);
    assert_eq!(app.get("/v1/overview"), expected);
}

#[test]
fn config() {
    let config = mixed().get("/config");
    assert_eq!(
        config["features"],
        json!({ "web-submit": false, "web-cancel": true, "web-rescale": false, "web-history": false })
    );
    assert_eq!(config["refresh-interval"], 3000);
}

#[test]
fn jobs_by_id() {
    assert_eq!(
        mixed().get("/jobs"),
        json!({ "jobs": [
            { "id": "broken", "status": "FAILED" },
            { "id": "cancelled", "status": "CANCELED" },
            { "id": "counts", "status": "RUNNING" },
        ] })
    );
}

#[test]
fn of_two_runs_of_a_job_the_newest_is_shown() {
    let before = plain("counts", JobState::Failed, &[("CREATED", 1), ("FAILED", 2)]);
    let app = App::new(vec![FakeJob::new(before), FakeJob::new(counts())]);
    assert_eq!(
        app.get("/jobs"),
        json!({ "jobs": [{ "id": "counts", "status": "RUNNING" }] })
    );
    assert_eq!(app.get("/overview")["jobs-failed"], 0);
    assert_eq!(app.send("GET", "/health", "").0, StatusCode::OK);
}

#[test]
fn jobs_overview() {
    let tasks = |running: u32, created: u32| {
        json!({
            "total": 4, "created": created, "scheduled": 0, "deploying": 0, "running": running, "finished": 0,
            "canceling": 0, "canceled": 0, "failed": 0, "reconciling": 0, "initializing": 0,
        })
    };
    let overview = mixed().get("/jobs/overview");
    assert_eq!(
        overview["jobs"][2],
        json!({
            "jid": "counts",
            "name": "Counts of <words>",
            "start-time": EPOCH_MS + 1000,
            "end-time": -1,
            "duration": 59_000,
            "state": "RUNNING",
            "last-modification": EPOCH_MS + 2000,
            "tasks": tasks(4, 0),
        })
    );
    assert_eq!(
        overview["jobs"][0],
        json!({
            "jid": "broken",
            "name": "broken",
            "start-time": EPOCH_MS + 100,
            "end-time": EPOCH_MS + 300,
            "duration": 200,
            "state": "FAILED",
            "last-modification": EPOCH_MS + 300,
            "tasks": tasks(0, 4),
        })
    );
}

#[test]
fn health_is_whether_a_job_failed() {
    let (status, body) = mixed().json("GET", "/health", "");
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let error = "the checkpoint store can't be used: /checkpoints is a file";
    assert_eq!(
        body,
        json!({ "status": "failed", "failed-jobs": [{ "jid": "broken", "error": error }] })
    );
    assert_eq!(
        App::counts().get("/health"),
        json!({ "status": "ok", "failed-jobs": [] })
    );
    let restarting = plain(
        "again",
        JobState::Restarting,
        &[("CREATED", 1), ("RESTARTING", 2)],
    );
    assert_eq!(
        App::new(vec![FakeJob::new(restarting)]).get("/health")["status"],
        "ok"
    );
}

#[test]
fn what_is_nowhere_is_said_in_json() {
    let app = mixed();
    for (method, path, status) in [
        ("GET", "/nothing", StatusCode::NOT_FOUND),
        ("GET", "/v1/jobs/counts/nothing", StatusCode::NOT_FOUND),
        ("GET", "/jobs/unknown", StatusCode::NOT_FOUND),
        ("GET", "/jobs/%FF", StatusCode::BAD_REQUEST),
        ("GET", "/jobs/counts/vertices/v2", StatusCode::NOT_FOUND),
        (
            "GET",
            "/jobs/counts/vertices/00000000000000000000000000000000",
            StatusCode::NOT_FOUND,
        ),
        (
            "GET",
            "/jobs/counts/checkpoints/details/99",
            StatusCode::NOT_FOUND,
        ),
        (
            "GET",
            "/jobs/counts/checkpoints/details/five",
            StatusCode::BAD_REQUEST,
        ),
        (
            "GET",
            "/jobs/counts/exceptions?maxExceptions=some",
            StatusCode::BAD_REQUEST,
        ),
        ("POST", "/overview", StatusCode::METHOD_NOT_ALLOWED),
        ("DELETE", "/jobs/counts", StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let (got, body) = app.json(method, path, "");
        assert_eq!(got, status, "{method} {path}");
        let errors = body["errors"].as_array().expect("errors are a list");
        assert_eq!(errors.len(), 1, "{body}");
    }
    let (_, body) = app.json("GET", "/jobs/unknown", "");
    assert_eq!(
        body,
        json!({ "errors": ["there is no job `unknown` here; GET /jobs lists them"] })
    );
}
