//! Entries are dropped exactly once, whatever user code does in between.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use tidegate_types::key_group::HashRange;

use super::{check, find, insert, spread};
use crate::table::BlockTable;

/// Counts how often each number was dropped.
#[derive(Clone, Default)]
struct Dropped(Rc<RefCell<Vec<u32>>>);

struct Counted {
    number: u64,
    dropped: Dropped,
    explosive: bool,
}

impl Dropped {
    fn make(&self, number: u64, explosive: bool) -> Counted {
        let mut counts = self.0.borrow_mut();
        let len = counts.len().max(number as usize + 1);
        counts.resize(len, 0);
        Counted {
            number,
            dropped: self.clone(),
            explosive,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.dropped.0.borrow_mut()[self.number as usize] += 1;
        assert!(
            !self.explosive || std::thread::panicking(),
            "drop of {} fails",
            self.number
        );
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Counted {}

#[test]
fn every_entry_is_dropped_once() {
    let dropped = Dropped::default();
    let mut table = BlockTable::new(Some(HashRange::ALL), false, 0, |key: &Counted| spread(key.number));
    let count = if cfg!(miri) { 600 } else { 3000 };
    for number in 0..count {
        let value = Box::new(dropped.make(number + count, false));
        insert(&mut table, spread(number), dropped.make(number, false), value);
    }
    assert!(
        dropped.0.borrow().iter().all(|count| *count == 0),
        "splitting drops nothing"
    );
    for number in 0..count / 3 {
        let (hash, key) = (spread(number), dropped.make(number, false));
        let slot = find(&table, hash, &key).expect("it was inserted");
        drop(table.remove(table.home(hash), slot, hash, number % 2 == 0));
    }
    drop(table);
    let counts = dropped.0.borrow();
    // A key that was looked up with was dropped as well.
    assert!(counts[..count as usize / 3].iter().all(|count| *count == 2));
    assert!(counts[count as usize / 3..].iter().all(|count| *count == 1));
}

#[test]
fn a_panicking_drop_does_not_stop_the_others() {
    let dropped = Dropped::default();
    let mut table = BlockTable::new(Some(HashRange::ALL), false, 0, |key: &u64| spread(*key));
    for number in 0..500 {
        insert(
            &mut table,
            spread(number),
            number,
            dropped.make(number, number == 250),
        );
    }
    let result = catch_unwind(AssertUnwindSafe(|| drop(table)));
    assert!(result.is_err(), "the panic goes through");
    assert!(
        dropped.0.borrow().iter().all(|count| *count == 1),
        "the others are dropped all the same"
    );
}

#[test]
fn a_panicking_hasher_leaves_the_table_whole() {
    thread_local! {
        static FAILS: RefCell<bool> = const { RefCell::new(false) };
    }
    fn hash(key: &Counted) -> u64 {
        assert!(
            !FAILS.with_borrow(|fails| *fails),
            "this key has no hash any more"
        );
        spread(key.number)
    }
    let dropped = Dropped::default();
    let mut table = BlockTable::new(Some(HashRange::ALL), false, 0, hash);
    for number in 0..500 {
        insert(&mut table, spread(number), dropped.make(number, false), number);
    }
    FAILS.set(true);
    let mut number = 500;
    let failed = loop {
        let key = dropped.make(number, false);
        if catch_unwind(AssertUnwindSafe(|| {
            insert(&mut table, spread(number), key, number)
        }))
        .is_err()
        {
            break number;
        }
        number += 1;
    };
    FAILS.set(false);
    check(&table, |key| spread(key.number));
    assert_eq!(
        table.len(),
        failed,
        "only the entry that found no room is missing"
    );
    drop(table);
    assert!(dropped.0.borrow().iter().all(|count| *count == 1));
}

#[test]
fn a_panicking_comparison_changes_nothing() {
    #[derive(Debug)]
    struct Touchy(u64);
    impl PartialEq for Touchy {
        fn eq(&self, other: &Self) -> bool {
            assert!(self.0 != 77 || other.0 != 77, "77 can't be compared");
            self.0 == other.0
        }
    }
    impl Eq for Touchy {}
    let mut table = BlockTable::new(Some(HashRange::ALL), false, 0, |key: &Touchy| spread(key.0));
    for number in 0..200 {
        insert(&mut table, spread(number), Touchy(number), ());
    }
    assert!(
        catch_unwind(AssertUnwindSafe(
            || find(&table, spread(77), &Touchy(77)).is_some()
        ))
        .is_err()
    );
    assert!(find(&table, spread(78), &Touchy(78)).is_some());
    assert_eq!(table.iter().count(), 200);
}
