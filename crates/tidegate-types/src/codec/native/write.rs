//! Values to native bytes.

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::{MAX_DEPTH, MAX_ZERO_SIZED};
use crate::codec::{CodecError, CodecErrorKind};

pub(super) struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    depth: u32,
    zero_sized: u32,
}

impl<'a> Encoder<'a> {
    #[inline]
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            depth: 0,
            zero_sized: 0,
        }
    }

    /// LEB128: seven bits a byte, lowest first, the high bit set on all but the last.
    #[inline]
    fn varint(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.out.push(v as u8 | 0x80);
            v >>= 7;
        }
        self.out.push(v as u8);
    }

    #[inline]
    fn text(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    #[inline]
    fn enter(&mut self) -> Result<(), CodecError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            Err(too_deep(self.depth))
        } else {
            Ok(())
        }
    }

    #[inline]
    fn leave(&mut self) {
        self.depth -= 1;
    }

    #[inline]
    fn nested<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CodecError> {
        self.enter()?;
        value.serialize(&mut *self)?;
        self.leave();
        Ok(())
    }

    /// Counts an element that took no bytes since `before`.
    #[inline]
    fn count_zero_sized(&mut self, before: usize) -> Result<(), CodecError> {
        if self.out.len() > before {
            return Ok(());
        }
        self.zero_sized += 1;
        if self.zero_sized > MAX_ZERO_SIZED {
            Err(too_many_zero_sized())
        } else {
            Ok(())
        }
    }

    #[inline]
    fn parts(&mut self, left: usize, nested: bool) -> Parts<'_, 'a> {
        Parts {
            encoder: self,
            left,
            nested,
        }
    }
}

#[cold]
pub(super) fn too_deep(depth: u32) -> CodecError {
    let (length, limit) = (u64::from(depth), u64::from(MAX_DEPTH));
    CodecErrorKind::OverLimit {
        what: "nesting depth",
        length,
        limit,
    }
    .into()
}

#[cold]
pub(super) fn too_many_zero_sized() -> CodecError {
    let limit = u64::from(MAX_ZERO_SIZED);
    CodecErrorKind::OverLimit {
        what: "number of elements without content",
        length: limit + 1,
        limit,
    }
    .into()
}

#[cold]
fn not_native(why: &str) -> CodecError {
    CodecErrorKind::NotNative(why.into()).into()
}

#[cold]
fn miscounted() -> CodecError {
    CodecErrorKind::Message("the type serialised another number of elements than it announced".into()).into()
}

macro_rules! fixed {
    ($($method:ident($type:ty)),* $(,)?) => {
        $(#[inline]
        fn $method(self, v: $type) -> Result<(), CodecError> {
            self.out.extend_from_slice(&v.to_le_bytes());
            Ok(())
        })*
    };
}

impl<'e, 'a> Serializer for &'e mut Encoder<'a> {
    type Ok = ();
    type Error = CodecError;
    type SerializeSeq = Parts<'e, 'a>;
    type SerializeTuple = Parts<'e, 'a>;
    type SerializeTupleStruct = Parts<'e, 'a>;
    type SerializeTupleVariant = Parts<'e, 'a>;
    type SerializeMap = Entries<'e, 'a>;
    type SerializeStruct = Parts<'e, 'a>;
    type SerializeStructVariant = Parts<'e, 'a>;

    fixed!(
        serialize_i8(i8),
        serialize_i16(i16),
        serialize_i32(i32),
        serialize_i64(i64),
        serialize_i128(i128),
        serialize_u8(u8),
        serialize_u16(u16),
        serialize_u32(u32),
        serialize_u64(u64),
        serialize_u128(u128),
        serialize_f32(f32),
        serialize_f64(f64),
    );

    #[inline]
    fn serialize_bool(self, v: bool) -> Result<(), CodecError> {
        self.out.push(u8::from(v));
        Ok(())
    }

    #[inline]
    fn serialize_char(self, v: char) -> Result<(), CodecError> {
        self.serialize_u32(u32::from(v))
    }

    #[inline]
    fn serialize_str(self, v: &str) -> Result<(), CodecError> {
        self.text(v.as_bytes());
        Ok(())
    }

    #[inline]
    fn serialize_bytes(self, v: &[u8]) -> Result<(), CodecError> {
        self.text(v);
        Ok(())
    }

    #[inline]
    fn serialize_none(self) -> Result<(), CodecError> {
        self.out.push(0);
        Ok(())
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), CodecError> {
        self.out.push(1);
        self.nested(value)
    }

    #[inline]
    fn serialize_unit(self) -> Result<(), CodecError> {
        Ok(())
    }

    #[inline]
    fn serialize_unit_struct(self, _: &'static str) -> Result<(), CodecError> {
        Ok(())
    }

    #[inline]
    fn serialize_unit_variant(self, _: &'static str, index: u32, _: &'static str) -> Result<(), CodecError> {
        self.varint(u64::from(index));
        Ok(())
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), CodecError> {
        value.serialize(self)
    }

