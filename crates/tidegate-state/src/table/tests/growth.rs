//! Growing, shrinking, reserving; types of odd sizes; hashes that someone chose.

use std::collections::BTreeMap;

use tidegate_types::key_group::HashRange;

use super::{Numbers, check, find, insert, rounds, spread};
use crate::table::BlockTable;

fn table<V>(range: HashRange) -> BlockTable<u64, V> {
    BlockTable::new(Some(range), false, 0, |key| spread(*key))
}

#[test]
fn random_inserts_and_removes_agree_with_a_map() {
    let ranges = [
        HashRange::ALL,
        HashRange {
            first: 0,
            last: u64::MAX / 3,
        },
        HashRange {
            first: 5 << 60,
            last: (6 << 60) + 12_345,
        },
        HashRange {
            first: 0xdead_beef_0000_0001,
            last: u64::MAX,
        },
    ];
    for (seed, range) in ranges.into_iter().enumerate() {
        let (mut table, mut model) = (table(range), BTreeMap::new());
        let mut numbers = Numbers(seed as u64 * 1_000_000);
        for _ in 0..rounds(20_000) {
            let key = numbers.below(rounds(6000));
            let hash = spread(key);
            if !range.contains(hash) {
                continue;
            }
            match (find(&table, hash, &key), numbers.below(3)) {
                (None, _) => {
                    model.insert(key, key * 2);
                    insert(&mut table, hash, key, key * 2);
                }
                (Some(slot), 0) => {
                    assert_eq!(
                        Some(table.remove(table.home(hash), slot, hash, false)),
                        model.remove(&key)
                    );
                }
                (Some(slot), _) => {
                    *table.get_mut(slot) += 1;
                    *model.get_mut(&key).expect("both have it") += 1;
                }
            }
        }
        check(&table, |key| spread(*key));
        let found: BTreeMap<u64, u64> = table.iter().map(|entry| (entry.key, entry.value)).collect();
        assert_eq!(found, model);
        assert!(
            found.len() as u64 > rounds(150),
            "the test did something: {}",
            found.len()
        );
    }
}

#[test]
fn types_of_any_size_and_alignment_fit() {
    #[derive(Clone, PartialEq, Debug)]
    #[repr(align(128))]
    struct Wide(u8);

    fn fill<V: Clone + PartialEq + std::fmt::Debug>(make: impl Fn(u64) -> V) {
        let mut table = BlockTable::<u64, V>::new(Some(HashRange::ALL), true, 0, |key| spread(*key));
        for key in 0..rounds(4000) {
            let slot = insert(&mut table, spread(key), key, make(key));
            table.set_stamp(slot, key as i64);
        }
        check(&table, |key| spread(*key));
        for key in 0..rounds(4000) {
            let slot = find(&table, spread(key), &key).expect("it was inserted");
            assert_eq!(table.get(slot).value, make(key));
            assert_eq!(
                std::ptr::from_ref(&table.get(slot).value).align_offset(align_of::<V>()),
                0
            );
            assert_eq!(table.stamp_ms(slot), key as i64);
        }
    }

    fill(|_| ());
    fill(|key| key as u8);
    fill(|key| (key as u32, key as u16));
    fill(|key| [key; 5]);
    fill(|key| Wide(key as u8));
    fill(|key| vec![key; 3]);
    fill(|key| [key as u8; 700]);
    fill(|key| [key as u8; 3000]);
}

#[test]
fn keys_without_size_are_one_key() {
    let mut table = BlockTable::<(), u64>::new(Some(HashRange::ALL), false, 0, |()| 7);
    insert(&mut table, 7, (), 1);
    assert!(find(&table, 7, &()).is_some());
    check(&table, |()| 7);
}

