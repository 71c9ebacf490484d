//! The records. Each is computed from its number, so that any split of the numbers gives the same records.

use std::sync::OnceLock;

/// Scatters a number over 64 bits (the finalizer of SplitMix64; Steele, Lea, Flood 2014).
#[inline(always)]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The key of record `number`.
#[inline(always)]
pub fn key(number: u64, keys: u64) -> u64 {
    mix(number) % keys
}

/// Words and text keys: strings that don't allocate while they are short, as whoever counts words in Rust would use.
pub type Text = compact_str::CompactString;

/// The key of a record as text: `user-` and at least eight digits.
pub fn text_key(number: u64, keys: u64) -> Text {
    let mut key = key(number, keys);
    let mut digits = [b'0'; 20];
    let mut from = digits.len();
    while key > 0 || from > digits.len() - 8 {
        from -= 1;
        digits[from] = b'0' + (key % 10) as u8;
        key /= 10;
    }
    let mut text = Text::const_new("user-");
    text.extend(digits[from..].iter().map(|d| char::from(*d)));
    text
}

/// Different words of [`line()`]s.
pub const WORDS: usize = 10_000;
/// Words in a line.
pub const WORDS_PER_LINE: u64 = 8;
/// After so many lines they begin again.
pub const LINES: usize = 1 << 16;

/// Words by number: three to six letters at random, then three that make it unlike all others.
pub fn vocabulary() -> &'static [String] {
    static VOCABULARY: OnceLock<Vec<String>> = OnceLock::new();
    VOCABULARY.get_or_init(|| {
        let letter = |n: u64| char::from(b'a' + (n % 26) as u8);
        let word = |i: u64| {
            let mut h = mix(i + 1);
            let mut word = String::new();
            for k in 0..3 + h % 4 {
                h = mix(h.wrapping_add(k + 1));
                word.push(letter(h));
            }
            word.extend([letter(i / 676), letter(i / 26), letter(i)]);
            word
        };
        (0..WORDS as u64).map(word).collect()
    })
}

/// The words of line `line`, by number: word k is 1/(k + 1) as frequent as the first (Zipf).
pub fn words_of(line: usize) -> [u16; WORDS_PER_LINE as usize] {
    static CUMULATED: OnceLock<Vec<f64>> = OnceLock::new();
    let cumulated = CUMULATED.get_or_init(|| {
        let mut sum = 0.0;
        let add = |k: usize| {
            sum += 1.0 / (k as f64 + 1.0);
            sum
        };
        (0..WORDS).map(add).collect()
    });
    let total = cumulated[WORDS - 1];
    std::array::from_fn(|k| {
        let random = mix(line as u64 * WORDS_PER_LINE + k as u64 + 0x100_0000) >> 11;
        let at = random as f64 / (1u64 << 53) as f64 * total;
        cumulated.partition_point(|c| *c <= at).min(WORDS - 1) as u16
    })
}

/// All lines.
pub fn lines() -> &'static [String] {
    static ALL: OnceLock<Vec<String>> = OnceLock::new();
    ALL.get_or_init(|| {
        let words = vocabulary();
        let line = |i| {
            let words = words_of(i).map(|w| words[usize::from(w)].as_str());
            words.join(" ")
        };
        (0..LINES).map(line).collect()
    })
}

/// Line `number`.
#[inline]
pub fn line(number: u64) -> &'static str {
    &lines()[(number % LINES as u64) as usize]
}

/// Keys of [`bucket_record`]s.
pub const BUCKET_KEYS: u64 = 10_000;
/// Milliseconds of event time that are summed up.
pub const BUCKET_MS: i64 = 1_000;

/// The key, the value and the event time in milliseconds of record `number`: 1,000 records a millisecond.
#[inline(always)]
pub fn bucket_record(number: u64) -> (u64, u64, i64) {
    (key(number, BUCKET_KEYS), number & 0xff, (number / 1000) as i64)
}

/// Bytes of a [`kilobyte`] record.
pub const KILOBYTE: usize = 1024;
/// Keys of kilobyte records behind the second shuffle.
pub const KILOBYTE_KEYS: u64 = 1_000;

/// A record of 1 KiB, allocated anew; its number stands in the first eight bytes, little-endian.
#[inline]
pub fn kilobyte(number: u64) -> Vec<u8> {
    let mut record = vec![0; KILOBYTE];
    record[..8].copy_from_slice(&number.to_le_bytes());
    record
}

/// What the operator between the two shuffles does: puts the record's key into the next eight bytes.
#[inline]
pub fn stamp(record: &mut [u8]) {
    let key = key(word(record, 0), KILOBYTE_KEYS);
    record[8..16].copy_from_slice(&key.to_le_bytes());
}

/// The key of a stamped record.
#[inline]
pub fn stamped(record: &[u8]) -> u64 {
    word(record, 8)
}

fn word(record: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&record[at..at + 8]);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_differ_and_the_first_is_the_most_frequent() {
        let mut words = vocabulary().to_vec();
        words.sort();
        words.dedup();
        assert_eq!(words.len(), WORDS);
        let mut counts = vec![0u32; WORDS];
        (0..LINES)
            .flat_map(words_of)
            .for_each(|w| counts[usize::from(w)] += 1);
        // 8 × 65,536 words / H(10,000) = 53,570 of the first.
        assert!((52_000..55_000).contains(&counts[0]), "{}", counts[0]);
        assert!((26_000..27_600).contains(&counts[1]), "{}", counts[1]);
    }

    /// What other languages must reproduce.
    #[test]
    fn the_generator_stays_as_it_is() {
        assert_eq!(mix(1), 0x5692_161d_100b_05e5);
        assert_eq!(text_key(1, 1_000_000), "user-00578789");
        assert_eq!(
            line(LINES as u64),
            "hhadcaaq mkbeaaa mekagxdfk nciefavj txbjjez dixaae asbtach pzezbgg"
        );
    }
}
