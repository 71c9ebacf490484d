//! Cancelling, savepoints, stopping, checkpoints on request.

use std::sync::atomic::Ordering::Relaxed;

use axum::http::StatusCode;
use serde_json::{Value, json};
use tidegate_protocol::coordinator::{
    FailureReason, FailureRecord, Request, RequestDone, RequestFailure, SavepointOrder,
};
use tidegate_runtime::master::JobState;
use tidegate_types::{CheckpointId, SavepointFormat};

use super::fixture::{App, FakeJob, counts, plain, sub};

fn asked(app: &App) -> Vec<Request> {
    app.job(0).requests.lock().unwrap().clone()
}

fn begin(app: &App, path: &str, body: &Value) -> String {
    let (status, answer) = app.json("POST", path, &body.to_string());
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    let id = answer["request-id"].as_str().expect("an id").to_owned();
    assert_eq!(answer, json!({ "request-id": id }));
    assert!(
        id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{id}"
    );
    id
}

fn order(target: &str, format: SavepointFormat, unaligned: bool) -> SavepointOrder {
    SavepointOrder {
        format,
        target: Some(target.to_owned()),
        unaligned,
    }
}

fn done(id: u64, path: Option<&str>) -> RequestDone {
    RequestDone {
        id: Some(CheckpointId(id)),
        path: path.map(str::to_owned),
    }
}

#[test]
fn a_savepoint_from_trigger_to_location() {
    let app = App::counts();
    let body = json!({ "target-directory": "/save", "cancel-job": false, "formatType": "NATIVE" });
    let id = begin(&app, "/jobs/counts/savepoints", &body);
    assert_eq!(
        asked(&app),
        [Request::Savepoint(order("/save", SavepointFormat::Native, false))]
    );

    let path = format!("/v1/jobs/counts/savepoints/{id}");
    assert_eq!(
        app.get(&path),
        json!({ "status": { "id": "IN_PROGRESS" }, "operation": null })
    );
    app.job(0).answer(Ok(done(9, Some("/save/savepoint-counts-7"))));
    app.settle();
    assert_eq!(
        app.get(&path),
        json!({
            "status": { "id": "COMPLETED" },
            "operation": { "location": "/save/savepoint-counts-7", "checkpoint-id": 9 },
        })
    );
    assert_eq!(app.job(0).cancels.load(Relaxed), 0);
}

#[test]
fn a_failed_savepoint_says_why_and_what_to_do() {
    let app = App::counts();
    let id = begin(
        &app,
        "/jobs/counts/savepoints",
        &json!({ "target-directory": "/save", "cancel-job": true }),
    );
    let record = FailureRecord {
        id: Some(CheckpointId(9)),
        reason: FailureReason::AsyncFailed,
        subtask: Some(sub(1, 0)),
        detail: "disk full".to_owned(),
        counted: true,
    };
    let text = record.to_string();
    assert!(text.contains("disk full") && text.contains("has space"), "{text}");
    app.job(0).answer(Err(RequestFailure::Failed(Box::new(record))));
    app.settle();
    assert_eq!(
        app.get(&format!("/jobs/counts/savepoints/{id}")),
        json!({
            "status": { "id": "COMPLETED" },
            "operation": { "failure-cause": { "class": "CheckpointFailed", "stack-trace": text } },
        })
    );
    assert_eq!(
        app.job(0).cancels.load(Relaxed),
        0,
        "a job whose savepoint failed is not cancelled"
    );
}

#[test]
fn a_savepoint_and_then_cancel() {
    let app = App::counts();
    begin(
        &app,
        "/jobs/counts/savepoints",
        &json!({ "target-directory": "/save", "cancel-job": true }),
    );
    assert_eq!(app.job(0).cancels.load(Relaxed), 0);
    app.job(0).answer(Ok(done(9, Some("/save/s"))));
    app.settle();
    assert_eq!(app.job(0).cancels.load(Relaxed), 1);
}

