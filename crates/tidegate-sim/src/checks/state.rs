//! Checker: keyed state at the end is what a replay of the whole input gives.
//!
//! Every key tells what it has seen when event time has come to its end: no record can follow, so an operator's
//! state must be complete then, in every attempt that gets so far, and whichever of them is the last.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many problems are told one by one.
const TOLD: usize = 4;

#[derive(Debug, Default)]
struct Expected {
    keys: BTreeMap<(String, u64), (i64, bool)>,
    off: bool,
}

/// What the keys of all operators must come to. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct StateCheck(Arc<Mutex<Expected>>);

impl StateCheck {
    /// These operators and keys must have seen that much, and no others anything.
    pub fn new(expected: impl IntoIterator<Item = ((String, u64), i64)>) -> Self {
        let keys = expected.into_iter().map(|(key, n)| (key, (n, false)));
        Self(Arc::new(Mutex::new(Expected {
            keys: keys.collect(),
            off: false,
        })))
    }

    fn expected(&self) -> MutexGuard<'_, Expected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The input may be cut short from here on, or come more than once: nothing is known any more.
    pub fn turn_off(&self) {
        self.expected().off = true;
    }

    /// A key of an operator has seen everything, which was this much: what is wrong with that?
    pub fn saw(&self, operator: &str, key: u64, n: i64) -> Option<String> {
        let mut expected = self.expected();
        if expected.off {
            return None;
        }
        let Some((wanted, seen)) = expected.keys.get_mut(&(operator.to_owned(), key)) else {
            return Some(format!(
                "`{operator}` has state for key {key}, which it should never have seen"
            ));
        };
        *seen = true;
        (n != *wanted)
            .then(|| format!("`{operator}`, key {key}: its state says {n} at the end and a replay {wanted}"))
    }

    /// Keys that never came to their end.
    pub fn missing(&self) -> Vec<String> {
        let expected = self.expected();
        if expected.off {
            return Vec::new();
        }
        let missing = expected.keys.iter().filter(|(_, (_, seen))| !seen);
        let told =
            missing.map(|((operator, key), _)| format!("`{operator}`, key {key}: no state at the end"));
        told.take(TOLD).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_foreign_and_missing_state_is_told() {
        let check = StateCheck::new([(("sum".to_owned(), 1), 7), (("sum".to_owned(), 2), 5)]);
        assert_eq!(check.saw("sum", 1, 7), None);
        assert_eq!(check.saw("sum", 1, 7), None, "another attempt may get there too");
        assert!(check.saw("sum", 1, 8).is_some_and(|p| p.contains("a replay 7")));
        assert!(check.saw("sum", 3, 1).is_some_and(|p| p.contains("never")));
        assert!(check.saw("max", 1, 7).is_some());
        assert_eq!(check.missing(), ["`sum`, key 2: no state at the end"]);
        check.turn_off();
        assert_eq!((check.saw("sum", 1, 8), check.missing()), (None, Vec::new()));
    }
}
