//! How the text of an option becomes a value, and a value text again.
//!
//! Owns the grammar of booleans, counts, durations and sizes. `parse(render(v))` gives `v` again for every
//! value, so a value set in code and one written in a file travel the same way. Does not own the enumerations
//! of single options: `kinds` does.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{MaxParallelism, Parallelism};

/// A type that an option can have.
pub trait OptionValue: Sized {
    /// The type's name in the documentation, such as `duration`.
    fn type_name() -> &'static str;

    /// What a valid text looks like, to follow the word "expected": "a duration such as `500 ms`".
    fn expected() -> String;

    /// Reads a trimmed text; `None` if it isn't one of this type.
    fn parse(text: &str) -> Option<Self>;

    /// The text that [`parse`](Self::parse) reads as this value.
    fn render(&self) -> String;
}

/// A number of bytes; `kb`, `mb` … are powers of 1,024, as in Flink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemorySize(pub u64);

impl MemorySize {
    /// The number of bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }

    /// So many KiB; saturates.
    pub fn kib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 10))
    }

    /// So many MiB; saturates.
    pub fn mib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 20))
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render())
    }
}

/// The longest duration an option accepts (100 years), so that no sum of a point in time and an option
/// overflows anywhere.
pub const MAX_DURATION: Duration = Duration::from_secs(100 * 365 * 86_400);

impl OptionValue for bool {
    fn type_name() -> &'static str {
        "boolean"
    }

    fn expected() -> String {
        "`true` or `false`".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("true") {
            Some(true)
        } else if text.eq_ignore_ascii_case("false") {
            Some(false)
        } else {
            None
        }
    }

    fn render(&self) -> String {
        self.to_string()
    }
}

macro_rules! count {
    ($type:ty, $max:expr) => {
        impl OptionValue for $type {
            fn type_name() -> &'static str {
                "count"
            }

            fn expected() -> String {
                format!("a whole number up to {}", $max)
            }

            fn parse(text: &str) -> Option<Self> {
                text.replace('_', "").parse().ok()
            }

            fn render(&self) -> String {
                self.to_string()
            }
        }
    };
}

count!(u32, u32::MAX);
count!(u64, u64::MAX);

impl OptionValue for Parallelism {
    fn type_name() -> &'static str {
        "count"
    }

    fn expected() -> String {
        format!("a whole number from 1 to {}", MaxParallelism::LIMIT)
    }

    fn parse(text: &str) -> Option<Self> {
        u32::parse(text)
            .filter(|n| (1..=MaxParallelism::LIMIT.0).contains(n))
            .map(Self)
    }

    fn render(&self) -> String {
        self.to_string()
    }
}

impl OptionValue for MaxParallelism {
    fn type_name() -> &'static str {
        "count"
    }

    fn expected() -> String {
        Parallelism::expected()
    }

    fn parse(text: &str) -> Option<Self> {
        Parallelism::parse(text).map(|p| Self(p.0))
    }

    fn render(&self) -> String {
        self.to_string()
    }
}

impl OptionValue for f64 {
    fn type_name() -> &'static str {
        "number"
    }

    fn expected() -> String {
        "a number such as `1.5`".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|n: &Self| n.is_finite())
    }

    fn render(&self) -> String {
        self.to_string()
    }
}

/// Longest text an option takes, in bytes: a path fits, a pasted file doesn't.
const MAX_TEXT_BYTES: usize = 4096;

impl OptionValue for String {
    fn type_name() -> &'static str {
        "text"
    }

    fn expected() -> String {
        format!("a text of 1 to {MAX_TEXT_BYTES} bytes without control characters")
    }

    fn parse(text: &str) -> Option<Self> {
        let fits = !text.is_empty() && text.len() <= MAX_TEXT_BYTES;
        (fits && !text.contains(char::is_control)).then(|| text.to_owned())
    }

    fn render(&self) -> String {
        self.clone()
    }
}

impl OptionValue for Duration {
    fn type_name() -> &'static str {
        "duration"
    }

    fn expected() -> String {
        "a duration such as `500 ms`, `10 min` or `PT1H30M`".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        let duration = match text.strip_prefix(['P', 'p']) {
            Some(rest) => parse_iso(rest)?,
            None => parse_number_and_unit(text)?,
        };
        (duration <= MAX_DURATION).then_some(duration)
    }

    fn render(&self) -> String {
        let nanos = self.as_nanos();
        let unit = NANOS_PER_UNIT
            .iter()
            .find(|(per, _)| nanos > 0 && nanos.is_multiple_of(*per));
        match unit {
            Some((per, labels)) => format!("{} {}", nanos / per, labels[0]),
            None => "0 ms".to_owned(),
        }
    }
}

/// Options of this type can be switched off: `off` and a duration of zero both mean that.
impl OptionValue for Option<Duration> {
    fn type_name() -> &'static str {
        "duration or `off`"
    }

    fn expected() -> String {
        format!("`off`, or {}", Duration::expected())
    }

    fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("off") {
            return Some(None);
        }
        Duration::parse(text).map(|d| (!d.is_zero()).then_some(d))
    }

    fn render(&self) -> String {
        self.as_ref().map_or_else(|| "off".to_owned(), Duration::render)
    }
}

