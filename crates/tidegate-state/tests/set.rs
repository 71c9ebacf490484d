//! All states of an operator driven together, as a runtime does it.

mod support;

use support::{at, setup};
use tidegate_state::set::describe;
use tidegate_state::{
    Aggregate, AggregatingState, BroadcastState, Cut, ListState, MapState, OperatorListState,
    OperatorSnapshot, Outcome, Progress, ReducingState, Share, StateError, StateKind, StateSet, StateSetup,
    States, Timers, ValueState,
};
use tidegate_types::CheckpointId;
use tidegate_types::key_group::HashRange;
use tidegate_types::snapshot::{Encoding, SectionBytes, SectionKind};

struct Mean;

impl Aggregate for Mean {
    type Input = u64;
    type Accumulator = (u64, u64);
    type Output = u64;

    fn create(&self) -> (u64, u64) {
        (0, 0)
    }

    fn add(&self, (sum, count): &mut (u64, u64), value: u64) {
        (*sum, *count) = (*sum + value, *count + 1);
    }

    fn result(&self, (sum, count): &(u64, u64)) -> u64 {
        sum / count
    }

    fn merge(&self, into: &mut (u64, u64), other: (u64, u64)) {
        *into = (into.0 + other.0, into.1 + other.1);
    }
}

/// An operator with one state of every kind.
struct Everything {
    value: ValueState<u64, String>,
    list: ListState<u64, u64>,
    map: MapState<u64, String, u64>,
    largest: ReducingState<u64, u64>,
    mean: AggregatingState<u64, Mean>,
    timers: Timers<u64>,
    buffered: OperatorListState<u64>,
    seen: OperatorListState<u64>,
    rules: BroadcastState<String, u64>,
}

impl Everything {
    fn new() -> Self {
        Self {
            value: ValueState::new(),
            list: ListState::new(),
            map: MapState::new(),
            largest: ReducingState::new(|into, value| *into = value.max(*into)),
            mean: AggregatingState::new(Mean),
            timers: Timers::new(),
            buffered: OperatorListState::split(),
            seen: OperatorListState::union(),
            rules: BroadcastState::new(),
        }
    }

    fn state(&mut self, s: &mut States<'_, u64>) {
        s.value("value", &mut self.value);
        s.list("list", &mut self.list);
        s.map("map", &mut self.map);
        s.reducing("largest", &mut self.largest);
        s.aggregating("mean", &mut self.mean);
        s.timers("timers", &mut self.timers);
        s.operator_list("buffered", &mut self.buffered);
        s.operator_list("seen", &mut self.seen);
        s.broadcast("rules", &mut self.rules);
    }

    fn process(&mut self, key: u64, number: u64) {
        let at = at(&key, 0);
        self.value.set(at, format!("last {number}"));
        self.list.add(at, number);
        *self.map.get_or_insert_with(at, format!("{}", number % 10), || 0) += 1;
        self.largest.add(at, number);
        self.mean.add(at, number);
        self.timers.register(at, number as i64);
        if number.is_multiple_of(100) {
            self.buffered.add(number);
            self.seen.add(number);
            self.rules.insert(format!("rule {number}"), number);
        }
    }

    /// What it remembers of a key, as text.
    fn remembers(&mut self, key: u64) -> String {
        let at = at(&key, 0);
        let mut entries: Vec<(String, u64)> = self
            .map
            .iter(at)
            .map(|(inner, count)| (inner.clone(), *count))
            .collect();
        entries.sort_unstable();
        let list: Vec<u64> = self.list.iter(at).copied().collect();
        let (value, largest) = (self.value.get(at).cloned(), self.largest.get(at).copied());
        format!(
            "{value:?} {list:?} {entries:?} {largest:?} {:?}",
            self.mean.get(at)
        )
    }
}

fn cut(id: u64) -> Cut {
    Cut {
        id: CheckpointId(id),
        base: None,
        encoding: Encoding::Native,
        now_ms: 0,
    }
}

/// Sweeps in small steps until a snapshot is complete.
fn finish(set: &mut StateSet, operator: &mut Everything) -> OperatorSnapshot {
    loop {
        if let Some(snapshot) = set.take_finished(|s| operator.state(s)) {
            return snapshot;
        }
        assert!(set.is_sweeping(), "no cut is open");
        let mut budget = 3;
        let mut more = || {
            budget -= 1;
            budget > 0
        };
        set.sweep(&mut more, |s| operator.state(s));
    }
}

