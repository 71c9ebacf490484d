//! What all contestants of a benchmark share, so that they do the same work and are measured the same way.
//!
//! Owns: the records ([`generate`]), what a right run computes ([`expected()`]), command lines ([`arguments`]),
//! counting and the report ([`measure`]). Does not own: who runs when, and what comes of it (`cargo xtask bench`).
//!
//! A contestant is a program `NAME WORKLOAD key=value…` that runs one job over `records` records to its end and prints
//! a [`Report`] as its last line.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints what it found"
)]

pub mod arguments;
pub mod expected;
pub mod generate;
pub mod measure;
pub mod peer;

pub use arguments::{ArgumentError, Arguments, Checkpoints};
pub use expected::{Expected, expected};
pub use measure::{Lane, Measure, Report};

/// All contestants in Rust allocate with it: what one thread allocates another frees, which the system's allocator is
/// slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One kind of work. Its name on the command line is in kebab case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// `map`, `filter`, `map` over the numbers below `records`, without a shuffle.
    Chain,
    /// A running count per key, one output per record.
    KeyedCount,
    /// Lines of eight words split into words, which are counted as they run by.
    Words,
    /// A sum per key and second of event time, put out when the second is over.
    Buckets,
    /// Records of 1 KiB, dealt out evenly, then counted by key.
    Kilobyte,
    /// A running count by a text key.
    StringKeys,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Chain,
        Self::KeyedCount,
        Self::Words,
        Self::Buckets,
        Self::Kilobyte,
        Self::StringKeys,
    ];

    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::KeyedCount => "keyed-count",
            Self::Words => "words",
            Self::Buckets => "buckets",
            Self::Kilobyte => "kilobyte",
            Self::StringKeys => "string-keys",
        }
    }
}

impl std::str::FromStr for Workload {
    type Err = ArgumentError;

    fn from_str(name: &str) -> Result<Self, ArgumentError> {
        let known = Self::ALL.into_iter().find(|w| w.name() == name);
        known.ok_or_else(|| ArgumentError::Workload(name.to_owned()))
    }
}
