//! The two-phase log sink with a committer that a case can stop half-way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate::prelude::*;
use tidegate_runtime::operators::{Committer, OutputLost, Sink, SinkContext, SinkWriter};
use tidegate_sim::log::{LogError, LogSink, Topic, TxnId, TxnState};

type Row = (String, u64);

/// How a committer behaves. Clones share it; it outlives processes.
#[derive(Clone)]
pub struct Commits {
    left: Arc<AtomicU64>,
    skips: Arc<AtomicBool>,
    skipped: Arc<AtomicU64>,
    settled: Arc<AtomicU64>,
}

impl Commits {
    /// Commits whatever it is asked to.
    pub fn all() -> Self {
        Self {
            left: Arc::new(AtomicU64::new(u64::MAX)),
            skips: Arc::default(),
            skipped: Arc::default(),
            settled: Arc::default(),
        }
    }

    /// Commits only so many more transactions; then every commit fails.
    pub fn only(&self, transactions: u64) {
        self.left.store(transactions, Ordering::Relaxed);
    }

    /// Passes over transactions that have expired and counts them.
    pub fn skip_expired(&self) {
        self.skips.store(true, Ordering::Relaxed);
    }

    /// Transactions passed over.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// How often sinks were settled.
    pub fn settled(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }
}

/// A [`LogSink`] whose commits a case controls.
pub struct CaseSink {
    topic: Topic<Row>,
    commits: Commits,
}

impl CaseSink {
    /// A sink into this topic.
    pub fn new(topic: &Topic<Row>, commits: &Commits) -> Self {
        Self {
            topic: topic.clone(),
            commits: commits.clone(),
        }
    }
}

impl Sink<Row> for CaseSink {
    type Committable = TxnId;

    fn writer(&self, cx: SinkContext) -> Result<Box<dyn SinkWriter<Row, TxnId>>, BoxError> {
        LogSink::new(self.topic.clone()).writer(cx)
    }

    fn committer(&self, cx: SinkContext) -> Result<Option<Box<dyn Committer<TxnId>>>, BoxError> {
        Ok(Some(Box::new(CaseCommitter {
            topic: self.topic.clone(),
            commits: self.commits.clone(),
            epoch: cx.epoch.0,
        })))
    }
}

struct CaseCommitter {
    topic: Topic<Row>,
    commits: Commits,
    epoch: u64,
}

impl CaseCommitter {
    /// Without those that may be passed over.
    fn due(&self, listed: Vec<TxnId>) -> Vec<TxnId> {
        if !self.commits.skips.load(Ordering::Relaxed) {
            return listed;
        }
        let expired = self.topic.in_state(TxnState::Expired);
        let (lost, due): (Vec<_>, Vec<_>) = listed.into_iter().partition(|t| expired.contains(t));
        self.commits
            .skipped
            .fetch_add(lost.len() as u64, Ordering::Relaxed);
        due
    }
}

/// The connector's part: it knows which of its system's errors no repetition heals.
fn lost_if_expired(error: BoxError) -> BoxError {
    match error.downcast::<LogError>() {
        Ok(expired) if matches!(*expired, LogError::Expired(_)) => Box::new(OutputLost(expired)),
        Ok(other) => other,
        Err(other) => other,
    }
}

impl Committer<TxnId> for CaseCommitter {
    fn settle(&mut self, listed: Vec<TxnId>) -> Result<(), BoxError> {
        self.commits.settled.fetch_add(1, Ordering::Relaxed);
        self.topic.settle(self.epoch, &self.due(listed))
    }

    fn commit(&mut self, transactions: Vec<TxnId>) -> Result<(), BoxError> {
        for txn in self.due(transactions) {
            let left = self.commits.left.load(Ordering::Relaxed);
            if left == 0 {
                return Err("injected: the committer stands still".into());
            }
            self.commits.left.store(left.saturating_sub(1), Ordering::Relaxed);
            self.topic.commit(&txn).map_err(lost_if_expired)?;
        }
        Ok(())
    }
}
