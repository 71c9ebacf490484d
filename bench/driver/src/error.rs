//! What can go wrong.

use std::path::PathBuf;

/// Why a benchmark ended.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A name that isn't there.
    #[error("there is no run `{0}`; --list names them")]
    NoSuchRun(String),
    /// A contestant couldn't be built or isn't installed.
    #[error("{what} can't be used: {why}")]
    NotReady {
        /// Which.
        what: String,
        /// What is missing or what the build said.
        why: String,
    },
    /// A contestant ended badly.
    #[error("{cell} failed: {why}")]
    Failed {
        /// Which cell.
        cell: String,
        /// Its last words.
        why: String,
    },
    /// A contestant computed something else.
    #[error("{cell} computed {found}, and right is {expected}: its rate means nothing")]
    Wrong {
        /// Which cell.
        cell: String,
        /// Its result.
        found: String,
        /// The plain program's.
        expected: String,
    },
    /// A file.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What happened.
        source: std::io::Error,
    },
    /// A results file that isn't one.
    #[error("{path} isn't a results file of this version ({source}); move it away")]
    Results {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}
