//! What every backend of keyed state must do, as a program: run it against yours.
//!
//! A [`Subject`] is a keyed state seen through the simplest content there is: a list of numbers per key.
//! [`run`] drives it from one seed through writes, cuts, sweeps, decisions and restores at other parallelisms,
//! several snapshots open at once, and compares everything it reads and every snapshot with a plain map. A
//! failure names the seed; the same seed fails the same way.
//!
//! Owns: the contract of [`KeyedTable`] as checks. Does not own: what is particular to one kind of state.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use tidegate_types::codec::CodecError;
use tidegate_types::hash::key_hash;
use tidegate_types::key_group::{HashRange, hash_range};
use tidegate_types::snapshot::{Encoding, SectionBytes};
use tidegate_types::{CheckpointId, MaxParallelism, Parallelism, SubtaskIndex};

use crate::context::KeyContext;
use crate::describe::Formats;
use crate::keyed::{Cut, KeyedTable, Outcome, Progress, StateSetup};

/// A keyed state under test. Keys are numbers; the content of a key is a list of numbers that is never empty.
pub trait Subject {
    /// An unopened state.
    fn new() -> Self;

    /// The driven side.
    fn table(&mut self) -> &mut dyn KeyedTable<u64>;

    /// Appends a number to a key's content.
    fn append(&mut self, at: KeyContext<'_, u64>, number: u64);

    /// Removes a key's content.
    fn remove(&mut self, at: KeyContext<'_, u64>);

    /// A key's content; empty if there is none.
    fn read(&mut self, at: KeyContext<'_, u64>) -> Vec<u64>;
}

/// A small generator of repeatable numbers (splitmix64, Steele et al. 2014).
#[derive(Debug, Clone)]
pub struct Seeded(u64);

impl Seeded {
    /// A generator whose numbers follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

type Content = BTreeMap<u64, Vec<u64>>;

/// A cut as the model remembers it.
struct ModelCut {
    id: CheckpointId,
    content: Content,
    taken: bool,
}

struct World<S> {
    seed: u64,
    random: Seeded,
    range: HashRange,
    keys: Vec<(u64, u64)>,
    subject: S,
    model: Content,
    cuts: Vec<ModelCut>,
    complete: Option<CheckpointId>,
    last: u64,
}

const MAX: MaxParallelism = MaxParallelism(128);

/// Runs `steps` random steps from `seed`.
///
/// # Panics
/// If the subject breaks the contract; the message names the seed.
pub fn run<S: Subject>(seed: u64, steps: u32) {
    let mut world = World::<S>::new(seed);
    for _ in 0..steps {
        world.step();
    }
    world.finish();
}

fn setup(range: Option<HashRange>) -> StateSetup {
    // One for all runs: working a type's format out takes longer than a run.
    static FORMATS: OnceLock<Formats> = OnceLock::new();
    let formats = FORMATS.get_or_init(Formats::new).clone();
    StateSetup {
        uid: "conformance".into(),
        range,
        formats,
        now_ms: 0,
    }
}

fn hash_of(key: u64) -> u64 {
    key_hash(&key).expect("numbers have hashes")
}

fn owned_by(parallelism: u32, subtask: u32) -> Option<HashRange> {
    hash_range(SubtaskIndex(subtask), MAX, Parallelism(parallelism))
}

impl<S: Subject> World<S> {
    fn new(seed: u64) -> Self {
        let mut random = Seeded::new(seed);
        let parallelism = 1 + random.below(5) as u32;
        let range = owned_by(parallelism, random.below(u64::from(parallelism)) as u32)
            .expect("there are more key groups than subtasks");
        let count = [4, 40, 400, 3000][random.below(4) as usize];
        let keys = (0..count)
            .map(|key| (key, hash_of(key)))
            .filter(|(_, hash)| range.contains(*hash))
            .collect();
        let mut subject = S::new();
        subject
            .table()
            .open("state", &setup(Some(range)))
            .expect("opening succeeds");
        let (model, cuts) = (Content::new(), Vec::new());
        Self {
            seed,
            random,
            range,
            keys,
            subject,
            model,
            cuts,
            complete: None,
            last: 0,
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..=59 => self.write(),
            60..=74 => self.read(),
            75..=79 => self.prefetch(),
            80..=83 => self.cut(),
            84..=91 => self.sweep(),
            92..=95 => self.take(),
            _ => self.decide(),
        }
    }

    fn key(&mut self) -> Option<(u64, u64)> {
        let index = self.random.below(self.keys.len() as u64) as usize;
        self.keys.get(index).copied()
    }

    fn write(&mut self) {
        // A few keys get most of the writes, and one so many that it outgrows its slot.
        let favourite = self.random.one_in(4);
        let times = if self.random.one_in(50) {
            200
        } else {
            1 + self.random.below(4)
        };
        for _ in 0..times {
            let Some((key, hash)) = (if favourite {
                self.keys.first().copied()
            } else {
                self.key()
            }) else {
                return;
            };
            let at = KeyContext::new(&key, hash, 0);
            if self.random.one_in(if favourite { 300 } else { 5 }) {
                self.subject.remove(at);
                self.model.remove(&key);
            } else {
                let number = self.random.number();
                self.subject.append(at, number);
                self.model.entry(key).or_default().push(number);
            }
        }
    }

    fn read(&mut self) {
        let Some((key, hash)) = self.key() else { return };
        let found = self.subject.read(KeyContext::new(&key, hash, 0));
        let expected = self.model.get(&key).cloned().unwrap_or_default();
        assert!(found == expected, "seed {}: key {key} reads wrong", self.seed);
    }

    fn prefetch(&mut self) {
        let hashes: Vec<u64> = (0..8).map(|_| self.random.number()).collect();
        self.subject.table().prefetch(&hashes);
    }

    fn cut(&mut self) {
        self.last += 1 + self.random.below(2);
        let id = CheckpointId(self.last);
        let encoding = if self.random.one_in(3) {
            Encoding::Canonical
        } else {
            Encoding::Native
        };
        let base = self.complete.filter(|_| !self.random.one_in(4));
        self.subject.table().cut(Cut {
            id,
            base,
            encoding,
            now_ms: 0,
        });
        self.cuts.push(ModelCut {
            id,
            content: self.model.clone(),
            taken: false,
        });
    }

    fn sweep(&mut self) {
        let mut budget = self.random.below(12);
        let progress = self.subject.table().sweep(&mut || {
            budget = budget.saturating_sub(1);
            budget > 0
        });
        if progress == Progress::Done {
            self.take();
            let open = self.cuts.iter().filter(|cut| !cut.taken).count();
            assert_eq!(
                open, 0,
                "seed {}: the sweep is done and cuts are missing",
                self.seed
            );
        }
    }

    fn take(&mut self) {
        while let Some(snapshot) = self.subject.table().take_finished() {
            let id = snapshot.id();
            let oldest = self
                .cuts
                .iter_mut()
                .find(|cut| !cut.taken)
                .expect("only cuts that were made are finished");
            assert_eq!(oldest.id, id, "seed {}: cuts finish in order", self.seed);
            oldest.taken = true;
            let content = oldest.content.clone();
            let sections = snapshot.into_sections().expect("everything can be encoded");
            self.check_sections(&sections);
            self.check_restored(&sections, &content);
        }
    }

    /// Sections stand in hash order and cover the range without a gap.
    fn check_sections(&self, sections: &[SectionBytes]) {
        let ranges: Vec<HashRange> = sections
            .iter()
            .map(|s| s.head.hashes.expect("keyed sections have hashes"))
            .collect();
        let (first, last) = (
            ranges.first().expect("never none"),
            ranges.last().expect("never none"),
        );
        assert_eq!(
            (first.first, last.last),
            (self.range.first, self.range.last),
            "seed {}",
            self.seed
        );
        for pair in ranges.windows(2) {
            assert!(
                pair[1].first <= pair[0].last.saturating_add(1),
                "seed {}: no gap",
                self.seed
            );
            assert!(
                pair[0].last <= pair[1].last && pair[0].first <= pair[1].first,
                "seed {}",
                self.seed
            );
        }
    }

    /// The snapshot restores to the content at its cut, at any parallelism.
    fn check_restored(&mut self, sections: &[SectionBytes], content: &Content) {
        let parallelism = 1 + self.random.below(4) as u32;
        let mut found = Content::new();
        for subtask in 0..parallelism {
            let Some(range) = owned_by(parallelism, subtask) else {
                continue;
            };
            let mut restored = S::new();
            restored
                .table()
                .open("state", &setup(Some(range)))
                .expect("opening succeeds");
            let mut order: Vec<&SectionBytes> = sections.iter().collect();
            if self.random.one_in(2) {
                order.reverse();
            }
            for section in order {
                restored
                    .table()
                    .restore(&section.head, &section.bytes)
                    .unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
            }
            for &(key, hash) in self.keys.iter().filter(|(_, hash)| range.contains(*hash)) {
                let numbers = restored.read(KeyContext::new(&key, hash, 0));
                if !numbers.is_empty() {
                    found.insert(key, numbers);
                }
            }
            let expected = content
                .keys()
                .filter(|key| range.contains(hash_of(**key)))
                .count() as u64;
            let entries = restored.table().metrics().entries;
            assert_eq!(entries, expected, "seed {}: entries restored", self.seed);
        }
        self.compare(&found, content, &format!("restored at parallelism {parallelism}"));
    }

    /// Names the first key that differs instead of printing two large maps.
    fn compare(&self, found: &Content, expected: &Content, when: &str) {
        for key in found.keys().chain(expected.keys()) {
            let (found, expected) = (found.get(key), expected.get(key));
            let lengths = (found.map(Vec::len), expected.map(Vec::len));
            assert!(
                found == expected,
                "seed {}: key {key}, {when}: lengths (found, expected) {lengths:?}",
                self.seed
            );
        }
    }

    fn decide(&mut self) {
        let Some(index) = self
            .cuts
            .len()
            .checked_sub(1)
            .map(|last| self.random.below(last as u64 + 1) as usize)
        else {
            return;
        };
        // A checkpoint completes only once everything of it was handed over.
        if self.cuts[index].taken && !self.random.one_in(3) {
            let id = self.cuts[index].id;
            self.subject.table().decided(id, Outcome::Completed);
            self.cuts.drain(..=index);
            self.complete = Some(id);
        } else {
            let cut = self.cuts.remove(index);
            self.subject.table().decided(cut.id, Outcome::Aborted);
        }
    }

    /// Everything still open completes, and the content is the model's.
    fn finish(&mut self) {
        self.cut();
        assert_eq!(
            self.subject.table().sweep(&mut || true),
            Progress::Done,
            "seed {}",
            self.seed
        );
        self.take();
        assert!(
            self.cuts.iter().all(|cut| cut.taken),
            "seed {}: every cut is handed over",
            self.seed
        );
        let metrics = self.subject.table().metrics();
        assert_eq!(metrics.entries, self.model.len() as u64, "seed {}", self.seed);
        assert_eq!(
            (metrics.open_cuts, metrics.buffered_bytes),
            (0, 0),
            "seed {}",
            self.seed
        );
        for (key, hash) in self.keys.clone() {
            let found = self.subject.read(KeyContext::new(&key, hash, 0));
            assert_eq!(
                found,
                self.model.get(&key).cloned().unwrap_or_default(),
                "seed {}",
                self.seed
            );
        }
    }
}

/// Restores `bytes`, which may be damaged in any way: an answer is required, a panic or a hang is a failure.
///
/// # Errors
/// Whatever the state says; `Ok` if it found nothing wrong.
pub fn restore_damaged<S: Subject>(section: &SectionBytes, bytes: &[u8]) -> Result<u64, CodecError> {
    let mut subject = S::new();
    subject
        .table()
        .open("state", &setup(Some(HashRange::ALL)))
        .expect("opening succeeds");
    subject.table().restore(&section.head, bytes).map_err(|error| {
        use tidegate_types::codec::CodecErrorKind;
        CodecErrorKind::Message(error.to_string()).into()
    })
}
