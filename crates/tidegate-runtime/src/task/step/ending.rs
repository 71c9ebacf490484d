//! How a task comes to its end: inputs ended, a last checkpoint, gone.

use tidegate_protocol::message::FromTask;
use tidegate_types::CheckpointId;
use tidegate_types::snapshot::{Location, SubtaskSnapshot};

use crate::chain::Control;

use super::super::metrics::TaskStatus;
use super::{Step, Task};

impl Task {
    pub(super) fn on_ended(&mut self) {
        let now = self.clock.now();
        self.body.chain().control(Control::Flush, now);
        self.metrics.set_status(TaskStatus::Ended);
        self.ended = Some(now);
        // A job that is being stopped to go on later has its last checkpoint already, and must not get one that
        // says that everything is over.
        if self.settings.awaits_last_checkpoint && self.body.ends_for_good() {
            self.outbox.send(FromTask::AwaitingLastCheckpoint);
        } else {
            self.may_finish = true;
        }
    }

    /// Whether all input has ended and the end was passed on; snapshots taken from then on say so. That a cut which was
    /// due keeps the task from noticing doesn't matter: those behind have got the end before the barrier.
    pub(in crate::task) fn has_ended(&self) -> bool {
        self.ended.is_some() || (self.body.has_ended() && self.body.ends_for_good())
    }

    /// Pauses at a cut: for a quiesced snapshot, or because the job is being stopped with it.
    pub(in crate::task) fn pause(&mut self, id: CheckpointId) {
        if id <= self.let_go {
            return;
        }
        self.paused = Some(id);
        if let Some(source) = self.body.source() {
            source.pause();
        }
    }

    /// Goes on after a pause for this checkpoint, or for an earlier one. The word may come before the cut: the trigger
    /// may stand behind other mail, and what says that it counts no more may be lost.
    pub(super) fn let_go(&mut self, id: CheckpointId) {
        self.let_go = self.let_go.max(id);
        if self.paused.is_some_and(|paused| paused <= id) {
            self.paused = None;
            if let Some(source) = self.body.source() {
                source.resume();
            }
        }
    }

    /// Ends when everything is said. What a later checkpoint shows of this subtask is what fits into `_metadata`;
    /// state in files goes when the checkpoint that wrote it is retired.
    pub(super) fn try_finish(&mut self) -> bool {
        if !self.may_finish || self.ended.is_none() || self.snapshots.is_busy() || !self.cuts.is_empty() {
            return false;
        }
        let mut snapshot = self.final_sections.take().unwrap_or(SubtaskSnapshot {
            subtask: self.id,
            sections: Vec::new(),
            finished: true,
        });
        snapshot
            .sections
            .retain(|s| matches!(s.location, Location::Inline(_)));
        self.metrics.set_status(TaskStatus::Finished);
        self.outbox.send(FromTask::Finished {
            snapshot,
            newest_seen: self.newest_seen,
        });
        self.over = Some(Step::Finished);
        true
    }
}
