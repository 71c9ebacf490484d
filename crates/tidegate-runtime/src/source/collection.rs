//! A source over records in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_types::codec::Record;
use tidegate_types::{CheckpointId, SubtaskIndex};

use crate::chain::OutBatch;
use crate::error::BoxError;

use super::{NextSplit, Poll, PollContext, ReaderContext, Source, Split, SplitEnumerator, SplitReader};

/// Records that one split holds at most, so that several readers share the work.
const SPLIT_RECORDS: u64 = 4096;

/// Emits the records of a collection, once, in order per reader.
pub struct CollectionSource<T> {
    records: Arc<Vec<T>>,
    split: u64,
}

impl<T> CollectionSource<T> {
    /// All of `records`.
    pub fn new(records: Vec<T>) -> Self {
        let split = (records.len() as u64).div_ceil(16).clamp(1, SPLIT_RECORDS);
        Self {
            records: Arc::new(records),
            split,
        }
    }

    /// Gives each reader so many records at a time.
    #[must_use]
    pub fn with_split_size(self, records: u64) -> Self {
        Self {
            split: records.max(1),
            ..self
        }
    }
}

/// A stretch of numbered records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeSplit {
    /// The next one.
    pub next: u64,
    /// Behind the last one.
    pub end: u64,
}

impl Split for RangeSplit {
    fn id(&self) -> String {
        format!("records up to {}", self.end)
    }
}

/// Which numbered records weren't handed out yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeEnumeration {
    next: u64,
    returned: Vec<RangeSplit>,
}

/// Hands out numbered records, a stretch per request.
pub(super) struct RangeEnumerator {
    state: RangeEnumeration,
    /// Behind the last record; `None` if they never end.
    end: Option<u64>,
    split: u64,
}

impl RangeEnumerator {
    pub(super) fn new(restored: Option<RangeEnumeration>, end: Option<u64>, split: u64) -> Self {
        let state = restored.unwrap_or(RangeEnumeration {
            next: 0,
            returned: Vec::new(),
        });
        Self {
            state,
            end,
            split: split.max(1),
        }
    }
}

impl SplitEnumerator<RangeSplit, RangeEnumeration> for RangeEnumerator {
    fn next_split(&mut self, _: SubtaskIndex) -> Result<NextSplit<RangeSplit>, BoxError> {
        if let Some(split) = self.state.returned.pop() {
            return Ok(NextSplit::Split(split));
        }
        let next = self.state.next;
        let end = next.saturating_add(self.split).min(self.end.unwrap_or(u64::MAX));
        if next >= end {
            return Ok(NextSplit::NoMore);
        }
        self.state.next = end;
        Ok(NextSplit::Split(RangeSplit { next, end }))
    }

    fn take_over(&mut self, splits: Vec<RangeSplit>) {
        for held in splits {
            let state = &mut self.state;
            // What lies between was handed out too, and got lost or is another reader's and follows here.
            if held.end > state.next {
                state.returned.push(RangeSplit {
                    next: state.next,
                    end: held.end,
                });
                state.next = held.end;
            }
            let free = std::mem::take(&mut state.returned);
            let rest = free.into_iter().flat_map(|free| {
                let before = RangeSplit {
                    next: free.next,
                    end: free.end.min(held.next),
                };
                let behind = RangeSplit {
                    next: free.next.max(held.end),
                    end: free.end,
                };
                [before, behind]
            });
            state.returned = rest.filter(|r| r.next < r.end).collect();
        }
    }

    fn snapshot(&mut self) -> Result<RangeEnumeration, BoxError> {
        Ok(self.state.clone())
    }
}

impl<T: Record> Source for CollectionSource<T> {
    type Out = T;
    type Split = RangeSplit;
    type Enumeration = RangeEnumeration;

    fn enumerator(
        &self,
        restored: Option<RangeEnumeration>,
    ) -> Result<Box<dyn SplitEnumerator<RangeSplit, RangeEnumeration>>, BoxError> {
        Ok(Box::new(RangeEnumerator::new(
            restored,
            Some(self.records.len() as u64),
            self.split,
        )))
    }

    fn reader(&self, _: ReaderContext) -> Result<Box<dyn SplitReader<T, RangeSplit>>, BoxError> {
        Ok(Box::new(CollectionReader {
            records: self.records.clone(),
            splits: VecDeque::new(),
        }))
    }
}

struct CollectionReader<T> {
    records: Arc<Vec<T>>,
    splits: VecDeque<RangeSplit>,
}

impl<T: Record> SplitReader<T, RangeSplit> for CollectionReader<T> {
    fn add_split(&mut self, split: RangeSplit) -> Result<(), BoxError> {
        if split.end > self.records.len() as u64 {
            return Err(format!(
                "the restored position reaches to record {} and the collection has {}: it isn't the same collection",
                split.end,
                self.records.len()
            )
            .into());
        }
        self.splits.push_back(split);
        Ok(())
    }

    fn poll(&mut self, out: &mut OutBatch<T>, _: &mut PollContext<'_>) -> Result<Poll, BoxError> {
        while let Some(split) = self.splits.front_mut() {
            let room = out.room() as u64;
            if room == 0 {
                return Ok(Poll::More);
            }
            let to = split.end.min(split.next + room);
            for record in &self.records[split.next as usize..to as usize] {
                out.push(record.clone(), None);
            }
            split.next = to;
            if split.next == split.end {
                self.splits.pop_front();
            }
        }
        Ok(Poll::SplitsDone)
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Vec<RangeSplit>, BoxError> {
        Ok(self.splits.iter().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(mut enumerator: RangeEnumerator) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let NextSplit::Split(split) = enumerator.next_split(SubtaskIndex(0)).expect("it can't fail") {
            numbers.extend(split.next..split.end);
        }
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn ranges_that_readers_hold_are_not_handed_out_again() {
        let range = |next, end| RangeSplit { next, end };
        for held in [
            vec![],
            vec![range(0, 3)],
            vec![range(9, 12), range(3, 6)],
            vec![range(3, 6), range(9, 12), range(6, 9), range(0, 3)],
            vec![range(12, 14)],
        ] {
            let mut enumerator = RangeEnumerator::new(None, Some(14), 3);
            enumerator.take_over(held.clone());
            let state = enumerator.snapshot().expect("it can't fail");
            let taken = |n: &u64| held.iter().any(|h| (h.next..h.end).contains(n));
            let expected: Vec<u64> = (0..14).filter(|n| !taken(n)).collect();
            assert_eq!(free(enumerator), expected, "{held:?}");
            assert_eq!(
                free(RangeEnumerator::new(Some(state), Some(14), 3)),
                expected,
                "{held:?}"
            );
        }
    }
}
