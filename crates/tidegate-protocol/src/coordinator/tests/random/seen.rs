//! What runs have seen; a test whose runs see little tests little.

use std::collections::BTreeMap;

/// How often each kind of thing happened.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Summary {
    counts: BTreeMap<&'static str, u64>,
}

impl Summary {
    pub(super) fn add(&mut self, other: &Self) {
        for (what, count) in &other.counts {
            *self.counts.entry(what).or_default() += count;
        }
    }

    pub(super) fn saw(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(super) fn is_rich(&self) -> bool {
        let all = [
            "complete",
            "aborted",
            "foreign",
            "unclear",
            "unclear but complete",
            "takeover",
            "deploy",
            "job failed",
            "savepoint",
            "suspended",
            "drained",
            "waited",
            "external phase",
            "late files",
            "retired",
            "closed",
            "subsumed",
            "expired",
        ];
        all.iter()
            .all(|what| self.counts.get(what).is_some_and(|count| *count >= 20))
    }
}
