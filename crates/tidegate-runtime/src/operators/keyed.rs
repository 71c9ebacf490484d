//! The operator around a [`ProcessFunction`]: keys and hashes a run ahead of the records.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

use tidegate_state::{Formats, KeyContext, States};
use tidegate_types::codec::{Key, Record};
use tidegate_types::{CheckpointId, EventTime, OperatorUid};

use crate::chain::{
    Cursor, CutParts, Flow, OpenContext, Operator, OutBatch, Outcome, Pass, Progress, SnapshotPart,
};
use crate::error::{BoxError, OpError};

use super::core::{Callbacks, Core};
use super::key::KeySelector;
use super::process::{
    FunctionContext, InitializeContext, ProcessContext, ProcessFunction, SnapshotContext, Timer, TimerKind,
};

/// Records whose keys and hashes are taken at once.
const LOOK: usize = 64;

/// Records whose state is fetched while as many before them are worked on. A processor has some twenty misses under
/// way; what is asked for beyond that is waited for.
pub(super) const WINDOW: usize = 8;

/// The keys and hashes of the next records of a cursor.
pub(super) struct Ahead<K> {
    keys: VecDeque<K>,
    hashes: Vec<u64>,
    /// State of so many of them has been asked for.
    fetched: usize,
}

impl<K: Key> Ahead<K> {
    pub(super) fn new() -> Self {
        Self {
            keys: VecDeque::new(),
            hashes: Vec::new(),
            fetched: 0,
        }
    }

    /// What was looked up counts for one call only: the records may come back in another cursor.
    pub(super) fn forget(&mut self) {
        self.keys.clear();
    }

    /// Takes the keys of the next records, if there are none.
    #[inline]
    pub(super) fn look<I>(
        &mut self,
        select: &dyn KeySelector<I, K>,
        input: &Cursor<I>,
        uid: &OperatorUid,
    ) -> Result<(), OpError> {
        if self.keys.is_empty() {
            self.take(select, input, uid)?;
        }
        Ok(())
    }

    fn take<I>(
        &mut self,
        select: &dyn KeySelector<I, K>,
        input: &Cursor<I>,
        uid: &OperatorUid,
    ) -> Result<(), OpError> {
        let run = &input.values()[..input.len().min(LOOK)];
        self.fetched = 0;
        self.keys.clear();
        select.select(run, &mut self.keys);
        self.hashes.clear();
        match input.hashes() {
            Some(known) => self.hashes.extend_from_slice(&known[..run.len()]),
            None => select
                .hash(run, &mut self.hashes)
                .map_err(|e| OpError::fatal(uid, "key", e))?,
        }
        Ok(())
    }

    /// The hashes whose state is to be fetched before the next record is worked on: a window ahead of it.
    #[inline]
    pub(super) fn next_window(&mut self) -> Option<&[u64]> {
        let at = self.hashes.len() - self.keys.len();
        if !at.is_multiple_of(WINDOW) || self.fetched == self.hashes.len() {
            return None;
        }
        let from = self.fetched;
        self.fetched = (at + 2 * WINDOW).min(self.hashes.len());
        Some(&self.hashes[from..self.fetched])
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<(K, u64)> {
        let hash = self.hashes[self.hashes.len() - self.keys.len()..]
            .first()
            .copied();
        Some((self.keys.pop_front()?, hash?))
    }
}

/// A process function with its key selector.
pub struct KeyedProcessOp<K: Key, I, O, F> {
    function: One<F, I>,
    select: Arc<dyn KeySelector<I, K>>,
    core: Core<K>,
    ahead: Ahead<K>,
    _out: PhantomData<fn() -> O>,
}

/// A function with one input, as the core sees it.
struct One<F, I>(F, PhantomData<fn(I)>);

impl<K: Key, I: 'static, O, F: ProcessFunction<K, I, O>> Callbacks<K, O> for One<F, I> {
    fn state(&mut self, states: &mut States<'_, K>) {
        self.0.state(states);
    }

