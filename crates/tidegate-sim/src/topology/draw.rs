//! Draws a random job. Every part has a child seed of its own, so that a new kind of part leaves the others as they
//! were.

use super::item::Item;
use super::oracle::{self, Computed};
use super::plan::{Chaining, Edge, Input, Keyed, NodePlan, Op, Options, Plan, Port, SinkPlan, SourcePlan};
use crate::seed::{Rng, Seed};

/// Records that a stream may have, or a redrawn operator keeps them from it.
const MOST_RECORDS: u64 = 2_000;

/// How large a job may be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Operators at most.
    pub nodes: u64,
    /// Records of a source, at most.
    pub records: u64,
    /// The highest parallelism.
    pub parallelism: u64,
}

impl Default for Size {
    fn default() -> Self {
        Self {
            nodes: 7,
            records: 160,
            parallelism: 4,
        }
    }
}

struct Drawing {
    sources: Vec<SourcePlan>,
    nodes: Vec<NodePlan>,
    computed: Computed,
    unused: Vec<Port>,
    all: Vec<Port>,
}

/// Draws a job of at most this size.
pub fn draw(seed: Seed, size: Size) -> Plan {
    let mut rng = seed.child("shape").rng();
    let count = rng.pick(&[1, 1, 2, 2, 3]);
    let sources: Vec<SourcePlan> = (0..count)
        .map(|n| source(&mut seed.child("source").nth(n).rng(), size))
        .collect();
    let ports: Vec<Port> = (0..sources.len()).map(Port::Source).collect();
    let mut drawing = Drawing {
        computed: Computed::default(),
        nodes: Vec::new(),
        unused: ports.clone(),
        all: ports,
        sources,
    };
    for (at, source) in drawing.sources.iter().enumerate() {
        let items: Vec<Item> = source.items();
        drawing.computed.source(at, items);
    }
    let nodes = rng.range(1, size.nodes.max(1));
    for n in 0..nodes {
        drawing.add(&mut seed.child("node").nth(n).rng());
    }
    let sinks = drawing.sinks(&mut seed.child("sinks").rng());
    let (options, at_least_once) = options(&mut seed.child("options").rng());
    Plan {
        sources: drawing.sources,
        nodes: drawing.nodes,
        sinks,
        options,
        rescales: rng.chance(1, 2),
        widest: rng.pick(&[1, 2, 2, 3, 4]).min(size.parallelism),
        at_least_once,
    }
}

fn source(rng: &mut Rng, size: Size) -> SourcePlan {
    let most = size.records.max(2);
    SourcePlan {
        salt: rng.bits(),
        // Some end long before the others.
        count: rng.pick(&[most / 16, most / 3, most]).max(1),
        partitions: rng.pick(&[0, 1, 2, 3, 5]),
        gap_us: rng.pick(&[0, 0, 100, 2_000]),
        bound_ms: rng.pick(&[0, 5, 50]),
        idles: rng.chance(1, 4),
    }
}

impl Drawing {
    fn pick(&mut self, rng: &mut Rng) -> Input {
        let edges = [
            Edge::Free,
            Edge::Forward,
            Edge::Rebalance,
            Edge::Rescale,
            Edge::Custom,
        ];
        let edge = rng.pick(&edges);
        // Mostly what nobody consumes yet; now and then a stream gets a second consumer, which makes diamonds.
        let from = if !self.unused.is_empty() && rng.chance(3, 4) {
            let at = rng.index(self.unused.len());
            self.unused.swap_remove(at)
        } else {
            let from = rng.pick(&self.all);
            self.unused.retain(|p| *p != from);
            from
        };
        Input { from, edge }
    }

    fn inputs(&mut self, rng: &mut Rng) -> Vec<Input> {
        let mut inputs = vec![self.pick(rng)];
        if rng.chance(1, 4) {
            let other = self.pick(rng);
            if other.from != inputs[0].from {
                inputs.push(other);
            }
        }
        inputs
    }

    fn add(&mut self, rng: &mut Rng) {
        let op = op(rng);
        let first = self.inputs(rng);
        let two = matches!(op, Op::Both | Op::Join { .. });
        let mut node = NodePlan {
            second: if two { self.inputs(rng) } else { Vec::new() },
            op,
            salt: rng.bits() >> 8,
            first,
            chaining: rng.pick(&[Chaining::Free, Chaining::Free, Chaining::Starts, Chaining::Alone]),
            work_us: rng.pick(&[0, 0, 0, 50, 1_000]),
        };
        let at = self.nodes.len();
        let joins = |n: &NodePlan| matches!(n.op, Op::Join { .. });
        let crowded = joins(&node) && self.nodes.iter().filter(|n| joins(n)).count() >= 2;
        oracle::add(&mut self.computed, at, &node);
        if crowded || self.computed.records[&Port::Main(at)] > MOST_RECORDS {
            node.op = if two { Op::Both } else { Op::Filter { keep: 2 } };
            self.computed.streams.remove(&Port::Side(at));
            self.computed.seen.retain(|(node, _), _| *node != at);
            oracle::add(&mut self.computed, at, &node);
        }
        self.unused.push(Port::Main(at));
        self.all.push(Port::Main(at));
        if node.has_side() {
            self.unused.push(Port::Side(at));
            self.all.push(Port::Side(at));
        }
        self.nodes.push(node);
    }

