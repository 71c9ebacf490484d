//! The scenario of a random job: its plan, the topics it writes, and what must be in them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use super::build::{build, node_uid, raw_uid, sink_uid};
use super::draw::{Size, draw};
use super::item::Item;
use super::oracle::{Computed, compute};
use super::plan::Plan;
use crate::checks::commits::Witness;
use crate::checks::state::StateCheck;
use crate::log::{Expected, Topic};
use crate::process::Job;
use crate::scenario::{Scenario, Tools};
use crate::seed::{Rng, Seed};

/// What outlives a job's processes.
pub struct Outside {
    /// What user code may use.
    pub tools: Tools,
    /// One topic per sink.
    pub topics: Vec<Topic<Item>>,
    /// One topic per source, of what it emitted; none unless the job may be drained.
    pub raw: Vec<Topic<Item>>,
    /// What keyed state must come to.
    pub states: StateCheck,
}

/// A random job.
pub struct RandomJob {
    plan: Plan,
    outside: Outside,
    burst: u64,
    cut_short: AtomicBool,
}

impl RandomJob {
    /// Draws one. Some keep what their sources emitted, so that their end is known when they are cut short.
    pub fn draw(rng: &mut Rng, size: Size, tools: Tools) -> Self {
        let seed = Seed(rng.bits());
        let plan = draw(seed, size);
        // With at-least-once a snapshot may hold an operator at its end and its source before that. When the job isn't
        // drained again after a restore, what the source reads then is lost: nothing that could be promised.
        let drains = seed.child("drains").rng().chance(1, 6) && !plan.at_least_once;
        Self::new(plan, drains, tools)
    }

    /// The job of a plan. With `drains` it may be cut short.
    pub fn new(plan: Plan, drains: bool, tools: Tools) -> Self {
        let sources: Vec<Vec<Item>> = plan.sources.iter().map(|s| s.items()).collect();
        let computed = compute(&plan, sources.clone());
        let topic = |uid: String, records: Vec<Item>, exact: bool| {
            let expected = if exact && !plan.at_least_once {
                Expected::Exactly(records)
            } else {
                Expected::AtLeast(records)
            };
            Topic::new(&uid, expected, tools.faults.clone(), tools.violations.clone())
        };
        let sinks = plan.sinks.iter().enumerate();
        let topics = sinks
            .map(|(at, sink)| {
                topic(
                    sink_uid(at),
                    computed.stream(sink.input.from).to_vec(),
                    sink.exact,
                )
            })
            .collect();
        let raw = if drains { sources } else { Vec::new() };
        let raw = raw.into_iter().enumerate();
        let raw = raw.map(|(at, items)| topic(raw_uid(at), items, true)).collect();
        let states = StateCheck::new(
            computed
                .seen
                .iter()
                .map(|((node, key), n)| ((node_uid(*node), *key), *n)),
        );
        if plan.at_least_once {
            states.turn_off();
        }
        Self {
            burst: computed.burst,
            outside: Outside {
                topics,
                raw,
                states,
                tools,
            },
            plan,
            cut_short: AtomicBool::new(false),
        }
    }

    /// What must come of it if its sources emitted no more than is committed of them.
    fn computed_from_raw(&self) -> Computed {
        let emitted = |at: usize| {
            let committed: BTreeMap<u64, i64> = self.outside.raw[at].committed();
            let tags: BTreeSet<u64> = committed.into_keys().collect();
            let items = self.plan.sources[at].items().into_iter();
            items.filter(|i| tags.contains(&i.tag)).collect()
        };
        let sources = (0..self.plan.sources.len()).map(emitted).collect();
        compute(&self.plan, sources)
    }
}

impl Scenario for RandomJob {
    fn describe(&self) -> String {
        format!("a random job{}", self.plan)
    }

    fn build(&self, start: Seed) -> Job {
        build(&self.plan, &self.outside, start)
    }

    fn set_witness(&self, witness: Witness) {
        for topic in self.outside.topics.iter().chain(&self.outside.raw) {
            topic.set_witness(witness.clone());
        }
    }

    fn problems(&self) -> Vec<String> {
        if !self.cut_short.load(Ordering::Relaxed) {
            let topics = self.outside.topics.iter().chain(&self.outside.raw);
            let mut problems: Vec<String> = topics.flat_map(Topic::problems).collect();
            problems.extend(self.outside.states.missing());
            return problems;
        }
        let computed = self.computed_from_raw();
        let sinks = self.outside.topics.iter().zip(&self.plan.sinks);
        sinks
            .flat_map(|(topic, sink)| topic.problems_against(computed.stream(sink.input.from)))
            .collect()
    }

    fn can_be_cut_short(&self) -> bool {
        !self.outside.raw.is_empty()
    }

    fn on_cut_short(&self) {
        self.cut_short.store(true, Ordering::Relaxed);
        self.outside.states.turn_off();
    }

    fn burst(&self) -> Option<u64> {
        // Doubled records may come in larger bursts.
        (!self.plan.at_least_once).then_some(self.burst)
    }
}
