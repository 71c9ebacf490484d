//! One operator in its chain, with what stands unread before it.

use std::sync::Arc;

use tidegate_types::codec::Record;
use tidegate_types::time::MIN_WATERMARK;
use tidegate_types::{Activity, Barrier, CheckpointId, EventTime, Nanos, OperatorUid, SubtaskIndex};

use crate::error::OpError;

use super::cursor::Cursor;
use super::flow::{Flow, Pass};
use super::node_state::{RestoredInput, Watermarks};
use super::operator::{CutParts, OpenContext, Operator, Outcome, Progress, SnapshotPart};
use super::outlet::{Event, Outlet};
use super::overdraft::Overdraft;
use super::side::{Due, Side, Standing};
use super::valve::Merged;

/// What is handed from node to node.
#[derive(Debug)]
pub enum ChainItem<T> {
    /// Records of one of the node's channels (always 0 inside a chain).
    Batch(usize, Cursor<T>),
    /// A watermark of a channel.
    Watermark(usize, EventTime),
    /// A channel's activity.
    Status(usize, Activity),
    /// A channel has ended.
    End(usize, bool),
}

/// What the task tells the ends of its chain.
#[derive(Debug, Clone, Copy)]
pub enum Control<'a> {
    /// Flush, then put this barrier into every channel.
    Barrier(&'a Barrier),
    /// Tell every channel that this checkpoint's barrier will not come.
    Cancel(CheckpointId),
    /// Queue what is in open batches.
    Flush,
    /// Queue open batches whose time has come.
    FlushDue,
}

