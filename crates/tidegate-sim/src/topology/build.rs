//! Builds a plan's dataflow for one process.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::prelude::*;
use tidegate_runtime::master::RestoreChoice;

use super::item::{Item, mix};
use super::job::Outside;
use super::keyed::{Buckets, Common, Distinct, Hold, Join, Portions, Share, Total, side_tag};
use super::plan::{Chaining, Edge, Input, Keyed, NodePlan, Op, Plan, Port, SourcePlan, key_of};
use super::stateless;
use super::watch::Watch;
use crate::log::{LogSink, LogSource};
use crate::process::Job;
use crate::seed::{Rng, Seed};

/// A sink's uid.
pub fn sink_uid(at: usize) -> String {
    format!("sink-{at}")
}

/// The uid of the sink that keeps what a source emitted.
pub fn raw_uid(at: usize) -> String {
    format!("raw-{at}")
}

/// An operator's uid.
pub fn node_uid(at: usize) -> String {
    format!("node-{at}")
}

struct Building<'a> {
    plan: &'a Plan,
    outside: &'a Outside,
    rng: Rng,
    env: Environment,
    streams: BTreeMap<Port, Stream<Item>>,
    widths: BTreeMap<Port, u32>,
}

/// Builds the job. Where it may change from start to start, `start` says how.
pub fn build(plan: &Plan, outside: &Outside, start: Seed) -> Job {
    let seed = if plan.rescales { start } else { Seed(0) };
    let mut env = Environment::new("job");
    let configuration = env.configuration();
    for (key, value) in &plan.options {
        configuration.set_text(key, value);
    }
    configuration
        .set_text("execution.checkpointing.tolerable-failed-checkpoints", "100000")
        .set_text("execution.checkpointing.savepoint-dir", crate::sim::SAVEPOINTS)
        .set_text("restart-strategy.type", "fixed-delay")
        .set_text("restart-strategy.fixed-delay.attempts", "infinite")
        .set_text("restart-strategy.fixed-delay.delay", "10 ms");
    let mut building = Building {
        plan,
        outside,
        rng: seed.child("widths").rng(),
        env,
        streams: BTreeMap::new(),
        widths: BTreeMap::new(),
    };
    for (at, source) in plan.sources.iter().enumerate() {
        building.source(at, source);
    }
    for (at, node) in plan.nodes.iter().enumerate() {
        building.node(at, node);
    }
    building.sinks();
    let (graph, settings) = building
        .env
        .build()
        .unwrap_or_else(|errors| panic!("a drawn job builds: {errors}"))
        .into_parts();
    Job {
        graph,
        settings,
        restore: RestoreChoice::Latest,
    }
}

