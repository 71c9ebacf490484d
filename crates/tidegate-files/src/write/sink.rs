//! The sink: where to write, what, and how it is made.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_runtime::error::BoxError;
use tidegate_runtime::operators::{Committer, Sink, SinkContext, SinkWriter};

use super::committable::FileCommittable;
use super::committer::{CommitterParts, FileCommitter};
use super::disk::{Disk, LocalDisk};
use super::encode::{CsvEncoder, Encoder, FnEncoder, JsonLinesEncoder, TextEncoder};
use super::error::SinkError;
use super::names::{Names, is_plain};
use super::writer::{FileWriter, WriterParts};

/// Longest prefix and extension together, so that final names fit into what file systems allow.
const MAX_CHOSEN_BYTES: usize = 128;

/// Writes records into files of a directory, each exactly once.
///
/// Each subtask writes a file per checkpoint, or several if they are [rolled](FileSink::roll_at). It is hidden
/// until the checkpoint is complete and then appears whole under its final name,
/// `part-<tag>-<subtask>-<lineage>-<checkpoint>-<n>.<extension>`; the tag stands for job and sink, so several may
/// share a directory. Without periodic checkpoints files appear when the job ends. Nothing appears if nothing was
/// written.
///
/// After a failure the job goes on from a checkpoint: what belongs to it is made visible if it wasn't, and what
/// was written since is removed. So a final file never changes and holds nothing that another one holds. A run that
/// starts from the beginning in a directory with output of an earlier run of the same job is refused.
///
/// ```
/// use serde::Serialize;
/// use tidegate_files::{CsvEncoder, FileSink};
///
/// // What is `Display`, a line each:
/// let words = FileSink::text("out/words");
///
/// // What serde can serialise:
/// let events = FileSink::json_lines("out/events").roll_at(256 << 20);
/// let orders = FileSink::csv("out/orders");
/// let semicolons = FileSink::new("out/orders", "csv", CsvEncoder::default().delimiter(b';'));
///
/// // Anything:
/// let frames = FileSink::with("out/frames", "bin", |frame: &Vec<u8>, out: &mut Vec<u8>| {
///     out.extend(u32::try_from(frame.len())?.to_le_bytes());
///     out.extend(frame);
///     Ok(())
/// });
/// ```
#[derive(Debug, Clone)]
pub struct FileSink<E> {
    dir: PathBuf,
    prefix: String,
    extension: String,
    encoder: E,
    roll_at: Option<u64>,
    taken_away: bool,
    disk: Arc<dyn Disk>,
}

impl<E> FileSink<E> {
    /// Files `….<extension>` in `dir`, written by an encoder. The directory is made when the job starts.
    pub fn new(dir: impl Into<PathBuf>, extension: impl Into<String>, encoder: E) -> Self {
        Self {
            dir: dir.into(),
            prefix: "part".to_owned(),
            extension: extension.into(),
            encoder,
            roll_at: None,
            taken_away: false,
            disk: Arc::new(LocalDisk),
        }
    }

    /// What final names begin with instead of `part`.
    #[must_use]
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        Self {
            prefix: prefix.into(),
            ..self
        }
    }

    /// What final names end with, without the dot; empty for none.
    #[must_use]
    pub fn extension(self, extension: impl Into<String>) -> Self {
        Self {
            extension: extension.into(),
            ..self
        }
    }

    /// Begins another file as soon as one has so many bytes, instead of only after a checkpoint. A record is
    /// never divided.
    #[must_use]
    pub fn roll_at(self, bytes: u64) -> Self {
        Self {
            roll_at: Some(bytes),
            ..self
        }
    }

    /// Whether somebody moves or deletes final files while the job lives. The job then takes a file that is
    /// neither visible nor prepared for one that was taken away. Otherwise such a file is an error when the job
    /// restarts, because it may be lost output.
    #[must_use]
    pub fn output_is_taken_away(self, yes: bool) -> Self {
        Self {
            taken_away: yes,
            ..self
        }
    }

    #[cfg(test)]
    pub(crate) fn on(self, disk: Arc<dyn Disk>) -> Self {
        Self { disk, ..self }
    }

    fn check(&self) -> Result<(), SinkError> {
        let refuse = |option, reason: &str| {
            Err(SinkError::Option {
                option,
                reason: reason.to_owned(),
            })
        };
        if !is_plain(&self.prefix) || self.prefix.starts_with('.') {
            return refuse(
                "prefix",
                "must be the beginning of a file's name, and not of a hidden one's",
            );
        }
        if !self.extension.is_empty() && !is_plain(&self.extension) {
            return refuse("extension", "must be the end of a file's name");
        }
        if self.prefix.len() + self.extension.len() > MAX_CHOSEN_BYTES {
            return refuse("prefix and extension", "are longer than 128 bytes together");
        }
        if self.roll_at == Some(0) {
            return refuse("roll_at", "must be at least one byte");
        }
        Ok(())
    }

    /// Absolute, because it is stored, and a later run may have another working directory.
    fn directory(&self) -> Result<Arc<Path>, SinkError> {
        match std::path::absolute(&self.dir) {
            Ok(dir) => Ok(dir.into()),
            Err(source) => Err(SinkError::Directory {
                dir: self.dir.clone(),
                source,
            }),
        }
    }

    fn names(&self, cx: &SinkContext) -> Names {
        Names::new(&cx.job, &cx.uid, &self.prefix, &self.extension)
    }
}

impl FileSink<TextEncoder> {
    /// A line per record, as its `Display` writes it.
    pub fn text(dir: impl Into<PathBuf>) -> Self {
        Self::new(dir, "txt", TextEncoder)
    }
}

impl FileSink<CsvEncoder> {
    /// CSV as serde writes the records, with a header if they are structs.
    pub fn csv(dir: impl Into<PathBuf>) -> Self {
        Self::new(dir, "csv", CsvEncoder::default())
    }
}

impl FileSink<JsonLinesEncoder> {
    /// A line of JSON per record.
    pub fn json_lines(dir: impl Into<PathBuf>) -> Self {
        Self::new(dir, "jsonl", JsonLinesEncoder)
    }
}

impl<F> FileSink<FnEncoder<F>> {
    /// What a closure appends for each record, a line end included if there is to be one.
    pub fn with<T>(dir: impl Into<PathBuf>, extension: impl Into<String>, encode: F) -> Self
    where
        F: Fn(&T, &mut Vec<u8>) -> Result<(), BoxError> + Clone + Send + Sync + 'static,
    {
        Self::new(dir, extension, FnEncoder(encode))
    }
}

impl<T: 'static, E: Encoder<T>> Sink<T> for FileSink<E> {
    type Committable = FileCommittable;

    fn writer(&self, cx: SinkContext) -> Result<Box<dyn SinkWriter<T, FileCommittable>>, BoxError> {
        self.check()?;
        let parts = WriterParts {
            names: self.names(&cx),
            cx,
            disk: self.disk.clone(),
            dir: self.directory()?,
            encoder: self.encoder.clone(),
            roll_at: self.roll_at,
        };
        Ok(Box::new(FileWriter::new(parts)))
    }

    fn committer(&self, cx: SinkContext) -> Result<Option<Box<dyn Committer<FileCommittable>>>, BoxError> {
        self.check()?;
        let parts = CommitterParts {
            names: self.names(&cx),
            cx,
            disk: self.disk.clone(),
            dir: self.directory()?,
            taken_away: self.taken_away,
        };
        Ok(Some(Box::new(FileCommitter::new(parts))))
    }
}
