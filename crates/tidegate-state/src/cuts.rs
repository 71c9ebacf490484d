//! The cuts of one state: which epoch it is in, which snapshots are still owed blocks, and their buffers.
//!
//! An epoch is the time between two cuts; all states of a task are cut together and so count alike. A block
//! that was last preserved in epoch `e` is owed to every open cut that began a later one. To preserve it is to
//! append its encoded entries, as one *chunk*, to the buffer of each: nothing is cloned and nothing is shared,
//! so the pool gets bytes that it owns.
//!
//! Owns: epochs, open cuts, chunks, the fate of cuts. Does not own: which block was preserved when (the
//! directory), what an entry looks like (the state's cells), and the order of chunks (`snapshot`).

use tidegate_types::CheckpointId;
use tidegate_types::codec::CodecError;
use tidegate_types::key_group::HashRange;
use tidegate_types::snapshot::Encoding;

use crate::error::{StateError, StatePlace};
use crate::keyed::{Cut, Outcome};
use crate::table::Fate;

/// Buffers begin small, so that a small state costs little, and are never grown by copying once they are this
/// large.
const MIN_SEGMENT_BYTES: usize = 4 * 1024;
const MAX_SEGMENT_BYTES: usize = 1024 * 1024;
/// Cuts whose fate is awaited. The coordinator decides ids in order and allows few at once; one that is
/// forgotten counts as aborted, which makes an increment larger and nothing else.
const MAX_UNDECIDED: usize = 64;

/// Written in canonical format.
pub(crate) const CHUNK_CANONICAL: u32 = 1;
/// A part of one collection: the key, then elements.
pub(crate) const CHUNK_PART: u32 = 2;

/// Where one chunk stands in a snapshot's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkRef {
    pub(crate) hashes: HashRange,
    /// Which part of a collection; 0 for ordinary chunks.
    pub(crate) ordinal: u32,
    pub(crate) segment: u32,
    pub(crate) offset: u32,
    pub(crate) len: u32,
    pub(crate) entries: u32,
    pub(crate) flags: u32,
}

/// Encoded chunks in the order in which their blocks were preserved.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    pub(crate) segments: Vec<Vec<u8>>,
    pub(crate) chunks: Vec<ChunkRef>,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    last_chunk_bytes: usize,
}

impl Buffer {
    /// A segment with room for about one more chunk.
    fn segment(&mut self) -> &mut Vec<u8> {
        let full = self.segments.last().is_none_or(|s| {
            // An empty one is grown as needed: some value is larger than any segment.
            !s.is_empty() && s.capacity() - s.len() < self.last_chunk_bytes + self.last_chunk_bytes / 4
        });
        if full {
            let size = self
                .segments
                .last()
                .map_or(MIN_SEGMENT_BYTES, |s| s.capacity().saturating_mul(4));
            let size = size.clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES);
            self.segments.push(Vec::with_capacity(size));
        }
        self.segments
            .last_mut()
            .expect("one was pushed if there was none")
    }

    /// Appends what `write` writes as one chunk. Without entries nothing is appended.
    pub(crate) fn chunk(
        &mut self,
        hashes: HashRange,
        ordinal: u32,
        flags: u32,
        write: impl FnOnce(&mut Vec<u8>) -> Result<u32, CodecError>,
    ) -> Result<(), CodecError> {
        let expected = self.last_chunk_bytes;
        let segment = self.segment();
        let offset = segment.len();
        segment.reserve(expected);
        let entries = match write(segment) {
            Ok(0) => {
                segment.truncate(offset);
                return Ok(());
            }
            Ok(entries) => entries,
            Err(error) => {
                segment.truncate(offset);
                return Err(error);
            }
        };
        let len = segment.len() - offset;
        let (Ok(offset), Ok(short)) = (u32::try_from(offset), u32::try_from(len)) else {
            segment.truncate(offset);
            return Err(too_large(len));
        };
        let segment = (self.segments.len() - 1) as u32;
        self.chunks.push(ChunkRef {
            hashes,
            ordinal,
            segment,
            offset,
            len: short,
            entries,
            flags,
        });
        self.bytes += len as u64;
        self.records += u64::from(entries);
        self.last_chunk_bytes = len;
        Ok(())
    }
}

