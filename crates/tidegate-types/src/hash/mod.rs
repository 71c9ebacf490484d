//! The stable hash of a key, from what serde emits for it.

use serde::Serialize;
use thiserror::Error;

/// Why a key has no hash.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HashError {
    /// Said by the key's `Serialize`.
    #[error("{0}")]
    Message(Box<str>),
}

/// The 64-bit hash that decides which key group and subtask a key belongs to.
///
/// # Errors
/// If the key's `Serialize` fails or emits what has no stable order (floats, maps).
pub fn key_hash<K: Serialize + ?Sized>(key: &K) -> Result<u64, HashError> {
    let bytes = rmp_serde::to_vec(key).map_err(|e| HashError::Message(e.to_string().into()))?;
    Ok(xxhash_rust::xxh3::xxh3_64(&bytes))
}