#[test]
fn a_reserved_table_splits_nothing() {
    for entries in [0, 1, rounds(1000), rounds(50_000)] {
        let range = HashRange {
            first: 3 << 61,
            last: u64::MAX,
        };
        let mut table = table(range);
        table.reserve(range, entries);
        let blocks = table.blocks.len();
        for key in (0..)
            .filter(|key| range.contains(spread(*key)))
            .take(entries as usize)
        {
            insert(&mut table, spread(key), key, ());
        }
        check(&table, |key| spread(*key));
        let split = table.blocks.len() - blocks;
        // Blocks are filled to two deviations below full: one in fifty may be fuller.
        assert!(
            f64::from(split) <= f64::from(blocks) * 0.05,
            "{split} of {blocks} blocks split"
        );
        let room = u64::from(blocks) * u64::from(BlockTable::<u64, ()>::FULL);
        assert!(room <= 3 * entries.max(150), "{room} slots for {entries}");
    }
}

#[test]
fn reserving_what_a_section_says_costs_no_more_than_its_entries_could() {
    // A narrow section of a wide table: only its part grows.
    let mut table = table::<u64>(HashRange::ALL);
    table.reserve(
        HashRange {
            first: 1 << 62,
            last: (1 << 62) + (1 << 50),
        },
        100_000,
    );
    assert!(
        table.directory.memory_bytes() < 1 << 20,
        "{} bytes",
        table.directory.memory_bytes()
    );
    check(&table, |key| spread(*key));
}

#[test]
fn hashes_chosen_to_be_alike_are_chained() {
    // The same leading 44 bits: telling them apart would take a directory of 2^44 entries.
    let hash = |key: &u64| (0xabcd_ef01_2345 << 16) | (spread(*key) & 0xfffff);
    let mut table = BlockTable::<u64, u64>::new(Some(HashRange::ALL), false, 0, hash);
    for key in 0..rounds(6000) {
        insert(&mut table, hash(&key), key, key);
    }
    check(&table, hash);
    assert!(
        table.directory.memory_bytes() < 1 << 20,
        "{} bytes",
        table.directory.memory_bytes()
    );
    for key in (0..rounds(6000)).step_by(2) {
        let slot = find(&table, hash(&key), &key).expect("it was inserted");
        assert_eq!(table.remove(table.home(hash(&key)), slot, hash(&key), true), key);
    }
    check(&table, hash);
    assert_eq!(table.len(), rounds(3000));
}

#[test]
fn equal_hashes_are_told_apart_by_the_key() {
    let mut table = BlockTable::<u64, u64>::new(Some(HashRange::ALL), false, 0, |_| 99);
    for key in 0..rounds(5000) {
        insert(&mut table, 99, key, key);
    }
    check(&table, |_| 99);
    for key in 0..rounds(5000) {
        assert_eq!(table.get(find(&table, 99, &key).expect("it is there")).value, key);
    }
    assert!(find(&table, 99, &5000).is_none());
}

#[test]
fn a_range_of_one_hash_works() {
    let range = HashRange { first: 42, last: 42 };
    let mut table = BlockTable::<u64, u64>::new(Some(range), false, 0, |_| 42);
    for key in 0..300 {
        insert(&mut table, 42, key, key);
    }
    check(&table, |_| 42);
}

#[test]
#[should_panic(expected = "this subtask owns")]
fn a_hash_of_another_subtask_is_refused() {
    table::<u64>(HashRange { first: 0, last: 1000 }).home(1001);
}

#[test]
#[should_panic(expected = "owns no keys")]
fn a_subtask_without_keys_refuses_every_hash() {
    BlockTable::<u64, u64>::new(None, false, 0, |_| 0).home(0);
}

#[test]
fn prefetching_takes_any_hash() {
    let table = table::<u64>(HashRange {
        first: 100,
        last: 200,
    });
    table.prefetch(&[0, 99, 100, 200, 201, u64::MAX]);
    BlockTable::<u64, u64>::new(None, false, 0, |_| 0).prefetch(&[0, u64::MAX]);
}
