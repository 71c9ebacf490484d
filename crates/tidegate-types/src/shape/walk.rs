//! Walks over native bytes by the shape they were written with.

use super::{Field, Payload, Shape};
use crate::codec::native::MAX_DEPTH;
use crate::codec::{CodecError, CodecErrorKind};

/// The native bytes of one value with the elements of sequences and maps sorted: equal for two encodings of one
/// value whose hash maps and sets were walked in different order.
///
/// # Errors
/// If the bytes don't fit the shape exactly.
pub(crate) fn unordered(shape: &Shape, bytes: &[u8]) -> Result<Vec<u8>, CodecError> {
    let mut walk = Walk {
        input: bytes,
        around: Vec::new(),
        depth: 0,
    };
    let mut out = Vec::with_capacity(bytes.len());
    let result = walk.shape(shape, &mut out);
    let offset = (bytes.len() - walk.input.len()) as u64;
    result.map_err(|e| e.at(offset))?;
    match walk.input.len() as u64 {
        0 => Ok(out),
        count => Err(CodecError::new(CodecErrorKind::TrailingBytes { count }).at(offset)),
    }
}

struct Walk<'a> {
    input: &'a [u8],
    /// Structs and enums around this place, for recursive references.
    around: Vec<&'a Shape>,
    depth: u32,
}

impl<'a> Walk<'a> {
    fn shape(&mut self, shape: &'a Shape, out: &mut Vec<u8>) -> Result<(), CodecError> {
        match shape {
            Shape::Unit | Shape::UnitStruct { .. } => Ok(()),
            Shape::Bool | Shape::I8 | Shape::U8 => self.copy(1, out),
            Shape::I16 | Shape::U16 => self.copy(2, out),
            Shape::I32 | Shape::U32 | Shape::F32 | Shape::Char => self.copy(4, out),
            Shape::I64 | Shape::U64 | Shape::F64 => self.copy(8, out),
            Shape::I128 | Shape::U128 => self.copy(16, out),
            Shape::Str | Shape::Bytes => {
                let len = self.varint(out)?;
                self.copy(len, out)
            }
            Shape::Option(inner) => {
                let [tag] = self.take(1)? else {
                    return Err(invalid("no tag of an option"));
                };
                out.push(*tag);
                if *tag == 0 {
                    Ok(())
                } else {
                    self.nested(|walk| walk.shape(inner, out))
                }
            }
            Shape::Seq(element) => self.items(out, |walk, out| walk.shape(element, out)),
            Shape::Map { key, value } => self.items(out, |walk, out| {
                walk.shape(key, out)?;
                walk.shape(value, out)
            }),
            Shape::Tuple(parts) => self.parts(parts, out),
            Shape::Array { element, len } => (0..*len).try_for_each(|_| self.shape(element, out)),
            Shape::Newtype { inner, .. } => self.named(shape, |walk| walk.shape(inner, out)),
            Shape::TupleStruct { fields, .. } => self.named(shape, |walk| {
                walk.varint(out)?;
                walk.parts(fields, out)
            }),
            Shape::Struct { fields, .. } => self.named(shape, |walk| walk.fields(fields, out)),
            Shape::Enum { variants, .. } => {
                let index = self.varint(out)?;
                let variant = usize::try_from(index).ok().and_then(|i| variants.get(i));
                let variant = variant.ok_or_else(|| invalid("an index past the last variant"))?;
                self.named(shape, |walk| {
                    walk.nested(|walk| walk.payload(&variant.payload, out))
                })
            }
            Shape::Recursive { up, .. } => {
                let at = self.around.len().checked_sub(*up as usize + 1);
                let at = at.ok_or_else(|| invalid("a shape that refers to nothing around it"))?;
                // Seen from there, what lies further in isn't around any more.
                let inner = self.around.split_off(at);
                let result = self.shape(inner[0], out);
                self.around.extend(inner);
                result
            }
        }
    }

    fn payload(&mut self, payload: &'a Payload, out: &mut Vec<u8>) -> Result<(), CodecError> {
        match payload {
            Payload::Unit => Ok(()),
            Payload::Newtype(inner) => self.shape(inner, out),
            Payload::Tuple(parts) => {
                self.varint(out)?;
                self.parts(parts, out)
            }
            Payload::Struct(fields) => self.fields(fields, out),
        }
    }

    fn parts(&mut self, parts: &'a [Shape], out: &mut Vec<u8>) -> Result<(), CodecError> {
        parts.iter().try_for_each(|part| self.shape(part, out))
    }

    fn fields(&mut self, fields: &'a [Field], out: &mut Vec<u8>) -> Result<(), CodecError> {
        fields.iter().try_for_each(|field| self.shape(&field.shape, out))
    }

    fn items(
        &mut self,
        out: &mut Vec<u8>,
        mut item: impl FnMut(&mut Self, &mut Vec<u8>) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        let len = self.varint(out)?;
        let mut items = Vec::new();
        self.nested(|walk| {
            for _ in 0..len {
                let before = walk.input.len();
                let mut bytes = Vec::new();
                item(walk, &mut bytes)?;
                // Elements without content need no sorting, and their number may be anything.
                if walk.input.len() == before {
                    break;
                }
                items.push(bytes);
            }
            Ok(())
        })?;
        items.sort_unstable();
        out.extend(items.into_iter().flatten());
        Ok(())
    }

    fn named(
        &mut self,
        shape: &'a Shape,
        inside: impl FnOnce(&mut Self) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        self.around.push(shape);
        let result = inside(self);
        self.around.pop();
        result
    }

    fn nested(&mut self, inside: impl FnOnce(&mut Self) -> Result<(), CodecError>) -> Result<(), CodecError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let (length, limit) = (u64::from(self.depth), u64::from(MAX_DEPTH));
            return Err(CodecErrorKind::OverLimit {
                what: "nesting depth",
                length,
                limit,
            }
            .into());
        }
        let result = inside(self);
        self.depth -= 1;
        result
    }

    fn varint(&mut self, out: &mut Vec<u8>) -> Result<u64, CodecError> {
        let mut v = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            out.push(byte);
            v |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(v);
            }
        }
        Err(invalid("a number of more than 64 bits"))
    }

    fn copy(&mut self, len: u64, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let bytes = self.take(len)?;
        out.extend_from_slice(bytes);
        Ok(())
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], CodecError> {
        let Some((bytes, rest)) = usize::try_from(len)
            .ok()
            .and_then(|n| self.input.split_at_checked(n))
        else {
            return Err(CodecErrorKind::Truncated {
                needed: len,
                available: self.input.len() as u64,
            }
            .into());
        };
        self.input = rest;
        Ok(bytes)
    }
}

fn invalid(what: &str) -> CodecError {
    CodecErrorKind::InvalidValue(what.into()).into()
}
