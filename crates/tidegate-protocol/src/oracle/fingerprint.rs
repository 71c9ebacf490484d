//! A fast 64-bit hash for states of a search.

use std::hash::Hasher;

/// Odd, with its bits evenly mixed.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes words by folded multiplication (as wyhash and foldhash do). States have dozens of small fields, for
/// which the standard hasher costs more than the step that led there.
#[derive(Debug, Clone)]
pub(crate) struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0x2545_f491_4f6c_dd1d)
    }
}

impl Fingerprint {
    #[inline]
    fn word(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(MULTIPLIER);
        // Keeps the state from sticking at 0, and makes the order of words count.
        self.0 = (product as u64 ^ (product >> 64) as u64)
            .wrapping_add(MULTIPLIER)
            .rotate_left(23);
    }
}

impl Hasher for Fingerprint {
    fn finish(&self) -> u64 {
        let mut last = self.clone();
        last.word(0);
        last.word(1);
        last.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.word(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.word(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.word(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.word(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.word(word as u64);
    }
}
