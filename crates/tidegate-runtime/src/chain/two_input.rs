//! An operator with two inputs of different types, at the head of its chain.
//!
//! It is two [`Side`]s that take turns, one operator, one outlet. The operator's watermark is the lower of the
//! two sides' watermarks.

use tidegate_types::codec::Record;
use tidegate_types::time::{MAX_WATERMARK, MIN_WATERMARK};
use tidegate_types::{Activity, CheckpointId, EventTime, Nanos};

use crate::error::OpError;

use super::cursor::Cursor;
use super::flow::{Flow, Pass};
use super::node::{Chain, ChainItem, Control, Node, NodeMeta};
use super::node_state::{RestoredInput, Watermarks};
use super::operator::{CutParts, OpenContext, Outcome, Progress, SnapshotPart};
use super::out::OutBatch;
use super::outlet::{Event, Outlet};
use super::overdraft::Overdraft;
use super::side::{Due, Side};

/// Like [`Operator`](super::Operator), with two inputs.
pub trait Operator2<A, B, O>: Send {
    /// See [`Operator::open`](super::Operator::open).
    ///
    /// # Errors
    /// When restored state can't be used or user code fails.
    fn open(&mut self, cx: &mut OpenContext) -> Result<(), OpError> {
        let _ = cx;
        Ok(())
    }

