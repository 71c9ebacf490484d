//! What a job master uses and is told: effects, requests and events as values.

use std::sync::Arc;

use tidegate_protocol::coordinator::{
    CheckpointContent, Decision, DecisionOutcome, Request, RequestDone, RequestFailure, RequestId,
    SavepointOrder, TraceEvent,
};
use tidegate_protocol::message::{FromTask, ToTask};
use tidegate_storage::{Snapshot, StorageError};
use tidegate_types::options::RestoreFrom;
use tidegate_types::snapshot::{Section, SubtaskSnapshot};
use tidegate_types::{
    AttemptNumber, CheckpointId, CheckpointKind, EventTime, LeaderEpoch, Nanos, OperatorUid, SubtaskId,
};

use crate::error::BoxError;
use crate::graph::{Attempt, RestorePlan};

use super::error::JobError;
use super::status::JobState;

/// What to start from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreChoice {
    /// Nothing; what an earlier run left unfinished is cleaned up.
    Fresh,
    /// The newest complete checkpoint, if there is one.
    Latest,
    /// The checkpoint or savepoint at this place.
    Path(String),
}

impl From<Option<&RestoreFrom>> for RestoreChoice {
    fn from(setting: Option<&RestoreFrom>) -> Self {
        match setting {
            None => Self::Fresh,
            Some(RestoreFrom::Latest) => Self::Latest,
            Some(RestoreFrom::Path(path)) => Self::Path(path.clone()),
        }
    }
}

/// Why a two-phase sink must not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Output up to a checkpoint is committed, the job is to start before that, and nobody said that this is meant.
    Twice {
        /// Up to there it is committed.
        committed: CheckpointId,
        /// Where the job is to start; `None` at the beginning.
        from: Option<CheckpointId>,
        /// What it is to start from isn't one of the checkpoints that this directory still keeps.
        foreign: bool,
    },
    /// Nothing is committed behind the last checkpoint, and there would be none at the end of the input.
    NoLastCheckpoint,
}

/// Something slow that the master wants done.
#[derive(Debug)]
pub enum IoRequest {
    /// Become the leader and find what to restore.
    Claim(RestoreChoice),
    /// Let every sink commit what the snapshot lists and discard the rest.
    Settle {
        /// The snapshot, if there is one.
        snapshot: Option<Box<Snapshot>>,
        /// The attempt, for names.
        attempt: Attempt,
        /// Whether two-phase sinks must refuse.
        refusal: Option<Refusal>,
    },
    /// Let every sink commit what the newest checkpoint lists; its writers run on.
    TakeOverSinks {
        /// The newest checkpoint, if there is one.
        snapshot: Option<Box<Snapshot>>,
        /// The running attempt, for names.
        attempt: Attempt,
    },
    /// Create a decision object.
    Decide {
        /// The checkpoint.
        id: CheckpointId,
        /// What to decide.
        decision: Decision,
        /// Which line of history.
        lineage: u64,
    },
    /// Make a savepoint's directory.
    CopySavepoint {
        /// The savepoint.
        id: CheckpointId,
        /// Where.
        order: SavepointOrder,
        /// What.
        content: Box<CheckpointContent>,
        /// Which line of history.
        lineage: u64,
    },
    /// Commit what a complete checkpoint lists.
    Commit {
        /// The checkpoint.
        id: CheckpointId,
        /// Its committables.
        committables: Vec<Section>,
    },
    /// Delete what no checkpoint names any more.
    Sweep,
    /// Give all checkpoints up and delete them.
    Close,
}

/// What a claim found.
#[derive(Debug)]
pub struct ClaimedStore {
    /// The new leadership.
    pub epoch: LeaderEpoch,
    /// The lowest id without a decision.
    pub next_id: CheckpointId,
    /// The newest complete checkpoint.
    pub newest: Option<(CheckpointId, CheckpointKind)>,
    /// Up to this checkpoint output may be committed: the newest one, complete or unreadable.
    pub committed: Option<CheckpointId>,
    /// Older checkpoints that still stand.
    pub retained: Vec<CheckpointId>,
    /// What to restore.
    pub snapshot: Option<Box<Snapshot>>,
    /// For a snapshot that was taken into another directory: a number that names the line of output which begins with
    /// it, because ids begin anew too.
    pub foreign: Option<u64>,
}

