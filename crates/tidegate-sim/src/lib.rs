//! Tidegate's seeded simulator: whole jobs in one thread, with faults, checked against an oracle.
//!
//! One seed decides everything: the job, what goes wrong, and in which order things happen. The engine's own parts run
//! unchanged (tasks as step functions, the job master, the store over memory) under a virtual clock and one
//! scheduler ([`sim`]); every message between master and tasks is encoded and decoded on its way ([`wire`]). A run
//! has a safety phase, in which processes crash and stores, sinks and user code fail ([`faults`]), and a liveness
//! phase without faults that must end in a bounded number of turns ([`run`]). What must hold is in [`checks`], one
//! property per file.
//!
//! `cargo xtask sim SEED…` runs seeds. A seed that fails prints the command that repeats it.

pub mod batch;
mod brief;
pub mod checks;
pub mod clock;
pub mod command;
mod disk;
pub mod driven;
mod env;
pub mod faults;
pub mod log;
mod people;
pub mod process;
pub mod run;
pub mod scenario;
pub mod seed;
pub mod shrink;
pub mod sim;
pub mod takeover;
pub mod topology;
pub mod trace;
pub mod wire;
pub mod words;
