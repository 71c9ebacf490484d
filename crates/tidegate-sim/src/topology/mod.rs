//! Random jobs: drawn from a seed as data, built into graphs, computed by an oracle.
//!
//! Owns: what a job may be made of ([`plan`], [`draw`]), its user code (`keyed`, `stateless`), and what must come
//! of it ([`oracle`]). Does not own: when anything happens, or what goes wrong meanwhile.

mod build;
pub mod draw;
pub mod item;
mod job;
mod keyed;
pub mod oracle;
pub mod plan;
pub mod stateless;
mod watch;

pub use draw::Size;
pub use job::RandomJob;
