//! Restoring a keyed state from stored sections.
//!
//! A section is read chunk by chunk; chunks whose hashes lie outside the subtask's range are skipped by the
//! index alone, and of those that straddle its edge each entry is looked at.

use tidegate_types::codec::{CodecError, Key, decode_as};
use tidegate_types::hash::key_hash;
use tidegate_types::snapshot::{Encoding, SectionHead};

use super::Core;
use crate::cell::{Cell, StoredPart, invalid, truncated};
use crate::context::KeyContext;
use crate::error::StateError;
use crate::section::{Chunk, Sections, take_i64, take_u32};
use crate::shapes::check_shapes;

impl<K: Key, C: Cell> Core<K, C> {
    pub(crate) fn restore(&mut self, head: &SectionHead, bytes: &[u8]) -> Result<u64, StateError> {
        let sections = Sections::parse(bytes, &self.place)?;
        if sections.traits.kind != self.kind {
            let (declared, stored) = (self.kind, sections.traits.kind);
            return Err(StateError::KindChanged {
                place: self.place.clone(),
                declared,
                stored,
            });
        }
        check_shapes(&self.place, self.kind, head, &self.shapes, self.native)?;
        let Some(range) = self.table.range() else {
            return Ok(0);
        };
        if let Some(covered) = head.hashes {
            // Not from the head: every entry counted in the index has been backed by its chunk's bytes.
            let entries = sections
                .chunks()
                .filter(|c| !c.is_part)
                .map(|c| u64::from(c.entries).min(c.bytes.len() as u64));
            self.table.reserve(covered, entries.sum());
        }
        let mut restored = 0;
        for chunk in sections.chunks() {
            if range.intersection(chunk.hashes).is_none() {
                continue;
            }
            if chunk.encoding == Encoding::Native && head.encoding != Encoding::Native {
                return Err(self.damaged(chunk.offset, "a native chunk in a section without shapes"));
            }
            restored += match chunk.is_part {
                true => self.restore_part(&chunk)?,
                false => self.restore_entries(&chunk, sections.traits.stamped)?,
            };
        }
        Ok(restored)
    }

    fn restore_entries(&mut self, chunk: &Chunk<'_>, stamped: bool) -> Result<u64, StateError> {
        let (mut input, mut restored) = (chunk.bytes, 0);
        for _ in 0..chunk.entries {
            let key: K = self.decode(chunk, &mut input, |input| decode_as(chunk.encoding, input))?;
            let stamp_ms = match stamped {
                true => self.decode(chunk, &mut input, |input| {
                    take_i64(input).ok_or_else(|| truncated(8, input))
                })?,
                false => self.opened_ms,
            };
            let cell = self.decode(chunk, &mut input, |input| C::decode(chunk.encoding, input))?;
            let hash = self.hash_in(chunk, &key)?;
            if self.table.range().is_some_and(|range| range.contains(hash)) {
                let at = KeyContext::new(&key, hash, stamp_ms);
                self.restore_entry(chunk, at, cell)?;
                restored += 1;
            }
        }
        self.at_end(chunk, input)?;
        Ok(restored)
    }

    fn restore_entry(
        &mut self,
        chunk: &Chunk<'_>,
        at: KeyContext<'_, K>,
        cell: Option<C>,
    ) -> Result<(), StateError> {
        let home = self.table.home(at.hash);
        let known = self.table.find(home, at.hash, at.key);
        match (known, cell) {
            (None, Some(cell)) => {
                self.insert(at, cell);
            }
            // The content stands in parts, of which some may have come before.
            (Some(slot), None) => self.stamp(slot, at.now_ms),
            (None, None) => {
                let none = StoredPart {
                    ordinal: 0,
                    entries: 0,
                    encoding: chunk.encoding,
                    input: &mut &[][..],
                };
                C::restore_part(self, at, none).map_err(|source| self.undecodable(source))?;
            }
            (Some(_), Some(_)) => return Err(self.damaged(chunk.offset, "a key occurs twice")),
        }
        Ok(())
    }

    fn restore_part(&mut self, chunk: &Chunk<'_>) -> Result<u64, StateError> {
        let mut input = chunk.bytes;
        let key: K = self.decode(chunk, &mut input, |input| decode_as(chunk.encoding, input))?;
        let hash = self.hash_in(chunk, &key)?;
        if !self.table.range().is_some_and(|range| range.contains(hash)) {
            return Ok(0);
        }
        let home = self.table.home(hash);
        let stamp_ms = match self.table.find(home, hash, &key) {
            Some(slot) => self.table.stamp_ms(slot),
            None => self.opened_ms,
        };
        let ordinal = self.decode(chunk, &mut input, |input| {
            take_u32(input).ok_or_else(|| truncated(4, input))
        })?;
        let at = KeyContext::new(&key, hash, stamp_ms);
        let part = StoredPart {
            ordinal,
            entries: chunk.entries,
            encoding: chunk.encoding,
            input: &mut input,
        };
        C::restore_part(self, at, part).map_err(|source| self.undecodable(source))?;
        self.at_end(chunk, input)?;
        Ok(0)
    }

    /// The key's hash, which must be one of the chunk's.
    fn hash_in(&self, chunk: &Chunk<'_>, key: &K) -> Result<u64, StateError> {
        let hash = key_hash(key).map_err(|error| StateError::KeyHash {
            place: self.place.clone(),
            reason: error.to_string(),
        })?;
        match chunk.hashes.contains(hash) {
            true => Ok(hash),
            false => Err(StateError::KeyHashChanged {
                place: self.place.clone(),
                hash,
            }),
        }
    }

    fn decode<T>(
        &self,
        chunk: &Chunk<'_>,
        input: &mut &[u8],
        decode: impl FnOnce(&mut &[u8]) -> Result<T, CodecError>,
    ) -> Result<T, StateError> {
        let at = chunk.offset + (chunk.bytes.len() - input.len()) as u64;
        decode(input).map_err(|source| self.undecodable(source.at(at)))
    }

    fn undecodable(&self, source: CodecError) -> StateError {
        StateError::Decode {
            place: self.place.clone(),
            source,
        }
    }

    fn at_end(&self, chunk: &Chunk<'_>, rest: &[u8]) -> Result<(), StateError> {
        match rest {
            [] => Ok(()),
            _ => Err(self.undecodable(invalid("bytes are left after a chunk's entries").at(chunk.offset))),
        }
    }

    fn damaged(&self, offset: u64, reason: &str) -> StateError {
        StateError::Corrupt {
            place: self.place.clone(),
            offset,
            reason: reason.into(),
        }
    }
}
