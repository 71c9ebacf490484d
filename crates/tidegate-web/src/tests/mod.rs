//! Each file asks one group of paths and compares whole answers; `fixture` has the job that is asked about.

mod checkpoints;
mod cluster;
mod commands;
mod fixture;
mod guard;
mod job;
mod metrics;
mod page;
mod parts;
mod plan;
mod server;
