//! Operations that outlive the request that began them: savepoints, stops and checkpoints, by trigger id.
//!
//! Owns: what became of each, with a bound on how many are remembered. Does not own: carrying them out (the job), and
//! what they look like in JSON (`handlers::commands`).

use std::collections::{BTreeMap, VecDeque};

use tidegate_types::JobId;
use tokio::sync::watch;

use crate::ids::TriggerId;
use crate::jobs::Answer;

/// How many operations are remembered. A job has at most 32 requests waiting, so the oldest that are forgotten ended
/// long ago.
pub(crate) const LIMIT: usize = 512;

/// Which path an operation is asked about on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// `/savepoints/…`; stops with a savepoint too, as in Flink.
    Savepoint,
    /// `/checkpoints/…`
    Checkpoint,
}

impl Kind {
    /// For messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Savepoint => "savepoint",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// Names an operation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) job: JobId,
    pub(crate) kind: Kind,
    pub(crate) trigger: TriggerId,
}

/// What came of the wish to begin an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It is new: carry it out.
    New,
    /// The client asked before; that one stands.
    Already,
    /// All remembered ones are in progress.
    Full,
}

/// One operation.
#[derive(Debug, Default)]
struct Operation {
    outcome: Option<Answer>,
    /// Whether a client was told the outcome.
    fetched: bool,
}

/// All operations that are remembered.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    by_key: BTreeMap<Key, Operation>,
    /// Oldest first.
    order: VecDeque<Key>,
    /// How many are remembered whose outcome nobody was told yet.
    unfetched: watch::Sender<usize>,
}

impl Operations {
    /// Remembers a new operation, if need be in place of the oldest one that has ended.
    pub(crate) fn begin(&mut self, key: Key) -> Begun {
        if self.by_key.contains_key(&key) {
            return Begun::Already;
        }
        if self.by_key.len() >= LIMIT {
            let ended = |key: &Key| self.by_key.get(key).is_some_and(|o| o.outcome.is_some());
            let Some(oldest) = self.order.iter().position(ended) else {
                return Begun::Full;
            };
            if let Some(key) = self.order.remove(oldest) {
                let forgotten = self.by_key.remove(&key);
                if forgotten.is_some_and(|operation| !operation.fetched) {
                    self.unfetched.send_modify(|n| *n -= 1);
                }
            }
        }
        self.order.push_back(key.clone());
        self.by_key.insert(key, Operation::default());
        self.unfetched.send_modify(|n| *n += 1);
        Begun::New
    }

    /// Notes how an operation ended.
    pub(crate) fn end(&mut self, key: &Key, answer: Answer) {
        if let Some(entry) = self.by_key.get_mut(key) {
            entry.outcome = Some(answer);
        }
    }

    /// Whether an operation is remembered.
    pub(crate) fn knows(&self, key: &Key) -> bool {
        self.by_key.contains_key(key)
    }

    /// How an operation stands, for a client: `None` if it isn't known, `Some(None)` while it is in progress. An
    /// outcome counts as fetched from now on.
    pub(crate) fn fetch(&mut self, key: &Key) -> Option<Option<&Answer>> {
        let operation = self.by_key.get_mut(key)?;
        if operation.outcome.is_some() && !operation.fetched {
            operation.fetched = true;
            self.unfetched.send_modify(|n| *n -= 1);
        }
        Some(operation.outcome.as_ref())
    }

    /// How many operations are remembered whose outcome no client has fetched, those in progress included.
    pub(crate) fn unfetched(&self) -> watch::Receiver<usize> {
        self.unfetched.subscribe()
    }
}
