//! # Tidegate
//!
//! A stateful stream-processing engine whose heart is the distributed snapshot. A job is a typed dataflow; it runs
//! embedded in this process, cuts consistent snapshots through itself without stopping, and comes back
//! exactly once after any crash.
//!
//! ```
//! use tidegate::prelude::*;
//!
//! #[derive(Default)]
//! struct Count {
//!     seen: ValueState<String, u64>,
//! }
//!
//! impl ProcessFunction<String, String, (String, u64)> for Count {
//!     fn state(&mut self, states: &mut States<'_, String>) {
//!         states.value("seen", &mut self.seen);
//!     }
//!
//!     fn process(
//!         &mut self,
//!         _word: String,
//!         cx: &mut ProcessContext<'_, String, (String, u64)>,
//!     ) -> Result<(), BoxError> {
//!         let seen = self.seen.get(cx.at()).copied().unwrap_or(0) + 1;
//!         self.seen.set(cx.at(), seen);
//!         cx.collect((cx.key().clone(), seen));
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let env = Environment::new("word-count");
//! let counts = env
//!     .from_collection("lines", vec!["to be or".to_owned(), "not to be".to_owned()])
//!     .flat_map("words", |line: String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
//!     .key_by(|word: &String| word.clone())
//!     .process("count", Count::default)
//!     .uid("count")
//!     .collect("result");
//! env.build()?.start(StartOptions::default())?.wait_blocking()?;
//! let mut counts = counts.take();
//! counts.sort();
//! assert_eq!(counts.last(), Some(&("to".to_owned(), 2)));
//! # Ok(())
//! # }
//! ```
//!
//! Owns: the DataStream API ([`Environment`], [`Stream`], [`KeyedStream`]), building and starting jobs ([`JobGraph`],
//! [`JobHandle`]). Does not own: running (`tidegate-runtime`), state (`tidegate-state`), connectors
//! (`tidegate-files`). Read `docs/snapshots.md` for how a snapshot goes through all of these.

/// The README's program compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod build;
mod collect;
mod connected;
mod environment;
mod fallible;
mod handle;
mod keyed;
mod sinks;
mod stream;

pub mod prelude;

pub use build::{BuildError, BuildErrors};
pub use collect::Collected;
pub use connected::ConnectedStreams;
pub use environment::Environment;
pub use handle::{Drain, JobGraph, JobHandle, StartOptions};
pub use keyed::{ConnectedKeyedStreams, KeyedStream};
pub use sinks::SinkHandle;
pub use stream::{SideStream, Stream};
pub use tidegate_protocol::coordinator::RequestFailure;

pub use tidegate_files as files;
pub use tidegate_runtime as runtime;
pub use tidegate_state as state;
pub use tidegate_storage as storage;
pub use tidegate_types as types;
