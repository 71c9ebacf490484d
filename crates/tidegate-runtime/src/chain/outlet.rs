//! Behind an operator: its output buffer, the main successor and the side outputs.

use std::any::Any;

use tidegate_types::time::MIN_WATERMARK;
use tidegate_types::{Activity, CheckpointId, EventTime, Nanos};

use crate::error::OpError;

use super::cursor::Cursor;
use super::flow::{Flow, PASS_RECORDS, Pass};
use super::node::{Chain, ChainItem, Control, Downstream, Node};
use super::out::OutBatch;
use super::overdraft::Overdraft;

/// What is handed on besides records.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A watermark.
    Watermark(EventTime),
    /// An activity.
    Status(Activity),
    /// The end.
    End(bool),
}

/// A side output: a buffer that the operator fills, and what consumes it.
pub trait SideLink: Chain {
    /// The typed buffer.
    fn buffer(&mut self) -> &mut dyn Any;

    /// Hands the buffer's records on.
    fn hand_on(&mut self);

    /// Hands an event on.
    fn event(&mut self, event: Event);

    /// The link as a part of the chain.
    fn as_chain(&self) -> &dyn Chain;

    /// The link as a part of the chain.
    fn as_chain_mut(&mut self) -> &mut dyn Chain;
}

/// What stands behind one operator.
pub struct Outlet<O> {
    pub(super) out: OutBatch<O>,
    next: Box<dyn Downstream<O>>,
}

impl<O: Send + 'static> Outlet<O> {
    /// An outlet to `next`.
    pub fn new(next: Box<dyn Downstream<O>>) -> Self {
        Self {
            out: OutBatch::default(),
            next,
        }
    }

    /// Connects the side output with this index.
    pub fn set_side(&mut self, index: usize, side: Box<dyn SideLink>) {
        if self.out.sides.len() <= index {
            self.out.sides.resize_with(index + 1, || None);
        }
        self.out.sides[index] = Some(side);
    }

    /// The buffer that an operator fills.
    pub fn out(&mut self) -> &mut OutBatch<O> {
        &mut self.out
    }

    /// Opens the buffer for what the successors can take. False if that is nothing.
    pub fn make_room(&mut self, pass: &Pass<'_>) -> bool {
        if pass.is_overdraft() {
            self.out.set_limit(usize::MAX);
            return true;
        }
        let room = self.room();
        self.out.set_limit(room);
        room > 0
    }

    /// Hands on what the operator put out.
    pub fn hand_on(&mut self) {
        if let Some(batch) = self.out.take_batch() {
            self.next.push(ChainItem::Batch(0, Cursor::new(batch)));
        }
        for side in self.out.sides.iter_mut().flatten() {
            side.hand_on();
        }
        let (watermark, status) = self.out.take_events();
        if let Some(w) = watermark {
            self.event(Event::Watermark(w));
        }
        if let Some(s) = status {
            self.event(Event::Status(s));
        }
    }

    /// Hands an event on, to all successors.
    pub fn event(&mut self, event: Event) {
        self.next.push(match event {
            Event::Watermark(w) => ChainItem::Watermark(0, w),
            Event::Status(s) => ChainItem::Status(0, s),
            Event::End(drain) => ChainItem::End(0, drain),
        });
        for side in self.out.sides.iter_mut().flatten() {
            side.event(event);
        }
    }

    fn sides(&self) -> impl Iterator<Item = &dyn Chain> {
        self.out.sides.iter().flatten().map(|s| s.as_chain())
    }

    fn sides_mut(&mut self) -> impl Iterator<Item = &mut dyn Chain> {
        self.out.sides.iter_mut().flatten().map(|s| s.as_chain_mut())
    }
}

impl<O: Send + 'static> Chain for Outlet<O> {
    fn run(&mut self, pass: &mut Pass<'_>) -> Result<Flow, OpError> {
        let mut flow = self.next.run(pass)?;
        for side in self.sides_mut() {
            if flow == Flow::Yielded {
                return Ok(flow);
            }
            match side.run(pass)? {
                Flow::Done => {}
                stopped => flow = stopped,
            }
        }
        Ok(flow)
    }

    fn room(&self) -> usize {
        let main = self.next.room();
        self.sides()
            .map(Chain::room)
            .fold(main, usize::min)
            .min(PASS_RECORDS)
    }

    fn is_empty(&self) -> bool {
        self.next.is_empty() && self.sides().all(Chain::is_empty)
    }

    fn watermark(&self) -> EventTime {
        MIN_WATERMARK
    }

    fn emitted(&self) -> u64 {
        self.sides()
            .map(Chain::emitted)
            .fold(self.next.emitted(), u64::wrapping_add)
    }

    fn control(&mut self, control: Control<'_>, now: Nanos) {
        self.next.control(control, now);
        self.sides_mut().for_each(|s| s.control(control, now));
    }

    fn wait_for_room(&self) -> bool {
        // Every end must register, so no short cut.
        let main = self.next.wait_for_room();
        self.sides().fold(main, |waits, s| s.wait_for_room() || waits)
    }

    fn deadlines(&self) -> (Option<Nanos>, Option<EventTime>) {
        self.sides()
            .map(Chain::deadlines)
            .fold(self.next.deadlines(), |(f, t), (sf, st)| {
                (f.into_iter().chain(sf).min(), t.into_iter().chain(st).min())
            })
    }

    fn on_time(&mut self, wall_ms: EventTime) {
        self.next.on_time(wall_ms);
        self.sides_mut().for_each(|s| s.on_time(wall_ms));
    }

    fn visit(&mut self, f: &mut dyn FnMut(&mut dyn Node) -> Result<(), OpError>) -> Result<(), OpError> {
        self.next.visit(f)?;
        self.sides_mut().try_for_each(|s| s.visit(f))
    }

    fn finish_records(&mut self, overdraft: &mut Overdraft<'_>) -> Result<bool, OpError> {
        let main = self.next.finish_records(overdraft)?;
        self.sides_mut()
            .try_fold(main, |done, s| Ok(s.finish_records(overdraft)? && done))
    }

    /// Hands on what the operator behind has put out for the snapshot, and goes on with the successors.
    fn prepare_snapshot(
        &mut self,
        id: CheckpointId,
        mut run_on: Option<&mut Pass<'_>>,
    ) -> Result<(), OpError> {
        self.hand_on();
        if let Some(pass) = &mut run_on {
            self.run(pass)?;
        }
        self.next.prepare_snapshot(id, run_on.as_deref_mut())?;
        for side in self.sides_mut() {
            side.prepare_snapshot(id, run_on.as_deref_mut())?;
        }
        Ok(())
    }
}

impl<S: Send + 'static> SideLink for Outlet<S> {
    fn buffer(&mut self) -> &mut dyn Any {
        &mut self.out
    }

    fn hand_on(&mut self) {
        Outlet::hand_on(self);
    }

    fn event(&mut self, event: Event) {
        Outlet::event(self, event);
    }

    fn as_chain(&self) -> &dyn Chain {
        self
    }

    fn as_chain_mut(&mut self) -> &mut dyn Chain {
        self
    }
}
