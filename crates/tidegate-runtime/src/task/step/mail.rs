//! What a task does with its mail.

use bytes::Bytes;
use tidegate_protocol::barrier::BarrierEvent;
use tidegate_protocol::message::{FromTask, HeldSplits, ToTask};
use tidegate_protocol::subtask::SnapshotEvent;
use tidegate_types::{LeaderEpoch, Nanos, OperatorUid};

use crate::error::OpError;

use super::super::mailbox::Mail;
use super::super::metrics::TaskStatus;
use super::{MAILS_PER_STEP, Step, Task};

impl Task {
    pub(super) fn read_mail(&mut self, now: Nanos) -> Result<(), OpError> {
        for _ in 0..MAILS_PER_STEP {
            if !self.cuts.is_empty() && self.body.source().is_some() {
                // What is assigned behind a trigger must not get into its cut.
                let Some(mail) = self.mailbox.next_urgent() else {
                    return Ok(());
                };
                self.on_mail(now, mail)?;
                continue;
            }
            let mail = match self.held_mail.pop_front() {
                Some(held) => held,
                None => match self.mailbox.next() {
                    Some(mail) => mail,
                    None => return Ok(()),
                },
            };
            self.on_mail(now, mail)?;
            if self.over.is_some() {
                return Ok(());
            }
        }
        // More is there: this step must not sleep.
        self.signal.wake();
        Ok(())
    }

    pub(super) fn on_mail(&mut self, now: Nanos, mail: Mail) -> Result<(), OpError> {
        match mail {
            Mail::Written { id, result } => {
                self.on_snapshot_event(now, SnapshotEvent::WriteDone { id, result })
            }
            Mail::Master(epoch, message) if self.must_wait(&message) => {
                self.held_mail.push_back(Mail::Master(epoch, message));
                Ok(())
            }
            Mail::Master(epoch, message) => self.on_message(now, epoch, message),
        }
    }

    /// Whether a message must wait until the cuts that are due are taken: what was assigned behind their triggers
    /// isn't in them. A later trigger that overtook ordinary mail took such an assignment along, which belongs into
    /// its cut: it waits behind that.
    fn must_wait(&self, message: &ToTask) -> bool {
        match message {
            ToTask::AssignSplits { .. } => !self.cuts.is_empty(),
            ToTask::NoMoreSplits { .. } | ToTask::Trigger(_) => {
                !self.cuts.is_empty() && !self.held_mail.is_empty()
            }
            ToTask::Aborted { .. }
            | ToTask::Completed { .. }
            | ToTask::Resume { .. }
            | ToTask::Reoffer
            | ToTask::Stop { .. }
            | ToTask::Cancel => false,
        }
    }

    pub(super) fn on_message(
        &mut self,
        now: Nanos,
        epoch: LeaderEpoch,
        message: ToTask,
    ) -> Result<(), OpError> {
        match message {
            ToTask::Trigger(barrier) => {
                self.newest_seen = self.newest_seen.max(barrier.id);
                self.on_barrier_event(now, BarrierEvent::Triggered(barrier))
            }
            ToTask::Aborted { id, oldest_pending } => {
                self.on_barrier_event(now, BarrierEvent::Aborted { id, oldest_pending })?;
                self.on_snapshot_event(now, SnapshotEvent::Aborted { id, oldest_pending })
            }
            ToTask::Completed { id, oldest_pending } => {
                self.on_barrier_event(now, BarrierEvent::OldestPending(oldest_pending))?;
                self.on_snapshot_event(now, SnapshotEvent::Completed { id, oldest_pending })?;
                self.held_splits.retain(|h| h.after >= id);
                // Whatever was cut later contains this subtask's end too, and a complete one is acknowledged by all. So
                // any word of one will do, however many others were lost.
                self.may_finish |= self.first_finished.is_some_and(|first| first <= id);
                Ok(())
            }
            ToTask::Resume { id } => {
                self.let_go(id);
                Ok(())
            }
            ToTask::Reoffer => self.on_reoffer(now, epoch),
            ToTask::AssignSplits { uid, splits } => self.on_assigned(uid, splits),
            ToTask::NoMoreSplits { uid } => {
                if let Some(source) = self.body.source()
                    && *source.uid() == uid
                {
                    source.no_more_splits();
                }
                Ok(())
            }
            ToTask::Stop { drain } => {
                if let Some(source) = self.body.source() {
                    source.stop(drain);
                }
                // The job goes on later from a checkpoint that it has: none is waited for.
                self.may_finish |= !drain && self.ended.is_some();
                Ok(())
            }
            ToTask::Cancel => {
                self.metrics.set_status(TaskStatus::Canceled);
                self.over = Some(Step::Finished);
                Ok(())
            }
        }
    }

    /// Another leader asks what this task holds.
    fn on_reoffer(&mut self, now: Nanos, epoch: LeaderEpoch) -> Result<(), OpError> {
        let held = self.held_splits.clone();
        self.outbox.send(FromTask::StillRunning {
            newest_seen: self.newest_seen,
            held,
        });
        // What an earlier leader assigned and this task hasn't taken is the new one's to assign.
        self.held_mail
            .retain(|mail| !matches!(mail, Mail::Master(of, _) if *of < epoch));
        if let Some(source) = self.body.source() {
            source.ask_again();
        }
        self.on_snapshot_event(now, SnapshotEvent::Reoffer)?;
        if self.ended.is_some() && self.settings.awaits_last_checkpoint {
            self.outbox.send(FromTask::AwaitingLastCheckpoint);
        }
        Ok(())
    }

    fn on_assigned(&mut self, uid: OperatorUid, splits: Vec<Bytes>) -> Result<(), OpError> {
        if let Some(source) = self.body.source()
            && *source.uid() == uid
        {
            source.assign(&splits)?;
            self.held_splits.push(HeldSplits {
                uid,
                after: self.last_cut,
                splits,
            });
        }
        Ok(())
    }

    pub(super) fn request_split(&mut self) {
        if let Some(source) = self.body.source()
            && source.wants_split()
        {
            let uid = source.uid().clone();
            self.outbox.send(FromTask::RequestSplit { uid });
        }
    }
}
