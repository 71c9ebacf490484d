//! The operators that the engine brings: stateless closures, keyed process functions, watermarks, sinks.
//!
//! Owns: how user code is called, and the contracts that users implement ([`ProcessFunction`], [`Sink`]). Does not
//! own: the chain around an operator. User closures are inlined into the loops here; one virtual call reaches
//! an operator per pass.

mod co_process;
mod core;
mod flat_map;
mod key;
mod keyed;
mod named;
mod process;
mod sink;
mod sink_op;
mod stateless;
mod timestamps;

#[cfg(test)]
pub(crate) mod tests;

pub use co_process::{CoProcessFunction, KeyedCoProcessOp};
pub use flat_map::{CoFlatMapOp, FlatMapOp};
pub use key::KeySelector;
pub use keyed::KeyedProcessOp;
pub use named::{RegisterError, SnapshotFence, SnapshotSources, TakeSnapshot};
pub use process::{
    FunctionContext, InitializeContext, ProcessContext, ProcessFunction, SideTag, SnapshotContext, Timer,
    TimerKind,
};
pub use sink::{
    AnyCommitter, AnySink, AnyWriter, Committer, OutputLost, Prepared, Sink, SinkContext, SinkRecords,
    SinkWriter, erase_sink,
};
pub use sink_op::{SinkOp, read_committables};
pub use stateless::{FilterOp, MapOp, OnError};
pub use timestamps::{Idleness, TimestampsOp, WatermarkStrategy};