fn too_large(len: usize) -> CodecError {
    use tidegate_types::codec::CodecErrorKind;
    CodecErrorKind::OverLimit {
        what: "bytes of one key's value:",
        length: len as u64,
        limit: u64::from(u32::MAX),
    }
    .into()
}

/// A cut that isn't swept to its end.
#[derive(Debug)]
pub(crate) struct OpenCut {
    pub(crate) cut: Cut,
    /// The epoch that it began.
    pub(crate) epoch: u32,
    pub(crate) buffer: Buffer,
    /// Why the snapshot is lost, if it is.
    pub(crate) error: Option<StateError>,
}

impl OpenCut {
    /// The snapshot is lost: its bytes are of no use to anyone.
    fn fail(&mut self, place: &StatePlace, source: CodecError) {
        self.buffer = Buffer::default();
        self.error = Some(StateError::Encode {
            place: place.clone(),
            source,
        });
    }
}

/// Which cuts a chunk is for, and what its index entry says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owed {
    /// It was last preserved in this epoch: later cuts have a claim to it,
    pub(crate) since: u32,
    /// up to those that began this one.
    pub(crate) until: u32,
    pub(crate) hashes: HashRange,
    /// Which part of a collection; 0 for ordinary chunks.
    pub(crate) ordinal: u32,
    pub(crate) flags: u32,
}

/// What is told to whoever writes a chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkTarget {
    pub(crate) encoding: Encoding,
    /// Entries that have expired by then are left out.
    pub(crate) now_ms: i64,
}

/// The cuts of one state.
#[derive(Debug)]
pub(crate) struct Cuts {
    epoch: u32,
    /// Oldest first.
    open: Vec<OpenCut>,
    /// Swept to their end and not yet taken, oldest first.
    finished: Vec<OpenCut>,
    /// Cuts not yet decided with the epochs they began, oldest first.
    undecided: Vec<(CheckpointId, u32)>,
    /// The newest epoch whose cut is complete; 0 without.
    complete: u32,
    /// The complete cut's id.
    complete_id: Option<CheckpointId>,
}

impl Cuts {
    pub(crate) fn new() -> Self {
        Self {
            epoch: 0,
            open: Vec::new(),
            finished: Vec::new(),
            undecided: Vec::new(),
            complete: 0,
            complete_id: None,
        }
    }

    /// The current epoch: how many cuts there were.
    #[inline]
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Begins an epoch.
    pub(crate) fn begin(&mut self, cut: Cut) {
        if let Some(base) = cut.base {
            self.decided(base, Outcome::Completed);
        }
        self.epoch = self
            .epoch
            .checked_add(1)
            .expect("a state is cut less than 2^32 times");
        if self.undecided.len() == MAX_UNDECIDED {
            self.undecided.remove(0);
        }
        self.undecided.push((cut.id, self.epoch));
        self.open.push(OpenCut {
            cut,
            epoch: self.epoch,
            buffer: Buffer::default(),
            error: None,
        });
    }

    /// Whether a block that was last preserved in `epoch` is owed to anyone.
    pub(crate) fn owes(&self, epoch: u32) -> bool {
        self.open.last().is_some_and(|newest| newest.epoch > epoch)
    }

    /// Whether any cut is being swept.
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// How many are being swept.
    pub(crate) fn open_count(&self) -> u32 {
        self.open.len() as u32
    }

    /// The newest cut that is being swept.
    pub(crate) fn newest_open(&self) -> Option<&Cut> {
        self.open.last().map(|open| &open.cut)
    }

