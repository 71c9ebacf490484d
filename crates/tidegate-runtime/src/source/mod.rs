//! Sources: an enumerator that finds splits, readers that read them.
//!
//! Owns: the contract of a connector ([`Source`], [`SplitEnumerator`], [`SplitReader`]) and its type-erased form
//! that tasks and the job master drive. Does not own: what a split is. A connector author never sees a barrier:
//! the engine asks a reader for its splits with their positions between two polls, and the enumerator for its
//! state before the sources are triggered, so both are in the cut.

mod channel;
mod collection;
mod erased;
mod generator;
mod push;

use std::sync::Arc;

use tidegate_types::codec::Record;
use tidegate_types::{CheckpointId, EventTime, Parallelism, SubtaskIndex};

use crate::chain::OutBatch;
use crate::clock::Clock;
use crate::error::BoxError;
use crate::signal::TaskSignal;

pub use channel::{ChannelSender, ChannelSource, ChannelSplit, DroppedRecords, SendError};
pub use collection::{CollectionSource, RangeEnumeration, RangeSplit};
pub use erased::{AnyEnumerator, AnyReader, AnySource, Assignment, erase};
pub use generator::GeneratorSource;
pub use push::{CheckpointGuard, PushSource, PushSplit, SourceContext, Stopped};

/// A part of a source that one reader reads: a file's byte range, a partition. It carries its own position.
pub trait Split: Record {
    /// Names the split within its source, for messages and logs.
    fn id(&self) -> String;
}

/// A connector that reads.
pub trait Source: Send + Sync + 'static {
    /// What it emits.
    type Out: Record;
    /// What its readers read.
    type Split: Split;
    /// The enumerator's state in a snapshot.
    type Enumeration: Record;

    /// Makes the enumerator: a new one, or one that goes on from its state. Must not block long; the first
    /// discovery may read a directory or ask a server.
    ///
    /// # Errors
    /// When the source can't be found or read.
    fn enumerator(
        &self,
        restored: Option<Self::Enumeration>,
    ) -> Result<Box<dyn SplitEnumerator<Self::Split, Self::Enumeration>>, BoxError>;

    /// Makes a reader for one subtask.
    ///
    /// # Errors
    /// When it can't be opened.
    fn reader(&self, cx: ReaderContext) -> Result<Box<dyn SplitReader<Self::Out, Self::Split>>, BoxError>;

    /// A job with this source is being started in this process, perhaps not for the first time. Not called when the
    /// running job restarts after a failure.
    fn job_starts(&self) {}

    /// The job has ended in this process: finished, failed, cancelled or suspended. For sources with which code
    /// outside of the job talks: it waits for nothing any more.
    fn job_ended(&self) {}
}

/// What a reader knows of its place.
#[derive(Debug, Clone)]
pub struct ReaderContext {
    /// Which parallel copy.
    pub subtask: SubtaskIndex,
    /// How many there are.
    pub parallelism: Parallelism,
    /// Wakes the task when there is something to poll; for readers that are delivered to.
    pub signal: Arc<TaskSignal>,
    /// Records that user code may stage under a lock unless the source says otherwise
    /// (`source.max-staged-records`).
    pub max_staged_records: usize,
    /// Whether the job takes checkpoints by itself (`execution.checkpointing.interval`). If not, what a source keeps
    /// until a checkpoint is complete it may have to keep for ever.
    pub periodic_checkpoints: bool,
}

/// Where splits come from. Lives beside the coordinator, once per source.
///
/// Its methods are called on the job master's thread, which also triggers checkpoints and hears of cancellations: what
/// takes long (listing a bucket, asking a broker) belongs on a thread of the enumerator's own, with
/// [`NextSplit::Later`] until it is there. One that panics fails the attempt.
pub trait SplitEnumerator<S, E>: Send {
    /// A reader asks for a split. After [`NextSplit::Later`] it is asked again for that reader, about once a second.
    ///
    /// # Errors
    /// When discovery fails; the job fails over.
    fn next_split(&mut self, reader: SubtaskIndex) -> Result<NextSplit<S>, BoxError>;

    /// Readers that an earlier leader's tasks run have these, as they were handed out after this enumerator's state
    /// was taken: they aren't handed out again and are in no later state. In no order; at positions of their own.
    fn take_over(&mut self, splits: Vec<S>);

    /// The state: everything that isn't assigned.
    ///
    /// # Errors
    /// Fails the checkpoint.
    fn snapshot(&mut self) -> Result<E, BoxError>;
}

/// An enumerator's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextSplit<S> {
    /// Read this.
    Split(S),
    /// Nothing now; ask again when something was added.
    Later,
    /// Nothing any more.
    NoMore,
}

/// Reads splits on the task's thread.
pub trait SplitReader<T, S>: Send {
    /// Takes over a split, at the position it carries.
    ///
    /// # Errors
    /// When it can't be opened.
    fn add_split(&mut self, split: S) -> Result<(), BoxError>;

    /// Emits records until `out` is full or nothing is there.
    ///
    /// # Errors
    /// When reading fails.
    fn poll(&mut self, out: &mut OutBatch<T>, cx: &mut PollContext<'_>) -> Result<Poll, BoxError>;

    /// Whether it takes another split although it hasn't read those it has to their ends; asked when a poll found
    /// nothing for now. A reader of partitions that never end says yes: else it would never get a second one.
    fn takes_more(&self) -> bool {
        false
    }

    /// The splits it is reading, each with the position behind the last record that was emitted.
    ///
    /// # Errors
    /// Fails the task.
    fn snapshot(&mut self, id: CheckpointId) -> Result<Vec<S>, BoxError>;

    /// Before a cut: makes sure that none of the user's code is in the middle of something that belongs together.
    /// False if it is: the cut waits, and the signal is woken when it is worth asking again. Until then the reader is
    /// polled on, as that code may be waiting for room. Asked again while it holds, it says yes again.
    fn hold_for_cut(&mut self) -> bool {
        true
    }

    /// The cut was taken, or is given up: whatever [`hold_for_cut`](Self::hold_for_cut) did, and answered, is undone.
    fn release_after_cut(&mut self) {}

    /// Reads no further. True if nothing is left to be emitted; else it is polled until its splits are done.
    fn stop(&mut self) -> bool {
        true
    }

    /// A checkpoint is complete: what it holds need not be read again. A hint.
    ///
    /// # Errors
    /// Fails the task.
    fn completed(&mut self, id: CheckpointId) -> Result<(), BoxError> {
        let _ = id;
        Ok(())
    }

    /// The task ends.
    fn close(&mut self) {}
}

/// What a poll may use.
pub struct PollContext<'a> {
    /// Milliseconds of the wall clock.
    pub wall_ms: EventTime,
    /// When the pass began, in monotone time.
    pub now: tidegate_types::Nanos,
    /// For readers that must know the time more exactly.
    pub clock: &'a dyn Clock,
    /// Whether something is urgent and the poll should return after the record at hand.
    pub urgent: &'a dyn Fn() -> bool,
}

/// What a poll found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poll {
    /// There is more at once.
    More,
    /// Nothing until the signal is woken, or this time (monotone), whichever is first.
    Wait(Option<tidegate_types::Nanos>),
    /// All splits it had are read to their ends.
    SplitsDone,
}
