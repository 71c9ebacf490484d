//! How values become bytes and come back: the one door through which records, keys and state are stored.
//!
//! Owns: the two formats ([`native`], compact and positional; [`canonical`], self-describing), the choice between
//! them per type ([`TypeFormat`]), the traits that say what a record and a key are ([`Record`], [`Key`]) and the
//! container of every file on disk ([`frame`]).
//!
//! Does not own: what a type looks like ([`crate::shape`]) and how a key is hashed ([`crate::hash`]). The bytes of
//! both formats are specified in `docs/formats.md`. Decoders take any bytes: they answer with a [`CodecError`],
//! never with a panic, and allocate no more than the input justifies.

use std::hash::Hash;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub mod canonical;
mod error;
mod format;
pub mod frame;
pub mod native;
#[cfg(test)]
mod tests;

pub use error::{CodecError, CodecErrorKind};
pub use format::{TypeFormat, UnreadableError, decode_as, encode_as};

/// What may flow through a stream and be stored in a snapshot. Implemented for every type that qualifies;
/// nothing of ours need be derived.
pub trait Record: Clone + Send + Sync + Serialize + DeserializeOwned + 'static {}

impl<T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static> Record for T {}

/// What a stream may be keyed by. Implemented for every type that qualifies.
///
/// Equal keys must serialise equally. `Hash` is never called, because what it feeds to a hasher is not stable
/// across platforms and versions (see [`crate::hash`]); asking for it keeps floats, maps and sets out when
/// the job is compiled.
pub trait Key: Record + Eq + Hash {}

impl<T: Record + Eq + Hash> Key for T {}