    /// Whatever nobody consumes ends in a sink, and now and then something else does too.
    fn sinks(&mut self, rng: &mut Rng) -> Vec<SinkPlan> {
        let mut ends = self.unused.clone();
        if rng.chance(1, 4) {
            let also = rng.pick(&self.all);
            ends.push(also);
        }
        let sink = |from| SinkPlan {
            input: Input {
                from,
                edge: rng.pick(&[Edge::Free, Edge::Free, Edge::Rebalance]),
            },
            exact: rng.chance(4, 5),
        };
        ends.into_iter().map(sink).collect()
    }
}

fn op(rng: &mut Rng) -> Op {
    match rng.below(20) {
        0 | 1 => Op::Map {
            of: rng.pick(&[0, 0, 7, 40]),
        },
        2 => Op::Filter {
            keep: rng.range(1, 7),
        },
        3 | 4 => Op::FlatMap {
            most: rng.range(1, 3),
        },
        5 => Op::Divert,
        6 | 7 => Op::Share,
        8 => Op::Both,
        9 | 10 => Op::Join {
            keys: rng.pick(&[8, 40, 200]),
        },
        _ => Op::Keyed {
            what: keyed(rng),
            keys: rng.pick(&[1, 5, 60]),
            side: rng.chance(1, 5),
        },
    }
}

fn keyed(rng: &mut Rng) -> Keyed {
    match rng.below(8) {
        0 | 1 => Keyed::Buckets {
            width_ms: rng.pick(&[1, 10, 100]),
        },
        2 => Keyed::Distinct,
        3 => Keyed::Hold {
            delay_ms: rng.pick(&[0, 10, 200]),
        },
        4 => Keyed::HoldWall {
            delay_ms: rng.pick(&[0, 3, 50]),
        },
        5 => Keyed::Total,
        6 => Keyed::Aggregate,
        _ => Keyed::Portions {
            every: rng.range(1, 5),
        },
    }
}

/// Options, and whether records may come more than once.
fn options(rng: &mut Rng) -> (Options, bool) {
    let mode = rng.pick(&[
        "aligned",
        "unaligned",
        "unaligned",
        "adaptive",
        "adaptive",
        "at-least-once",
        "quiesce",
    ]);
    let drawn = rng.pick(&[1, 1, 2, 3]);
    let concurrent = if mode == "quiesce" { 1 } else { drawn };
    let min_pause = if concurrent == 1 {
        rng.pick(&["0 ms", "0 ms", "5 ms"])
    } else {
        "0 ms"
    };
    let mut options: Options = vec![
        ("execution.checkpointing.mode", mode.to_owned()),
        (
            "execution.checkpointing.interval",
            format!("{} ms", rng.range(10, 60)),
        ),
        (
            "execution.checkpointing.max-concurrent-checkpoints",
            concurrent.to_string(),
        ),
        ("execution.checkpointing.min-pause", min_pause.to_owned()),
        (
            "execution.checkpointing.timeout",
            rng.pick(&["10 min", "10 min", "1 s", "100 ms"]).to_owned(),
        ),
        (
            "execution.checkpointing.num-retained",
            rng.range(1, 3).to_string(),
        ),
        (
            "execution.checkpointing.data-inline-threshold",
            rng.pick(&["0 kb", "1 kb", "256 kb"]).to_owned(),
        ),
        (
            "task.gate.budget",
            rng.pick(&["fixed:2", "fixed:8", "100 ms"]).to_owned(),
        ),
        (
            "execution.buffer-timeout.interval",
            rng.pick(&["0 ms", "5 ms"]).to_owned(),
        ),
        (
            "pipeline.auto-watermark-interval",
            rng.pick(&["1 ms", "20 ms"]).to_owned(),
        ),
    ];
    if mode == "adaptive" {
        let timeout = rng.pick(&["0 ms", "3 ms", "50 ms"]).to_owned();
        options.push(("execution.checkpointing.aligned-checkpoint-timeout", timeout));
    }
    if mode == "quiesce" {
        options.push(("execution.checkpointing.quiesce-limit", "2 s".to_owned()));
    }
    (options, mode == "at-least-once")
}