impl Building<'_> {
    fn width(&mut self) -> u32 {
        self.rng.range(1, self.plan.widest.max(1)) as u32
    }

    fn source(&mut self, at: usize, source: &SourcePlan) {
        let (items, width) = (source.items(), self.width());
        let uid = format!("source-{at}");
        let gap = Duration::from_micros(source.gap_us);
        let stream = match source.partitions {
            0 => self
                .env
                .source(&uid, CollectionSource::new(items).with_split_size(23)),
            n => self.env.source(&uid, LogSource::new(&items, n, gap)),
        };
        let mut strategy =
            WatermarkStrategy::bounded_out_of_orderness(Duration::from_millis(source.bound_ms));
        if source.idles {
            strategy = strategy.with_idleness(Duration::from_millis(2));
        }
        let stream = stream
            .uid(&uid)
            .parallelism(width)
            .assign_timestamps(&format!("times-{at}"), strategy, |item: &Item| item.at)
            .uid(&format!("times-{at}"))
            .parallelism(width);
        if let Some(raw) = self.outside.raw.get(at) {
            let name = raw_uid(at);
            let _sink = stream
                .sink(&name, LogSink::new(raw.clone()))
                .uid(&name)
                .parallelism(width);
        }
        self.put(Port::Source(at), stream, width);
    }

    fn put(&mut self, port: Port, stream: Stream<Item>, width: u32) {
        self.streams.insert(port, stream);
        self.widths.insert(port, width);
    }

    /// The input's stream, to be consumed by so many subtasks.
    fn spread(&self, input: Input, width: u32) -> Stream<Item> {
        let stream = &self.streams[&input.from];
        match input.edge {
            Edge::Forward if self.widths[&input.from] == width => stream.forward(),
            Edge::Free | Edge::Forward => stream.clone(),
            Edge::Rebalance => stream.rebalance(),
            Edge::Rescale => stream.rescale(),
            Edge::Custom => stream.partition_stable(|item, of| (mix(item.tag, 77) % u64::from(of)) as u32),
        }
    }

    fn united(&self, inputs: &[Input], width: u32) -> Stream<Item> {
        let mut streams = inputs.iter().map(|i| self.spread(*i, width));
        let first = streams.next().expect("every operator has an input");
        let others: Vec<Stream<Item>> = streams.collect();
        first.union(&others.iter().collect::<Vec<_>>())
    }

    fn node(&mut self, at: usize, node: &NodePlan) {
        let width = self.width();
        let uid = node_uid(at);
        let tools = &self.outside.tools;
        let work = Duration::from_micros(node.work_us);
        let watch = Watch::new(tools, &self.outside.states, &uid, work);
        let first = self.united(&node.first, width);
        let (main, side) = self.operator(node, &uid, &first, width, watch);
        let chaining = if self.plan.rescales && self.rng.chance(1, 4) {
            Chaining::Free
        } else {
            node.chaining
        };
        let main = main.uid(&uid).parallelism(width);
        let main = match chaining {
            Chaining::Free => main,
            Chaining::Starts => main.start_new_chain(),
            Chaining::Alone => main.disable_chaining(),
        };
        if let Some(side) = side {
            self.put(Port::Side(at), side, width);
        }
        self.put(Port::Main(at), main, width);
    }

    fn operator(
        &self,
        node: &NodePlan,
        uid: &str,
        first: &Stream<Item>,
        width: u32,
        watch: Watch,
    ) -> (Stream<Item>, Option<Stream<Item>>) {
        let salt = node.salt;
        let main = match node.op {
            Op::Map { of } => first.try_map(uid, move |item| {
                watch.record().map(|()| stateless::map(salt, of, &item))
            }),
            Op::Filter { keep } => first.filter(uid, move |item| stateless::keeps(salt, keep, item)),
            Op::FlatMap { most } => first.flat_map(uid, move |item| stateless::spread(salt, most, &item)),
            Op::Divert => {
                let (good, bad) = divert(first, uid, salt);
                let bad = bad.map(&format!("{uid}-side"), |(item, _)| item);
                let bad = bad.uid(&format!("{uid}-side")).parallelism(width);
                return (good, Some(bad));
            }
            Op::Share => first.broadcast().process(uid, move || Share::new(salt)),
            Op::Both => first.connect(&self.united(&node.second, width)).map(
                uid,
                move |item| stateless::map(salt, 0, &item),
                move |item| stateless::map(salt + 1, 0, &item),
            ),
            Op::Keyed { what, keys, side } => {
                let stream = keyed(
                    first,
                    uid,
                    what,
                    move |item| key_of(salt, item, keys),
                    move || Common::new(&watch, salt, side),
                );
                let aside = side.then(|| stream.side_output(&side_tag()));
                return (stream, aside);
            }
            Op::Join { keys } => {
                let key = move |item: &Item| key_of(salt, item, keys);
                let second = self.united(&node.second, width);
                first
                    .key_by(key)
                    .connect(&second.key_by(key))
                    .process(uid, move || Join::new(Common::new(&watch, salt, false)))
            }
        };
        (main, None)
    }

    fn sinks(&mut self) {
        for (at, sink) in self.plan.sinks.iter().enumerate() {
            let width = self.rng.range(1, self.plan.widest.max(1)) as u32;
            let stream = self.spread(sink.input, width);
            let uid = sink_uid(at);
            let topic = self.outside.topics[at].clone();
            let handle = if sink.exact {
                stream.sink(&uid, LogSink::new(topic))
            } else {
                stream.for_each(&uid, move |item| topic.show(&item))
            };
            let _sink = handle.uid(&uid).parallelism(width);
        }
    }
}

fn divert(stream: &Stream<Item>, uid: &str, salt: u64) -> (Stream<Item>, Stream<(Item, String)>) {
    stream.try_map_or_side(uid, move |item: Item| {
        if stateless::diverts(salt, &item) {
            Err("diverted".to_owned())
        } else {
            Ok(item)
        }
    })
}

fn keyed(
    stream: &Stream<Item>,
    uid: &str,
    what: Keyed,
    key: impl Fn(&Item) -> u64 + Send + Sync + 'static,
    common: impl Fn() -> Common + Send + Sync + 'static,
) -> Stream<Item> {
    let keyed = stream.key_by(key);
    match what {
        Keyed::Buckets { width_ms } => keyed.process(uid, move || Buckets::new(common(), width_ms)),
        Keyed::Distinct => keyed.process(uid, move || Distinct::new(common())),
        Keyed::Hold { delay_ms } => keyed.process(uid, move || Hold::new(common(), delay_ms, false)),
        Keyed::HoldWall { delay_ms } => keyed.process(uid, move || Hold::new(common(), delay_ms, true)),
        Keyed::Total => keyed.process(uid, move || Total::new(common(), false)),
        Keyed::Aggregate => keyed.process(uid, move || Total::new(common(), true)),
        Keyed::Portions { every } => keyed.process(uid, move || Portions::new(common(), every)),
    }
}
