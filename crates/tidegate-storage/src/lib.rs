//! Tidegate's checkpoint storage over `object_store`: where a snapshot is kept, when it counts, and what may go.
//!
//! Owns: the layout of a checkpoint directory ([`layout`]), the decision object ([`metadata`]) and the order of
//! writes around it ([`decision`]), taking a job over ([`claim`]), deleting what is garbage ([`retention`],
//! [`sweep`]), state files ([`state_file`], [`state_reader`]), savepoints ([`savepoint`]), finding and checking
//! what stands there ([`discover`], [`mod@verify`]), local leadership ([`lock`]), and stores that fail on purpose
//! ([`fault`]).
//!
//! Does not own: when a checkpoint is triggered or tolerated to fail (the coordinator), what a section's bytes mean
//! (their operators), or sinks. No clock, no randomness and no executor: all three come from the caller.
//!
//! Read [`decision`] and [`claim`] first: they argue why nothing acknowledged is lost and no two leaders
//! decide one checkpoint. The bytes on disk are specified in `docs/formats.md`.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> { futures_lite(async {
//! use tidegate_storage::{AbortCause, CheckpointStore, Decision, Nonces, Outcome};
//! use tidegate_types::JobId;
//!
//! let mut nonces = Nonces::seeded(42);
//! let store = CheckpointStore::open("memory:///checkpoints")?;
//! let job = store.job(&JobId::from("word-count"))?;
//! let mut claim = job.claim(nonces.draw()).await?;
//! job.sweep(&mut claim.deletes, &claim.leadership.view()).await?;
//!
//! let id = claim.leadership.next_id();
//! let failed = AbortCause::Failed { reason: "expired".into(), detail: String::new() };
//! let outcome = job.decide(&mut claim.leadership, id, Decision::Aborted(failed)).await?;
//! assert_eq!(outcome, Outcome::Mine);
//! # Ok(()) }) }
//! # fn futures_lite<F: Future>(future: F) -> F::Output {
//! #     let mut future = std::pin::pin!(future);
//! #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! #     loop { if let std::task::Poll::Ready(out) = future.as_mut().poll(&mut context) { return out; } }
//! # }
//! ```

pub mod claim;
pub mod decision;
pub mod dir;
pub mod discover;
pub mod error;
pub mod fault;
mod frame;
pub mod layout;
pub mod leadership;
mod local;
pub mod lock;
pub mod metadata;
pub mod nonce;
pub mod retention;
pub mod savepoint;
pub mod state_file;
pub mod state_reader;
pub mod store;
pub mod sweep;
#[cfg(test)]
mod testing;
mod unique;
pub mod verify;

pub use claim::{Claim, Newest};
pub use decision::Outcome;
pub use dir::StoreDir;
pub use discover::{CheckpointSummary, DecisionSummary, Snapshot, open_snapshot, snapshot_at};
pub use error::{ErrorKind, Problem, StorageError};
pub use layout::{StateFileName, Writer};
pub use leadership::{DeletePermit, Leadership, View};
pub use lock::{JobLock, LockHolder};
pub use metadata::{
    AbortCause, CheckpointMetadata, Decision, DecisionHeader, DecisionObject, Finished, InputMeta, LineageId,
    OperatorMeta, StatsSummary,
};
pub use nonce::{Nonce, Nonces};
pub use retention::NamedFiles;
pub use state_file::{Place, StateFileWriter, WrittenState};
pub use state_reader::StateReader;
pub use store::{CheckpointStore, JobStore};
pub use sweep::{SweepReport, Warning};
pub use verify::{VerifyReport, verify};
