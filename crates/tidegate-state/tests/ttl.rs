//! Time-to-live: what is seen, what is cleaned up and when, what a snapshot has.

mod support;

use std::time::Duration;

use support::{at, cut, finish, opened, restore, snapshot};
use tidegate_state::{KeyedTable, ListState, MapState, Ttl, TtlUpdate, TtlVisibility, ValueState};
use tidegate_types::snapshot::Encoding;

const TTL: Ttl = Ttl::from_millis(100);

#[test]
fn a_value_expires_after_its_last_write() {
    let mut state = opened(ValueState::<u64, u64>::with_ttl(TTL));
    state.set(at(&1, 0), 10);
    assert_eq!(state.get(at(&1, 99)), Some(&10));
    // Reading didn't help; writing does.
    state.update(at(&1, 99), |value| *value += 1);
    assert_eq!(state.get(at(&1, 198)), Some(&11));
    assert_eq!(state.get(at(&1, 199)), None);
    assert_eq!(state.len(), 0, "the access cleaned it up");
    assert_eq!(state.get_mut(at(&1, 199)), None);
    state.update(at(&1, 200), |value| *value += 1);
    assert_eq!(
        state.get(at(&1, 200)),
        Some(&1),
        "an expired value is no start for a new one"
    );
}

#[test]
fn reads_count_if_asked() {
    let mut state = opened(ValueState::<u64, u64>::with_ttl(
        TTL.update(TtlUpdate::OnReadAndWrite),
    ));
    state.set(at(&1, 0), 10);
    for now in [90, 180, 270] {
        assert_eq!(state.get(at(&1, now)), Some(&10));
    }
    assert_eq!(state.get(at(&1, 370)), None);
}

#[test]
fn a_read_that_counts_is_a_write_to_snapshots() {
    let ttl = TTL.update(TtlUpdate::OnReadAndWrite);
    let mut state = opened(ValueState::<u64, u64>::with_ttl(ttl));
    state.set(at(&1, 0), 10);
    state.cut(cut(1, Encoding::Native, 50));
    assert_eq!(state.get(at(&1, 50)), Some(&10));
    let sections = finish(&mut state).expect("it can be encoded");
    let mut restored = restore(ValueState::<u64, u64>::with_ttl(ttl), &sections).expect("nothing changed");
    assert_eq!(
        restored.get(at(&1, 100)),
        None,
        "the snapshot has the time at its cut"
    );
    assert_eq!(state.get(at(&1, 100)), Some(&10));
}

#[test]
fn expired_values_can_be_seen_until_they_are_cleaned_up() {
    let ttl = TTL.visibility(TtlVisibility::ReturnExpiredIfNotCleanedUp);
    let mut state = opened(ValueState::<u64, u64>::with_ttl(ttl));
    state.set(at(&1, 0), 10);
    assert_eq!(state.get(at(&1, 500)), Some(&10));
    // A snapshot cleans up on its way.
    let sections = snapshot(&mut state, Encoding::Native, 500);
    assert_eq!(sections[0].head.records, 0);
    assert_eq!(state.get(at(&1, 500)), None);
}

#[test]
fn a_snapshot_has_what_lived_at_its_cut() {
    let mut state = opened(ValueState::<u64, u64>::with_ttl(TTL));
    for key in 0..1000 {
        state.set(at(&key, key as i64 / 2), key);
    }
    state.cut(cut(1, Encoding::Native, 550));
    // Written after the cut, before their blocks are swept: the snapshot has the older time and no revived key.
    state.set(at(&950, 560), 0);
    state.set(at(&100, 560), 0);
    let sections = finish(&mut state).expect("it can be encoded");
    assert_eq!(sections[0].head.records, 98);
    let mut restored = restore(ValueState::<u64, u64>::with_ttl(TTL), &sections).expect("nothing changed");
    assert_eq!(restored.get(at(&950, 574)), Some(&950));
    assert_eq!(restored.get(at(&950, 575)), None, "times are restored");
    assert_eq!(restored.get(at(&100, 560)), None);
    assert_eq!(state.len(), 99, "the sweep cleaned up what the cut didn't want");
}

