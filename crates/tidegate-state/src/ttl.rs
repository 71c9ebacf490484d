//! Time-to-live: when entries of a keyed state expire.

use std::time::Duration;

/// Which accesses start an entry's time anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TtlUpdate {
    /// Creating and writing.
    #[default]
    OnCreateAndWrite,
    /// Reading too. A read then counts as a write for snapshots.
    OnReadAndWrite,
}

/// What a read of an expired entry that is still there sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TtlVisibility {
    /// Nothing.
    #[default]
    NeverReturnExpired,
    /// The entry, until something cleans it up.
    ReturnExpiredIfNotCleanedUp,
}

/// When entries of a keyed state expire, by processing time.
///
/// Expired entries are cleaned up when they are accessed, when their block fills up, and while a snapshot is
/// taken, which doesn't contain them. With lists and maps the time is that of the key's whole collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ttl {
    /// How long an entry lives, in milliseconds; at least 1.
    pub(crate) millis: i64,
    pub(crate) update: TtlUpdate,
    pub(crate) visibility: TtlVisibility,
}

impl Ttl {
    /// Entries live for `time` (at least a millisecond) after they were created or written, and are never seen
    /// later.
    pub fn new(time: Duration) -> Self {
        Self {
            millis: i64::try_from(time.as_millis()).unwrap_or(i64::MAX).max(1),
            update: TtlUpdate::default(),
            visibility: TtlVisibility::default(),
        }
    }

    /// Entries live for `millis` (at least 1) milliseconds.
    pub const fn from_millis(millis: u32) -> Self {
        let millis = if millis == 0 { 1 } else { millis as i64 };
        Self {
            millis,
            update: TtlUpdate::OnCreateAndWrite,
            visibility: TtlVisibility::NeverReturnExpired,
        }
    }

    /// Sets which accesses start the time anew.
    #[must_use]
    pub fn update(self, update: TtlUpdate) -> Self {
        Self { update, ..self }
    }

    /// Sets what a read of an expired entry sees.
    #[must_use]
    pub fn visibility(self, visibility: TtlVisibility) -> Self {
        Self { visibility, ..self }
    }

    /// Whether an entry last touched at `stamp_ms` has expired at `now_ms`.
    pub fn is_expired(&self, stamp_ms: i64, now_ms: i64) -> bool {
        stamp_ms.saturating_add(self.millis) <= now_ms
    }
}
