//! What happened, as lines: all of it hashed, the tail kept.
//!
//! The same seed must give the same hash on every run and platform; that is what makes a failure repeatable. So
//! nothing that depends on addresses, hash maps or the machine may be noted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_types::Nanos;

/// Lines that are kept for a report.
const TAIL: usize = 120;

#[derive(Debug)]
struct Lines {
    hash: u64,
    count: u64,
    tail: VecDeque<String>,
    /// All of them, if somebody wants to read them.
    all: Option<Vec<String>>,
}

/// The trace of one run. Clones share it.
#[derive(Debug, Clone)]
pub struct Trace(Arc<Mutex<Lines>>);

impl Trace {
    /// An empty trace that keeps its tail, or everything.
    pub fn new(all: bool) -> Self {
        Self(Arc::new(Mutex::new(Lines {
            hash: 0xcbf2_9ce4_8422_2325,
            count: 0,
            tail: VecDeque::with_capacity(TAIL),
            all: all.then(Vec::new),
        })))
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a line.
    pub fn note(&self, now: Nanos, line: &str) {
        let mut lines = self.lines();
        lines.count += 1;
        for byte in now.0.to_le_bytes().iter().chain(line.as_bytes()) {
            lines.hash = (lines.hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let text = format!("{:>10.3} ms  {line}", now.0 as f64 / 1e6);
        if let Some(all) = &mut lines.all {
            all.push(text);
        } else {
            if lines.tail.len() == TAIL {
                lines.tail.pop_front();
            }
            lines.tail.push_back(text);
        }
    }

    /// A number that two runs share only if they did the same.
    pub fn hash(&self) -> u64 {
        self.lines().hash
    }

    /// How many lines there were.
    pub fn count(&self) -> u64 {
        self.lines().count
    }

    /// What was kept.
    pub fn kept(&self) -> Vec<String> {
        let lines = self.lines();
        match &lines.all {
            Some(all) => all.clone(),
            None => lines.tail.iter().cloned().collect(),
        }
    }
}

/// Promises that were broken, in the words of whoever noticed. Clones share the list.
#[derive(Debug, Clone, Default)]
pub struct Violations(Arc<Mutex<Vec<String>>>);

impl Violations {
    /// A promise was broken.
    pub fn note(&self, what: impl Into<String>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(what.into());
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// All of them.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_sees_lines_times_and_order_and_the_tail_is_short() {
        let hash = |lines: &[(u64, &str)]| {
            let trace = Trace::new(false);
            lines.iter().for_each(|(now, line)| trace.note(Nanos(*now), line));
            trace.hash()
        };
        assert_eq!(hash(&[(1, "a"), (2, "b")]), hash(&[(1, "a"), (2, "b")]));
        assert_ne!(hash(&[(1, "a"), (2, "b")]), hash(&[(2, "b"), (1, "a")]));
        assert_ne!(hash(&[(1, "a")]), hash(&[(2, "a")]));
        let trace = Trace::new(false);
        (0..1000).for_each(|n| trace.note(Nanos(n), &n.to_string()));
        assert_eq!((trace.kept().len(), trace.count()), (TAIL, 1000));
        assert!(trace.kept().last().is_some_and(|l| l.ends_with("999")));
    }
}
