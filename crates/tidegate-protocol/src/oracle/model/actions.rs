//! Carrying out a handler's actions on the queues.

use tidegate_types::{ChannelIndex, CheckpointId, EdgeKind, SnapshotMode};

use crate::barrier::{BarrierAction, Cut};

use super::super::{Promise, Violation};
use super::fates::IdSet;
use super::{Item, Model, expect, wrong};

impl Model {
    pub(super) fn carry_out(&mut self, action: &BarrierAction) -> Result<(), Violation> {
        match action {
            BarrierAction::Block(channel) => self.set_blocked(*channel, true),
            BarrierAction::Release(channel) => self.set_blocked(*channel, false),
            BarrierAction::BeginCapture(id, channel) => self.begin_capture(*id, *channel),
            BarrierAction::Overtake(id, channel) => {
                let queue = &mut self.queues[channel.0 as usize];
                let at = queue
                    .items
                    .iter()
                    .position(|i| matches!(i, Item::Barrier(b) if b.id == *id));
                let at = at.ok_or(wrong(*id, *channel, "overtakes without standing in the queue"))?;
                queue.items.remove(at);
                self.end_capture(*id, *channel)
            }
            BarrierAction::CaptureRest(id, channel) => {
                if !self.queues[channel.0 as usize].items.contains(&Item::End) {
                    return Err(wrong(*id, *channel, "the end isn't queued"));
                }
                self.end_capture(*id, *channel)
            }
            BarrierAction::EndCapture(id, channel) => self.end_capture(*id, *channel),
            BarrierAction::DropCaptures(id) => {
                self.queues
                    .iter_mut()
                    .for_each(|q| q.captures.retain(|(open, _)| open != id));
                self.oracle.drop_snapshot(*id);
                self.give_up(*id)
            }
            BarrierAction::ArmTimeout(id, _) => {
                let is_new = self.fates.armed.insert(*id);
                expect(is_new, *id, "a timeout is asked for twice")
            }
            BarrierAction::Cut(cut) => self.cut(cut),
            BarrierAction::AllBarriersIn(id) => {
                let open = self
                    .queues
                    .iter()
                    .any(|q| q.captures.iter().any(|(open, _)| open == id));
                expect(!open, *id, "all barriers are in although a capture is open")?;
                expect(
                    self.fates.complete.insert(*id),
                    *id,
                    "all barriers are in for the second time",
                )?;
                expect(
                    !self.fates.dropped.contains(*id),
                    *id,
                    "completes after it was given up",
                )?;
                self.completed.push((*id, self.oracle.complete(*id)?));
                Ok(())
            }
            BarrierAction::ForwardCancel(id) => {
                expect(self.fates.cancelled.insert(*id), *id, "two cancel markers go out")?;
                self.give_up(*id)
            }
            BarrierAction::Decline { id, .. } => {
                expect(self.fates.declined.insert(*id), *id, "declined twice")?;
                expect(
                    self.fates.cancelled.contains(*id),
                    *id,
                    "declined without a cancel marker",
                )?;
                self.give_up(*id)
            }
        }
    }

    fn give_up(&mut self, id: CheckpointId) -> Result<(), Violation> {
        expect(self.fates.doomed.contains(id), id, "given up without a cause")?;
        expect(
            !self.fates.complete.contains(id),
            id,
            "given up after it was complete",
        )?;
        self.fates.dropped.insert(id);
        Ok(())
    }

    fn set_blocked(&mut self, channel: ChannelIndex, blocked: bool) -> Result<(), Violation> {
        let queue = &mut self.queues[channel.0 as usize];
        if queue.blocked == blocked {
            return Err(wrong(CheckpointId(0), channel, "blocked or released twice"));
        }
        queue.blocked = blocked;
        Ok(())
    }

    fn begin_capture(&mut self, id: CheckpointId, channel: ChannelIndex) -> Result<(), Violation> {
        let queue = &mut self.queues[channel.0 as usize];
        if queue.kind == EdgeKind::Sealed {
            return Err(wrong(id, channel, "a sealed channel is captured"));
        }
        if queue.captures.iter().any(|(open, _)| *open == id) {
            return Err(wrong(id, channel, "captured twice"));
        }
        let mut arriving = true;
        for item in &queue.items {
            match item {
                Item::Record(record) => self.oracle.record_captured(id, channel, *record)?,
                Item::Barrier(barrier) if barrier.id == id => {
                    arriving = false;
                    break;
                }
                Item::Barrier(_) | Item::End => {}
            }
        }
        queue.captures.push((id, arriving));
        if queue.kind != EdgeKind::Feedback {
            self.fates.overtook.insert(id);
        }
        Ok(())
    }

    fn end_capture(&mut self, id: CheckpointId, channel: ChannelIndex) -> Result<(), Violation> {
        let captures = &mut self.queues[channel.0 as usize].captures;
        let before = captures.len();
        captures.retain(|(open, _)| *open != id);
        if captures.len() == before {
            return Err(wrong(id, channel, "a capture ends that wasn't begun"));
        }
        Ok(())
    }

    fn cut(&mut self, cut: &Cut) -> Result<(), Violation> {
        let id = cut.barrier.id;
        if self.fates.dropped.contains(id) {
            return Err(Violation::WrongCut {
                id,
                why: "it was given up",
            });
        }
        let overtook = match self.queues.is_empty() {
            true => cut.barrier.mode == SnapshotMode::Unaligned,
            false => self.fates.overtook.contains(id),
        };
        let may_overtake = self.fates.hurried.contains(id) || !self.fates.steady.contains(id);
        if overtook && !may_overtake {
            return Err(Violation::WrongCut {
                id,
                why: "it overtook and must stay aligned",
            });
        }
        expect(
            overtook == (cut.mode == SnapshotMode::Unaligned),
            id,
            "another mode is reported than used",
        )?;
        let told = !overtook || cut.barrier.mode == SnapshotMode::Unaligned;
        expect(told, id, "overtook and the barrier doesn't say so")?;
        let promise = match self.fates.counting.contains(id) {
            true => Promise::AtLeastOnce,
            false => Promise::ExactlyOnce,
        };
        self.oracle.cut(id, promise)?;
        self.fates.cut.insert(id);
        let mut below = IdSet::default();
        below.insert_below(id);
        self.fates.doomed = self.fates.doomed.or(below.minus(self.fates.cut));
        Ok(())
    }
}
