//! Values to MessagePack.

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::MAX_DEPTH;
use crate::codec::{CodecError, CodecErrorKind};

const NIL: u8 = 0xc0;

pub(super) struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    depth: usize,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, depth: 0 }
    }

    fn header(&mut self, header: Header) {
        self.out.extend_from_slice(header.bytes());
    }

    fn enter(&mut self) -> Result<(), CodecError> {
        self.depth += 1;
        if self.depth <= MAX_DEPTH {
            return Ok(());
        }
        let (length, limit) = (self.depth as u64, MAX_DEPTH as u64);
        Err(CodecErrorKind::OverLimit {
            what: "nesting depth",
            length,
            limit,
        }
        .into())
    }

    /// A variant with content: a map from its name to the content.
    fn variant(&mut self, name: &str) -> Result<(), CodecError> {
        self.enter()?;
        self.header(Header::map(1)?);
        self.serialize_str(name)
    }

    /// Begins an array or map inside `outer` levels that end with it.
    fn parts(&mut self, kind: Kind, len: Option<usize>, outer: usize) -> Result<Parts<'_, 'a>, CodecError> {
        self.enter()?;
        if let Some(len) = len {
            self.header(kind.header(len)?);
        }
        let start = self.out.len();
        Ok(Parts {
            kind,
            announced: len,
            count: 0,
            start,
            levels: outer + 1,
            encoder: self,
        })
    }
}

/// The marker and length in front of a value.
struct Header {
    bytes: [u8; 5],
    len: usize,
}

impl Header {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// `fixed` holds a small length in its low bits, `wide` are the markers for one (if there is), two and four
    /// bytes of length.
    fn new(len: usize, fixed: Option<(u8, u32)>, wide: (Option<u8>, u8, u8)) -> Result<Self, CodecError> {
        let Ok(n) = u32::try_from(len) else {
            let (length, limit) = (len as u64, u64::from(u32::MAX));
            return Err(CodecErrorKind::OverLimit {
                what: "length",
                length,
                limit,
            }
            .into());
        };
        let [b3, b2, b1, b0] = n.to_be_bytes();
        let (bytes, len) = match (fixed, wide) {
            (Some((marker, below)), _) if n < below => ([marker | b0, 0, 0, 0, 0], 1),
            (_, (Some(marker), ..)) if n <= 0xff => ([marker, b0, 0, 0, 0], 2),
            (_, (_, marker, _)) if n <= 0xffff => ([marker, b1, b0, 0, 0], 3),
            (_, (_, _, marker)) => ([marker, b3, b2, b1, b0], 5),
        };
        Ok(Self { bytes, len })
    }

    fn str(len: usize) -> Result<Self, CodecError> {
        Self::new(len, Some((0xa0, 32)), (Some(0xd9), 0xda, 0xdb))
    }

    fn bin(len: usize) -> Result<Self, CodecError> {
        Self::new(len, None, (Some(0xc4), 0xc5, 0xc6))
    }

    fn array(len: usize) -> Result<Self, CodecError> {
        Self::new(len, Some((0x90, 16)), (None, 0xdc, 0xdd))
    }

    fn map(len: usize) -> Result<Self, CodecError> {
        Self::new(len, Some((0x80, 16)), (None, 0xde, 0xdf))
    }
}

impl<'e, 'a> Serializer for &'e mut Encoder<'a> {
    type Ok = ();
    type Error = CodecError;
    type SerializeSeq = Parts<'e, 'a>;
    type SerializeTuple = Parts<'e, 'a>;
    type SerializeTupleStruct = Parts<'e, 'a>;
    type SerializeTupleVariant = Parts<'e, 'a>;
    type SerializeMap = Parts<'e, 'a>;
    type SerializeStruct = Parts<'e, 'a>;
    type SerializeStructVariant = Parts<'e, 'a>;

    fn serialize_bool(self, v: bool) -> Result<(), CodecError> {
        self.out.push(0xc2 + u8::from(v));
        Ok(())
    }

    fn serialize_i8(self, v: i8) -> Result<(), CodecError> {
        self.serialize_i64(i64::from(v))
    }

    fn serialize_i16(self, v: i16) -> Result<(), CodecError> {
        self.serialize_i64(i64::from(v))
    }

    fn serialize_i32(self, v: i32) -> Result<(), CodecError> {
        self.serialize_i64(i64::from(v))
    }

    fn serialize_i64(self, v: i64) -> Result<(), CodecError> {
        let [.., b3, b2, b1, b0] = v.to_be_bytes();
        match v {
            0.. => return self.serialize_u64(v as u64),
            -0x20..=-1 => self.out.push(b0),
            -0x80..=-0x21 => self.out.extend([0xd0, b0]),
            -0x8000..=-0x81 => self.out.extend([0xd1, b1, b0]),
            -0x8000_0000..=-0x8001 => self.out.extend([0xd2, b3, b2, b1, b0]),
            _ => {
                self.out.push(0xd3);
                self.out.extend(v.to_be_bytes());
            }
        }
        Ok(())
    }

    fn serialize_i128(self, v: i128) -> Result<(), CodecError> {
        self.serialize_bytes(&v.to_be_bytes())
    }

    fn serialize_u8(self, v: u8) -> Result<(), CodecError> {
        self.serialize_u64(u64::from(v))
    }

    fn serialize_u16(self, v: u16) -> Result<(), CodecError> {
        self.serialize_u64(u64::from(v))
    }

    fn serialize_u32(self, v: u32) -> Result<(), CodecError> {
        self.serialize_u64(u64::from(v))
    }

