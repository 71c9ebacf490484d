//! Which small world is searched.

use std::time::Duration;

use tidegate_types::{
    Barrier, CheckpointId, CheckpointKind, EdgeKind, LeaderEpoch, SavepointFormat, SnapshotMode,
};

/// A checkpoint of the coordinator's plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// How it is taken.
    pub mode: SnapshotMode,
    /// Whether it is a savepoint.
    pub savepoint: bool,
    /// The lowest undecided id when it is triggered.
    pub oldest_pending: u64,
}

/// What may happen beside barriers being sent and elements being taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alphabet {
    /// Where records stand.
    pub records: Records,
    /// Where cancel markers come.
    pub cancels: Cancels,
    /// Producers leave out checkpoints of which they never heard.
    pub skips: bool,
    /// Channels end.
    pub ends: bool,
    /// Timeouts pass.
    pub timeouts: bool,
    /// The coordinator's aborts come by message.
    pub aborts: bool,
    /// Triggers come by message.
    pub triggers: bool,
    /// Barriers may have become unaligned upstream.
    pub upgrades: bool,
    /// Aborts and timeouts come even if the task is through with their checkpoint.
    pub strays: bool,
    /// Announcements are delivered late, instead of at once.
    pub late: bool,
}

/// Where records stand in a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Records {
    /// One at the beginning and one right behind each barrier, taken together with the barrier or end that follows.
    /// As telling as [`Self::UpToOne`], because a handler doesn't see records, with a fifth of the states.
    Fixed,
    /// None or one between barriers.
    UpToOne,
}

/// Where cancel markers come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancels {
    /// Nowhere.
    Never,
    /// In the place of a barrier, once all lower ones were sent.
    InPlace,
    /// Also ahead of lower barriers, and behind the barrier itself.
    Anywhere,
}

impl Alphabet {
    /// Everything but late announcements.
    pub const ALL: Self = Self {
        records: Records::Fixed,
        cancels: Cancels::Anywhere,
        skips: true,
        ends: true,
        timeouts: true,
        aborts: true,
        triggers: true,
        upgrades: true,
        strays: true,
        late: false,
    };

    /// Records and barriers alone.
    pub const BARRIERS: Self = Self {
        records: Records::Fixed,
        cancels: Cancels::Never,
        skips: false,
        ends: false,
        timeouts: false,
        aborts: false,
        triggers: false,
        upgrades: false,
        strays: false,
        late: false,
    };
}

/// One small world to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The task's channels.
    pub kinds: Vec<EdgeKind>,
    /// The checkpoints, from id 1.
    pub plans: Vec<Plan>,
    /// What may happen.
    pub alphabet: Alphabet,
}

impl Setup {
    /// The barrier of a checkpoint as the coordinator triggers it.
    pub fn barrier(&self, id: CheckpointId) -> Barrier {
        let plan = self.plans[id.0 as usize - 1];
        Barrier {
            id,
            oldest_pending: CheckpointId(plan.oldest_pending),
            kind: match plan.savepoint {
                true => CheckpointKind::Savepoint {
                    format: SavepointFormat::Canonical,
                    stop: false,
                },
                false => CheckpointKind::Checkpoint,
            },
            mode: plan.mode,
            age: Duration::ZERO,
            epoch: LeaderEpoch(1),
            base: None,
        }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = CheckpointId> + use<> {
        (1..=self.plans.len() as u64).map(CheckpointId)
    }

    /// Whether its barriers may have been made unaligned upstream: by their own timeout, or by a higher unaligned
    /// checkpoint.
    pub(super) fn may_upgrade(&self, id: CheckpointId) -> bool {
        let plan = self.plans[id.0 as usize - 1];
        match plan.mode {
            SnapshotMode::Adaptive { .. } => true,
            SnapshotMode::Aligned => {
                !plan.savepoint
                    && self.plans[id.0 as usize..].iter().any(|p| match p.mode {
                        SnapshotMode::Adaptive { .. } | SnapshotMode::Unaligned => true,
                        SnapshotMode::Aligned | SnapshotMode::AtLeastOnce | SnapshotMode::Quiesce { .. } => {
                            false
                        }
                    })
            }
            SnapshotMode::Unaligned | SnapshotMode::AtLeastOnce | SnapshotMode::Quiesce { .. } => false,
        }
    }
}
