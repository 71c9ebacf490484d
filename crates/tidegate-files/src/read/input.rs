//! Buffered reading of one file from an offset on: a window over its bytes that grows only when asked to.
//!
//! Owns: the buffer, the offset that its first byte has in the file, and noticing that a file ends before it
//! should. Does not own: where records begin and end ([`super::lines`], [`super::csv`]).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use super::error::{Change, SourceError};
use super::split::{FileSplit, Fingerprint};

/// Bytes that are read at once: few system calls, and still inside the second-level cache.
pub(crate) const CHUNK: usize = 256 * 1024;

/// A buffer that a long record made larger than this is given back afterwards.
const KEEP: usize = 4 * CHUNK;

/// The bytes of a file from some offset on.
pub(crate) struct Input {
    file: Box<dyn Read + Send>,
    path: Arc<str>,
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    /// Where `buffer[from]` stands in the file.
    offset: u64,
    ended: bool,
    /// The file had so many bytes when it was listed.
    listed_size: u64,
}

impl Input {
    pub(crate) fn new(file: Box<dyn Read + Send>, split: &FileSplit, offset: u64) -> Self {
        Self {
            file,
            path: split.path.clone(),
            buffer: Vec::new(),
            from: 0,
            to: 0,
            offset,
            ended: false,
            listed_size: split.file.size,
        }
    }

    /// Opens the file of a split at `offset`, if it is still the one that was listed.
    pub(crate) fn open(split: &FileSplit, offset: u64) -> Result<Self, SourceError> {
        let mut file = open_same(split)?;
        file.seek(SeekFrom::Start(offset))
            .map_err(|source| read_error(&split.path, offset, source))?;
        Ok(Self::new(Box::new(file), split, offset))
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// The file, for messages.
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Where the first of [`bytes`](Self::bytes) stands in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// What was read and not consumed.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.from..self.to]
    }

    /// Whether nothing follows the bytes at hand.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Takes bytes off the front.
    pub(crate) fn consume(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.to - self.from, "only what is there can be consumed");
        self.from += bytes;
        self.offset += bytes as u64;
    }

    /// Reads more, once; or finds that the file has ended.
    pub(crate) fn fill(&mut self) -> Result<(), SourceError> {
        self.make_room();
        let read = loop {
            match self.file.read(&mut self.buffer[self.to..]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let behind = self.offset + (self.to - self.from) as u64;
        let read = read.map_err(|source| read_error(&self.path, behind, source))?;
        self.to += read;
        self.ended = read == 0;
        if self.ended && behind < self.listed_size {
            let change = Change::Truncated {
                was: self.listed_size,
                is: behind,
            };
            return Err(SourceError::Changed {
                path: self.path.clone(),
                change,
            });
        }
        Ok(())
    }

    /// Leaves at least half a chunk of room behind what stands in the buffer.
    fn make_room(&mut self) {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
            if self.buffer.len() > KEEP {
                self.buffer = Vec::new();
            }
        } else if self.from > 0 && self.buffer.len() - self.to < CHUNK / 2 {
            self.buffer.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        if self.buffer.len() - self.to < CHUNK / 2 {
            // Doubling, so that a record that is long after all isn't copied once per chunk.
            let grown = (self.buffer.len() * 2).max(CHUNK);
            self.buffer.resize(grown, 0);
        }
    }
}

fn read_error(path: &Arc<str>, offset: u64, source: io::Error) -> SourceError {
    SourceError::Read {
        path: path.clone(),
        offset,
        source,
    }
}

/// Opens a split's file and checks that it is still the one that was listed.
pub(crate) fn open_same(split: &FileSplit) -> Result<File, SourceError> {
    let path = Path::new(&*split.path);
    let unreadable = |source| SourceError::Unreadable {
        path: path.to_owned(),
        source,
    };
    // Not opened before it is known to be a file: opening a pipe would wait for its writer.
    let meta = std::fs::metadata(path).map_err(unreadable)?;
    if !meta.is_file() {
        return Err(SourceError::NotAFile {
            path: path.to_owned(),
        });
    }
    let file = File::open(path).map_err(unreadable)?;
    let now = Fingerprint::of(&file.metadata().map_err(unreadable)?);
    split.file.check(&now).map_err(|change| SourceError::Changed {
        path: split.path.clone(),
        change,
    })?;
    Ok(file)
}
