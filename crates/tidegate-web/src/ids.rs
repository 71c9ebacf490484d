//! Ids as they stand in paths and answers.
//!
//! *Jobs* go by their own id, percent-encoded in a path. *Vertices* have 32 hexadecimal digits, as in Flink: the hash
//! of the uid of the operator that heads the chain, so an id means the same vertex after a restart and after a change
//! of the program that leaves the uid. In paths `v0`, the name in logs and error texts, is understood too. *Triggers*
//! have 32 hexadecimal digits, chosen by the client or drawn here.

use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Deserializer};
use tidegate_runtime::master::VertexInfo;
use tidegate_types::VertexId;
use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

/// A vertex's id: the hash of its head operator's uid.
pub(crate) fn vertex_id(vertex: &VertexInfo) -> String {
    let head = vertex.uids.first().map_or("", String::as_str);
    format!("{:032x}", xxh3_128(head.as_bytes()))
}

/// The vertex that a path names.
pub(crate) fn find_vertex(vertices: &[VertexInfo], text: &str) -> Option<VertexId> {
    let number = text.strip_prefix('v').and_then(|n| n.parse::<usize>().ok());
    let at = match number {
        Some(number) => (number < vertices.len()).then_some(number),
        None => vertices
            .iter()
            .position(|vertex| vertex_id(vertex).eq_ignore_ascii_case(text)),
    }?;
    u32::try_from(at).ok().map(VertexId)
}

/// Names an operation that was begun for a client and is asked about later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TriggerId(u128);

impl TriggerId {
    /// Reads 32 hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex
            .then(|| u128::from_str_radix(text, 16).ok())
            .flatten()
            .map(Self)
    }
}

impl fmt::Display for TriggerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl<'de> Deserialize<'de> for TriggerId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let problem = || serde::de::Error::custom("a trigger id has 32 hexadecimal digits");
        Self::parse(&text).ok_or_else(problem)
    }
}

/// Draws trigger ids that nobody can guess and no two servers draw alike.
#[derive(Debug)]
pub(crate) struct TriggerIds {
    seed: u64,
    drawn: AtomicU64,
}

impl TriggerIds {
    pub(crate) fn new() -> Self {
        // The keys of the standard library's hasher are the operating system's randomness.
        let seed = std::hash::RandomState::new().build_hasher().finish();
        Self {
            seed,
            drawn: AtomicU64::new(0),
        }
    }

    pub(crate) fn draw(&self) -> TriggerId {
        let n = self.drawn.fetch_add(1, Ordering::Relaxed);
        TriggerId(xxh3_128_with_seed(&n.to_le_bytes(), self.seed))
    }
}
