//! An accumulator per key.

use crate::context::KeyContext;
use crate::describe::{Formats, StateDescription};
use crate::error::StateError;
use crate::keyed::{Cut, KeyedTable, Outcome, Progress, StateMetrics, StateSetup};
use crate::snapshot::StateSnapshot;
use crate::ttl::Ttl;
use std::marker::PhantomData;
use tidegate_types::CheckpointId;
use tidegate_types::codec::{Key, Record};
use tidegate_types::snapshot::SectionHead;

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
/// An accumulator per key.
pub struct AggregatingState<K, A: Aggregate> {
    aggregate: A,
    ttl: Option<Ttl>,
    _types: PhantomData<fn() -> (K, A::Accumulator)>,
}
impl<K, A: Aggregate> AggregatingState<K, A> {
    /// An undeclared state.
    pub fn new(aggregate: A) -> Self {
        Self {
            aggregate,
            ttl: None,
            _types: PhantomData,
        }
    }
    /// An undeclared state whose accumulators expire.
    pub fn with_ttl(aggregate: A, ttl: Ttl) -> Self {
        Self {
            ttl: Some(ttl),
            ..Self::new(aggregate)
        }
    }
}
#[allow(unused_variables)]
impl<K: Key, A: Aggregate> AggregatingState<K, A> {
    /// The key's result so far.
    pub fn get(&mut self, at: KeyContext<'_, K>) -> Option<A::Output> {
        crate::pending()
    }
    /// Adds a value to the key's accumulator.
    pub fn add(&mut self, at: KeyContext<'_, K>, value: A::Input) {
        crate::pending()
    }
    /// Merges an accumulator into the key's.
    pub fn merge(&mut self, at: KeyContext<'_, K>, other: A::Accumulator) {
        crate::pending()
    }
    /// Removes and returns the key's accumulator.
    pub fn take(&mut self, at: KeyContext<'_, K>) -> Option<A::Accumulator> {
        crate::pending()
    }
    /// Removes the key's accumulator.
    pub fn clear(&mut self, at: KeyContext<'_, K>) {
        drop(self.take(at));
    }
}

impl<K: Key, A: Aggregate> KeyedTable<K> for AggregatingState<K, A> {
    fn describe(&self, _: &Formats) -> StateDescription {
        crate::pending()
    }
    fn open(&mut self, _: &str, _: &StateSetup) -> Result<(), StateError> {
        crate::pending()
    }
    fn prefetch(&self, _: &[u64]) {
        crate::pending()
    }
    fn cut(&mut self, _: Cut) {
        crate::pending()
    }
    fn sweep(&mut self, _: &mut dyn FnMut() -> bool) -> Progress {
        crate::pending()
    }
    fn take_finished(&mut self) -> Option<StateSnapshot> {
        crate::pending()
    }
    fn decided(&mut self, _: CheckpointId, _: Outcome) {
        crate::pending()
    }
    fn restore(&mut self, _: &SectionHead, _: &[u8]) -> Result<u64, StateError> {
        crate::pending()
    }
    fn metrics(&self) -> StateMetrics {
        crate::pending()
    }
}
