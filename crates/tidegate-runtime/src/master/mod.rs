//! The job master: one job from its start to its end, over all its attempts.
//!
//! Owns: what happens in which order ([`JobMaster`]: claim, settle, deploy, run, stop, restart), the split enumerators,
//! and the store's work as requests ([`IoRequest`], [`StoreWorker`]). Does not own: when checkpoints are taken
//! (`tidegate_protocol::coordinator`), threads ([`local`]).
//!
//! The master is a machine: it is told events and uses a [`MasterEnv`] for effects; everything slow is a request
//! whose reply comes back as an event. The embedded cluster and the simulator drive the same one.

mod attempt;
mod commits;
mod configured;
mod env;
mod error;
mod io;
pub mod local;
mod machine;
mod restore;
mod snapshot_io;
mod status;

pub use configured::{coordinator_settings, restart_strategy, task_options};
pub use env::{ClaimedStore, IoReply, IoRequest, MasterEnv, MasterEvent, Report, RestoreChoice};
pub use error::JobError;
pub use io::{Executor, StoreWorker, StoreWorkerParts};
pub use machine::{JobMaster, JobOutcome, MasterParts, Running};
pub use restore::restore_plan;
pub use snapshot_io::{Spawner, StoreIo};
pub use status::{JobFailure, JobState, JobStatus, StatusBoard, SubtaskInfo, VertexInfo};
