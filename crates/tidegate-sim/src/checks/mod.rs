//! What must hold, one property per file. Each checker has a test that shows it a faked violation.

pub mod blocked;
pub mod commits;
pub mod deleted;
pub mod memory;
pub mod output;
pub mod state;
pub mod store;
pub mod watermarks;
