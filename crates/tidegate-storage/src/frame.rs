//! The frame of `docs/formats.md` around what this crate stores, with this crate's errors.

use tidegate_types::codec::frame::{FrameError, Magic, read_frame, write_frame};

use crate::error::Problem;

/// The oldest version that is read.
const OLDEST: u16 = 1;

/// Puts `body` in a frame.
pub(crate) fn seal(magic: [u8; 8], version: u16, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(Magic(magic), version, body, &mut out);
    out
}

/// The body of a frame of this magic and at most the `known` version.
pub(crate) fn open(magic: [u8; 8], known: u16, bytes: &[u8]) -> Result<&[u8], Problem> {
    match read_frame(bytes, Magic(magic), OLDEST..=known) {
        Ok(frame) => Ok(frame.body),
        Err(FrameError::UnsupportedVersion { found, .. }) if found > known => {
            Err(Problem::FutureVersion { found, known })
        }
        Err(error) => Err(Problem::Corrupt {
            detail: error.to_string(),
        }),
    }
}
