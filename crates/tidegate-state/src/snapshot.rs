//! What a state hands over for a cut: owned bytes, to be put in order away from the task's thread.

use bytes::Bytes;
use tidegate_types::CheckpointId;
use tidegate_types::key_group::HashRange;
use tidegate_types::shape::Shape;
use tidegate_types::snapshot::{Encoding, SectionBytes, SectionHead, SectionKind};

use crate::cuts::{Buffer, CHUNK_CANONICAL, ChunkRef};
use crate::error::{StateError, StatePlace};
use crate::section::{self, Traits};

/// Sections are cut at the first chunk boundary after this many bytes, so that a rescaled restore skips most of what
/// it doesn't need.
const SECTION_BYTES: u64 = 16 * 1024 * 1024;

/// What one state contributes to one snapshot. `Send` and free of the state's types: a pool orders and writes
/// it.
#[derive(Debug)]
pub struct StateSnapshot {
    pub(crate) id: CheckpointId,
    pub(crate) place: StatePlace,
    pub(crate) section: SectionKind,
    pub(crate) traits: Traits,
    /// The hashes of the subtask; `None` for an operator state.
    pub(crate) hashes: Option<HashRange>,
    /// What the cut asked for.
    pub(crate) encoding: Encoding,
    /// For native sections.
    pub(crate) shapes: Vec<Shape>,
    pub(crate) content: Result<Buffer, StateError>,
}

impl StateSnapshot {
    /// The checkpoint.
    pub fn id(&self) -> CheckpointId {
        self.id
    }

    /// The state's name.
    pub fn name(&self) -> &str {
        &self.place.name
    }

    /// Bytes of encoded entries.
    pub fn size_bytes(&self) -> u64 {
        self.content.as_ref().map_or(0, |buffer| buffer.bytes)
    }

    /// Entries.
    pub fn records(&self) -> u64 {
        self.content.as_ref().map_or(0, |buffer| buffer.records)
    }

    /// Puts everything in hash order: sections of about 16 MiB each, at least one even if the state is empty.
    /// Sections of a keyed state cover the subtask's hashes without a gap.
    ///
    /// # Errors
    /// If a value could not be encoded when its block was preserved. The snapshot is then lost, the state
    /// isn't.
    pub fn into_sections(self) -> Result<Vec<SectionBytes>, StateError> {
        let Self {
            place,
            section,
            traits,
            hashes,
            encoding,
            shapes,
            content,
            ..
        } = self;
        let Buffer {
            mut segments,
            mut chunks,
            ..
        } = content?;
        // Stable: the parts of a collection were written in order and follow the block that names their key.
        chunks.sort_by_key(|chunk| {
            (
                chunk.hashes.first,
                chunk.hashes.last == chunk.hashes.first,
                chunk.ordinal,
            )
        });
        let mut unread = chunks_of_segments(segments.len(), &chunks);
        let groups = group_chunks(&chunks);
        let mut from = hashes.map(|range| range.first);
        let mut sections = Vec::with_capacity(groups.len());
        for group in groups {
            let next = chunks.get(group.end);
            let group = &chunks[group];
            let covered = hashes
                .zip(from)
                .map(|(range, first)| covered(range, first, group, next.is_none()));
            // Parts of a collection may come after the section of the block around them: both cover its hashes.
            from = covered
                .zip(next)
                .map(|(range, next)| next.hashes.first.min(range.last.saturating_add(1)));
            let native = match group.is_empty() {
                true => encoding == Encoding::Native,
                false => group.iter().any(|chunk| chunk.flags & CHUNK_CANONICAL == 0),
            };
            let head = SectionHead {
                uid: place.uid.clone(),
                kind: section.clone(),
                name: place.name.clone(),
                hashes: covered,
                encoding: if native {
                    Encoding::Native
                } else {
                    Encoding::Canonical
                },
                shapes: if native { shapes.clone() } else { Vec::new() },
                records: group.iter().map(|chunk| u64::from(chunk.entries)).sum(),
            };
            let bytes = Bytes::from(section::write(traits, group, |chunk| bytes_of(&segments, chunk)));
            sections.push(SectionBytes { head, bytes });
            // Most blocks were preserved in hash order: what is laid out is released on the way, so that the state's
            // bytes aren't all held twice.
            for chunk in group {
                let segment = chunk.segment as usize;
                unread[segment] -= 1;
                if unread[segment] == 0 {
                    segments[segment] = Vec::new();
                }
            }
        }
        Ok(sections)
    }
}

fn bytes_of<'a>(segments: &'a [Vec<u8>], chunk: &ChunkRef) -> &'a [u8] {
    let start = chunk.offset as usize;
    &segments[chunk.segment as usize][start..start + chunk.len as usize]
}

/// How many chunks stand in each segment.
fn chunks_of_segments(segments: usize, chunks: &[ChunkRef]) -> Vec<usize> {
    let mut counts = vec![0; segments];
    for chunk in chunks {
        counts[chunk.segment as usize] += 1;
    }
    counts
}

/// The hashes of a section that begins at `first`; the last one goes on to the end of the subtask's range.
fn covered(range: HashRange, first: u64, group: &[ChunkRef], is_last: bool) -> HashRange {
    let reached = group
        .iter()
        .map(|chunk| chunk.hashes.last)
        .max()
        .unwrap_or(range.last);
    HashRange {
        first,
        last: if is_last { range.last } else { reached },
    }
}

/// Consecutive runs of about [`SECTION_BYTES`]; one empty run if there are no chunks.
fn group_chunks(chunks: &[ChunkRef]) -> Vec<std::ops::Range<usize>> {
    let mut groups = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, chunk) in chunks.iter().enumerate() {
        bytes += u64::from(chunk.len);
        if bytes >= SECTION_BYTES {
            groups.push(start..at + 1);
            (start, bytes) = (at + 1, 0);
        }
    }
    if start < chunks.len() || groups.is_empty() {
        groups.push(start..chunks.len());
    }
    groups
}
