//! What others may see of a job while it runs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tidegate_protocol::coordinator::History;
use tidegate_types::{EventTime, JobId, SubtaskId};

use crate::task::TaskMetrics;

/// Where a job is in its life. The names are Flink's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobState {
    /// The store is being claimed, state read.
    Created,
    /// Its tasks run.
    Running,
    /// An attempt failed; its tasks are stopping.
    Failing,
    /// It waits to be started again, or is starting again.
    Restarting,
    /// It is being cancelled.
    Cancelling,
    /// It was cancelled.
    Canceled,
    /// It failed for good.
    Failed,
    /// It came to its end.
    Finished,
    /// It was stopped with a savepoint, to go on later.
    Suspended,
}

impl JobState {
    /// Whether nothing changes any more.
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Canceled | Self::Failed | Self::Finished | Self::Suspended
        )
    }
}

/// One subtask, with its live counters.
#[derive(Debug, Clone)]
pub struct SubtaskInfo {
    /// Which.
    pub id: SubtaskId,
    /// Its counters.
    pub metrics: Arc<TaskMetrics>,
}

/// One vertex.
#[derive(Debug, Clone)]
pub struct VertexInfo {
    /// Its operators' names.
    pub name: String,
    /// Their uids.
    pub uids: Vec<String>,
    /// How many subtasks.
    pub parallelism: u32,
}

/// Failures that are remembered.
pub const MAX_FAILURES: usize = 16;

/// What ended an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFailure {
    /// When, in milliseconds since the epoch.
    pub at: EventTime,
    /// Where, if a task failed.
    pub subtask: Option<SubtaskId>,
    /// The whole chain of causes.
    pub error: String,
}

/// A job as others see it.
#[derive(Debug, Clone)]
pub struct JobStatus {
    /// The job.
    pub job: JobId,
    /// Its display name.
    pub name: String,
    /// Its state.
    pub state: JobState,
    /// When each state was entered, in milliseconds since the epoch.
    pub since: BTreeMap<String, EventTime>,
    /// Attempts deployed so far.
    pub attempts: u32,
    /// Restarts so far.
    pub restarts: u32,
    /// The last failure.
    pub last_failure: Option<String>,
    /// The newest failures, the last one last; at most 16.
    pub failures: VecDeque<JobFailure>,
    /// User code that didn't come back when it was cancelled, in threads.
    pub abandoned_threads: u32,
    /// Vertices, by id.
    pub vertices: Vec<VertexInfo>,
    /// Subtasks of the current attempt.
    pub subtasks: Vec<SubtaskInfo>,
    /// What checkpoints came to.
    pub history: History,
}

impl JobStatus {
    /// Takes note of what ended an attempt.
    pub fn failed(&mut self, failure: JobFailure) {
        self.last_failure = Some(failure.error.clone());
        if self.failures.len() == MAX_FAILURES {
            self.failures.pop_front();
        }
        self.failures.push_back(failure);
    }
}

/// Where the master writes a job's status and others read it.
#[derive(Debug)]
pub struct StatusBoard {
    status: Mutex<JobStatus>,
}

impl StatusBoard {
    /// A board with a first status.
    pub fn new(status: JobStatus) -> Self {
        Self {
            status: Mutex::new(status),
        }
    }

    /// The status as it is now.
    pub fn read(&self) -> JobStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at one thing without copying all.
    pub fn with<R>(&self, f: impl FnOnce(&JobStatus) -> R) -> R {
        f(&self.status.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the status.
    pub fn update(&self, f: impl FnOnce(&mut JobStatus)) {
        f(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
