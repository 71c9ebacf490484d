//! The memory backend against the conformance suite, by every kind of state that can play the subject.

use tidegate_state::conformance::{Subject, run};
use tidegate_state::{KeyContext, KeyedTable, ListState, MapState, ReducingState, Timers, ValueState};

struct Value(ValueState<u64, Vec<u64>>);

impl Subject for Value {
    fn new() -> Self {
        Self(ValueState::new())
    }

    fn table(&mut self) -> &mut dyn KeyedTable<u64> {
        &mut self.0
    }

    fn append(&mut self, at: KeyContext<'_, u64>, number: u64) {
        self.0.update(at, |numbers| numbers.push(number));
    }

    fn remove(&mut self, at: KeyContext<'_, u64>) {
        self.0.clear(at);
    }

    fn read(&mut self, at: KeyContext<'_, u64>) -> Vec<u64> {
        self.0.get(at).cloned().unwrap_or_default()
    }
}

struct List(ListState<u64, u64>);

impl Subject for List {
    fn new() -> Self {
        Self(ListState::new())
    }

    fn table(&mut self) -> &mut dyn KeyedTable<u64> {
        &mut self.0
    }

    fn append(&mut self, at: KeyContext<'_, u64>, number: u64) {
        self.0.add(at, number);
    }

    fn remove(&mut self, at: KeyContext<'_, u64>) {
        self.0.clear(at);
    }

    fn read(&mut self, at: KeyContext<'_, u64>) -> Vec<u64> {
        assert_eq!(self.0.is_empty(at), self.0.len(at) == 0);
        self.0.iter(at).copied().collect()
    }
}

/// Elements with 1,000 bytes each, so that few of them outgrow a slot by what they encode to.
struct HeavyList(ListState<u64, (u64, String)>);

impl Subject for HeavyList {
    fn new() -> Self {
        Self(ListState::new())
    }

    fn table(&mut self) -> &mut dyn KeyedTable<u64> {
        &mut self.0
    }

    fn append(&mut self, at: KeyContext<'_, u64>, number: u64) {
        self.0.add(at, (number, "x".repeat(1000)));
    }

    fn remove(&mut self, at: KeyContext<'_, u64>) {
        drop(self.0.take(at));
    }

    fn read(&mut self, at: KeyContext<'_, u64>) -> Vec<u64> {
        self.0.iter(at).map(|(number, _)| *number).collect()
    }
}

/// Numbers under consecutive positions, so that the order shows.
struct Map(MapState<u64, u32, u64>);

impl Subject for Map {
    fn new() -> Self {
        Self(MapState::new())
    }

    fn table(&mut self) -> &mut dyn KeyedTable<u64> {
        &mut self.0
    }

    fn append(&mut self, at: KeyContext<'_, u64>, number: u64) {
        let position = self.0.len(at) as u32;
        assert_eq!(self.0.insert(at, position, 0), None);
        *self.0.get_mut(at, &position).expect("it was just inserted") = number;
    }

    fn remove(&mut self, at: KeyContext<'_, u64>) {
        // Entry by entry now and then: the last one takes the map with it.
        match self.0.len(at) {
            len @ 1..80 if at.hash & 1 == 0 => {
                for position in 0..len as u32 {
                    assert!(self.0.remove(at, &position).is_some());
                }
            }
            _ => self.0.clear(at),
        }
    }

    fn read(&mut self, at: KeyContext<'_, u64>) -> Vec<u64> {
        let mut entries: Vec<(u32, u64)> = self
            .0
            .iter(at)
            .map(|(position, number)| (*position, *number))
            .collect();
        entries.sort_unstable();
        entries.into_iter().map(|(_, number)| number).collect()
    }
}

struct Reducing(ReducingState<u64, Vec<u64>>);

impl Subject for Reducing {
    fn new() -> Self {
        Self(ReducingState::new(|into, value| into.extend(value)))
    }

    fn table(&mut self) -> &mut dyn KeyedTable<u64> {
        &mut self.0
    }

    fn append(&mut self, at: KeyContext<'_, u64>, number: u64) {
        self.0.add(at, vec![number]);
    }

    fn remove(&mut self, at: KeyContext<'_, u64>) {
        self.0.clear(at);
    }

    fn read(&mut self, at: KeyContext<'_, u64>) -> Vec<u64> {
        self.0.get(at).cloned().unwrap_or_default()
    }
}

#[test]
fn values_keep_the_contract() {
    (0..1000).for_each(|seed| run::<Value>(seed, 300));
}

#[test]
fn lists_keep_the_contract() {
    (0..600).for_each(|seed| run::<List>(seed, 300));
    // Long enough for the favourite's list to outgrow its slot by size.
    (5000..5003).for_each(|seed| run::<List>(seed, 12_000));
}

#[test]
fn lists_of_heavy_elements_keep_the_contract() {
    (0..60).for_each(|seed| run::<HeavyList>(seed, 250));
}

#[test]
fn maps_keep_the_contract() {
    (0..600).for_each(|seed| run::<Map>(seed, 300));
}

#[test]
fn reducing_states_keep_the_contract() {
    (0..200).for_each(|seed| run::<Reducing>(seed, 300));
}

#[test]
fn timers_are_tables_too() {
    fn is_table<T: KeyedTable<u64>>() {}
    is_table::<Timers<u64>>();
}
