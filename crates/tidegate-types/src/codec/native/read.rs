//! Native bytes to values.

use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::write::{too_deep, too_many_zero_sized};
use super::{MAX_DEPTH, MAX_ZERO_SIZED};
use crate::codec::{CodecError, CodecErrorKind};

pub(super) struct Decoder<'de> {
    input: &'de [u8],
    total: usize,
    depth: u32,
    zero_sized: u32,
    /// How many elements may still be announced to collections. They allocate by what is announced, and every
    /// element that isn't empty takes a byte of its own, so honest bytes never need more than there are.
    hints: usize,
}

impl<'de> Decoder<'de> {
    #[inline]
    pub(super) fn new(input: &'de [u8]) -> Self {
        Self {
            input,
            total: input.len(),
            depth: 0,
            zero_sized: 0,
            hints: input.len(),
        }
    }

    #[inline]
    pub(super) fn rest(&self) -> &'de [u8] {
        self.input
    }

    #[inline]
    pub(super) fn offset(&self) -> u64 {
        (self.total - self.input.len()) as u64
    }

    #[cold]
    fn truncated(&self, needed: u64) -> CodecError {
        let available = self.input.len() as u64;
        CodecError::new(CodecErrorKind::Truncated { needed, available }).at(self.offset())
    }

    #[cold]
    fn invalid(&self, what: String) -> CodecError {
        CodecError::new(CodecErrorKind::InvalidValue(what)).at(self.offset())
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let Some((bytes, rest)) = self.input.split_first_chunk::<N>() else {
            return Err(self.truncated(N as u64));
        };
        self.input = rest;
        Ok(*bytes)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, CodecError> {
        match self.input.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.input = rest;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    #[cold]
    fn long_varint(&mut self) -> Result<u64, CodecError> {
        let mut v = 0;
        for (i, &byte) in self.input.iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if i == 9 && byte > 1 {
                break;
            }
            v |= bits << (7 * i);
            if byte < 0x80 {
                if byte == 0 && i > 0 {
                    return Err(self.invalid("a number with needless zeros".into()));
                }
                self.input = &self.input[i + 1..];
                return Ok(v);
            }
        }
        if self.input.len() < 10 {
            Err(self.truncated(self.input.len() as u64 + 1))
        } else {
            Err(self.invalid("a number of more than 64 bits".into()))
        }
    }

    #[inline]
    fn text(&mut self) -> Result<&'de [u8], CodecError> {
        let len = self.varint()?;
        let Some((bytes, rest)) = usize::try_from(len)
            .ok()
            .and_then(|n| self.input.split_at_checked(n))
        else {
            return Err(self.truncated(len));
        };
        self.input = rest;
        Ok(bytes)
    }

    #[inline]
    fn str(&mut self) -> Result<&'de str, CodecError> {
        let bytes = self.text()?;
        std::str::from_utf8(bytes).map_err(|e| {
            let offset = self.offset() - (bytes.len() - e.valid_up_to()) as u64;
            CodecError::new(CodecErrorKind::InvalidValue("a string that is not UTF-8".into())).at(offset)
        })
    }

    /// The length of a sequence or map, if the input can hold that many elements.
    #[inline]
    fn count(&mut self) -> Result<Counted<'_, 'de>, CodecError> {
        let len = self.varint()?;
        let limit = self.input.len() as u64 + u64::from(MAX_ZERO_SIZED - self.zero_sized);
        if len > limit {
            let kind = CodecErrorKind::OverLimit {
                what: "number of elements",
                length: len,
                limit,
            };
            return Err(CodecError::new(kind).at(self.offset()));
        }
        let len = len as usize;
        let hint = len.min(self.hints);
        self.hints -= hint;
        Ok(Counted {
            decoder: self,
            left: len,
            hint,
            before: 0,
        })
    }

    #[inline]
    fn enter(&mut self) -> Result<(), CodecError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            Err(too_deep(self.depth).at(self.offset()))
        } else {
            Ok(())
        }
    }

    #[inline]
    fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Counts an element that took no bytes since `before` were left.
    #[inline]
    fn count_zero_sized(&mut self, before: usize) -> Result<(), CodecError> {
        if self.input.len() < before {
            return Ok(());
        }
        self.zero_sized += 1;
        if self.zero_sized > MAX_ZERO_SIZED {
            Err(too_many_zero_sized().at(self.offset()))
        } else {
            Ok(())
        }
    }

    /// The fields of a struct. A type may take fewer than it names (aliases are named too).
    #[inline]
    fn fields<V: Visitor<'de>>(&mut self, len: usize, visitor: V) -> Result<V::Value, CodecError> {
        visitor.visit_seq(Fields {
            decoder: self,
            left: len,
        })
    }

    #[inline]
    fn tuple<V: Visitor<'de>>(&mut self, len: usize, visitor: V) -> Result<V::Value, CodecError> {
        let mut fields = Fields {
            decoder: self,
            left: len,
        };
        let value = visitor.visit_seq(&mut fields)?;
        match fields.left {
            0 => Ok(value),
            left => Err(self.invalid(format!("{left} more elements than the type takes"))),
        }
    }

    /// The fields of a tuple struct or variant, which say how many they are.
    #[inline]
    fn counted_fields<V: Visitor<'de>>(&mut self, len: usize, visitor: V) -> Result<V::Value, CodecError> {
        let written = self.varint()?;
        if written != len as u64 {
            return Err(self.invalid(format!("{written} fields where the type has {len}")));
        }
        self.tuple(len, visitor)
    }
}

