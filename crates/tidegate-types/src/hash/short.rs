//! XXH3-64 (seed 0, default secret) of short inputs, small enough to be inlined where a key is hashed.
//!
//! Written from the public specification (<https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>,
//! "XXH3 algorithm, small inputs" and "medium inputs"). Single integers need no buffer at all; a string's length
//! and content are hashed without being copied together, which costs as much as hashing them. Everything longer
//! goes to `xxhash-rust`, against which all of this is tested.

use xxhash_rust::xxh3::xxh3_64;

/// The first 128 bytes of XXH3's default secret as little-endian words.
const SECRET: [u64; 16] = [
    0xbe4b_a423_396c_feb8,
    0x1cad_21f7_2c81_017c,
    0xdb97_9083_e96d_d4de,
    0x1f67_b3b7_a4a4_4072,
    0x78e5_c0cc_4ee6_79cb,
    0x2172_ffcc_7dd0_5a82,
    0x8e24_43f7_7446_08b8,
    0x4c26_3a81_e690_35e0,
    0xcb00_c391_bb52_283c,
    0xa32e_531b_8b65_d088,
    0x4ef9_0da2_9748_6471,
    0xd8ac_dea9_46ef_1938,
    0x3f34_9ce3_3f76_faa8,
    0x1d4f_0bc7_c7bb_dcf9,
    0x3159_b4cd_4be0_518a,
    0x6473_78d9_c97e_9fc8,
];

const PRIME64_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME64_3: u64 = 0x1656_67b1_9e37_79f9;
const PRIME_MX1: u64 = 0x1656_6791_9e37_79f9;
const PRIME_MX2: u64 = 0x9fb2_1c65_1e98_df25;

/// Bytes of a word, and of the length in front of a text.
const WORD: usize = 8;
/// The longest text for [`hash_of_short_text`]: XXH3 reads up to 128 bytes in pairs from both ends.
pub(super) const SHORT_TEXT_BYTES: usize = 128 - WORD;

/// The hash of exactly `N` bytes. `N` is known at compile time, so one of the paths is left.
#[inline(always)]
pub(super) fn hash_of<const N: usize>(bytes: [u8; N]) -> u64 {
    match N {
        1..=3 => one_to_three(bytes[0], bytes[N >> 1], bytes[N - 1], N as u32),
        4..=8 => {
            let word =
                |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            four_to_eight(word(0), word(N - 4), N as u64)
        }
        _ => xxh3_64(&bytes),
    }
}

/// The hash of a text's length in 8 bytes, followed by the text; at most [`SHORT_TEXT_BYTES`] of it.
#[inline]
pub(super) fn hash_of_short_text(text: &[u8]) -> u64 {
    match text.len() {
        0 => hash_of([0; WORD]),
        1..=WORD => nine_to_sixteen(text),
        _ => seventeen_to_128(text),
    }
}

#[inline(always)]
fn one_to_three(first: u8, middle: u8, last: u8, len: u32) -> u64 {
    let combined = u32::from(last) | (len << 8) | (u32::from(first) << 16) | (u32::from(middle) << 24);
    let flip = (SECRET[0] as u32) ^ (SECRET[0] >> 32) as u32;
    let mut h = u64::from(combined ^ flip);
    h = (h ^ (h >> 33)).wrapping_mul(PRIME64_2);
    h = (h ^ (h >> 29)).wrapping_mul(PRIME64_3);
    h ^ (h >> 32)
}

#[inline(always)]
fn four_to_eight(first: u32, last: u32, len: u64) -> u64 {
    let mut h = (u64::from(last) | (u64::from(first) << 32)) ^ SECRET[1] ^ SECRET[2];
    h ^= h.rotate_left(49) ^ h.rotate_left(24);
    h = h.wrapping_mul(PRIME_MX2);
    h = (h ^ ((h >> 35).wrapping_add(len))).wrapping_mul(PRIME_MX2);
    h ^ (h >> 28)
}

/// A length and 1 to 8 bytes of text.
#[inline]
fn nine_to_sixteen(text: &[u8]) -> u64 {
    let n = text.len();
    let low = n as u64 ^ SECRET[3] ^ SECRET[4];
    let high = ending_word(n as u64, partial_word(text), n) ^ SECRET[5] ^ SECRET[6];
    let len = (WORD + n) as u64;
    avalanche(
        len.wrapping_add(low.swap_bytes())
            .wrapping_add(high)
            .wrapping_add(folded_product(low, high)),
    )
}

/// A length and 9 to 120 bytes of text.
#[inline]
fn seventeen_to_128(text: &[u8]) -> u64 {
    let len = WORD + text.len();
    let start = text_word(text, 0);
    // The word at a byte of the whole input, the first of which is the length.
    let word = |at: usize| match at.checked_sub(WORD) {
        Some(at) => text_word(text, at),
        None => ending_word(text.len() as u64, start, at),
    };
    let mix = |at: usize, secret: usize| {
        folded_product(word(at) ^ SECRET[secret], word(at + WORD) ^ SECRET[secret + 1])
    };
    let mut sum = (len as u64).wrapping_mul(PRIME64_1);
    // Pairs of words from both ends towards the middle, as many as it takes to cover all.
    for pair in 0..len.div_ceil(4 * WORD) {
        let from_start = mix(2 * WORD * pair, 4 * pair);
        let from_end = mix(len - 2 * WORD * (pair + 1), 4 * pair + 2);
        sum = sum.wrapping_add(from_start).wrapping_add(from_end);
    }
    avalanche(sum)
}

/// The word that begins `at` (0 to 8) bytes into two words.
#[inline(always)]
fn ending_word(first: u64, second: u64, at: usize) -> u64 {
    let both = u128::from(first) | (u128::from(second) << 64);
    (both >> (8 * at)) as u64
}

/// Up to 8 bytes as a word.
#[inline(always)]
fn partial_word(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            u64::from(first) | (u64::from(last) << (8 * (n - 4)))
        }
        _ => bytes
            .iter()
            .rev()
            .fold(0, |word, byte| (word << 8) | u64::from(*byte)),
    }
}

/// The word at a byte of a text. The callers stay inside; outside is zero.
#[inline(always)]
fn text_word(text: &[u8], at: usize) -> u64 {
    text.get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |word| u64::from_le_bytes(*word))
}

#[inline(always)]
fn folded_product(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn avalanche(mut h: u64) -> u64 {
    h = (h ^ (h >> 37)).wrapping_mul(PRIME_MX1);
    h ^ (h >> 32)
}
