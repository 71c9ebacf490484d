//! Counting what was skipped, where the caller of a job can see it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why something was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    /// A record that isn't UTF-8.
    InvalidUtf8,
    /// A line or record over the limit.
    TooLong,
    /// A record that isn't what its format says, or doesn't fit the type.
    Malformed,
    /// A file that can't be opened or read. A file that goes away after it was listed counts once for each of
    /// its splits that wasn't read yet.
    UnreadableFile,
}

impl SkipReason {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::InvalidUtf8,
        Self::TooLong,
        Self::Malformed,
        Self::UnreadableFile,
    ];
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidUtf8 => "invalid UTF-8",
            Self::TooLong => "too long",
            Self::Malformed => "malformed",
            Self::UnreadableFile => "unreadable file",
        })
    }
}

/// Counts what a source skipped; a handle that is shared by being cloned.
///
/// It counts what was skipped in this process since the source was made. After a restart from a snapshot the
/// stretch that is read again counts again.
///
/// ```
/// use tidegate_files::{OnBadRecord, SkipReason, TextFiles};
///
/// let files = TextFiles::new(["logs/"]).on_bad_record(OnBadRecord::Skip);
/// let skipped = files.skipped();
/// // … hand `files` to a job, and while it runs or when it is done:
/// assert_eq!(skipped.total(), 0);
/// assert_eq!(skipped.count(SkipReason::InvalidUtf8), 0);
/// ```
#[derive(Debug, Clone, Default)]
pub struct SkippedRecords(Arc<[AtomicU64; SkipReason::ALL.len()]>);

impl SkippedRecords {
    /// How much was skipped for one reason.
    pub fn count(&self, reason: SkipReason) -> u64 {
        self.0[reason as usize].load(Ordering::Relaxed)
    }

    /// How much was skipped in all.
    pub fn total(&self) -> u64 {
        SkipReason::ALL.iter().map(|reason| self.count(*reason)).sum()
    }

    /// Each reason with its count, those with none too.
    pub fn by_reason(&self) -> impl Iterator<Item = (SkipReason, u64)> + '_ {
        SkipReason::ALL
            .into_iter()
            .map(|reason| (reason, self.count(reason)))
    }

    /// Counts one. It is told in the log at each power of ten, so that a file of bad records doesn't fill it.
    pub(crate) fn note(&self, reason: SkipReason, what: &dyn fmt::Display) {
        let count = self.0[reason as usize].fetch_add(1, Ordering::Relaxed) + 1;
        if 10u64.pow(count.ilog10()) == count {
            tracing::warn!(%reason, count, "skipped: {what}");
        }
    }
}