#[test]
fn stop_suspends_or_drains() {
    let app = App::counts();
    let canonical = |unaligned| Some(order("/save", SavepointFormat::Canonical, unaligned));
    begin(&app, "/jobs/counts/stop", &json!({ "targetDirectory": "/save" }));
    begin(
        &app,
        "/jobs/counts/stop",
        &json!({ "targetDirectory": "/save", "drain": true, "unaligned": true }),
    );
    begin(&app, "/jobs/counts/stop", &json!({ "savepoint": false }));
    let id = begin(
        &app,
        "/jobs/counts/stop",
        &json!({ "savepoint": false, "drain": true }),
    );
    assert_eq!(
        asked(&app),
        [
            Request::Suspend {
                savepoint: canonical(false)
            },
            Request::Drain {
                savepoint: canonical(true)
            },
            Request::Suspend { savepoint: None },
            Request::Drain { savepoint: None },
        ]
    );
    for _ in 0..3 {
        app.job(0).answer(Ok(done(9, Some("/save/s"))));
    }
    app.job(0).answer(Ok(RequestDone { id: None, path: None }));
    app.settle();
    assert_eq!(
        app.get(&format!("/jobs/counts/savepoints/{id}"))["operation"],
        json!({ "location": null, "checkpoint-id": null })
    );
}

#[test]
fn a_savepoint_needs_a_place() {
    let app = App::counts();
    for path in ["/jobs/counts/savepoints", "/jobs/counts/stop"] {
        let (status, body) = app.json("POST", path, "");
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let error = body["errors"][0].as_str().unwrap();
        assert!(error.contains("execution.checkpointing.savepoint-dir"), "{error}");
    }
    let configured = FakeJob::new(counts())
        .with_settings(|settings| settings.checkpoints.savepoint_dir = Some("/savepoints".to_owned()));
    let app = App::new(vec![configured]);
    begin(&app, "/jobs/counts/savepoints", &json!({}));
    let order = SavepointOrder {
        format: SavepointFormat::Canonical,
        target: None,
        unaligned: false,
    };
    assert_eq!(asked(&app), [Request::Savepoint(order)]);
}

#[test]
fn a_checkpoint_on_request() {
    let app = App::counts();
    let (status, answer) = app.json("POST", "/jobs/counts/checkpoints", "");
    assert_eq!(status, StatusCode::ACCEPTED);
    let first = answer["request-id"].as_str().unwrap().to_owned();
    let second = begin(
        &app,
        "/jobs/counts/checkpoints",
        &json!({ "checkpointType": "FULL" }),
    );
    assert_ne!(first, second);
    assert_eq!(
        asked(&app),
        [
            Request::Checkpoint { full: false },
            Request::Checkpoint { full: true }
        ]
    );
    app.job(0).answer(Ok(done(9, None)));
    let reason = "a task was not running. Ask again once all tasks run.".to_owned();
    app.job(0).answer(Err(RequestFailure::Refused {
        reason: reason.clone(),
    }));
    app.settle();
    assert_eq!(
        app.get(&format!("/jobs/counts/checkpoints/{first}")),
        json!({ "status": { "id": "COMPLETED" }, "operation": { "checkpointId": 9 } })
    );
    assert_eq!(
        app.get(&format!("/jobs/counts/checkpoints/{second}"))["operation"],
        json!({ "failureCause": { "class": "Refused", "stack-trace": reason } })
    );
}

#[test]
fn a_trigger_id_of_the_client_is_asked_for_once() {
    let app = App::counts();
    let trigger = "00112233445566778899AABBCCDDEEFF";
    let body = json!({ "target-directory": "/save", "triggerId": trigger });
    for _ in 0..2 {
        assert_eq!(
            begin(&app, "/jobs/counts/savepoints", &body),
            trigger.to_lowercase()
        );
    }
    assert_eq!(asked(&app).len(), 1);
    assert_eq!(
        app.get(&format!("/jobs/counts/savepoints/{trigger}"))["status"]["id"],
        "IN_PROGRESS"
    );
    let elsewhere = app
        .json("GET", &format!("/jobs/counts/checkpoints/{trigger}"), "")
        .0;
    assert_eq!(
        elsewhere,
        StatusCode::NOT_FOUND,
        "checkpoints and savepoints are apart"
    );
}

