//! A source fed from this process through a handle, with ids for replay.
//!
//! The caller numbers what it sends. A snapshot holds the last number that is in it; after a restart of the process
//! the caller asks [`ChannelSender::resume_after`] and sends again what follows. Restarts within the process need
//! nothing of the caller: what no complete checkpoint holds yet is kept here and read again.
//!
//! Complete checkpoints make room. A job without periodic ones would never have room again, so for it a full channel
//! drops what was read longest ago. Up to which id records went is remembered: a start that would need one is an error
//! ([`DroppedRecords`]), never a gap.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use tidegate_types::codec::Record;
use tidegate_types::{CheckpointId, EventTime, SubtaskIndex};

use crate::chain::OutBatch;
use crate::error::{BoxError, Permanent};
use crate::signal::TaskSignal;

use super::{NextSplit, Poll, PollContext, ReaderContext, Source, Split, SplitEnumerator, SplitReader};

/// Why a record wasn't taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The job has ended in this process, or the channel was closed.
    #[error("the channel is closed, or its job has ended")]
    Closed,
    /// Ids must rise.
    #[error("id {id} is not above {last}, the last one sent")]
    NotRising {
        /// What was given.
        id: u64,
        /// What was sent last.
        last: u64,
    },
}

/// A job goes on from before records that its channel doesn't have any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the channel source can't be read again from id {from}: it doesn't keep its records {from} to {to} any more. A newer \
     checkpoint of this process held them; or the job takes no periodic checkpoints, and they were dropped to make \
     room: set `execution.checkpointing.interval`, or give the channel a capacity for all that is sent"
)]
pub struct DroppedRecords {
    /// The first id that is missing.
    pub from: u64,
    /// The last.
    pub to: u64,
}

struct Item<T> {
    id: u64,
    time: Option<EventTime>,
    record: T,
}

struct State<T> {
    /// Everything that no complete checkpoint holds, read or not, by rising id.
    items: VecDeque<Item<T>>,
    capacity: usize,
    /// Items with ids up to this were read by the current reader.
    read_to: u64,
    last_sent: u64,
    resume_after: Option<u64>,
    senders: usize,
    /// By whoever sends: the stream ends behind what was sent.
    closed: bool,
    /// The job has ended in this process, and wasn't started again.
    job_ended: bool,
    /// No checkpoint makes room by itself: what was read may go.
    drops_read: bool,
    /// Records with ids up to this aren't kept any more: a complete checkpoint held them, or they were dropped.
    gone_to: u64,
    /// Where a job begins that was started without a snapshot: behind what earlier runs have let go.
    begins_after: u64,
    reader: Option<Arc<TaskSignal>>,
}

impl<T> State<T> {
    /// Whether there is room for one more record. Makes some, if it may.
    fn has_room(&mut self) -> bool {
        if self.items.len() < self.capacity {
            return true;
        }
        let read = self.items.front().map(|i| i.id).filter(|id| *id <= self.read_to);
        match read {
            // Between two readers nobody knows what the next one needs.
            Some(id) if self.drops_read && self.reader.is_some() => {
                self.items.pop_front();
                self.gone_to = id;
                true
            }
            _ => false,
        }
    }

    /// Takes in a record for which there is room.
    fn accept(&mut self, item: Item<T>) {
        self.last_sent = item.id;
        if item.id > self.read_to {
            self.items.push_back(item);
            if let Some(reader) = &self.reader {
                reader.wake();
            }
        }
    }

    fn close(&mut self) {
        self.closed = true;
        if let Some(reader) = &self.reader {
            reader.wake();
        }
    }

