//! The native format: compact, positional, readable only with the shape it was written with.
//!
//! Owns: the bytes (`write`, `read`; specified in `docs/formats.md`, "Values") and the limits that keep corrupt
//! bytes from costing memory or stack. Integers and floats have fixed width, lengths are varints, variants go by
//! index, structs and tuples are their fields in order; there is no buffer in between and nothing says which
//! type it is.
//!
//! Does not own: the proof that bytes and type fit together. That is [`crate::shape`], whose owner compares
//! shapes before it lets this module read; reading the bytes of another type gives an error or garbage.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::CodecError;

mod read;
#[cfg(test)]
mod tests;
mod write;

/// How deep options, sequences, maps and variants may nest in one value, on both sides: what is written can be
/// read, and corrupt bytes of a recursive type can't exhaust the stack.
pub const MAX_DEPTH: u32 = 128;

/// How many elements that take no bytes one value may contain, on both sides: lengths of such sequences can't be
/// checked against the input.
pub const MAX_ZERO_SIZED: u32 = 4096;

/// Appends `value` to `out`. On an error `out` is as long as before.
///
/// # Errors
/// [`CodecErrorKind::NotNative`](super::CodecErrorKind::NotNative) if a field is skipped or a sequence or map
/// doesn't know its length: the value can be written canonically. Else if the type's `Serialize` fails, or the
/// value is over [`MAX_DEPTH`] or [`MAX_ZERO_SIZED`].
#[inline]
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
/// If the bytes are no value of `T`, or `T` needs a self-describing format. The offset is where reading stopped.
#[inline]
pub fn decode_from<T: DeserializeOwned>(input: &mut &[u8]) -> Result<T, CodecError> {
    let mut decoder = read::Decoder::new(input);
    match T::deserialize(&mut decoder) {
        Ok(value) => {
            *input = decoder.rest();
            Ok(value)
        }
        Err(error) => Err(error.at(decoder.offset())),
    }
}
