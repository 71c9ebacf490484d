//! What all handlers share.
//!
//! Owns: the way from a path's text to a job, a vertex, a checkpoint, with the error if there is none.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_runtime::master::{JobState, JobStatus};
use tidegate_types::{CheckpointId, JobId, SubtaskId, VertexId};

use crate::error::RestError;
use crate::ids::{TriggerIds, find_vertex};
use crate::jobs::{Job, Jobs};
use crate::operations::Operations;
use crate::rates::{Live, Rate, Rates};
use crate::times::{Offset, Times};

/// Shared by all connections.
pub(crate) struct Shared {
    jobs: Arc<dyn Jobs>,
    offset: Offset,
    rates: Mutex<Rates>,
    pub(crate) operations: Mutex<Operations>,
    pub(crate) triggers: TriggerIds,
}

/// A handle on it, as handlers get it.
pub(crate) type AppState = Arc<Shared>;

impl Shared {
    pub(crate) fn new(jobs: Arc<dyn Jobs>) -> AppState {
        Arc::new(Self {
            jobs,
            offset: Offset::default(),
            rates: Mutex::default(),
            operations: Mutex::default(),
            triggers: TriggerIds::new(),
        })
    }

    /// The present.
    pub(crate) fn times(&self) -> Times {
        self.offset.times(&*self.jobs)
    }

    /// The jobs to show, by id: of several runs of one job the newest.
    pub(crate) fn jobs(&self) -> BTreeMap<JobId, Arc<dyn Job>> {
        let all = self.jobs.jobs().into_iter();
        all.map(|job| (job.board().with(|status| status.job.clone()), job))
            .collect()
    }

    /// The job of this id.
    pub(crate) fn job(&self, id: &str) -> Result<Arc<dyn Job>, RestError> {
        let found = self.jobs().remove(&JobId::new(id));
        found
            .ok_or_else(|| RestError::not_found(format!("there is no job `{id}` here; GET /jobs lists them")))
    }

    /// Takes a sample for rates; once a second.
    pub(crate) fn sample(&self) {
        let live: Vec<Live> = self
            .jobs()
            .into_values()
            .filter_map(|job| job.board().with(Live::of))
            .collect();
        let now = self.jobs.now();
        self.rates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .sample(now, &live);
    }

    /// What a subtask did per second.
    pub(crate) fn rate(&self, status: &JobStatus, subtask: SubtaskId) -> Option<Rate> {
        self.rates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .of(status, subtask)
    }
}

/// The vertex that a path names.
pub(crate) fn vertex_of(status: &JobStatus, text: &str) -> Result<VertexId, RestError> {
    find_vertex(&status.vertices, text).ok_or_else(|| {
        let job = &status.job;
        RestError::not_found(format!(
            "job `{job}` has no vertex `{text}`; GET /jobs/{job} lists them"
        ))
    })
}

/// The checkpoint that a path names.
pub(crate) fn checkpoint_of(text: &str) -> Result<CheckpointId, RestError> {
    let problem = || RestError::bad_request(format!("`{text}` is not a checkpoint id: a number is expected"));
    text.parse().map(CheckpointId).map_err(|_| problem())
}

/// When a job's life began and, if it is over, ended.
pub(crate) fn lifetime(status: &JobStatus) -> (i64, Option<i64>) {
    let entered = |state: JobState| status.since.get(&state_name(state)).copied();
    let start = status.since.values().copied().min().unwrap_or(-1);
    let end = if status.state.is_terminal() {
        entered(status.state)
    } else {
        None
    };
    (start, end)
}

/// A state's name as Flink writes it.
pub(crate) fn state_name(state: JobState) -> String {
    tidegate_runtime::master::local::state_name(state)
}
