//! Results of a job in this process, exactly once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tidegate_runtime::error::BoxError;
use tidegate_runtime::operators::{Committer, Prepared, Sink, SinkContext, SinkWriter};
use tidegate_types::codec::Record;
use tidegate_types::{CheckpointId, EventTime, SubtaskIndex};

/// The records that a [`collect`](crate::Stream::collect) sink has committed.
pub struct Collected<T> {
    shared: Arc<Mutex<Shared<T>>>,
}

struct Shared<T> {
    records: Vec<T>,
    /// What was committed: a commit may come twice.
    done: HashSet<(CheckpointId, SubtaskIndex)>,
}

impl<T> Clone for Collected<T> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<T: Record> Collected<T> {
    pub(crate) fn new() -> Self {
        Self {
            shared: Arc::new(Mutex::new(Shared {
                records: Vec::new(),
                done: Default::default(),
            })),
        }
    }

    /// Takes what has been committed since the last call.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner).records)
    }

    /// How many records are there to be taken.
    pub fn len(&self) -> usize {
        self.shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .records
            .len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What one subtask collected up to one checkpoint. It travels in the checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Chunk<T> {
    checkpoint: CheckpointId,
    subtask: SubtaskIndex,
    records: Vec<T>,
}

pub(crate) struct CollectSink<T> {
    shared: Arc<Mutex<Shared<T>>>,
}

impl<T> CollectSink<T> {
    pub(crate) fn new(collected: &Collected<T>) -> Self {
        Self {
            shared: collected.shared.clone(),
        }
    }
}

struct CollectWriter<T> {
    subtask: SubtaskIndex,
    records: Vec<T>,
}

struct CollectCommitter<T> {
    shared: Arc<Mutex<Shared<T>>>,
}

impl<T: Record> Sink<T> for CollectSink<T> {
    type Committable = Chunk<T>;

    fn writer(&self, cx: SinkContext) -> Result<Box<dyn SinkWriter<T, Chunk<T>>>, BoxError> {
        Ok(Box::new(CollectWriter {
            subtask: cx.subtask,
            records: Vec::new(),
        }))
    }

    fn committer(&self, cx: SinkContext) -> Result<Option<Box<dyn Committer<Chunk<T>>>>, BoxError> {
        if cx.restored.is_none() {
            // Another run, whose checkpoints are counted from the beginning again.
            let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.done.clear();
        }
        Ok(Some(Box::new(CollectCommitter {
            shared: self.shared.clone(),
        })))
    }
}

impl<T: Record> SinkWriter<T, Chunk<T>> for CollectWriter<T> {
    fn write(&mut self, record: T, _: Option<EventTime>) -> Result<(), BoxError> {
        self.records.push(record);
        Ok(())
    }

    fn prepare(&mut self, id: CheckpointId) -> Result<Option<Prepared<Chunk<T>>>, BoxError> {
        if self.records.is_empty() {
            return Ok(None);
        }
        let chunk = Chunk {
            checkpoint: id,
            subtask: self.subtask,
            records: std::mem::take(&mut self.records),
        };
        Ok(Some(Box::new(move || Ok(vec![chunk]))))
    }
}

impl<T: Record> Committer<Chunk<T>> for CollectCommitter<T> {
    fn settle(&mut self, listed: Vec<Chunk<T>>) -> Result<(), BoxError> {
        self.commit(listed)
    }

    fn commit(&mut self, chunks: Vec<Chunk<T>>) -> Result<(), BoxError> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        // What no later checkpoint lists again needn't be remembered.
        let listed: HashSet<_> = chunks.iter().map(|c| (c.checkpoint, c.subtask)).collect();
        shared.done.retain(|key| listed.contains(key));
        for chunk in chunks {
            if shared.done.insert((chunk.checkpoint, chunk.subtask)) {
                shared.records.extend(chunk.records);
            }
        }
        Ok(())
    }

    fn outlives_process(&self) -> bool {
        false
    }
}
