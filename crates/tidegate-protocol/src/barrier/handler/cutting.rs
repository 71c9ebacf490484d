//! The cut: when it falls, what is captured, what is released.

use tidegate_types::{Barrier, ChannelIndex, CheckpointId, EdgeKind, Nanos, SnapshotMode};

use super::super::channel::Ending;
use super::super::pending::{Arrival, Capturing, Collecting, Pending, Progress, Urgency};
use super::super::{BarrierAction, Cut};
use super::{BarrierHandler, channel_index};

impl BarrierHandler {
    /// Cuts whatever can be cut, lowest first.
    pub(super) fn advance(&mut self, now: Nanos, out: &mut Vec<BarrierAction>) {
        self.let_overtake(now);
        while let Some(at) = self
            .pending
            .iter()
            .position(|p| matches!(&p.progress, Progress::Collecting(_)))
        {
            let Progress::Collecting(collecting) = &self.pending[at].progress else {
                unreachable!("it was looked for")
            };
            if !collecting.is_ready() {
                return;
            }
            self.cut(at, now, out);
            self.let_overtake(now);
        }
    }

    /// Lets held checkpoints overtake, and with them the uncut ones below, unless one of these must stay as it is.
    pub(super) fn let_overtake(&mut self, now: Nanos) {
        let free = self
            .pending
            .iter()
            .position(Pending::is_firm)
            .unwrap_or(self.pending.len());
        let eager = self.pending[..free].iter().rposition(|p| match &p.progress {
            Progress::Collecting(collecting) => collecting.urgency != Urgency::Patient,
            Progress::Capturing(_) => false,
        });
        let Some(eager) = eager else { return };
        for pending in &mut self.pending[..=eager] {
            match &mut pending.progress {
                Progress::Collecting(collecting) => {
                    collecting.urgency = Urgency::Overtaking;
                    collecting.handled.get_or_insert(now);
                }
                Progress::Capturing(_) => {}
            }
        }
    }

    pub(super) fn cut(&mut self, at: usize, now: Nanos, out: &mut Vec<BarrierAction>) {
        let pending = &self.pending[at];
        let id = pending.id();
        assert!(id > self.last_cut, "cuts fall in the order of ids");
        let Progress::Collecting(collecting) = &pending.progress else {
            unreachable!("only an uncut checkpoint is cut")
        };
        let collecting = collecting.clone();
        let capturing = self.begin_captures(id, &collecting, out);
        out.push(BarrierAction::Cut(self.describe_cut(
            &self.pending[at],
            &collecting,
            now,
        )));
        self.last_cut = id;
        self.pending[at].progress = Progress::Capturing(capturing);
        self.release(id, out);
        self.finish_if_complete(at, out);
    }

    /// Captures what the cut leaves in flight: first of all, before anything that may let time pass.
    pub(super) fn begin_captures(
        &self,
        id: CheckpointId,
        collecting: &Collecting,
        out: &mut Vec<BarrierAction>,
    ) -> Capturing {
        let mut open = vec![false; self.channels.len()];
        for (at, (arrival, channel)) in collecting.arrivals.iter().zip(&self.channels).enumerate() {
            let in_flight = *arrival != Arrival::In;
            if !in_flight {
                continue;
            }
            assert!(
                channel.kind != EdgeKind::Sealed,
                "a sealed channel's barrier is reached before the cut"
            );
            out.push(BarrierAction::BeginCapture(id, channel_index(at)));
            match (arrival, channel.ending) {
                (Arrival::Queued, _) => out.push(BarrierAction::Overtake(id, channel_index(at))),
                (Arrival::Awaited, Ending::Queued) => {
                    out.push(BarrierAction::CaptureRest(id, channel_index(at)));
                }
                (Arrival::Awaited, Ending::Open) => open[at] = true,
                (Arrival::Awaited, Ending::Reached) | (Arrival::In, _) => {
                    unreachable!("an ended channel is in")
                }
            }
        }
        let count = open.iter().filter(|o| **o).count();
        Capturing { open, count }
    }

    pub(super) fn describe_cut(&self, pending: &Pending, collecting: &Collecting, now: Nanos) -> Cut {
        let asked = pending.barrier.mode;
        let overtakes = collecting.urgency == Urgency::Overtaking;
        let overtook = overtakes && (collecting.missing > 0 || self.channels.is_empty());
        let mode = match asked {
            SnapshotMode::AtLeastOnce | SnapshotMode::Quiesce { .. } => asked,
            SnapshotMode::Aligned | SnapshotMode::Unaligned | SnapshotMode::Adaptive { .. } if overtook => {
                SnapshotMode::Unaligned
            }
            SnapshotMode::Aligned | SnapshotMode::Unaligned | SnapshotMode::Adaptive { .. } => {
                SnapshotMode::Aligned
            }
        };
        let handled = collecting.handled.unwrap_or(now);
        let barrier = Barrier {
            oldest_pending: self.oldest_pending,
            mode: if overtakes { SnapshotMode::Unaligned } else { asked },
            age: pending.age(now),
            ..pending.barrier.clone()
        };
        Cut {
            barrier,
            mode,
            start_delay: pending.age(handled),
            alignment: now.since(handled),
        }
    }

    pub(super) fn release(&mut self, id: CheckpointId, out: &mut Vec<BarrierAction>) {
        for (at, channel) in self.channels.iter_mut().enumerate() {
            if channel.blocked == Some(id) {
                channel.blocked = None;
                out.push(BarrierAction::Release(channel_index(at)));
            }
        }
    }

    pub(super) fn close_captures(
        &mut self,
        channel: usize,
        action: impl Fn(CheckpointId, ChannelIndex) -> BarrierAction,
        out: &mut Vec<BarrierAction>,
    ) {
        let mut at = 0;
        while at < self.pending.len() {
            let before = self.pending.len();
            let id = self.pending[at].id();
            if let Progress::Capturing(capturing) = &mut self.pending[at].progress
                && capturing.close(channel)
            {
                out.push(action(id, channel_index(channel)));
                self.finish_if_complete(at, out);
            }
            at += usize::from(self.pending.len() == before);
        }
    }

    pub(super) fn finish_if_complete(&mut self, at: usize, out: &mut Vec<BarrierAction>) {
        let is_complete = match &self.pending[at].progress {
            Progress::Capturing(capturing) => capturing.count == 0,
            Progress::Collecting(_) => false,
        };
        if is_complete {
            out.push(BarrierAction::AllBarriersIn(self.pending.remove(at).id()));
        }
    }
}
