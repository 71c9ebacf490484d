//! A seekable log as sources meet it: partitions with offsets, each of which fills as time goes by.
//!
//! Owns the source over it: a partition is a split, its position an offset. The log itself never forgets and outlives
//! every crash.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_runtime::chain::OutBatch;
use tidegate_runtime::error::BoxError;
use tidegate_runtime::source::{
    NextSplit, Poll, PollContext, ReaderContext, Source, Split, SplitEnumerator, SplitReader,
};
use tidegate_types::codec::Record;
use tidegate_types::{CheckpointId, Nanos, SubtaskIndex};

/// Reads the partitions of a log.
pub struct LogSource<T> {
    partitions: Arc<Vec<Vec<T>>>,
    gap: Duration,
}

impl<T: Clone> LogSource<T> {
    /// A log of `count` partitions over which `records` are dealt out in turn. One record comes to each partition
    /// every `gap`.
    pub fn new(records: &[T], count: u64, gap: Duration) -> Self {
        let count = usize::try_from(count.max(1)).unwrap_or(1);
        let partition = |p| records.iter().skip(p).step_by(count).cloned().collect();
        Self {
            partitions: Arc::new((0..count).map(partition).collect()),
            gap,
        }
    }
}

/// A partition and where its reader is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSplit {
    /// Which one.
    pub partition: u64,
    /// The next record's offset.
    pub offset: u64,
}

impl Split for LogSplit {
    fn id(&self) -> String {
        format!("partition {}", self.partition)
    }
}

/// Partitions that no reader has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEnumeration {
    left: Vec<LogSplit>,
}

struct LogEnumerator(LogEnumeration);

impl SplitEnumerator<LogSplit, LogEnumeration> for LogEnumerator {
    fn next_split(&mut self, _: SubtaskIndex) -> Result<NextSplit<LogSplit>, BoxError> {
        Ok(self.0.left.pop().map_or(NextSplit::NoMore, NextSplit::Split))
    }

    fn take_over(&mut self, splits: Vec<LogSplit>) {
        self.0
            .left
            .retain(|left| splits.iter().all(|held| held.partition != left.partition));
    }

    fn snapshot(&mut self) -> Result<LogEnumeration, BoxError> {
        Ok(self.0.clone())
    }
}

impl<T: Record> Source for LogSource<T> {
    type Out = T;
    type Split = LogSplit;
    type Enumeration = LogEnumeration;

    fn enumerator(
        &self,
        restored: Option<LogEnumeration>,
    ) -> Result<Box<dyn SplitEnumerator<LogSplit, LogEnumeration>>, BoxError> {
        let all = || {
            let splits = (0..self.partitions.len() as u64).map(|partition| LogSplit { partition, offset: 0 });
            LogEnumeration {
                left: splits.collect(),
            }
        };
        Ok(Box::new(LogEnumerator(restored.unwrap_or_else(all))))
    }

    fn reader(&self, _: ReaderContext) -> Result<Box<dyn SplitReader<T, LogSplit>>, BoxError> {
        Ok(Box::new(LogReader {
            partitions: self.partitions.clone(),
            gap: self.gap,
            splits: Vec::new(),
            turn: 0,
        }))
    }
}

struct LogReader<T> {
    partitions: Arc<Vec<Vec<T>>>,
    gap: Duration,
    splits: Vec<LogSplit>,
    turn: usize,
}

impl<T: Clone> LogReader<T> {
    /// When the next record of a split is there.
    fn due(&self, split: &LogSplit) -> Nanos {
        Nanos(self.gap.as_nanos() as u64 * split.offset)
    }

    /// The next record of a split, if it is there by now.
    fn take(&mut self, at: usize, now: Nanos) -> Option<T> {
        let split = &self.splits[at];
        if self.due(split) > now {
            return None;
        }
        let record = self.partitions[split.partition as usize]
            .get(split.offset as usize)?
            .clone();
        self.splits[at].offset += 1;
        Some(record)
    }

    fn is_done(&self, split: &LogSplit) -> bool {
        split.offset >= self.partitions[split.partition as usize].len() as u64
    }
}

impl<T: Record> SplitReader<T, LogSplit> for LogReader<T> {
    fn add_split(&mut self, split: LogSplit) -> Result<(), BoxError> {
        let len = self.partitions.get(split.partition as usize).map(Vec::len);
        if len.is_none_or(|len| split.offset > len as u64) {
            return Err(format!("{} has no offset {}", split.id(), split.offset).into());
        }
        self.splits.push(split);
        Ok(())
    }

    fn poll(&mut self, out: &mut OutBatch<T>, cx: &mut PollContext<'_>) -> Result<Poll, BoxError> {
        let mut dry = 0;
        while dry < self.splits.len() {
            if out.room() == 0 || (cx.urgent)() {
                return Ok(Poll::More);
            }
            self.turn = (self.turn + 1) % self.splits.len();
            match self.take(self.turn, cx.now) {
                Some(record) => {
                    out.push(record, None);
                    dry = 0;
                }
                None => dry += 1,
            }
        }
        let splits = std::mem::take(&mut self.splits);
        self.splits = splits.into_iter().filter(|s| !self.is_done(s)).collect();
        self.turn = 0;
        let next = self.splits.iter().map(|s| self.due(s)).min();
        Ok(next.map_or(Poll::SplitsDone, |at| Poll::Wait(Some(at))))
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Vec<LogSplit>, BoxError> {
        Ok(self.splits.clone())
    }
}
