//! `/jobs/{job}` and what is under it but checkpoints.

use std::sync::atomic::Ordering::Relaxed;

use axum::http::StatusCode;
use serde_json::{Value, json};
use tidegate_runtime::master::{JobFailure, JobState};
use tidegate_runtime::task::TaskStatus;
use tidegate_types::options::{Attempts, RestartStrategy};

use super::fixture::{App, EPOCH_MS, FakeJob, SOURCE_ID, SUM_ID, counts, plain, sub};

fn counted(state: &str, n: u32) -> Value {
    let mut counts = json!({
        "CREATED": 0, "SCHEDULED": 0, "DEPLOYING": 0, "RUNNING": 0, "FINISHED": 0,
        "CANCELING": 0, "CANCELED": 0, "FAILED": 0, "RECONCILING": 0, "INITIALIZING": 0,
    });
    counts[state] = json!(n);
    counts
}

fn io(read: u64, write: u64, subtasks: u64) -> Value {
    json!({
        "read-bytes": 0,
        "read-bytes-complete": false,
        "write-bytes": 0,
        "write-bytes-complete": false,
        "read-records": read,
        "read-records-complete": true,
        "write-records": write,
        "write-records-complete": true,
        "accumulated-backpressured-time": 3000 * subtasks,
        "accumulated-idle-time": 5000 * subtasks,
        "accumulated-busy-time": (2000 * subtasks) as f64,
    })
}

fn plan() -> Value {
    json!({
        "jid": "counts",
        "name": "Counts of <words>",
        "type": "STREAMING",
        "nodes": [
            {
                "id": SOURCE_ID,
                "parallelism": 2,
                "operator": "",
                "operator_strategy": "",
                "description": "Source: numbers",
                "optimizer_properties": {},
                "inputs": [],
            },
            {
                "id": SUM_ID,
                "parallelism": 2,
                "operator": "",
                "operator_strategy": "",
                "description": "sum -> print",
                "optimizer_properties": {},
                "inputs": [{
                    "num": 0,
                    "id": SOURCE_ID,
                    "ship_strategy": "HASH",
                    "exchange": "pipelined_bounded",
                    "edge_kind": "normal",
                }],
            },
        ],
    })
}

#[test]
fn details() {
    let vertex = |id: &str, name: &str, uids: Value, read: u64| {
        json!({
            "id": id,
            "name": name,
            "maxParallelism": 128,
            "parallelism": 2,
            "status": "RUNNING",
            "start-time": EPOCH_MS + 2000,
            "end-time": -1,
            "duration": 58_000,
            "tasks": counted("RUNNING", 2),
            "metrics": io(read, 6000, 2),
            "uids": uids,
        })
    };
    assert_eq!(
        App::counts().get("/jobs/counts"),
        json!({
            "jid": "counts",
            "name": "Counts of <words>",
            "isStoppable": false,
            "state": "RUNNING",
            "job-type": "STREAMING",
            "start-time": EPOCH_MS + 1000,
            "end-time": -1,
            "duration": 59_000,
            "maxParallelism": 128,
            "now": EPOCH_MS + 60_000,
            "timestamps": {
                "INITIALIZING": 0, "CREATED": EPOCH_MS + 1000, "RUNNING": EPOCH_MS + 2000, "FAILING": 0,
                "FAILED": 0, "CANCELLING": 0, "CANCELED": 0, "FINISHED": 0, "RESTARTING": 0, "SUSPENDED": 0,
                "RECONCILING": 0,
            },
            "vertices": [
                vertex(SOURCE_ID, "Source: numbers", json!(["numbers"]), 0),
                vertex(SUM_ID, "sum -> print", json!(["sum", "print"]), 3000),
            ],
            "status-counts": counted("RUNNING", 2),
            "plan": plan(),
            "attempts": 1,
            "restarts": 0,
            "abandoned-threads": 0,
        })
    );
}

#[test]
fn a_job_without_tasks_has_created_ones() {
    let created = plain("new", JobState::Created, &[("CREATED", 0)]);
    let job = App::new(vec![FakeJob::new(created)]).get("/jobs/new");
    assert_eq!(job["vertices"][0]["status"], "CREATED");
    assert_eq!(job["vertices"][0]["start-time"], -1);
    assert_eq!(job["vertices"][0]["duration"], -1);
    assert_eq!(job["status-counts"], counted("CREATED", 2));
}

#[test]
fn the_worst_subtask_is_the_vertex_and_a_missing_one_had_finished() {
    let mut status = counts();
    status.subtasks[2].metrics.set_status(TaskStatus::Failed);
    status.subtasks[1].metrics.set_status(TaskStatus::Ended);
    status.subtasks.remove(0);
    let app = App::new(vec![FakeJob::new(status)]);
    let job = app.get("/jobs/counts");
    assert_eq!(job["vertices"][0]["status"], "RUNNING");
    assert_eq!(job["vertices"][0]["tasks"]["FINISHED"], 1);
    assert_eq!(job["vertices"][1]["status"], "FAILED");
}

#[test]
fn an_id_is_percent_encoded_in_a_path() {
    let odd = plain("a b/ü?", JobState::Running, &[("CREATED", 0)]);
    let app = App::new(vec![FakeJob::new(odd)]);
    assert_eq!(app.get("/jobs/a%20b%2F%C3%BC%3F")["jid"], "a b/ü?");
    assert_eq!(
        app.get("/v1/jobs/a%20b%2F%C3%BC%3F/status"),
        json!({ "status": "RUNNING" })
    );
}

