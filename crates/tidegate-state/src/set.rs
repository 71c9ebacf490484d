//! All states of one operator subtask, driven together.
//!
//! The operator owns the handles; a [`StateSet`] owns what is known about them as a whole: their number, which
//! cuts are not yet handed over. Every method takes the operator's declaration function and visits each handle
//! once.

use std::collections::HashSet;

use tidegate_types::CheckpointId;
use tidegate_types::snapshot::{SectionBytes, SectionHead};

use crate::describe::StateDescription;
use crate::error::{StateError, StatePlace};
use crate::keyed::{Cut, KeyedTable, Outcome, Progress, StateMetrics, StateSetup};
use crate::operator::{OperatorState, Share};
use crate::snapshot::StateSnapshot;
use crate::states::{StateVisitor, States};

/// A declared state of either sort.
enum Handle<'a, K> {
    Keyed(&'a mut dyn KeyedTable<K>),
    Operator(&'a mut dyn OperatorState),
}

/// A visitor made of one closure.
struct Each<F>(F);

impl<K, F: FnMut(&str, Handle<'_, K>)> StateVisitor<K> for Each<F> {
    fn keyed(&mut self, name: &str, table: &mut dyn KeyedTable<K>) {
        (self.0)(name, Handle::Keyed(table));
    }

    fn operator(&mut self, name: &str, state: &mut dyn OperatorState) {
        (self.0)(name, Handle::Operator(state));
    }
}

#[inline]
fn visit<K>(declare: impl FnOnce(&mut States<'_, K>), each: impl FnMut(&str, Handle<'_, K>)) {
    declare(&mut States::new(&mut Each(each)));
}

/// Describes what an operator declares, before anything runs: for `explain`, shape checks and warnings.
///
/// # Errors
/// If two states have one name.
pub fn describe<K>(
    setup: &StateSetup,
    declare: impl FnOnce(&mut States<'_, K>),
) -> Result<Vec<(String, StateDescription)>, StateError> {
    let mut described = Vec::new();
    let mut names = Names::default();
    visit(declare, |name, handle: Handle<'_, K>| {
        names.add(setup, name);
        let description = match handle {
            Handle::Keyed(table) => table.describe(&setup.formats),
            Handle::Operator(state) => state.describe(&setup.formats),
        };
        described.push((name.to_owned(), description));
    });
    names.finish().map(|_| described)
}

/// Finds names that are used twice.
#[derive(Default)]
struct Names {
    seen: HashSet<String>,
    ordered: Vec<String>,
    error: Option<StateError>,
}

impl Names {
    fn add(&mut self, setup: &StateSetup, name: &str) {
        if !self.seen.insert(name.to_owned()) {
            let place = StatePlace {
                uid: setup.uid.clone(),
                name: name.to_owned(),
            };
            self.error.get_or_insert(StateError::DuplicateName { place });
        }
        self.ordered.push(name.to_owned());
    }

    fn finish(self) -> Result<Vec<String>, StateError> {
        self.error.map_or(Ok(self.ordered), Err)
    }
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

    /// Entries.
    pub fn records(&self) -> u64 {
        self.states.iter().map(StateSnapshot::records).sum()
    }

    /// All sections, state by state in the order of declaration, each state's in hash order.
    ///
    /// # Errors
    /// If a value could not be encoded.
    pub fn into_sections(self) -> Result<Vec<SectionBytes>, StateError> {
        let mut sections = Vec::new();
        for state in self.states {
            sections.extend(state.into_sections()?);
        }
        Ok(sections)
    }
}

/// The states of one operator subtask.
///
/// # Driving it
/// [`open`](Self::open), [`restore`](Self::restore) for each stored section, then while records flow
/// [`prefetch`](Self::prefetch) a few records ahead. At a barrier [`cut`](Self::cut); then
/// [`sweep`](Self::sweep) between passes as long as [`is_sweeping`](Self::is_sweeping), and
/// [`take_finished`](Self::take_finished) after each. [`decided`](Self::decided) when the checkpoint's fate is
/// known. A panic of user code inside leaves the states fit to be dropped and for nothing else.
#[derive(Debug)]
pub struct StateSet {
    setup: StateSetup,
    /// In the order of declaration.
    names: Vec<String>,
    /// Cuts not yet handed over, oldest first.
    pending: Vec<OperatorSnapshot>,
}

impl StateSet {
    /// Opens every state, empty.
    ///
    /// # Errors
    /// If two states have one name, or one can't be opened.
    pub fn open<K>(setup: StateSetup, declare: impl FnOnce(&mut States<'_, K>)) -> Result<Self, StateError> {
        let mut names = Names::default();
        let mut failed = None;
        visit(declare, |name, handle: Handle<'_, K>| {
            names.add(&setup, name);
            let opened = match handle {
                Handle::Keyed(table) => table.open(name, &setup),
                Handle::Operator(state) => state.open(name, &setup),
            };
            if let Err(error) = opened {
                failed.get_or_insert(error);
            }
        });
        let names = names.finish()?;
        match failed {
            Some(error) => Err(error),
            None => Ok(Self {
                setup,
                names,
                pending: Vec::new(),
            }),
        }
    }

    /// Gives a stored section to the state of its name. Sections come in any order. Of a broadcast state give
    /// those of one old subtask; `share` matters to split lists only.
    ///
    /// # Errors
    /// If no state has the name ([`StateError::NotDeclared`]), or the state can't read it.
    pub fn restore<K>(
        &mut self,
        head: &SectionHead,
        bytes: &[u8],
        share: Share,
        declare: impl FnOnce(&mut States<'_, K>),
    ) -> Result<u64, StateError> {
        let mut result = None;
        visit(declare, |name, handle: Handle<'_, K>| {
            if name == head.name {
                result = Some(match handle {
                    Handle::Keyed(table) => table.restore(head, bytes),
                    Handle::Operator(state) => state.restore(head, bytes, share),
                });
            }
        });
        result.unwrap_or_else(|| {
            let place = StatePlace {
                uid: self.setup.uid.clone(),
                name: head.name.clone(),
            };
            Err(StateError::NotDeclared { place })
        })
    }

    /// Brings what accesses with these hashes will touch into the cache. Best are the eight records after the ones at
    /// hand (37 ns a random update of ten million keys, where none ahead cost 170); sixteen just before their turn do
    /// too (44 ns). More at once are waited for: a processor has some twenty misses under way.
    #[inline]
    pub fn prefetch<K>(&self, hashes: &[u64], declare: impl FnOnce(&mut States<'_, K>)) {
        visit(declare, |_, handle: Handle<'_, K>| {
            if let Handle::Keyed(table) = handle {
                table.prefetch(hashes);
            }
        });
    }

    /// Cuts every state: constant time for keyed ones, encodes operator states.
    pub fn cut<K>(&mut self, cut: Cut, declare: impl FnOnce(&mut States<'_, K>)) {
        visit(declare, |_, handle: Handle<'_, K>| match handle {
            Handle::Keyed(table) => table.cut(cut),
            Handle::Operator(state) => state.cut(cut),
        });
        self.pending.push(OperatorSnapshot {
            id: cut.id,
            states: Vec::with_capacity(self.names.len()),
        });
    }

    /// Whether a cut waits for a sweep.
    pub fn is_sweeping(&self) -> bool {
        self.pending
            .iter()
            .any(|snapshot| snapshot.states.len() < self.names.len())
    }

    /// Preserves what open cuts are owed, state by state, as long as `more` says so. `more` is asked after each
    /// block: about a microsecond's work.
    pub fn sweep<K>(
        &mut self,
        more: &mut dyn FnMut() -> bool,
        declare: impl FnOnce(&mut States<'_, K>),
    ) -> Progress {
        let mut progress = Progress::Done;
        visit(declare, |_, handle: Handle<'_, K>| {
            if let (Handle::Keyed(table), Progress::Done) = (handle, progress) {
                progress = table.sweep(more);
            }
        });
        progress
    }

    /// The bytes of the oldest cut that every state has finished. Ask after `cut` and `sweep`, until there is
    /// none.
    pub fn take_finished<K>(&mut self, declare: impl FnOnce(&mut States<'_, K>)) -> Option<OperatorSnapshot> {
        if self.pending.is_empty() {
            return None;
        }
        visit(declare, |_, handle: Handle<'_, K>| match handle {
            Handle::Keyed(table) => self.collect(|| table.take_finished()),
            Handle::Operator(state) => self.collect(|| state.take_finished()),
        });
        if self.pending.first()?.states.len() < self.names.len() {
            return None;
        }
        let mut snapshot = self.pending.remove(0);
        snapshot
            .states
            .sort_by_key(|state| self.names.iter().position(|name| name == state.name()));
        Some(snapshot)
    }

    fn collect(&mut self, mut take: impl FnMut() -> Option<StateSnapshot>) {
        while let Some(state) = take() {
            if let Some(pending) = self.pending.iter_mut().find(|pending| pending.id == state.id()) {
                pending.states.push(state);
            }
        }
    }

    /// Tells every state the fate of a checkpoint.
    pub fn decided<K>(
        &mut self,
        id: CheckpointId,
        outcome: Outcome,
        declare: impl FnOnce(&mut States<'_, K>),
    ) {
        visit(declare, |_, handle: Handle<'_, K>| match handle {
            Handle::Keyed(table) => table.decided(id, outcome),
            Handle::Operator(state) => state.decided(id, outcome),
        });
        self.pending.retain(|pending| match outcome {
            Outcome::Completed => pending.id > id,
            Outcome::Aborted => pending.id != id,
        });
    }

    /// Sizes, state by state.
    pub fn metrics<K>(&self, declare: impl FnOnce(&mut States<'_, K>)) -> Vec<(String, StateMetrics)> {
        let mut metrics = Vec::with_capacity(self.names.len());
        visit(declare, |name, handle: Handle<'_, K>| {
            let sizes = match handle {
                Handle::Keyed(table) => table.metrics(),
                Handle::Operator(state) => state.metrics(),
            };
            metrics.push((name.to_owned(), sizes));
        });
        metrics
    }

    /// What the states were opened with.
    pub fn setup(&self) -> &StateSetup {
        &self.setup
    }
}
