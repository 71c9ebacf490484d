//! One topic of the log server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::checks::commits::Witness;
use crate::checks::output::{Counted, OutputCheck};
use crate::faults::Faults;
use crate::trace::Violations;

/// Names a transaction, uniquely over all attempts of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TxnId {
    /// The leadership of the writer.
    pub epoch: u64,
    /// Its attempt.
    pub attempt: u32,
    /// Its line of history.
    pub lineage: u64,
    /// Which subtask wrote it.
    pub subtask: u32,
    /// Which one of this writer.
    pub number: u64,
}

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "e{}-a{}-s{}-{}",
            self.epoch, self.attempt, self.subtask, self.number
        )
    }
}

/// Where a transaction is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxnState {
    /// Records come in.
    Open,
    /// Complete; it waits for its commit.
    Prepared,
    /// Its records are visible.
    Committed,
    /// Its records are gone.
    Aborted,
    /// It waited too long for its commit; its records are gone.
    Expired,
}

/// What the log server refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogError {
    /// A newer leadership writes this topic.
    Fenced(TxnId),
    /// There is no such transaction in a state in which this could be done.
    WrongState(TxnId, Option<TxnState>),
    /// It waited too long for its commit.
    Expired(TxnId),
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced(txn) => write!(f, "transaction {txn} is of an older leadership than its topic's"),
            Self::WrongState(txn, state) => write!(f, "transaction {txn} is {state:?}"),
            Self::Expired(txn) => write!(f, "transaction {txn} has expired: its records are lost"),
        }
    }
}

impl std::error::Error for LogError {}

/// What a topic must come to.
#[derive(Debug, Clone)]
pub enum Expected<T> {
    /// Exactly these, each once.
    Exactly(Vec<T>),
    /// These, each at least once, and nothing else.
    AtLeast(Vec<T>),
}

struct Txn<T> {
    state: TxnState,
    records: Vec<T>,
}

struct State<T: Counted> {
    txns: BTreeMap<TxnId, Txn<T>>,
    fence: u64,
    visible: u64,
    check: OutputCheck<T>,
    witness: Option<Witness>,
    uid: String,
}

/// One topic. Clones share it.
pub struct Topic<T: Counted> {
    state: Arc<Mutex<State<T>>>,
    faults: Faults,
    violations: Violations,
}

impl<T: Counted> Clone for Topic<T> {
    fn clone(&self) -> Self {
        Self {
            state: self.state.clone(),
            faults: self.faults.clone(),
            violations: self.violations.clone(),
        }
    }
}

