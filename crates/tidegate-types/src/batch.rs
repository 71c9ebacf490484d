//! What flows through a channel: batches of records, and events between them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::barrier::Barrier;
use crate::ids::CheckpointId;
use crate::time::EventTime;

/// Records in columns. `times` and `hashes` are either absent or exactly as long as `values`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch<T> {
    /// The records.
    pub values: Vec<T>,
    /// Each record's event time, if the stream has any.
    pub times: Option<Vec<EventTime>>,
    /// Each record's key hash, if the edge is keyed; computed once, at the partitioner.
    pub hashes: Option<Vec<u64>>,
}

impl<T> Batch<T> {
    /// Records without time or key.
    pub fn of(values: Vec<T>) -> Self {
        Self {
            values,
            times: None,
            hashes: None,
        }
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            times: None,
            hashes: None,
        }
    }
}

/// Whether a channel takes part in the watermark minimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Activity {
    /// It holds the watermark back.
    #[default]
    Active,
    /// It doesn't, until its next record or watermark.
    Idle,
}

/// One element of a channel. Only batches count against its capacity; events always fit.
#[derive(Debug, Clone)]
pub enum Element<T> {
    /// Records.
    Batch(Arc<Batch<T>>),
    /// No record with an event time at or below this follows.
    Watermark(EventTime),
    /// The channel became idle or active again.
    Status(Activity),
    /// Divides the records before from those after a checkpoint.
    Barrier(Barrier),
    /// Stands where the barrier of a checkpoint would, which was aborted.
    Cancel(CheckpointId),
    /// The last element of a channel.
    End {
        /// Whether what is pending downstream is to be flushed: false when the job is stopped to go on later.
        drain: bool,
    },
}
