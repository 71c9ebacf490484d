//! One checkpoint that a task has heard of and not finished with.

use std::time::Duration;

use tidegate_types::{Barrier, CheckpointId, EdgeKind, Nanos, SnapshotMode};

use super::channel::{Channel, Ending};

/// How eager an uncut checkpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Urgency {
    /// Waits until every barrier is reached.
    Patient,
    /// Would overtake, but a lower checkpoint that must stay aligned isn't cut yet.
    Held,
    /// Overtakes as soon as the sealed channels' barriers are reached.
    Overtaking,
}

/// Where the barrier of an uncut checkpoint is in one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Arrival {
    /// Not seen.
    Awaited,
    /// In the queue.
    Queued,
    /// Reached, or the channel has ended.
    In,
}

/// Before the cut.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Collecting {
    pub(super) urgency: Urgency,
    /// By channel.
    pub(super) arrivals: Vec<Arrival>,
    /// Channels that aren't in, feedback ones aside: they are never waited for.
    pub(super) missing: usize,
    /// The sealed ones among these.
    pub(super) missing_sealed: usize,
    /// When the first barrier was reached here or let overtake.
    pub(super) handled: Option<Nanos>,
}

/// Between the cut and the last barrier.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Capturing {
    /// By channel: whether it is still captured.
    pub(super) open: Vec<bool>,
    /// How many are.
    pub(super) count: usize,
}

/// How far a checkpoint is in this task.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Progress {
    /// The cut hasn't fallen.
    Collecting(Collecting),
    /// It has, and some channels are captured until their barrier comes.
    Capturing(Capturing),
}

/// A checkpoint that this task has heard of, not finished with, and not given up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Pending {
    /// As first seen.
    pub(super) barrier: Barrier,
    /// When it was first seen; the barrier's age is of then.
    pub(super) seen_at: Nanos,
    pub(super) progress: Progress,
}

impl Pending {
    pub(super) fn new(now: Nanos, barrier: Barrier, channels: &[Channel]) -> Self {
        let awaited = |c: &&Channel| c.ending != Ending::Reached && c.kind != EdgeKind::Feedback;
        let urgency = match barrier.mode {
            SnapshotMode::Unaligned => Urgency::Held,
            SnapshotMode::Aligned
            | SnapshotMode::Adaptive { .. }
            | SnapshotMode::AtLeastOnce
            | SnapshotMode::Quiesce { .. } => Urgency::Patient,
        };
        let arrivals = channels.iter().map(|c| match c.ending {
            Ending::Open | Ending::Queued => Arrival::Awaited,
            Ending::Reached => Arrival::In,
        });
        let progress = Progress::Collecting(Collecting {
            urgency,
            arrivals: arrivals.collect(),
            missing: channels.iter().filter(awaited).count(),
            missing_sealed: channels
                .iter()
                .filter(awaited)
                .filter(|c| c.kind == EdgeKind::Sealed)
                .count(),
            handled: None,
        });
        Self {
            barrier,
            seen_at: now,
            progress,
        }
    }

    pub(super) fn id(&self) -> CheckpointId {
        self.barrier.id
    }

    /// Time since the trigger.
    pub(super) fn age(&self, now: Nanos) -> Duration {
        self.barrier.age + now.since(self.seen_at)
    }

    /// After how long since the trigger something happens to it although nothing arrives.
    pub(super) fn limit(&self) -> Option<Duration> {
        match self.barrier.mode {
            SnapshotMode::Adaptive { timeout } => Some(timeout),
            SnapshotMode::Quiesce { limit } => Some(limit),
            SnapshotMode::Aligned | SnapshotMode::Unaligned | SnapshotMode::AtLeastOnce => None,
        }
    }

    /// Whether a reached barrier of it holds its channel.
    pub(super) fn blocks(&self) -> bool {
        match self.barrier.mode {
            SnapshotMode::AtLeastOnce => false,
            SnapshotMode::Aligned
            | SnapshotMode::Unaligned
            | SnapshotMode::Adaptive { .. }
            | SnapshotMode::Quiesce { .. } => true,
        }
    }

    /// Whether it may become unaligned because another barrier of its own, or a higher checkpoint, is.
    pub(super) fn is_convertible(&self) -> bool {
        match self.barrier.mode {
            SnapshotMode::Aligned | SnapshotMode::Adaptive { .. } | SnapshotMode::Unaligned => true,
            SnapshotMode::AtLeastOnce | SnapshotMode::Quiesce { .. } => false,
        }
    }

    /// Whether higher checkpoints have to wait with overtaking until it is cut.
    pub(super) fn is_firm(&self) -> bool {
        match &self.progress {
            Progress::Collecting(Collecting {
                urgency: Urgency::Patient,
                ..
            }) => self.barrier.kind.is_savepoint() || !self.is_convertible(),
            Progress::Collecting(Collecting {
                urgency: Urgency::Held | Urgency::Overtaking,
                ..
            })
            | Progress::Capturing(_) => false,
        }
    }
}

impl Collecting {
    pub(super) fn is_ready(&self) -> bool {
        match self.urgency {
            Urgency::Patient | Urgency::Held => self.missing == 0,
            Urgency::Overtaking => self.missing_sealed == 0,
        }
    }

    /// Counts a channel whose barrier or end is reached.
    pub(super) fn arrived(&mut self, channel: usize, kind: EdgeKind) {
        assert!(
            self.arrivals[channel] != Arrival::In,
            "a channel delivers a barrier once"
        );
        self.arrivals[channel] = Arrival::In;
        match kind {
            EdgeKind::Normal => self.missing -= 1,
            EdgeKind::Sealed => {
                self.missing -= 1;
                self.missing_sealed -= 1;
            }
            EdgeKind::Feedback => {}
        }
    }
}

impl Capturing {
    /// Ends the capture of a channel; whether there was one.
    pub(super) fn close(&mut self, channel: usize) -> bool {
        let was_open = std::mem::take(&mut self.open[channel]);
        self.count -= usize::from(was_open);
        was_open
    }
}
