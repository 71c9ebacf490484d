//! The operator around a [`ProcessFunction`]: keys and hashes a run ahead of the records.

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

/// Records whose keys and hashes are taken at once, at most.
const LONGEST_LOOK: usize = 128;

/// Records whose state is fetched while as many before them are worked on. A processor has some twenty misses under
/// way; what is asked for beyond that is waited for.
pub(super) const WINDOW: usize = 8;

/// The keys and hashes of the next records of a cursor.
pub(super) struct Ahead<K> {
    keys: Vec<K>,
    hashes: Vec<u64>,
    /// Keys of so many records are worth taking: twice what was worked on last time.
    look: usize,
}

/// A function with the engine's side of it, and which of its calls takes records.
pub(super) struct Calls<'a, K: Key, F, G> {
    pub(super) function: &'a mut F,
    pub(super) core: &'a mut Core<K>,
    pub(super) call: G,
}

impl<K: Key> Ahead<K> {
    pub(super) fn new() -> Self {
        Self {
            keys: Vec::new(),
            hashes: Vec::new(),
            look: LONGEST_LOOK,
        }
    }

    /// Takes the keys of the next `records` records. What was looked up counts for one run only: records that are left
    /// may come back in another cursor.
    fn take<I>(
        &mut self,
        select: &dyn KeySelector<I, K>,
        input: &Cursor<I>,
        records: usize,
        uid: &OperatorUid,
    ) -> Result<(), OpError> {
        let run = &input.values()[..records];
        self.keys.clear();
        select.select(run, &mut self.keys);
        self.hashes.clear();
        match input.hashes() {
            Some(known) => self.hashes.extend_from_slice(&known[..records]),
            None => select
                .hash(run, &mut self.hashes)
                .map_err(|e| OpError::fatal(uid, "key", e))?,
        }
        Ok(())
    }

    /// Hands records to the function one by one, each with its key, until none is left, there is no room, or the pass
    /// must end: that is looked at behind each record.
    pub(super) fn each<I, O, F, G>(
        &mut self,
        select: &dyn KeySelector<I, K>,
        input: &mut Cursor<I>,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
        calls: Calls<'_, K, F, G>,
    ) -> Result<Flow, OpError>
    where
        F: Callbacks<K, O>,
        G: Fn(&mut F, I, &mut ProcessContext<'_, K, O>) -> Result<(), BoxError>,
    {
        let Calls { function, core, call } = calls;
        core.wall_ms = pass.wall_ms();
        let (signal, heeds_urgency) = (pass.signal(), !pass.is_overdraft());
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
            let most = self.look.min(input.len()).min(pass.allowance());
            self.take(select, input, most, &core.uid)?;
            let (hashes, mut keys) = (&self.hashes, self.keys.drain(..));
            let (mut at, mut fetched) = (0, 0);
            let (done, result) = input.take_while(most, |record, time| {
                if at % WINDOW == 0 && fetched < hashes.len() {
                    let to = (at + 2 * WINDOW).min(hashes.len());
                    core.prefetch(function, &hashes[fetched..to]);
                    fetched = to;
                }
                let (Some(key), Some(&hash)) = (keys.next(), hashes.get(at)) else {
                    let error = "a key selector gave fewer keys than it had records";
                    return Err(OpError::fatal(&core.uid, "key", error));
                };
                at += 1;
                let watermark = core.watermark_of(hash);
                let mut cx = ProcessContext {
                    at: KeyContext::new(&key, hash, core.wall_ms),
                    time,
                    watermark,
                    out: &mut *out,
                    timers: &mut core.timers,
                };
                call(function, record, &mut cx).map_err(|e| OpError::user(&core.uid, e))?;
                Ok(!(out.is_full() || signal.is_urgent() && heeds_urgency))
            });
            drop(keys);
            self.look = (2 * done).clamp(WINDOW, LONGEST_LOOK);
            pass.spend_run(done);
            result?;
        }
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
        let calls = Calls {
            function: &mut self.function,
            core: &mut self.core,
            call: |f: &mut One<F, I>, record, cx: &mut ProcessContext<'_, K, O>| f.0.process(record, cx),
        };
        self.ahead.each(&*self.select, input, out, pass, calls)
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