macro_rules! fixed {
    ($($method:ident => $visit:ident($type:ty)),* $(,)?) => {
        $(#[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
            visitor.$visit(<$type>::from_le_bytes(self.fixed()?))
        })*
    };
}

macro_rules! self_describing {
    ($($method:ident: $what:literal),* $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, CodecError> {
            let kind = CodecErrorKind::NotNative(concat!("the type asks for ", $what).into());
            Err(CodecError::new(kind).at(self.offset()))
        })*
    };
}

impl<'de> Deserializer<'de> for &mut Decoder<'de> {
    type Error = CodecError;

    fixed!(
        deserialize_i8 => visit_i8(i8),
        deserialize_i16 => visit_i16(i16),
        deserialize_i32 => visit_i32(i32),
        deserialize_i64 => visit_i64(i64),
        deserialize_i128 => visit_i128(i128),
        deserialize_u8 => visit_u8(u8),
        deserialize_u16 => visit_u16(u16),
        deserialize_u32 => visit_u32(u32),
        deserialize_u64 => visit_u64(u64),
        deserialize_u128 => visit_u128(u128),
        deserialize_f32 => visit_f32(f32),
        deserialize_f64 => visit_f64(f64),
    );

    self_describing!(
        deserialize_any: "whatever comes",
        deserialize_ignored_any: "whatever comes, to ignore it",
        deserialize_identifier: "a name where none is written",
    );

    #[inline]
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        match self.fixed()? {
            [0] => visitor.visit_bool(false),
            [1] => visitor.visit_bool(true),
            [byte] => Err(self.invalid(format!("{byte} where a bool is 0 or 1"))),
        }
    }

    #[inline]
    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        let code = u32::from_le_bytes(self.fixed()?);
        match char::from_u32(code) {
            Some(c) => visitor.visit_char(c),
            None => Err(self.invalid(format!("{code:#x} is no character"))),
        }
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        visitor.visit_borrowed_str(self.str()?)
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        visitor.visit_borrowed_str(self.str()?)
    }

    #[inline]
    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        visitor.visit_borrowed_bytes(self.text()?)
    }

    #[inline]
    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        visitor.visit_borrowed_bytes(self.text()?)
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        match self.fixed()? {
            [0] => visitor.visit_none(),
            [1] => {
                self.enter()?;
                let value = visitor.visit_some(&mut *self)?;
                self.leave();
                Ok(value)
            }
            [byte] => Err(self.invalid(format!("{byte} where an option begins with 0 or 1"))),
        }
    }

    #[inline]
    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        visitor.visit_unit()
    }

    #[inline]
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, CodecError> {
        visitor.visit_unit()
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, CodecError> {
        visitor.visit_newtype_struct(self)
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        self.enter()?;
        let mut counted = self.count()?;
        let value = visitor.visit_seq(&mut counted)?;
        counted.close()?;
        self.leave();
        Ok(value)
    }

    #[inline]
    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, CodecError> {
        self.tuple(len, visitor)
    }

    #[inline]
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, CodecError> {
        self.counted_fields(len, visitor)
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        self.enter()?;
        let mut counted = self.count()?;
        let value = visitor.visit_map(&mut counted)?;
        counted.close()?;
        self.leave();
        Ok(value)
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, CodecError> {
        self.fields(fields.len(), visitor)
    }

    #[inline]
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, CodecError> {
        visitor.visit_enum(Variant { decoder: self })
    }

    #[inline]
    fn is_human_readable(&self) -> bool {
        false
    }
}

/// A tuple or fields; `left` may still be read.
struct Fields<'a, 'de> {
    decoder: &'a mut Decoder<'de>,
    left: usize,
}

impl<'de> SeqAccess<'de> for Fields<'_, 'de> {
    type Error = CodecError;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, CodecError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.decoder).map(Some)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// Elements of a sequence or entries of a map; `left` must still be read.
struct Counted<'a, 'de> {
    decoder: &'a mut Decoder<'de>,
    left: usize,
    hint: usize,
    /// Bytes left when the current entry of a map began.
    before: usize,
}

impl Counted<'_, '_> {
    #[inline]
    fn close(self) -> Result<(), CodecError> {
        match self.left {
            0 => Ok(()),
            left => Err(self
                .decoder
                .invalid(format!("{left} more elements than the type takes"))),
        }
    }
}

impl<'de> SeqAccess<'de> for Counted<'_, 'de> {
    type Error = CodecError;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, CodecError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let before = self.decoder.input.len();
        let value = seed.deserialize(&mut *self.decoder)?;
        self.decoder.count_zero_sized(before)?;
        Ok(Some(value))
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        Some(self.left.min(self.hint))
    }
}

