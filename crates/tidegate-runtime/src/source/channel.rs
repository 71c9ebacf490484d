//! A source fed from this process through a handle, with ids for replay.
//!
//! The caller numbers what it sends. A snapshot holds the last number that is in it; after a restart of the process
//! the caller asks [`ChannelSender::resume_after`] and sends again what follows. Restarts within the process need
//! nothing of the caller: what no complete checkpoint holds yet is kept here and read again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use tidegate_types::codec::Record;
use tidegate_types::{CheckpointId, EventTime, SubtaskIndex};

use crate::chain::OutBatch;
use crate::error::BoxError;
use crate::signal::TaskSignal;

use super::{NextSplit, Poll, PollContext, ReaderContext, Source, Split, SplitEnumerator, SplitReader};

/// Why a record wasn't taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The job has ended, or the channel was closed.
    #[error("the channel is closed")]
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

struct Item<T> {
    id: u64,
    time: Option<EventTime>,
    record: T,
}

struct State<T> {
    /// Everything that no complete checkpoint holds, read or not, by rising id.
    items: VecDeque<Item<T>>,
    /// Items with ids up to this were read by the current reader.
    read_to: u64,
    last_sent: u64,
    resume_after: Option<u64>,
    closed: bool,
    reader: Option<Arc<TaskSignal>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    capacity: usize,
}

/// The sending end. Cheap to clone.
pub struct ChannelSender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for ChannelSender<T> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

/// The source end.
pub struct ChannelSource<T> {
    shared: Arc<Shared<T>>,
}

impl<T: Record> ChannelSource<T> {
    /// A channel that keeps at most `capacity` records which no complete checkpoint holds. A sender waits beyond
    /// that, so it must be larger than what is sent between two checkpoints.
    pub fn with_capacity(capacity: usize) -> (ChannelSender<T>, Self) {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                items: VecDeque::new(),
                read_to: 0,
                last_sent: 0,
                resume_after: None,
                closed: false,
                reader: None,
            }),
            changed: Condvar::new(),
            capacity: capacity.max(1),
        });
        (
            ChannelSender {
                shared: shared.clone(),
            },
            Self { shared },
        )
    }
}

impl<T: Record> ChannelSender<T> {
    /// Sends a record under an id above all earlier ones (the first is at least 1). Waits while the channel is
    /// full. A record that the restored snapshot holds is dropped.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send(&self, id: u64, record: T) -> Result<(), SendError> {
        self.send_at(id, None, record)
    }

    /// Sends a record with its event time.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send_at(&self, id: u64, time: Option<EventTime>, record: T) -> Result<(), SendError> {
        let mut state = self.shared.state.lock();
        if id <= state.last_sent {
            return Err(SendError::NotRising {
                id,
                last: state.last_sent,
            });
        }
        while state.items.len() >= self.shared.capacity && !state.closed {
            self.shared.changed.wait(&mut state);
        }
        if state.closed {
            return Err(SendError::Closed);
        }
        state.last_sent = id;
        if id > state.read_to {
            state.items.push_back(Item { id, time, record });
            if let Some(reader) = &state.reader {
                reader.wake();
            }
        }
        Ok(())
    }

    /// The last id that the snapshot holds from which the job was restored, once its reader runs: send what follows.
    pub fn resume_after(&self) -> Option<u64> {
        self.shared.state.lock().resume_after
    }

    /// Ends the stream after what was sent.
    pub fn close(&self) {
        let mut state = self.shared.state.lock();
        state.closed = true;
        self.shared.changed.notify_all();
        if let Some(reader) = &state.reader {
            reader.wake();
        }
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

struct One {
    assigned: bool,
}

impl SplitEnumerator<ChannelSplit, bool> for One {
    fn next_split(&mut self, _: SubtaskIndex) -> Result<NextSplit<ChannelSplit>, BoxError> {
        if std::mem::replace(&mut self.assigned, true) {
            return Ok(NextSplit::NoMore);
        }
        Ok(NextSplit::Split(ChannelSplit { read_to: 0 }))
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
        }))
    }

    fn reader(&self, cx: ReaderContext) -> Result<Box<dyn SplitReader<T, ChannelSplit>>, BoxError> {
        Ok(Box::new(ChannelReader {
            shared: self.shared.clone(),
            signal: cx.signal,
            split: None,
            at_checkpoint: BTreeMap::new(),
        }))
    }
}

struct ChannelReader<T> {
    shared: Arc<Shared<T>>,
    signal: Arc<TaskSignal>,
    split: Option<ChannelSplit>,
    at_checkpoint: BTreeMap<CheckpointId, u64>,
}

impl<T: Record> SplitReader<T, ChannelSplit> for ChannelReader<T> {
    fn add_split(&mut self, split: ChannelSplit) -> Result<(), BoxError> {
        let mut state = self.shared.state.lock();
        state.read_to = split.read_to;
        state.resume_after = Some(split.read_to);
        while state.items.front().is_some_and(|i| i.id <= split.read_to) {
            state.items.pop_front();
        }
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
        let mut state = self.shared.state.lock();
        while state.items.front().is_some_and(|i| i.id <= read_to) {
            state.items.pop_front();
        }
        self.shared.changed.notify_all();
        Ok(())
    }
}