    /// Whether a deleted key could be in some increment's base.
    #[inline]
    pub(crate) fn has_base(&self) -> bool {
        self.epoch > 0
    }

    /// The epoch of the base that an increment for `cut` would be written against, if its marks are known.
    #[cfg_attr(
        not(test),
        expect(
            dead_code,
            reason = "increments are not written yet; the marks are tested through this"
        )
    )]
    pub(crate) fn base_epoch(&self, base: CheckpointId) -> Option<u32> {
        (self.complete_id == Some(base)).then_some(self.complete)
    }

    /// Bytes in buffers.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.open
            .iter()
            .chain(&self.finished)
            .map(|open| open.buffer.bytes)
            .sum()
    }

    /// Appends a chunk to every open cut that it is owed to. `write` is called once for
    /// each, and again in canonical format where a value can't be written natively.
    pub(crate) fn preserve(
        &mut self,
        owed: Owed,
        place: &StatePlace,
        mut write: impl FnMut(ChunkTarget, &mut Vec<u8>) -> Result<u32, CodecError>,
    ) {
        let Owed {
            since,
            until,
            hashes,
            ordinal,
            flags,
        } = owed;
        let wants = |open: &&mut OpenCut| open.epoch > since && open.epoch <= until && open.error.is_none();
        for open in self.open.iter_mut().filter(wants) {
            let target = ChunkTarget {
                encoding: open.cut.encoding,
                now_ms: open.cut.now_ms,
            };
            let result = match open.cut.encoding {
                Encoding::Native => match open
                    .buffer
                    .chunk(hashes, ordinal, flags, |out| write(target, out))
                {
                    Err(error) if error.is_not_native() => None,
                    done => Some(done),
                },
                Encoding::Canonical | Encoding::Raw => None,
            };
            let result = result.unwrap_or_else(|| {
                let target = ChunkTarget {
                    encoding: Encoding::Canonical,
                    ..target
                };
                open.buffer
                    .chunk(hashes, ordinal, flags | CHUNK_CANONICAL, |out| write(target, out))
            });
            if let Err(source) = result {
                open.fail(place, source);
            }
        }
    }

    /// Every block has been preserved for cuts up to `epoch`.
    pub(crate) fn finish(&mut self, epoch: u32) {
        let done = self.open.partition_point(|open| open.epoch <= epoch);
        self.finished.extend(self.open.drain(..done));
    }

    /// The oldest finished cut.
    pub(crate) fn take_finished(&mut self) -> Option<OpenCut> {
        (!self.finished.is_empty()).then(|| self.finished.remove(0))
    }

    /// The fate of a checkpoint, and of all before it.
    pub(crate) fn decided(&mut self, id: CheckpointId, outcome: Outcome) {
        match outcome {
            Outcome::Completed => {
                if let Some(&(_, epoch)) = self.undecided.iter().find(|(known, _)| *known == id) {
                    (self.complete, self.complete_id) = (epoch, Some(id));
                }
                // Ids are decided in order, so an earlier one whose fate wasn't heard is decided as well.
                self.undecided.retain(|(known, _)| *known > id);
                self.open.retain(|open| open.cut.id > id);
                self.finished.retain(|open| open.cut.id > id);
            }
            Outcome::Aborted => {
                self.undecided.retain(|(known, _)| *known != id);
                self.open.retain(|open| open.cut.id != id);
                self.finished.retain(|open| open.cut.id != id);
            }
        }
    }

    /// The fate of the cut that began `epoch`.
    pub(crate) fn fate(&self, epoch: u32) -> Fate {
        if epoch <= self.complete {
            return Fate::Complete;
        }
        // In order, and few.
        match self
            .undecided
            .iter()
            .map(|(_, began)| *began)
            .find(|began| *began >= epoch)
        {
            Some(began) if began == epoch => Fate::Pending,
            next => Fate::Aborted { next },
        }
    }
}
