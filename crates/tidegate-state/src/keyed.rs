//! The contract between a keyed state handle and whoever drives it, and the values they exchange.
//!
//! Owns: [`KeyedTable`] and its vocabulary ([`Cut`], [`Progress`], [`Outcome`], [`StateSetup`],
//! [`StateMetrics`]). Does not own: how a table keeps its promises (`table`) and how bytes look (`section`).
//! Read [`crate::set::StateSet`] next: it drives all states of an operator through this trait.

use tidegate_types::key_group::HashRange;
use tidegate_types::snapshot::SectionHead;
use tidegate_types::{CheckpointId, OperatorUid};

use crate::describe::{Formats, StateDescription};
use crate::error::StateError;
use crate::snapshot::StateSnapshot;

pub use tidegate_types::snapshot::Encoding;

/// What a state is told when it is opened.
#[derive(Debug, Clone)]
pub struct StateSetup {
    /// The operator it belongs to.
    pub uid: OperatorUid,
    /// The hashes that the subtask owns; `None` if it owns none (more subtasks than key groups).
    pub range: Option<HashRange>,
    /// The job's formats.
    pub formats: Formats,
    /// Processing time at opening: entries restored without a time get it if the state has a time-to-live now.
    pub now_ms: i64,
}

/// A cut as a state sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The checkpoint it is for. Ids grow from cut to cut.
    pub id: CheckpointId,
    /// The newest checkpoint known complete at the trigger.
    pub base: Option<CheckpointId>,
    /// How entries are to be written. [`Encoding::Native`] falls back to canonical where a type or value asks
    /// for it.
    pub encoding: Encoding,
    /// Processing time: entries that have expired by then are not in the snapshot.
    pub now_ms: i64,
}

/// Whether there is more to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The budget ended first.
    More,
    /// Nothing is left to do.
    Done,
}

impl Progress {
    /// More if either has more.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self == Self::Done { other } else { self }
    }
}

/// What became of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is complete and durable.
    Completed,
    /// It will never be complete.
    Aborted,
}

/// Sizes of one state, for metrics. Cheap to ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StateMetrics {
    /// Keys with an entry (entries of a broadcast or list state), expired ones included.
    pub entries: u64,
    /// Memory that tables and directories hold, without what values own on the heap.
    pub table_bytes: u64,
    /// Snapshot bytes not yet handed over.
    pub buffered_bytes: u64,
    /// Snapshots still being swept.
    pub open_cuts: u32,
}

impl StateMetrics {
    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            entries: self.entries + other.entries,
            table_bytes: self.table_bytes + other.table_bytes,
            buffered_bytes: self.buffered_bytes + other.buffered_bytes,
            open_cuts: self.open_cuts.max(other.open_cuts),
        }
    }
}

/// What drives a keyed state, whatever its types: all that a runtime needs to know of a handle.
///
/// # Driving it
/// `open` once; then `restore` for each stored section, in any order; then records: `prefetch` a batch ahead
/// and access through the typed handle. For a snapshot: `cut`, then `sweep` between passes until it is done,
/// then `take_finished` yields the bytes of each cut that is complete; `decided` once the checkpoint's fate is
/// known. Everything happens on the task's thread except [`StateSnapshot::into_sections`].
pub trait KeyedTable<K>: Send {
    /// What this state is. Works before it is opened.
    fn describe(&self, formats: &Formats) -> StateDescription;

    /// Binds the state to its operator and name and makes it ready, empty.
    ///
    /// # Errors
    /// None today; a backend that connects to something may fail.
    fn open(&mut self, name: &str, setup: &StateSetup) -> Result<(), StateError>;

    /// Brings what accesses with these hashes will touch into the cache. Eight or so, those of the records after the
    /// ones at hand, are best: a processor has some twenty misses under way, and what exceeds that is waited for.
    fn prefetch(&self, hashes: &[u64]);

    /// Fixes the state's content as the cut's, in constant time. What is written from here on isn't in it.
    fn cut(&mut self, cut: Cut);

    /// Preserves what open cuts are still owed. Asks `more` after each block (about a microsecond) whether to
    /// go on.
    fn sweep(&mut self, more: &mut dyn FnMut() -> bool) -> Progress;

    /// The bytes of the oldest cut that is swept to its end, once.
    fn take_finished(&mut self) -> Option<StateSnapshot>;

    /// The fate of a checkpoint. An aborted cut stops owing anything and its bytes are dropped. Unknown ids are
    /// ignored, so it may be said twice.
    fn decided(&mut self, id: CheckpointId, outcome: Outcome);

    /// Adds what a stored section holds of this subtask's hashes. Returns how many entries that were.
    ///
    /// # Errors
    /// If kind or types changed, the keys hash differently, or the bytes are damaged. The state is then
    /// unusable.
    fn restore(&mut self, head: &SectionHead, bytes: &[u8]) -> Result<u64, StateError>;

    /// Sizes.
    fn metrics(&self) -> StateMetrics;
}
