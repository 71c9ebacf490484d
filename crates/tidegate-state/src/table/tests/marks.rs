//! The marks against a model: what changed since a base, through aborts, completions, splits and several open
//! cuts.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_types::CheckpointId;
use tidegate_types::key_group::HashRange;
use tidegate_types::snapshot::Encoding;

use super::{Numbers, find, insert, rounds, spread};
use crate::cuts::Cuts;
use crate::keyed::{Cut, Outcome};
use crate::table::BlockTable;
use crate::table::marks::{CURRENT, Node};

type Table = BlockTable<u64, u64>;
type Content = BTreeMap<u64, u64>;

/// What an increment for the newest cut would contain.
#[derive(Default)]
struct Changes {
    written: BTreeSet<u64>,
    deleted: BTreeSet<u64>,
    /// Blocks of which all is contained, and whose hashes start from nothing.
    replaced: Vec<HashRange>,
}

impl Table {
    /// What changed after the cut that began epoch `base`. Right after a cut, before anything else is written.
    fn changes_since(&self, base: u32) -> Changes {
        let mut changes = Changes::default();
        let mut at = Some(0);
        while let Some(position) = at {
            let (home, next) = self.step(position);
            let hashes = self.hashes_at(position);
            for block in self.chain(home.block) {
                // What happened since the block was last preserved belongs to the first cut after that.
                let label = |node: &Node<u64>| {
                    if node.epoch == CURRENT {
                        home.epoch + 1
                    } else {
                        node.epoch
                    }
                };
                let nodes: Vec<_> = self
                    .marks
                    .of(self.meta[block as usize].marks)
                    .filter(|node| label(node) > base)
                    .collect();
                let current = if home.epoch + 1 > base {
                    self.blocks.written(block)
                } else {
                    0
                };
                let written = nodes.iter().fold(current, |bits, node| bits | node.written);
                let replaced = nodes.iter().any(|node| node.replaced);
                for slot in self.blocks.slots(block) {
                    if replaced || written >> slot.index & 1 == 1 {
                        changes.written.insert(self.get(slot).key);
                    }
                }
                if replaced {
                    changes.replaced.push(hashes);
                }
                changes
                    .deleted
                    .extend(nodes.iter().flat_map(|node| &node.deleted));
            }
            at = next;
        }
        changes
    }
}

struct Model {
    table: Table,
    cuts: Cuts,
    content: Content,
    /// The content at each undecided cut or possible base, by id.
    at_cut: BTreeMap<u64, Content>,
    /// Keys written since each of them.
    written_since: BTreeMap<u64, BTreeSet<u64>>,
    complete: Option<u64>,
    undecided: Vec<u64>,
    last: u64,
    checked: u64,
    exact: u64,
}

impl Model {
    fn new() -> Self {
        Self {
            table: BlockTable::new(Some(HashRange::ALL), false, 0, |key| spread(*key)),
            cuts: Cuts::new(),
            content: Content::new(),
            at_cut: BTreeMap::new(),
            written_since: BTreeMap::new(),
            complete: None,
            undecided: Vec::new(),
            last: 0,
            checked: 0,
            exact: 0,
        }
    }

    fn preserve(&mut self, position: u64) {
        let (home, _) = self.table.step(position);
        if home.epoch != self.cuts.epoch() {
            let cuts = &self.cuts;
            self.table
                .set_preserved(position, cuts.epoch(), |epoch| cuts.fate(epoch));
        }
    }

    fn write(&mut self, key: u64, value: u64) {
        let hash = spread(key);
        self.preserve(self.table.position(hash));
        match find(&self.table, hash, &key) {
            Some(slot) => *self.table.get_mut(slot) = value,
            None => {
                insert(&mut self.table, hash, key, value);
            }
        }
        self.content.insert(key, value);
        for written in self.written_since.values_mut() {
            written.insert(key);
        }
    }

    fn remove(&mut self, key: u64) {
        let hash = spread(key);
        self.preserve(self.table.position(hash));
        if let Some(slot) = find(&self.table, hash, &key) {
            self.table
                .remove(self.table.home(hash), slot, hash, self.cuts.has_base());
            self.content.remove(&key);
        }
    }

