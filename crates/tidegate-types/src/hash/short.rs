//! XXH3-64 (seed 0, default secret) of a few bytes, small enough to be inlined where a key is hashed.
//!
//! Written from the public specification (<https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>,
//! "XXH3 algorithm, small inputs"). Everything over 8 bytes goes to `xxhash-rust`, against which this is tested.

use xxhash_rust::xxh3::xxh3_64;

/// The default secret's first two 32-bit words, xored: what inputs of 1 to 3 bytes are flipped with.
const FLIP_1_TO_3: u64 = 0x396c_feb8 ^ 0xbe4b_a423;
/// The default secret's 64-bit words at bytes 8 and 16, xored: what inputs of 4 to 8 bytes are flipped with.
const FLIP_4_TO_8: u64 = 0x1cad_21f7_2c81_017c ^ 0xdb97_9083_e96d_d4de;

const PRIME64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME64_3: u64 = 0x1656_67b1_9e37_79f9;
const PRIME_MX2: u64 = 0x9fb2_1c65_1e98_df25;

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

#[inline(always)]
fn one_to_three(first: u8, middle: u8, last: u8, len: u32) -> u64 {
    let combined = u32::from(last) | (len << 8) | (u32::from(first) << 16) | (u32::from(middle) << 24);
    let mut h = u64::from(combined) ^ FLIP_1_TO_3;
    h = (h ^ (h >> 33)).wrapping_mul(PRIME64_2);
    h = (h ^ (h >> 29)).wrapping_mul(PRIME64_3);
    h ^ (h >> 32)
}

#[inline(always)]
fn four_to_eight(first: u32, last: u32, len: u64) -> u64 {
    let mut h = (u64::from(last) | (u64::from(first) << 32)) ^ FLIP_4_TO_8;
    h ^= h.rotate_left(49) ^ h.rotate_left(24);
    h = h.wrapping_mul(PRIME_MX2);
    h = (h ^ ((h >> 35).wrapping_add(len))).wrapping_mul(PRIME_MX2);
    h ^ (h >> 28)
}