    /// A complete snapshot holds what has an id up to this.
    fn forget(&mut self, read_to: u64) {
        while self.items.front().is_some_and(|i| i.id <= read_to) {
            self.items.pop_front();
        }
        self.gone_to = self.gone_to.max(read_to);
    }
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

/// The sending end. Cheap to clone. When the last clone is dropped the stream ends behind what was sent, as after
/// [`close`](Self::close).
pub struct ChannelSender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for ChannelSender<T> {
    fn clone(&self) -> Self {
        self.shared.state.lock().senders += 1;
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<T> Drop for ChannelSender<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.senders -= 1;
        if state.senders == 0 {
            state.close();
        }
    }
}

/// The source end.
pub struct ChannelSource<T> {
    shared: Arc<Shared<T>>,
}

impl<T: Record> ChannelSource<T> {
    /// A channel that keeps at most `capacity` records, read or not, for a restart. Complete checkpoints make room; a
    /// sender waits while there is none, so the capacity must be larger than what is sent between two checkpoints.
    ///
    /// A job without `execution.checkpointing.interval` takes no checkpoints by itself. For it a full channel drops
    /// the records that were read longest ago, and a sender waits only while none has been read. If such a job fails
    /// and restarts, or goes on from a savepoint, and needs what was dropped, it ends with [`DroppedRecords`].
    pub fn with_capacity(capacity: usize) -> (ChannelSender<T>, Self) {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                items: VecDeque::new(),
                capacity: capacity.max(1),
                read_to: 0,
                last_sent: 0,
                resume_after: None,
                senders: 1,
                closed: false,
                job_ended: false,
                drops_read: false,
                gone_to: 0,
                begins_after: 0,
                reader: None,
            }),
            changed: Condvar::new(),
        });
        let sender = ChannelSender {
            shared: shared.clone(),
        };
        (sender, Self { shared })
    }
}

impl<T: Record> ChannelSender<T> {
    /// Sends a record under an id above all earlier ones (the first is at least 1), by whichever clone. Waits while the
    /// channel is full. A record that the restored snapshot holds is dropped.
    ///
    /// # Errors
    /// [`SendError`]. A job that ends, for whatever reason, closes the channel until it is started again.
    pub fn send(&self, id: u64, record: T) -> Result<(), SendError> {
        self.send_at(id, None, record)
    }

    /// Sends a record with its event time.
    ///
    /// # Errors
    /// See [`send`](Self::send).
    pub fn send_at(&self, id: u64, time: Option<EventTime>, record: T) -> Result<(), SendError> {
        let mut state = self.shared.state.lock();
        loop {
            // All of it again after every wait: others have sent meanwhile.
            if state.closed || state.job_ended {
                return Err(SendError::Closed);
            }
            if id <= state.last_sent {
                let last = state.last_sent;
                return Err(SendError::NotRising { id, last });
            }
            if id <= state.read_to || state.has_room() {
                state.accept(Item { id, time, record });
                return Ok(());
            }
            self.shared.changed.wait(&mut state);
        }
    }

    /// The last id that the snapshot holds from which the job was restored, once its reader runs: send what follows.
    pub fn resume_after(&self) -> Option<u64> {
        self.shared.state.lock().resume_after
    }

    /// Ends the stream after what was sent, for all clones.
    pub fn close(&self) {
        self.shared.state.lock().close();
        self.shared.changed.notify_all();
    }
}

/// The position of the one reader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelSplit {
    read_to: u64,
}

impl Split for ChannelSplit {
    fn id(&self) -> String {
        "channel".to_owned()
    }
}

struct One<T> {
    assigned: bool,
    shared: Arc<Shared<T>>,
}

impl<T: Record> SplitEnumerator<ChannelSplit, bool> for One<T> {
    fn next_split(&mut self, _: SubtaskIndex) -> Result<NextSplit<ChannelSplit>, BoxError> {
        if std::mem::replace(&mut self.assigned, true) {
            return Ok(NextSplit::NoMore);
        }
        let read_to = self.shared.state.lock().begins_after;
        Ok(NextSplit::Split(ChannelSplit { read_to }))
    }

    fn take_over(&mut self, splits: Vec<ChannelSplit>) {
        self.assigned |= !splits.is_empty();
    }

    fn snapshot(&mut self) -> Result<bool, BoxError> {
        Ok(self.assigned)
    }
}

impl<T: Record> Source for ChannelSource<T> {
    type Out = T;
    type Split = ChannelSplit;
    type Enumeration = bool;