fn restore(sections: &[SectionBytes], range: HashRange, share: Share) -> (Everything, StateSet) {
    let mut operator = Everything::new();
    let setup = StateSetup {
        range: Some(range),
        ..setup()
    };
    let mut set = StateSet::open(setup, |s| operator.state(s)).expect("names are unique");
    for section in sections {
        set.restore(&section.head, &section.bytes, share, |s| operator.state(s))
            .expect("nothing changed");
    }
    (operator, set)
}

#[test]
fn every_kind_of_state_comes_back_at_another_parallelism() {
    let mut operator = Everything::new();
    let mut set = StateSet::open(setup(), |s| operator.state(s)).expect("names are unique");
    let hashes: Vec<u64> = (0..8).map(|key| at(&key, 0).hash).collect();
    set.prefetch(&hashes, |s| operator.state(s));
    for number in 0..2000 {
        operator.process(number % 150, number);
    }
    set.cut(cut(1), |s| operator.state(s));
    assert!(set.is_sweeping());
    assert!(
        set.take_finished(|s| operator.state(s)).is_none(),
        "nothing was swept yet"
    );
    let expected: Vec<String> = (0..150).map(|key| operator.remembers(key)).collect();
    for number in 2000..3000 {
        operator.process(number % 150, number);
    }
    let snapshot = finish(&mut set, &mut operator);
    assert!(!set.is_sweeping());
    assert_eq!(set.sweep(&mut || true, |s| operator.state(s)), Progress::Done);
    set.decided(CheckpointId(1), Outcome::Completed, |s| operator.state(s));
    assert!(snapshot.records() > 150 * 6 && snapshot.size_bytes() > snapshot.records());
    let sections = snapshot.into_sections().expect("everything can be encoded");
    let kinds: Vec<SectionKind> = sections.iter().map(|section| section.head.kind.clone()).collect();
    use SectionKind::{Broadcast, Keyed, ListSplit, ListUnion, Timers};
    assert_eq!(
        kinds,
        [
            Keyed, Keyed, Keyed, Keyed, Keyed, Timers, ListSplit, ListUnion, Broadcast
        ]
    );

    check_halves(&sections, &expected);
}

/// Restores two subtasks that own a third and two thirds of the hashes.
fn check_halves(sections: &[SectionBytes], expected: &[String]) {
    let middle = u64::MAX / 3;
    let ranges = [
        HashRange {
            first: 0,
            last: middle,
        },
        HashRange {
            first: middle + 1,
            last: u64::MAX,
        },
    ];
    let mut buffered = Vec::new();
    let mut timers = 0;
    for (subtask, range) in ranges.into_iter().enumerate() {
        let share = Share {
            before: 0,
            subtask: subtask as u32,
            parallelism: 2,
        };
        let (mut half, _) = restore(sections, range, share);
        for key in (0..150).filter(|key| range.contains(at(key, 0).hash)) {
            assert_eq!(half.remembers(key), expected[key as usize], "key {key}");
        }
        timers += half.timers.len();
        buffered.extend_from_slice(half.buffered.entries());
        assert_eq!(half.seen.entries().len(), 20, "everyone gets all of a union list");
        assert_eq!(
            (half.rules.len(), half.rules.get(&"rule 1900".into())),
            (20, Some(&1900))
        );
        assert!(
            half.rules
                .iter()
                .all(|(name, number)| *name == format!("rule {number}"))
        );
    }
    buffered.sort_unstable();
    assert_eq!(
        buffered,
        (0..20).map(|n| n * 100).collect::<Vec<u64>>(),
        "a split list is dealt out"
    );
    assert_eq!(timers, 2000);
}

#[test]
fn entries_of_a_split_list_are_dealt_over_several_old_subtasks() {
    let mut next = 0;
    let sections: Vec<SectionBytes> = [3, 0, 4]
        .into_iter()
        .map(|count| {
            let mut operator = Everything::new();
            let mut set = StateSet::open(setup(), |s| operator.state(s)).expect("names are unique");
            for _ in 0..count {
                operator.buffered.add(next);
                next += 1;
            }
            set.cut(cut(1), |s| operator.state(s));
            let sections = finish(&mut set, &mut operator)
                .into_sections()
                .expect("numbers can be encoded");
            sections
                .into_iter()
                .find(|s| s.head.kind == SectionKind::ListSplit)
                .expect("there is one")
        })
        .collect();
    for parallelism in 1..5 {
        let mut dealt: Vec<Vec<u64>> = Vec::new();
        for subtask in 0..parallelism {
            let mut operator = Everything::new();
            let mut set = StateSet::open(setup(), |s| operator.state(s)).expect("names are unique");
            let mut before = 0;
            for section in &sections {
                let share = Share {
                    before,
                    subtask,
                    parallelism,
                };
                set.restore(&section.head, &section.bytes, share, |s| operator.state(s))
                    .expect("nothing changed");
                before += section.head.records;
            }
            dealt.push(operator.buffered.entries().to_vec());
        }
        let lens: Vec<usize> = dealt.iter().map(Vec::len).collect();
        assert!(
            lens.iter().max().expect("one") - lens.iter().min().expect("one") <= 1,
            "evenly: {lens:?}"
        );
        let mut all = dealt.concat();
        all.sort_unstable();
        assert_eq!(all, (0..7).collect::<Vec<u64>>());
    }
}