/// What the task can do with any part of a chain, whatever its types.
pub trait Chain: Send {
    /// Runs what stands here and behind. `Done` when nothing stands any more.
    ///
    /// # Errors
    /// When user code fails.
    fn run(&mut self, pass: &mut Pass<'_>) -> Result<Flow, OpError>;

    /// Records that may be put in without the end of the chain running over.
    fn room(&self) -> usize;

    /// Whether nothing stands here or behind.
    fn is_empty(&self) -> bool;

    /// The watermark at the head; below every time if that has none.
    fn watermark(&self) -> EventTime;

    /// Records that left the chain over its edges so far.
    fn emitted(&self) -> u64;

    /// Reaches every end of the chain.
    fn control(&mut self, control: Control<'_>, now: Nanos);

    /// Asks to be woken when the ends have room again. False if they have.
    fn wait_for_room(&self) -> bool;

    /// The next moments at which something is due: a flush, and (on the wall clock) a timer.
    fn deadlines(&self) -> (Option<Nanos>, Option<EventTime>);

    /// Lets nodes whose processing-time timers are due fire them, as part of `run`.
    fn on_time(&mut self, wall_ms: EventTime);

    /// Calls every node, head first.
    ///
    /// # Errors
    /// The first that `f` returns.
    fn visit(&mut self, f: &mut dyn FnMut(&mut dyn Node) -> Result<(), OpError>) -> Result<(), OpError>;

    /// Runs suspended records on, head first; what they put out stands before the next node. True when no
    /// record is in progress any more.
    ///
    /// # Errors
    /// When user code fails.
    fn finish_records(&mut self, overdraft: &mut Overdraft<'_>) -> Result<bool, OpError>;

    /// Lets every node put out what must stand before the barrier, head first. With `run_on`, what was put out
    /// is processed by the nodes behind, before it is their turn.
    ///
    /// # Errors
    /// A refusal.
    fn prepare_snapshot(&mut self, id: CheckpointId, run_on: Option<&mut Pass<'_>>) -> Result<(), OpError>;
}

/// A part of a chain that takes records of type `T`.
pub trait Downstream<T>: Chain {
    /// Puts an item before this part; [`Chain::run`] processes it.
    fn push(&mut self, item: ChainItem<T>);
}

/// One operator of a chain, without its types: what a snapshot needs.
pub trait Node: Send {
    /// Who it is.
    fn meta(&self) -> &NodeMeta;

    /// Opens the operator with what was restored for it.
    ///
    /// # Errors
    /// When restored state can't be used or user code fails.
    fn open(&mut self, cx: OpenContext) -> Result<(), OpError>;

    /// Collects the operator's state, its watermarks and, if the cut captures, what stands before it.
    ///
    /// # Errors
    /// Fails the task.
    fn cut(&mut self, parts: &mut CutParts) -> Result<(), OpError>;

    /// See [`Operator::sweep`].
    ///
    /// # Errors
    /// Declines the checkpoint.
    fn sweep(
        &mut self,
        id: CheckpointId,
        may_go_on: &mut dyn FnMut() -> bool,
        parts: &mut Vec<SnapshotPart>,
    ) -> Result<Progress, OpError>;

    /// See [`Operator::decided`].
    ///
    /// # Errors
    /// When user code fails.
    fn decided(&mut self, id: CheckpointId, outcome: Outcome) -> Result<(), OpError>;

    /// Whether a record is in progress here.
    fn is_suspended(&self) -> bool;

    /// See [`Operator::close`].
    fn close(&mut self);
}

/// Who a node is.
#[derive(Debug, Clone)]
pub struct NodeMeta {
    /// The operator.
    pub uid: OperatorUid,
    /// Display name.
    pub name: Arc<str>,
    /// Which parallel copy.
    pub subtask: SubtaskIndex,
}

/// An operator with one input.
pub struct OpNode<I, O> {
    meta: NodeMeta,
    op: Box<dyn Operator<I, O>>,
    side: Side<I>,
    /// The watermark that the operator is at: the last one it was told of. What merged since may still stand
    /// behind records.
    current: EventTime,
    outlet: Outlet<O>,
}

impl<I: Record, O: Send + 'static> OpNode<I, O> {
    /// An operator between its input and `outlet`.
    pub fn new(meta: NodeMeta, op: Box<dyn Operator<I, O>>, side: Side<I>, outlet: Outlet<O>) -> Self {
        Self {
            meta,
            op,
            side,
            current: MIN_WATERMARK,
            outlet,
        }
    }

    fn stand(&mut self, merged: Merged, ended: Option<bool>) {
        let due = [
            merged.watermark.map(Due::Watermark),
            merged.status.map(Due::Status),
            ended.map(Due::End),
        ];
        self.side
            .standing
            .extend(due.into_iter().flatten().map(Standing::Due));
    }

    fn timers_stand(&self) -> bool {
        let timers = |s: &Standing<I>| matches!(s, Standing::Due(Due::Timers(_)));
        self.side.standing.iter().any(timers)
    }

    /// Works on the first thing that stands here. `None`: nothing stands.
    fn work(&mut self, pass: &mut Pass<'_>) -> Result<Option<Flow>, OpError> {
        while self.side.standing.is_empty() {
            let Some(merged) = self.side.stand_restored() else {
                return Ok(None);
            };
            self.stand(merged, None);
        }
        if pass.must_yield() {
            return Ok(Some(Flow::Yielded));
        }
        if !self.outlet.make_room(pass) {
            return Ok(Some(Flow::Full));
        }
        self.side.unshare();
        let (op, out) = (&mut self.op, self.outlet.out());
        let (flow, done) = match self.side.standing.front_mut() {
            None | Some(Standing::Shared(..)) => (Flow::Done, false),
            Some(Standing::Batch(_, cursor)) => {
                let flow = op.process(cursor, out, pass)?;
                (flow, cursor.is_empty() && flow == Flow::Done)
            }
            Some(Standing::Due(due)) => {
                let flow = match due {
                    Due::Watermark(w) => {
                        self.current = *w;
                        op.on_watermark(*w, out, pass)?
                    }
                    Due::Timers(ms) => op.on_time(*ms, out, pass)?,
                    Due::End(true) => op.on_end(out, pass)?,
                    Due::Status(_) | Due::End(false) => Flow::Done,
                };
                (flow, flow == Flow::Done)
            }
        };
        self.outlet.hand_on();
        if done && let Some(Standing::Due(due)) = self.side.standing.pop_front() {
            match due {
                Due::Watermark(w) if self.op.forwards_watermarks() => self.outlet.event(Event::Watermark(w)),
                Due::Status(s) if self.op.forwards_watermarks() => self.outlet.event(Event::Status(s)),
                Due::Watermark(_) | Due::Status(_) | Due::Timers(_) => {}
                Due::End(drain) => self.outlet.event(Event::End(drain)),
            }
        }
        Ok(Some(flow))
    }
}

impl<I: Record, O: Send + 'static> Chain for OpNode<I, O> {
    fn run(&mut self, pass: &mut Pass<'_>) -> Result<Flow, OpError> {
        loop {
            match self.outlet.run(pass)? {
                Flow::Done => {}
                stopped => return Ok(stopped),
            }
            match self.work(pass)? {
                None => return Ok(Flow::Done),
                Some(Flow::Done) => {}
                // What it put out may be processed within this pass, and then there is room again.
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
        self.side.is_empty() && !self.op.is_suspended() && self.outlet.is_empty()
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
            .filter(|_| !self.side.has_ended() && !self.timers_stand());
        (flush, own.into_iter().chain(timer).min())
    }

    fn on_time(&mut self, wall_ms: EventTime) {
        let due = self.op.next_time().is_some_and(|t| t <= wall_ms);
        if due && !self.side.has_ended() && !self.timers_stand() {
            self.side.standing.push_back(Standing::Due(Due::Timers(wall_ms)));
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

impl<I: Record, O: Send + 'static> Downstream<I> for OpNode<I, O> {
    fn push(&mut self, item: ChainItem<I>) {
        let (merged, ended) = self.side.push(item);
        self.stand(merged, ended);
    }
}

impl<I: Record, O: Send + 'static> Node for OpNode<I, O> {
    fn meta(&self) -> &NodeMeta {
        &self.meta
    }

    fn open(&mut self, mut cx: OpenContext) -> Result<(), OpError> {
        let mut input = RestoredInput::take(&mut cx, self.side.format(), self.side.route(), |_| true)?;
        self.current = input.watermark;
        cx.watermark_floors = std::mem::take(&mut input.floors);
        self.op.open(&mut cx)?;
        // What is due at the watermark the operator had fires first, and the successor hears of it again.
        if self.current > MIN_WATERMARK {
            self.side
                .standing
                .push_back(Standing::Due(Due::Watermark(self.current)));
        }
        let merged = self.side.open(input, cx.generation);
        self.stand(merged, None);
        Ok(())
    }

    fn cut(&mut self, parts: &mut CutParts) -> Result<(), OpError> {
        self.op.cut(parts)?;
        let mut watermarks = Watermarks::new(self.current);
        self.side.add_watermarks(&mut watermarks, self.meta.subtask, true);
        parts.parts.push(watermarks.into_part(&self.meta.uid)?);
        if parts.capture_remainders {
            self.side
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
