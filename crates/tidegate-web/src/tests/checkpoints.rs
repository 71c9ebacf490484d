//! `/jobs/{job}/checkpoints` and its details.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_runtime::master::JobState;
use tidegate_types::SnapshotMode;
use tidegate_types::options::{CheckpointRetention, Settings};

use super::fixture::{App, EPOCH_MS, FakeJob, SOURCE_ID, SUM_ID, counts, plain};

fn figures(min: u64, max: u64, avg: u64, quantiles: [f64; 5]) -> Value {
    let [p50, p90, p95, p99, p999] = quantiles;
    json!({
        "min": min, "max": max, "avg": avg, "p50": p50, "p90": p90, "p95": p95, "p99": p99, "p999": p999,
    })
}

/// Figures over equal values.
fn all(value: u64) -> Value {
    figures(value, value, value, [value as f64; 5])
}

fn completed() -> Value {
    json!({
        "className": "completed",
        "id": 5,
        "status": "COMPLETED",
        "is_savepoint": false,
        "savepointFormat": null,
        "trigger_timestamp": EPOCH_MS + 10_000,
        "latest_ack_timestamp": EPOCH_MS + 10_040,
        "checkpointed_size": 120,
        "state_size": 160,
        "end_to_end_duration": 40,
        "alignment_buffered": 0,
        "processed_data": 16,
        "persisted_data": 64,
        "num_subtasks": 4,
        "num_acknowledged_subtasks": 4,
        "checkpoint_type": "UNALIGNED_CHECKPOINT",
        "tasks": {},
        "mode": "adaptive",
        "unaligned_subtasks": 1,
        "persisted_records": 4,
        "external_path": "/checkpoints/counts/chk-5",
        "discarded": false,
    })
}

fn savepoint() -> Value {
    json!({
        "className": "completed",
        "id": 6,
        "status": "COMPLETED",
        "is_savepoint": true,
        "savepointFormat": "CANONICAL",
        "trigger_timestamp": EPOCH_MS + 20_000,
        "latest_ack_timestamp": EPOCH_MS + 20_100,
        "checkpointed_size": 120,
        "state_size": 160,
        "end_to_end_duration": 100,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": 4,
        "num_acknowledged_subtasks": 4,
        "checkpoint_type": "SAVEPOINT",
        "tasks": {},
        "mode": "aligned",
        "unaligned_subtasks": 0,
        "persisted_records": 0,
        "external_path": "/savepoints/savepoint-counts-1",
        "discarded": false,
    })
}

const REMEDY: &str =
    "Check that the checkpoint directory is writable and has space from this subtask's machine.";

fn failed() -> Value {
    json!({
        "className": "failed",
        "id": 7,
        "status": "FAILED",
        "is_savepoint": false,
        "savepointFormat": null,
        "trigger_timestamp": EPOCH_MS + 30_000,
        "latest_ack_timestamp": -1,
        "checkpointed_size": 0,
        "state_size": 0,
        "end_to_end_duration": 0,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": 4,
        "num_acknowledged_subtasks": 0,
        "checkpoint_type": "CHECKPOINT",
        "tasks": {},
        "mode": "adaptive",
        "unaligned_subtasks": 0,
        "persisted_records": 0,
        "failure_timestamp": EPOCH_MS + 30_050,
        "failure_message": format!(
            "checkpoint 7: the state could not be encoded or written at v1/1: no <space> left on device. {REMEDY}"
        ),
        "failure": {
            "reason": "the state could not be encoded or written",
            "detail": "no <space> left on device",
            "remedy": REMEDY,
            "counted": true,
            "vertex": SUM_ID,
            "subtask": 1,
        },
    })
}

fn pending() -> Value {
    json!({
        "className": "in_progress",
        "id": 8,
        "status": "IN_PROGRESS",
        "is_savepoint": false,
        "savepointFormat": null,
        "trigger_timestamp": EPOCH_MS + 40_000,
        "latest_ack_timestamp": EPOCH_MS + 40_005,
        "checkpointed_size": 30,
        "state_size": 40,
        "end_to_end_duration": 5,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": 4,
        "num_acknowledged_subtasks": 1,
        "checkpoint_type": "CHECKPOINT",
        "tasks": {},
        "mode": "adaptive",
        "unaligned_subtasks": 0,
        "persisted_records": 0,
    })
}

