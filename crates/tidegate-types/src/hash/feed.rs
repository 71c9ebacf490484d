//! The serializer that turns what serde emits for a key into the hashed byte stream.
//!
//! One serializer in two places: [`Root`] is the key itself, whose single integer or string is the whole stream
//! and takes a one-shot path; [`Part`] is anything inside a composite key. The place is a type parameter, so
//! for a given key type the choice is made by the compiler.

use serde::ser::{
    Impossible, Serialize, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::HashError;
use super::short::hash_of;
use super::stream::{Stream, hash_of_text};

/// Where in a key the serializer stands.
pub(super) trait Place {
    /// What serializing there gives: the hash, or nothing yet.
    type Ok;
    /// Where the stream comes from.
    type From<'a>;
    /// A value of fixed width.
    fn fixed<const N: usize>(from: Self::From<'_>, bytes: [u8; N]) -> Self::Ok;
    /// A string or bytes.
    fn text(from: Self::From<'_>, text: &[u8]) -> Self::Ok;
    /// The stream, for a value of several parts.
    fn open<'a>(from: Self::From<'a>) -> &'a mut Stream;
    /// After the last part.
    fn close(stream: &mut Stream) -> Self::Ok;
}

/// The whole key. The stream is made only when the key turns out to have parts.
pub(super) struct Root;

impl Place for Root {
    type Ok = u64;
    type From<'a> = &'a mut Option<Stream>;

    #[inline(always)]
    fn fixed<const N: usize>(_: &mut Option<Stream>, bytes: [u8; N]) -> u64 {
        hash_of(bytes)
    }

    #[inline(always)]
    fn text(_: &mut Option<Stream>, text: &[u8]) -> u64 {
        hash_of_text(text)
    }

    #[inline]
    fn open<'a>(from: Self::From<'a>) -> &'a mut Stream {
        from.insert(Stream::new())
    }

    #[inline]
    fn close(stream: &mut Stream) -> u64 {
        stream.finish()
    }
}

/// Part of a key.
pub(super) struct Part;

impl Place for Part {
    type Ok = ();
    type From<'a> = &'a mut Stream;

    #[inline(always)]
    fn fixed<const N: usize>(from: &mut Stream, bytes: [u8; N]) {
        from.push(&bytes);
    }

    #[inline(always)]
    fn text(from: &mut Stream, text: &[u8]) {
        from.push_text(text);
    }

    #[inline]
    fn open<'a>(from: Self::From<'a>) -> &'a mut Stream {
        from
    }

    #[inline]
    fn close(_: &mut Stream) {}
}

pub(super) struct Feed<'a, P: Place>(P::From<'a>);

impl<'a> Feed<'a, Root> {
    #[inline]
    pub(super) fn root(stream: &'a mut Option<Stream>) -> Self {
        Self(stream)
    }
}

/// A value of several parts.
pub(super) struct Parts<'a, P> {
    stream: &'a mut Stream,
    _place: std::marker::PhantomData<P>,
}

impl<'a, P: Place> Parts<'a, P> {
    #[inline]
    fn new(stream: &'a mut Stream) -> Self {
        Self {
            stream,
            _place: std::marker::PhantomData,
        }
    }

    #[inline]
    fn part<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), HashError> {
        value.serialize(Feed::<Part>(self.stream))
    }

    #[inline]
    fn close(self) -> Result<P::Ok, HashError> {
        Ok(P::close(self.stream))
    }
}

macro_rules! fixed {
    ($($method:ident($type:ty)),* $(,)?) => {
        $(#[inline(always)]
        fn $method(self, v: $type) -> Result<P::Ok, HashError> {
            Ok(P::fixed(self.0, v.to_le_bytes()))
        })*
    };
}

