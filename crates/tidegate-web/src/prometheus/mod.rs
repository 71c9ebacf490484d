//! `/metrics`: what Prometheus collects, under the names that Flink's reporter gives.
//!
//! Owns: which metrics there are and their labels. Does not own: the text format ([`text`]), rates (`rates`).
//!
//! Written by hand rather than with a client library: libraries keep their own registry of counters, while every figure
//! here is read from the jobs at the moment it is asked for; their counters end in `_total`, while Flink's names don't,
//! and what remains of the format is a page of code. All metrics are gauges, as Flink's reporter makes them.
//!
//! Labels: `job_id`, `job_name`; for tasks `task_id`, `task_name`, `subtask_index` too. Values are as they are, escaped
//! (Flink's `filterLabelValueCharacters: false`). Hosts and task managers aren't labels: there is one process, and
//! Prometheus adds `instance`.

mod text;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tidegate_protocol::coordinator::{CheckpointStats, History};
use tidegate_runtime::master::{JobState, JobStatus, SubtaskInfo};
use tidegate_runtime::task::TaskStatus;
use tidegate_types::SubtaskId;

use crate::handlers::cluster::slots_of;
use crate::ids::vertex_id;
use crate::rates::Rate;
use crate::respond::typed;
use crate::state::{AppState, Shared, lifetime, state_name};
use crate::times::{Times, millis};

use text::{CONTENT_TYPE, Exposition, Labels};

/// `GET /metrics`
pub(crate) async fn metrics(State(state): State<AppState>) -> Response {
    typed(StatusCode::OK, CONTENT_TYPE, render(&state))
}

/// All metrics as text.
pub(crate) fn render(state: &Shared) -> String {
    let mut text = Exposition::default();
    let times = state.times();
    let (mut running, mut slots) = (0, 0);
    for job in state.jobs().into_values() {
        // A copy: the text is long, and the job's master mustn't wait for it.
        let status = job.board().read();
        job_metrics(&mut text, &status, &times);
        if !status.state.is_terminal() {
            running += 1;
            slots += slots_of(&status);
            task_metrics(&mut text, state, &status, &times);
        }
    }
    let mut cluster = |name: &str, help, value| {
        text.gauge(&format!("flink_jobmanager_{name}"), help, &[], f64::from(value));
    };
    cluster("numRunningJobs", "Jobs that haven't ended", running);
    cluster("numRegisteredTaskManagers", "Task managers: this process", 1);
    cluster(
        "taskSlotsTotal",
        "Slots that the running jobs would take in Flink",
        slots,
    );
    cluster(
        "taskSlotsAvailable",
        "Slots without a job: none, they are made as needed",
        0,
    );
    text.render()
}

/// Job states that Flink has metrics for.
const TIMED_STATES: [(JobState, &str); 5] = [
    (JobState::Created, "created"),
    (JobState::Running, "running"),
    (JobState::Restarting, "restarting"),
    (JobState::Cancelling, "cancelling"),
    (JobState::Failing, "failing"),
];

fn job_metrics(text: &mut Exposition, status: &JobStatus, times: &Times) {
    let labels = [
        ("job_id", status.job.as_str()),
        ("job_name", status.name.as_str()),
    ];
    let mut job = |name: &str, help, value: f64| {
        text.gauge(&format!("flink_jobmanager_job_{name}"), help, &labels, value);
    };
    state_metrics(&mut job, status, times);
    job(
        "numRestarts",
        "Restarts since the job was started",
        f64::from(status.restarts),
    );
    checkpoint_metrics(&mut job, &status.history, times);
    let mut ours = |name: &str, help, value: f64| {
        text.gauge(&format!("tidegate_job_{name}"), help, &labels, value);
    };
    let threads = f64::from(status.abandoned_threads);
    ours(
        "abandoned_threads",
        "Threads of user code that didn't end when cancelled",
        threads,
    );
    ours(
        "failed",
        "1 if the job failed for good, else 0",
        one_if(status.state == JobState::Failed),
    );
    let end = lifetime(status).1.unwrap_or(-1) as f64;
    ours(
        "end_timestamp",
        "When the job ended, in milliseconds since the epoch; -1 before",
        end,
    );
}

