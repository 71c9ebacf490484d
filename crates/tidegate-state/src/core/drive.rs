//! The runtime's side of a keyed state: cutting, sweeping, handing over, metrics.

use tidegate_types::CheckpointId;
use tidegate_types::codec::Key;
use tidegate_types::snapshot::Encoding;

use super::{Core, Lap};
use crate::cell::{Cell, Store, StoreContext};
use crate::keyed::{Cut, Outcome, Progress, StateMetrics};
use crate::section::Traits;
use crate::snapshot::StateSnapshot;

/// Blocks that owe nothing, passed between two looks at the budget.
const LOOK_EVERY: u32 = 64;

impl<K: Key, C: Cell> Core<K, C> {
    pub(crate) fn prefetch(&self, hashes: &[u64]) {
        self.table.prefetch(hashes);
    }

    pub(crate) fn cut(&mut self, cut: Cut) {
        let encoding = if self.native {
            cut.encoding
        } else {
            Encoding::Canonical
        };
        self.cuts.begin(Cut { encoding, ..cut });
    }

    pub(crate) fn sweep(&mut self, more: &mut dyn FnMut() -> bool) -> Progress {
        loop {
            let Some(newest) = self.cuts.newest_open() else {
                self.lap = None;
                self.store.idle();
                return Progress::Done;
            };
            let now_ms = newest.now_ms;
            let mut lap = self.lap.unwrap_or_else(|| {
                self.store.restart();
                Lap {
                    target: self.cuts.epoch(),
                    at: Some(0),
                    now_ms,
                }
            });
            let blocks = self.sweep_blocks(&mut lap, more);
            self.lap = Some(lap);
            if blocks == Progress::More {
                return Progress::More;
            }
            let context = StoreContext {
                cuts: &mut self.cuts,
                place: &self.place,
                ttl: self.ttl,
            };
            if self.store.sweep(context, more) == Progress::More {
                return Progress::More;
            }
            self.cuts.finish(lap.target);
            self.lap = None;
        }
    }

    fn sweep_blocks(&mut self, lap: &mut Lap, more: &mut dyn FnMut() -> bool) -> Progress {
        let mut passed = 0u32;
        while let Some(position) = lap.at {
            let (home, next) = self.table.step(position);
            let mut look = home.epoch != self.cuts.epoch();
            if look {
                self.preserve(position);
            }
            if self.ttl.is_some() {
                self.purge(home, lap.now_ms);
                look = true;
            }
            lap.at = next;
            passed += 1;
            if (look || passed.is_multiple_of(LOOK_EVERY)) && !more() {
                return Progress::More;
            }
        }
        Progress::Done
    }

    pub(crate) fn take_finished(&mut self) -> Option<StateSnapshot> {
        let open = self.cuts.take_finished()?;
        Some(StateSnapshot {
            id: open.cut.id,
            place: self.place.clone(),
            section: self.kind.section(),
            traits: Traits {
                kind: self.kind,
                stamped: self.table.is_stamped(),
            },
            hashes: self.table.range(),
            encoding: open.cut.encoding,
            shapes: self.shapes.clone(),
            content: match open.error {
                Some(error) => Err(error),
                None => Ok(open.buffer),
            },
        })
    }

    pub(crate) fn decided(&mut self, id: CheckpointId, outcome: Outcome) {
        self.cuts.decided(id, outcome);
        if !self.cuts.is_open() {
            self.lap = None;
            self.store.idle();
        }
    }

    pub(crate) fn metrics(&self) -> StateMetrics {
        StateMetrics {
            entries: self.table.len(),
            table_bytes: self.table.memory_bytes() + self.store.memory_bytes(),
            buffered_bytes: self.cuts.buffered_bytes(),
            open_cuts: self.cuts.open_count(),
        }
    }
}

/// Implements [`crate::KeyedTable`] for a handle by its field `state`, a [`super::Declared`].
macro_rules! impl_keyed_table {
    ([$($generics:tt)*] $handle:ty) => {
        impl<$($generics)*> $crate::keyed::KeyedTable<K> for $handle {
            fn describe(&self, formats: &$crate::describe::Formats) -> $crate::describe::StateDescription {
                self.state.describe(formats)
            }

            fn open(&mut self, name: &str, setup: &$crate::keyed::StateSetup) -> Result<(), $crate::error::StateError> {
                self.state.open(name, setup);
                Ok(())
            }

            fn prefetch(&self, hashes: &[u64]) {
                self.state.core_ref().prefetch(hashes);
            }

            fn cut(&mut self, cut: $crate::keyed::Cut) {
                self.state.core().cut(cut);
            }

            fn sweep(&mut self, more: &mut dyn FnMut() -> bool) -> $crate::keyed::Progress {
                self.state.core().sweep(more)
            }

            fn take_finished(&mut self) -> Option<$crate::snapshot::StateSnapshot> {
                self.state.core().take_finished()
            }

            fn decided(&mut self, id: tidegate_types::CheckpointId, outcome: $crate::keyed::Outcome) {
                self.state.core().decided(id, outcome);
            }

            fn restore(
                &mut self,
                head: &tidegate_types::snapshot::SectionHead,
                bytes: &[u8],
            ) -> Result<u64, $crate::error::StateError> {
                self.state.core().restore(head, bytes)
            }

            fn metrics(&self) -> $crate::keyed::StateMetrics {
                self.state.core_ref().metrics()
            }
        }
    };
}
pub(crate) use impl_keyed_table;
