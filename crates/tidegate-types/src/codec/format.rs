//! Which encoding a type gets, decided once when the job is built.
//!
//! A type is stored natively if its shape can be traced and its invented samples survive the way there and back;
//! else canonically, with a warning that says why. The decision is per type; a single value that native can't hold
//! makes its caller switch one block (the encoding is a flag per block of entries and per batch).

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::{CodecError, CodecErrorKind, Record, canonical, native};
use crate::shape::{self, Shape, ShapeDiff};
use crate::snapshot::Encoding;

/// Appends `value` to `out` in an encoding known at run time. On an error `out` is as long as before.
///
/// # Errors
/// As the encoding's own function; [`CodecErrorKind::NoCodec`] for raw bytes.
#[inline]
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
/// On an error `input` is unchanged. Before native bytes are read, [`TypeFormat::check_readable`] must have said
/// that they fit.
///
/// # Errors
/// As the encoding's own function; [`CodecErrorKind::NoCodec`] for raw bytes.
#[inline]
pub fn decode_as<T: DeserializeOwned>(encoding: Encoding, input: &mut &[u8]) -> Result<T, CodecError> {
    match encoding {
        Encoding::Native => native::decode_from(input),
        Encoding::Canonical => canonical::decode_from(input),
        Encoding::Raw => Err(CodecErrorKind::NoCodec.into()),
    }
}

/// How values of `T` are stored: the encoding, the shape that native bytes carry, and why a type is stored
/// canonically if it is. Cheap to clone.
///
/// ```
/// # use tidegate_types::codec::TypeFormat;
/// # use tidegate_types::snapshot::Encoding;
/// let format = TypeFormat::<(u64, String)>::of();
/// assert_eq!(format.encoding(), Encoding::Native);
/// let mut bytes = Vec::new();
/// format.encode_into(&(7, "seven".into()), &mut bytes)?;
/// assert_eq!(format.decode_from(&mut bytes.as_slice())?, (7, "seven".into()));
/// # Ok::<(), tidegate_types::codec::CodecError>(())
/// ```
pub struct TypeFormat<T> {
    encoding: Encoding,
    details: Arc<Details>,
    _type: PhantomData<fn() -> T>,
}

#[derive(Debug)]
struct Details {
    shape: Result<Shape, String>,
    warning: Option<String>,
    /// In which encodings a real value has come back as it was.
    native_checked: AtomicBool,
    canonical_checked: AtomicBool,
}

/// Why stored values of a type can't be read as what the type is now.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UnreadableError {
    /// The type changed.
    #[error(
        "{0}; what was stored natively can be read by the unchanged type only (a canonical savepoint can be read by both)"
    )]
    Changed(ShapeDiff),
    /// The type had a shape when it was stored, and has none now.
    #[error("it was stored natively, and now {0}; a canonical savepoint can be read")]
    NoShape(String),
    /// A native section without the shape it was written with.
    #[error("it was stored natively without its shape")]
    NotDescribed,
    /// The owner's own bytes.
    #[error("raw bytes have no codec")]
    NoCodec,
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
            .field("type", &type_name::<T>())
            .field("encoding", &self.encoding)
            .field("details", &self.details)
            .finish()
    }
}

impl<T: Record> TypeFormat<T> {
    /// Looks at the type and decides. Costs microseconds to milliseconds: call it when the job is built and keep
    /// the result. Runs the type's `Deserialize` and `Serialize` on invented values.
    pub fn of() -> Self {
        let traced = match shape::trace::<T>() {
            Ok(traced) => traced,
            Err(error) => {
                let why = error.to_string();
                let warning = format!("{why}; it is stored canonically, which is larger and slower");
                return Self::new(Encoding::Canonical, Err(why), Some(warning));
            }
        };
        let problem = |encoding| {
            traced
                .samples
                .iter()
                .find_map(|sample| sample_problem(encoding, &traced.shape, sample))
        };
        let name = type_name::<T>();
        let (native, canonical) = (problem(Encoding::Native), problem(Encoding::Canonical));
        let warning = match (&native, &canonical) {
            (None, None) => None,
            (None, Some(why)) => Some(format!("canonical savepoints can't hold every `{name}`: {why}")),
            (Some(why), None) => Some(format!(
                "`{name}` is stored canonically, which is larger and slower: {why}"
            )),
            (Some(why), Some(too)) => Some(format!(
                "`{name}` is stored canonically because {why}; and not every value of it can be stored so: {too}"
            )),
        };
        let encoding = if native.is_none() {
            Encoding::Native
        } else {
            Encoding::Canonical
        };
        Self::new(encoding, Ok(traced.shape), warning)
    }

