//! C4, unaligned rescale: source (2) → filter (2) → forward → map → hash → keyed sum (3), with records in every
//! channel at the snapshot; the sum restored at 2, 5 and 7, the filter at 1 and 3. The edge before the filter is a
//! hash, a rebalance, a rescale or a stable partitioner; a broadcast has a topology of its own.

use tidegate::prelude::*;
use tidegate_runtime::operators::FunctionContext;
use tidegate_sim::log::{LogSink, Topic};
use tidegate_sim::process::Job;

use crate::kit::{Feed, Probe, Sum, World, configure, ids_and_sums, is_owner, job_of, sums};

const KEYS: u64 = 23;
const RECORDS: u64 = 600;

/// How records come to the filter.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Edge {
    Hash,
    Rebalance,
    Rescale,
    Stable,
}

/// Parallelism of filter (and map) and of the sum.
type Shape = (u32, u32);

/// A filter on a hash edge: no state, but its records are owned by key all the same.
struct Keep {
    place: Option<FunctionContext>,
    tools: tidegate_sim::scenario::Tools,
}

impl ProcessFunction<u64, u64, u64> for Keep {
    fn open(&mut self, cx: &FunctionContext) -> Result<(), BoxError> {
        self.place = Some(cx.clone());
        Ok(())
    }

    fn process(&mut self, value: u64, cx: &mut ProcessContext<'_, u64, u64>) -> Result<(), BoxError> {
        if self.place.as_ref().is_some_and(|p| !is_owner(*cx.key(), p)) {
            self.tools
                .violations
                .note(format!("{value} was filtered by who doesn't own it"));
        }
        if keeps(&value) {
            cx.collect(value);
        }
        Ok(())
    }
}

fn keeps(value: &u64) -> bool {
    value % 10 != 9
}

struct Case {
    edge: Edge,
    feed: Feed<u64>,
    topic: Topic<(String, u64)>,
    probe: Probe,
}

impl Case {
    fn job(&self, world: &World, (filters, sums): Shape) -> Job {
        let mut env = Environment::new("rescale");
        configure(
            &mut env,
            &[
                ("execution.checkpointing.mode", "unaligned"),
                ("task.gate.budget", "fixed:16"),
                ("parallelism.default", "2"),
            ],
        );
        let source = env.source("source", self.feed.clone()).uid("source");
        let keep = |stream: Stream<u64>| stream.filter("filter", keeps).uid("filter").parallelism(filters);
        let (tools, for_sum, probe) = (world.tools.clone(), world.tools.clone(), self.probe.clone());
        let filtered = match self.edge {
            Edge::Hash => source
                .key_by(|n: &u64| *n)
                .process("filter", move || Keep {
                    place: None,
                    tools: tools.clone(),
                })
                .uid("filter")
                .parallelism(filters),
            Edge::Rebalance => keep(source.rebalance()),
            Edge::Rescale => keep(source.rescale()),
            Edge::Stable => keep(source.partition_stable(|n, consumers| (*n % u64::from(consumers)) as u32)),
        };
        let _sink = filtered
            .forward()
            .map("map", |n| n)
            .uid("map")
            .parallelism(filters)
            .start_new_chain()
            .key_by(|n: &u64| n % KEYS)
            .process("sum", move || Sum::new(&for_sum, &probe))
            .uid("sum")
            .parallelism(sums)
            .sink("out", LogSink::new(self.topic.clone()))
            .uid("out")
            .parallelism(sums);
        job_of(&env)
    }

    /// Runs until every channel is full, and takes a checkpoint that has all of that in flight.
    fn fill_and_cut(&self, world: &mut World) {
        world.run(self.job(world, (2, 3)));
        world.hold("sum");
        world.turns(4_000);
        let (request, id) = world.begin();
        world.until("everybody before the sum has cut", |w| {
            w.ids("map").iter().all(|m| w.has_acked(id, *m))
        });
        world.release("sum");
        world.until("the checkpoint is complete", |w| w.answer(request).is_some());
        let stats = world.newest_complete().expect("it is complete");
        for uid in ["filter", "map", "sum"] {
            let channels = world.in_flight(&stats, uid).len();
            let all = match (uid, self.edge) {
                ("map", _) | ("filter", Edge::Rescale) => 2,
                ("filter", _) => 4,
                _ => 6,
            };
            assert_eq!(
                channels, all,
                "the case wants records in every channel before `{uid}`"
            );
        }
        world.crash();
    }
}

fn case(edge: Edge, seed: u64) -> (World, Case) {
    let world = World::new(seed);
    let expected = ids_and_sums((0..RECORDS).filter(keeps), KEYS);
    let topic = world.topic("out", expected);
    let feed = Feed::new(2);
    match edge {
        // Both partitions have records for both filters.
        Edge::Stable => (0..RECORDS).for_each(|n| feed.append(n as u32 / 2 % 2, [n])),
        _ => feed.deal(0..RECORDS),
    }
    (
        world,
        Case {
            edge,
            feed,
            topic,
            probe: Probe::default(),
        },
    )
}

const EDGES: [Edge; 4] = [Edge::Hash, Edge::Rebalance, Edge::Rescale, Edge::Stable];
const SHAPES: [Shape; 7] = [(2, 2), (2, 5), (2, 7), (1, 3), (3, 3), (1, 7), (3, 5)];

#[test]
fn sums_are_right_at_every_parallelism() {
    for edge in EDGES {
        for (seed, shape) in (0..).zip(SHAPES) {
            let (mut world, case) = case(edge, seed);
            case.fill_and_cut(&mut world);
            case.feed.end_all();
            let job = case.job(&world, shape);
            world.run(job);
            world.finish(&case.topic);
        }
    }
}

