//! Checker: queues stay within their budget.
//!
//! A gate may hold what its capacity says and, since a producer looks for room before a record and not after, what
//! one record brings out at once, per channel. Restored records stand elsewhere and don't count.

/// Records beyond the capacity that a channel owns whatever the others do, and that a batch may be cut late by.
const SLACK_PER_CHANNEL: u64 = 2;

/// The highest capacity seen so far of one task's gates, and what is wrong with their fill.
#[derive(Debug, Default)]
pub struct QueueCheck {
    highest_capacity: u64,
}

impl QueueCheck {
    /// So many records stand in `channels` channels that may hold `capacity`, where one record brings out `burst` at
    /// most: what is wrong with that?
    pub fn saw(&mut self, queued: u64, capacity: u64, channels: u64, burst: u64) -> Option<String> {
        // A capacity may fall below what is queued already.
        self.highest_capacity = self.highest_capacity.max(capacity);
        let limit = self.highest_capacity + channels * (burst + SLACK_PER_CHANNEL);
        (queued > limit).then(|| {
            let capacity = self.highest_capacity;
            format!("{queued} records are queued in {channels} channels that may hold {capacity} and bursts of {burst}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_beyond_its_budget_is_told() {
        let mut check = QueueCheck::default();
        assert_eq!(check.saw(10, 10, 2, 0), None);
        assert_eq!(check.saw(14, 4, 2, 0), None, "the capacity has fallen");
        assert!(check.saw(15, 4, 2, 0).is_some());
        assert_eq!(check.saw(34, 4, 2, 10), None, "one record may bring many");
        assert!(check.saw(35, 4, 2, 10).is_some());
    }
}
