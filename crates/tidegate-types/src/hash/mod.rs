//! The stable hash of a key: XXH3-64 over what serde emits for it.
//!
//! Owns: the byte stream that a key is hashed over (specified in `docs/formats.md`, "Keys and hashes") and its
//! hash. Both are part of the snapshot format: a changed hash would send every key to another subtask than its
//! state, so the tests pin vectors made by another implementation.
//!
//! Does not own: which key group and subtask a hash belongs to ([`crate::key_group`]). The stream is fed by the
//! serializer in `feed`, collected by `stream`; `short` holds the paths for one integer, without a buffer.

use serde::Serialize;
use thiserror::Error;

mod feed;
mod short;
mod stream;
#[cfg(test)]
mod tests;

/// Why a key has no hash.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HashError {
    /// A float inside: equal floats can have different bits (0.0 and -0.0), and NaN equals nothing.
    #[error("a key can't contain floats: equal ones may have different bytes")]
    Float,
    /// A map or set-like type that serialises as a map, or a struct with `#[serde(flatten)]`.
    #[error("a key can't contain maps or flattened structs: their order isn't part of their value")]
    Map,
    /// A sequence that doesn't say how long it is before it begins.
    #[error("a key can't contain a sequence of unknown length")]
    UnknownLength,
    /// Said by the key's own `Serialize`.
    #[error("{0}")]
    Message(Box<str>),
}

impl serde::ser::Error for HashError {
    fn custom<M: std::fmt::Display>(message: M) -> Self {
        Self::Message(message.to_string().into())
    }
}

/// The 64-bit hash that decides which key group and subtask a key belongs to.
///
/// A single integer costs a few multiplications and a string or a composite key of up to 240 bytes one pass over
/// a stack buffer; only longer ones allocate.
///
/// ```
/// # use tidegate_types::hash::key_hash;
/// assert_eq!(key_hash(&7u64), Ok(0x8167_1e58_d6b5_96af));
/// assert_eq!(key_hash("seven"), key_hash(&String::from("seven")));
/// assert!(key_hash(&7.0f64).is_err());
/// ```
///
/// # Errors
/// If the key contains floats, maps or sequences of unknown length, or its `Serialize` fails. Whether it does
/// usually depends on the type alone, so the first key of a job shows it.
#[inline]
pub fn key_hash<K: Serialize + ?Sized>(key: &K) -> Result<u64, HashError> {
    let mut stream = None;
    key.serialize(feed::Feed::root(&mut stream))
}
