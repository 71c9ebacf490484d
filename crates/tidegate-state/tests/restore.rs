//! Restoring: what is refused, what is read in spite of a changed type, and what damaged bytes do.

mod support;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use support::{at, cut, finish, opened, restore, setup, snapshot};
use tidegate_state::{
    KeyedTable, ListState, MapState, StateError, StateKind, StateSetup, Timers, ValueState,
};
use tidegate_types::key_group::HashRange;
use tidegate_types::snapshot::{Encoding, SectionBytes};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    amount: u32,
}

/// The same, changed.
mod changed {
    use super::{Deserialize, Serialize};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Order {
        pub amount: u32,
        pub id: u64,
        #[serde(default)]
        pub note: String,
    }
}

fn orders() -> ValueState<u64, Order> {
    let mut state = opened(ValueState::new());
    for key in 0..500 {
        state.set(at(&key, 0), Order { id: key, amount: 7 });
    }
    state
}

#[test]
fn a_changed_type_is_refused_by_uid_state_and_field() {
    let sections = snapshot(&mut orders(), Encoding::Native, 0);
    let Err(error) = restore(ValueState::<u64, changed::Order>::new(), &sections) else {
        panic!("swapped fields were read natively");
    };
    assert!(matches!(error, StateError::ShapeChanged { .. }), "{error:?}");
    let text = error.to_string();
    for part in ["\"operator\"", "\"state\"", "value type", "`Order`"] {
        assert!(text.contains(part), "{part} isn't in {text:?}");
    }
}

#[test]
fn a_canonical_snapshot_restores_into_a_changed_type() {
    let sections = snapshot(&mut orders(), Encoding::Canonical, 0);
    assert_eq!(sections[0].head.encoding, Encoding::Canonical);
    let mut state =
        restore(ValueState::<u64, changed::Order>::new(), &sections).expect("fields are found by name");
    let expected = changed::Order {
        amount: 7,
        id: 3,
        note: String::new(),
    };
    assert_eq!(state.get(at(&3, 0)), Some(&expected));
}

#[test]
fn a_changed_key_type_is_refused() {
    let sections = snapshot(&mut orders(), Encoding::Native, 0);
    let result = restore(ValueState::<u32, Order>::new(), &sections);
    assert!(matches!(result.err(), Some(StateError::ShapeChanged { .. })));
    // Canonical bytes of a small number are read as any width, but the key hashes differently.
    let sections = snapshot(&mut orders(), Encoding::Canonical, 0);
    let result = restore(ValueState::<u32, Order>::new(), &sections);
    assert!(matches!(result.err(), Some(StateError::KeyHashChanged { .. })));
}

#[test]
fn another_kind_of_state_is_refused() {
    let sections = snapshot(&mut orders(), Encoding::Native, 0);
    let result = restore(ListState::<u64, Order>::new(), &sections);
    let Some(StateError::KindChanged { declared, stored, .. }) = result.err() else {
        panic!("a list was read")
    };
    assert_eq!((declared, stored), (StateKind::List, StateKind::Value));
}

#[test]
fn a_newer_version_is_named() {
    let sections = snapshot(&mut orders(), Encoding::Native, 0);
    let mut bytes = sections[0].bytes.to_vec();
    bytes[4] = 99;
    let mut state = opened(ValueState::<u64, Order>::new());
    let error = state
        .restore(&sections[0].head, &bytes)
        .expect_err("there is no version 99");
    assert!(
        matches!(error, StateError::Version { found: 99, .. }),
        "{error:?}"
    );
}

#[test]
fn a_type_without_shape_is_stored_canonically() {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Loose {
        Number(u64),
        Text(String),
    }
    let mut state = opened(ValueState::<u64, Loose>::new());
    state.set(at(&1, 0), Loose::Number(5));
    state.set(at(&2, 0), Loose::Text("five".into()));
    let description = state.describe(&setup().formats);
    assert!(description.types[1].warning.is_some(), "{description:?}");
    let sections = snapshot(&mut state, Encoding::Native, 0);
    assert_eq!(sections[0].head.encoding, Encoding::Canonical);
    let mut state = restore(ValueState::<u64, Loose>::new(), &sections).expect("nothing changed");
    assert_eq!(state.get(at(&2, 0)), Some(&Loose::Text("five".into())));
}

#[test]
fn a_value_that_cannot_be_native_makes_its_block_canonical() {
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
    struct Sparse {
        id: u64,
        #[serde(skip_serializing_if = "is_thirteen", default = "thirteen")]
        lucky: u64,
    }
    fn is_thirteen(number: &u64) -> bool {
        *number == 13
    }
    fn thirteen() -> u64 {
        13
    }
    let mut state = opened(ValueState::<u64, Sparse>::new());
    for key in 0..5000 {
        let lucky = if key == 4000 { 13 } else { key };
        state.set(at(&key, 0), Sparse { id: key, lucky });
    }
    let sections = snapshot(&mut state, Encoding::Native, 0);
    let mut restored = restore(ValueState::<u64, Sparse>::new(), &sections).expect("nothing changed");
    state.for_each(|key, value| assert_eq!(restored.get(at(key, 0)), Some(value)));
    assert_eq!(restored.len(), 5000);
}

