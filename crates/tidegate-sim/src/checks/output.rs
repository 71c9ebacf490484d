//! Checker: what sinks make visible is what a fault-free run would have put out, each record once.
//!
//! Asked at every commit, so that a doubled record is noticed where it happens and not at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// A record as the oracle counts it: what it is, and how many of them it stands for. Operators that gather may
/// put several records out as one, in portions that depend on the order of things.
pub trait Counted: Clone + Debug + Send + 'static {
    /// What is counted.
    type Key: Ord + Clone + Debug + Send;

    /// What the record is, and for how many it stands.
    fn counted(&self) -> (Self::Key, i64);
}

/// How many problems of one kind are told one by one.
const TOLD: usize = 4;

/// What is still to come of one sink's output.
#[derive(Debug)]
pub struct OutputCheck<T: Counted> {
    left: BTreeMap<T::Key, i64>,
    seen: BTreeMap<T::Key, i64>,
    at_least_once: bool,
}

impl<T: Counted> OutputCheck<T> {
    /// Exactly these records.
    pub fn exactly(expected: &[T]) -> Self {
        Self {
            left: totals(expected),
            seen: BTreeMap::new(),
            at_least_once: false,
        }
    }

    /// These records, more than once if need be, and no others.
    pub fn at_least(expected: &[T]) -> Self {
        Self {
            at_least_once: true,
            ..Self::exactly(expected)
        }
    }

    /// A record became visible: what is wrong with that?
    pub fn saw(&mut self, record: &T) -> Option<String> {
        let (key, n) = record.counted();
        let Some(left) = self.left.get_mut(&key) else {
            return Some(format!("{record:?} should never have been put out"));
        };
        *left -= n;
        *self.seen.entry(key).or_default() += n;
        (*left < 0 && !self.at_least_once).then(|| format!("{record:?} was put out more often than expected"))
    }

    /// What became visible, and how many of each.
    pub fn seen(&self) -> &BTreeMap<T::Key, i64> {
        &self.seen
    }

    /// What is missing.
    pub fn missing(&self) -> Vec<String> {
        let missing = self.left.iter().filter(|(_, left)| **left > 0);
        some_of(
            missing
                .map(|(key, left)| format!("{key:?} is missing, {left} times"))
                .collect(),
        )
    }

    /// What is wrong if it must be these records instead: the input was cut short.
    pub fn differs(&self, expected: &[T]) -> Vec<String> {
        let expected = totals(expected);
        let keys: BTreeSet<&T::Key> = expected.keys().chain(self.seen.keys()).collect();
        let differs = keys.into_iter().filter_map(|key| {
            let wanted = expected.get(key).copied().unwrap_or(0);
            let seen = self.seen.get(key).copied().unwrap_or(0);
            let right = if self.at_least_once {
                seen >= wanted
            } else {
                seen == wanted
            };
            (!right).then(|| format!("{key:?} was put out {seen} times and not {wanted}"))
        });
        some_of(differs.collect())
    }
}

/// How many of each key.
fn totals<T: Counted>(records: &[T]) -> BTreeMap<T::Key, i64> {
    let mut totals: BTreeMap<T::Key, i64> = BTreeMap::new();
    for (key, n) in records.iter().map(Counted::counted) {
        *totals.entry(key).or_default() += n;
    }
    totals
}

fn some_of(mut problems: Vec<String>) -> Vec<String> {
    if problems.len() > TOLD {
        let more = problems.len() - TOLD;
        problems.truncate(TOLD);
        problems.push(format!("and {more} more"));
    }
    problems
}

impl Counted for u64 {
    type Key = u64;

    fn counted(&self) -> (u64, i64) {
        (*self, 1)
    }
}

impl Counted for (String, u64) {
    type Key = (String, u64);

    fn counted(&self) -> ((String, u64), i64) {
        (self.clone(), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubled_foreign_and_missing_records_are_told() {
        let mut check = OutputCheck::exactly(&[1u64, 2, 2]);
        assert_eq!(check.saw(&2), None);
        assert_eq!(check.saw(&2), None);
        assert!(check.saw(&2).is_some_and(|p| p.contains("more often")));
        assert!(check.saw(&3).is_some_and(|p| p.contains("never")));
        assert_eq!(check.missing(), ["1 is missing, 1 times"]);
        assert_eq!(check.saw(&1), None);
        assert_eq!(check.missing(), Vec::<String>::new());
    }

    #[test]
    fn what_an_input_that_was_cut_short_comes_to_is_told() {
        let mut check = OutputCheck::exactly(&[1u64, 2, 3]);
        check.saw(&1);
        check.saw(&2);
        assert_eq!(check.differs(&[1, 2]), Vec::<String>::new());
        assert_eq!(
            check.differs(&[1, 3]),
            [
                "2 was put out 1 times and not 0",
                "3 was put out 0 times and not 1"
            ]
        );
    }

    #[test]
    fn at_least_once_allows_repetition_only() {
        let mut check = OutputCheck::at_least(&[1u64, 2]);
        assert_eq!((check.saw(&1), check.saw(&1)), (None, None));
        assert!(check.saw(&3).is_some());
        assert_eq!(check.missing().len(), 1);
    }
}
