//! Tests of the table by itself: marks against a model, drops, panics of user code, odd types and hostile
//! hashes.

mod drops;
mod growth;
mod marks;

use tidegate_types::key_group::HashRange;

use super::{BlockTable, Slot};

/// Spreads numbers over all hashes (the finaliser of splitmix64).
fn spread(key: u64) -> u64 {
    let mut z = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Fewer rounds under Miri, which is some hundred times slower.
fn rounds(many: u64) -> u64 {
    if cfg!(miri) { many / 20 } else { many }
}

/// A repeatable sequence.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        spread(self.0)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Inserts a key that isn't there, into a table whose blocks are owed to nobody.
fn insert<K: Eq, V>(table: &mut BlockTable<K, V>, hash: u64, mut key: K, mut value: V) -> Slot {
    loop {
        match table.insert(table.home(hash), hash, key, value) {
            Ok(slot) => return slot,
            Err(full) => (key, value) = (full.key, full.value),
        }
        table.make_room(hash);
    }
}

fn find<K: Eq, V>(table: &BlockTable<K, V>, hash: u64, key: &K) -> Option<Slot> {
    table.find(table.home(hash), hash, key)
}

/// Every entry is found by its hash, stands in the block its hash leads to, and is counted.
fn check<K: Eq, V>(table: &BlockTable<K, V>, hash: impl Fn(&K) -> u64) {
    let (mut seen, mut before) = (0, None::<HashRange>);
    let mut at = Some(0);
    while let Some(position) = at {
        let (home, next) = table.step(position);
        let hashes = table.hashes_at(position);
        match before {
            Some(before) => assert_eq!(
                before.last.checked_add(1),
                Some(hashes.first),
                "blocks follow each other"
            ),
            None => assert_eq!(Some(hashes.first), table.range().map(|range| range.first)),
        }
        for slot in table.slots_of(home) {
            let entry = table.get(slot);
            let hash = hash(&entry.key);
            assert!(hashes.contains(hash), "an entry stands in the block of its hash");
            assert!(find(table, hash, &entry.key) == Some(slot));
            seen += 1;
        }
        (before, at) = (Some(hashes), next);
    }
    assert_eq!(
        before.map(|hashes| hashes.last),
        table.range().map(|range| range.last)
    );
    assert_eq!(seen, table.len());
    assert_eq!(table.iter().count() as u64, table.len());
}
