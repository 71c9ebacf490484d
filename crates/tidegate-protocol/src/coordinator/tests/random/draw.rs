//! Graphs and settings by chance.

use tidegate_types::{Parallelism, SnapshotMode, SubtaskId, SubtaskIndex};

use super::super::rig::{edge, ms, vertex};
use super::rng::Rng;
use crate::coordinator::*;

/// Who has a channel to whom, as (producer, consumer).
pub(super) fn channels(plan: &Plan) -> Vec<(SubtaskId, SubtaskId)> {
    let parallelism = |id| {
        let found = plan.vertices().iter().find(|vertex| vertex.id == id);
        found.map_or(Parallelism(0), |vertex| vertex.parallelism)
    };
    let mut channels = Vec::new();
    for edge in plan.edges() {
        let (from, to) = (parallelism(edge.from), parallelism(edge.to));
        for consumer in 0..to.0 {
            let producers = match edge.pattern {
                EdgePattern::AllToAll => 0..from.0,
                EdgePattern::Pointwise => pointwise_producers(SubtaskIndex(consumer), from, to),
            };
            let consumer = SubtaskId::new(edge.to, SubtaskIndex(consumer));
            channels.extend(producers.map(|p| (SubtaskId::new(edge.from, SubtaskIndex(p)), consumer)));
        }
    }
    channels
}

pub(super) fn draw_plan(rng: &mut Rng) -> Plan {
    let p = |rng: &mut Rng| 1 + rng.below(3) as u32;
    let pattern = |rng: &mut Rng| rng.pick(&[EdgePattern::AllToAll, EdgePattern::Pointwise]);
    let (vertices, pairs): (u32, &[(u32, u32)]) = rng.pick(&[
        (1, &[][..]),
        (2, &[(0, 1)][..]),
        (3, &[(0, 1), (1, 2)][..]),
        (3, &[(0, 2), (1, 2)][..]),
        (4, &[(0, 1), (2, 3)][..]),
        (4, &[(0, 1), (0, 2), (1, 3), (2, 3)][..]),
        (5, &[(0, 1), (1, 2), (3, 4)][..]),
    ]);
    let vertices = (0..vertices).map(|v| vertex(v, "v", p(rng))).collect();
    let edges = pairs
        .iter()
        .map(|(from, to)| edge(*from, *to, pattern(rng)))
        .collect();
    Plan::new(vertices, edges).expect("the shapes are graphs")
}

pub(super) fn draw_settings(rng: &mut Rng) -> CoordinatorSettings {
    let max_concurrent = rng.pick(&[1, 1, 2, 3]);
    let min_pause = if max_concurrent == 1 {
        rng.pick(&[0, 0, 700])
    } else {
        0
    };
    CoordinatorSettings {
        interval: rng.pick(&[Some(ms(1000)), Some(ms(1000)), Some(ms(100)), None]),
        timeout: ms(rng.pick(&[50, 2000, 60_000])),
        min_pause: ms(min_pause),
        max_concurrent,
        tolerable_failures: rng.pick(&[0, 3, u32::MAX, u32::MAX]),
        mode: rng.pick(&[
            SnapshotMode::Aligned,
            SnapshotMode::Unaligned,
            SnapshotMode::Adaptive { timeout: ms(50) },
            SnapshotMode::AtLeastOnce,
            SnapshotMode::Quiesce { limit: ms(500) },
        ]),
        num_retained: rng.pick(&[1, 1, 3]),
        after_tasks_finish: !rng.one_in(5),
        storage: true,
        history_size: 10,
        trace: rng.one_in(4),
    }
}
