//! The canonical format: MessagePack with named fields, for savepoints that outlive their types.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CodecError, CodecErrorKind};

/// Appends `value` to `out`. On an error `out` is as long as before.
///
/// # Errors
/// If the type's `Serialize` fails, or the value can't be represented.
pub fn encode_into<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let before = out.len();
    let mut serializer = rmp_serde::Serializer::new(&mut *out).with_struct_map();
    value.serialize(&mut serializer).map_err(|e| {
        out.truncate(before);
        CodecError::new(CodecErrorKind::Message(e.to_string()))
    })
}

/// Reads one value from the front of `input` and advances it past the value. On an error `input` is unchanged.
///
/// # Errors
/// If the bytes are no value of `T`.
pub fn decode_from<T: DeserializeOwned>(input: &mut &[u8]) -> Result<T, CodecError> {
    let mut rest = *input;
    let value = rmp_serde::from_read(&mut rest)
        .map_err(|e| CodecError::new(CodecErrorKind::Message(e.to_string())))?;
    *input = rest;
    Ok(value)
}