#[test]
fn statistics() {
    assert_eq!(
        App::counts().get("/jobs/counts/checkpoints"),
        json!({
            "counts": { "restored": 1, "total": 4, "in_progress": 1, "completed": 2, "failed": 1 },
            "summary": {
                "checkpointed_size": all(120),
                "state_size": all(160),
                "end_to_end_duration": figures(40, 100, 70, [70.0, 100.0, 100.0, 100.0, 100.0]),
                "alignment_buffered": all(0),
                "processed_data": figures(0, 16, 8, [8.0, 16.0, 16.0, 16.0, 16.0]),
                "persisted_data": figures(0, 64, 32, [32.0, 64.0, 64.0, 64.0, 64.0]),
            },
            "latest": {
                "completed": completed(),
                "savepoint": savepoint(),
                "failed": failed(),
                "restored": {
                    "id": 4,
                    "restore_timestamp": EPOCH_MS + 2000,
                    "is_savepoint": false,
                    "external_path": "/checkpoints/counts/chk-4",
                },
            },
            "history": [pending(), failed(), savepoint(), completed()],
        })
    );
}

#[test]
fn statistics_of_none() {
    let app = App::new(vec![FakeJob::new(plain(
        "new",
        JobState::Created,
        &[("CREATED", 0)],
    ))]);
    let statistics = app.get("/jobs/new/checkpoints");
    assert_eq!(
        statistics["counts"],
        json!({ "restored": 0, "total": 0, "in_progress": 0, "completed": 0, "failed": 0 })
    );
    assert_eq!(
        statistics["latest"],
        json!({ "completed": null, "savepoint": null, "failed": null, "restored": null })
    );
    assert_eq!(statistics["history"], json!([]));
    assert_eq!(statistics["summary"]["state_size"], all(0));
}

#[test]
fn a_checkpoint_by_vertex() {
    let task = |latest: i64, processed: [u64; 2], persisted: [u64; 2]| {
        json!({
            "id": 5,
            "status": "COMPLETED",
            "latest_ack_timestamp": EPOCH_MS + 10_000 + latest,
            "checkpointed_size": 60,
            "state_size": 80,
            "end_to_end_duration": latest,
            "alignment_buffered": 0,
            "processed_data": processed[0],
            "persisted_data": persisted[0],
            "num_subtasks": 2,
            "num_acknowledged_subtasks": 2,
            "processed_records": processed[1],
            "persisted_records": persisted[1],
        })
    };
    let mut expected = completed();
    expected["tasks"] = json!({
        SOURCE_ID: task(20, [0, 0], [0, 0]),
        SUM_ID: task(40, [16, 1], [64, 4]),
    });
    assert_eq!(App::counts().get("/jobs/counts/checkpoints/details/5"), expected);
}

#[test]
fn a_checkpoint_by_subtask() {
    let app = App::counts();
    let details = app.get(&format!("/jobs/counts/checkpoints/details/5/subtasks/{SUM_ID}"));
    assert_eq!(details, app.get("/jobs/counts/checkpoints/details/5/subtasks/v1"));
    assert_eq!(
        details["summary"],
        json!({
            "checkpointed_size": all(30),
            "state_size": all(40),
            "end_to_end_duration": figures(30, 40, 35, [35.0, 40.0, 40.0, 40.0, 40.0]),
            "checkpoint_duration": { "sync": all(0), "async": all(4) },
            "alignment": {
                "buffered": all(0),
                "processed": figures(0, 16, 8, [8.0, 16.0, 16.0, 16.0, 16.0]),
                "persisted": figures(0, 64, 32, [32.0, 64.0, 64.0, 64.0, 64.0]),
                "duration": all(7),
            },
            "start_delay": figures(3, 20, 11, [11.5, 20.0, 20.0, 20.0, 20.0]),
        })
    );
    assert_eq!(details["num_acknowledged_subtasks"], 2);
    assert_eq!(
        details["subtasks"][0],
        json!({
            "className": "completed",
            "index": 0,
            "status": "completed",
            "ack_timestamp": EPOCH_MS + 10_030,
            "end_to_end_duration": 30,
            "checkpointed_size": 30,
            "state_size": 40,
            "checkpoint": { "sync": 0, "async": 4 },
            "alignment": { "buffered": 0, "processed": 16, "persisted": 64, "duration": 7 },
            "start_delay": 20,
            "unaligned_checkpoint": true,
            "aborted": false,
            "mode": "unaligned",
            "finished": false,
            "processed_records": 1,
            "persisted_records": 4,
            "in_flight": [{
                "uid": "sum", "input": 0, "generation": 3, "producer": 1, "consumer": 0, "bytes": 64, "records": 4,
            }],
            "durations_ns": {
                "start_delay": 20_000_000,
                "chain_delay": 300_000,
                "record_delay": 0,
                "alignment": 7_000_000,
                "sync": 250_000,
                "async": 4_000_000,
                "end_to_end": 32_000_000,
            },
        })
    );
    assert_eq!(details["subtasks"][1]["unaligned_checkpoint"], false);
    assert_eq!(details["subtasks"][1]["in_flight"], json!([]));
}

