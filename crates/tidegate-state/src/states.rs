//! How user code declares its states, and how a runtime visits them.
//!
//! An operator owns its handles as plain fields and names them in one function:
//!
//! ```
//! use tidegate_state::{ListState, States, ValueState};
//!
//! #[derive(Default)]
//! struct Count {
//!     count: ValueState<String, u64>,
//!     recent: ListState<String, u32>,
//! }
//!
//! impl Count {
//!     fn state(&mut self, s: &mut States<'_, String>) {
//!         s.value("count", &mut self.count);
//!         s.list("recent", &mut self.recent);
//!     }
//! }
//! ```
//!
//! The runtime calls that function with one visitor after another: to open, restore, cut, sweep. An access is
//! then an access to a field: no lookup by name, no lock, no virtual call.

use tidegate_types::codec::{Key, Record};

use crate::aggregating::{Aggregate, AggregatingState};
use crate::broadcast::BroadcastState;
use crate::keyed::KeyedTable;
use crate::list::ListState;
use crate::map::MapState;
use crate::operator::OperatorState;
use crate::operator_list::OperatorListState;
use crate::reducing::ReducingState;
use crate::timers::Timers;
use crate::value::ValueState;

/// Is shown every state of an operator, in the order of declaration.
pub trait StateVisitor<K> {
    /// A keyed state.
    fn keyed(&mut self, name: &str, table: &mut dyn KeyedTable<K>);

    /// A state of the operator's subtask.
    fn operator(&mut self, name: &str, state: &mut dyn OperatorState);
}

/// Where an operator names its states. `K` is the key its stream is partitioned by, `()` without one.
pub struct States<'v, K> {
    visitor: &'v mut dyn StateVisitor<K>,
}

impl<'v, K> States<'v, K> {
    /// Shows what is declared to `visitor`.
    pub fn new(visitor: &'v mut dyn StateVisitor<K>) -> Self {
        Self { visitor }
    }

    /// Declares a keyed state of any kind.
    pub fn keyed(&mut self, name: &str, table: &mut dyn KeyedTable<K>) {
        self.visitor.keyed(name, table);
    }

    /// Declares an operator state of any kind.
    pub fn operator(&mut self, name: &str, state: &mut dyn OperatorState) {
        self.visitor.operator(name, state);
    }
}

impl<K: Key> States<'_, K> {
    /// Declares a value per key.
    pub fn value<V: Record>(&mut self, name: &str, state: &mut ValueState<K, V>) {
        self.keyed(name, state);
    }

    /// Declares a list per key.
    pub fn list<T: Record>(&mut self, name: &str, state: &mut ListState<K, T>) {
        self.keyed(name, state);
    }

    /// Declares a map per key.
    pub fn map<UK: Key, UV: Record>(&mut self, name: &str, state: &mut MapState<K, UK, UV>) {
        self.keyed(name, state);
    }

    /// Declares a value per key into which others are reduced.
    pub fn reducing<V: Record, F>(&mut self, name: &str, state: &mut ReducingState<K, V, F>)
    where
        F: FnMut(&mut V, V) + Send,
    {
        self.keyed(name, state);
    }

    /// Declares an accumulator per key.
    pub fn aggregating<A: Aggregate>(&mut self, name: &str, state: &mut AggregatingState<K, A>) {
        self.keyed(name, state);
    }

    /// Declares timers.
    pub fn timers(&mut self, name: &str, timers: &mut Timers<K>) {
        self.keyed(name, timers);
    }
}

impl<K> States<'_, K> {
    /// Declares a list per subtask.
    pub fn operator_list<T: Record>(&mut self, name: &str, state: &mut OperatorListState<T>) {
        self.operator(name, state);
    }

    /// Declares a map that is the same in every subtask.
    pub fn broadcast<BK: Key, BV: Record>(&mut self, name: &str, state: &mut BroadcastState<BK, BV>) {
        self.operator(name, state);
    }
}
