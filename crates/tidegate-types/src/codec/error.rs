//! Why bytes could not be written or read.

use std::fmt;

use thiserror::Error;

/// What went wrong while encoding or decoding, without the place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CodecErrorKind {
    /// The bytes end inside a value.
    #[error("truncated: {needed} bytes needed, {available} left")]
    Truncated {
        /// Bytes that the next part takes.
        needed: u64,
        /// Bytes that are left.
        available: u64,
    },
    /// A value was read and bytes are left where there should be none.
    #[error("{count} bytes left after the value")]
    TrailingBytes {
        /// How many.
        count: u64,
    },
    /// Bytes that no value of the type encodes to.
    #[error("invalid value: {0}")]
    InvalidValue(String),
    /// A length that the input can't back, or a nesting deeper than allowed.
    #[error("{what} {length} is over the limit of {limit}")]
    OverLimit {
        /// What is limited, in words.
        what: &'static str,
        /// What was asked for.
        length: u64,
        /// The most that is allowed here.
        limit: u64,
    },
    /// The native format can't hold this value: a field is skipped, or a length is not known in advance. The
    /// canonical format can.
    #[error("not representable natively: {0}")]
    NotNative(String),
    /// The canonical format can't hold this value.
    #[error("not representable canonically: {0}")]
    NotCanonical(String),
    /// An encoding that has no codec: the owner's own bytes.
    #[error("raw bytes have no codec")]
    NoCodec,
    /// Said by the type's own `Serialize` or `Deserialize`.
    #[error("{0}")]
    Message(String),
}

/// Why bytes could not be written or read, and where.
///
/// One word large, so results stay cheap on the paths that don't fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodecError(Box<Inner>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inner {
    kind: CodecErrorKind,
    offset: Option<u64>,
}

impl CodecError {
    /// An error whose place is unknown.
    #[cold]
    pub fn new(kind: CodecErrorKind) -> Self {
        Self(Box::new(Inner { kind, offset: None }))
    }

    /// The same error at byte `offset` of the input (or output), unless a place is known already.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> &CodecErrorKind {
        &self.0.kind
    }

    /// Offset from where the call began to read, in bytes, if known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Whether the canonical format could hold what the native one can't.
    pub fn is_not_native(&self) -> bool {
        matches!(self.0.kind, CodecErrorKind::NotNative(_))
    }
}

impl From<CodecErrorKind> for CodecError {
    fn from(kind: CodecErrorKind) -> Self {
        Self::new(kind)
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.kind.fmt(f)?;
        match self.0.offset {
            Some(offset) => write!(f, " (at byte {offset})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CodecError {}

impl serde::ser::Error for CodecError {
    fn custom<M: fmt::Display>(message: M) -> Self {
        Self::new(CodecErrorKind::Message(message.to_string()))
    }
}

impl serde::de::Error for CodecError {
    fn custom<M: fmt::Display>(message: M) -> Self {
        Self::new(CodecErrorKind::Message(message.to_string()))
    }
}
