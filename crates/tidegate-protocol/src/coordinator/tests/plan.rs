use std::collections::BTreeSet;

use tidegate_types::{EdgeKind, Parallelism, SubtaskIndex, VertexId};

use super::rig::{edge, last_state, line, sub, vertex};
use crate::coordinator::tasks::{TaskState, Tasks};
use crate::coordinator::{EdgePattern, Plan, PlanEdge, PlanError, pointwise_producers};

#[test]
fn graphs_that_cannot_be_checkpointed_are_refused() {
    let all = EdgePattern::AllToAll;
    assert_eq!(Plan::new(vec![], vec![]), Err(PlanError::Empty));
    let twice = vec![vertex(0, "a", 1), vertex(0, "b", 1)];
    assert_eq!(
        Plan::new(twice, vec![]),
        Err(PlanError::DuplicateVertex(VertexId(0)))
    );
    assert_eq!(
        Plan::new(vec![vertex(0, "a", 0)], vec![]),
        Err(PlanError::NoSubtasks(VertexId(0)))
    );
    let nowhere = Plan::new(vec![vertex(0, "a", 1)], vec![edge(0, 9, all)]);
    assert_eq!(nowhere, Err(PlanError::UnknownVertex(VertexId(9))));
    let vertices = || vec![vertex(0, "a", 1), vertex(1, "b", 1), vertex(2, "c", 1)];
    let cycle = vec![edge(0, 1, all), edge(1, 2, all), edge(2, 1, all)];
    assert_eq!(Plan::new(vertices(), cycle), Err(PlanError::Cycle(VertexId(1))));
    let back = PlanEdge {
        kind: EdgeKind::Feedback,
        ..edge(2, 1, all)
    };
    let loops =
        Plan::new(vertices(), vec![edge(0, 1, all), edge(1, 2, all), back]).expect("feedback closes loops");
    assert!(loops.is_source(VertexId(0)) && !loops.is_source(VertexId(1)));
}

#[test]
fn pointwise_edges_reach_every_consumer_and_no_producer_is_left_out() {
    for producers in 1..12 {
        for consumers in 1..12 {
            let of = |c| pointwise_producers(SubtaskIndex(c), Parallelism(producers), Parallelism(consumers));
            let mut reached = BTreeSet::new();
            for c in 0..consumers {
                let range = of(c);
                assert!(
                    !range.is_empty() && range.end <= producers,
                    "{producers} -> {c}/{consumers}"
                );
                if producers >= consumers {
                    assert!(
                        range.clone().all(|p| reached.insert(p)),
                        "a producer has two consumers"
                    );
                } else {
                    assert_eq!(range.len(), 1, "a consumer has two producers");
                    reached.extend(range);
                }
            }
            assert_eq!(reached.len() as u32, producers, "{producers} -> {consumers}");
            if producers == consumers {
                assert!((0..consumers).all(|c| of(c) == (c..c + 1)), "forward is i to i");
            }
        }
    }
}

#[test]
fn starters_are_those_without_a_producer_that_can_still_send_a_barrier() {
    let mut tasks = Tasks::new(line());
    let all: BTreeSet<_> = tasks.unfinished().into_iter().collect();
    let starters = |tasks: &Tasks| tasks.starters(&all).collect::<Vec<_>>();
    assert_eq!(starters(&tasks), [sub(0, 0), sub(0, 1)]);
    tasks.set(sub(0, 0), TaskState::Finished(last_state(sub(0, 0))));
    assert_eq!(
        starters(&tasks),
        [sub(0, 0), sub(0, 1)],
        "a hashed consumer has another producer"
    );
    tasks.set(sub(0, 1), TaskState::Finished(last_state(sub(0, 1))));
    assert_eq!(starters(&tasks), [sub(0, 0), sub(0, 1), sub(1, 0), sub(1, 1)]);
    tasks.set(sub(1, 1), TaskState::Finished(last_state(sub(1, 1))));
    assert!(
        starters(&tasks).contains(&sub(2, 1)) && !starters(&tasks).contains(&sub(2, 0)),
        "forward is i to i"
    );
}
