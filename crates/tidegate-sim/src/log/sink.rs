//! The two-phase sink over a topic.

use tidegate_runtime::error::BoxError;
use tidegate_runtime::operators::{Committer, Prepared, Sink, SinkContext, SinkWriter};
use tidegate_types::codec::Record;
use tidegate_types::{CheckpointId, EventTime};

use crate::checks::output::Counted;

use super::topic::{Topic, TxnId};

/// Writes a stream into a topic, exactly once.
pub struct LogSink<T: Counted> {
    topic: Topic<T>,
}

impl<T: Counted> LogSink<T> {
    /// A sink into this topic.
    pub fn new(topic: Topic<T>) -> Self {
        Self { topic }
    }
}

struct LogWriter<T: Counted> {
    topic: Topic<T>,
    next: TxnId,
    open: bool,
}

struct LogCommitter<T: Counted> {
    topic: Topic<T>,
    epoch: u64,
}

impl<T: Record + Counted> Sink<T> for LogSink<T> {
    type Committable = TxnId;

    fn writer(&self, cx: SinkContext) -> Result<Box<dyn SinkWriter<T, TxnId>>, BoxError> {
        let next = TxnId {
            epoch: cx.epoch.0,
            attempt: cx.attempt.0,
            lineage: cx.lineage,
            subtask: cx.subtask.0,
            number: 0,
        };
        Ok(Box::new(LogWriter {
            topic: self.topic.clone(),
            next,
            open: false,
        }))
    }

    fn committer(&self, cx: SinkContext) -> Result<Option<Box<dyn Committer<TxnId>>>, BoxError> {
        Ok(Some(Box::new(LogCommitter {
            topic: self.topic.clone(),
            epoch: cx.epoch.0,
        })))
    }
}

impl<T: Record + Counted> SinkWriter<T, TxnId> for LogWriter<T> {
    fn write(&mut self, record: T, _: Option<EventTime>) -> Result<(), BoxError> {
        if !self.open {
            self.topic.begin(&self.next)?;
            self.open = true;
        }
        Ok(self.topic.append(&self.next, record)?)
    }

    fn prepare(&mut self, _: CheckpointId) -> Result<Option<Prepared<TxnId>>, BoxError> {
        if !self.open {
            return Ok(None);
        }
        let txn = self.next.clone();
        self.next.number += 1;
        self.open = false;
        let topic = self.topic.clone();
        Ok(Some(Box::new(move || {
            topic.prepare(&txn)?;
            Ok(vec![txn])
        })))
    }
}

impl<T: Record + Counted> Committer<TxnId> for LogCommitter<T> {
    fn settle(&mut self, listed: Vec<TxnId>) -> Result<(), BoxError> {
        self.topic.settle(self.epoch, &listed)
    }

    fn commit(&mut self, transactions: Vec<TxnId>) -> Result<(), BoxError> {
        transactions.iter().try_for_each(|txn| self.topic.commit(txn))
    }
}
