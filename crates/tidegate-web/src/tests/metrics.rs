//! `/metrics`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

use axum::body::Body;
use axum::http::Request;
use tidegate_runtime::master::JobState;
use tidegate_runtime::task::TaskStatus;

use super::fixture::{App, EPOCH_MS, FakeJob, SUM_ID, counts, plain};

/// The samples by name and labels; checks what Prometheus demands of the text on the way.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let (mut found, mut families) = (BTreeMap::new(), BTreeSet::new());
    let mut family = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split(' ').next().unwrap().to_owned();
            assert!(families.insert(family.clone()), "{family} stands twice");
            assert_eq!(lines.next(), Some(&*format!("# TYPE {family} gauge")));
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
        assert_eq!(
            series.split('{').next(),
            Some(&*family),
            "a sample outside of its family"
        );
        let value = value.parse().expect("a value is a number");
        assert!(
            found.insert(series.to_owned(), value).is_none(),
            "{series} stands twice"
        );
    }
    assert!(text.ends_with('\n'));
    found
}

fn scrape(app: &App) -> BTreeMap<String, f64> {
    samples(&app.send("GET", "/metrics", "").1)
}

#[test]
fn of_the_job() {
    let metrics = scrape(&App::counts());
    let job = |name: &str| {
        let series =
            format!("flink_jobmanager_job_{name}{{job_id=\"counts\",job_name=\"Counts of <words>\"}}");
        *metrics
            .get(&series)
            .unwrap_or_else(|| panic!("no {series} in {metrics:#?}"))
    };
    let epoch = EPOCH_MS as f64;
    for (name, value) in [
        ("uptime", 58_000.0),
        ("downtime", 0.0),
        ("numRestarts", 0.0),
        ("runningState", 1.0),
        ("runningTime", 58_000.0),
        ("restartingState", 0.0),
        ("restartingTime", 0.0),
        ("failingState", 0.0),
        ("cancellingState", 0.0),
        ("createdState", 0.0),
        ("lastCheckpointDuration", 100.0),
        ("lastCheckpointSize", 120.0),
        ("lastCheckpointFullSize", 160.0),
        ("lastCheckpointProcessedData", 0.0),
        ("lastCheckpointPersistedData", 0.0),
        ("lastCompletedCheckpointId", 6.0),
        ("lastCheckpointCompletedTimestamp", epoch + 20_100.0),
        ("lastCheckpointRestoreTimestamp", epoch + 2000.0),
        ("numberOfInProgressCheckpoints", 1.0),
        ("numberOfCompletedCheckpoints", 2.0),
        ("numberOfFailedCheckpoints", 1.0),
        ("totalNumberOfCheckpoints", 4.0),
    ] {
        assert_eq!(job(name), value, "{name}");
    }
    assert_eq!(metrics["flink_jobmanager_numRunningJobs"], 1.0);
    assert_eq!(metrics["flink_jobmanager_numRegisteredTaskManagers"], 1.0);
    assert_eq!(metrics["flink_jobmanager_taskSlotsTotal"], 2.0);
    assert_eq!(metrics["flink_jobmanager_taskSlotsAvailable"], 0.0);
}

