//! One file per group of paths; `cells` has what several of them show.

pub(crate) mod cells;
pub(crate) mod checkpoints;
pub(crate) mod cluster;
pub(crate) mod commands;
pub(crate) mod details;
pub(crate) mod job;
pub(crate) mod vertex;
