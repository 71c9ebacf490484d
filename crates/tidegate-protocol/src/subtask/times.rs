//! The times of one subtask's snapshot, from its cut to the end of its write.

use std::time::Duration;

use tidegate_types::snapshot::SubtaskStats;
use tidegate_types::{LeaderEpoch, Nanos, SnapshotMode};

use crate::barrier::Cut;

use super::CutMeasured;

/// What was measured up to the cut. With the end of the write it becomes the subtask's statistics.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CutTimes {
    pub(super) cut: Cut,
    pub(super) begun_at: Nanos,
    pub(super) cut_at: Nanos,
    pub(super) measured: CutMeasured,
}

impl CutTimes {
    /// When the handler said "cut"; nothing is measured yet.
    pub(super) fn begun(cut: Cut, at: Nanos) -> Self {
        Self {
            cut,
            begun_at: at,
            cut_at: at,
            measured: CutMeasured::default(),
        }
    }

    /// The leadership that triggered the checkpoint.
    pub fn epoch(&self) -> LeaderEpoch {
        self.cut.barrier.epoch
    }

    /// The statistics of a write that ended at `now`; sizes and counts are those of `rest`.
    pub fn stats(&self, now: Nanos, rest: SubtaskStats) -> SubtaskStats {
        let measured = &self.measured;
        let mode = if measured.overtook {
            SnapshotMode::Unaligned
        } else {
            self.cut.mode
        };
        SubtaskStats {
            start_delay: self.cut.start_delay + measured.chain_delay + measured.record_delay,
            chain_delay: measured.chain_delay,
            record_delay: measured.record_delay,
            alignment: self.cut.alignment,
            sync: measured.sync,
            asynchronous: self.wrote(now),
            end_to_end: self.cut.barrier.age + now.since(self.begun_at),
            mode: Some(mode),
            ..rest
        }
    }

    fn wrote(&self, now: Nanos) -> Duration {
        now.since(self.cut_at)
    }
}
