//! The plan of a real graph.

use std::sync::Arc;

use tidegate_runtime::graph::{InputEdge, JobGraph, NodeId, OperatorNode, Spread, TypedOps};
use tidegate_types::{JobId, MaxParallelism, OperatorUid, Parallelism, VertexId};

use crate::jobs::{JobPlan, PlanInput, PlanVertex};

fn node(name: &str, inputs: &[(usize, Spread)]) -> OperatorNode {
    let inputs = inputs.iter().enumerate().map(|(slot, (from, spread))| InputEdge {
        from: NodeId(*from),
        side: None,
        spread: *spread,
        partitioner: Arc::new(()),
        slot,
    });
    OperatorNode {
        uid: OperatorUid::new(name),
        uid_given: true,
        name: name.into(),
        parallelism: Parallelism(2),
        stateful: false,
        starts_chain: false,
        ends_chain: false,
        inputs: inputs.collect(),
        make: Arc::new(|_, _| Err("a plan is never run".into())),
        ops: TypedOps::<u64>::shared(),
        side_ops: Vec::new(),
        source: None,
        sink: None,
        notes: Vec::new(),
    }
}

#[test]
fn edges_between_chains_are_shown_and_those_inside_are_not() {
    let nodes = vec![
        node("numbers", &[]),
        node("rules", &[]),
        node("parse", &[(0, Spread::Forward)]),
        node("match", &[(2, Spread::Hash), (1, Spread::Broadcast)]),
        node("print", &[(3, Spread::Forward)]),
    ];
    let graph = JobGraph::new(JobId::from("job"), "job".into(), MaxParallelism(64), nodes, true);
    let input = |from, ship_strategy, kind: &str| PlanInput {
        from: VertexId(from),
        ship_strategy,
        kind: kind.to_owned(),
    };
    assert_eq!(
        JobPlan::of(&graph),
        JobPlan {
            max_parallelism: 64,
            vertices: vec![
                PlanVertex::default(),
                PlanVertex::default(),
                PlanVertex {
                    inputs: vec![input(0, "HASH", "normal"), input(1, "BROADCAST", "sealed")]
                },
            ],
        }
    );
}
