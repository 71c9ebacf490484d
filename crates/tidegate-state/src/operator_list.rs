//! A list per subtask.

use tidegate_types::CheckpointId;
use tidegate_types::codec::{Record, TypeFormat, decode_as, encode_as};
use tidegate_types::snapshot::SectionHead;

use crate::describe::{Formats, StateDescription, StateKind, TypeDescription, TypePart};
use crate::error::StateError;
use crate::keyed::{Cut, Outcome, StateMetrics, StateSetup};
use crate::operator::{OperatorState, Share};
use crate::operator_core::{OperatorCore, undeclared};
use crate::snapshot::StateSnapshot;

/// A list per subtask: Flink's operator `ListState`. Meant to be small: a cut encodes it on the task's thread.
pub struct OperatorListState<T: Record> {
    kind: StateKind,
    core: Option<OperatorCore>,
    format: Option<TypeFormat<T>>,
    entries: Vec<T>,
}

impl<T: Record> OperatorListState<T> {
    /// A list whose entries are dealt out over the subtasks on restore.
    pub fn split() -> Self {
        Self {
            kind: StateKind::ListSplit,
            core: None,
            format: None,
            entries: Vec::new(),
        }
    }

    /// A list of which every subtask gets all entries on restore.
    pub fn union() -> Self {
        Self {
            kind: StateKind::ListUnion,
            core: None,
            format: None,
            entries: Vec::new(),
        }
    }

    /// The entries.
    pub fn entries(&self) -> &[T] {
        &self.entries
    }

    /// Appends an entry.
    ///
    /// # Panics
    /// If the state was never declared.
    pub fn add(&mut self, entry: T) {
        self.entries_mut().push(entry);
    }

    /// Replaces all entries.
    ///
    /// # Panics
    /// If the state was never declared.
    pub fn set(&mut self, entries: Vec<T>) {
        *self.entries_mut() = entries;
    }

    /// Removes all entries.
    ///
    /// # Panics
    /// If the state was never declared.
    pub fn clear(&mut self) {
        self.entries_mut().clear();
    }

    fn entries_mut(&mut self) -> &mut Vec<T> {
        if self.core.is_none() {
            undeclared(self.kind);
        }
        &mut self.entries
    }
}

impl<T: Record> OperatorState for OperatorListState<T> {
    fn describe(&self, formats: &Formats) -> StateDescription {
        StateDescription {
            kind: self.kind,
            types: vec![TypeDescription::of::<T>(TypePart::Value, formats)],
            ttl: None,
        }
    }

    fn open(&mut self, name: &str, setup: &StateSetup) -> Result<(), StateError> {
        self.core = Some(OperatorCore::new(name, setup, self.describe(&setup.formats)));
        self.format = Some(setup.formats.of());
        self.entries.clear();
        Ok(())
    }

    fn cut(&mut self, cut: Cut) {
        let Some(core) = &mut self.core else {
            undeclared(self.kind)
        };
        let (entries, format) = (&self.entries, &self.format);
        core.cut(cut, |encoding, out| {
            if let (Some(first), Some(format)) = (entries.first(), format) {
                format.check_first(encoding, first)?;
            }
            for entry in entries {
                encode_as(encoding, entry, out)?;
            }
            Ok(entries.len() as u32)
        });
    }

    fn take_finished(&mut self) -> Option<StateSnapshot> {
        self.core.as_mut()?.take_finished()
    }

    fn decided(&mut self, id: CheckpointId, outcome: Outcome) {
        if let Some(core) = &mut self.core {
            core.decided(id, outcome);
        }
    }

    fn restore(&mut self, head: &SectionHead, bytes: &[u8], share: Share) -> Result<u64, StateError> {
        let Some(core) = &self.core else {
            undeclared(self.kind)
        };
        let before = self.entries.len();
        let takes_all = self.kind == StateKind::ListUnion;
        let entries = &mut self.entries;
        core.restore(head, bytes, |index, encoding, input| {
            let entry = decode_as(encoding, input)?;
            if takes_all || share.takes(index) {
                entries.push(entry);
            }
            Ok(())
        })?;
        Ok((self.entries.len() - before) as u64)
    }

    fn metrics(&self) -> StateMetrics {
        let (buffered_bytes, open_cuts) = self
            .core
            .as_ref()
            .map_or((0, 0), |core| (core.buffered_bytes(), core.open_cuts()));
        StateMetrics {
            entries: self.entries.len() as u64,
            table_bytes: (self.entries.capacity() * size_of::<T>()) as u64,
            buffered_bytes,
            open_cuts,
        }
    }
}
