//! Several consumers of one stream inside a task.

use tidegate_types::time::MIN_WATERMARK;
use tidegate_types::{CheckpointId, EventTime, Nanos};

use crate::error::OpError;

use super::cursor::Cursor;
use super::flow::{Flow, Pass};
use super::node::{Chain, ChainItem, Control, Downstream, Node};
use super::overdraft::Overdraft;

/// Hands every item to each of several parts. With none, items vanish: a stream nobody reads.
pub struct Fanout<T> {
    parts: Vec<Box<dyn Downstream<T>>>,
}

impl<T> Fanout<T> {
    /// To all of `parts`.
    pub fn new(parts: Vec<Box<dyn Downstream<T>>>) -> Self {
        Self { parts }
    }
}

impl<T: Clone + Send + 'static> Downstream<T> for Fanout<T> {
    fn push(&mut self, item: ChainItem<T>) {
        let Some((last, others)) = self.parts.split_last_mut() else {
            return;
        };
        match item {
            ChainItem::Batch(_, cursor) => {
                let batch = cursor.into_batch();
                for part in others {
                    part.push(ChainItem::Batch(0, Cursor::new(batch.clone())));
                }
                last.push(ChainItem::Batch(0, Cursor::new(batch)));
            }
            ChainItem::Watermark(_, w) => self
                .parts
                .iter_mut()
                .for_each(|p| p.push(ChainItem::Watermark(0, w))),
            ChainItem::Status(_, s) => self
                .parts
                .iter_mut()
                .for_each(|p| p.push(ChainItem::Status(0, s))),
            ChainItem::End(_, d) => self.parts.iter_mut().for_each(|p| p.push(ChainItem::End(0, d))),
        }
    }
}

impl<T: Clone + Send + 'static> Chain for Fanout<T> {
    fn run(&mut self, pass: &mut Pass<'_>) -> Result<Flow, OpError> {
        let mut flow = Flow::Done;
        for part in &mut self.parts {
            match part.run(pass)? {
                Flow::Done => {}
                Flow::Yielded => return Ok(Flow::Yielded),
                // The others may still go on with what they have.
                Flow::Full => flow = Flow::Full,
            }
        }
        Ok(flow)
    }

    fn room(&self) -> usize {
        self.parts
            .iter()
            .map(|p| p.room())
            .min()
            .unwrap_or(super::flow::PASS_RECORDS)
    }

    fn is_empty(&self) -> bool {
        self.parts.iter().all(|p| p.is_empty())
    }

    fn watermark(&self) -> EventTime {
        MIN_WATERMARK
    }

    fn emitted(&self) -> u64 {
        self.parts.iter().map(|p| p.emitted()).fold(0, u64::wrapping_add)
    }

    fn control(&mut self, control: Control<'_>, now: Nanos) {
        self.parts.iter_mut().for_each(|p| p.control(control, now));
    }

    fn wait_for_room(&self) -> bool {
        // Every part must register, so no short cut.
        let mut waits = false;
        for part in &self.parts {
            waits |= part.wait_for_room();
        }
        waits
    }

    fn deadlines(&self) -> (Option<Nanos>, Option<EventTime>) {
        self.parts
            .iter()
            .map(|p| p.deadlines())
            .fold((None, None), |(f, t), (pf, pt)| {
                (f.into_iter().chain(pf).min(), t.into_iter().chain(pt).min())
            })
    }

    fn on_time(&mut self, wall_ms: EventTime) {
        self.parts.iter_mut().for_each(|p| p.on_time(wall_ms));
    }

    fn visit(&mut self, f: &mut dyn FnMut(&mut dyn Node) -> Result<(), OpError>) -> Result<(), OpError> {
        self.parts.iter_mut().try_for_each(|p| p.visit(f))
    }

    fn finish_records(&mut self, overdraft: &mut Overdraft<'_>) -> Result<bool, OpError> {
        self.parts
            .iter_mut()
            .try_fold(true, |done, p| Ok(p.finish_records(overdraft)? && done))
    }

    fn prepare_snapshot(
        &mut self,
        id: CheckpointId,
        mut run_on: Option<&mut Pass<'_>>,
    ) -> Result<(), OpError> {
        for part in &mut self.parts {
            part.prepare_snapshot(id, run_on.as_deref_mut())?;
        }
        Ok(())
    }
}
