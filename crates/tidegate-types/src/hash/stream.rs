//! The bytes of one key on their way into the hash.
//!
//! XXH3's streaming state is 400 bytes large and slow to finish, while almost all keys are short. So a stream
//! stays in a small buffer and is hashed in one shot; only when it grows over [`ONE_SHOT_BYTES`] the buffer is
//! spilled into the streaming state. By XXH3's definition both give the same hash.

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::short::{SHORT_TEXT_BYTES, hash_of_short_text};

/// The longest stream that is hashed in one shot: where XXH3 switches to its long form.
pub(super) const ONE_SHOT_BYTES: usize = 240;
/// The length in front of strings, bytes and sequences.
const LEN_BYTES: usize = 8;

pub(super) struct Stream {
    buffer: [u8; ONE_SHOT_BYTES],
    len: usize,
    long: Option<Box<Xxh3Default>>,
}

impl Stream {
    #[inline]
    pub(super) fn new() -> Self {
        Self {
            buffer: [0; ONE_SHOT_BYTES],
            len: 0,
            long: None,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if self.long.is_none() && end <= ONE_SHOT_BYTES {
            self.buffer[self.len..end].copy_from_slice(bytes);
            self.len = end;
        } else {
            self.push_long(bytes);
        }
    }

    /// A string or bytes: the length, then the content.
    #[inline]
    pub(super) fn push_text(&mut self, text: &[u8]) {
        self.push(&(text.len() as u64).to_le_bytes());
        self.push(text);
    }

    #[cold]
    fn push_long(&mut self, bytes: &[u8]) {
        let (buffer, len) = (&self.buffer, self.len);
        let long = self.long.get_or_insert_with(|| {
            let mut long = Box::new(Xxh3Default::new());
            long.update(&buffer[..len]);
            long
        });
        long.update(bytes);
    }

    #[inline]
    pub(super) fn finish(&self) -> u64 {
        match &self.long {
            None => xxh3_64(&self.buffer[..self.len]),
            Some(long) => long.digest(),
        }
    }
}

/// The hash of a stream that consists of one string or bytes only.
#[inline]
pub(super) fn hash_of_text(text: &[u8]) -> u64 {
    if text.len() <= SHORT_TEXT_BYTES {
        hash_of_short_text(text)
    } else {
        hash_of_long_text(text)
    }
}

fn hash_of_long_text(text: &[u8]) -> u64 {
    let len = (text.len() as u64).to_le_bytes();
    let end = LEN_BYTES + text.len();
    if end <= ONE_SHOT_BYTES {
        let mut buffer = [0; ONE_SHOT_BYTES];
        buffer[..LEN_BYTES].copy_from_slice(&len);
        buffer[LEN_BYTES..end].copy_from_slice(text);
        return xxh3_64(&buffer[..end]);
    }
    let mut long = Xxh3Default::new();
    long.update(&len);
    long.update(text);
    long.digest()
}