#[test]
fn a_type_whose_halves_disagree_fails_the_snapshot_and_not_the_state() {
    #[derive(Debug, Clone, PartialEq)]
    struct Liar(u64);
    impl Serialize for Liar {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            self.0.serialize(serializer)
        }
    }
    impl<'de> Deserialize<'de> for Liar {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            u64::deserialize(deserializer).map(|number| Self(number + 1))
        }
    }
    let mut state = opened(ValueState::<u64, Liar>::new());
    state.set(at(&1, 0), Liar(5));
    state.cut(cut(1, Encoding::Native, 0));
    let error = finish(&mut state).expect_err("the value doesn't survive");
    assert!(matches!(error, StateError::Encode { .. }), "{error:?}");
    assert!(error.to_string().contains("\"state\""), "{error}");
    assert_eq!(state.get(at(&1, 0)), Some(&Liar(5)));
}

#[test]
fn a_value_that_fails_to_serialise_fails_one_snapshot() {
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    struct Fragile(u64);
    impl Serialize for Fragile {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            if self.0 == 13 {
                return Err(serde::ser::Error::custom("unlucky"));
            }
            serializer.serialize_newtype_struct("Fragile", &self.0)
        }
    }
    let mut state = opened(ValueState::<u64, Fragile>::new());
    for key in 0..1000 {
        state.set(at(&key, 0), Fragile(key));
    }
    state.cut(cut(1, Encoding::Native, 0));
    let error = finish(&mut state).expect_err("13 can't be stored");
    assert!(error.to_string().contains("unlucky"), "{error}");
    state.clear(at(&13, 0));
    state.cut(cut(2, Encoding::Native, 0));
    assert_eq!(
        finish(&mut state)
            .expect("13 is gone")
            .iter()
            .map(|s| s.head.records)
            .sum::<u64>(),
        999
    );
}

#[test]
fn a_large_state_is_laid_out_in_several_sections() {
    let mut state = opened(ValueState::<u64, String>::new());
    let mut lists = opened(ListState::<u64, String>::new());
    for key in 0..400 {
        state.set(at(&key, 0), "x".repeat(100_000));
    }
    // One list that is larger than a section, amid others.
    for number in 0..2000 {
        lists.add(at(&0, 0), "y".repeat(10_000));
        lists.add(at(&(number % 300 + 1), 0), number.to_string());
    }
    // Its size is known from its first encoding on; the next write takes it apart.
    assert_eq!(snapshot(&mut lists, Encoding::Native, 0).len(), 1);
    lists.add(at(&0, 0), "last".into());
    for sections in [
        snapshot(&mut state, Encoding::Native, 0),
        snapshot(&mut lists, Encoding::Native, 0),
    ] {
        assert!(sections.len() >= 2, "{} sections", sections.len());
        let hashes = |section: &SectionBytes| section.head.hashes.expect("keyed sections have hashes");
        assert_eq!(hashes(&sections[0]).first, 0);
        assert_eq!(hashes(&sections[sections.len() - 1]).last, u64::MAX);
        for pair in sections.windows(2) {
            assert!(hashes(&pair[1]).first <= hashes(&pair[0]).last.saturating_add(1));
        }
    }
    let sections = snapshot(&mut lists, Encoding::Native, 0);
    // A subtask that owns half of the hashes needs only sections that have some of them.
    for range in [
        HashRange {
            first: 0,
            last: u64::MAX / 2,
        },
        HashRange {
            first: u64::MAX / 2 + 1,
            last: u64::MAX,
        },
    ] {
        let mut half = ListState::<u64, String>::new();
        half.open(
            "state",
            &StateSetup {
                range: Some(range),
                ..setup()
            },
        )
        .expect("opening succeeds");
        for section in sections
            .iter()
            .rev()
            .filter(|s| s.head.hashes.is_some_and(|h| h.intersection(range).is_some()))
        {
            half.restore(&section.head, &section.bytes)
                .expect("nothing changed");
        }
        for key in (0..=300).filter(|key| range.contains(at(key, 0).hash)) {
            let expected: Vec<&String> = lists.iter(at(&key, 0)).collect();
            assert!(
                half.iter(at(&key, 0)).collect::<Vec<_>>() == expected,
                "key {key}"
            );
        }
    }
}

#[test]
fn an_empty_state_has_a_section_with_its_shapes() {
    let sections = snapshot(&mut opened(ValueState::<u64, Order>::new()), Encoding::Native, 0);
    assert_eq!(
        (
            sections.len(),
            sections[0].head.records,
            sections[0].head.shapes.len()
        ),
        (1, 0, 2)
    );
    let result = restore(ValueState::<u64, changed::Order>::new(), &sections);
    assert!(
        matches!(result.err(), Some(StateError::ShapeChanged { .. })),
        "even without entries"
    );
}

