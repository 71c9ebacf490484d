//! Shapes: what a type looks like to serde, taken from the type itself.
//!
//! Owns: [`Shape`], how it is found ([`Shape::of`]: `trace` walks the type's `Deserialize` with invented input),
//! how two are compared ([`Shape::difference`], in `diff`) and how native bytes are walked by one (`walk`). Native
//! bytes say nothing about their type, so every native section carries its shapes; a section whose shapes differ
//! from the program's is refused, never misread.
//!
//! Does not own: the encodings and the choice between them ([`crate::codec`]).

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

mod diff;
#[cfg(test)]
mod tests;
mod trace;
mod walk;

pub use diff::ShapeDiff;
pub(crate) use trace::trace;
pub(crate) use walk::unordered;

/// How deep a shape may nest: shapes are stored in every snapshot's metadata and must be readable there.
pub const MAX_SHAPE_DEPTH: usize = 60;
/// How many parts a shape may have. A type is spelled out wherever it occurs, so this is a bound against types
/// whose parts multiply.
pub const MAX_SHAPE_PARTS: usize = 16_384;

/// The structure of a serialised type.
///
/// Names of structs and enums are kept for error messages; field and variant names are part of the structure.
/// `==` compares everything. To ask whether bytes can be read, use [`Shape::difference`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Shape {
    /// `()`: no content.
    Unit,
    /// `bool`.
    Bool,
    /// `i8`.
    I8,
    /// `i16`.
    I16,
    /// `i32`.
    I32,
    /// `i64`, `isize`.
    I64,
    /// `i128`.
    I128,
    /// `u8`.
    U8,
    /// `u16`.
    U16,
    /// `u32`.
    U32,
    /// `u64`, `usize`.
    U64,
    /// `u128`.
    U128,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
    /// `char`.
    Char,
    /// Any kind of string.
    Str,
    /// Bytes in one piece (not `Vec<u8>`, which is a sequence of `u8` to serde).
    Bytes,
    /// `Option`.
    Option(Box<Shape>),
    /// Elements of one shape, as many as there are: `Vec`, sets, …
    Seq(Box<Shape>),
    /// A tuple.
    Tuple(Vec<Shape>),
    /// A long tuple of equal parts: an array of more than eight elements.
    Array {
        /// What every element looks like.
        element: Box<Shape>,
        /// How many.
        len: u64,
    },
    /// Keys and values.
    Map {
        /// What every key looks like.
        key: Box<Shape>,
        /// What every value looks like.
        value: Box<Shape>,
    },
    /// A struct without content.
    UnitStruct {
        /// Its name to serde.
        name: String,
    },
    /// A struct around one unnamed field.
    Newtype {
        /// Its name to serde.
        name: String,
        /// What is inside.
        inner: Box<Shape>,
    },
    /// A struct of unnamed fields.
    TupleStruct {
        /// Its name to serde.
        name: String,
        /// Its fields in order.
        fields: Vec<Shape>,
    },
    /// A struct of named fields.
    Struct {
        /// Its name to serde.
        name: String,
        /// Its fields in order.
        fields: Vec<Field>,
    },
    /// An enum.
    Enum {
        /// Its name to serde.
        name: String,
        /// Its variants in order.
        variants: Vec<Variant>,
    },
    /// A struct or enum that stands around this place: the type contains itself.
    Recursive {
        /// How many structs and enums further out; 0 is the innermost.
        up: u32,
        /// Its name to serde.
        name: String,
    },
}

/// A named field of a struct or variant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Field {
    /// Its name to serde.
    pub name: String,
    /// What it looks like.
    pub shape: Shape,
}

/// A variant of an enum.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Variant {
    /// Its name to serde.
    pub name: String,
    /// What it carries.
    pub payload: Payload,
}

/// What a variant carries.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Payload {
    /// Nothing.
    Unit,
    /// One unnamed field.
    Newtype(Box<Shape>),
    /// Unnamed fields in order.
    Tuple(Vec<Shape>),
    /// Named fields in order.
    Struct(Vec<Field>),
}

