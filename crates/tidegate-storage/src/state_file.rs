//! Writing what a subtask stored: one file per subtask and checkpoint, or nothing but inline bytes.
//!
//! Owns: the file's format (`docs/formats.md`, "State files"), streaming with bounded memory, the choice between a
//! file and inline bytes for one subtask, and the clean-up of a file that nobody was told about.
//!
//! A file is a header and the sections' bytes back to back; what they are stands in `_metadata` only. Does not own:
//! payloads, and the cap on inline state of a whole checkpoint ([`JobStore::spill_inline`] applies it).

use bytes::{Buf, Bytes, BytesMut};
use object_store::{MultipartUpload, PutPayload};
use tidegate_types::snapshot::{Location, Section, SectionBytes, SectionHead};

use crate::dir::StoreDir;
use crate::error::{Problem, StorageError};
use crate::layout::{self, Entry, StateFileName};
use crate::metadata::CheckpointMetadata;
use crate::store::JobStore;
use crate::unique::put_unique;

/// What a state file begins with.
pub const MAGIC: [u8; 8] = *b"TIDESTAT";
/// The version that is written, and the newest that is read.
pub const VERSION: u16 = 1;
/// Magic (8), version (2), zero (6). The first section begins here.
pub const HEADER_BYTES: u64 = 16;

/// Bytes of one part of a streamed file. A writer holds this much besides the section it was given. Remote stores take
/// at most 10,000 parts, so a subtask's file may have 160 GB.
const PART_BYTES: u64 = 16 << 20;

const WRITE: &str = "write state";
const DISCARD: &str = "discard state";

/// In which directory a state file stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Its checkpoint's own; it goes with the checkpoint.
    Checkpoint,
    /// The shared one: later checkpoints may name it too.
    Shared,
}

/// What a subtask stored, durable, and not yet acknowledged.
#[derive(Debug)]
#[must_use = "acknowledge its sections, or discard it"]
pub struct WrittenState {
    /// The sections, with their places.
    pub sections: Vec<Section>,
    path: Option<String>,
}

impl WrittenState {
    /// The file's path relative to the job's directory; `None` if all is inline.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Deletes the file: the checkpoint was aborted before its acknowledgement was sent. After sending it the file is
    /// the coordinator's, and this must not be called.
    ///
    /// # Errors
    /// The store's. A sweep deletes the file if this doesn't.
    pub async fn discard(self, store: &JobStore) -> Result<(), StorageError> {
        match self.path {
            Some(path) => store.delete_unacknowledged(&path).await,
            None => Ok(()),
        }
    }
}

/// Writes one state file, section by section.
///
/// Dropped without [`StateFileWriter::finish`] it leaves no object (a local store's staging file goes too).
#[derive(Debug)]
pub struct StateFileWriter {
    dir: StoreDir,
    path: String,
    inline_threshold_bytes: u64,
    heads: Vec<(SectionHead, u32, u64)>,
    /// What isn't uploaded yet: the header, and one piece per section.
    pending: Vec<Bytes>,
    pending_bytes: u64,
    upload: Option<Box<dyn MultipartUpload>>,
}

impl JobStore {
    /// Deletes a state file that was never acknowledged, by the path that [`WrittenState::path`] gave. After its
    /// acknowledgement was sent the file is the coordinator's, and this must not be called.
    ///
    /// # Errors
    /// The store's, and a sweep deletes the file if this doesn't; [`Problem::Bug`] for a path of no state file.
    pub async fn delete_unacknowledged(&self, path: &str) -> Result<(), StorageError> {
        match layout::parse(path) {
            Entry::State { .. } | Entry::Shared(_) => self.dir.delete(DISCARD, path).await,
            _ => Err(StorageError::bug(
                DISCARD,
                self.dir.describe(path),
                "only a state file may be discarded",
            )),
        }
    }

