//! Faults that hurt users of other engines, as whole jobs: real tasks, master and store in one thread, on a virtual
//! clock, with the order of things drawn from a seed or told step by step. `docs/cases.md` says which test shows what.
//!
//! Owns: one file per case. Does not own: what shows the same at a single machine (the barrier handler's own tests),
//! random jobs under random faults (`tests/words.rs`).

mod kit;

mod c01_late_cancel;
mod c02_two_gates;
mod c03_mixed_edges;
mod c04_rescale;
mod c05_recovery_crash;
mod c07_commit_window;
mod c08_enumerator;
mod c09_finished;
mod c11_lock;
mod c12_named_sources;
mod c13_concurrent;
mod c14_slow_record;
mod c15_backpressured;
mod c16_watermarks;
mod c18_settlement;
mod c19_changed_types;
mod endings;
