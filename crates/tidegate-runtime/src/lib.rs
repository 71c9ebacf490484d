//! Tidegate's runtime: gates, chains, tasks, drivers and the embedded job master.

pub mod chain;
pub mod clock;
pub mod driver;
pub mod error;
pub mod gate;
pub mod graph;
pub mod master;
pub mod operators;
pub mod signal;
pub mod source;
pub mod task;
