//! The container of every file on disk: who wrote it, in which version, how long it is, and whether it is whole.
//!
//! Owns: the frame (specified in `docs/formats.md`, "Frames") and the errors that tell a foreign, a newer, a cut
//! and a damaged file apart. The frame itself never changes: what changes is the owner's version, and a file of
//! another layout gets another magic.
//!
//! Does not own: what is in the body, and files. It works on bytes in memory.

use std::fmt;
use std::ops::RangeInclusive;

use thiserror::Error;

#[cfg(test)]
mod tests;

/// Bytes before the body: magic, version, body length.
pub const HEADER_BYTES: usize = 18;
/// Bytes after the body: its CRC-32C.
pub const TRAILER_BYTES: usize = 4;

const VERSION_AT: usize = 8;
const LENGTH_AT: usize = 10;

/// The first bytes of a file, which say what it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Magic(pub [u8; 8]);

impl fmt::Display for Magic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for Magic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Why bytes are no intact frame of the expected kind. Offsets count from the frame's first byte.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Another kind of file, or not one of ours.
    #[error("wrong magic: the first bytes are \"{found}\", expected \"{expected}\"")]
    WrongMagic {
        /// What the caller asked for.
        expected: Magic,
        /// What stands there.
        found: Magic,
    },
    /// Intact, and written by a program that knew another version.
    #[error("version {found} is not supported (supported: {} to {})", supported.start(), supported.end())]
    UnsupportedVersion {
        /// What the frame says.
        found: u16,
        /// What the caller can read.
        supported: RangeInclusive<u16>,
    },
    /// The bytes end before the frame does.
    #[error("truncated: the frame takes {needed} bytes, there are {available}")]
    Truncated {
        /// Length of the whole frame, or of its header if that isn't complete.
        needed: u64,
        /// Bytes that there are.
        available: u64,
    },
    /// The frame is intact and something follows it.
    #[error("{count} bytes follow the frame, which ends at byte {at}")]
    TrailingBytes {
        /// Where the frame ends.
        at: u64,
        /// How many follow.
        count: u64,
    },
    /// The bytes are damaged.
    #[error(
        "checksum mismatch: bytes 0 to {at} have CRC-32C {computed:#010x}, at byte {at} stands {stored:#010x}"
    )]
    ChecksumMismatch {
        /// Where the checksum stands; it covers everything before.
        at: u64,
        /// What the bytes have.
        computed: u32,
        /// What stands there.
        stored: u32,
    },
}

/// An intact frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The owner's version, one of those that were asked for.
    pub version: u16,
    /// The content; a part of the bytes that were read.
    pub body: &'a [u8],
}

/// A frame that has been begun: where it starts in the output.
#[derive(Debug)]
#[must_use = "a frame without its end can't be read"]
pub struct OpenFrame {
    start: usize,
}

/// Appends a whole frame to `out`.
///
/// ```
/// # use tidegate_types::codec::frame::{Magic, read_frame, write_frame};
/// const MAGIC: Magic = Magic(*b"TGEXMPL\0");
/// let mut file = Vec::new();
/// write_frame(MAGIC, 1, b"content", &mut file);
/// assert_eq!(read_frame(&file, MAGIC, 1..=1)?.body, b"content");
/// # Ok::<(), tidegate_types::codec::frame::FrameError>(())
/// ```
pub fn write_frame(magic: Magic, version: u16, body: &[u8], out: &mut Vec<u8>) {
    out.reserve(HEADER_BYTES + body.len() + TRAILER_BYTES);
    let frame = begin_frame(magic, version, out);
    out.extend_from_slice(body);
    end_frame(frame, out);
}

/// Begins a frame whose body the caller appends to `out` itself, without a copy; [`end_frame`] completes it.
pub fn begin_frame(magic: Magic, version: u16, out: &mut Vec<u8>) -> OpenFrame {
    let start = out.len();
    out.extend_from_slice(&magic.0);
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(&[0; HEADER_BYTES - LENGTH_AT]);
    OpenFrame { start }
}

/// Completes a frame: sets the body's length and appends the checksum.
///
/// # Panics
/// If `out` is shorter than when the frame was begun.
pub fn end_frame(frame: OpenFrame, out: &mut Vec<u8>) {
    let bytes = &mut out[frame.start..];
    let body_len = (bytes.len() - HEADER_BYTES) as u64;
    bytes[LENGTH_AT..HEADER_BYTES].copy_from_slice(&body_len.to_le_bytes());
    let crc = crc32c::crc32c(bytes);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// Reads bytes that are exactly one frame.
///
/// # Errors
/// See [`FrameError`]. The version is looked at last: of a damaged frame nothing is believed.
pub fn read_frame(
    bytes: &[u8],
    magic: Magic,
    versions: RangeInclusive<u16>,
) -> Result<Frame<'_>, FrameError> {
    let mut rest = bytes;
    let frame = split_frame(&mut rest, magic, versions)?;
    match rest.len() as u64 {
        0 => Ok(frame),
        count => Err(FrameError::TrailingBytes {
            at: bytes.len() as u64 - count,
            count,
        }),
    }
}

/// Reads a frame from the front of `input` and advances it past the frame. On an error `input` is unchanged.
///
/// # Errors
/// See [`FrameError`].
pub fn split_frame<'a>(
    input: &mut &'a [u8],
    magic: Magic,
    versions: RangeInclusive<u16>,
) -> Result<Frame<'a>, FrameError> {
    let bytes = *input;
    let available = bytes.len() as u64;
    let prefix = &bytes[..bytes.len().min(VERSION_AT)];
    // Even what is too short for a header is foreign rather than cut if it begins differently.
    if !magic.0.starts_with(prefix) {
        let mut found = Magic([0; 8]);
        found.0[..prefix.len()].copy_from_slice(prefix);
        return Err(FrameError::WrongMagic {
            expected: magic,
            found,
        });
    }
    let Some((header, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(FrameError::Truncated {
            needed: HEADER_BYTES as u64,
            available,
        });
    };
    let body_len = u64::from_le_bytes(std::array::from_fn(|i| header[LENGTH_AT + i]));
    let needed = body_len.saturating_add((HEADER_BYTES + TRAILER_BYTES) as u64);
    if needed > available {
        return Err(FrameError::Truncated { needed, available });
    }
    let (frame, rest) = bytes.split_at(needed as usize);
    let (covered, trailer) = frame.split_at(frame.len() - TRAILER_BYTES);
    let (computed, stored) = (
        crc32c::crc32c(covered),
        u32::from_le_bytes(std::array::from_fn(|i| trailer[i])),
    );
    if computed != stored {
        return Err(FrameError::ChecksumMismatch {
            at: covered.len() as u64,
            computed,
            stored,
        });
    }
    let version = u16::from_le_bytes([header[VERSION_AT], header[VERSION_AT + 1]]);
    if !versions.contains(&version) {
        return Err(FrameError::UnsupportedVersion {
            found: version,
            supported: versions,
        });
    }
    *input = rest;
    Ok(Frame {
        version,
        body: &covered[HEADER_BYTES..],
    })
}