#[test]
fn status_plan_and_config() {
    let change = |settings: &mut tidegate_types::options::Settings| {
        let delay = std::time::Duration::from_secs(1);
        settings.restart = RestartStrategy::FixedDelay {
            attempts: Attempts::Limited(3),
            delay,
        };
    };
    let app = App::new(vec![FakeJob::new(counts()).with_settings(change)]);
    assert_eq!(app.get("/jobs/counts/status"), json!({ "status": "RUNNING" }));
    assert_eq!(app.get("/jobs/counts/plan"), json!({ "plan": plan() }));
    assert_eq!(
        app.get("/jobs/counts/config"),
        json!({
            "jid": "counts",
            "name": "Counts of <words>",
            "execution-config": {
                "execution-mode": "PIPELINED",
                "restart-strategy": "Restart with fixed delay.",
                "job-parallelism": 1,
                "object-reuse-mode": true,
                "user-config": {},
            },
        })
    );
}

#[test]
fn exceptions() {
    let app = App::counts();
    let nothing = json!({
        "root-exception": null,
        "timestamp": null,
        "all-exceptions": [],
        "truncated": false,
        "exceptionHistory": { "entries": [], "truncated": false },
    });
    assert_eq!(app.get("/jobs/counts/exceptions"), nothing);

    let mut status = counts();
    status.failed(JobFailure {
        at: EPOCH_MS + 1,
        subtask: None,
        error: "source `numbers`: gone".to_owned(),
    });
    let error = "operator `sum`: overflow\nat key 7".to_owned();
    status.failed(JobFailure {
        at: EPOCH_MS + 2,
        subtask: Some(sub(1, 1)),
        error,
    });
    let app = App::new(vec![FakeJob::new(status)]);
    let newest = json!({
        "exceptionName": "operator `sum`: overflow",
        "stacktrace": "operator `sum`: overflow\nat key 7",
        "timestamp": EPOCH_MS + 2,
        "failureLabels": {},
        "concurrentExceptions": [],
        "taskName": "sum -> print (2/2)",
        "vertex": SUM_ID,
        "subtask": 1,
    });
    assert_eq!(
        app.get("/jobs/counts/exceptions?maxExceptions=1"),
        json!({
            "root-exception": "operator `sum`: overflow\nat key 7",
            "timestamp": EPOCH_MS + 2,
            "all-exceptions": [],
            "truncated": true,
            "exceptionHistory": { "entries": [newest], "truncated": true },
        })
    );
    let all = app.get("/jobs/counts/exceptions");
    assert_eq!(all["truncated"], false);
    assert_eq!(
        all["exceptionHistory"]["entries"][1]["exceptionName"],
        "source `numbers`: gone"
    );
}

#[test]
fn the_error_of_a_job_that_never_ran_is_its_exception() {
    let failed = plain("broken", JobState::Failed, &[("CREATED", 100), ("FAILED", 300)]);
    let mut failed = FakeJob::new(failed);
    failed.error = Some("the store is away".to_owned());
    let exceptions = App::new(vec![failed]).get("/jobs/broken/exceptions");
    assert_eq!(exceptions["root-exception"], "the store is away");
    assert_eq!(exceptions["timestamp"], EPOCH_MS + 300);
}

#[test]
fn a_vertex_by_its_id_and_by_its_number() {
    let app = App::counts();
    let vertex = app.get(&format!("/jobs/counts/vertices/{SUM_ID}"));
    assert_eq!(vertex, app.get("/jobs/counts/vertices/v1"));
    let subtask = |index: u64| {
        json!({
            "subtask": index,
            "status": "RUNNING",
            "attempt": 0,
            "endpoint": "localhost",
            "start-time": EPOCH_MS + 2000,
            "end-time": -1,
            "duration": 58_000,
            "metrics": io(1000 * (index + 1), 2000 * (index + 1), 1),
            "taskmanager-id": "local",
        })
    };
    assert_eq!(
        vertex,
        json!({
            "id": SUM_ID,
            "name": "sum -> print",
            "parallelism": 2,
            "maxParallelism": 128,
            "now": EPOCH_MS + 60_000,
            "subtasks": [subtask(0), subtask(1)],
        })
    );
}

#[test]
fn backpressure_over_the_last_samples() {
    let app = App::counts();
    let none = app.get("/jobs/counts/vertices/v0/backpressure");
    assert_eq!(
        (&none["status"], &none["subtasks"]),
        (&json!("deprecated"), &json!([]))
    );

    app.state.sample();
    app.jobs.pass(2000);
    let metrics = app.job(0).metrics(1);
    metrics.backpressured_ns.fetch_add(1_500_000_000, Relaxed);
    metrics.idle_ns.fetch_add(250_000_000, Relaxed);
    app.state.sample();
    assert_eq!(
        app.get("/jobs/counts/vertices/v0/backpressure"),
        json!({
            "status": "ok",
            "backpressure-level": "high",
            "end-timestamp": EPOCH_MS + 62_000,
            "subtasks": [
                {
                    "subtask": 0, "attempt-number": 0, "backpressure-level": "ok",
                    "ratio": 0.0, "idleRatio": 0.0, "busyRatio": 1.0,
                },
                {
                    "subtask": 1, "attempt-number": 0, "backpressure-level": "high",
                    "ratio": 0.75, "idleRatio": 0.125, "busyRatio": 0.125,
                },
            ],
        })
    );
}

#[test]
fn watermarks() {
    assert_eq!(
        App::counts().get("/jobs/counts/vertices/v1/watermarks"),
        json!([
            { "id": "0.currentInputWatermark", "value": "1234" },
            { "id": "1.currentInputWatermark", "value": "1234" },
        ])
    );
}

#[test]
fn get_and_head_answer_alike() {
    let (status, body) = App::counts().send("HEAD", "/jobs/counts", "");
    assert_eq!((status, body.as_str()), (StatusCode::OK, ""));
}