    fn cut(&mut self) {
        self.last += 1;
        let base = self.complete.map(CheckpointId);
        self.cuts.begin(Cut {
            id: CheckpointId(self.last),
            base,
            encoding: Encoding::Native,
            now_ms: 0,
        });
        self.undecided.push(self.last);
        self.at_cut.insert(self.last, self.content.clone());
        if let Some(base) = self.complete {
            self.check(base);
        }
        self.written_since.insert(self.last, BTreeSet::new());
    }

    /// The increment on top of the base is the content; it has no live key that wasn't written, unless a block
    /// is replaced.
    fn check(&mut self, base: u64) {
        let epoch = self
            .cuts
            .base_epoch(CheckpointId(base))
            .expect("the newest complete cut is known");
        let changes = self.table.changes_since(epoch);
        let mut content = self.at_cut[&base].clone();
        content.retain(|key, _| {
            !changes.deleted.contains(key)
                && !changes
                    .replaced
                    .iter()
                    .any(|hashes| hashes.contains(spread(*key)))
        });
        for key in &changes.written {
            content.insert(*key, self.content[key]);
        }
        assert_eq!(content, self.content, "the increment since {base}");
        let written = &self.written_since[&base];
        for key in &changes.written {
            let replaced = changes
                .replaced
                .iter()
                .any(|hashes| hashes.contains(spread(*key)));
            assert!(
                replaced || written.contains(key),
                "key {key} is contained and wasn't written since {base}"
            );
        }
        self.checked += 1;
        self.exact += u64::from(changes.replaced.is_empty() && changes.written.len() < self.content.len());
    }

    fn decide(&mut self, index: usize, outcome: Outcome) {
        let id = self.undecided[index];
        self.cuts.decided(CheckpointId(id), outcome);
        match outcome {
            Outcome::Completed => {
                self.undecided.drain(..=index);
                self.complete = Some(id);
                self.at_cut.retain(|known, _| *known >= id);
                self.written_since.retain(|known, _| *known >= id);
            }
            Outcome::Aborted => {
                self.undecided.remove(index);
                self.at_cut.remove(&id);
                self.written_since.remove(&id);
            }
        }
    }

    fn sweep(&mut self, blocks: u64, numbers: &mut Numbers) {
        for _ in 0..blocks {
            self.preserve(numbers.next());
        }
    }
}

fn run(seed: u64, keys: u64, removes: u64) -> (u64, u64) {
    let (mut model, mut numbers) = (Model::new(), Numbers(seed << 32));
    for _ in 0..1500 {
        match numbers.below(200) {
            0..=5 if model.undecided.len() < 5 => model.cut(),
            6..=9 if !model.undecided.is_empty() => {
                let index = numbers.below(model.undecided.len() as u64) as usize;
                let outcome = if numbers.below(2) == 0 {
                    Outcome::Completed
                } else {
                    Outcome::Aborted
                };
                model.decide(index, outcome);
            }
            10..=15 => model.sweep(20, &mut numbers),
            16..30 if removes > 0 => {
                for _ in 0..removes {
                    model.remove(numbers.below(keys));
                }
            }
            _ => model.write(numbers.below(keys), numbers.next()),
        }
    }
    (model.checked, model.exact)
}

#[test]
fn an_increment_has_what_changed_since_its_base_and_nothing_else() {
    let (mut checked, mut exact) = (0, 0);
    for seed in 0..rounds(300) {
        let keys = [20, 300, 2000][seed as usize % 3];
        let removes = [0, 1, 3, 30][seed as usize % 4];
        let (c, e) = run(seed, keys, removes);
        (checked, exact) = (checked + c, exact + e);
    }
    assert!(
        checked > 2000 && exact > 500,
        "the test checked something: {checked}, {exact}"
    );
}

#[test]
fn marks_of_aborted_cuts_do_not_pile_up() {
    let mut model = Model::new();
    for round in 0..rounds(1000) {
        for key in 0..500 {
            model.write(key, round);
        }
        model.remove(round % 500);
        model.cut();
        model.decide(0, Outcome::Aborted);
    }
    let bytes = model.table.marks.memory_bytes();
    assert!(bytes < 64 * 1024, "{bytes} bytes of marks for ten blocks");
}

#[test]
fn without_a_cut_deleted_keys_are_not_remembered() {
    let mut model = Model::new();
    for key in 0..rounds(10_000) {
        model.write(key, 0);
        model.remove(key);
    }
    assert_eq!(model.table.marks.memory_bytes(), 0);
}
