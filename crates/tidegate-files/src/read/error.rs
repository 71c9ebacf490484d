//! What can go wrong with reading, said so that a person knows which file, where in it, and what to do.
//!
//! Owns: [`SourceError`] and, for what is wrong with one record, [`BadRecord`]. Does not own: what becomes of a bad
//! record ([`OnBadRecord`](super::OnBadRecord)) and how skipped ones are counted ([`super::skipped`]).

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;
use tidegate_runtime::error::{BoxError, Permanent};

use super::skipped::SkipReason;

impl SourceError {
    /// As an error of a connector: permanent if reading again would say the same.
    pub(crate) fn boxed(self) -> BoxError {
        match self {
            Self::Unreadable { .. } | Self::Read { .. } => self.into(),
            _ => Permanent::boxed(self),
        }
    }
}

/// Why files can't be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The list of inputs is empty.
    #[error("no input was given: name at least one file, directory or pattern")]
    NoInputs,
    /// An input isn't there.
    #[error("input `{input}`: nothing stands at `{}`. Check the path", looked_at.display())]
    Missing {
        /// As it was given.
        input: String,
        /// Where that is.
        looked_at: PathBuf,
    },
    /// A pattern that nothing matches.
    #[error("input `{pattern}`: no file matches it. Check the pattern; it never matches hidden files")]
    NoMatch {
        /// As it was given.
        pattern: String,
    },
    /// A pattern that isn't one.
    #[error("input `{pattern}`: {reason}")]
    BadPattern {
        /// As it was given.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A directory without a file to read.
    #[error(
        "input `{}`: there is no file to read in the directory ({skipped} unreadable, {hidden} hidden). Put files \
         there, or name another directory; what begins with a dot isn't read",
        path.display()
    )]
    NoFiles {
        /// The directory.
        path: PathBuf,
        /// Files in it that were skipped because they can't be read.
        skipped: u64,
        /// Files and directories in it that begin with a dot.
        hidden: u64,
    },
    /// Something that can't be read twice.
    #[error(
        "`{}` is neither a file nor a directory. Pipes and devices can't be read again after a restart: copy it \
         into a file",
        path.display()
    )]
    NotAFile {
        /// What it is called.
        path: PathBuf,
    },
    /// A name that snapshots can't hold.
    #[error("`{}`: the file's name isn't valid Unicode. Rename it", path.display())]
    NotUnicode {
        /// The name, as far as it can be shown.
        path: PathBuf,
    },
    /// Directories in directories, deeper than anything sensible.
    #[error("`{}` is more than {limit} directories deep; is a directory linked into itself?", path.display())]
    TooDeep {
        /// Where the search stopped.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// A file or directory that can't be opened.
    #[error(
        "`{}` can't be opened: {source}. Check its owner and mode; OnBadRecord::Skip passes over files that can't \
         be opened",
        path.display()
    )]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A read that failed in the middle.
    #[error("`{path}` can't be read at byte {offset}: {source}")]
    Read {
        /// The file.
        path: Arc<str>,
        /// Where.
        offset: u64,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file isn't the one whose splits are being read.
    #[error(
        "`{path}` {change}. Positions in the old file mean nothing in this one: put the old file back, or start \
         without restoring"
    )]
    Changed {
        /// The file.
        path: Arc<str>,
        /// How it differs.
        change: Change,
    },
    /// A bad record, and bad records aren't skipped.
    #[error("{0}. Mend it, or skip bad records with OnBadRecord::Skip")]
    Bad(BadRecord),
    /// An option that makes no sense.
    #[error("{option}: {reason}")]
    Option {
        /// The builder's method.
        option: &'static str,
        /// What is wrong with the value.
        reason: String,
    },
}

/// How a file differs from what it was when its splits were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is shorter.
    Truncated {
        /// Bytes then.
        was: u64,
        /// Bytes now.
        is: u64,
    },
    /// It was written anew, or is another file under the old name.
    Replaced,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { was, is } => {
                write!(f, "was truncated since the job listed its inputs: it had {was} bytes and has {is}")
            }
            Self::Replaced => f.write_str(
                "was replaced or rewritten since the job listed its inputs (size, modification time or inode differ)",
            ),
        }
    }
}

/// One record that can't be read, and where it stands.
#[derive(Debug)]
pub struct BadRecord {
    /// The file.
    pub file: Arc<str>,
    /// The line on which it begins, from 1; known if the file was read from its beginning.
    pub line: Option<u64>,
    /// The byte at which it begins, from 0.
    pub offset: u64,
    /// What is wrong with it.
    pub reason: BadRecordReason,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bad record in `{}`, ", self.file)?;
        if let Some(line) = self.line {
            write!(f, "line {line}, ")?;
        }
        write!(f, "byte {}: {}", self.offset, self.reason)
    }
}

/// What is wrong with a record.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BadRecordReason {
    /// Text that isn't UTF-8.
    #[error("not valid UTF-8 (its byte {at})")]
    InvalidUtf8 {
        /// Bytes of the record before the first wrong one.
        at: usize,
    },
    /// A line or CSV record over the limit.
    #[error("longer than the limit of {limit} bytes (record_limit)")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// A CSV record with more or fewer fields than the header or first record has.
    #[error("{found} fields instead of {expected}")]
    FieldCount {
        /// Fields of the header, or of the first record.
        expected: usize,
        /// Fields of this one.
        found: usize,
    },
    /// A CSV field whose quote is never closed, which swallows the rest of the file.
    #[error("a quote is opened and never closed")]
    OpenQuote,
    /// CSV fields that don't fit the type.
    #[error("{0}")]
    Csv(csv::Error),
    /// JSON that isn't, or that doesn't fit the type.
    #[error("column {column}: {message}")]
    Json {
        /// Where in the line, from 1.
        column: usize,
        /// What was expected.
        message: String,
    },
    /// Said by a format that isn't ours.
    #[error("{0}")]
    Other(BoxError),
}

impl BadRecordReason {
    /// Under what it is counted.
    pub(crate) fn kind(&self) -> SkipReason {
        match self {
            Self::InvalidUtf8 { .. } => SkipReason::InvalidUtf8,
            Self::TooLong { .. } => SkipReason::TooLong,
            Self::FieldCount { .. } | Self::OpenQuote | Self::Csv(_) | Self::Json { .. } | Self::Other(_) => {
                SkipReason::Malformed
            }
        }
    }
}