impl<'a, P: Place> Serializer for Feed<'a, P> {
    type Ok = P::Ok;
    type Error = HashError;
    type SerializeSeq = Parts<'a, P>;
    type SerializeTuple = Parts<'a, P>;
    type SerializeTupleStruct = Parts<'a, P>;
    type SerializeTupleVariant = Parts<'a, P>;
    /// A map is refused before its first entry.
    type SerializeMap = Impossible<P::Ok, HashError>;
    type SerializeStruct = Parts<'a, P>;
    type SerializeStructVariant = Parts<'a, P>;

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
    );

    #[inline]
    fn serialize_bool(self, v: bool) -> Result<P::Ok, HashError> {
        Ok(P::fixed(self.0, [u8::from(v)]))
    }

    #[inline]
    fn serialize_char(self, v: char) -> Result<P::Ok, HashError> {
        Ok(P::fixed(self.0, u32::from(v).to_le_bytes()))
    }

    fn serialize_f32(self, _: f32) -> Result<P::Ok, HashError> {
        Err(HashError::Float)
    }

    fn serialize_f64(self, _: f64) -> Result<P::Ok, HashError> {
        Err(HashError::Float)
    }

    #[inline(always)]
    fn serialize_str(self, v: &str) -> Result<P::Ok, HashError> {
        Ok(P::text(self.0, v.as_bytes()))
    }

    #[inline(always)]
    fn serialize_bytes(self, v: &[u8]) -> Result<P::Ok, HashError> {
        Ok(P::text(self.0, v))
    }

    #[inline]
    fn serialize_none(self) -> Result<P::Ok, HashError> {
        Ok(P::fixed(self.0, [0]))
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<P::Ok, HashError> {
        let mut parts = Parts::<P>::new(P::open(self.0));
        parts.stream.push(&[1]);
        parts.part(value)?;
        parts.close()
    }

    #[inline]
    fn serialize_unit(self) -> Result<P::Ok, HashError> {
        Ok(P::close(P::open(self.0)))
    }

    #[inline]
    fn serialize_unit_struct(self, _: &'static str) -> Result<P::Ok, HashError> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<P::Ok, HashError> {
        self.serialize_str(variant)
    }

    #[inline(always)]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<P::Ok, HashError> {
        value.serialize(self)
    }

    #[inline]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<P::Ok, HashError> {
        let mut parts = self.variant(variant);
        parts.part(value)?;
        parts.close()
    }

    #[inline]
    fn serialize_seq(self, len: Option<usize>) -> Result<Parts<'a, P>, HashError> {
        let len = len.ok_or(HashError::UnknownLength)? as u64;
        let stream = P::open(self.0);
        stream.push(&len.to_le_bytes());
        Ok(Parts::new(stream))
    }

    #[inline]
    fn serialize_tuple(self, _: usize) -> Result<Parts<'a, P>, HashError> {
        Ok(Parts::new(P::open(self.0)))
    }

    #[inline]
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Parts<'a, P>, HashError> {
        Ok(Parts::new(P::open(self.0)))
    }

    #[inline]
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Parts<'a, P>, HashError> {
        Ok(self.variant(variant))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, HashError> {
        Err(HashError::Map)
    }

    #[inline]
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Parts<'a, P>, HashError> {
        Ok(Parts::new(P::open(self.0)))
    }

    #[inline]
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Parts<'a, P>, HashError> {
        Ok(self.variant(variant))
    }

    /// A key must not hash differently because a type has a second form for people to read.
    #[inline]
    fn is_human_readable(&self) -> bool {
        false
    }
}

impl<'a, P: Place> Feed<'a, P> {
    /// Variants are fed by name: adding one before others must not move keys.
    #[inline]
    fn variant(self, name: &'static str) -> Parts<'a, P> {
        let stream = P::open(self.0);
        stream.push_text(name.as_bytes());
        Parts::new(stream)
    }
}

macro_rules! parts {
    ($($trait:ident::$method:ident),* $(,)?) => {
        $(impl<P: Place> $trait for Parts<'_, P> {
            type Ok = P::Ok;
            type Error = HashError;

            #[inline]
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), HashError> {
                self.part(value)
            }

            #[inline]
            fn end(self) -> Result<P::Ok, HashError> {
                self.close()
            }
        })*
    };
}

macro_rules! named_parts {
    ($($trait:ident),* $(,)?) => {
        $(impl<P: Place> $trait for Parts<'_, P> {
            type Ok = P::Ok;
            type Error = HashError;

            #[inline]
            fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Result<(), HashError> {
                self.part(value)
            }

            #[inline]
            fn end(self) -> Result<P::Ok, HashError> {
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
