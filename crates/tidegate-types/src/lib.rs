//! Tidegate's vocabulary: what every other crate of the engine agrees on.
//!
//! Owns: ids and quantities ([`ids`], [`time`]), what flows through channels ([`batch`], [`barrier`]),
//! how keys are hashed and spread over subtasks ([`hash`], [`key_group`]), how values become bytes
//! ([`codec`], [`shape`]), what a subtask's share of a snapshot looks like ([`snapshot`]), what an edge can
//! carry ([`edge`]) and every configuration option ([`options`]).
//!
//! Does not own: any behaviour with a thread, clock, socket or disk. This crate depends on nothing of
//! Tidegate's and does no I/O. Read `ARCHITECTURE.md` next, then `tidegate-protocol`.

pub mod barrier;
pub mod batch;
pub mod codec;
pub mod edge;
pub mod hash;
pub mod ids;
pub mod key_group;
pub mod options;
pub mod shape;
pub mod snapshot;
pub mod time;

pub use barrier::{Barrier, CheckpointKind, SavepointFormat, SnapshotMode};
pub use batch::{Activity, Batch, Element};
pub use edge::EdgeKind;
pub use ids::{
    AttemptNumber, ChannelIndex, CheckpointId, Generation, InputIndex, JobId, LeaderEpoch, MaxParallelism,
    OperatorUid, Parallelism, SubtaskId, SubtaskIndex, VertexId,
};
pub use time::{EventTime, Nanos};
