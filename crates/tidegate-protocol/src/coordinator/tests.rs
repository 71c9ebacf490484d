//! Each file puts a coordinator into a state, tells it one thing, and compares what it wants done.

mod abort;
mod acks;
mod decision;
mod drain;
mod finished;
mod history;
mod invariants;
mod last;
mod periodic;
mod plan;
mod quiesce;
mod random;
mod requests;
mod retention;
mod rig;
mod savepoint;
mod settings;
mod suspend;
mod takeover;
mod trace;
mod trigger;
