//! What can go wrong with checkpoint storage, sorted by what the caller should do.
//!
//! Owns: [`StorageError`] (one word large: what was being done, where, and the [`Problem`]), the public
//! [`ErrorKind`], and the translation of what `object_store` and the operating system say. A full disk is
//! recognised here, however deep in a chain of causes it stands.
//!
//! Does not own: policy. How often something is tried again and which failures a job tolerates is the
//! coordinator's.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use thiserror::Error;
use tidegate_types::{CheckpointId, JobId, LeaderEpoch, OperatorUid};

/// What the caller should do about a [`StorageError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The same call may succeed later; nothing was lost.
    Retry,
    /// A person must change something first: free space, a path, a permission, a job id.
    FixConfiguration,
    /// This checkpoint can't be used, another one may.
    RestoreAnother,
    /// Stored bytes are not what was written. Never retried; the file is named.
    Corrupted,
    /// Another leader owns the job: stop at once, delete nothing, commit nothing.
    Fenced,
    /// The engine broke a rule of its own; please report it.
    Bug,
}

/// What went wrong, in words for a person, with the remedy where there is one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Problem {
    /// ENOSPC or a quota.
    #[error(
        "the disk is full ({source}). Nothing acknowledged is lost: earlier checkpoints stand. Free space there, \
         retain fewer checkpoints, or point the checkpoint directory at a larger disk"
    )]
    DiskFull {
        /// What the operating system or store said.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The process may not do this there.
    #[error(
        "not permitted ({source}). Check the owner and mode of the directory, or the store's credentials"
    )]
    NotPermitted {
        /// What the operating system or store said.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The store can't do something that checkpoints need.
    #[error("the store can't do this ({source}). Checkpoints need create-only writes (hard links on a disk)")]
    NotSupported {
        /// What the operating system or store said.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The store failed in a way that may pass.
    #[error("{source}")]
    Store {
        /// What the store said.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// It is not known whether a decision was written.
    #[error("unclear whether it was written ({detail}); ask again for the same id before anything else")]
    Undetermined {
        /// What was said on writing and on reading back.
        detail: String,
    },
    /// Nothing stands there.
    #[error("there is nothing there")]
    NotThere,
    /// Something stands there and it is no checkpoint, savepoint or job directory.
    #[error(
        "not a checkpoint: {found}. Give a checkpoint (…/chk-<n>), a savepoint, the _metadata of either, or a \
         job's directory"
    )]
    NotACheckpoint {
        /// What stands there instead.
        found: String,
    },
    /// A job's directory without a complete checkpoint.
    #[error("no complete checkpoint stands there")]
    NoCheckpoint,
    /// The checkpoint was taken by a job with another id.
    #[error(
        "it belongs to job \"{found}\", not to \"{expected}\". Run with --job-id {found}, or give a checkpoint of \
         this job"
    )]
    OtherJob {
        /// The job that asks.
        expected: JobId,
        /// The job that wrote it.
        found: JobId,
    },
    /// The checkpoint was decided against.
    #[error("checkpoint {id} was aborted ({reason}) and can't be restored; give another one")]
    Aborted {
        /// Which.
        id: CheckpointId,
        /// Why.
        reason: String,
    },
    /// Bytes are not what was written.
    #[error("corrupt: {detail}. Restore from another checkpoint or savepoint")]
    Corrupt {
        /// What is wrong with them.
        detail: String,
    },
    /// Bytes of one piece of state are not what was written.
    #[error(
        "corrupt at byte {offset}: {state} of operator \"{uid}\": {detail}. Restore from another checkpoint or savepoint"
    )]
    CorruptSection {
        /// The operator.
        uid: OperatorUid,
        /// Kind and name of the state.
        state: String,
        /// Where in the file the section begins.
        offset: u64,
        /// What is wrong.
        detail: String,
    },
    /// A file that a checkpoint names is gone.
    #[error(
        "the file is missing; it holds {state} of operator \"{uid}\". Restore from another checkpoint or savepoint"
    )]
    MissingSection {
        /// The operator.
        uid: OperatorUid,
        /// Kind and name of the state.
        state: String,
    },
    /// Written by a newer version of the engine.
    #[error("format version {found} is newer than this program knows ({known}); run a newer program")]
    FutureVersion {
        /// The version in the file.
        found: u16,
        /// The newest version known here.
        known: u16,
    },
    /// Larger than anything the engine writes.
    #[error("{size} bytes are over the limit of {limit}")]
    TooLarge {
        /// How large it is.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// Another leader has claimed the job.
    #[error("another leader has taken over ({by}); this one stops")]
    Fenced {
        /// How that was noticed.
        by: String,
    },
    /// Another process holds the job's lock.
    #[error(
        "another process ({holder}) runs job \"{job}\" there. Stop it first, or give this run its own --job-id or checkpoint directory"
    )]
    Locked {
        /// The job.
        job: JobId,
        /// Process id and start, as far as known.
        holder: String,
    },
    /// A location that can't be opened.
    #[error("not a usable location: {reason}")]
    BadLocation {
        /// Why.
        reason: String,
    },
    /// A job id that can't name a directory.
    #[error("job id \"{job}\" can't be used: {reason}. Give one with --job-id")]
    BadJobId {
        /// The id.
        job: JobId,
        /// Why.
        reason: String,
    },
    /// The engine broke a rule of its own.
    #[error("a rule of the engine is broken: {0}. Please report this")]
    Bug(String),
}

