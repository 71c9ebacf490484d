//! Bytes of released formats, kept in `tests/golden`: today's program writes the same and reads them.
//!
//! A file that has to change means a new version of the section format, and stays beside the new one.

mod support;

use support::{at, opened, restore, snapshot};
use tidegate_state::{ListState, MapState, Timers, Ttl, ValueState};
use tidegate_types::snapshot::{Encoding, SectionBytes};

const TTL: Ttl = Ttl::from_millis(1000);

fn hex(bytes: &[u8]) -> String {
    let lines: Vec<String> = bytes
        .chunks(32)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        .collect();
    lines.join("\n") + "\n"
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex");
    digits.chunks(2).map(pair).collect()
}

/// Compares what was written with the file, and returns the file's content in its place.
fn golden(written: &[SectionBytes], file: &str) -> Vec<SectionBytes> {
    assert_eq!(written.len(), 1);
    let path = format!("{}/tests/golden/{file}.hex", env!("CARGO_MANIFEST_DIR"));
    let stored = std::fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!("{path}: {error}; written now:\n{}", hex(&written[0].bytes));
    });
    assert!(
        hex(&written[0].bytes) == stored,
        "{path} differs; written now:\n{}",
        hex(&written[0].bytes)
    );
    vec![SectionBytes {
        bytes: bytes(&stored).into(),
        ..written[0].clone()
    }]
}

#[test]
fn values() {
    for (encoding, file) in [
        (Encoding::Native, "value-native-1"),
        (Encoding::Canonical, "value-canonical-1"),
    ] {
        let mut state = opened(ValueState::<u64, (String, Option<u32>)>::new());
        for key in 0..3 {
            state.set(
                at(&key, 0),
                (format!("value {key}"), Some(key as u32).filter(|key| *key > 0)),
            );
        }
        let sections = golden(&snapshot(&mut state, encoding, 0), file);
        let mut read =
            restore(ValueState::<u64, (String, Option<u32>)>::new(), &sections).expect("it was released");
        assert_eq!(read.get(at(&2, 0)), Some(&("value 2".to_owned(), Some(2))));
        assert_eq!(read.len(), 3);
    }
}

#[test]
fn values_with_times() {
    let mut state = opened(ValueState::<String, u64>::with_ttl(TTL));
    state.set(at(&"early".to_owned(), 1_700_000_000_000), 1);
    state.set(at(&"late".to_owned(), 1_700_000_000_500), 2);
    let sections = golden(
        &snapshot(&mut state, Encoding::Native, 1_700_000_000_600),
        "value-ttl-native-1",
    );
    let mut read = restore(ValueState::<String, u64>::with_ttl(TTL), &sections).expect("it was released");
    assert_eq!(read.get(at(&"early".to_owned(), 1_700_000_001_000)), None);
    assert_eq!(read.get(at(&"late".to_owned(), 1_700_000_001_000)), Some(&2));
}

#[test]
fn collections_whole_and_in_parts() {
    let mut lists = opened(ListState::<u64, u16>::new());
    let mut maps = opened(MapState::<u64, u8, u8>::new());
    for number in 0..4 {
        lists.add(at(&1, 0), number);
        maps.insert(at(&1, 0), number as u8, 0);
    }
    for number in 0..60 {
        maps.insert(at(&2, 0), number, number);
    }
    let list = golden(&snapshot(&mut lists, Encoding::Native, 0), "list-native-1");
    let map = golden(&snapshot(&mut maps, Encoding::Native, 0), "map-native-1");
    let mut lists = restore(ListState::<u64, u16>::new(), &list).expect("it was released");
    let mut maps = restore(MapState::<u64, u8, u8>::new(), &map).expect("it was released");
    assert_eq!(lists.iter(at(&1, 0)).copied().collect::<Vec<u16>>(), [0, 1, 2, 3]);
    assert_eq!((maps.len(at(&1, 0)), maps.len(at(&2, 0))), (4, 60));
    assert!((0..60).all(|number| maps.get(at(&2, 0), &number) == Some(&number)));
}

#[test]
fn timers() {
    let mut timers = opened(Timers::<String>::new());
    timers.register(at(&"a".to_owned(), 0), -5);
    timers.register(at(&"a".to_owned(), 0), 1_700_000_000_000);
    timers.register(at(&"b".to_owned(), 0), 7);
    let sections = golden(&snapshot(&mut timers, Encoding::Native, 0), "timers-native-1");
    let mut read = restore(Timers::<String>::new(), &sections).expect("it was released");
    let due: Vec<i64> = std::iter::from_fn(|| read.pop_due(i64::MAX))
        .map(|due| due.time)
        .collect();
    assert_eq!(due, [-5, 7, 1_700_000_000_000]);
}