    fn serialize_u64(self, v: u64) -> Result<(), CodecError> {
        let [.., b3, b2, b1, b0] = v.to_be_bytes();
        match v {
            0..=0x7f => self.out.push(b0),
            0x80..=0xff => self.out.extend([0xcc, b0]),
            0x100..=0xffff => self.out.extend([0xcd, b1, b0]),
            0x1_0000..=0xffff_ffff => self.out.extend([0xce, b3, b2, b1, b0]),
            _ => {
                self.out.push(0xcf);
                self.out.extend(v.to_be_bytes());
            }
        }
        Ok(())
    }

    fn serialize_u128(self, v: u128) -> Result<(), CodecError> {
        self.serialize_bytes(&v.to_be_bytes())
    }

    fn serialize_f32(self, v: f32) -> Result<(), CodecError> {
        self.out.push(0xca);
        self.out.extend(v.to_bits().to_be_bytes());
        Ok(())
    }

    fn serialize_f64(self, v: f64) -> Result<(), CodecError> {
        self.out.push(0xcb);
        self.out.extend(v.to_bits().to_be_bytes());
        Ok(())
    }

    fn serialize_char(self, v: char) -> Result<(), CodecError> {
        self.serialize_str(v.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, v: &str) -> Result<(), CodecError> {
        self.header(Header::str(v.len())?);
        self.out.extend_from_slice(v.as_bytes());
        Ok(())
    }

    fn serialize_bytes(self, v: &[u8]) -> Result<(), CodecError> {
        self.header(Header::bin(v.len())?);
        self.out.extend_from_slice(v);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), CodecError> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), CodecError> {
        let at = self.out.len();
        // Options take no level in the bytes, but they do on this stack.
        self.enter()?;
        value.serialize(&mut *self)?;
        self.depth -= 1;
        if self.out.get(at) == Some(&NIL) {
            let why = "`Some` of an empty value (`Some(None)`, `Some(())`) would be read as `None`";
            return Err(CodecErrorKind::NotCanonical(why.into()).into());
        }
        Ok(())
    }

    fn serialize_unit(self) -> Result<(), CodecError> {
        self.out.push(NIL);
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), CodecError> {
        self.header(Header::array(0)?);
        Ok(())
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), CodecError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), CodecError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), CodecError> {
        self.variant(variant)?;
        value.serialize(&mut *self)?;
        self.depth -= 1;
        Ok(())
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Parts<'e, 'a>, CodecError> {
        self.parts(Kind::Array, len, 0)
    }

    fn serialize_tuple(self, len: usize) -> Result<Parts<'e, 'a>, CodecError> {
        self.parts(Kind::Array, Some(len), 0)
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<Parts<'e, 'a>, CodecError> {
        self.parts(Kind::Array, Some(len), 0)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Parts<'e, 'a>, CodecError> {
        self.variant(variant)?;
        self.parts(Kind::Array, Some(len), 1)
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Parts<'e, 'a>, CodecError> {
        self.parts(Kind::Map, len, 0)
    }

    fn serialize_struct(self, _: &'static str, len: usize) -> Result<Parts<'e, 'a>, CodecError> {
        self.parts(Kind::Map, Some(len), 0)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Parts<'e, 'a>, CodecError> {
        self.variant(variant)?;
        self.parts(Kind::Map, Some(len), 1)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Array,
    Map,
}

impl Kind {
    fn header(self, len: usize) -> Result<Header, CodecError> {
        match self {
            Self::Array => Header::array(len),
            Self::Map => Header::map(len),
        }
    }
}

/// An array or map being written. If its length wasn't announced, its header is put before it at the end.
pub(super) struct Parts<'e, 'a> {
    kind: Kind,
    announced: Option<usize>,
    count: usize,
    start: usize,
    levels: usize,
    encoder: &'e mut Encoder<'a>,
}

impl Parts<'_, '_> {
    fn part<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CodecError> {
        self.count += 1;
        value.serialize(&mut *self.encoder)
    }

    fn named<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), CodecError> {
        self.encoder.serialize_str(name)?;
        self.part(value)
    }

    fn close(self) -> Result<(), CodecError> {
        self.encoder.depth -= self.levels;
        match self.announced {
            Some(len) if len == self.count => {}
            Some(_) => {
                let why = "the type serialised another number of elements than it announced";
                return Err(CodecErrorKind::Message(why.into()).into());
            }
            None => {
                let header = self.kind.header(self.count)?;
                self.encoder
                    .out
                    .splice(self.start..self.start, header.bytes().iter().copied());
            }
        }
        Ok(())
    }
}

macro_rules! parts {
    ($($trait:ident::$method:ident),* $(,)?) => {
        $(impl $trait for Parts<'_, '_> {
            type Ok = ();
            type Error = CodecError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CodecError> {
                self.part(value)
            }

            fn end(self) -> Result<(), CodecError> {
                self.close()
            }
        })*
    };
}

macro_rules! named_parts {
    ($($trait:ident),* $(,)?) => {
        $(impl $trait for Parts<'_, '_> {
            type Ok = ();
            type Error = CodecError;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), CodecError> {
                self.named(name, value)
            }

            fn end(self) -> Result<(), CodecError> {
                self.close()
            }
        })*
    };
}

parts!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
);
named_parts!(SerializeStruct, SerializeStructVariant);

impl SerializeMap for Parts<'_, '_> {
    type Ok = ();
    type Error = CodecError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), CodecError> {
        self.part(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CodecError> {
        value.serialize(&mut *self.encoder)
    }

    fn end(self) -> Result<(), CodecError> {
        self.close()
    }
}
