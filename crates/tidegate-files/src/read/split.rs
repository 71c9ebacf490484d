//! Splits: a byte range of a file, with the position in it and what the file looked like when it was listed.
//!
//! Owns: the stored form of a position ([`FileSplit`]; its fields are part of the snapshot format, see
//! `docs/formats.md`, "File positions") and the judgement whether a file is still the one that was listed
//! ([`Fingerprint::check`]). Does not own: which line belongs to which split ([`super::lines`]).

use std::fs::Metadata;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use tidegate_runtime::source::Split;

use super::error::Change;

/// A byte range of a file, and how far it is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSplit {
    /// The file's absolute path.
    pub path: Arc<str>,
    /// First byte of the range. What begins before it belongs to the split before.
    pub start: u64,
    /// Behind the last byte of the range. What begins before it is read to its end.
    pub end: u64,
    /// Behind the last record that was emitted or skipped; `start` if nothing was read.
    pub position: u64,
    /// Line ends before `position`, if they were counted from the file's beginning.
    pub lines: Option<u64>,
    /// The file when it was listed.
    pub file: Fingerprint,
}

impl FileSplit {
    /// What is left of a range of which nothing is read, without another.
    pub(crate) fn without(self, other: &Self) -> Vec<Self> {
        if self.path != other.path {
            return vec![self];
        }
        let part = |start: u64, end: u64| Self::new(self.path.clone(), start, end, self.file);
        let before = part(self.start, self.end.min(other.start));
        let behind = part(self.start.max(other.end), self.end);
        [before, behind].into_iter().filter(|s| s.start < s.end).collect()
    }

    /// A range of which nothing is read.
    pub(crate) fn new(path: Arc<str>, start: u64, end: u64, file: Fingerprint) -> Self {
        Self {
            path,
            start,
            end,
            position: start,
            lines: (start == 0).then_some(0),
            file,
        }
    }

    /// Whether a record can still begin in it.
    pub(crate) fn is_done(&self) -> bool {
        self.position >= self.end
    }
}

impl Split for FileSplit {
    fn id(&self) -> String {
        format!("{} [{}, {})", self.path, self.start, self.end)
    }
}

/// What a file looked like when it was listed: enough to notice that it isn't the same file any more, cheap
/// enough to look at for each split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Bytes.
    pub size: u64,
    /// Modification time, nanoseconds since 1970, where the file system has one.
    pub modified_ns: Option<i64>,
    /// The file's number in its file system, where there are such.
    pub inode: Option<u64>,
}

impl Fingerprint {
    /// A file as it is now.
    pub(crate) fn of(meta: &Metadata) -> Self {
        let modified_ns = meta
            .modified()
            .ok()
            .and_then(|time| match time.duration_since(UNIX_EPOCH) {
                Ok(after) => i64::try_from(after.as_nanos()).ok(),
                Err(before) => i64::try_from(before.duration().as_nanos()).ok().map(|ns| -ns),
            });
        #[cfg(unix)]
        let inode = Some(std::os::unix::fs::MetadataExt::ino(meta));
        #[cfg(not(unix))]
        let inode = None;
        Self {
            size: meta.len(),
            modified_ns,
            inode,
        }
    }

    /// Whether positions in the file that was listed still mean the same in the file as it is `now`.
    ///
    /// Equal size and time is the same content, also in a copy with another inode. A longer file under the
    /// same inode was appended to, as logs are, which moves nothing; a longer one under another inode is another file.
    pub(crate) fn check(&self, now: &Self) -> Result<(), Change> {
        let differ = |a: Option<u64>, b: Option<u64>| matches!((a, b), (Some(a), Some(b)) if a != b);
        if now.size < self.size {
            return Err(Change::Truncated {
                was: self.size,
                is: now.size,
            });
        }
        let replaced = if now.size == self.size {
            matches!((self.modified_ns, now.modified_ns), (Some(then), Some(now)) if then != now)
        } else {
            differ(self.inode, now.inode)
        };
        if replaced { Err(Change::Replaced) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: Fingerprint = Fingerprint {
        size: 100,
        modified_ns: Some(5),
        inode: Some(7),
    };

    #[test]
    fn what_counts_as_the_same_file() {
        let verdict = |size, modified_ns, inode| {
            LISTED.check(&Fingerprint {
                size,
                modified_ns,
                inode,
            })
        };
        assert_eq!(verdict(100, Some(5), Some(7)), Ok(()), "untouched");
        assert_eq!(
            verdict(100, Some(5), Some(8)),
            Ok(()),
            "a copy that kept its time"
        );
        assert_eq!(verdict(120, Some(9), Some(7)), Ok(()), "appended to");
        assert_eq!(
            verdict(100, None, None),
            Ok(()),
            "a file system that knows nothing"
        );
        assert_eq!(
            verdict(100, Some(6), Some(7)),
            Err(Change::Replaced),
            "rewritten in place"
        );
        assert_eq!(
            verdict(120, Some(9), Some(8)),
            Err(Change::Replaced),
            "a longer file took its place"
        );
        assert_eq!(
            verdict(99, Some(5), Some(7)),
            Err(Change::Truncated { was: 100, is: 99 })
        );
        assert_eq!(
            verdict(0, Some(9), Some(8)),
            Err(Change::Truncated { was: 100, is: 0 })
        );
    }
}
