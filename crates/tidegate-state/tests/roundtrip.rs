//! The first value of each type goes through its encoding and back before anything depends on it: a type whose
//! `Serialize` and `Deserialize` disagree is refused by uid, state and field, in every kind of state.

mod support;

use serde::{Deserialize, Deserializer, Serialize};
use support::{at, cut, finish, opened, setup};
use tidegate_state::{
    BroadcastState, KeyedTable, ListState, MapState, OperatorListState, OperatorState, StateError, ValueState,
};
use tidegate_types::snapshot::Encoding;

/// Comes back as another number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Liar {
    id: u64,
    amounts: Vec<Amount>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Amount(u64);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename = "Amount")]
        struct Stored(u64);
        let Stored(number) = Stored::deserialize(deserializer)?;
        // Small ones survive, so what the type is tried with in advance doesn't give it away.
        Ok(Self(if number < 1_000 { number } else { number + 1 }))
    }
}

fn liar() -> Liar {
    Liar {
        id: 7,
        amounts: vec![Amount(1), Amount(5_000)],
    }
}

fn assert_refused(error: &StateError) {
    assert!(matches!(error, StateError::Encode { .. }), "{error:?}");
    let text = error.to_string();
    for part in ["\"operator\"", "\"state\"", "Liar", "`.amounts[1]`"] {
        assert!(text.contains(part), "{part} isn't in {text:?}");
    }
}

#[test]
fn keyed_states_are_refused_by_uid_state_and_field() {
    for encoding in [Encoding::Native, Encoding::Canonical] {
        let mut value = opened(ValueState::new());
        value.set(at(&1, 0), liar());
        let mut list = opened(ListState::new());
        list.add(at(&1, 0), liar());
        let mut map = opened(MapState::new());
        map.insert(at(&1, 0), 3u8, liar());
        let states: [&mut dyn KeyedTable<u64>; 3] = [&mut value, &mut list, &mut map];
        for state in states {
            state.cut(cut(1, encoding, 0));
            assert_refused(&finish(state).expect_err("the value doesn't survive"));
        }
    }
}

#[test]
fn operator_states_are_refused_by_uid_state_and_field() {
    for encoding in [Encoding::Native, Encoding::Canonical] {
        let mut list = OperatorListState::split();
        let mut broadcast = BroadcastState::new();
        list.open("state", &setup()).expect("opens");
        broadcast.open("state", &setup()).expect("opens");
        list.add(liar());
        broadcast.insert(3u8, liar());
        let states: [&mut dyn OperatorState; 2] = [&mut list, &mut broadcast];
        for state in states {
            state.cut(cut(1, encoding, 0));
            let snapshot = state.take_finished().expect("operator states are cut at once");
            assert_refused(&snapshot.into_sections().expect_err("the value doesn't survive"));
        }
    }
}

/// By position it survives, by name it doesn't.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct OneWay {
    #[serde(rename(serialize = "out", deserialize = "in"))]
    number: u64,
}

#[test]
fn what_only_a_savepoint_cant_hold_fails_the_savepoint_alone() {
    let mut state = opened(ValueState::new());
    state.set(at(&1, 0), OneWay { number: 5 });
    state.cut(cut(1, Encoding::Native, 0));
    finish(&mut state).expect("native bytes have no names");
    state.cut(cut(2, Encoding::Canonical, 0));
    let error = finish(&mut state).expect_err("the names differ").to_string();
    assert!(error.contains("\"state\"") && error.contains("in"), "{error}");
    state.cut(cut(3, Encoding::Native, 0));
    finish(&mut state).expect("checkpoints go on");
}
