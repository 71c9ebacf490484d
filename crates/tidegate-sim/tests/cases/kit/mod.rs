//! What the cases are made of: a world to start, hold and crash jobs in, a source that a case feeds, and the
//! functions whose output has an oracle.
//!
//! Owns nothing of the engine: everything here goes through the simulator's public face and the DataStream API.

mod bench;
mod feed;
mod sinks;
mod sums;
mod world;

pub use bench::Bench;
pub use feed::Feed;
pub use sinks::{CaseSink, Commits};
pub use sums::{Probe, Sum, ids_and_sums, is_owner, sums};
pub use world::{World, configure, job_of};
