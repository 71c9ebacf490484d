//! What users write when a closure isn't enough: functions with state, timers and side outputs.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_state::{KeyContext, States, Timers};
use tidegate_types::codec::Key;
use tidegate_types::{CheckpointId, EventTime, MaxParallelism, OperatorUid, Parallelism, SubtaskIndex};

use crate::chain::OutBatch;
use crate::error::BoxError;

use super::named::SnapshotSources;

/// Names a side output with records of type `S`. The program makes it: one clone is for the function, which puts records
/// out with it, another for the stream's `side_output`.
#[derive(Debug)]
pub struct SideTag<S> {
    index: usize,
    name: Arc<str>,
    _record: PhantomData<fn() -> S>,
}

impl<S> Clone for SideTag<S> {
    fn clone(&self) -> Self {
        Self {
            index: self.index,
            name: self.name.clone(),
            _record: PhantomData,
        }
    }
}

impl<S> SideTag<S> {
    /// The side output with this index of its operator.
    pub fn new(index: usize, name: impl Into<Arc<str>>) -> Self {
        Self {
            index,
            name: name.into(),
            _record: PhantomData,
        }
    }

    /// Which of the operator's side outputs.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Which clock a timer runs by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimerKind {
    /// It fires when the watermark reaches it.
    EventTime,
    /// It fires when the wall clock reaches it.
    ProcessingTime,
}

/// A timer that fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timer {
    /// When it was to fire, in milliseconds since the epoch.
    pub time: EventTime,
    /// By which clock.
    pub kind: TimerKind,
}

/// A function over a keyed stream (or, with `K = ()`, any stream), made once per subtask by a factory.
///
/// State lives in handles that [`state`](Self::state) names; everything in them is in every snapshot, and is
/// there again after a restore. Other fields are not.
pub trait ProcessFunction<K: Key, I, O>: Send + 'static {
    /// Names the function's states. Called often; must always name the same ones.
    fn state(&mut self, states: &mut States<'_, K>) {
        let _ = states;
    }

    /// The function is about to get its first record; its states are restored.
    ///
    /// # Errors
    /// Fail the attempt.
    fn open(&mut self, cx: &FunctionContext) -> Result<(), BoxError> {
        let _ = cx;
        Ok(())
    }

    /// Gets back the raw sections that [`snapshot`](Self::snapshot) stored, of all old subtasks, before
    /// [`open`](Self::open).
    ///
    /// # Errors
    /// Fail the attempt.
    fn initialize(&mut self, cx: &mut InitializeContext) -> Result<(), BoxError> {
        let _ = cx;
        Ok(())
    }

    /// One record.
    ///
    /// # Errors
    /// Fail the attempt.
    fn process(&mut self, record: I, cx: &mut ProcessContext<'_, K, O>) -> Result<(), BoxError>;

    /// A timer fires for the key that registered it.
    ///
    /// # Errors
    /// Fail the attempt.
    fn on_timer(&mut self, timer: Timer, cx: &mut ProcessContext<'_, K, O>) -> Result<(), BoxError> {
        let _ = (timer, cx);
        Ok(())
    }

    /// The cut: what isn't in declared states can be stored as raw sections. Must be quick.
    ///
    /// # Errors
    /// Fail the attempt.
    fn snapshot(&mut self, cx: &mut SnapshotContext) -> Result<(), BoxError> {
        let _ = cx;
        Ok(())
    }

    /// A checkpoint is complete. A hint: it may not come, or come twice.
    ///
    /// # Errors
    /// Fail the attempt.
    fn checkpoint_completed(&mut self, id: CheckpointId) -> Result<(), BoxError> {
        let _ = id;
        Ok(())
    }

    /// The subtask ends. Not called when the process dies.
    fn close(&mut self) {}
}

/// Where a function runs.
#[derive(Debug, Clone)]
pub struct FunctionContext {
    /// Its operator.
    pub uid: OperatorUid,
    /// Which parallel copy.
    pub subtask: SubtaskIndex,
    /// How many there are.
    pub parallelism: Parallelism,
    /// Key groups of the job.
    pub max_parallelism: MaxParallelism,
    /// Whether state was restored.
    pub is_restored: bool,
    pub(crate) sources: SnapshotSources,
}

impl FunctionContext {
    /// Where the function registers what it keeps outside of declared states, and the fence that cuts take.
    pub fn snapshot_sources(&self) -> &SnapshotSources {
        &self.sources
    }
}