impl<T: Counted> Topic<T> {
    /// An empty topic, written by the sink with this uid, that must come to `expected`.
    pub fn new(uid: &str, expected: Expected<T>, faults: Faults, violations: Violations) -> Self {
        let check = match expected {
            Expected::Exactly(records) => OutputCheck::exactly(&records),
            Expected::AtLeast(records) => OutputCheck::at_least(&records),
        };
        let state = State {
            txns: BTreeMap::new(),
            fence: 0,
            visible: 0,
            check,
            witness: None,
            uid: uid.to_owned(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            faults,
            violations,
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who knows which commits are due; asked at each.
    pub fn set_witness(&self, witness: Witness) {
        self.state().witness = Some(witness);
    }

    /// Starts a transaction.
    ///
    /// # Errors
    /// When the writer is fenced.
    pub fn begin(&self, txn: &TxnId) -> Result<(), LogError> {
        let mut state = self.state();
        if txn.epoch < state.fence {
            return Err(LogError::Fenced(txn.clone()));
        }
        let old = state.txns.insert(
            txn.clone(),
            Txn {
                state: TxnState::Open,
                records: Vec::new(),
            },
        );
        if old.is_some() {
            self.violations
                .note(format!("two writers began transaction {txn} of `{}`", state.uid));
        }
        Ok(())
    }

    /// Adds a record.
    ///
    /// # Errors
    /// When the writer is fenced, or the transaction isn't open.
    pub fn append(&self, txn: &TxnId, record: T) -> Result<(), LogError> {
        let mut state = self.state();
        if txn.epoch < state.fence {
            return Err(LogError::Fenced(txn.clone()));
        }
        match state.txns.get_mut(txn) {
            Some(open) if open.state == TxnState::Open => {
                open.records.push(record);
                Ok(())
            }
            other => Err(LogError::WrongState(txn.clone(), other.map(|t| t.state))),
        }
    }

    /// No record follows: it waits for its commit.
    ///
    /// # Errors
    /// When the writer is fenced, or the transaction isn't open; or by an injected fault, before or after it took
    /// effect.
    pub fn prepare(&self, txn: &TxnId) -> Result<(), tidegate_runtime::error::BoxError> {
        self.faults.sink()?;
        {
            let mut state = self.state();
            if txn.epoch < state.fence {
                return Err(LogError::Fenced(txn.clone()).into());
            }
            match state.txns.get_mut(txn) {
                Some(open) if open.state == TxnState::Open => open.state = TxnState::Prepared,
                other => return Err(LogError::WrongState(txn.clone(), other.map(|t| t.state)).into()),
            }
        }
        self.faults.sink()
    }

    /// Makes a transaction's records visible; nothing happens if they are.
    ///
    /// # Errors
    /// When it is neither prepared nor committed; or by an injected fault, before or after it took effect.
    pub fn commit(&self, txn: &TxnId) -> Result<(), tidegate_runtime::error::BoxError> {
        self.faults.sink()?;
        self.commit_now(txn)?;
        self.faults.sink()
    }

    fn commit_now(&self, txn: &TxnId) -> Result<(), LogError> {
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(found) = state.txns.get_mut(txn) else {
            return Err(LogError::WrongState(txn.clone(), None));
        };
        match found.state {
            TxnState::Committed => return Ok(()),
            TxnState::Expired => return Err(LogError::Expired(txn.clone())),
            TxnState::Open | TxnState::Aborted => {
                return Err(LogError::WrongState(txn.clone(), Some(found.state)));
            }
            TxnState::Prepared => {}
        }
        found.state = TxnState::Committed;
        for record in &found.records {
            state.visible += 1;
            if let Some(problem) = state.check.saw(record) {
                self.violations
                    .note(format!("sink `{}`, transaction {txn}: {problem}", state.uid));
            }
        }
        found.records = Vec::new();
        if let Some(witness) = &state.witness
            && let Err(problem) = witness(&state.uid, txn)
        {
            self.violations.note(problem);
        }
        Ok(())
    }

    /// A new leadership takes the topic over: older writers are fenced, what `listed` names is committed, every other
    /// unfinished transaction is aborted.
    ///
    /// # Errors
    /// When something listed can't be committed.
    pub fn settle(&self, epoch: u64, listed: &[TxnId]) -> Result<(), tidegate_runtime::error::BoxError> {
        {
            let mut state = self.state();
            state.fence = state.fence.max(epoch);
        }
        for txn in listed {
            self.commit(txn)?;
        }
        let mut state = self.state();
        if state.fence > epoch {
            // Somebody newer came in between; what he left open is his.
            return Err("a newer leadership settles this topic".into());
        }
        for txn in state.txns.values_mut() {
            if matches!(txn.state, TxnState::Open | TxnState::Prepared) {
                *txn = Txn {
                    state: TxnState::Aborted,
                    records: Vec::new(),
                };
            }
        }
        Ok(())
    }

    /// Every prepared transaction has waited too long.
    pub fn expire_prepared(&self) {
        for txn in self.state().txns.values_mut() {
            if txn.state == TxnState::Prepared {
                *txn = Txn {
                    state: TxnState::Expired,
                    records: Vec::new(),
                };
            }
        }
    }

    /// Transactions in this state.
    pub fn in_state(&self, wanted: TxnState) -> Vec<TxnId> {
        self.state()
            .txns
            .iter()
            .filter(|(_, t)| t.state == wanted)
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// How many records are visible.
    pub fn visible(&self) -> u64 {
        self.state().visible
    }

    /// A sink without transactions shows a record.
    pub fn show(&self, record: &T) {
        let mut state = self.state();
        state.visible += 1;
        if let Some(problem) = state.check.saw(record) {
            self.violations.note(format!("sink `{}`: {problem}", state.uid));
        }
    }

    /// What is visible, and how many of each.
    pub fn committed(&self) -> BTreeMap<T::Key, i64> {
        self.state().check.seen().clone()
    }

    /// What is wrong at the end of a job whose input was cut short so that this must have come of it.
    pub fn problems_against(&self, expected: &[T]) -> Vec<String> {
        let state = self.state();
        let differs = state.check.differs(expected).into_iter();
        differs.map(|p| format!("sink `{}`: {p}", state.uid)).collect()
    }

    /// What is wrong at the end of the job.
    pub fn problems(&self) -> Vec<String> {
        let state = self.state();
        let mut problems = state.check.missing();
        problems.extend(state.txns.iter().filter_map(|(id, txn)| {
            let open = matches!(txn.state, TxnState::Open | TxnState::Prepared);
            open.then(|| format!("transaction {id} stays {:?}", txn.state))
        }));
        problems
            .iter_mut()
            .for_each(|p| *p = format!("sink `{}`: {p}", state.uid));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn txn(epoch: u64, number: u64) -> TxnId {
        TxnId {
            epoch,
            attempt: 1,
            lineage: 0,
            subtask: 0,
            number,
        }
    }

    fn topic(expected: Vec<u64>) -> (Topic<u64>, Violations) {
        let violations = Violations::default();
        (
            Topic::new(
                "out",
                Expected::Exactly(expected),
                Faults::none(),
                violations.clone(),
            ),
            violations,
        )
    }

    #[test]
    fn what_is_committed_is_visible_once_and_the_rest_is_settled() {
        let (topic, violations) = topic(vec![1, 2]);
        for (number, record) in [(0, 1), (1, 2), (2, 3)] {
            topic.begin(&txn(1, number)).unwrap();
            topic.append(&txn(1, number), record).unwrap();
        }
        topic.prepare(&txn(1, 0)).unwrap();
        topic.prepare(&txn(1, 1)).unwrap();
        topic.commit(&txn(1, 0)).unwrap();
        topic.commit(&txn(1, 0)).unwrap();
        assert_eq!(
            topic.problems().len(),
            3,
            "record 2 is missing, two transactions are unfinished"
        );
        topic.settle(2, &[txn(1, 0), txn(1, 1)]).unwrap();
        assert_eq!(topic.problems(), Vec::<String>::new());
        assert_eq!((topic.visible(), violations.all()), (2, Vec::new()));
        assert_eq!(topic.append(&txn(1, 2), 9), Err(LogError::Fenced(txn(1, 2))));
        assert_eq!(topic.in_state(TxnState::Aborted), [txn(1, 2)]);
    }

    #[test]
    fn expiry_is_an_error_of_its_own() {
        let (topic, _) = topic(vec![1]);
        topic.begin(&txn(1, 0)).unwrap();
        topic.prepare(&txn(1, 0)).unwrap();
        topic.expire_prepared();
        let error = topic.settle(2, &[txn(1, 0)]).unwrap_err();
        assert_eq!(
            error.downcast_ref::<LogError>(),
            Some(&LogError::Expired(txn(1, 0)))
        );
    }

    #[test]
    fn a_foreign_or_doubled_record_is_noticed_at_its_commit() {
        let (topic, violations) = topic(vec![1]);
        for number in 0..2 {
            topic.begin(&txn(1, number)).unwrap();
            topic.append(&txn(1, number), 1).unwrap();
            topic.prepare(&txn(1, number)).unwrap();
            topic.commit(&txn(1, number)).unwrap();
        }
        assert_eq!(violations.all().len(), 1);
    }
}
