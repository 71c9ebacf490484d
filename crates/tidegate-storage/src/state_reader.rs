//! Reading state back: sections by their places, checked, with few requests.
//!
//! Sections of one file that stand close together come in one request, so a file that is needed as a whole is
//! fetched once (in pieces of [`MAX_REQUEST_BYTES`]), and one of which little is needed isn't fetched as a whole. Every
//! section's checksum is compared; an error names file, offset, operator and state.
//!
//! Does not own: which sections a subtask needs, or what they mean.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidegate_types::snapshot::{Location, Section, SectionHead, SectionKind};

use crate::dir::StoreDir;
use crate::error::{Problem, StorageError};
use crate::layout::METADATA;
use crate::state_file::{HEADER_BYTES, check_header};

/// Sections with a gap of at most this between them are read together: on a remote store a request costs about as
/// much as a megabyte.
const MAX_GAP_BYTES: u64 = 1 << 20;
/// One request asks for at most this, unless a single section is larger. Bounds what is held for small sections.
pub const MAX_REQUEST_BYTES: u64 = 64 << 20;

const READ: &str = "read state";

/// Reads sections of one checkpoint or savepoint.
#[derive(Debug, Clone)]
pub struct StateReader {
    base: StoreDir,
    /// Where inline bytes stand, for messages.
    metadata: String,
}

/// Sections that one request brings: their indexes, and the range from the first to the last.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    start: u64,
    end: u64,
    sections: Vec<usize>,
}

impl StateReader {
    /// Reads files relative to `base`: the job's directory for a checkpoint, its own for a savepoint.
    pub fn new(base: StoreDir) -> Self {
        let metadata = base.describe(METADATA);
        Self { base, metadata }
    }

    /// The same of the checkpoint whose `_metadata` stands at `metadata`.
    pub(crate) fn of(base: StoreDir, metadata: String) -> Self {
        Self { base, metadata }
    }

    /// The bytes of one section.
    ///
    /// # Errors
    /// [`Problem::CorruptSection`], [`Problem::MissingSection`], and the store's.
    pub async fn read_section(&self, section: &Section) -> Result<Bytes, StorageError> {
        let mut bytes = self.read_sections(&[section]).await?;
        match bytes.pop() {
            Some(bytes) => Ok(bytes),
            None => Err(StorageError::bug(READ, self.base.url(), "a section got no bytes")),
        }
    }

    /// The bytes of many sections, in the order given. All of them are held at once: read what one subtask needs,
    /// or one state of it.
    ///
    /// # Errors
    /// As [`StateReader::read_section`]; the first failure ends it.
    pub async fn read_sections(&self, sections: &[&Section]) -> Result<Vec<Bytes>, StorageError> {
        let mut bytes = vec![Bytes::new(); sections.len()];
        let mut by_file: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, section) in sections.iter().enumerate() {
            match &section.location {
                Location::Inline(inline) => {
                    check_crc(section, inline)
                        .map_err(|problem| StorageError::new(READ, self.metadata.clone(), problem))?;
                    bytes[index] = inline.clone();
                }
                Location::File { path, .. } => by_file.entry(path).or_default().push(index),
            }
        }
        for (file, indexes) in by_file {
            for request in plan(sections, indexes) {
                self.fetch(file, sections, request, &mut bytes).await?;
            }
        }
        Ok(bytes)
    }

    async fn fetch(
        &self,
        file: &str,
        sections: &[&Section],
        request: Request,
        out: &mut [Bytes],
    ) -> Result<(), StorageError> {
        let first = sections[request.sections[0]];
        let (fetched, size) = match self.base.read_range(READ, file, request.start..request.end).await {
            Err(error) if error.is_not_there() => return Err(self.fail(file, missing(&first.head))),
            other => other?,
        };
        if request.start == 0 {
            let header = &fetched[..fetched.len().min(HEADER_BYTES as usize)];
            check_header(header).map_err(|problem| self.fail(file, problem))?;
        }
        for index in request.sections {
            let section = sections[index];
            let bytes =
                slice(section, &fetched, request.start, size).map_err(|problem| self.fail(file, problem))?;
            check_crc(section, &bytes).map_err(|problem| self.fail(file, problem))?;
            out[index] = bytes;
        }
        Ok(())
    }

    fn fail(&self, file: &str, problem: Problem) -> StorageError {
        StorageError::new(READ, self.base.describe(file), problem)
    }
}

