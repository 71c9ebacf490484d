//! Checker: a task that comes to its end holds no channel blocked and waits for no barrier.

use tidegate_protocol::barrier::BarrierHandler;
use tidegate_runtime::task::{Task, TaskStatus};
use tidegate_types::ChannelIndex;

/// What is wrong with a task whose last step was "finished".
pub fn left_blocked(task: &Task, status: TaskStatus) -> Option<String> {
    if status != TaskStatus::Finished {
        return None; // Given up in the middle of things.
    }
    let channels = task.body().kinds().len();
    judge(task.barriers(), channels).map(|problem| format!("task {} finished and {problem}", task.id()))
}

fn judge(barriers: &BarrierHandler, channels: usize) -> Option<String> {
    let blocked: Vec<usize> = (0..channels)
        .filter(|c| barriers.is_blocked(ChannelIndex(*c as u32)))
        .collect();
    if !blocked.is_empty() {
        return Some(format!("channels {blocked:?} are blocked"));
    }
    let waiting: Vec<u64> = barriers
        .pending()
        .filter(|id| barriers.is_collecting(*id))
        .map(|id| id.0)
        .collect();
    (!waiting.is_empty()).then(|| format!("barriers of {waiting:?} are waited for"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_protocol::barrier::BarrierEvent;
    use tidegate_types::{Barrier, CheckpointId, CheckpointKind, EdgeKind, LeaderEpoch, Nanos, SnapshotMode};

    use super::*;

    #[test]
    fn a_channel_that_stays_blocked_is_told() {
        let mut barriers = BarrierHandler::new(vec![EdgeKind::Normal, EdgeKind::Normal]);
        assert_eq!(judge(&barriers, 2), None);
        let barrier = Barrier {
            id: CheckpointId(1),
            oldest_pending: CheckpointId(1),
            kind: CheckpointKind::Checkpoint,
            mode: SnapshotMode::Aligned,
            age: Duration::ZERO,
            epoch: LeaderEpoch(1),
            base: None,
        };
        barriers.on_event(
            Nanos(0),
            BarrierEvent::Barrier(ChannelIndex(0), barrier),
            &mut Vec::new(),
        );
        assert_eq!(judge(&barriers, 2).as_deref(), Some("channels [0] are blocked"));
    }
}
