//! Which checkpoints are pending: how one becomes so, and how it is given up.

use std::time::Duration;

use tidegate_types::{Barrier, CheckpointId, Nanos, SnapshotMode};

use crate::message::DeclineReason;

use super::super::BarrierAction;
use super::super::channel::Ending;
use super::super::dead::Marker;
use super::super::pending::{Arrival, Pending, Progress, Urgency};
use super::{BarrierHandler, Cause};

impl BarrierHandler {
    /// Records that a channel brought a barrier: what it skipped will not come in it.
    pub(super) fn note_in_channel(
        &mut self,
        channel: usize,
        barrier: &Barrier,
        out: &mut Vec<BarrierAction>,
    ) {
        self.raise_oldest_pending(barrier.oldest_pending, out);
        self.channels[channel].newest = barrier.id;
        let awaits = |pending: &Pending| match &pending.progress {
            Progress::Collecting(collecting) => collecting.arrivals[channel] == Arrival::Awaited,
            Progress::Capturing(capturing) => capturing.open[channel],
        };
        while let Some(at) = self.pending.iter().position(|p| p.id() < barrier.id && awaits(p)) {
            let detail = format!("channel {channel} brought checkpoint {} instead", barrier.id);
            self.abort(at, Cause::Local(DeclineReason::Subsumed, detail), out);
        }
    }

    pub(super) fn raise_oldest_pending(&mut self, to: CheckpointId, out: &mut Vec<BarrierAction>) {
        if to <= self.oldest_pending {
            return;
        }
        self.oldest_pending = to;
        while self.pending.first().is_some_and(|p| p.id() < to) {
            let detail = format!("everything below checkpoint {to} is decided");
            self.abort(0, Cause::Local(DeclineReason::Subsumed, detail), out);
        }
        if !self.dead.is_empty() {
            self.dead.forget(to, self.seen_everywhere());
        }
    }

    /// No barrier up to this id can be announced any more.
    pub(super) fn seen_everywhere(&self) -> CheckpointId {
        let open = self.channels.iter().filter(|c| c.ending != Ending::Reached);
        open.map(|c| c.newest).min().unwrap_or(CheckpointId(u64::MAX))
    }

    /// Whether it is decided and nothing more of it can come but stray cancel markers.
    pub(super) fn is_passed(&self, id: CheckpointId) -> bool {
        id < self.oldest_pending && id <= self.seen_everywhere()
    }

    /// The pending checkpoint of a barrier that wasn't seen before in its channel, or nothing if that is dead.
    pub(super) fn admit(
        &mut self,
        now: Nanos,
        barrier: &Barrier,
        out: &mut Vec<BarrierAction>,
    ) -> Option<usize> {
        let id = barrier.id;
        if let Some(at) = self.find(id) {
            self.hasten(at, barrier.mode);
            return Some(at);
        }
        let is_dead = id <= self.last_cut
            || id < self.oldest_pending
            || self.dead.get(id).is_some()
            || self.channels.iter().any(|c| c.skipped(id));
        if is_dead {
            let detail = || "a higher checkpoint was here first".to_owned();
            self.bury(id, DeclineReason::Subsumed, detail, out);
            return None;
        }
        let pending = Pending::new(now, barrier.clone(), &self.channels);
        let remaining = pending.limit().map(|limit| limit.saturating_sub(barrier.age));
        let at = self.pending.partition_point(|p| p.id() < id);
        self.pending.insert(at, pending);
        match remaining {
            None => {}
            Some(Duration::ZERO) => self.on_timeout(id, out),
            Some(remaining) => out.push(BarrierAction::ArmTimeout(id, remaining)),
        }
        self.find(id)
    }

    /// A barrier of the checkpoint has overtaken upstream: it does here too.
    pub(super) fn hasten(&mut self, at: usize, mode: SnapshotMode) {
        let pending = &mut self.pending[at];
        let convertible = pending.is_convertible();
        match (&mut pending.progress, mode) {
            (Progress::Collecting(collecting), SnapshotMode::Unaligned) if convertible => {
                match collecting.urgency {
                    Urgency::Patient => collecting.urgency = Urgency::Held,
                    Urgency::Held | Urgency::Overtaking => {}
                }
            }
            (Progress::Collecting(_) | Progress::Capturing(_), _) => {}
        }
    }

    /// A checkpoint that isn't pending will not be cut here: says so, once.
    pub(super) fn bury(
        &mut self,
        id: CheckpointId,
        reason: DeclineReason,
        detail: impl FnOnce() -> String,
        out: &mut Vec<BarrierAction>,
    ) {
        match self.dead.get(id) {
            Some(Marker::Sent) => return,
            // The coordinator aborted it or, below the oldest pending, has decided it: nobody has to tell it.
            Some(Marker::Owed) => out.push(BarrierAction::ForwardCancel(id)),
            None => {
                out.push(BarrierAction::ForwardCancel(id));
                if id >= self.oldest_pending {
                    out.push(BarrierAction::Decline {
                        id,
                        reason,
                        detail: detail(),
                    });
                }
            }
        }
        self.dead.insert(id, Marker::Sent);
    }

    /// Gives up a pending checkpoint.
    pub(super) fn abort(&mut self, at: usize, cause: Cause, out: &mut Vec<BarrierAction>) {
        let pending = self.pending.remove(at);
        let id = pending.id();
        let was_cut = match pending.progress {
            Progress::Collecting(_) => {
                self.release(id, out);
                false
            }
            Progress::Capturing(_) => {
                out.push(BarrierAction::DropCaptures(id));
                true
            }
        };
        match cause {
            Cause::Coordinator if was_cut => {}
            Cause::Coordinator => out.push(BarrierAction::ForwardCancel(id)),
            Cause::Local(reason, detail) => {
                out.push(BarrierAction::ForwardCancel(id));
                out.push(BarrierAction::Decline { id, reason, detail });
            }
        }
        self.dead.insert(id, Marker::Sent);
    }

    pub(super) fn decline_quiesce(&mut self, at: usize, limit: Duration, out: &mut Vec<BarrierAction>) {
        let missing = self.missing(self.pending[at].id()).next();
        let detail = match missing {
            Some(channel) => format!("after {limit:?} channel {channel} has brought no barrier"),
            None => format!("it got here only after {limit:?}"),
        };
        self.abort(at, Cause::Local(DeclineReason::QuiesceLimit, detail), out);
    }
}
