//! Keyed state, timers and operator state: what an operator remembers, and how a snapshot gets at it.
//!
//! Owns: the typed handles that user code holds, the block table behind the keyed ones, the snapshot sections
//! of all of them, and the contract through which a runtime drives them ([`KeyedTable`], [`StateSet`]). Does
//! not own: threads, clocks, files. Read [`states`] for how state is declared, then [`keyed`].

pub mod aggregating;
mod apart;
pub mod broadcast;
mod cell;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod context;
mod core;
mod cuts;
pub mod describe;
pub mod error;
pub mod keyed;
pub mod list;
pub mod map;
pub mod operator;
mod operator_core;
pub mod operator_list;
pub mod reducing;
mod section;
pub mod set;
mod shapes;
pub mod snapshot;
pub mod states;
mod table;
pub mod timers;
pub mod ttl;
pub mod value;

pub use aggregating::{Aggregate, AggregatingState};
pub use broadcast::BroadcastState;
pub use context::KeyContext;
pub use describe::{Formats, StateDescription, StateKind};
pub use error::StateError;
pub use keyed::{Cut, KeyedTable, Outcome, Progress, StateMetrics, StateSetup};
pub use list::ListState;
pub use map::MapState;
pub use operator::{OperatorState, Share};
pub use operator_list::OperatorListState;
pub use reducing::ReducingState;
pub use set::{OperatorSnapshot, StateSet};
pub use snapshot::StateSnapshot;
pub use states::{StateVisitor, States};
pub use timers::{DueTimer, Timers};
pub use ttl::{Ttl, TtlUpdate, TtlVisibility};
pub use value::ValueState;