    /// Consumes a prefix of the first input.
    ///
    /// # Errors
    /// When user code fails.
    fn process1(
        &mut self,
        input: &mut Cursor<A>,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError>;

    /// Consumes a prefix of the second input.
    ///
    /// # Errors
    /// When user code fails.
    fn process2(
        &mut self,
        input: &mut Cursor<B>,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError>;

    /// See [`Operator::on_watermark`](super::Operator::on_watermark).
    ///
    /// # Errors
    /// When user code fails.
    fn on_watermark(
        &mut self,
        w: EventTime,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        let _ = (w, out, pass);
        Ok(Flow::Done)
    }

    /// See [`Operator::on_time`](super::Operator::on_time).
    ///
    /// # Errors
    /// When user code fails.
    fn on_time(
        &mut self,
        wall_ms: EventTime,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        let _ = (wall_ms, out, pass);
        Ok(Flow::Done)
    }

    /// See [`Operator::next_time`](super::Operator::next_time).
    fn next_time(&self) -> Option<EventTime> {
        None
    }

    /// Both inputs have ended for good.
    ///
    /// # Errors
    /// When user code fails.
    fn on_end(&mut self, out: &mut OutBatch<O>, pass: &mut Pass<'_>) -> Result<Flow, OpError> {
        let _ = (out, pass);
        Ok(Flow::Done)
    }

    /// See [`Operator::finish_record`](super::Operator::finish_record).
    ///
    /// # Errors
    /// When user code fails.
    fn finish_record(
        &mut self,
        out: &mut OutBatch<O>,
        overdraft: &mut Overdraft<'_>,
    ) -> Result<bool, OpError> {
        let _ = (out, overdraft);
        Ok(true)
    }

    /// See [`Operator::is_suspended`](super::Operator::is_suspended). What comes next, on either input, waits for it.
    fn is_suspended(&self) -> bool {
        false
    }

    /// See [`Operator::prepare_snapshot`](super::Operator::prepare_snapshot).
    ///
    /// # Errors
    /// A refusal.
    fn prepare_snapshot(&mut self, id: CheckpointId, out: &mut OutBatch<O>) -> Result<(), OpError> {
        let _ = (id, out);
        Ok(())
    }

    /// See [`Operator::cut`](super::Operator::cut).
    ///
    /// # Errors
    /// Fails the task.
    fn cut(&mut self, parts: &mut CutParts) -> Result<(), OpError> {
        let _ = parts;
        Ok(())
    }

    /// See [`Operator::sweep`](super::Operator::sweep).
    ///
    /// # Errors
    /// Declines the checkpoint.
    fn sweep(
        &mut self,
        id: CheckpointId,
        may_go_on: &mut dyn FnMut() -> bool,
        parts: &mut Vec<SnapshotPart>,
    ) -> Result<Progress, OpError> {
        let _ = (id, may_go_on, parts);
        Ok(Progress::Done)
    }

    /// See [`Operator::decided`](super::Operator::decided).
    ///
    /// # Errors
    /// When user code fails.
    fn decided(&mut self, id: CheckpointId, outcome: Outcome) -> Result<(), OpError> {
        let _ = (id, outcome);
        Ok(())
    }

    /// See [`Operator::close`](super::Operator::close).
    fn close(&mut self) {}
}

/// Two inputs, one operator.
pub struct TwoInputNode<A, B, O> {
    meta: NodeMeta,
    op: Box<dyn Operator2<A, B, O>>,
    first: Side<A>,
    second: Side<B>,
    current: EventTime,
    idle: bool,
    due: std::collections::VecDeque<Due>,
    ended: Option<bool>,
    outlet: Outlet<O>,
}

impl<A: Record, B: Record, O: Send + 'static> TwoInputNode<A, B, O> {
    /// An operator behind these sides.
    pub fn new(
        meta: NodeMeta,
        op: Box<dyn Operator2<A, B, O>>,
        first: Side<A>,
        second: Side<B>,
        outlet: Outlet<O>,
    ) -> Self {
        Self {
            meta,
            op,
            first,
            second,
            current: MIN_WATERMARK,
            idle: false,
            due: Default::default(),
            ended: None,
            outlet,
        }
    }

    /// Puts an item of the first input in.
    pub fn push_first(&mut self, item: ChainItem<A>) {
        let (_, ended) = self.first.push(item);
        self.merge(ended);
    }

    /// Puts an item of the second input in.
    pub fn push_second(&mut self, item: ChainItem<B>) {
        let (_, ended) = self.second.push(item);
        self.merge(ended);
    }

    /// A side's watermark, activity or end changed: what does that mean for the operator?
    fn merge(&mut self, ended: Option<bool>) {
        let low = match (self.first.active_watermark(), self.second.active_watermark()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            // One input has ended, the other is idle and may come back.
            (Some(MAX_WATERMARK), None) | (None, Some(MAX_WATERMARK)) => None,
            (a, b) => a.or(b),
        };
        let stands = self.due.iter().filter_map(|d| match d {
            Due::Watermark(w) => Some(*w),
            _ => None,
        });
        let known = stands.max().unwrap_or(self.current);
        if let Some(low) = low
            && low > known
        {
            self.due.push_back(Due::Watermark(low));
        }
        let idle = low.is_none();
        if idle != self.idle {
            self.idle = idle;
            self.due
                .push_back(Due::Status(if idle { Activity::Idle } else { Activity::Active }));
        }
        if let Some(drains) = ended {
            match self.ended {
                None => self.ended = Some(drains),
                Some(other) => self.due.push_back(Due::End(drains && other)),
            }
        }
    }

    fn timers_stand(&self) -> bool {
        self.due.iter().any(|d| matches!(d, Due::Timers(_)))
    }

    fn has_ended(&self) -> bool {
        self.first.has_ended() && self.second.has_ended()
    }

    fn work(&mut self, pass: &mut Pass<'_>) -> Result<Option<Flow>, OpError> {
        if self.first.is_empty() && self.second.is_empty() && self.due.is_empty() {
            return Ok(None);
        }
        if pass.must_yield() {
            return Ok(Some(Flow::Yielded));
        }
        if !self.outlet.make_room(pass) {
            return Ok(Some(Flow::Full));
        }
        let flow = if let Some(cursor) = self.first.cursor() {
            let flow = self.op.process1(cursor, self.outlet.out(), pass)?;
            self.first.settle(flow == Flow::Done);
            flow
        } else if let Some(cursor) = self.second.cursor() {
            let flow = self.op.process2(cursor, self.outlet.out(), pass)?;
            self.second.settle(flow == Flow::Done);
            flow
        } else {
            self.work_due(pass)?
        };
        self.outlet.hand_on();
        // Restored channels that were drained meanwhile hold the watermark back no longer.
        self.merge(None);
        Ok(Some(flow))
    }

    fn work_due(&mut self, pass: &mut Pass<'_>) -> Result<Flow, OpError> {
        let out = self.outlet.out();
        let (flow, event) = match self.due.front() {
            None => return Ok(Flow::Done),
            Some(Due::Watermark(w)) => {
                self.current = *w;
                (self.op.on_watermark(*w, out, pass)?, Some(Event::Watermark(*w)))
            }
            Some(Due::Timers(ms)) => (self.op.on_time(*ms, out, pass)?, None),
            Some(Due::Status(s)) => (Flow::Done, Some(Event::Status(*s))),
            Some(Due::End(true)) => (self.op.on_end(out, pass)?, Some(Event::End(true))),
            Some(Due::End(false)) => (Flow::Done, Some(Event::End(false))),
        };
        self.outlet.hand_on();
        if flow == Flow::Done {
            self.due.pop_front();
            if let Some(event) = event {
                self.outlet.event(event);
            }
        }
        Ok(flow)
    }
}

impl<A: Record, B: Record, O: Send + 'static> Chain for TwoInputNode<A, B, O> {
    fn run(&mut self, pass: &mut Pass<'_>) -> Result<Flow, OpError> {
        loop {
            match self.outlet.run(pass)? {
                Flow::Done => {}
                stopped => return Ok(stopped),
            }
            match self.work(pass)? {
                None => return Ok(Flow::Done),
                Some(Flow::Done) => {}
                Some(stopped) if self.outlet.is_empty() => {
                    if stopped == Flow::Yielded || self.outlet.room() == 0 {
                        return Ok(stopped);
                    }
                }
                Some(_) => {}
            }
        }
    }