fn one_if(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

fn state_metrics(job: &mut impl FnMut(&str, &'static str, f64), status: &JobStatus, times: &Times) {
    let in_state_ms = |state: JobState| {
        let since = status.since.get(&state_name(state));
        let since = since.filter(|_| status.state == state);
        since.map_or(0, |since| times.wall_ms.saturating_sub(*since).max(0)) as f64
    };
    let unless_ended = |ms: f64| if status.state.is_terminal() { -1.0 } else { ms };
    for (state, name) in TIMED_STATES {
        let is = one_if(status.state == state);
        job(
            &format!("{name}State"),
            "1 while the job is in this state, else 0",
            is,
        );
        let help = "Milliseconds since the job entered this state, 0 in others";
        job(&format!("{name}Time"), help, in_state_ms(state));
    }
    job(
        "uptime",
        "Milliseconds that the job has run without interruption, -1 once it has ended",
        unless_ended(in_state_ms(JobState::Running)),
    );
    let down = [JobState::Failing, JobState::Restarting, JobState::Cancelling]
        .into_iter()
        .map(in_state_ms);
    job(
        "downtime",
        "Milliseconds that the job has not been running, -1 once it has ended",
        unless_ended(down.sum()),
    );
}

fn checkpoint_metrics(job: &mut impl FnMut(&str, &'static str, f64), history: &History, times: &Times) {
    // The newest of either kind, as in Flink.
    let both = [history.latest_completed(), history.latest_savepoint()];
    let last = both.into_iter().flatten().max_by_key(|stats| stats.id);
    let of_last = |of: &dyn Fn(&CheckpointStats) -> u64| last.map_or(-1.0, |stats| of(stats) as f64);
    let at = |at: Option<i64>| at.unwrap_or(-1) as f64;
    job(
        "lastCheckpointDuration",
        "From trigger to last acknowledgement of the last complete checkpoint, in milliseconds",
        of_last(&|stats| millis(stats.end_to_end())),
    );
    job(
        "lastCheckpointSize",
        "Bytes of state that the last complete checkpoint wrote",
        of_last(&CheckpointStats::checkpointed_bytes),
    );
    job(
        "lastCheckpointFullSize",
        "Bytes that the last complete checkpoint names, those written by earlier ones included",
        of_last(&CheckpointStats::state_bytes),
    );
    job(
        "lastCheckpointProcessedData",
        "Bytes processed while the last complete checkpoint was aligned",
        of_last(&CheckpointStats::processed_bytes),
    );
    job(
        "lastCheckpointPersistedData",
        "Bytes of in-flight data that the last complete checkpoint wrote",
        of_last(&CheckpointStats::persisted_bytes),
    );
    job(
        "lastCompletedCheckpointId",
        "Id of the last complete checkpoint",
        of_last(&|stats| stats.id.0),
    );
    let completed = last.and_then(|stats| stats.ended_at).map(|ended| times.at(ended));
    job(
        "lastCheckpointCompletedTimestamp",
        "When the last complete checkpoint was decided, in milliseconds since the epoch",
        at(completed),
    );
    let restored = history.latest_restored().map(|stats| times.at(stats.restored_at));
    job(
        "lastCheckpointRestoreTimestamp",
        "When a checkpoint was restored last, in milliseconds since the epoch",
        at(restored),
    );
    let counts = history.counts();
    job(
        "numberOfInProgressCheckpoints",
        "Checkpoints that aren't decided",
        counts.in_progress as f64,
    );
    job(
        "numberOfCompletedCheckpoints",
        "Complete checkpoints",
        counts.completed as f64,
    );
    job(
        "numberOfFailedCheckpoints",
        "Failed checkpoints",
        counts.failed as f64,
    );
    job(
        "totalNumberOfCheckpoints",
        "Checkpoints that were triggered",
        counts.total as f64,
    );
}

fn task_metrics(text: &mut Exposition, state: &Shared, status: &JobStatus, times: &Times) {
    for subtask in &status.subtasks {
        let gone = matches!(
            subtask.metrics.status(),
            TaskStatus::Finished | TaskStatus::Failed | TaskStatus::Canceled
        );
        let Some(vertex) = status.vertices.get(subtask.id.vertex.0 as usize) else {
            continue;
        };
        if gone {
            continue;
        }
        let (id, index) = (vertex_id(vertex), subtask.id.index.to_string());
        let labels = [
            ("job_id", status.job.as_str()),
            ("job_name", status.name.as_str()),
            ("task_id", id.as_str()),
            ("task_name", vertex.name.as_str()),
            ("subtask_index", index.as_str()),
        ];
        subtask_metrics(text, &labels, subtask, times);
        if let Some(rate) = state.rate(status, subtask.id) {
            rate_metrics(text, &labels, &rate);
        }
        alignment_metrics(text, &labels, &status.history, subtask.id);
    }
}

fn subtask_metrics(text: &mut Exposition, labels: &Labels<'_>, subtask: &SubtaskInfo, times: &Times) {
    let mut task = |name: &str, help, value: f64| {
        text.gauge(&format!("flink_taskmanager_job_task_{name}"), help, labels, value);
    };
    let totals = subtask.metrics.totals(times.now);
    let ms = |ns: u64| ns as f64 / 1e6;
    task(
        "numRecordsIn",
        "Records taken from the inputs",
        totals.records_in as f64,
    );
    task("numRecordsOut", "Records emitted", totals.records_out as f64);
    task(
        "accumulateBusyTimeMs",
        "Milliseconds spent working",
        ms(totals.busy_ns),
    );
    task(
        "accumulateIdleTimeMs",
        "Milliseconds without anything to do",
        ms(totals.idle_ns),
    );
    task(
        "accumulateBackPressuredTimeMs",
        "Milliseconds without room in the outputs",
        ms(totals.backpressured_ns),
    );
    task(
        "currentInputWatermark",
        "The watermark at the head of the chain",
        subtask.metrics.watermark() as f64,
    );
    // Flink has no such metric.
    text.gauge(
        "tidegate_task_numRecordsSkipped",
        "Records that code failed on and that went to a side output, or that a source could make nothing of",
        labels,
        totals.records_skipped as f64,
    );
    let mut task = |name: &str, help, value: f64| {
        text.gauge(&format!("flink_taskmanager_job_task_{name}"), help, labels, value);
    };
    let (queued, capacity) = subtask.metrics.fill();
    task(
        "buffers_inputQueueLength",
        "Records queued in the inputs",
        queued as f64,
    );
    let usage = if capacity == 0 {
        0.0
    } else {
        queued as f64 / capacity as f64
    };
    task(
        "buffers_inPoolUsage",
        "Share of the inputs' capacity that is in use",
        usage,
    );
}

fn rate_metrics(text: &mut Exposition, labels: &Labels<'_>, rate: &Rate) {
    let mut task = |name: &str, help, value: f64| {
        text.gauge(&format!("flink_taskmanager_job_task_{name}"), help, labels, value);
    };
    task(
        "numRecordsInPerSecond",
        "Records taken from the inputs per second",
        rate.records_in,
    );
    task(
        "numRecordsOutPerSecond",
        "Records emitted per second",
        rate.records_out,
    );
    task(
        "busyTimeMsPerSecond",
        "Milliseconds of a second spent working",
        rate.busy_ms,
    );
    task(
        "idleTimeMsPerSecond",
        "Milliseconds of a second without anything to do",
        rate.idle_ms,
    );
    task(
        "backPressuredTimeMsPerSecond",
        "Milliseconds of a second without room in the outputs",
        rate.backpressured_ms,
    );
    task(
        "softBackPressuredTimeMsPerSecond",
        "The same: a task without room still answers",
        rate.backpressured_ms,
    );
    task(
        "hardBackPressuredTimeMsPerSecond",
        "Always 0: a task without room still answers",
        0.0,
    );
}

/// Of the newest checkpoint that the subtask has acknowledged.
fn alignment_metrics(text: &mut Exposition, labels: &Labels<'_>, history: &History, id: SubtaskId) {
    let part = history.recent().find_map(|stats| {
        let task = stats.tasks.iter().find(|task| task.vertex == id.vertex)?;
        task.subtasks.get(id.index.0 as usize)?.as_ref()
    });
    let nanos = |duration: std::time::Duration| duration.as_nanos() as f64;
    let (alignment, start_delay) = part.map_or((0.0, 0.0), |part| {
        (nanos(part.stats.alignment), nanos(part.stats.start_delay))
    });
    let mut task = |name: &str, help, value: f64| {
        text.gauge(&format!("flink_taskmanager_job_task_{name}"), help, labels, value);
    };
    task(
        "checkpointAlignmentTime",
        "Nanoseconds that the last alignment took",
        alignment,
    );
    task(
        "checkpointStartDelayNanos",
        "Nanoseconds from the last checkpoint's trigger until this task began with it",
        start_delay,
    );
}