/// How a request ended.
#[derive(Debug)]
pub enum IoReply {
    /// Answers [`IoRequest::Claim`].
    Claimed(Result<Box<ClaimedStore>, ClaimFailure>),
    /// Answers [`IoRequest::Settle`] and [`IoRequest::TakeOverSinks`]: or which sink and why not.
    Settled(Result<(), (OperatorUid, BoxError)>),
    /// Answers [`IoRequest::Decide`].
    Decided {
        /// The checkpoint.
        id: CheckpointId,
        /// What stands.
        outcome: DecisionOutcome,
    },
    /// Answers [`IoRequest::CopySavepoint`].
    Copied {
        /// The savepoint.
        id: CheckpointId,
        /// Where it is, or why it isn't.
        result: Result<String, String>,
    },
    /// Answers [`IoRequest::Commit`]; on failure it is asked again.
    Committed {
        /// The checkpoint.
        id: CheckpointId,
        /// Which sink failed and why, and what to commit again.
        result: Result<(), CommitFailure>,
    },
    /// Answers [`IoRequest::Sweep`], with what a person should know.
    Swept {
        /// Warnings, or the error.
        warnings: Vec<String>,
    },
    /// Answers [`IoRequest::Close`].
    Closed(Result<(), String>),
}

/// A claim that didn't work.
#[derive(Debug, thiserror::Error)]
pub enum ClaimFailure {
    /// Another leader has taken over since this process led last, as what it decided here shows.
    #[error("another process has decided checkpoint {0} of this job")]
    Overtaken(CheckpointId),
    /// The store's.
    #[error(transparent)]
    Store(#[from] StorageError),
}

/// A commit that didn't work.
#[derive(Debug)]
pub struct CommitFailure {
    /// The sink.
    pub uid: OperatorUid,
    /// Why.
    pub error: String,
    /// Whether trying again is pointless ([`OutputLost`](crate::operators::OutputLost)).
    pub lost: bool,
    /// What another leader has decided meanwhile: committing is its business now.
    pub overtaken: Option<CheckpointId>,
    /// Everything that was to be committed.
    pub committables: Vec<Section>,
}

/// Something happened.
#[derive(Debug)]
pub enum MasterEvent {
    /// Begin.
    Start,
    /// A task said something.
    FromTask(SubtaskId, AttemptNumber, FromTask),
    /// A task's driver is gone, or its thread was abandoned.
    TaskGone(SubtaskId, AttemptNumber),
    /// A request has ended.
    Io(IoReply),
    /// A person asks for something.
    Request(RequestId, Request),
    /// A person cancels the job.
    Cancel,
    /// The time that [`JobMaster::next_timeout`](super::JobMaster::next_timeout) named has come.
    Timeout,
}

/// What a master reports, for status, logs and traces.
#[derive(Debug)]
pub enum Report {
    /// The job's state changed.
    State(JobState),
    /// An attempt is being deployed.
    Attempt(Attempt),
    /// A task failed; what happens now is reported as a state.
    Failure {
        /// Which, if it was a task.
        subtask: Option<SubtaskId>,
        /// The whole chain of causes.
        error: String,
    },
    /// A step of a checkpoint.
    Trace(TraceEvent),
    /// Something a person should know that stops nothing.
    Warning(String),
}

/// The effects a master has.
pub trait MasterEnv {
    /// Monotone time.
    fn now(&self) -> Nanos;

    /// Wall clock, in milliseconds.
    fn wall_ms(&self) -> EventTime;

    /// Sends a message to a task of the current attempt, under this leadership.
    fn send(&mut self, from: LeaderEpoch, to: SubtaskId, message: ToTask);

    /// Starts a request; its reply comes as an event.
    fn request(&mut self, request: IoRequest);

    /// Makes and starts the tasks of an attempt; returns those that had finished in the snapshot.
    ///
    /// # Errors
    /// When one can't be made.
    fn deploy(
        &mut self,
        attempt: Attempt,
        restore: Option<Arc<RestorePlan>>,
    ) -> Result<Vec<(SubtaskId, SubtaskSnapshot)>, BoxError>;

    /// Tells every task to stop, under this leadership; each comes back as [`MasterEvent::TaskGone`], in the end by
    /// being abandoned.
    fn cancel_tasks(&mut self, from: LeaderEpoch);

    /// How a request of a person ended.
    fn answer(&mut self, request: RequestId, result: Result<RequestDone, RequestFailure>);

    /// Something to show.
    fn report(&mut self, report: Report);

    /// The job's whole end.
    fn ended(&mut self, outcome: Result<super::JobOutcome, JobError>);
}
