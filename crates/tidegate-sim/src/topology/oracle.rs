//! The oracle: what a random job must put out, by a plain loop over its input.
//!
//! Knows nothing of subtasks, time, or order. The functions of single records are the operators' own
//! ([`super::stateless`]); what keyed operators do with many is written anew here.

use std::collections::{BTreeMap, BTreeSet};

use super::item::{Item, mix};
use super::plan::{Input, Keyed, NodePlan, Op, Plan, Port};
use super::stateless;

/// What comes of a job.
#[derive(Debug, Default)]
pub struct Computed {
    /// Every stream's records.
    pub streams: BTreeMap<Port, Vec<Item>>,
    /// Per keyed operator and key: how many it has seen.
    pub seen: BTreeMap<(usize, u64), i64>,
    /// About how many records come over every stream, portions counted one by one.
    pub records: BTreeMap<Port, u64>,
    /// Records that one record or timer may bring out at once, at most.
    pub burst: u64,
}

impl Computed {
    /// A source emits these.
    pub fn source(&mut self, at: usize, items: Vec<Item>) {
        self.records.insert(Port::Source(at), items.len() as u64);
        self.streams.insert(Port::Source(at), items);
    }

    /// About how many records come over these edges.
    fn records_of(&self, inputs: &[Input]) -> u64 {
        inputs.iter().filter_map(|i| self.records.get(&i.from)).sum()
    }

    /// Notes about how many records an operator puts out.
    fn estimate(&mut self, at: usize, node: &NodePlan, put_in: u64) {
        let (first, second) = (self.records_of(&node.first), self.records_of(&node.second));
        let put_out = self.stream(Port::Main(at)).len() as u64;
        let records = match node.op {
            Op::Join { keys } => put_out.max(2 * first * second / keys),
            Op::Keyed { .. } => put_out.max(first),
            Op::Map { .. } | Op::Filter { .. } | Op::FlatMap { .. } | Op::Divert | Op::Share | Op::Both => {
                (first + second) * put_out / put_in.max(1)
            }
        };
        self.records.insert(Port::Main(at), records);
        self.records.insert(Port::Side(at), first);
    }

    /// A stream's records.
    pub fn stream(&self, port: Port) -> &[Item] {
        self.streams.get(&port).map_or(&[], Vec::as_slice)
    }
}

/// Computes a job over these records of its sources.
pub fn compute(plan: &Plan, sources: Vec<Vec<Item>>) -> Computed {
    let mut computed = Computed::default();
    for (at, items) in sources.into_iter().enumerate() {
        computed.source(at, items);
    }
    for (at, node) in plan.nodes.iter().enumerate() {
        add(&mut computed, at, node);
    }
    computed
}

fn united(computed: &Computed, inputs: &[Input]) -> Vec<Item> {
    inputs
        .iter()
        .flat_map(|input| computed.stream(input.from).iter().cloned())
        .collect()
}

/// Computes one operator whose inputs are computed.
pub fn add(computed: &mut Computed, at: usize, node: &NodePlan) {
    let first = united(computed, &node.first);
    let second = united(computed, &node.second);
    let salt = node.salt;
    let put_in = (first.len() + second.len()) as u64;
    let mut side = Vec::new();
    let main: Vec<Item> = match node.op {
        Op::Map { of } => first.iter().map(|i| stateless::map(salt, of, i)).collect(),
        Op::Filter { keep } => first
            .into_iter()
            .filter(|i| stateless::keeps(salt, keep, i))
            .collect(),
        Op::FlatMap { most } => {
            computed.burst += stateless::MANY;
            first
                .iter()
                .flat_map(|i| stateless::spread(salt, most, i))
                .collect()
        }
        Op::Divert => {
            let (bad, good) = first.into_iter().partition(|i| stateless::diverts(salt, i));
            side = bad;
            good
        }
        Op::Share => first,
        Op::Both => {
            let second = second.iter().map(|i| stateless::map(salt + 1, 0, i));
            first
                .iter()
                .map(|i| stateless::map(salt, 0, i))
                .chain(second)
                .collect()
        }
        Op::Keyed {
            what,
            keys,
            side: has,
        } => {
            let (aside, kept): (Vec<Item>, Vec<Item>) = first
                .into_iter()
                .partition(|i| has && stateless::goes_aside(salt, i));
            let groups = group(computed, at, node, keys, aside.iter().chain(&kept), &kept);
            side = aside;
            groups
                .into_iter()
                .flat_map(|(key, of)| keyed(what, salt, key, of))
                .collect()
        }
        Op::Join { keys } => {
            let all = first.iter().chain(&second);
            let mut left = group(computed, at, node, keys, all, &first);
            let right = group(computed, at, node, keys, [].iter(), &second);
            let pairs = right
                .into_iter()
                .map(|(key, of)| (left.remove(&key).unwrap_or_default(), of));
            pairs.flat_map(|(a, b)| pairs_of(salt, &a, &b)).collect()
        }
    };
    computed.streams.insert(Port::Main(at), main);
    computed.estimate(at, node, put_in);
    if node.has_side() {
        computed.streams.insert(Port::Side(at), side);
    }
}

/// Divides `of` by key, and notes what each key has `seen`.
fn group<'a>(
    computed: &mut Computed,
    at: usize,
    node: &NodePlan,
    keys: u64,
    seen: impl Iterator<Item = &'a Item>,
    of: &[Item],
) -> BTreeMap<u64, Vec<Item>> {
    for item in seen {
        *computed.seen.entry((at, node.key(item, keys))).or_default() += item.n;
    }
    let mut groups: BTreeMap<u64, Vec<Item>> = BTreeMap::new();
    for item in of {
        groups.entry(node.key(item, keys)).or_default().push(item.clone());
    }
    // A key's records may come in portions: there are no more of them than what they stand for.
    let amount = |of: &Vec<Item>| of.iter().map(|i| i.n).sum::<i64>();
    computed.burst += groups.values().map(amount).max().unwrap_or(0) as u64;
    groups
}

/// What one key's records come to.
fn keyed(what: Keyed, salt: u64, key: u64, of: Vec<Item>) -> Vec<Item> {
    match what {
        Keyed::Hold { .. } | Keyed::HoldWall { .. } => of,
        Keyed::Distinct => {
            let tags: BTreeSet<u64> = of.iter().map(|i| i.tag).collect();
            tags.into_iter().map(|tag| Item { tag, n: 1, at: 0 }).collect()
        }
        Keyed::Buckets { .. } | Keyed::Total | Keyed::Aggregate | Keyed::Portions { .. } => {
            let n = of.iter().map(|i| i.n).sum();
            vec![Item {
                tag: mix(key, salt),
                n,
                at: 0,
            }]
        }
    }
}

fn pairs_of(salt: u64, left: &[Item], right: &[Item]) -> Vec<Item> {
    left.iter()
        .flat_map(|a| right.iter().map(move |b| stateless::pair(salt, a, b)))
        .collect()
}