#[test]
fn what_became_of_a_savepoint_is_known_after_the_job_has_ended() {
    let app = App::counts();
    let id = begin(&app, "/jobs/counts/stop", &json!({ "targetDirectory": "/save" }));
    app.job(0).answer(Ok(done(9, Some("/save/s"))));
    app.settle();
    tidegate_runtime::master::StatusBoard::update(crate::jobs::Job::board(&*app.job(0)), |status| {
        status.state = JobState::Suspended;
    });
    assert_eq!(
        app.get(&format!("/jobs/counts/savepoints/{id}"))["operation"]["location"],
        "/save/s"
    );
}

#[test]
fn ids_that_nobody_gave_out() {
    let app = App::counts();
    let unknown = app.json(
        "GET",
        "/jobs/counts/savepoints/00000000000000000000000000000000",
        "",
    );
    assert_eq!(unknown.0, StatusCode::NOT_FOUND);
    let text = "job `counts` has no savepoint under the trigger id 00000000000000000000000000000000";
    assert_eq!(unknown.1, json!({ "errors": [text] }));
    assert_eq!(
        app.json("GET", "/jobs/counts/savepoints/7", "").0,
        StatusCode::BAD_REQUEST
    );
}

#[test]
fn bodies_that_make_no_sense() {
    let app = App::counts();
    for (path, body, says) in [
        ("/jobs/counts/savepoints", "{", "EOF"),
        ("/jobs/counts/savepoints", "[1]", "invalid type"),
        (
            "/jobs/counts/savepoints",
            r#"{"targetDirectory": "/save"}"#,
            "unknown field `targetDirectory`",
        ),
        (
            "/jobs/counts/savepoints",
            r#"{"formatType": "XML"}"#,
            "unknown variant `XML`",
        ),
        (
            "/jobs/counts/savepoints",
            r#"{"triggerId": "7"}"#,
            "32 hexadecimal digits",
        ),
        ("/jobs/counts/stop", r#"{"drain": "yes"}"#, "invalid type"),
        (
            "/jobs/counts/checkpoints",
            r#"{"checkpointType": "HALF"}"#,
            "unknown variant `HALF`",
        ),
    ] {
        let (status, answer) = app.json("POST", path, body);
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
        let error = answer["errors"][0].as_str().unwrap();
        assert!(error.contains(says), "{error}");
    }
    let long = "x".repeat(70_000);
    let (status, body) = app.json("POST", "/jobs/counts/stop", &long);
    assert_eq!(
        (status, body),
        (
            StatusCode::PAYLOAD_TOO_LARGE,
            json!({ "errors": ["Failed to buffer the request body: length limit exceeded"] })
        )
    );
    assert_eq!(asked(&app), []);
}

#[test]
fn cancel() {
    let app = App::counts();
    assert_eq!(
        app.json("PATCH", "/jobs/counts?mode=cancel", ""),
        (StatusCode::ACCEPTED, json!({}))
    );
    assert_eq!(app.json("PATCH", "/v1/jobs/counts", "").0, StatusCode::ACCEPTED);
    assert_eq!(app.job(0).cancels.load(Relaxed), 2);
    let (status, body) = app.json("PATCH", "/jobs/counts?mode=stop", "");
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(body["errors"][0].as_str().unwrap().contains("/jobs/counts/stop"));
}

#[test]
fn nothing_is_asked_of_a_job_that_has_ended() {
    let of = |state| App::new(vec![FakeJob::new(plain("old", state, &[("CREATED", 0)]))]);
    let finished = of(JobState::Finished);
    let (status, body) = finished.json("PATCH", "/jobs/old?mode=cancel", "");
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(body, json!({ "errors": ["job `old` has ended: FINISHED"] }));
    for path in ["/jobs/old/savepoints", "/jobs/old/stop", "/jobs/old/checkpoints"] {
        let body = match path.ends_with("stop") {
            true => json!({ "targetDirectory": "/save" }),
            false if path.ends_with("savepoints") => json!({ "target-directory": "/save" }),
            false => json!({}),
        };
        assert_eq!(
            finished.json("POST", path, &body.to_string()).0,
            StatusCode::CONFLICT,
            "{path}"
        );
    }
    assert_eq!(asked(&finished), []);
    let cancelled = of(JobState::Canceled);
    assert_eq!(
        cancelled.json("PATCH", "/jobs/old?mode=cancel", "").0,
        StatusCode::ACCEPTED
    );
    assert_eq!(
        cancelled.job(0).cancels.load(Relaxed),
        0,
        "it is cancelled already"
    );
}