/// Groups the sections of one file into requests.
fn plan(sections: &[&Section], mut indexes: Vec<usize>) -> Vec<Request> {
    let range = |index: usize| match &sections[index].location {
        // A length that leads beyond any file is found out when the bytes are cut.
        Location::File { offset, len, .. } => (*offset, offset.saturating_add(*len)),
        Location::Inline(_) => (0, 0),
    };
    indexes.sort_by_key(|index| range(*index));
    let mut requests: Vec<Request> = Vec::new();
    for index in indexes {
        let (start, end) = range(index);
        match requests.last_mut() {
            Some(last) if start <= last.end.saturating_add(MAX_GAP_BYTES) && fits(last.start, end) => {
                last.end = last.end.max(end);
                last.sections.push(index);
            }
            _ => {
                // What is near the beginning takes the header along, so it is checked too.
                let start = if start <= MAX_GAP_BYTES { 0 } else { start };
                requests.push(Request {
                    start,
                    end,
                    sections: vec![index],
                });
            }
        }
    }
    requests
}

fn fits(start: u64, end: u64) -> bool {
    end - start <= MAX_REQUEST_BYTES
}

/// Cuts a section out of what was fetched from byte `start` of a file of `size` bytes.
fn slice(section: &Section, fetched: &Bytes, start: u64, size: u64) -> Result<Bytes, Problem> {
    let Location::File { offset, len, .. } = &section.location else {
        return Ok(Bytes::new());
    };
    let from = offset
        .checked_sub(start)
        .and_then(|from| usize::try_from(from).ok());
    let to = from.and_then(|from| from.checked_add(usize::try_from(*len).ok()?));
    match (from, to) {
        (Some(from), Some(to)) if to <= fetched.len() => Ok(fetched.slice(from..to)),
        _ => Err(corrupt(
            section,
            format!("{len} bytes should stand there, the file ends at {size}"),
        )),
    }
}

fn check_crc(section: &Section, bytes: &[u8]) -> Result<(), Problem> {
    match crc32c::crc32c(bytes) {
        crc if crc == section.crc => Ok(()),
        crc => Err(corrupt(
            section,
            format!("checksum {crc:08x}, it was written with {:08x}", section.crc),
        )),
    }
}

fn corrupt(section: &Section, detail: String) -> Problem {
    let offset = match &section.location {
        Location::File { offset, .. } => *offset,
        Location::Inline(_) => 0,
    };
    Problem::CorruptSection {
        uid: section.head.uid.clone(),
        state: state_text(&section.head),
        offset,
        detail,
    }
}

fn missing(head: &SectionHead) -> Problem {
    Problem::MissingSection {
        uid: head.uid.clone(),
        state: state_text(head),
    }
}

/// A piece of state in words: its kind, and its name if it has one.
pub fn state_text(head: &SectionHead) -> String {
    let kind = match &head.kind {
        SectionKind::Keyed => "keyed state",
        SectionKind::Timers => "timers",
        SectionKind::ListSplit => "list state",
        SectionKind::ListUnion => "union list state",
        SectionKind::Broadcast => "broadcast state",
        SectionKind::Raw => "raw state",
        SectionKind::Named => "snapshot source",
        SectionKind::Watermarks => "watermarks",
        SectionKind::Generator => "watermark generator",
        SectionKind::Splits => "splits",
        SectionKind::Enumerator => "enumerator state",
        SectionKind::Committables => "committables",
        SectionKind::InFlight(address) => {
            let (input, from, to) = (address.input, address.producer, address.consumer);
            return format!("in-flight records of input {input}, channel {from} to {to}");
        }
    };
    if head.name.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind} \"{}\"", head.name)
    }
}

#[cfg(test)]
mod tests;