impl Problem {
    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store { .. } | Self::Undetermined { .. } => ErrorKind::Retry,
            Self::DiskFull { .. }
            | Self::NotPermitted { .. }
            | Self::NotSupported { .. }
            | Self::NotACheckpoint { .. }
            | Self::OtherJob { .. }
            | Self::FutureVersion { .. }
            | Self::TooLarge { .. }
            | Self::Locked { .. }
            | Self::BadLocation { .. }
            | Self::BadJobId { .. } => ErrorKind::FixConfiguration,
            Self::NotThere | Self::NoCheckpoint | Self::Aborted { .. } | Self::MissingSection { .. } => {
                ErrorKind::RestoreAnother
            }
            Self::Corrupt { .. } | Self::CorruptSection { .. } => ErrorKind::Corrupted,
            Self::Fenced { .. } => ErrorKind::Fenced,
            Self::Bug(_) => ErrorKind::Bug,
        }
    }
}

/// Why an operation on checkpoint storage failed: what was being done, where, and the [`Problem`].
#[derive(Debug)]
pub struct StorageError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    operation: &'static str,
    path: String,
    problem: Problem,
}

impl StorageError {
    /// A problem met while doing `operation` (a verb phrase) at `path`.
    #[cold]
    pub fn new(operation: &'static str, path: impl Into<String>, problem: Problem) -> Self {
        Self(Box::new(Inner {
            operation,
            path: path.into(),
            problem,
        }))
    }

    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.problem.kind()
    }

    /// What went wrong.
    pub fn problem(&self) -> &Problem {
        &self.0.problem
    }

    /// What was being done.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// Where: a path or URL a person can open.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Whether nothing stands at the path.
    pub fn is_not_there(&self) -> bool {
        matches!(self.0.problem, Problem::NotThere)
    }

    /// What an error of the store means for `operation` at `path`.
    pub(crate) fn of_store(
        operation: &'static str,
        path: impl Into<String>,
        source: object_store::Error,
    ) -> Self {
        let problem = match source {
            object_store::Error::NotFound { .. } => Problem::NotThere,
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                Problem::NotPermitted {
                    source: Box::new(source),
                }
            }
            object_store::Error::NotSupported { .. } | object_store::Error::NotImplemented { .. } => {
                Problem::NotSupported {
                    source: Box::new(source),
                }
            }
            other => match io_kind(&other) {
                Some(kind) => of_io_kind(kind, Box::new(other)),
                None => Problem::Store {
                    source: Box::new(other),
                },
            },
        };
        Self::new(operation, path, problem)
    }

    /// What an error of the operating system means for `operation` at `path`.
    pub(crate) fn of_io(operation: &'static str, path: impl Into<String>, source: io::Error) -> Self {
        Self::new(operation, path, of_io_kind(source.kind(), Box::new(source)))
    }

    /// A broken rule of the engine's own.
    #[cold]
    pub(crate) fn bug(operation: &'static str, path: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::new(operation, path, Problem::Bug(rule.into()))
    }

    /// Another leader was met.
    #[cold]
    pub(crate) fn fenced(operation: &'static str, path: impl Into<String>, by: impl Into<String>) -> Self {
        Self::new(operation, path, Problem::Fenced { by: by.into() })
    }
}

/// How a foreign leader is named in an error.
pub(crate) fn leader_text(epoch: LeaderEpoch, id: CheckpointId) -> String {
    format!("leader epoch {epoch} has decided id {id}")
}

/// The kind of the first operating-system error in a chain of causes.
fn io_kind(error: &(dyn StdError + 'static)) -> Option<io::ErrorKind> {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return Some(io.kind());
        }
        at = error.source();
    }
    None
}

fn of_io_kind(kind: io::ErrorKind, source: Box<dyn StdError + Send + Sync>) -> Problem {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Problem::DiskFull { source },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Problem::NotPermitted { source }
        }
        io::ErrorKind::Unsupported => Problem::NotSupported { source },
        io::ErrorKind::NotFound => Problem::NotThere,
        io::ErrorKind::NotADirectory => Problem::BadLocation {
            reason: format!("a file stands where a directory is needed ({source})"),
        },
        _ => Problem::Store { source },
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot {} {}: {}",
            self.0.operation, self.0.path, self.0.problem
        )
    }
}

impl StdError for StorageError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.problem.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(io: io::Error) -> object_store::Error {
        object_store::Error::Generic {
            store: "LocalFileSystem",
            source: Box::new(io),
        }
    }

    #[test]
    fn a_full_disk_is_recognised_below_any_wrapping_and_names_a_remedy() {
        for io in [
            io::Error::from_raw_os_error(28),
            io::Error::from(io::ErrorKind::QuotaExceeded),
        ] {
            let error = StorageError::of_store("write", "/data/job/chk-3/_metadata", generic(io));
            assert_eq!(error.kind(), ErrorKind::FixConfiguration);
            let text = error.to_string();
            assert!(
                text.contains("/data/job/chk-3/_metadata") && text.contains("disk is full"),
                "{text}"
            );
            assert!(text.contains("Free space"), "{text}");
        }
    }

    #[test]
    fn an_unknown_failure_may_be_tried_again() {
        let error = StorageError::of_store("read", "x", generic(io::Error::from(io::ErrorKind::TimedOut)));
        assert_eq!(error.kind(), ErrorKind::Retry);
    }

    #[test]
    fn a_missing_object_is_told_from_a_failing_store() {
        let source = "gone".into();
        let error = StorageError::of_store(
            "read",
            "x",
            object_store::Error::NotFound {
                path: "x".into(),
                source,
            },
        );
        assert!(error.is_not_there());
    }
}
