//! Checkpoint storage as its users meet it: through the public interface, on memory, on disk and over failing stores.

#![allow(clippy::unwrap_used, reason = "a failed test should fail where it fails")]

mod common;
mod crashes;
mod decisions;
mod discover;
mod fault;
mod local_disk;
mod metadata;
mod savepoints;
mod schedules;
mod state_files;
mod sweep;
mod takeover;
mod torn;
mod verify;
