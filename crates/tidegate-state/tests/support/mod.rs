//! What the tests share: opening a state, taking a snapshot of it, restoring it.
#![allow(dead_code, reason = "each test uses some of it")]

use tidegate_state::{Cut, Formats, KeyContext, KeyedTable, Progress, StateError, StateSetup};
use tidegate_types::CheckpointId;
use tidegate_types::codec::Key;
use tidegate_types::hash::key_hash;
use tidegate_types::key_group::HashRange;
use tidegate_types::snapshot::{Encoding, SectionBytes};

pub fn setup() -> StateSetup {
    StateSetup {
        uid: "operator".into(),
        range: Some(HashRange::ALL),
        formats: Formats::new(),
        now_ms: 0,
    }
}

pub fn opened<K, T: KeyedTable<K>>(mut state: T) -> T {
    state.open("state", &setup()).expect("opening succeeds");
    state
}

/// The context of a key at a time.
pub fn at<K: Key>(key: &K, now_ms: i64) -> KeyContext<'_, K> {
    KeyContext::new(key, key_hash(key).expect("the key has a hash"), now_ms)
}

pub fn cut(id: u64, encoding: Encoding, now_ms: i64) -> Cut {
    Cut {
        id: CheckpointId(id),
        base: None,
        encoding,
        now_ms,
    }
}

/// Sweeps to the end and takes the only finished cut.
pub fn finish<K>(state: &mut dyn KeyedTable<K>) -> Result<Vec<SectionBytes>, StateError> {
    assert_eq!(state.sweep(&mut || true), Progress::Done);
    let snapshot = state.take_finished().expect("the sweep is done");
    assert!(state.take_finished().is_none());
    snapshot.into_sections()
}

/// A snapshot of the state as it is.
pub fn snapshot<K>(state: &mut dyn KeyedTable<K>, encoding: Encoding, now_ms: i64) -> Vec<SectionBytes> {
    state.cut(cut(1, encoding, now_ms));
    finish(state).expect("everything can be encoded")
}

pub fn restore<K, T: KeyedTable<K>>(state: T, sections: &[SectionBytes]) -> Result<T, StateError> {
    let mut state = opened(state);
    for section in sections {
        state.restore(&section.head, &section.bytes)?;
    }
    Ok(state)
}