    #[inline]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), CodecError> {
        self.varint(u64::from(index));
        self.nested(value)
    }

    #[inline]
    fn serialize_seq(self, len: Option<usize>) -> Result<Parts<'e, 'a>, CodecError> {
        let len = len.ok_or_else(|| not_native("a sequence of unknown length"))?;
        self.varint(len as u64);
        self.enter()?;
        Ok(self.parts(len, true))
    }

    #[inline]
    fn serialize_tuple(self, len: usize) -> Result<Parts<'e, 'a>, CodecError> {
        Ok(self.parts(len, false))
    }

    /// The number of fields is written: an attribute can skip one here and not in `Deserialize`, without a call
    /// that shows it.
    #[inline]
    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<Parts<'e, 'a>, CodecError> {
        self.varint(len as u64);
        Ok(self.parts(len, false))
    }

    #[inline]
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        len: usize,
    ) -> Result<Parts<'e, 'a>, CodecError> {
        self.varint(u64::from(index));
        self.varint(len as u64);
        self.enter()?;
        Ok(self.parts(len, true))
    }

    #[inline]
    fn serialize_map(self, len: Option<usize>) -> Result<Entries<'e, 'a>, CodecError> {
        let len = len.ok_or_else(|| not_native("a map of unknown length, or a struct with `flatten`"))?;
        self.varint(len as u64);
        self.enter()?;
        let start = self.out.len();
        Ok(Entries {
            encoder: self,
            left: len,
            start,
        })
    }

    #[inline]
    fn serialize_struct(self, _: &'static str, len: usize) -> Result<Parts<'e, 'a>, CodecError> {
        Ok(self.parts(len, false))
    }

    #[inline]
    fn serialize_struct_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        len: usize,
    ) -> Result<Parts<'e, 'a>, CodecError> {
        self.varint(u64::from(index));
        self.enter()?;
        Ok(self.parts(len, true))
    }

    #[inline]
    fn is_human_readable(&self) -> bool {
        false
    }
}

/// Elements or fields; `left` are still owed.
pub(super) struct Parts<'e, 'a> {
    encoder: &'e mut Encoder<'a>,
    left: usize,
    nested: bool,
}

impl Parts<'_, '_> {
    #[inline]
    fn part<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CodecError> {
        self.left = self.left.checked_sub(1).ok_or_else(miscounted)?;
        value.serialize(&mut *self.encoder)
    }

    #[inline]
    fn close(self) -> Result<(), CodecError> {
        if self.nested {
            self.encoder.leave();
        }
        if self.left == 0 { Ok(()) } else { Err(miscounted()) }
    }
}

impl SerializeSeq for Parts<'_, '_> {
    type Ok = ();
    type Error = CodecError;

    #[inline]
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CodecError> {
        let before = self.encoder.out.len();
        self.part(value)?;
        self.encoder.count_zero_sized(before)
    }

    #[inline]
    fn end(self) -> Result<(), CodecError> {
        self.close()
    }
}

macro_rules! parts {
    ($($trait:ident::$method:ident),* $(,)?) => {
        $(impl $trait for Parts<'_, '_> {
            type Ok = ();
            type Error = CodecError;

            #[inline]
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CodecError> {
                self.part(value)
            }

            #[inline]
            fn end(self) -> Result<(), CodecError> {
                self.close()
            }
        })*
    };
}

parts!(
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
);

macro_rules! named_parts {
    ($($trait:ident),* $(,)?) => {
        $(impl $trait for Parts<'_, '_> {
            type Ok = ();
            type Error = CodecError;

            #[inline]
            fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Result<(), CodecError> {
                self.part(value)
            }

            fn skip_field(&mut self, key: &'static str) -> Result<(), CodecError> {
                Err(not_native(&format!("field `{key}` is skipped")))
            }

            #[inline]
            fn end(self) -> Result<(), CodecError> {
                self.close()
            }
        })*
    };
}

named_parts!(SerializeStruct, SerializeStructVariant);

/// Entries of a map; `left` are still owed, the current one began at `start`.
pub(super) struct Entries<'e, 'a> {
    encoder: &'e mut Encoder<'a>,
    left: usize,
    start: usize,
}

impl SerializeMap for Entries<'_, '_> {
    type Ok = ();
    type Error = CodecError;

    #[inline]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), CodecError> {
        self.left = self.left.checked_sub(1).ok_or_else(miscounted)?;
        self.start = self.encoder.out.len();
        key.serialize(&mut *self.encoder)
    }

    #[inline]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CodecError> {
        value.serialize(&mut *self.encoder)?;
        self.encoder.count_zero_sized(self.start)
    }

    #[inline]
    fn end(self) -> Result<(), CodecError> {
        self.encoder.leave();
        if self.left == 0 { Ok(()) } else { Err(miscounted()) }
    }
}
