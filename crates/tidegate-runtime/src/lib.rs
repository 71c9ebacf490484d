//! Tidegate's runtime: gates, chains, tasks, drivers and the embedded job master.

pub mod clock;
pub mod error;
pub mod gate;
pub mod signal;