    fn room(&self) -> usize {
        self.outlet.room()
    }

    fn is_empty(&self) -> bool {
        self.first.is_empty()
            && self.second.is_empty()
            && self.due.is_empty()
            && !self.op.is_suspended()
            && self.outlet.is_empty()
    }

    fn watermark(&self) -> EventTime {
        self.current
    }

    fn emitted(&self) -> u64 {
        self.outlet.emitted()
    }

    fn control(&mut self, control: Control<'_>, now: Nanos) {
        self.outlet.control(control, now);
    }

    fn wait_for_room(&self) -> bool {
        self.outlet.wait_for_room()
    }

    fn deadlines(&self) -> (Option<Nanos>, Option<EventTime>) {
        let (flush, timer) = self.outlet.deadlines();
        // What is due and stands here fires as soon as there is room: nothing to wake up for.
        let own = self
            .op
            .next_time()
            .filter(|_| !self.has_ended() && !self.timers_stand());
        (flush, own.into_iter().chain(timer).min())
    }

    fn on_time(&mut self, wall_ms: EventTime) {
        let due = self.op.next_time().is_some_and(|t| t <= wall_ms);
        if due && !self.has_ended() && !self.timers_stand() {
            self.due.push_back(Due::Timers(wall_ms));
        }
        self.outlet.on_time(wall_ms);
    }

    fn visit(&mut self, f: &mut dyn FnMut(&mut dyn Node) -> Result<(), OpError>) -> Result<(), OpError> {
        f(self)?;
        self.outlet.visit(f)
    }

    fn finish_records(&mut self, overdraft: &mut Overdraft<'_>) -> Result<bool, OpError> {
        let mut finished = true;
        if self.op.is_suspended() {
            self.outlet.out().set_limit(usize::MAX);
            finished = self.op.finish_record(self.outlet.out(), overdraft)?;
            self.outlet.hand_on();
        }
        Ok(self.outlet.finish_records(overdraft)? && finished)
    }

    fn prepare_snapshot(&mut self, id: CheckpointId, run_on: Option<&mut Pass<'_>>) -> Result<(), OpError> {
        self.outlet.out().set_limit(usize::MAX);
        self.op.prepare_snapshot(id, self.outlet.out())?;
        self.outlet.prepare_snapshot(id, run_on)
    }
}

impl<A: Record, B: Record, O: Send + 'static> Node for TwoInputNode<A, B, O> {
    fn meta(&self) -> &NodeMeta {
        &self.meta
    }

    fn open(&mut self, mut cx: OpenContext) -> Result<(), OpError> {
        let (a, b) = (&self.first, &self.second);
        let first = RestoredInput::take(&mut cx, a.format(), a.route(), |i| a.has_input(i))?;
        let second = RestoredInput::take(&mut cx, b.format(), b.route(), |i| b.has_input(i))?;
        self.current = first.watermark;
        cx.watermark_floors.clone_from(&first.floors);
        self.first.open(first, cx.generation);
        self.second.open(second, cx.generation);
        self.op.open(&mut cx)?;
        if self.current > MIN_WATERMARK {
            self.due.push_back(Due::Watermark(self.current));
        }
        self.merge(None);
        Ok(())
    }

    fn cut(&mut self, parts: &mut CutParts) -> Result<(), OpError> {
        self.op.cut(parts)?;
        let mut watermarks = Watermarks::new(self.current);
        self.first
            .add_watermarks(&mut watermarks, self.meta.subtask, false);
        self.second
            .add_watermarks(&mut watermarks, self.meta.subtask, false);
        parts.parts.push(watermarks.into_part(&self.meta.uid)?);
        if parts.capture_remainders {
            self.first
                .capture(&self.meta.uid, self.meta.subtask, self.current, parts);
            self.second
                .capture(&self.meta.uid, self.meta.subtask, self.current, parts);
        }
        Ok(())
    }

    fn sweep(
        &mut self,
        id: CheckpointId,
        may_go_on: &mut dyn FnMut() -> bool,
        parts: &mut Vec<SnapshotPart>,
    ) -> Result<Progress, OpError> {
        self.op.sweep(id, may_go_on, parts)
    }

    fn decided(&mut self, id: CheckpointId, outcome: Outcome) -> Result<(), OpError> {
        self.op.decided(id, outcome)
    }

    fn is_suspended(&self) -> bool {
        self.op.is_suspended()
    }

    fn close(&mut self) {
        self.op.close();
    }
}
