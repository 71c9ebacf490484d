//! One hidden file: buffered, checksummed, and gone again unless it was prepared.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Disk, Staged};
use super::error::SinkError;

/// Bytes that are written at once.
pub(crate) const BUFFER_BYTES: usize = 256 * 1024;

/// A hidden file. Nothing is created on the disk before the buffer is full or the file is finished; dropping it
/// removes it, so an attempt that fails cleans up behind itself as far as it can.
pub(crate) struct StagingFile {
    disk: Arc<dyn Disk>,
    dir: Arc<Path>,
    name: String,
    buffer: Vec<u8>,
    file: Option<Box<dyn Staged>>,
    created: bool,
    written: u64,
    crc: u32,
    kept: bool,
}

impl StagingFile {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: Arc<Path>, name: String) -> Self {
        Self {
            disk,
            dir,
            name,
            buffer: Vec::new(),
            file: None,
            created: false,
            written: 0,
            crc: 0,
            kept: false,
        }
    }

    /// What is to be written; append only.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Bytes so far, those in the buffer too.
    pub(crate) fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The checksum of what was written.
    pub(crate) fn crc32c(&self) -> u32 {
        self.crc
    }

    fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    fn error(&self, doing: &'static str, source: io::Error) -> SinkError {
        SinkError::io(doing, &self.dir, self.path(), source)
    }

    /// Writes the buffer out if it is full.
    #[inline]
    pub(crate) fn write_if_full(&mut self) -> Result<(), SinkError> {
        if self.buffer.len() >= BUFFER_BYTES {
            self.write()
        } else {
            Ok(())
        }
    }

    fn write(&mut self) -> Result<(), SinkError> {
        if !self.created {
            let file = self
                .disk
                .create(&self.path())
                .map_err(|e| self.error("create", e))?;
            self.file = Some(file);
            self.created = true;
        }
        if let Some(file) = &mut self.file {
            file.write(&self.buffer).map_err(|e| self.error("write to", e))?;
            self.crc = crc32c::crc32c_append(self.crc, &self.buffer);
            self.written += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Writes out what is left; nothing may be appended any more. The content is on its way and not yet durable.
    pub(crate) fn complete(&mut self) -> Result<(), SinkError> {
        if !self.created || !self.buffer.is_empty() {
            self.write()?;
        }
        self.buffer = Vec::new();
        Ok(())
    }

    /// Makes the content durable and closes the file.
    pub(crate) fn sync(&mut self) -> Result<(), SinkError> {
        self.complete()?;
        if let Some(mut file) = self.file.take() {
            file.sync().map_err(|e| self.error("make durable", e))?;
        }
        Ok(())
    }

    /// The file is somebody else's to remove from here on.
    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for StagingFile {
    fn drop(&mut self) {
        if self.created
            && !self.kept
            && let Err(error) = self.disk.remove(&self.path())
        {
            // The next start of the job discards it.
            tracing::debug!(file = %self.path().display(), %error, "an unfinished file stays for now");
        }
    }
}