#[test]
fn a_full_block_drops_what_has_expired_before_it_grows() {
    let mut state = opened(ValueState::<u64, u64>::with_ttl(TTL));
    // At any time 1,000 values live; without cleaning up there would be 200,000.
    for key in 0..200_000 {
        state.set(at(&key, key as i64 / 10), key);
    }
    let most = state.metrics();
    assert!(most.entries < 4000, "{} entries", most.entries);
    assert!(most.table_bytes < 1 << 20, "{} bytes", most.table_bytes);
}

#[test]
fn time_to_live_can_come_and_go_between_programs() {
    let mut without = opened(ValueState::<u64, u64>::new());
    without.set(at(&1, 0), 10);
    let sections = snapshot(&mut without, Encoding::Native, 0);
    let mut with = ValueState::<u64, u64>::with_ttl(TTL);
    let setup = tidegate_state::StateSetup {
        now_ms: 1000,
        ..support::setup()
    };
    with.open("state", &setup).expect("opening succeeds");
    with.restore(&sections[0].head, &sections[0].bytes)
        .expect("nothing changed");
    assert_eq!(
        with.get(at(&1, 1099)),
        Some(&10),
        "its time begins at the restore"
    );
    assert_eq!(with.get(at(&1, 1100)), None);

    with.set(at(&2, 2000), 20);
    let sections = snapshot(&mut with, Encoding::Native, 2000);
    let mut without = restore(ValueState::<u64, u64>::new(), &sections).expect("nothing changed");
    assert_eq!(without.get(at(&2, i64::MAX)), Some(&20));
}

#[test]
fn large_collections_expire_whole() {
    let mut lists = opened(ListState::<u64, u64>::with_ttl(TTL));
    let mut maps = opened(MapState::<u64, u64, u64>::with_ttl(TTL));
    for number in 0..20_000 {
        lists.add(at(&1, 0), number);
    }
    for number in 0..500 {
        maps.insert(at(&1, 0), number, number);
    }
    // A write starts the whole collection's time anew.
    lists.add(at(&1, 90), 20_000);
    *maps.get_mut(at(&1, 90), &7).expect("it lives") = 0;
    assert_eq!((lists.len(at(&1, 189)), maps.len(at(&1, 189))), (20_001, 500));

    // One cut that has them, one that doesn't any more.
    for (id, now, records) in [(1, 100, true), (2, 190, false)] {
        lists.cut(cut(id, Encoding::Native, now));
        maps.cut(cut(id, Encoding::Native, now));
        let (list, map) = (
            finish(&mut lists).expect("encodes"),
            finish(&mut maps).expect("encodes"),
        );
        assert_eq!(
            (list[0].head.records > 0, map[0].head.records > 0),
            (records, records),
            "cut {id}"
        );
        let mut lists = restore(ListState::<u64, u64>::with_ttl(TTL), &list).expect("nothing changed");
        let mut maps = restore(MapState::<u64, u64, u64>::with_ttl(TTL), &map).expect("nothing changed");
        let expected = if records { (20_001, 500) } else { (0, 0) };
        assert_eq!((lists.len(at(&1, 189)), maps.len(at(&1, 189))), expected);
        assert_eq!((lists.len(at(&1, 190)), maps.len(at(&1, 190))), (0, 0));
    }
    assert_eq!(
        (lists.keys(), maps.keys()),
        (0, 0),
        "the second sweep cleaned them up"
    );
}

#[test]
fn a_time_to_live_is_at_least_a_millisecond() {
    let ttl = Ttl::new(Duration::from_nanos(1));
    assert!(!ttl.is_expired(5, 5));
    assert!(ttl.is_expired(5, 6));
    assert!(!Ttl::new(Duration::MAX).is_expired(0, i64::MAX - 1));
}