    fn new(encoding: Encoding, shape: Result<Shape, String>, warning: Option<String>) -> Self {
        Self {
            encoding,
            details: Arc::new(Details {
                shape,
                warning,
                native_checked: AtomicBool::new(false),
                canonical_checked: AtomicBool::new(false),
            }),
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
    #[inline]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// What native bytes of this type look like; `None` if the type can't be traced. A type that is stored
    /// canonically because of its `Serialize` still has one, for native bytes that were stored before.
    pub fn shape(&self) -> Option<&Shape> {
        self.details.shape.as_ref().ok()
    }

    /// Why the type isn't stored natively, or what else its owner should know, for the job's log.
    pub fn warning(&self) -> Option<&str> {
        self.details.warning.as_deref()
    }

    /// Whether stored values can be read as `T`: `encoding` and `stored` are what the section's head says.
    ///
    /// # Errors
    /// If native bytes were written by a type of another shape. The caller adds uid and state.
    pub fn check_readable(&self, encoding: Encoding, stored: Option<&Shape>) -> Result<(), UnreadableError> {
        match (encoding, stored, &self.details.shape) {
            (Encoding::Canonical, _, _) => Ok(()),
            (Encoding::Raw, _, _) => Err(UnreadableError::NoCodec),
            (Encoding::Native, None, _) => Err(UnreadableError::NotDescribed),
            (Encoding::Native, Some(_), Err(why)) => Err(UnreadableError::NoShape(why.clone())),
            (Encoding::Native, Some(was), Ok(is)) => match was.difference(is) {
                None => Ok(()),
                Some(difference) => Err(UnreadableError::Changed(difference)),
            },
        }
    }

    /// Appends `value` to `out` in the chosen encoding. On an error `out` is as long as before.
    ///
    /// # Errors
    /// With [`CodecError::is_not_native`] the value can be written canonically: callers switch that block.
    #[inline]
    pub fn encode_into(&self, value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
        encode_as(self.encoding, value, out)
    }

    /// Reads one value from the front of `input` in the chosen encoding. On an error `input` is unchanged.
    ///
    /// # Errors
    /// If the bytes are no value of `T`.
    #[inline]
    pub fn decode_from(&self, input: &mut &[u8]) -> Result<T, CodecError> {
        decode_as(self.encoding, input)
    }

    /// Encodes, decodes and encodes `value` in the chosen encoding, and compares: a type whose `Serialize` and
    /// `Deserialize` disagree is found at its first value, before anything depends on it.
    ///
    /// # Errors
    /// If any of the steps fails or the bytes differ by more than the order in sequences and maps.
    pub fn check_roundtrip(&self, value: &T) -> Result<(), CodecError> {
        self.check_roundtrip_as(self.encoding, value)
    }

    /// [`Self::check_roundtrip`] in another encoding, for sections that are written in one.
    ///
    /// # Errors
    /// As there.
    pub fn check_roundtrip_as(&self, encoding: Encoding, value: &T) -> Result<(), CodecError> {
        roundtrip(encoding, self.shape(), value)
    }

    /// [`Self::check_roundtrip_as`] for the first value that is stored in an encoding; later ones cost one load.
    /// Clones of a format share what was checked.
    ///
    /// # Errors
    /// As there; the next value is then checked again.
    #[inline]
    pub fn check_first(&self, encoding: Encoding, value: &T) -> Result<(), CodecError> {
        let checked = match encoding {
            Encoding::Native => &self.details.native_checked,
            Encoding::Canonical => &self.details.canonical_checked,
            Encoding::Raw => return Err(CodecErrorKind::NoCodec.into()),
        };
        if !checked.load(Ordering::Relaxed) {
            self.check_roundtrip_as(encoding, value)?;
            checked.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn roundtrip<T: Record>(encoding: Encoding, shape: Option<&Shape>, value: &T) -> Result<(), CodecError> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    encode_as(encoding, value, &mut first)?;
    let mut rest = first.as_slice();
    let back: T = decode_as(encoding, &mut rest)?;
    if !rest.is_empty() {
        let kind = CodecErrorKind::TrailingBytes {
            count: rest.len() as u64,
        };
        return Err(CodecError::new(kind).at((first.len() - rest.len()) as u64));
    }
    encode_as(encoding, &back, &mut second)?;
    // A hash map that was read back is walked in another order.
    let same = first == second
        || match (encoding, shape) {
            (Encoding::Canonical, _) => canonical::unordered(&first)? == canonical::unordered(&second)?,
            (_, Some(shape)) => shape::unordered(shape, &first)? == shape::unordered(shape, &second)?,
            (_, None) => false,
        };
    if same {
        return Ok(());
    }
    let place =
        canonical::difference(value, &back).map_or_else(String::new, |path| format!(" (at `{path}`)"));
    let what = format!(
        "a `{}` that is stored and read back is another one{place}: its `Serialize` and `Deserialize` disagree",
        type_name::<T>()
    );
    Err(CodecErrorKind::InvalidValue(what).into())
}

/// What goes wrong with a sample in an encoding. The sample is invented, so the type may even panic on it.
fn sample_problem<T: Record>(encoding: Encoding, shape: &Shape, sample: &T) -> Option<String> {
    let check = || {
        roundtrip(encoding, Some(shape), sample)?;
        if encoding == Encoding::Native {
            let mut bytes = Vec::new();
            native::encode_into(sample, &mut bytes)?;
            shape::unordered(shape, &bytes)?;
        }
        Ok::<(), CodecError>(())
    };
    match catch_unwind(AssertUnwindSafe(check)) {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("its `Serialize` or `Deserialize` panics on a value that it accepted".into()),
    }
}
