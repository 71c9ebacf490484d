//! All states of one operator subtask, driven together.
//!
//! The operator owns the handles; a [`StateSet`] owns what is known about them as a whole: names, open cuts, how far
//! the sweep is. Every method takes the operator's declaration function and visits each handle once.

use std::fmt;

use tidegate_types::CheckpointId;
use tidegate_types::snapshot::{SectionBytes, SectionHead};

use crate::describe::{Formats, StateDescription};
use crate::error::StateError;
use crate::keyed::{Cut, Outcome, Progress, StateMetrics, StateSetup};
use crate::operator::Share;
use crate::snapshot::StateSnapshot;
use crate::states::States;

/// Describes what an operator declares, before anything runs: for `explain`, shape checks and warnings.
///
/// # Errors
/// If two states have one name.
pub fn describe<K>(
    _setup: &StateSetup,
    _declare: impl FnOnce(&mut States<'_, K>),
) -> Result<Vec<(String, StateDescription)>, StateError> {
    crate::pending()
}

/// The states of one operator subtask.
#[derive(Debug)]
pub struct StateSet {
    setup: StateSetup,
}

/// What all states of an operator contribute to one snapshot. `Send`: hand it to a pool.
#[derive(Debug)]
pub struct OperatorSnapshot {
    id: CheckpointId,
    states: Vec<StateSnapshot>,
}

impl OperatorSnapshot {
    /// The checkpoint.
    pub fn id(&self) -> CheckpointId {
        self.id
    }

    /// Bytes of encoded entries.
    pub fn size_bytes(&self) -> u64 {
        self.states.iter().map(StateSnapshot::size_bytes).sum()
    }

    /// All sections, state by state in the order of declaration, each state's in hash order.
    ///
    /// # Errors
    /// If a value could not be encoded.
    pub fn into_sections(self) -> Result<Vec<SectionBytes>, StateError> {
        crate::pending()
    }
}

impl StateSet {
    /// Opens every state, empty.
    ///
    /// # Errors
    /// If two states have one name.
    pub fn open<K>(setup: StateSetup, _declare: impl FnOnce(&mut States<'_, K>)) -> Result<Self, StateError> {
        let _ = setup;
        crate::pending()
    }

    /// Gives a stored section to the state of its name.
    ///
    /// # Errors
    /// If no state has the name ([`StateError::NotDeclared`]), or the state can't read it.
    pub fn restore<K>(
        &mut self,
        _head: &SectionHead,
        _bytes: &[u8],
        _share: Share,
        _declare: impl FnOnce(&mut States<'_, K>),
    ) -> Result<u64, StateError> {
        crate::pending()
    }

    /// Brings what accesses with these hashes will touch into the cache.
    #[inline]
    pub fn prefetch<K>(&self, _hashes: &[u64], _declare: impl FnOnce(&mut States<'_, K>)) {
        crate::pending()
    }

    /// Cuts every state: constant time for keyed ones, encodes operator states.
    pub fn cut<K>(&mut self, _cut: Cut, _declare: impl FnOnce(&mut States<'_, K>)) {
        crate::pending()
    }

    /// Whether a sweep has anything to do.
    pub fn is_sweeping(&self) -> bool {
        crate::pending()
    }

    /// Preserves what open cuts are owed, state by state, as long as `more` says so.
    pub fn sweep<K>(
        &mut self,
        _more: &mut dyn FnMut() -> bool,
        _declare: impl FnOnce(&mut States<'_, K>),
    ) -> Progress {
        crate::pending()
    }

    /// The bytes of the oldest cut that every state has finished. Ask after `sweep`, until there is none.
    pub fn take_finished<K>(
        &mut self,
        _declare: impl FnOnce(&mut States<'_, K>),
    ) -> Option<OperatorSnapshot> {
        crate::pending()
    }

    /// Tells every state the fate of a checkpoint.
    pub fn decided<K>(
        &mut self,
        _id: CheckpointId,
        _outcome: Outcome,
        _declare: impl FnOnce(&mut States<'_, K>),
    ) {
        crate::pending()
    }

    /// Sizes, state by state.
    pub fn metrics<K>(&self, _declare: impl FnOnce(&mut States<'_, K>)) -> Vec<(String, StateMetrics)> {
        crate::pending()
    }

    /// What the states were opened with.
    pub fn setup(&self) -> &StateSetup {
        &self.setup
    }
}

impl fmt::Display for StateSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "states of operator {}", self.setup.uid)
    }
}

#[allow(unused)]
fn _formats(f: Formats) {}