    /// Begins the state file `name`. With at most `inline_threshold_bytes` in all sections no file is written.
    pub fn state_writer(
        &self,
        name: &StateFileName,
        place: Place,
        inline_threshold_bytes: u64,
    ) -> StateFileWriter {
        let path = match place {
            Place::Checkpoint => name.in_checkpoint(),
            Place::Shared => name.in_shared(),
        };
        StateFileWriter {
            dir: self.dir.clone(),
            path,
            inline_threshold_bytes,
            heads: Vec::new(),
            pending: vec![header()],
            pending_bytes: HEADER_BYTES,
            upload: None,
        }
    }

    /// Writes all sections of one subtask at once.
    ///
    /// # Errors
    /// As [`StateFileWriter::push`].
    pub async fn write_state_file(
        &self,
        name: &StateFileName,
        place: Place,
        inline_threshold_bytes: u64,
        sections: impl IntoIterator<Item = SectionBytes, IntoIter: Send>,
    ) -> Result<WrittenState, StorageError> {
        let mut writer = self.state_writer(name, place, inline_threshold_bytes);
        for section in sections {
            writer.push(section).await?;
        }
        writer.finish().await
    }

    /// Bounds the inline state of a checkpoint: moves that of the subtasks with most of it (then the coordinator's)
    /// to one file called `name`, until at most `limit_bytes` are left. To be called before the decision, with the
    /// coordinator's [`Writer::Coordinator`](crate::layout::Writer::Coordinator) name. Returns the bytes moved.
    ///
    /// # Errors
    /// The store's; `metadata` is unchanged then.
    pub async fn spill_inline(
        &self,
        name: &StateFileName,
        limit_bytes: u64,
        metadata: &mut CheckpointMetadata,
    ) -> Result<u64, StorageError> {
        let mut left = metadata.inline_bytes();
        let mut groups: Vec<&mut [Section]> = metadata
            .subtasks
            .iter_mut()
            .map(|subtask| &mut subtask.sections[..])
            .collect();
        // The sort is stable: of equal ones the first goes, so one checkpoint always spills the same.
        groups.sort_by_key(|group| std::cmp::Reverse(inline_bytes(group)));
        groups.push(&mut metadata.master[..]);
        let mut spilled: Vec<&mut Section> = Vec::new();
        for group in groups {
            if left <= limit_bytes {
                break;
            }
            left -= inline_bytes(group);
            spilled.extend(
                group
                    .iter_mut()
                    .filter(|section| matches!(section.location, Location::Inline(_))),
            );
        }
        if spilled.is_empty() {
            return Ok(0);
        }
        let mut writer = self.state_writer(name, Place::Checkpoint, 0);
        for section in &spilled {
            if let Location::Inline(bytes) = &section.location {
                writer
                    .push(SectionBytes {
                        head: section.head.clone(),
                        bytes: bytes.clone(),
                    })
                    .await?;
            }
        }
        let written = writer.finish().await?;
        let moved = written
            .sections
            .iter()
            .map(|section| section.location.size_bytes())
            .sum();
        for (section, written) in spilled.into_iter().zip(written.sections) {
            section.location = written.location;
        }
        Ok(moved)
    }
}

