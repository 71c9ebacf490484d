//! What a commit needs to know of a prepared file; stored in snapshots.

use serde::{Deserialize, Serialize};

/// A prepared file: durable under its hidden name, to be made visible under its final one. Part of the snapshot format,
/// see `docs/formats.md`, "File sink".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCommittable {
    /// The sink's directory when it was prepared; empty if that isn't Unicode.
    pub dir: String,
    /// Its hidden name in the directory.
    pub staging: String,
    /// Its final name in the directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// CRC-32C of its content.
    pub crc32c: u32,
}
