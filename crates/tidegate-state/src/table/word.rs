//! The control word of a group: seven tag bytes and a count, examined all at once.
//!
//! Byte *i* belongs to slot *i*: 0 if it is empty, else seven bits of the entry's hash, and the top bit if the slot
//! was written since the block's marks were last taken. Byte 7 counts the entries that passed this group by because
//! it was full.

/// One in every byte.
pub(super) const LSB: u64 = 0x0101_0101_0101_0101;
const LOW7: u64 = 0x7f7f_7f7f_7f7f_7f7f;
/// The top bits of the seven tag bytes.
pub(super) const TOPS: u64 = 0x0080_8080_8080_8080;
/// The bit of a tag byte that says the slot was written.
pub(super) const WRITTEN: u8 = 0x80;

/// Seven bits of the hash that are neither in the directory's prefix nor in the group's index; never 0.
#[inline]
pub(super) fn tag(hash: u64) -> u8 {
    (((hash >> 4) & 0x7f) as u8).max(1)
}

/// The top bit of every tag byte that is 0 after `word ^ pattern`, ignoring written bits.
#[inline]
pub(super) fn matching(word: u64, pattern: u64) -> u64 {
    // Each byte is at most 0x7f, so adding 0x7f carries into its own top bit only, and does so unless it is 0.
    let differs = ((word & LOW7) ^ pattern).wrapping_add(LOW7);
    !differs & TOPS
}

/// The top bit of every tag byte that isn't 0.
#[inline]
pub(super) fn occupied(word: u64) -> u64 {
    (word & LOW7).wrapping_add(LOW7) & TOPS
}

/// Gathers the top bits of the tag bytes into the low seven bits.
#[inline]
pub(super) fn gather(tops: u64) -> u8 {
    // Byte i contributes bit 8i, which the multiplier's bit 7 * (8 - i) moves to bit 56 + i; no two sums meet.
    ((tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_examined_alike_whatever_stands_beside_them() {
        let tags = [0u8, 1, 2, 0x3f, 0x7e, 0x7f];
        let step = if cfg!(miri) { 997 } else { 1 };
        for number in (0..6u32.pow(7) / 7).step_by(step) {
            let at = |i: u32| tags[(number * 7 / 6u32.pow(i) % 6) as usize];
            let written = number.wrapping_mul(0x9e37_79b9) >> 25;
            let mut word = u64::from(number as u8) << 56;
            for i in 0..7 {
                word |= u64::from(at(i) | if written >> i & 1 == 1 { WRITTEN } else { 0 }) << (8 * i);
            }
            for tag in tags {
                let expected = (0..7)
                    .filter(|i| at(*i) == tag)
                    .fold(0u8, |bits, i| bits | 1 << i);
                assert_eq!(
                    gather(matching(word, LSB * u64::from(tag))),
                    expected,
                    "{word:016x} {tag:02x}"
                );
            }
            let expected = (0..7).filter(|i| at(*i) != 0).fold(0u8, |bits, i| bits | 1 << i);
            assert_eq!(gather(occupied(word)), expected, "{word:016x}");
            assert_eq!(u32::from(gather(word & TOPS)), written, "{word:016x}");
        }
    }

    #[test]
    fn no_hash_has_the_tag_of_an_empty_slot() {
        for hash in 0..1 << 12 {
            assert!((1..0x80).contains(&tag(hash)));
        }
    }
}
