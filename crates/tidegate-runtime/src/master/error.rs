//! Why a job ended badly, by what its owner should do.

use std::fmt;

use tidegate_protocol::coordinator::FailureRecord;
use tidegate_storage::StorageError;

use crate::error::BoxError;

/// A job's final error.
#[derive(thiserror::Error)]
pub enum JobError {
    /// The checkpoint store refused or failed at the start; nothing was touched.
    #[error("the checkpoint store can't be used: {0}")]
    Store(#[from] StorageError),
    /// The snapshot doesn't fit the job, or can't be read.
    #[error("the snapshot {snapshot} can't be restored: {reason}")]
    Restore {
        /// Which snapshot.
        snapshot: String,
        /// Why and what to do.
        reason: String,
    },
    /// A sink's unfinished output could not be made to agree with the snapshot.
    #[error("sink `{uid}` can't be settled before the start: {reason}")]
    Settle {
        /// The sink.
        uid: String,
        /// Why.
        reason: String,
        /// Whether another attempt would say the same ([`OutputLost`](crate::operators::OutputLost)).
        lost: bool,
    },
    /// Output of a complete checkpoint can't be made visible any more.
    #[error("sink `{uid}` can't commit checkpoint {checkpoint}: {reason}")]
    Commit {
        /// The sink.
        uid: String,
        /// The checkpoint that lists the output.
        checkpoint: tidegate_types::CheckpointId,
        /// Why.
        reason: String,
    },
    /// A source's splits can't be enumerated.
    #[error("source `{uid}`: {reason}")]
    Source {
        /// The source.
        uid: String,
        /// Why.
        reason: String,
        /// Whether another attempt would say the same.
        permanent: bool,
    },
    /// A task failed and was not, or not again, restarted.
    #[error("{error}{}", after(.restarts))]
    Task {
        /// The whole chain of causes.
        error: String,
        /// How often the job was restarted before.
        restarts: u32,
    },
    /// Checkpoints failed more often than is tolerated.
    #[error("checkpoints fail: {0}")]
    Checkpoints(Box<FailureRecord>),
    /// Another process leads the job now.
    #[error(
        "another process took this job over (met at checkpoint {0}); this one has stopped and touched nothing since"
    )]
    Deposed(tidegate_types::CheckpointId),
    /// Running tasks can't be led on.
    #[error("running tasks can't be taken over: {0}")]
    Takeover(String),
    /// Its settings contradict each other.
    #[error("the job's settings can't be used: {0}")]
    Settings(String),
    /// A fault of the engine, not of the program.
    #[error("a bug in tidegate ended the job: {0}. Please report this")]
    Bug(String),
    /// A task could not be made.
    #[error("the job can't be deployed: {0}")]
    Deploy(BoxError),
}

/// The text itself: what `main` returns is printed by it.
impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl JobError {
    /// Whether another attempt may fare better.
    pub(super) fn heals(&self) -> bool {
        !matches!(
            self,
            Self::Source { permanent: true, .. } | Self::Settle { lost: true, .. }
        )
    }
}

fn after(restarts: &u32) -> String {
    match restarts {
        0 => String::new(),
        1 => " (after one restart)".to_owned(),
        n => format!(" (after {n} restarts)"),
    }
}
