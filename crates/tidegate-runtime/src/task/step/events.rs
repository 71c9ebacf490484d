//! Between the gates, the barrier handler, the snapshot machine and the operators: who is told what.

use tidegate_protocol::barrier::{BarrierAction, BarrierEvent};
use tidegate_protocol::message::FromTask;
use tidegate_protocol::subtask::{Outcome as SnapshotOutcome, SnapshotAction, SnapshotEvent};
use tidegate_types::{CheckpointId, Nanos};

use crate::chain::{Control, Outcome};
use crate::error::OpError;

use super::{ASK_AGAIN, Task};

impl Task {
    pub(super) fn read_announcements(&mut self, now: Nanos) -> Result<(), OpError> {
        let mut events = std::mem::take(&mut self.events);
        self.body.announcements(now, &mut events);
        for event in events.drain(..) {
            if let BarrierEvent::Announced(_, barrier) = &event {
                self.newest_seen = self.newest_seen.max(barrier.id);
            }
            self.on_barrier_event(now, event)?;
        }
        self.events = events;
        Ok(())
    }

    pub(super) fn expire_timeouts(&mut self, now: Nanos) -> Result<(), OpError> {
        while let Some(at) = self.timeouts.iter().position(|(at, _)| *at <= now) {
            let (_, id) = self.timeouts.swap_remove(at);
            self.on_barrier_event(now, BarrierEvent::AlignmentTimeout(id))?;
        }
        if self.snapshots.next_tick() <= now {
            self.on_snapshot_event(now, SnapshotEvent::Tick)?;
        }
        if let Some(asked) = self.ended
            && !self.may_finish
            && self.settings.awaits_last_checkpoint
            && asked + ASK_AGAIN <= now
        {
            self.ended = Some(now);
            self.outbox.send(FromTask::AwaitingLastCheckpoint);
        }
        Ok(())
    }

    pub(in crate::task) fn on_barrier_event(
        &mut self,
        now: Nanos,
        event: BarrierEvent,
    ) -> Result<(), OpError> {
        let mut actions = Vec::new();
        self.handler.on_event(now, event, &mut actions);
        for action in actions {
            match action {
                BarrierAction::Block(c) => self.body.block(c),
                BarrierAction::Release(c) => self.body.release(c),
                BarrierAction::BeginCapture(id, c) => self.body.begin_capture(id, c),
                BarrierAction::Overtake(id, c) => self.body.overtake(id, c),
                BarrierAction::CaptureRest(id, c) => self.body.capture_rest(id, c),
                BarrierAction::EndCapture(id, c) => self.body.end_capture(id, c),
                BarrierAction::DropCaptures(id) => self.body.drop_captures(id),
                BarrierAction::ArmTimeout(id, after) => self.timeouts.push((now + after, id)),
                BarrierAction::Cut(cut) => {
                    self.timeouts.retain(|(_, id)| *id != cut.barrier.id);
                    self.open.entry(cut.barrier.id).or_default().cut = Some(cut.clone());
                    self.on_snapshot_event(now, SnapshotEvent::Begin(cut))?;
                }
                BarrierAction::AllBarriersIn(id) => {
                    let captured = self.body.take_captures(id);
                    if let Some(open) = self.open.get_mut(&id) {
                        open.captured = captured;
                    }
                    self.on_snapshot_event(now, SnapshotEvent::PartDone(id))?;
                }
                BarrierAction::ForwardCancel(id) => self.body.chain().control(Control::Cancel(id), now),
                BarrierAction::Decline { id, reason, detail } => {
                    self.timeouts.retain(|(_, of)| *of != id);
                    self.on_snapshot_event(now, SnapshotEvent::Declined { id, reason, detail })?;
                }
            }
        }
        Ok(())
    }

    pub(in crate::task) fn on_snapshot_event(
        &mut self,
        now: Nanos,
        event: SnapshotEvent,
    ) -> Result<(), OpError> {
        let mut actions = Vec::new();
        self.snapshots.on_event(now, event, &mut actions);
        for action in actions {
            match action {
                SnapshotAction::Proceed(barrier) => self.proceed(now, barrier),
                SnapshotAction::ForwardCancel(id) => self.body.chain().control(Control::Cancel(id), now),
                SnapshotAction::StartWrite { id, times } => self.start_write(id, *times),
                SnapshotAction::CancelWrite(id) => {
                    if let Some(open) = self.open.get(&id) {
                        open.race.cancel();
                    }
                }
                SnapshotAction::Acknowledged { id, snapshot } => {
                    if snapshot.finished {
                        let first = self.first_finished.map_or(id, |first| first.min(id));
                        self.first_finished = Some(first);
                        self.final_sections = Some(snapshot);
                    }
                }
                SnapshotAction::AcknowledgeAgain { id, snapshot, stats } => {
                    self.outbox.send(FromTask::Acknowledged { id, snapshot, stats });
                }
                SnapshotAction::Decline { id, reason, detail } => {
                    self.outbox.send(FromTask::Declined { id, reason, detail });
                }
                SnapshotAction::DeleteFiles { files, .. } => self.io.delete(files),
                SnapshotAction::Settle(id, outcome) => self.settle(id, outcome)?,
            }
        }
        Ok(())
    }

    pub(super) fn settle(&mut self, id: CheckpointId, outcome: SnapshotOutcome) -> Result<(), OpError> {
        self.drop_cut(id);
        if let Some(open) = self.open.remove(&id) {
            open.race.cancel();
        }
        let outcome = match outcome {
            SnapshotOutcome::Completed => Outcome::Completed,
            SnapshotOutcome::Aborted | SnapshotOutcome::Unknown => {
                self.body.drop_captures(id);
                Outcome::Aborted
            }
        };
        self.body.chain().visit(&mut |node| node.decided(id, outcome))
    }
}
