//! The canonical format: MessagePack with named fields, for snapshots that outlive the types they were made of.
//!
//! Owns: what is written (`write`; the layout of `rmp-serde` with named fields, specified in `docs/formats.md`,
//! "Values") and the check that goes before reading (`skim`: one complete value, every length backed by bytes,
//! nesting bounded). Structs are maps from field name to value and variants go by name, so fields may come and go
//! with serde's `default`, be reordered, and be renamed with `alias`.
//!
//! Does not own: MessagePack's reading side, which is `rmp-serde`. Writing is done here because it has to refuse
//! what MessagePack can't tell apart: `Some(None)` and `Some(())` have the bytes of `None`.

use rmp_serde::decode::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CodecError, CodecErrorKind};

mod differ;
mod skim;
#[cfg(test)]
mod tests;
mod write;

/// How deep arrays and maps may nest in one value, on both sides. A level of a native value can take three here (a
/// variant, its fields, a list in them), so this is more than [`super::native::MAX_DEPTH`].
pub const MAX_DEPTH: usize = 384;

/// Appends `value` to `out`. On an error `out` is as long as before.
///
/// # Errors
/// [`CodecErrorKind::NotCanonical`] for `Some` of something that is written like `None`. Else if the type's
/// `Serialize` fails or the value is over [`MAX_DEPTH`].
pub fn encode_into<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let before = out.len();
    let result = value.serialize(&mut write::Encoder::new(out));
    if result.is_err() {
        out.truncate(before);
    }
    result
}

/// Reads one value from the front of `input` and advances it past the value. On an error `input` is unchanged.
///
/// # Errors
/// If the bytes are no MessagePack, or no value of `T`.
pub fn decode_from<T: DeserializeOwned>(input: &mut &[u8]) -> Result<T, CodecError> {
    let (bytes, rest) = input.split_at(skim::value_len(input)?);
    let mut deserializer = rmp_serde::Deserializer::new(bytes);
    let value = T::deserialize(&mut deserializer);
    let left = deserializer.get_ref().len();
    let offset = (bytes.len() - left) as u64;
    let value = value.map_err(|error| from_rmp(error).at(offset))?;
    if left > 0 {
        return Err(CodecError::new(CodecErrorKind::TrailingBytes { count: left as u64 }).at(offset));
    }
    *input = rest;
    Ok(value)
}

/// The bytes of one value with the elements of arrays and maps sorted: equal for two encodings of one value whose
/// hash maps and sets were walked in different order.
pub(super) fn unordered(bytes: &[u8]) -> Result<Vec<u8>, CodecError> {
    skim::value_len(bytes)?;
    let mut out = Vec::with_capacity(bytes.len());
    skim::unordered(&mut { bytes }, &mut out)?;
    Ok(out)
}

/// Where a value and what it came back as differ: the path to a field, or `None` if their canonical forms don't show
/// it.
pub(super) fn difference<T: Serialize>(value: &T, back: &T) -> Option<String> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    encode_into(value, &mut first).ok()?;
    encode_into(back, &mut second).ok()?;
    differ::difference(&first, &second)
        .ok()?
        .filter(|path| !path.is_empty())
}

fn from_rmp(error: Error) -> CodecError {
    match error {
        Error::Syntax(message) | Error::Uncategorized(message) => CodecErrorKind::Message(message),
        other => CodecErrorKind::InvalidValue(other.to_string()),
    }
    .into()
}
