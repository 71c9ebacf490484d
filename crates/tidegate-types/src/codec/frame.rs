//! The container of every file on disk.
