//! What the tests of barrier handling share.

pub mod subtask;

use std::time::Duration;

use tidegate_protocol::barrier::{BarrierAction, BarrierEvent, BarrierHandler, Cut};
use tidegate_types::{
    Barrier, ChannelIndex, CheckpointId, CheckpointKind, LeaderEpoch, Nanos, SavepointFormat, SnapshotMode,
};

pub const ADAPTIVE: SnapshotMode = SnapshotMode::Adaptive {
    timeout: Duration::from_secs(1),
};
pub const QUIESCE: SnapshotMode = SnapshotMode::Quiesce {
    limit: Duration::from_secs(30),
};

pub fn id(id: u64) -> CheckpointId {
    CheckpointId(id)
}

pub fn ch(channel: u32) -> ChannelIndex {
    ChannelIndex(channel)
}

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub fn at(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

/// A checkpoint's barrier, just triggered, with nothing decided below.
pub fn barrier(id: u64, mode: SnapshotMode) -> Barrier {
    Barrier {
        id: CheckpointId(id),
        oldest_pending: CheckpointId(1),
        kind: CheckpointKind::Checkpoint,
        mode,
        age: Duration::ZERO,
        epoch: LeaderEpoch(1),
        base: None,
    }
}

pub fn savepoint(id: u64, mode: SnapshotMode) -> Barrier {
    let kind = CheckpointKind::Savepoint {
        format: SavepointFormat::Canonical,
        stop: false,
    };
    Barrier {
        kind,
        ..barrier(id, mode)
    }
}

pub fn oldest(oldest: u64, barrier: Barrier) -> Barrier {
    Barrier {
        oldest_pending: CheckpointId(oldest),
        ..barrier
    }
}

/// The actions that one event leads to.
pub fn on(handler: &mut BarrierHandler, now: Nanos, event: BarrierEvent) -> Vec<BarrierAction> {
    let mut actions = Vec::new();
    handler.on_event(now, event, &mut actions);
    actions
}

pub fn cuts(actions: &[BarrierAction]) -> Vec<&Cut> {
    actions
        .iter()
        .filter_map(|a| {
            if let BarrierAction::Cut(cut) = a {
                Some(cut)
            } else {
                None
            }
        })
        .collect()
}

pub fn the_cut(actions: &[BarrierAction]) -> &Cut {
    let cuts = cuts(actions);
    assert_eq!(cuts.len(), 1, "one cut in {actions:?}");
    cuts[0]
}

/// Every order in which so many barriers per channel can come, each channel's own order kept.
pub fn orders(channels: usize, per_channel: usize) -> Vec<Vec<usize>> {
    fn go(left: &mut [usize], order: &mut Vec<usize>, out: &mut Vec<Vec<usize>>) {
        if left.iter().all(|l| *l == 0) {
            out.push(order.clone());
            return;
        }
        for channel in 0..left.len() {
            if left[channel] > 0 {
                left[channel] -= 1;
                order.push(channel);
                go(left, order, out);
                order.pop();
                left[channel] += 1;
            }
        }
    }
    let mut out = Vec::new();
    go(&mut vec![per_channel; channels], &mut Vec::new(), &mut out);
    out
}
