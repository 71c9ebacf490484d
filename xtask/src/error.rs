//! Why a command failed.

use std::path::PathBuf;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a command.
    #[error("`cargo xtask {0}` is not a command; `cargo xtask help` lists them")]
    Usage(String),
    /// A file couldn't be read or written.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    /// A program couldn't be started.
    #[error("{program} doesn't start: {source}")]
    Start { program: String, source: std::io::Error },
    /// A program ended with an error.
    #[error("`{command}` failed\n{output}")]
    Failed { command: String, output: String },
    /// A program's output isn't what it should be.
    #[error("the output of `{command}` can't be read: {problem}")]
    Output { command: String, problem: String },
    /// Rules are broken; the text lists where.
    #[error("{0}")]
    Broken(String),
}