    fn initialize(&mut self, cx: &mut InitializeContext) -> Result<(), BoxError> {
        self.0.initialize(cx)
    }

    fn open(&mut self, cx: &FunctionContext) -> Result<(), BoxError> {
        self.0.open(cx)
    }

    fn on_timer(&mut self, timer: Timer, cx: &mut ProcessContext<'_, K, O>) -> Result<(), BoxError> {
        self.0.on_timer(timer, cx)
    }

    fn snapshot(&mut self, cx: &mut SnapshotContext) -> Result<(), BoxError> {
        self.0.snapshot(cx)
    }

    fn checkpoint_completed(&mut self, id: CheckpointId) -> Result<(), BoxError> {
        self.0.checkpoint_completed(id)
    }
}

impl<K: Key, I: Record, O, F: ProcessFunction<K, I, O>> KeyedProcessOp<K, I, O, F> {
    /// The operator for one subtask.
    pub fn new(function: F, select: Arc<dyn KeySelector<I, K>>, formats: Formats, uid: OperatorUid) -> Self {
        Self {
            function: One(function, PhantomData),
            select,
            core: Core::new(formats, uid),
            ahead: Ahead::new(),
            _out: PhantomData,
        }
    }
}

impl<K, I, O, F> Operator<I, O> for KeyedProcessOp<K, I, O, F>
where
    K: Key,
    I: Record,
    O: Send + 'static,
    F: ProcessFunction<K, I, O>,
{
    fn open(&mut self, cx: &mut OpenContext) -> Result<(), OpError> {
        self.core.open(&mut self.function, cx)
    }

    fn process(
        &mut self,
        input: &mut Cursor<I>,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        let Self {
            function,
            select,
            core,
            ahead,
            ..
        } = self;
        core.wall_ms = pass.wall_ms();
        ahead.forget();
        loop {
            if input.is_empty() {
                return Ok(Flow::Done);
            }
            if pass.must_yield() {
                return Ok(Flow::Yielded);
            }
            if out.is_full() {
                return Ok(Flow::Full);
            }
            ahead.look(&**select, input, &core.uid)?;
            if let Some(hashes) = ahead.next_window() {
                core.prefetch(function, hashes);
            }
            let (Some((key, hash)), Some((record, time))) = (ahead.next(), input.next()) else {
                return Ok(Flow::Done);
            };
            let watermark = core.watermark_of(hash);
            let at = KeyContext::new(&key, hash, core.wall_ms);
            let mut cx = ProcessContext {
                at,
                time,
                watermark,
                out,
                timers: &mut core.timers,
            };
            function
                .0
                .process(record, &mut cx)
                .map_err(|e| OpError::user(&core.uid, e))?;
            pass.spend();
        }
    }

    fn on_watermark(
        &mut self,
        w: EventTime,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        self.core.on_watermark(&mut self.function, w, out, pass)
    }

    fn on_time(
        &mut self,
        wall_ms: EventTime,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        self.core
            .fire(&mut self.function, TimerKind::ProcessingTime, wall_ms, out, pass)
    }

    fn next_time(&self) -> Option<EventTime> {
        self.core.next_time()
    }

    fn cut(&mut self, parts: &mut CutParts) -> Result<(), OpError> {
        self.core.cut(&mut self.function, parts)
    }

    fn sweep(
        &mut self,
        id: CheckpointId,
        may_go_on: &mut dyn FnMut() -> bool,
        parts: &mut Vec<SnapshotPart>,
    ) -> Result<Progress, OpError> {
        self.core.sweep(&mut self.function, id, may_go_on, parts)
    }

    fn decided(&mut self, id: CheckpointId, outcome: Outcome) -> Result<(), OpError> {
        self.core.decided(&mut self.function, id, outcome)
    }

    fn close(&mut self) {
        self.function.0.close();
    }
}
