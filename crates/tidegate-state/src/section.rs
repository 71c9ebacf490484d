//! The bytes of a state section: a head, an index of chunks in hash order, the chunks.
//!
//! Owns: this container, written by [`write()`] and taken apart by [`Sections`]. Specified in
//! `docs/formats.md`, "Keyed state sections". Does not own: what stands inside a chunk (the cells), checksums
//! and files (storage). Reading takes any bytes: it answers with an error, never with a panic, and allocates
//! nothing.

use tidegate_types::key_group::HashRange;
use tidegate_types::snapshot::Encoding;

use crate::cuts::{CHUNK_CANONICAL, CHUNK_PART, ChunkRef};
use crate::describe::StateKind;
use crate::error::{StateError, StatePlace};

/// The first bytes of every state section.
const MAGIC: [u8; 4] = *b"TGST";
/// The newest layout that is understood, and the one that is written.
pub(crate) const VERSION: u8 = 1;
const HEAD_BYTES: usize = 12;
const INDEX_BYTES: usize = 32;
/// Entries carry the time at which they were last touched.
const FLAG_STAMPED: u8 = 1;

/// What the head of a section says about all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traits {
    pub(crate) kind: StateKind,
    pub(crate) stamped: bool,
}

/// Lays chunks out as one section. `bytes_of` finds a chunk's bytes.
pub(crate) fn write<'a>(
    traits: Traits,
    chunks: &[ChunkRef],
    bytes_of: impl Fn(&ChunkRef) -> &'a [u8],
) -> Vec<u8> {
    let body: usize = chunks.iter().map(|chunk| chunk.len as usize).sum();
    let mut out = Vec::with_capacity(HEAD_BYTES + chunks.len() * INDEX_BYTES + body);
    out.extend_from_slice(&MAGIC);
    out.push(VERSION);
    out.push(traits.kind as u8);
    out.push(if traits.stamped { FLAG_STAMPED } else { 0 });
    out.push(0);
    out.extend_from_slice(&(chunks.len() as u32).to_le_bytes());
    for chunk in chunks {
        out.extend_from_slice(&chunk.hashes.first.to_le_bytes());
        out.extend_from_slice(&chunk.hashes.last.to_le_bytes());
        out.extend_from_slice(&u64::from(chunk.len).to_le_bytes());
        out.extend_from_slice(&chunk.entries.to_le_bytes());
        out.extend_from_slice(&chunk.flags.to_le_bytes());
    }
    for chunk in chunks {
        out.extend_from_slice(bytes_of(chunk));
    }
    out
}

/// One chunk of a stored section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk<'a> {
    pub(crate) hashes: HashRange,
    pub(crate) encoding: Encoding,
    /// Whether it is a part of one collection.
    pub(crate) is_part: bool,
    pub(crate) entries: u32,
    /// Where it begins in the section.
    pub(crate) offset: u64,
    pub(crate) bytes: &'a [u8],
}

/// A stored section taken apart.
#[derive(Debug)]
pub(crate) struct Sections<'a> {
    pub(crate) traits: Traits,
    index: &'a [u8],
    body: &'a [u8],
}

impl<'a> Sections<'a> {
    /// Checks head and index.
    pub(crate) fn parse(bytes: &'a [u8], place: &StatePlace) -> Result<Self, StateError> {
        let damaged = |offset: usize, reason: &str| StateError::Corrupt {
            place: place.clone(),
            offset: offset as u64,
            reason: reason.into(),
        };
        let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else {
            return Err(damaged(bytes.len(), "it ends within the section's head"));
        };
        if head[..4] != MAGIC {
            return Err(damaged(0, "it doesn't begin as a state section does"));
        }
        if head[4] == 0 || head[4] > VERSION {
            return Err(StateError::Version {
                place: place.clone(),
                found: head[4],
                supported: VERSION,
            });
        }
        let kind =
            StateKind::from_code(head[5]).ok_or_else(|| damaged(5, "no kind of state has this number"))?;
        if head[6] & !FLAG_STAMPED != 0 || head[7] != 0 {
            return Err(damaged(6, "unknown flags"));
        }
        let count = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let index_bytes = count.checked_mul(INDEX_BYTES).filter(|len| *len <= rest.len());
        let Some(index_bytes) = index_bytes else {
            return Err(damaged(8, "the index is longer than the section"));
        };
        let (index, body) = rest.split_at(index_bytes);
        let sections = Self {
            traits: Traits {
                kind,
                stamped: head[6] & FLAG_STAMPED != 0,
            },
            index,
            body,
        };
        sections.check_index(&damaged)?;
        Ok(sections)
    }

    fn check_index(&self, damaged: &dyn Fn(usize, &str) -> StateError) -> Result<(), StateError> {
        let mut total = 0u64;
        for (number, raw) in self.index.chunks_exact(INDEX_BYTES).enumerate() {
            let offset = HEAD_BYTES + number * INDEX_BYTES;
            let Raw {
                first,
                last,
                len,
                flags,
                ..
            } = Raw::of(raw);
            if first > last {
                return Err(damaged(offset, "a chunk's first hash is above its last"));
            }
            if flags & !(CHUNK_CANONICAL | CHUNK_PART) != 0 {
                return Err(damaged(offset + 28, "unknown chunk flags"));
            }
            total = total
                .checked_add(len)
                .ok_or_else(|| damaged(offset + 16, "chunk lengths overflow"))?;
        }
        match total == self.body.len() as u64 {
            true => Ok(()),
            false => Err(damaged(
                HEAD_BYTES + self.index.len(),
                "the chunks' lengths don't add up to the section's",
            )),
        }
    }

    /// The chunks, in the order of the section.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = Chunk<'a>> + use<'a> {
        let start = HEAD_BYTES + self.index.len();
        let (body, mut at) = (self.body, 0usize);
        self.index.chunks_exact(INDEX_BYTES).map_while(move |raw| {
            let Raw {
                first,
                last,
                len,
                entries,
                flags,
            } = Raw::of(raw);
            let end = at.checked_add(usize::try_from(len).ok()?)?;
            let bytes = body.get(at..end)?;
            let offset = (start + at) as u64;
            at = end;
            let encoding = if flags & CHUNK_CANONICAL != 0 {
                Encoding::Canonical
            } else {
                Encoding::Native
            };
            let hashes = HashRange { first, last };
            Some(Chunk {
                hashes,
                encoding,
                is_part: flags & CHUNK_PART != 0,
                entries,
                offset,
                bytes,
            })
        })
    }
}

struct Raw {
    first: u64,
    last: u64,
    len: u64,
    entries: u32,
    flags: u32,
}

impl Raw {
    /// `raw` is `INDEX_BYTES` long.
    fn of(raw: &[u8]) -> Self {
        let long = |at: usize| u64::from_le_bytes(array(&raw[at..at + 8]));
        let short = |at: usize| u32::from_le_bytes(array(&raw[at..at + 4]));
        Self {
            first: long(0),
            last: long(8),
            len: long(16),
            entries: short(24),
            flags: short(28),
        }
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(bytes);
    out
}

/// Takes a little-endian number off the front.
pub(crate) fn take_u32(input: &mut &[u8]) -> Option<u32> {
    let (number, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(u32::from_le_bytes(*number))
}

/// Takes a little-endian number off the front.
pub(crate) fn take_i64(input: &mut &[u8]) -> Option<i64> {
    let (number, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(i64::from_le_bytes(*number))
}