#[test]
fn sums_are_right_after_a_crash_in_the_middle_of_recovery() {
    for edge in EDGES {
        for (seed, shape) in (100..).zip(SHAPES) {
            let (mut world, case) = case(edge, seed);
            case.fill_and_cut(&mut world);
            case.probe.reset();
            let job = case.job(&world, shape);
            world.run(job);
            world.until("some restored records are through", |_| {
                case.probe.seen() >= 3 + seed % 7
            });
            world.crash();

            case.feed.end_all();
            let job = case.job(&world, SHAPES[(seed % 7) as usize]);
            world.run(job);
            world.finish(&case.topic);
        }
    }
}

/// A second checkpoint holds what is left of the first one's in-flight records, under their old addresses, and new ones
/// behind them; a third parallelism gets both in order.
#[test]
fn sums_are_right_after_a_checkpoint_and_a_crash_in_the_middle_of_recovery() {
    for edge in EDGES {
        for (seed, shape) in (200..).zip(SHAPES) {
            let (mut world, case) = case(edge, seed);
            case.fill_and_cut(&mut world);
            for again in 0..2 {
                case.probe.reset();
                let job = case.job(&world, SHAPES[(seed as usize + 3 * again) % 7]);
                world.run(job);
                world.hold("sum");
                world.turns(1_500);
                world.release("sum");
                world.until("some restored records are through", |_| {
                    case.probe.seen() > seed % 5
                });
                let stats = world.checkpoint();
                assert!(
                    !world.in_flight(&stats, "sum").is_empty(),
                    "the case wants restored records left"
                );
                world.crash();
            }
            case.feed.end_all();
            let job = case.job(&world, shape);
            world.run(job);
            world.finish(&case.topic);
        }
    }
}

/// Rules are broadcast into an operator that keeps them in broadcast state; each of its subtasks must see each rule
/// once, in order, whatever was restored at which parallelism. They come in on one input, as they would of a union.
#[derive(Default)]
struct Rules {
    tools: Option<tidegate_sim::scenario::Tools>,
    seen: BroadcastState<u64, u64>,
}

const RULE: u64 = 1_000_000;

impl ProcessFunction<(), u64, u64> for Rules {
    fn state(&mut self, states: &mut States<'_, ()>) {
        states.broadcast("rules", &mut self.seen);
    }

    fn process(&mut self, value: u64, cx: &mut ProcessContext<'_, (), u64>) -> Result<(), BoxError> {
        if value < RULE {
            cx.collect(value);
            return Ok(());
        }
        let next = self.seen.len() as u64;
        if value - RULE != next
            && let Some(tools) = &self.tools
        {
            let rule = value - RULE;
            tools
                .violations
                .note(format!("rule {rule} came where {next} was due"));
        }
        self.seen.insert(value, next);
        Ok(())
    }
}

fn rules_job(
    feeds: &[Feed<u64>; 2],
    world: &World,
    topic: &Topic<(String, u64)>,
    (mixers, sums): Shape,
) -> Job {
    let mut env = Environment::new("rules");
    configure(
        &mut env,
        &[
            ("execution.checkpointing.mode", "unaligned"),
            ("task.gate.budget", "fixed:6"),
            ("parallelism.default", "2"),
        ],
    );
    let tools = world.tools.clone();
    let for_sum = world.tools.clone();
    let rules = env.source("rules", feeds[1].clone()).uid("rules").parallelism(1);
    let _sink = env
        .source("source", feeds[0].clone())
        .uid("source")
        .rebalance()
        .union(&[&rules.broadcast()])
        .process("mix", move || Rules {
            tools: Some(tools.clone()),
            seen: BroadcastState::default(),
        })
        .uid("mix")
        .parallelism(mixers)
        .key_by(|n: &u64| n % KEYS)
        .process("sum", move || Sum::silent(&for_sum, &Probe::default()))
        .uid("sum")
        .parallelism(sums)
        .sink("out", LogSink::new(topic.clone()))
        .uid("out")
        .parallelism(1);
    job_of(&env)
}

#[test]
fn a_broadcast_reaches_each_subtask_once_across_rescales() {
    for (seed, shape) in (0..).zip(SHAPES) {
        let mut world = World::new(seed);
        let topic = world.topic("out", sums(0..RECORDS, KEYS));
        let feeds = [Feed::new(2), Feed::new(1)];
        feeds[0].deal(0..RECORDS);
        feeds[1].append(0, (0..60).map(|n| RULE + n));
        let job = rules_job(&feeds, &world, &topic, (2, 3));
        world.run(job);
        world.hold("sum");
        world.turns(3_000);
        let (request, id) = world.begin();
        // The sum goes on slowly: the mix must get through to the rules' barrier.
        while !world.ids("mix").iter().all(|m| world.has_acked(id, *m)) {
            world.turns(20);
            for sum in world.ids("sum") {
                world.sim.step_task(sum, 1);
            }
        }
        world.release("sum");
        world.until("the checkpoint is complete", |w| w.answer(request).is_some());
        let stats = world.newest_complete().expect("it is complete");
        let mixed = world.in_flight(&stats, "mix");
        assert!(mixed.keys().all(|(input, ..)| *input == 0), "{mixed:?}");
        assert!(!world.in_flight(&stats, "sum").is_empty());
        world.crash();

        // A crash in the middle of the recovery, too, and a checkpoint of it at yet another parallelism.
        let job = rules_job(&feeds, &world, &topic, SHAPES[(seed as usize + 2) % 7]);
        world.run(job);
        world.turns(60);
        world.checkpoint();
        world.crash();

        feeds.iter().for_each(Feed::end_all);
        let job = rules_job(&feeds, &world, &topic, shape);
        world.run(job);
        world.finish(&topic);
    }
}
