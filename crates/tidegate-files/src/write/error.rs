//! What can go wrong with writing and committing files, with the remedy.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tidegate_runtime::error::BoxError;

/// Why output can't be written or made visible.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SinkError {
    /// No space left, or a quota is used up.
    #[error(
        "the disk with `{}` is full ({doing}: {source}). Nothing that was committed is lost: free space there, or \
         give the sink a directory on a larger disk, and the job goes on from its last checkpoint",
        dir.display()
    )]
    DiskFull {
        /// The sink's directory.
        dir: PathBuf,
        /// What failed.
        doing: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// The directory can't be written to.
    #[error(
        "files can't be created in `{}`: {source}. The sink needs a directory that it may write to, or one whose \
         parent it may write to",
        dir.display()
    )]
    Directory {
        /// The sink's directory.
        dir: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Anything else the operating system refuses.
    #[error("can't {doing} `{}`: {source}", path.display())]
    Io {
        /// What failed.
        doing: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The encoder refused a record.
    #[error("a record can't be written: {0}")]
    Encode(#[source] BoxError),
    /// Another file has a final name already.
    #[error(
        "`{}` stands there already with other content ({found}) than what is to be committed ({expected}). Move it \
         out of the way if it isn't this job's; nothing else writes files of that name",
        path.display()
    )]
    Different {
        /// The final name.
        path: PathBuf,
        /// What was prepared.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// A prepared file isn't what was prepared.
    #[error(
        "the prepared file `{}` is damaged: it is {found} and was {expected}. Restore it from a backup, or start \
         from an older checkpoint with --new-lineage",
        path.display()
    )]
    Damaged {
        /// The hidden file.
        path: PathBuf,
        /// What was prepared.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// Neither the prepared nor the final file is there.
    #[error(
        "neither `{}` nor the prepared `{staging}` is there, so it isn't known that it was ever visible. Put \
         either back; or, if finished files are taken out of the directory, say so with output_is_taken_away(true)",
        path.display()
    )]
    Lost {
        /// The final name.
        path: PathBuf,
        /// The hidden name.
        staging: String,
    },
    /// The directory holds output that this run knows nothing of.
    #[error(
        "`{}` holds {count} files that an earlier run of this job committed, such as `{example}`, and this run \
         starts from the beginning without knowing of it: everything would be there twice. Restore the earlier \
         run's checkpoint (is the checkpoint directory set, and the same?), move its output away, give this run another \
         directory or --job-id, or begin a new line of output beside it in the same checkpoint directory with \
         --new-lineage",
        dir.display()
    )]
    EarlierOutput {
        /// The sink's directory.
        dir: PathBuf,
        /// How many files.
        count: usize,
        /// One of them.
        example: String,
    },
    /// A final name couldn't be found.
    #[error("`{}` and {tries} more names are taken; move old output away", path.display())]
    NamesTaken {
        /// The first name that was wanted.
        path: PathBuf,
        /// How many were tried.
        tries: u64,
    },
    /// An option that makes no sense.
    #[error("{option}: {reason}")]
    Option {
        /// The builder's method.
        option: &'static str,
        /// What is wrong with the value.
        reason: String,
    },
    /// A stored committable that no writer makes.
    #[error("the snapshot names `{name}` as a file of this sink, which can't be one: it is corrupt")]
    Corrupt {
        /// The name.
        name: String,
    },
}

impl SinkError {
    /// What the operating system said about a file in `dir`.
    pub(crate) fn io(doing: &'static str, dir: &Path, path: PathBuf, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull {
                dir: dir.to_owned(),
                doing,
                source,
            },
            _ => Self::Io { doing, path, source },
        }
    }
}