#[test]
fn of_a_task() {
    let app = App::counts();
    app.state.sample();
    app.jobs.pass(4000);
    let metrics = app.job(0).metrics(2);
    metrics.records_in.fetch_add(400, Relaxed);
    metrics.records_out.fetch_add(800, Relaxed);
    metrics.records_skipped.fetch_add(3, Relaxed);
    metrics.idle_ns.fetch_add(1_000_000_000, Relaxed);
    metrics.backpressured_ns.fetch_add(2_000_000_000, Relaxed);
    app.state.sample();
    let metrics = scrape(&app);
    let task = |name: &str| {
        let labels = format!(
            "job_id=\"counts\",job_name=\"Counts of <words>\",task_id=\"{SUM_ID}\",task_name=\"sum -> print\",\
             subtask_index=\"0\""
        );
        let series = format!("flink_taskmanager_job_task_{name}{{{labels}}}");
        *metrics
            .get(&series)
            .unwrap_or_else(|| panic!("no {series} in {metrics:#?}"))
    };
    for (name, value) in [
        ("numRecordsIn", 1400.0),
        ("numRecordsOut", 2800.0),
        ("numRecordsInPerSecond", 100.0),
        ("numRecordsOutPerSecond", 200.0),
        ("busyTimeMsPerSecond", 250.0),
        ("idleTimeMsPerSecond", 250.0),
        ("backPressuredTimeMsPerSecond", 500.0),
        ("softBackPressuredTimeMsPerSecond", 500.0),
        ("hardBackPressuredTimeMsPerSecond", 0.0),
        ("accumulateBusyTimeMs", 2000.0),
        ("accumulateIdleTimeMs", 6000.0),
        ("accumulateBackPressuredTimeMs", 5000.0),
        ("currentInputWatermark", 1234.0),
        ("buffers_inputQueueLength", 25.0),
        ("buffers_inPoolUsage", 0.25),
        ("checkpointAlignmentTime", 7_000_000.0),
        ("checkpointStartDelayNanos", 2_000_000.0),
    ] {
        assert_eq!(task(name), value, "{name}");
    }
    let skipped = metrics
        .iter()
        .filter(|(series, _)| series.starts_with("tidegate_task_numRecordsSkipped{"));
    assert!(
        skipped.map(|(_, value)| *value).sum::<f64>() == 3.0,
        "{metrics:#?}"
    );
}

#[test]
fn a_gone_task_and_an_ended_job_have_no_task_metrics() {
    let mut status = counts();
    status.subtasks[0].metrics.set_status(TaskStatus::Finished);
    let mut ended = plain("old", JobState::Failed, &[("CREATED", 0), ("FAILED", 10)]);
    ended.subtasks = counts().subtasks;
    status.subtasks.truncate(2);
    let metrics = scrape(&App::new(vec![FakeJob::new(status), FakeJob::new(ended)]));
    let with = |name: &str| metrics.keys().filter(|series| series.starts_with(name)).count();
    assert_eq!(with("flink_taskmanager_job_task_numRecordsIn{"), 1);
    assert_eq!(
        metrics["tidegate_job_failed{job_id=\"old\",job_name=\"old\"}"],
        1.0
    );
    assert_eq!(
        metrics["flink_jobmanager_job_uptime{job_id=\"old\",job_name=\"old\"}"],
        -1.0
    );
    let end = metrics["tidegate_job_end_timestamp{job_id=\"old\",job_name=\"old\"}"];
    assert_eq!(end, (EPOCH_MS + 10) as f64);
    assert_eq!(
        metrics["flink_jobmanager_job_lastCheckpointDuration{job_id=\"old\",job_name=\"old\"}"],
        -1.0
    );
}

#[test]
fn rates_need_two_samples() {
    let app = App::counts();
    let rates = |app: &App| {
        scrape(app)
            .keys()
            .filter(|series| series.contains("busyTimeMsPerSecond"))
            .count()
    };
    assert_eq!(rates(&app), 0);
    app.state.sample();
    assert_eq!(rates(&app), 0);
    app.jobs.pass(1000);
    app.state.sample();
    assert_eq!(rates(&app), 4);
}

#[test]
fn names_of_jobs_are_escaped() {
    let odd = plain("a \"b\" \\ c\nd", JobState::Running, &[("CREATED", 0)]);
    let metrics = scrape(&App::new(vec![FakeJob::new(odd)]));
    let series = r#"flink_jobmanager_job_numRestarts{job_id="a \"b\" \\ c\nd",job_name="a \"b\" \\ c\nd"}"#;
    assert!(metrics.contains_key(series), "{metrics:#?}");
}

#[test]
fn the_content_type_names_the_format() {
    let app = App::counts();
    let response = app.respond(Request::builder().uri("/metrics").body(Body::empty()).unwrap());
    assert_eq!(
        response.headers()["content-type"],
        "text/plain; version=0.0.4; charset=utf-8"
    );
}