impl Shape {
    /// The shape of `T`, found by walking its `Deserialize`. Costs microseconds to milliseconds: ask once.
    ///
    /// ```
    /// # use tidegate_types::shape::Shape;
    /// let shape = Shape::of::<(u64, Option<String>)>()?;
    /// assert_eq!(shape, Shape::Tuple(vec![Shape::U64, Shape::Option(Box::new(Shape::Str))]));
    /// # Ok::<(), tidegate_types::shape::ShapeError>(())
    /// ```
    ///
    /// # Errors
    /// If the type has no fixed shape (`deserialize_any`, `flatten`, untagged and internally tagged enums), can't
    /// be found out (values that are checked, aliases), or is over a limit. Such a type is stored canonically.
    pub fn of<T: DeserializeOwned>() -> Result<Self, ShapeError> {
        trace::<T>().map(|traced| traced.shape)
    }

    /// The first difference between what was stored (`self`) and what is expected now (`now`), or `None` if native
    /// bytes of one can be read as the other.
    ///
    /// Names of structs and enums may differ. Names, order, number and shapes of fields and variants may not.
    pub fn difference(&self, now: &Self) -> Option<ShapeDiff> {
        diff::first(self, now)
    }
}

impl fmt::Display for Shape {
    /// In the words that errors use: a type's kind and name, not all its parts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = match self {
            Self::Unit => "unit",
            Self::Bool => "bool",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::I128 => "i128",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::U128 => "u128",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Char => "char",
            Self::Str => "string",
            Self::Bytes => "bytes",
            Self::Option(inner) => return write!(f, "option of {inner}"),
            Self::Seq(element) => return write!(f, "sequence of {element}"),
            Self::Tuple(fields) => return write!(f, "tuple of {}", fields.len()),
            Self::Array { element, len } => return write!(f, "array of {len} {element}"),
            Self::Map { key, value } => return write!(f, "map from {key} to {value}"),
            Self::UnitStruct { name } => return write!(f, "unit struct `{name}`"),
            Self::Newtype { name, .. } => return write!(f, "newtype `{name}`"),
            Self::TupleStruct { name, .. } => return write!(f, "tuple struct `{name}`"),
            Self::Struct { name, .. } => return write!(f, "struct `{name}`"),
            Self::Enum { name, .. } => return write!(f, "enum `{name}`"),
            Self::Recursive { name, .. } => return write!(f, "`{name}` again"),
        };
        f.write_str(plain)
    }
}

/// Why a type has no shape.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{type_name}` has no fixed shape{}: {reason}", if place.is_empty() { String::new() } else { format!(" at `{place}`") })]
pub struct ShapeError {
    /// The type that was asked for, as the compiler spells it.
    pub type_name: String,
    /// Where in it: struct, fields and variants from outside in; empty for the type itself.
    pub place: String,
    /// What is there.
    pub reason: ShapeErrorReason,
}

/// What keeps a type from having a shape.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShapeErrorReason {
    /// The type takes what comes.
    #[error(
        "it reads whatever the input holds (an untagged or internally tagged enum, or a free-form value)"
    )]
    SelfDescribing,
    /// The type looks at names where a positional format has none.
    #[error(
        "it reads names as data (`flatten`, an adjacently tagged enum, or a `Deserialize` written by hand)"
    )]
    Names,
    /// More names than fields or variants.
    #[error("it doesn't read as many parts as it names (`alias`)")]
    Unread,
    /// The type takes none of the values that were tried.
    #[error("it checks its values and accepts none that was tried: {0}")]
    Rejected(String),
    /// The type asks for different things at one place, depending on something else.
    #[error("it reads {first} once and {then} another time at one place")]
    Inconsistent {
        /// What it asked for first.
        first: String,
        /// What it asked for then.
        then: String,
    },
    /// Part of the type was never asked for.
    #[error("part of it is never read")]
    Incomplete,
    /// Over [`MAX_SHAPE_DEPTH`], [`MAX_SHAPE_PARTS`] or the tracer's own limits.
    #[error("it is too large ({0})")]
    TooLarge(&'static str),
    /// The type's `Deserialize` panicked on an invented value.
    #[error("its `Deserialize` panics on a value that it should refuse: {0}")]
    Panicked(String),
}
