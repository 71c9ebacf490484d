//! A durable log that a case appends to, and the source that reads it: one split per partition.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::prelude::*;
use tidegate_runtime::chain::OutBatch;
use tidegate_runtime::source::{
    NextSplit, Poll, PollContext, ReaderContext, Source, Split, SplitEnumerator, SplitReader,
};
use tidegate_types::codec::Record;
use tidegate_types::{CheckpointId, SubtaskIndex};

/// How long a reader waits before it looks for new records again.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

struct Partition<T> {
    records: Vec<T>,
    ended: bool,
}

struct Log<T> {
    partitions: Vec<Partition<T>>,
    /// Where a fresh start begins in the partitions that there are: behind what stands there.
    latest: bool,
    /// How many readers have a partition of their own from the start.
    readers: u32,
    /// Where readers began, partition by partition: for cases that look at this.
    begun: Vec<(u32, u64)>,
}

/// The log. Clones share it; it outlives every process.
pub struct Feed<T>(Arc<Mutex<Log<T>>>);

impl<T> Clone for Feed<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Record> Feed<T> {
    /// A log with so many empty partitions. Partition `i` is read by subtask `i` at first.
    pub fn new(partitions: u32) -> Self {
        let feed = Self(Arc::new(Mutex::new(Log {
            partitions: Vec::new(),
            latest: false,
            readers: partitions,
            begun: Vec::new(),
        })));
        (0..partitions).for_each(|_| feed.add_partition());
        feed
    }

    /// A log whose readers begin behind what stands there when the job first starts. A partition that turns up later
    /// is read from its beginning.
    pub fn latest(partitions: u32) -> Self {
        let feed = Self::new(partitions);
        feed.log().latest = true;
        feed
    }

    /// So many readers there are; what is beyond them goes to whoever asks first.
    pub fn set_readers(&self, readers: u32) {
        self.log().readers = readers;
    }

    fn log(&self) -> MutexGuard<'_, Log<T>> {
        self.0.lock().expect("nothing panics under this lock")
    }

    /// One more partition.
    pub fn add_partition(&self) {
        self.log().partitions.push(Partition {
            records: Vec::new(),
            ended: false,
        });
    }

    /// Appends records.
    pub fn append(&self, partition: u32, records: impl IntoIterator<Item = T>) {
        self.log().partitions[partition as usize].records.extend(records);
    }

    /// Nothing follows in this partition.
    pub fn end(&self, partition: u32) {
        self.log().partitions[partition as usize].ended = true;
    }

    /// Nothing follows anywhere.
    pub fn end_all(&self) {
        self.log().partitions.iter_mut().for_each(|p| p.ended = true);
    }

    /// Where readers began so far: partition and offset.
    pub fn begun(&self) -> Vec<(u32, u64)> {
        self.log().begun.clone()
    }

    /// Spreads records over all partitions in turn.
    pub fn deal(&self, records: impl IntoIterator<Item = T>) {
        let count = self.log().partitions.len() as u32;
        for (n, record) in records.into_iter().enumerate() {
            self.append(n as u32 % count, [record]);
        }
    }
}

/// A partition with the next offset to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedSplit {
    partition: u32,
    next: u64,
}

impl Split for FeedSplit {
    fn id(&self) -> String {
        format!("partition {}", self.partition)
    }
}

/// What isn't assigned yet, and how many partitions are known.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FeedState {
    known: u32,
    open: Vec<FeedSplit>,
}

struct FeedEnumerator<T> {
    feed: Feed<T>,
    state: FeedState,
}

impl<T: Record> FeedEnumerator<T> {
    /// Partitions that turned up are read from their beginning.
    fn discover(&mut self) {
        let count = self.feed.log().partitions.len() as u32;
        for partition in self.state.known..count {
            self.state.open.push(FeedSplit { partition, next: 0 });
        }
        self.state.known = count;
    }
}

impl<T: Record> SplitEnumerator<FeedSplit, FeedState> for FeedEnumerator<T> {
    fn next_split(&mut self, reader: SubtaskIndex) -> Result<NextSplit<FeedSplit>, BoxError> {
        self.discover();
        let own = self.state.open.iter().position(|s| s.partition == reader.0);
        // Readers ask again while they have nothing to do.
        let readers = self.feed.log().readers;
        let first = self.state.open.iter().position(|s| s.partition >= readers);
        if let Some(at) = own.or(first) {
            return Ok(NextSplit::Split(self.state.open.remove(at)));
        }
        let log = self.feed.log();
        let own = log.partitions.get(reader.0 as usize);
        let grows = log.latest && !log.partitions.iter().all(|p| p.ended);
        if own.is_none_or(|p| p.ended) && !grows {
            Ok(NextSplit::NoMore)
        } else {
            Ok(NextSplit::Later)
        }
    }

    fn take_over(&mut self, splits: Vec<FeedSplit>) {
        self.discover();
        self.state
            .open
            .retain(|open| splits.iter().all(|held| held.partition != open.partition));
    }

    fn snapshot(&mut self) -> Result<FeedState, BoxError> {
        Ok(self.state.clone())
    }
}

impl<T: Record> Source for Feed<T> {
    type Out = T;
    type Split = FeedSplit;
    type Enumeration = FeedState;

    fn enumerator(
        &self,
        restored: Option<FeedState>,
    ) -> Result<Box<dyn SplitEnumerator<FeedSplit, FeedState>>, BoxError> {
        let state = restored.unwrap_or_else(|| {
            let log = self.log();
            let start = |p: &Partition<T>| if log.latest { p.records.len() as u64 } else { 0 };
            let open: Vec<FeedSplit> = (0u32..)
                .zip(&log.partitions)
                .map(|(partition, p)| FeedSplit {
                    partition,
                    next: start(p),
                })
                .collect();
            FeedState {
                known: open.len() as u32,
                open,
            }
        });
        Ok(Box::new(FeedEnumerator {
            feed: self.clone(),
            state,
        }))
    }

    fn reader(&self, _: ReaderContext) -> Result<Box<dyn SplitReader<T, FeedSplit>>, BoxError> {
        Ok(Box::new(FeedReader {
            feed: self.clone(),
            splits: Vec::new(),
        }))
    }
}

struct FeedReader<T> {
    feed: Feed<T>,
    splits: Vec<FeedSplit>,
}

impl<T: Record> SplitReader<T, FeedSplit> for FeedReader<T> {
    fn add_split(&mut self, split: FeedSplit) -> Result<(), BoxError> {
        self.feed.log().begun.push((split.partition, split.next));
        self.splits.push(split);
        Ok(())
    }

    fn poll(&mut self, out: &mut OutBatch<T>, cx: &mut PollContext<'_>) -> Result<Poll, BoxError> {
        let log = self.feed.log();
        for split in &mut self.splits {
            let partition = &log.partitions[split.partition as usize];
            while let Some(record) = partition.records.get(split.next as usize) {
                if out.room() == 0 || (cx.urgent)() {
                    return Ok(Poll::More);
                }
                out.push(record.clone(), None);
                split.next += 1;
            }
        }
        self.splits.retain(|s| {
            let partition = &log.partitions[s.partition as usize];
            !partition.ended || s.next < partition.records.len() as u64
        });
        Ok(match self.splits.is_empty() {
            true => Poll::SplitsDone,
            false => Poll::Wait(Some(cx.now + LOOK_AGAIN)),
        })
    }

    fn takes_more(&self) -> bool {
        true
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Vec<FeedSplit>, BoxError> {
        Ok(self.splits.clone())
    }
}
