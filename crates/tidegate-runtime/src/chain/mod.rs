//! The chain: operators of one task that hand each other small batches by value.
//!
//! Owns: prefix consumption ([`Cursor`], [`OutBatch`], [`Pass`]), what stands unread between two operators
//! ([`OpNode`]), the merge of watermarks over channels ([`Valve`]), and the ends where a chain meets gates
//! ([`Output`]). Does not own: when a chain runs (the task), what a barrier means (the protocol).
//!
//! A chain runs from its end to its head: nothing is processed at a node before what its successors were
//! handed is gone. So at any moment little stands in a chain, and what does is in-flight data of the node where
//! it stands: an aligned snapshot first runs the chain empty, an unaligned one stores the remainders.

mod cursor;
mod defaults;
mod fanout;
mod flow;
mod inflight;
mod node;
mod node_state;
mod operator;
mod out;
mod outlet;
mod output;
mod overdraft;
mod partition;
mod restored;
mod side;
mod two_input;
mod valve;

#[cfg(test)]
mod tests;

pub use cursor::Cursor;
pub use defaults::OperatorDefaults;
pub use fanout::Fanout;
pub use flow::{Flow, PASS_RECORDS, Pass, Strider};
pub use inflight::{InFlightElement, decode_in_flight, encode_in_flight};
pub use node::{Chain, ChainItem, Control, Downstream, Node, NodeMeta, OpNode};
pub use node_state::{RestoredInput, Watermarks, in_flight_part};
pub use operator::{
    CutParts, EncodeJob, OpenContext, Operator, Outcome, Progress, RestoredSection, SnapshotPart,
};
pub use out::OutBatch;
pub use outlet::{Event, Outlet, SideLink};
pub use output::{Output, OutputChannel, OutputSettings};
pub use overdraft::Overdraft;
pub use partition::{CustomPartitioner, KeyHasher, Partitioner, Route, consumers_of};
pub use restored::{ChannelOrigin, RestoredChannel};
pub use side::Side;
pub use two_input::{Operator2, TwoInputNode};
pub use valve::{Merged, Valve};