impl StateFileWriter {
    /// Adds a section. Bytes that fill a part are uploaded before this returns.
    ///
    /// # Errors
    /// The store's; the file is given up then, and nothing of it stays.
    pub async fn push(&mut self, section: SectionBytes) -> Result<(), StorageError> {
        let size = section.bytes.len() as u64;
        self.heads
            .push((section.head, crc32c::crc32c(&section.bytes), size));
        self.pending.push(section.bytes);
        self.pending_bytes += size;
        while self.pending_bytes >= PART_BYTES {
            self.upload_part(PART_BYTES).await?;
        }
        Ok(())
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// The store's; nothing of the file stays then, as far as the store lets it go.
    pub async fn finish(mut self) -> Result<WrittenState, StorageError> {
        let total: u64 = self.heads.iter().map(|(_, _, size)| size).sum();
        if self.upload.is_none() && total <= self.inline_threshold_bytes {
            let pieces = self.pending.drain(1..);
            let inline = |((head, crc, _), bytes)| Section {
                head,
                crc,
                location: Location::Inline(bytes),
            };
            let sections = self.heads.into_iter().zip(pieces).map(inline).collect();
            return Ok(WrittenState { sections, path: None });
        }
        if self.upload.is_some() {
            self.complete_upload().await?;
        } else {
            let payload: PutPayload = self.pending.drain(..).collect();
            if let Err(error) = put_unique(&self.dir, WRITE, &self.path, payload).await {
                // It may have arrived all the same. Nobody knows its name, so it may go; a sweep finds it otherwise.
                let _ = self.dir.delete(WRITE, &self.path).await;
                return Err(error);
            }
        }
        let mut offset = HEADER_BYTES;
        let mut sections = Vec::with_capacity(self.heads.len());
        for (head, crc, len) in self.heads {
            let location = Location::File {
                path: self.path.clone(),
                offset,
                len,
            };
            sections.push(Section { head, crc, location });
            offset += len;
        }
        Ok(WrittenState {
            sections,
            path: Some(self.path),
        })
    }

    /// Gives the file up.
    pub async fn abort(mut self) {
        if let Some(mut upload) = self.upload.take() {
            // What an abort leaves a sweep or the store's own rule for unfinished uploads removes.
            let _ = upload.abort().await;
        }
    }

    async fn complete_upload(&mut self) -> Result<(), StorageError> {
        if self.pending_bytes > 0 {
            self.upload_part(self.pending_bytes).await?;
        }
        let Some(mut upload) = self.upload.take() else {
            return Ok(());
        };
        if let Err(error) = upload.complete().await {
            let _ = upload.abort().await;
            let _ = self.dir.delete(WRITE, &self.path).await;
            return Err(StorageError::of_store(
                WRITE,
                self.dir.describe(&self.path),
                error,
            ));
        }
        Ok(())
    }

    async fn upload_part(&mut self, size: u64) -> Result<(), StorageError> {
        let part = take_front(&mut self.pending, size);
        self.pending_bytes -= size;
        let mut upload = match self.upload.take() {
            Some(upload) => upload,
            None => self.dir.upload(WRITE, &self.path).await?,
        };
        if let Err(error) = upload.put_part(part).await {
            let _ = upload.abort().await;
            return Err(StorageError::of_store(
                WRITE,
                self.dir.describe(&self.path),
                error,
            ));
        }
        self.upload = Some(upload);
        Ok(())
    }
}

/// Takes the first `size` bytes off `pieces`, without copying.
fn take_front(pieces: &mut Vec<Bytes>, size: u64) -> PutPayload {
    let mut left = usize::try_from(size).unwrap_or(usize::MAX);
    let mut whole = 0;
    for piece in pieces.iter() {
        if piece.len() > left {
            break;
        }
        left -= piece.len();
        whole += 1;
    }
    let mut taken: Vec<Bytes> = pieces.drain(..whole).collect();
    if let Some(next) = pieces.first_mut().filter(|_| left > 0) {
        taken.push(next.split_to(left));
    }
    taken.into_iter().collect()
}

fn inline_bytes(sections: &[Section]) -> u64 {
    let size = |section: &Section| match &section.location {
        Location::Inline(bytes) => bytes.len() as u64,
        Location::File { .. } => 0,
    };
    sections.iter().map(size).sum()
}

fn header() -> Bytes {
    let mut header = BytesMut::with_capacity(HEADER_BYTES as usize);
    header.extend_from_slice(&MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.resize(HEADER_BYTES as usize, 0);
    header.freeze()
}

/// Checks the first [`HEADER_BYTES`] of a state file.
pub(crate) fn check_header(mut bytes: &[u8]) -> Result<(), Problem> {
    let corrupt = |detail: &str| {
        Err(Problem::Corrupt {
            detail: detail.to_owned(),
        })
    };
    if (bytes.len() as u64) < HEADER_BYTES {
        return corrupt("it is shorter than its header");
    }
    if bytes[..8] != MAGIC {
        return corrupt("it doesn't begin with TIDESTAT");
    }
    bytes.advance(8);
    match bytes.get_u16_le() {
        0 => corrupt("its version is 0"),
        found if found > VERSION => Err(Problem::FutureVersion {
            found,
            known: VERSION,
        }),
        _ => Ok(()),
    }
}