#[test]
fn a_subtask_without_keys_takes_part() {
    let mut state = ValueState::<u64, Order>::new();
    state
        .open(
            "state",
            &StateSetup {
                range: None,
                ..setup()
            },
        )
        .expect("opening succeeds");
    for section in snapshot(&mut orders(), Encoding::Native, 0) {
        assert_eq!(state.restore(&section.head, &section.bytes), Ok(0));
    }
    let sections = snapshot(&mut state, Encoding::Native, 0);
    assert_eq!((sections.len(), sections[0].head.hashes), (1, None));
    assert_eq!(orders().restore(&sections[0].head, &sections[0].bytes), Ok(0));
}

#[test]
fn the_same_section_twice_is_noticed() {
    let sections = snapshot(&mut orders(), Encoding::Native, 0);
    let result = restore(
        ValueState::<u64, Order>::new(),
        &[sections[0].clone(), sections[0].clone()],
    );
    assert!(matches!(result.err(), Some(StateError::Corrupt { .. })));
}

/// Sections of every kind of keyed state, large and small collections included.
fn samples(encoding: Encoding) -> Vec<SectionBytes> {
    let mut values = opened(ValueState::<u64, (String, Option<u64>)>::new());
    let mut lists = opened(ListState::<u64, u64>::new());
    let mut maps = opened(MapState::<u64, u64, String>::new());
    let mut timers = opened(Timers::<u64>::new());
    for key in 0..30 {
        values.set(at(&key, 0), (format!("value {key}"), Some(key)));
        timers.register(at(&key, 0), key as i64);
        for number in 0..(if key == 3 { 10_000 } else { key }) {
            lists.add(at(&key, 0), number);
        }
        for number in 0..(if key == 5 { 200 } else { key }) {
            maps.insert(at(&key, 0), number, number.to_string());
        }
    }
    let mut sections = snapshot(&mut values, encoding, 0);
    sections.extend(snapshot(&mut lists, encoding, 0));
    sections.extend(snapshot(&mut maps, encoding, 0));
    sections.extend(snapshot(&mut timers, encoding, 0));
    sections
}

/// Restores what may be anything into every kind of state. The only failure is a panic, or an allocation that
/// aborts.
fn restore_everywhere(section: &SectionBytes, bytes: &[u8]) -> usize {
    let mut accepted = 0;
    accepted += usize::from(
        opened(ValueState::<u64, (String, Option<u64>)>::new())
            .restore(&section.head, bytes)
            .is_ok(),
    );
    accepted += usize::from(
        opened(ListState::<u64, u64>::new())
            .restore(&section.head, bytes)
            .is_ok(),
    );
    accepted += usize::from(
        opened(MapState::<u64, u64, String>::new())
            .restore(&section.head, bytes)
            .is_ok(),
    );
    accepted += usize::from(opened(Timers::<u64>::new()).restore(&section.head, bytes).is_ok());
    accepted
}

#[test]
fn intact_sections_are_accepted_by_their_own_kind_alone() {
    for encoding in [Encoding::Native, Encoding::Canonical] {
        for section in samples(encoding) {
            assert_eq!(
                restore_everywhere(&section, &section.bytes),
                1,
                "{:?}",
                section.head.name
            );
        }
    }
}

#[test]
fn every_truncation_is_an_error() {
    for section in samples(Encoding::Native) {
        let step = (section.bytes.len() / 200).max(1);
        for len in (0..section.bytes.len()).step_by(step) {
            assert_eq!(
                restore_everywhere(&section, &section.bytes[..len]),
                0,
                "cut to {len} bytes"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_bytes_never_panic(
        which in 0usize..8,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        early in any::<bool>(),
    ) {
        thread_local! {
            static SAMPLES: Vec<SectionBytes> =
                [Encoding::Native, Encoding::Canonical].into_iter().flat_map(samples).collect();
        }
        SAMPLES.with(|samples| {
            let section = &samples[which % samples.len()];
            let mut bytes = section.bytes.to_vec();
            // Half of the time only what comes first: head, index, the first entries.
            let end = if early { bytes.len().min(600) } else { bytes.len() };
            for (at, byte) in &damage {
                bytes[at.index(end)] = *byte;
            }
            restore_everywhere(section, &bytes);
        });
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        thread_local! {
            static SAMPLES: Vec<SectionBytes> = samples(Encoding::Native);
        }
        SAMPLES.with(|samples| {
            let mut dressed = samples[0].bytes[..8].to_vec();
            dressed.extend(&bytes);
            prop_assert_eq!(restore_everywhere(&samples[0], &bytes), 0);
            restore_everywhere(&samples[0], &dressed);
            Ok(())
        })?;
    }
}