impl<'de> MapAccess<'de> for Counted<'_, 'de> {
    type Error = CodecError;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, CodecError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.before = self.decoder.input.len();
        seed.deserialize(&mut *self.decoder).map(Some)
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, CodecError> {
        let value = seed.deserialize(&mut *self.decoder)?;
        self.decoder.count_zero_sized(self.before)?;
        Ok(value)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        Some(self.left.min(self.hint))
    }
}

struct Variant<'a, 'de> {
    decoder: &'a mut Decoder<'de>,
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = CodecError;
    type Variant = Self;

    #[inline]
    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), CodecError> {
        let index = self.decoder.varint()?;
        let Ok(index) = u32::try_from(index) else {
            return Err(self.decoder.invalid(format!("{index} is no index of a variant")));
        };
        let index: U32Deserializer<CodecError> = index.into_deserializer();
        Ok((seed.deserialize(index)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = CodecError;

    #[inline]
    fn unit_variant(self) -> Result<(), CodecError> {
        Ok(())
    }

    #[inline]
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, CodecError> {
        self.decoder.enter()?;
        let value = seed.deserialize(&mut *self.decoder)?;
        self.decoder.leave();
        Ok(value)
    }

    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, CodecError> {
        self.decoder.enter()?;
        let value = self.decoder.counted_fields(len, visitor)?;
        self.decoder.leave();
        Ok(value)
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, CodecError> {
        self.decoder.enter()?;
        let value = self.decoder.fields(fields.len(), visitor)?;
        self.decoder.leave();
        Ok(value)
    }
}
