//! The writer of one subtask: records into hidden files, files into committables at each cut.
//!
//! At a cut the open file goes into the closure that prepares it on a pool's thread: flush, `fsync`, choice of the
//! final name, `fsync` of the directory; in this order, so that a committable never names what a power cut may take
//! away. The next record begins another file. Does not own: making files visible ([`super::committer`]).

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use tidegate_runtime::error::BoxError;
use tidegate_runtime::operators::{Prepared, SinkContext, SinkWriter};
use tidegate_types::{CheckpointId, EventTime};

use super::committable::FileCommittable;
use super::disk::Disk;
use super::encode::Encoder;
use super::error::SinkError;
use super::names::{FinalName, Names};
use super::staging::StagingFile;

/// Files that were rolled since the last cut and aren't durable yet stay open up to this number, so that many small
/// ones don't use up file descriptors; beyond it the oldest is made durable on the task's thread.
const MAX_OPEN_ROLLED: usize = 16;

/// How many taken final names are passed over.
const MAX_NAME_TRIES: u64 = 10_000;

/// What a writer is made of.
pub(crate) struct WriterParts<E> {
    pub(crate) cx: SinkContext,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: Arc<Path>,
    pub(crate) names: Names,
    pub(crate) encoder: E,
    pub(crate) roll_at: Option<u64>,
}

/// Writes one subtask's records.
pub(crate) struct FileWriter<E> {
    parts: WriterParts<E>,
    open: Option<StagingFile>,
    /// Full ones in order; those in front may be durable already.
    rolled: VecDeque<StagingFile>,
    durable: usize,
    /// The last cut, and files begun since.
    last_cut: CheckpointId,
    begun: u64,
}

impl<E> FileWriter<E> {
    pub(crate) fn new(parts: WriterParts<E>) -> Self {
        Self {
            parts,
            open: None,
            rolled: VecDeque::new(),
            durable: 0,
            last_cut: CheckpointId(0),
            begun: 0,
        }
    }

    fn begin(&mut self) -> StagingFile {
        let name = self
            .parts
            .names
            .staging(&self.parts.cx, self.last_cut, self.begun);
        self.begun += 1;
        StagingFile::new(self.parts.disk.clone(), self.parts.dir.clone(), name)
    }

    fn roll(&mut self) -> Result<(), SinkError> {
        if let Some(mut file) = self.open.take() {
            file.complete()?;
            self.rolled.push_back(file);
        }
        if self.rolled.len() - self.durable > MAX_OPEN_ROLLED {
            self.rolled[self.durable].sync()?;
            self.durable += 1;
        }
        Ok(())
    }
}

impl<T, E: Encoder<T>> SinkWriter<T, FileCommittable> for FileWriter<E> {
    fn write(&mut self, record: T, _: Option<EventTime>) -> Result<(), BoxError> {
        let mut file = match self.open.take() {
            Some(file) => file,
            None => {
                let mut file = self.begin();
                self.parts
                    .encoder
                    .begin(file.buffer())
                    .map_err(SinkError::Encode)?;
                file
            }
        };
        let before = file.buffer().len();
        let encoded = self.parts.encoder.encode(&record, file.buffer());
        if encoded.is_err() {
            file.buffer().truncate(before);
        }
        let written = file.write_if_full();
        let is_full = self.parts.roll_at.is_some_and(|bytes| file.bytes() >= bytes);
        self.open = Some(file);
        encoded.map_err(SinkError::Encode)?;
        written?;
        if is_full {
            self.roll()?;
        }
        Ok(())
    }

    fn prepare(&mut self, id: CheckpointId) -> Result<Option<Prepared<FileCommittable>>, BoxError> {
        let mut files: Vec<StagingFile> = std::mem::take(&mut self.rolled).into();
        files.extend(self.open.take().filter(|file| file.bytes() > 0));
        (self.durable, self.begun, self.last_cut) = (0, 0, id);
        if files.is_empty() {
            return Ok(None);
        }
        let WriterParts {
            cx, disk, dir, names, ..
        } = &self.parts;
        let first = FinalName {
            subtask: cx.subtask,
            lineage: cx.lineage,
            checkpoint: id,
            n: 0,
        };
        let prepare = Prepare {
            disk: disk.clone(),
            dir: dir.clone(),
            names: names.clone(),
            first,
        };
        Ok(Some(Box::new(move || Ok(prepare.run(files)?))))
    }

    fn close(&mut self) {
        // What wasn't prepared is in no snapshot and will be written again.
        self.open = None;
        self.rolled.clear();
    }
}

struct Prepare {
    disk: Arc<dyn Disk>,
    dir: Arc<Path>,
    names: Names,
    first: FinalName,
}

impl Prepare {
    /// Makes the files durable; all of them or, on an error, none.
    fn run(self, mut files: Vec<StagingFile>) -> Result<Vec<FileCommittable>, SinkError> {
        let mut next = self.first;
        let mut committables = Vec::with_capacity(files.len());
        for file in &mut files {
            file.sync()?;
            let name = self.free_name(&mut next)?;
            committables.push(FileCommittable {
                dir: self.dir.to_str().unwrap_or_default().to_owned(),
                staging: file.name().to_owned(),
                name,
                bytes: file.bytes(),
                crc32c: file.crc32c(),
            });
        }
        let synced = self.disk.sync_dir(&self.dir);
        synced.map_err(|e| SinkError::io("make durable", &self.dir, self.dir.to_path_buf(), e))?;
        files.iter_mut().for_each(StagingFile::keep);
        Ok(committables)
    }

    /// The first name that nobody has. All are free unless the job was restored into another checkpoint
    /// directory, where its checkpoints are counted anew: what the earlier run committed under these ids isn't
    /// this file, so this one gets a name of its own. It is in the committable, so commits stay idempotent.
    fn free_name(&self, next: &mut FinalName) -> Result<String, SinkError> {
        let wanted = next.n;
        while next.n - wanted <= MAX_NAME_TRIES {
            let name = self.names.visible(*next);
            next.n += 1;
            let path = self.dir.join(&name);
            let there = self.disk.stat(&path);
            if there
                .map_err(|e| SinkError::io("look at", &self.dir, path, e))?
                .is_none()
            {
                return Ok(name);
            }
        }
        let path = self
            .dir
            .join(self.names.visible(FinalName { n: wanted, ..*next }));
        Err(SinkError::NamesTaken {
            path,
            tries: MAX_NAME_TRIES,
        })
    }
}
