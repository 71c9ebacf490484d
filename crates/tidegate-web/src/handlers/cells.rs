//! Parts of answers that several paths share: states of tasks and their counts, counters, figures over checkpoints.

use serde_json::{Map, Value, json};
use tidegate_protocol::coordinator::Summary;
use tidegate_runtime::master::{JobStatus, SubtaskInfo};
use tidegate_runtime::task::{TaskStatus, TaskTotals};
use tidegate_types::{Nanos, VertexId};

/// States of a task that Flink knows, in its order.
pub(crate) const TASK_STATES: [&str; 10] = [
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
    "INITIALIZING",
];

/// States of a job that Flink knows, in its order.
pub(crate) const JOB_STATES: [&str; 11] = [
    "INITIALIZING",
    "CREATED",
    "RUNNING",
    "FAILING",
    "FAILED",
    "CANCELLING",
    "CANCELED",
    "FINISHED",
    "RESTARTING",
    "SUSPENDED",
    "RECONCILING",
];

/// A subtask's state in Flink's words. One whose inputs have ended still runs: it may wait for a last checkpoint.
pub(crate) fn task_state(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Initializing => "INITIALIZING",
        TaskStatus::Running | TaskStatus::Ended => "RUNNING",
        TaskStatus::Finished => "FINISHED",
        TaskStatus::Failed => "FAILED",
        TaskStatus::Canceled => "CANCELED",
    }
}

/// The subtasks of a vertex by index; `None` for one that has no task.
pub(crate) fn subtasks_of(status: &JobStatus, vertex: VertexId) -> Vec<Option<&SubtaskInfo>> {
    let parallelism = status
        .vertices
        .get(vertex.0 as usize)
        .map_or(0, |v| v.parallelism);
    let mut found = vec![None; parallelism as usize];
    for subtask in status
        .subtasks
        .iter()
        .filter(|subtask| subtask.id.vertex == vertex)
    {
        if let Some(place) = found.get_mut(subtask.id.index.0 as usize) {
            *place = Some(subtask);
        }
    }
    found
}

/// The state of a subtask. One without a task had finished when the attempt was restored, or waits for the first
/// attempt.
pub(crate) fn state_of(status: &JobStatus, subtask: Option<&SubtaskInfo>) -> &'static str {
    match subtask {
        Some(subtask) => task_state(subtask.metrics.status()),
        None if status.attempts == 0 => "CREATED",
        None => "FINISHED",
    }
}

/// The states of a vertex's subtasks.
pub(crate) fn states_of(status: &JobStatus, vertex: VertexId) -> Vec<&'static str> {
    subtasks_of(status, vertex)
        .into_iter()
        .map(|subtask| state_of(status, subtask))
        .collect()
}

/// The state of a vertex: a failed or cancelled subtask decides, then one that isn't up yet, then one that runs.
pub(crate) fn vertex_state(states: &[&'static str]) -> &'static str {
    let decisive = [
        "FAILED",
        "CANCELED",
        "CREATED",
        "INITIALIZING",
        "RUNNING",
        "FINISHED",
    ];
    decisive
        .into_iter()
        .find(|state| states.contains(state))
        .unwrap_or("CREATED")
}

/// How many are in each state, under Flink's names.
pub(crate) fn counts(states: &[&'static str]) -> Map<String, Value> {
    let count = |of: &&str| states.iter().filter(|state| *state == of).count();
    TASK_STATES
        .iter()
        .map(|state| ((*state).to_owned(), json!(count(state))))
        .collect()
}

/// A task's counters, as Flink's `IOMetricsInfo`. Bytes aren't counted: records stay typed in the process.
pub(crate) fn io_metrics<'a>(subtasks: impl Iterator<Item = &'a SubtaskInfo>, now: Nanos) -> Value {
    let mut sum = TaskTotals::default();
    for subtask in subtasks {
        let totals = subtask.metrics.totals(now);
        sum.records_in = sum.records_in.saturating_add(totals.records_in);
        sum.records_out = sum.records_out.saturating_add(totals.records_out);
        sum.busy_ns = sum.busy_ns.saturating_add(totals.busy_ns);
        sum.idle_ns = sum.idle_ns.saturating_add(totals.idle_ns);
        sum.backpressured_ns = sum.backpressured_ns.saturating_add(totals.backpressured_ns);
    }
    json!({
        "read-bytes": 0,
        "read-bytes-complete": false,
        "write-bytes": 0,
        "write-bytes-complete": false,
        "read-records": sum.records_in,
        "read-records-complete": true,
        "write-records": sum.records_out,
        "write-records-complete": true,
        "accumulated-backpressured-time": sum.backpressured_ns / 1_000_000,
        "accumulated-idle-time": sum.idle_ns / 1_000_000,
        "accumulated-busy-time": sum.busy_ns as f64 / 1e6,
    })
}

/// Figures over one quantity.
pub(crate) fn figures(summary: &Summary) -> Value {
    json!({
        "min": summary.min,
        "max": summary.max,
        "avg": summary.avg,
        "p50": summary.p50,
        "p90": summary.p90,
        "p95": summary.p95,
        "p99": summary.p99,
        "p999": summary.p999,
    })
}