#[test]
fn a_subtask_that_has_not_acknowledged() {
    let details = App::counts().get("/jobs/counts/checkpoints/details/8/subtasks/v0");
    assert_eq!(details["num_acknowledged_subtasks"], 1);
    assert_eq!(
        details["subtasks"][1],
        json!({ "className": "pending", "index": 1, "status": "pending_or_failed" })
    );
}

#[test]
fn timestamps_stay_when_the_clock_creeps_and_follow_when_it_jumps() {
    let app = App::counts();
    let triggered = || app.get("/jobs/counts/checkpoints/details/5")["trigger_timestamp"].clone();
    assert_eq!(triggered(), EPOCH_MS + 10_000);
    app.jobs.set_ms.store(900, Relaxed);
    assert_eq!(triggered(), EPOCH_MS + 10_000);
    app.jobs.set_ms.store(-3_600_000, Relaxed);
    assert_eq!(triggered(), EPOCH_MS + 10_000 - 3_600_000);
}

fn config(change: impl FnOnce(&mut Settings)) -> Value {
    App::new(vec![FakeJob::new(counts()).with_settings(change)]).get("/jobs/counts/checkpoints/config")
}

#[test]
fn config_of_a_job_that_sets_everything() {
    let config = config(|settings| {
        let checkpoints = &mut settings.checkpoints;
        checkpoints.interval = Some(Duration::from_secs(10));
        checkpoints.timeout = Duration::from_secs(60);
        checkpoints.min_pause = Duration::from_millis(500);
        checkpoints.mode = SnapshotMode::Adaptive {
            timeout: Duration::from_secs(2),
        };
        checkpoints.tolerable_failures = 3;
        checkpoints.retention = CheckpointRetention::DeleteOnCancellation;
        checkpoints.savepoint_dir = Some("/savepoints".to_owned());
    });
    assert_eq!(
        config,
        json!({
            "mode": "exactly_once",
            "interval": 10_000,
            "timeout": 60_000,
            "min_pause": 500,
            "max_concurrent": 1,
            "externalization": { "enabled": true, "delete_on_cancellation": true },
            "state_backend": "memory",
            "checkpoint_storage": "/checkpoints",
            "unaligned_checkpoints": true,
            "aligned_checkpoint_timeout": 2000,
            "tolerable_failed_checkpoints": 3,
            "checkpoints_after_tasks_finish": true,
            "state_changelog_enabled": false,
            "changelog_periodic_materialization_interval": null,
            "changelog_storage": null,
            "snapshot_mode": "adaptive",
            "quiesce_limit": null,
            "num_retained": 1,
            "savepoint_directory": "/savepoints",
        })
    );
}

#[test]
fn config_by_mode() {
    let of = |mode: SnapshotMode| config(|settings| settings.checkpoints.mode = mode);
    let parts = |config: &Value| {
        (
            config["mode"].clone(),
            config["unaligned_checkpoints"].clone(),
            config["quiesce_limit"].clone(),
        )
    };
    assert_eq!(
        parts(&of(SnapshotMode::AtLeastOnce)),
        (json!("at_least_once"), json!(false), json!(null))
    );
    assert_eq!(
        parts(&of(SnapshotMode::Unaligned)),
        (json!("exactly_once"), json!(true), json!(null))
    );
    let quiesce = SnapshotMode::Quiesce {
        limit: Duration::from_secs(30),
    };
    assert_eq!(
        parts(&of(quiesce)),
        (json!("exactly_once"), json!(false), json!(30_000))
    );
    assert_eq!(of(SnapshotMode::Aligned)["interval"], i64::MAX);
}
