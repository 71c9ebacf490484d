//! What the command says when something went wrong: one block of text, and an exit code.
//!
//! Owns: which errors are the caller's to fix (exit code 2) and which came up while working (1). Does not own: the
//! texts, which come from whoever noticed.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use tidegate::runtime::master::JobError;
use tidegate::runtime::master::local::StartError;
use tidegate::{BuildError, BuildErrors};
use tidegate_storage::StorageError;
use tidegate_types::options::OptionErrors;
use tidegate_web::ServeError;

/// Why the command ends without having done what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The command line or the configuration is wrong: nothing was begun.
    #[error("{0}")]
    Usage(String),
    /// Something failed.
    #[error("{0}")]
    Failed(String),
    /// A signal came.
    #[error("ended by {name}")]
    Interrupted {
        /// The signal's name.
        name: &'static str,
        /// Its number.
        number: u8,
    },
    /// Nobody reads the output any more, as with `| head`.
    #[error("standard output is closed")]
    Closed,
}

impl CliError {
    /// What the process ends with.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => 2,
            Self::Failed(_) => 1,
            Self::Interrupted { number, .. } => 128 + number,
            Self::Closed => 0,
        })
    }

    /// What a failed write to standard output means.
    pub(crate) fn of_output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(format!("standard output can't be written: {error}")),
        }
    }
}

impl From<OptionErrors> for CliError {
    fn from(errors: OptionErrors) -> Self {
        Self::Usage(errors.to_string())
    }
}

impl From<BuildErrors> for CliError {
    fn from(errors: BuildErrors) -> Self {
        let by_options =
            |e: &BuildError| matches!(e, BuildError::Options(_) | BuildError::TooParallel { .. });
        let text = match &errors.0[..] {
            // The job is ours, so that it can't be built is no news; the option is.
            [BuildError::Options(options)] => options.to_string(),
            _ => errors.to_string(),
        };
        if errors.0.iter().any(by_options) {
            Self::Usage(text)
        } else {
            Self::Failed(text)
        }
    }
}

impl From<StartError> for CliError {
    fn from(error: StartError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<Arc<JobError>> for CliError {
    fn from(error: Arc<JobError>) -> Self {
        Self::Failed(format!("the job failed: {error}"))
    }
}

impl From<StorageError> for CliError {
    fn from(error: StorageError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<ServeError> for CliError {
    fn from(error: ServeError) -> Self {
        Self::Failed(error.to_string())
    }
}