impl OptionValue for MemorySize {
    fn type_name() -> &'static str {
        "size"
    }

    fn expected() -> String {
        "a size in bytes such as `256 kb` or `4 MiB` (1 kb = 1,024 bytes)".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        let (number, unit) = split_number(text)?;
        let unit = unit.to_ascii_lowercase();
        let (per, _) = BYTES_PER_UNIT
            .iter()
            .find(|(_, labels)| labels.contains(&unit.as_str()))?;
        number.checked_mul(*per).map(Self)
    }

    fn render(&self) -> String {
        let unit = BYTES_PER_UNIT
            .iter()
            .find(|(per, _)| self.0 > 0 && self.0.is_multiple_of(*per));
        match unit {
            Some((per, labels)) => format!("{} {}", self.0 / per, labels[0]),
            None => "0 bytes".to_owned(),
        }
    }
}

/// From the largest to the smallest; the first label is the one we write. No unit means milliseconds.
const NANOS_PER_UNIT: [(u128, &[&str]); 7] = [
    (86_400_000_000_000, &["d", "day", "days"]),
    (3_600_000_000_000, &["h", "hour", "hours"]),
    (60_000_000_000, &["min", "m", "minute", "minutes"]),
    (1_000_000_000, &["s", "sec", "secs", "second", "seconds"]),
    (
        1_000_000,
        &["ms", "milli", "millis", "millisecond", "milliseconds", ""],
    ),
    (
        1_000,
        &["us", "µs", "micro", "micros", "microsecond", "microseconds"],
    ),
    (1, &["ns", "nano", "nanos", "nanosecond", "nanoseconds"]),
];

/// From the largest to the smallest, all binary; the first label is the one we write. No unit means bytes.
const BYTES_PER_UNIT: [(u64, &[&str]); 5] = [
    (1 << 40, &["tb", "t", "tib", "tebibytes"]),
    (1 << 30, &["gb", "g", "gib", "gibibytes"]),
    (1 << 20, &["mb", "m", "mib", "mebibytes"]),
    (1 << 10, &["kb", "k", "kib", "kibibytes"]),
    (1, &["bytes", "b", "byte", ""]),
];

/// Splits `10 min` into 10 and `min`.
fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    Some((digits.parse().ok()?, unit.trim_start()))
}

fn parse_number_and_unit(text: &str) -> Option<Duration> {
    let (number, unit) = split_number(text)?;
    let unit = unit.to_lowercase();
    let (per, _) = NANOS_PER_UNIT
        .iter()
        .find(|(_, labels)| labels.contains(&unit.as_str()))?;
    from_nanos(u128::from(number) * per)
}

fn from_nanos(nanos: u128) -> Option<Duration> {
    let secs = u64::try_from(nanos / 1_000_000_000).ok()?;
    Some(Duration::new(secs, (nanos % 1_000_000_000) as u32))
}

/// ISO 8601 without its `P`: days, and after a `T` hours, minutes and seconds with a fraction. Years and months
/// have no fixed length and aren't read.
fn parse_iso(text: &str) -> Option<Duration> {
    let text = text.to_ascii_uppercase();
    let (date, time) = text
        .split_once('T')
        .map_or((text.as_str(), None), |(d, t)| (d, Some(t)));
    if time.unwrap_or(date).is_empty() {
        return None;
    }
    let days = iso_part(date, &[('D', 86_400_000_000_000)])?;
    let clock = [
        ('H', 3_600_000_000_000),
        ('M', 60_000_000_000),
        ('S', 1_000_000_000),
    ];
    from_nanos(days.checked_add(iso_part(time.unwrap_or_default(), &clock)?)?)
}

/// The sum of the numbers in `text`, in nanoseconds; each designator at most once and in the order given.
fn iso_part(text: &str, mut designators: &[(char, u128)]) -> Option<u128> {
    let mut nanos = 0u128;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let designator = rest[end..].chars().next()?;
        let at = designators.iter().position(|(d, _)| *d == designator)?;
        nanos = nanos.checked_add(iso_number(&rest[..end], designators[at].1, designator == 'S')?)?;
        designators = &designators[at + 1..];
        rest = &rest[end + 1..];
    }
    Some(nanos)
}

/// `number * per` in nanoseconds; only seconds may have a fraction, of at most nine digits.
fn iso_number(number: &str, per: u128, fraction_allowed: bool) -> Option<u128> {
    let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = number
        .split_once('.')
        .map_or((number, None), |(w, f)| (w, Some(f)));
    if !all_digits(whole) || fraction.is_some_and(|f| !fraction_allowed || !all_digits(f) || f.len() > 9) {
        return None;
    }
    let whole = u128::from(whole.parse::<u64>().ok()?) * per;
    let fraction = match fraction {
        Some(digits) => format!("{digits:0<9}").parse::<u128>().ok()?,
        None => 0,
    };
    Some(whole + fraction)
}
