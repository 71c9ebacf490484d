//! Writing files exactly once: hidden while they are written, visible by a commit.
//!
//! Follow a record through it: an [`encode`] makes bytes of it, the [`writer`] of its subtask puts them into a
//! [`staging`] file, a cut makes that a [`committable`], and the [`committer`] gives it the final one of its
//! [`names`]. The [`sink`] makes both; all of it goes through a [`disk`].

mod committable;
mod committer;
mod disk;
mod encode;
mod error;
mod names;
mod sink;
mod staging;
#[cfg(test)]
mod tests;
mod writer;

pub use committable::FileCommittable;
pub use encode::{CsvEncoder, Encoder, FnEncoder, JsonLinesEncoder, TextEncoder};
pub use error::SinkError;
pub use sink::FileSink;
