//! The values that are invented for a type: first one that differs from its neighbours, then what checked types
//! commonly accept.

use super::graph::Leaf;

/// Which value is asked for at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// Zero, false or empty: what `skip_serializing_if` likes to skip.
    Empty,
    /// The n-th attempt. `distinct` grows from place to place, so two swapped fields show.
    Attempt { n: usize, distinct: u8 },
}

/// Texts that well-known types parse: numbers, times, ids, addresses.
const TEXTS: [&str; 14] = [
    "0",
    "1970-01-01T00:00:00Z",
    "1970-01-01T00:00:00",
    "1970-01-01",
    "00:00:00",
    "1970-01-01T00:00:00[UTC]",
    "00000000-0000-0000-0000-000000000000",
    "127.0.0.1",
    "127.0.0.1:80",
    "http://localhost/",
    "a@b.example",
    "UTC",
    "1s",
    "a",
];

/// Lengths of well-known values in bytes: ids, addresses, keys, hashes.
const BYTE_LENGTHS: [usize; 6] = [16, 4, 6, 8, 20, 32];

/// How many attempts there are.
pub(super) fn attempts(leaf: Leaf) -> usize {
    match leaf {
        Leaf::Str => 1 + TEXTS.len(),
        Leaf::Bytes => 1 + BYTE_LENGTHS.len(),
        Leaf::Bool => 2,
        _ => 3,
    }
}

impl Choice {
    /// Fits every integer and float type.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Empty => 0,
            Self::Attempt { n: 0, distinct } => distinct,
            Self::Attempt { n, .. } => u8::from(n == 1),
        }
    }

    pub(super) fn bool(self) -> bool {
        match self {
            Self::Empty => false,
            Self::Attempt { n, .. } => n == 0,
        }
    }

    pub(super) fn char(self) -> char {
        match self {
            Self::Empty => '\0',
            Self::Attempt { n: 0, distinct } => char::from(b'a' + distinct % 26),
            Self::Attempt { n, .. } => char::from(b'0' + n as u8),
        }
    }

    pub(super) fn text(self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Attempt { n: 0, distinct } => format!("s{distinct}"),
            Self::Attempt { n, .. } => TEXTS[(n - 1) % TEXTS.len()].into(),
        }
    }

    pub(super) fn bytes(self) -> Vec<u8> {
        match self {
            Self::Empty => Vec::new(),
            Self::Attempt { n: 0, distinct } => vec![distinct],
            Self::Attempt { n, distinct } => vec![distinct; BYTE_LENGTHS[(n - 1) % BYTE_LENGTHS.len()]],
        }
    }
}
