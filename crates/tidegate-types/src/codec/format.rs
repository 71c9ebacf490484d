//! Which encoding a type gets, decided once when the job is built.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CodecError, CodecErrorKind, Record, canonical, native};
use crate::shape::Shape;
use crate::snapshot::Encoding;

/// Appends `value` to `out` in an encoding known at run time. On an error `out` is as long as before.
///
/// # Errors
/// As the encoding's own function; [`CodecErrorKind::NoCodec`] for raw bytes.
pub fn encode_as<T: Serialize + ?Sized>(
    encoding: Encoding,
    value: &T,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    match encoding {
        Encoding::Native => native::encode_into(value, out),
        Encoding::Canonical => canonical::encode_into(value, out),
        Encoding::Raw => Err(CodecErrorKind::NoCodec.into()),
    }
}

/// Reads one value from the front of `input` in an encoding known at run time, as a section's head names it.
/// On an error `input` is unchanged.
///
/// # Errors
/// As the encoding's own function; [`CodecErrorKind::NoCodec`] for raw bytes.
pub fn decode_as<T: DeserializeOwned>(encoding: Encoding, input: &mut &[u8]) -> Result<T, CodecError> {
    match encoding {
        Encoding::Native => native::decode_from(input),
        Encoding::Canonical => canonical::decode_from(input),
        Encoding::Raw => Err(CodecErrorKind::NoCodec.into()),
    }
}

/// How values of `T` are stored: the encoding, the shape that native bytes carry, and why a type is stored
/// canonically if it is. Cheap to clone.
pub struct TypeFormat<T> {
    encoding: Encoding,
    details: Arc<Details>,
    _type: PhantomData<fn() -> T>,
}

struct Details {
    shape: Option<Shape>,
    warning: Option<String>,
}

impl<T> Clone for TypeFormat<T> {
    fn clone(&self) -> Self {
        Self {
            encoding: self.encoding,
            details: Arc::clone(&self.details),
            _type: PhantomData,
        }
    }
}

impl<T> fmt::Debug for TypeFormat<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypeFormat")
            .field("type", &std::any::type_name::<T>())
            .field("encoding", &self.encoding)
            .field("shape", &self.details.shape)
            .field("warning", &self.details.warning)
            .finish()
    }
}

impl<T: Record> TypeFormat<T> {
    /// Looks at the type and decides. Costs up to milliseconds: call it when the job is built and keep the result.
    pub fn of() -> Self {
        Self::new(Encoding::Native, Some(Shape::Unit), None)
    }

    /// The canonical encoding whatever the type.
    pub fn canonical() -> Self {
        Self::new(Encoding::Canonical, None, None)
    }

    fn new(encoding: Encoding, shape: Option<Shape>, warning: Option<String>) -> Self {
        Self {
            encoding,
            details: Arc::new(Details { shape, warning }),
            _type: PhantomData,
        }
    }

    /// The same type with the canonical encoding forced; shape and warning stay.
    #[must_use]
    pub fn into_canonical(self) -> Self {
        Self {
            encoding: Encoding::Canonical,
            ..self
        }
    }

    /// The encoding that [`Self::encode_into`] and [`Self::decode_from`] use; never raw.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// What native bytes of this type look like; `None` if the type can't be traced.
    pub fn shape(&self) -> Option<&Shape> {
        self.details.shape.as_ref()
    }

    /// Why the type isn't stored natively, or what else its owner should know, for the job's log.
    pub fn warning(&self) -> Option<&str> {
        self.details.warning.as_deref()
    }

    /// Appends `value` to `out` in the chosen encoding. On an error `out` is as long as before.
    ///
    /// # Errors
    /// With [`CodecError::is_not_native`] the value can be written canonically: callers switch that block.
    pub fn encode_into(&self, value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
        encode_as(self.encoding, value, out)
    }

    /// Reads one value from the front of `input` in the chosen encoding. On an error `input` is unchanged.
    ///
    /// # Errors
    /// If the bytes are no value of `T`.
    pub fn decode_from(&self, input: &mut &[u8]) -> Result<T, CodecError> {
        decode_as(self.encoding, input)
    }

    /// Encodes, decodes and encodes `value`, and compares: a type whose `Serialize` and `Deserialize` disagree is
    /// found at its first value, before anything depends on it.
    ///
    /// # Errors
    /// If any of the steps fails or the bytes differ.
    pub fn check_roundtrip(&self, value: &T) -> Result<(), CodecError> {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        self.encode_into(value, &mut first)?;
        let back = self.decode_from(&mut first.as_slice())?;
        self.encode_into(&back, &mut second)?;
        match first == second {
            true => Ok(()),
            false => {
                Err(CodecErrorKind::InvalidValue("decoding and encoding changed the value".into()).into())
            }
        }
    }
}