#[test]
fn several_cuts_finish_in_order_and_an_aborted_one_never() {
    let mut operator = Everything::new();
    let mut set = StateSet::open(setup(), |s| operator.state(s)).expect("names are unique");
    for id in 1..=3 {
        for number in 0..500 {
            operator.process(number, number * id);
        }
        set.cut(cut(id), |s| operator.state(s));
        set.sweep(&mut || false, |s| operator.state(s));
    }
    set.decided(CheckpointId(2), Outcome::Aborted, |s| operator.state(s));
    assert_eq!(finish(&mut set, &mut operator).id(), CheckpointId(1));
    assert_eq!(finish(&mut set, &mut operator).id(), CheckpointId(3));
    assert!(!set.is_sweeping());
    assert!(
        set.metrics(|s| operator.state(s))
            .iter()
            .all(|(_, m)| (m.open_cuts, m.buffered_bytes) == (0, 0))
    );
}

#[test]
fn two_states_of_one_name_are_refused() {
    let (mut one, mut other) = (ValueState::<u64, u64>::new(), OperatorListState::<u64>::split());
    let mut declare = |s: &mut States<'_, u64>| {
        s.value("count", &mut one);
        s.operator_list("count", &mut other);
    };
    let expected = "state \"count\" of operator \"operator\" is declared twice";
    let error = describe(&setup(), &mut declare).expect_err("the name is taken");
    assert!(error.to_string().contains(expected), "{error}");
    let error = StateSet::open(setup(), &mut declare).expect_err("the name is taken");
    assert!(matches!(error, StateError::DuplicateName { .. }), "{error:?}");
}

#[test]
fn a_state_that_is_no_longer_declared_is_named() {
    let mut operator = Everything::new();
    let mut set = StateSet::open(setup(), |s| operator.state(s)).expect("names are unique");
    set.cut(cut(1), |s| operator.state(s));
    let sections = finish(&mut set, &mut operator)
        .into_sections()
        .expect("nothing to encode");
    let mut value = ValueState::<u64, String>::new();
    let mut set =
        StateSet::open(setup(), |s: &mut States<'_, u64>| s.value("value", &mut value)).expect("one name");
    let share = Share {
        before: 0,
        subtask: 0,
        parallelism: 1,
    };
    let results: Vec<_> = sections
        .iter()
        .map(|section| {
            set.restore(&section.head, &section.bytes, share, |s: &mut States<'_, u64>| {
                s.value("value", &mut value)
            })
        })
        .collect();
    assert_eq!(results[0], Ok(0));
    assert!(
        results[1..]
            .iter()
            .all(|result| matches!(result, Err(StateError::NotDeclared { .. }))),
        "{results:?}"
    );
}

#[test]
fn what_is_declared_can_be_described_before_anything_runs() {
    let mut operator = Everything::new();
    let described = describe(&setup(), |s| operator.state(s)).expect("names are unique");
    let kinds: Vec<(&str, StateKind)> = described
        .iter()
        .map(|(name, d)| (name.as_str(), d.kind))
        .collect();
    assert_eq!(kinds[0], ("value", StateKind::Value));
    assert_eq!(kinds[5], ("timers", StateKind::Timers));
    assert!(
        described
            .iter()
            .all(|(_, d)| d.types.iter().all(|t| t.shape.is_some() && t.warning.is_none()))
    );
}

#[test]
fn an_operator_without_state_has_empty_snapshots() {
    let mut set = StateSet::open(setup(), |_: &mut States<'_, u64>| {}).expect("no names");
    set.cut(cut(1), |_: &mut States<'_, u64>| {});
    assert!(!set.is_sweeping());
    let snapshot = set
        .take_finished(|_: &mut States<'_, u64>| {})
        .expect("nothing is missing");
    assert_eq!(snapshot.into_sections(), Ok(Vec::new()));
}

#[test]
#[should_panic(expected = "value state keyed by u64 was used but never declared")]
fn a_state_that_was_not_declared_says_so() {
    ValueState::<u64, u64>::new().set(at(&1, 0), 1);
}

#[test]
#[should_panic(expected = "split list state was used but never declared")]
fn an_operator_state_that_was_not_declared_says_so() {
    OperatorListState::split().add(1u64);
}
