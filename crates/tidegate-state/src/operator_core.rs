//! What the states of an operator's subtask share: they are encoded whole, in the cut.

use std::collections::VecDeque;

use tidegate_types::CheckpointId;
use tidegate_types::codec::CodecError;
use tidegate_types::key_group::HashRange;
use tidegate_types::shape::Shape;
use tidegate_types::snapshot::{Encoding, SectionHead};

use crate::cell::invalid;
use crate::cuts::{Buffer, CHUNK_CANONICAL};
use crate::describe::{StateDescription, StateKind};
use crate::error::{StateError, StatePlace};
use crate::keyed::{Cut, Outcome, StateSetup};
use crate::section::{Sections, Traits};
use crate::shapes::check_shapes;
use crate::snapshot::StateSnapshot;

/// An opened operator state, without its content.
pub(crate) struct OperatorCore {
    place: StatePlace,
    kind: StateKind,
    native: bool,
    shapes: Vec<Shape>,
    /// Oldest first.
    snapshots: VecDeque<StateSnapshot>,
}

impl OperatorCore {
    pub(crate) fn new(name: &str, setup: &StateSetup, description: StateDescription) -> Self {
        Self {
            place: StatePlace {
                uid: setup.uid.clone(),
                name: name.to_owned(),
            },
            kind: description.kind,
            native: description
                .types
                .iter()
                .all(|t| t.encoding == Encoding::Native && t.shape.is_some()),
            shapes: description.types.into_iter().filter_map(|t| t.shape).collect(),
            snapshots: VecDeque::new(),
        }
    }

    /// Encodes the content for a cut. `write` checks the first entry and returns the number of entries; it may be
    /// called again, canonically.
    pub(crate) fn cut(
        &mut self,
        cut: Cut,
        write: impl Fn(Encoding, &mut Vec<u8>) -> Result<u32, CodecError>,
    ) {
        let encoding = if self.native {
            cut.encoding
        } else {
            Encoding::Canonical
        };
        let nowhere = HashRange { first: 0, last: 0 };
        let mut buffer = Buffer::default();
        let mut result = match encoding {
            Encoding::Native => buffer.chunk(nowhere, 0, 0, |out| write(Encoding::Native, out)),
            Encoding::Canonical | Encoding::Raw => Err(crate::cell::not_native()),
        };
        if matches!(&result, Err(error) if error.is_not_native()) {
            result = buffer.chunk(nowhere, 0, CHUNK_CANONICAL, |out| write(Encoding::Canonical, out));
        }
        let place = self.place.clone();
        self.snapshots.push_back(StateSnapshot {
            id: cut.id,
            place: place.clone(),
            section: self.kind.section(),
            traits: Traits {
                kind: self.kind,
                stamped: false,
            },
            hashes: None,
            encoding,
            shapes: self.shapes.clone(),
            content: result
                .map(|()| buffer)
                .map_err(|source| StateError::Encode { place, source }),
        });
    }

    pub(crate) fn take_finished(&mut self) -> Option<StateSnapshot> {
        self.snapshots.pop_front()
    }

    pub(crate) fn decided(&mut self, id: CheckpointId, outcome: Outcome) {
        match outcome {
            Outcome::Completed => self.snapshots.retain(|snapshot| snapshot.id > id),
            Outcome::Aborted => self.snapshots.retain(|snapshot| snapshot.id != id),
        }
    }

    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.snapshots.iter().map(StateSnapshot::size_bytes).sum()
    }

    pub(crate) fn open_cuts(&self) -> u32 {
        self.snapshots.len() as u32
    }

    /// Reads a stored section: `read` is called for every entry in order.
    pub(crate) fn restore(
        &self,
        head: &SectionHead,
        bytes: &[u8],
        mut read: impl FnMut(u64, Encoding, &mut &[u8]) -> Result<(), CodecError>,
    ) -> Result<(), StateError> {
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
        let undecodable = |source| StateError::Decode {
            place: self.place.clone(),
            source,
        };
        let mut index = 0;
        for chunk in sections.chunks() {
            if chunk.encoding == Encoding::Native && head.encoding != Encoding::Native {
                let reason = "a native chunk in a section without shapes".into();
                return Err(StateError::Corrupt {
                    place: self.place.clone(),
                    offset: chunk.offset,
                    reason,
                });
            }
            let mut input = chunk.bytes;
            for _ in 0..chunk.entries {
                let at = chunk.offset + (chunk.bytes.len() - input.len()) as u64;
                read(index, chunk.encoding, &mut input).map_err(|source| undecodable(source.at(at)))?;
                index += 1;
            }
            if !input.is_empty() {
                return Err(undecodable(
                    invalid("bytes are left after a chunk's entries").at(chunk.offset),
                ));
            }
        }
        Ok(())
    }
}

#[cold]
#[inline(never)]
pub(crate) fn undeclared(kind: StateKind) -> ! {
    panic!("{kind} was used but never declared: name it in the operator's state function")
}
