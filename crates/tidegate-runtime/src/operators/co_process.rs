//! A function over two keyed streams that share state and timers per key.

use std::marker::PhantomData;
use std::sync::Arc;

use tidegate_state::{Formats, States};
use tidegate_types::codec::{Key, Record};
use tidegate_types::{CheckpointId, EventTime, OperatorUid};

use crate::chain::{
    Cursor, CutParts, Flow, OpenContext, Operator2, OutBatch, Outcome, Pass, Progress, SnapshotPart,
};
use crate::error::{BoxError, OpError};

use super::core::{Callbacks, Core};
use super::key::KeySelector;
use super::keyed::{Ahead, Calls};
use super::process::{FunctionContext, InitializeContext, ProcessContext, SnapshotContext, Timer, TimerKind};

/// Like [`ProcessFunction`](super::ProcessFunction), over two streams with the same kind of key.
pub trait CoProcessFunction<K: Key, A, B, O>: Send + 'static {
    /// See [`ProcessFunction::state`](super::ProcessFunction::state).
    fn state(&mut self, states: &mut States<'_, K>) {
        let _ = states;
    }

    /// See [`ProcessFunction::open`](super::ProcessFunction::open).
    ///
    /// # Errors
    /// Fail the attempt.
    fn open(&mut self, cx: &FunctionContext) -> Result<(), BoxError> {
        let _ = cx;
        Ok(())
    }

    /// See [`ProcessFunction::initialize`](super::ProcessFunction::initialize).
    ///
    /// # Errors
    /// Fail the attempt.
    fn initialize(&mut self, cx: &mut InitializeContext) -> Result<(), BoxError> {
        let _ = cx;
        Ok(())
    }

    /// A record of the first stream.
    ///
    /// # Errors
    /// Fail the attempt.
    fn process_first(&mut self, record: A, cx: &mut ProcessContext<'_, K, O>) -> Result<(), BoxError>;

    /// A record of the second stream.
    ///
    /// # Errors
    /// Fail the attempt.
    fn process_second(&mut self, record: B, cx: &mut ProcessContext<'_, K, O>) -> Result<(), BoxError>;

    /// See [`ProcessFunction::on_timer`](super::ProcessFunction::on_timer).
    ///
    /// # Errors
    /// Fail the attempt.
    fn on_timer(&mut self, timer: Timer, cx: &mut ProcessContext<'_, K, O>) -> Result<(), BoxError> {
        let _ = (timer, cx);
        Ok(())
    }

    /// See [`ProcessFunction::snapshot`](super::ProcessFunction::snapshot).
    ///
    /// # Errors
    /// Fail the attempt.
    fn snapshot(&mut self, cx: &mut SnapshotContext) -> Result<(), BoxError> {
        let _ = cx;
        Ok(())
    }

    /// See [`ProcessFunction::checkpoint_completed`](super::ProcessFunction::checkpoint_completed).
    ///
    /// # Errors
    /// Fail the attempt.
    fn checkpoint_completed(&mut self, id: CheckpointId) -> Result<(), BoxError> {
        let _ = id;
        Ok(())
    }

    /// See [`ProcessFunction::close`](super::ProcessFunction::close).
    fn close(&mut self) {}
}

type Inputs<A, B> = PhantomData<fn(A, B)>;

/// A function with two inputs, as the core sees it.
struct Two<F, A, B>(F, Inputs<A, B>);

impl<K: Key, A: 'static, B: 'static, O, F: CoProcessFunction<K, A, B, O>> Callbacks<K, O> for Two<F, A, B> {
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

/// The operator around a [`CoProcessFunction`].
pub struct KeyedCoProcessOp<K: Key, A, B, O, F> {
    function: Two<F, A, B>,
    first: Arc<dyn KeySelector<A, K>>,
    second: Arc<dyn KeySelector<B, K>>,
    core: Core<K>,
    ahead: Ahead<K>,
    _out: PhantomData<fn() -> O>,
}

impl<K: Key, A: Record, B: Record, O, F: CoProcessFunction<K, A, B, O>> KeyedCoProcessOp<K, A, B, O, F> {
    /// The operator for one subtask.
    pub fn new(
        function: F,
        first: Arc<dyn KeySelector<A, K>>,
        second: Arc<dyn KeySelector<B, K>>,
        formats: Formats,
        uid: OperatorUid,
    ) -> Self {
        Self {
            function: Two(function, PhantomData),
            first,
            second,
            core: Core::new(formats, uid),
            ahead: Ahead::new(),
            _out: PhantomData,
        }
    }
}

impl<K, A, B, O, F> Operator2<A, B, O> for KeyedCoProcessOp<K, A, B, O, F>
where
    K: Key,
    A: Record,
    B: Record,
    O: Send + 'static,
    F: CoProcessFunction<K, A, B, O>,
{
    fn open(&mut self, cx: &mut OpenContext) -> Result<(), OpError> {
        self.core.open(&mut self.function, cx)
    }

    fn process1(
        &mut self,
        input: &mut Cursor<A>,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        let calls = Calls {
            function: &mut self.function,
            core: &mut self.core,
            call: |f: &mut Two<F, A, B>, record, cx: &mut ProcessContext<'_, K, O>| {
                f.0.process_first(record, cx)
            },
        };
        self.ahead.each(&*self.first, input, out, pass, calls)
    }

    fn process2(
        &mut self,
        input: &mut Cursor<B>,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        let calls = Calls {
            function: &mut self.function,
            core: &mut self.core,
            call: |f: &mut Two<F, A, B>, record, cx: &mut ProcessContext<'_, K, O>| {
                f.0.process_second(record, cx)
            },
        };
        self.ahead.each(&*self.second, input, out, pass, calls)
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
