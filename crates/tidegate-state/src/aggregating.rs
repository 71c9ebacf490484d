//! An accumulator per key.

use tidegate_types::codec::{Key, Record};

use crate::cell::Plain;
use crate::context::KeyContext;
use crate::core::{Declared, impl_keyed_table};
use crate::describe::StateKind;
use crate::ttl::Ttl;

/// How values are aggregated: the counterpart of Flink's `AggregateFunction`.
pub trait Aggregate: Send {
    /// What is added.
    type Input;
    /// What is stored.
    type Accumulator: Record;
    /// What is read.
    type Output;

    /// An accumulator of nothing.
    fn create(&self) -> Self::Accumulator;

    /// Adds a value.
    fn add(&self, accumulator: &mut Self::Accumulator, value: Self::Input);

    /// The result so far.
    fn result(&self, accumulator: &Self::Accumulator) -> Self::Output;

    /// Adds another accumulator.
    fn merge(&self, into: &mut Self::Accumulator, other: Self::Accumulator);
}

/// An accumulator per key: Flink's `AggregatingState`.
///
/// # Panics
/// As [`crate::ValueState`].
pub struct AggregatingState<K: Key, A: Aggregate> {
    state: Declared<K, Plain<A::Accumulator>>,
    aggregate: A,
}

impl<K: Key, A: Aggregate> AggregatingState<K, A> {
    /// An undeclared state.
    pub fn new(aggregate: A) -> Self {
        Self {
            state: Declared::new(StateKind::Aggregating, None),
            aggregate,
        }
    }

    /// An undeclared state whose accumulators expire.
    pub fn with_ttl(aggregate: A, ttl: Ttl) -> Self {
        Self {
            state: Declared::new(StateKind::Aggregating, Some(ttl)),
            aggregate,
        }
    }

    /// The key's result so far.
    #[inline]
    pub fn get(&mut self, at: KeyContext<'_, K>) -> Option<A::Output> {
        let core = self.state.core();
        let slot = core.find(at)?;
        Some(self.aggregate.result(&core.cell(slot).0))
    }

    /// Adds a value to the key's accumulator.
    #[inline]
    pub fn add(&mut self, at: KeyContext<'_, K>, value: A::Input) {
        let core = self.state.core();
        let add = |cell: &mut Plain<A::Accumulator>| self.aggregate.add(&mut cell.0, value);
        if let Err(add) = core.try_edit(at, add) {
            core.edit_slowly(at, || Plain(self.aggregate.create()), add);
        }
    }

    /// Merges an accumulator into the key's; the first becomes it.
    pub fn merge(&mut self, at: KeyContext<'_, K>, other: A::Accumulator) {
        let core = self.state.core();
        match core.find_mut(at) {
            Some(slot) => self.aggregate.merge(&mut core.cell_mut(slot).0, other),
            None => {
                core.insert(at, Plain(other));
            }
        }
    }

    /// Removes and returns the key's accumulator.
    pub fn take(&mut self, at: KeyContext<'_, K>) -> Option<A::Accumulator> {
        self.state.core().remove(at).map(|cell| cell.0)
    }

    /// Removes the key's accumulator.
    pub fn clear(&mut self, at: KeyContext<'_, K>) {
        drop(self.take(at));
    }

    /// Keys with an accumulator, expired ones included.
    pub fn len(&self) -> u64 {
        self.state.core_ref().table.len()
    }

    /// Whether no key has an accumulator.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl_keyed_table!([K: Key, A: Aggregate] AggregatingState<K, A>);