/// Raw sections of a restored snapshot: per old subtask and name.
#[derive(Debug, Default)]
pub struct InitializeContext {
    pub(crate) sections: Vec<(SubtaskIndex, String, Bytes)>,
}

impl InitializeContext {
    /// Every section of this name, with the old subtask that wrote it.
    pub fn sections<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (SubtaskIndex, &'a [u8])> {
        self.sections
            .iter()
            .filter(move |(_, n, _)| n == name)
            .map(|(s, _, b)| (*s, &b[..]))
    }
}

/// Where a function puts raw sections at a cut.
#[derive(Debug)]
pub struct SnapshotContext {
    pub(crate) id: CheckpointId,
    pub(crate) sections: Vec<(String, Bytes)>,
}

impl SnapshotContext {
    /// The checkpoint.
    pub fn id(&self) -> CheckpointId {
        self.id
    }

    /// Stores bytes under a name of this subtask.
    pub fn put(&mut self, name: impl Into<String>, bytes: impl Into<Bytes>) {
        self.sections.push((name.into(), bytes.into()));
    }
}

/// The timers of one keyed operator.
pub(crate) struct TimerPair<K: Key> {
    pub(crate) event: Timers<K>,
    pub(crate) processing: Timers<K>,
}

impl<K: Key> TimerPair<K> {
    /// The timers of one clock.
    pub(crate) fn of(&mut self, kind: TimerKind) -> &mut Timers<K> {
        match kind {
            TimerKind::EventTime => &mut self.event,
            TimerKind::ProcessingTime => &mut self.processing,
        }
    }
}

impl<K: Key> Default for TimerPair<K> {
    fn default() -> Self {
        Self {
            event: Timers::default(),
            processing: Timers::default(),
        }
    }
}

/// What a function may use while it has a record or timer.
pub struct ProcessContext<'a, K: Key, O> {
    pub(crate) at: KeyContext<'a, K>,
    pub(crate) time: Option<EventTime>,
    pub(crate) watermark: EventTime,
    pub(crate) out: &'a mut OutBatch<O>,
    pub(crate) timers: &'a mut TimerPair<K>,
}

impl<'a, K: Key, O> ProcessContext<'a, K, O> {
    /// The key at hand.
    pub fn key(&self) -> &'a K {
        self.at.key
    }

    /// The key at hand, as state handles want it.
    #[inline]
    pub fn at(&self) -> KeyContext<'a, K> {
        self.at
    }

    /// The record's (or timer's) event time.
    pub fn timestamp(&self) -> Option<EventTime> {
        self.time
    }

    /// How far event time has come for this key: no record at or below it is expected any more.
    pub fn watermark(&self) -> EventTime {
        self.watermark
    }

    /// Processing time, to the pass: milliseconds since the epoch.
    pub fn processing_time(&self) -> EventTime {
        self.at.now_ms
    }

    /// Puts a record out, with the event time of the one at hand.
    #[inline]
    pub fn collect(&mut self, record: O) {
        self.out.push(record, self.time);
    }

    /// Puts a record out with an event time of its own.
    #[inline]
    pub fn collect_with_timestamp(&mut self, record: O, time: EventTime) {
        self.out.push(record, Some(time));
    }

    /// Puts a record out at a side output; dropped if nobody consumes that.
    ///
    /// # Panics
    /// If it is consumed by a tag of the same number with another record type.
    pub fn side<S: 'static>(&mut self, tag: &SideTag<S>, record: S) {
        self.out.push_side(tag.index(), record, self.time);
    }
}

impl<K: Key, O> ProcessContext<'_, K, O> {
    /// Calls [`ProcessFunction::on_timer`] for this key when the watermark reaches `time`. Once, however often it
    /// is registered.
    pub fn register_event_timer(&mut self, time: EventTime) {
        self.timers.event.register(self.at, time);
    }

    /// Takes an event-time timer back.
    pub fn delete_event_timer(&mut self, time: EventTime) {
        self.timers.event.delete(self.at, time);
    }

    /// Calls [`ProcessFunction::on_timer`] for this key when the wall clock reaches `time`.
    pub fn register_processing_timer(&mut self, time: EventTime) {
        self.timers.processing.register(self.at, time);
    }

    /// Takes a processing-time timer back.
    pub fn delete_processing_timer(&mut self, time: EventTime) {
        self.timers.processing.delete(self.at, time);
    }
}