    fn enumerator(
        &self,
        restored: Option<bool>,
    ) -> Result<Box<dyn SplitEnumerator<ChannelSplit, bool>>, BoxError> {
        Ok(Box::new(One {
            assigned: restored.unwrap_or(false),
            shared: self.shared.clone(),
        }))
    }

    fn reader(&self, cx: ReaderContext) -> Result<Box<dyn SplitReader<T, ChannelSplit>>, BoxError> {
        Ok(Box::new(ChannelReader {
            shared: self.shared.clone(),
            signal: cx.signal,
            drops_read: !cx.periodic_checkpoints,
            split: None,
            at_checkpoint: BTreeMap::new(),
        }))
    }

    fn job_starts(&self) {
        let mut state = self.shared.state.lock();
        if std::mem::replace(&mut state.job_ended, false) {
            state.begins_after = state.gone_to;
            state.resume_after = None;
        }
    }

    fn job_ended(&self) {
        self.shared.state.lock().job_ended = true;
        self.shared.changed.notify_all();
    }
}

impl<T> Drop for ChannelSource<T> {
    /// It got into no job, or its job's graph is gone: nothing will be read.
    fn drop(&mut self) {
        self.shared.state.lock().job_ended = true;
        self.shared.changed.notify_all();
    }
}

struct ChannelReader<T> {
    shared: Arc<Shared<T>>,
    signal: Arc<TaskSignal>,
    drops_read: bool,
    split: Option<ChannelSplit>,
    at_checkpoint: BTreeMap<CheckpointId, u64>,
}

impl<T> Drop for ChannelReader<T> {
    /// A task that hung may let go of its reader long after the next one came.
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if state
            .reader
            .as_ref()
            .is_some_and(|now| Arc::ptr_eq(now, &self.signal))
        {
            state.reader = None;
        }
    }
}

impl<T: Record> SplitReader<T, ChannelSplit> for ChannelReader<T> {
    fn add_split(&mut self, split: ChannelSplit) -> Result<(), BoxError> {
        let mut state = self.shared.state.lock();
        if split.read_to < state.gone_to {
            let from = split.read_to + 1;
            let to = state.gone_to;
            return Err(Permanent::boxed(DroppedRecords { from, to }));
        }
        state.read_to = split.read_to;
        state.resume_after = Some(split.read_to);
        state.drops_read = self.drops_read;
        state.forget(split.read_to);
        state.reader = Some(self.signal.clone());
        self.shared.changed.notify_all();
        self.split = Some(split);
        Ok(())
    }

    fn poll(&mut self, out: &mut OutBatch<T>, _: &mut PollContext<'_>) -> Result<Poll, BoxError> {
        let Some(split) = &mut self.split else {
            return Ok(Poll::SplitsDone);
        };
        let mut state = self.shared.state.lock();
        let from = state.items.partition_point(|i| i.id <= split.read_to);
        for item in state.items.range(from..).take(out.room()) {
            out.push(item.record.clone(), item.time);
            split.read_to = item.id;
        }
        state.read_to = split.read_to;
        if state.drops_read && state.items.len() >= state.capacity {
            // What was read makes room.
            self.shared.changed.notify_all();
        }
        let drained = state.items.back().is_none_or(|i| i.id <= split.read_to);
        Ok(match (drained, state.closed) {
            (false, _) => Poll::More,
            (true, true) => {
                drop(state);
                self.split = None;
                Poll::SplitsDone
            }
            (true, false) => Poll::Wait(None),
        })
    }

    fn snapshot(&mut self, id: CheckpointId) -> Result<Vec<ChannelSplit>, BoxError> {
        if let Some(split) = &self.split {
            self.at_checkpoint.insert(id, split.read_to);
        }
        Ok(self.split.iter().cloned().collect())
    }

    fn completed(&mut self, id: CheckpointId) -> Result<(), BoxError> {
        let Some(read_to) = self.at_checkpoint.get(&id).copied() else {
            return Ok(());
        };
        self.at_checkpoint.retain(|at, _| *at > id);
        self.shared.state.lock().forget(read_to);
        self.shared.changed.notify_all();
        Ok(())
    }
}
