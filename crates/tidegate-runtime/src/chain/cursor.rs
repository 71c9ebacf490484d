//! A batch being consumed from its front.

use std::sync::Arc;
use std::vec::IntoIter;

use tidegate_types::{Batch, EventTime};

/// The unread part of a batch. An operator takes records one by one and may stop after any of them; what it
/// leaves is in-flight data of its input.
#[derive(Debug)]
pub struct Cursor<T> {
    values: IntoIter<T>,
    times: Option<IntoIter<EventTime>>,
    hashes: Option<IntoIter<u64>>,
}

impl<T> Cursor<T> {
    /// All of `batch`.
    pub fn new(batch: Batch<T>) -> Self {
        debug_assert!(batch.times.as_ref().is_none_or(|t| t.len() == batch.values.len()));
        debug_assert!(
            batch
                .hashes
                .as_ref()
                .is_none_or(|h| h.len() == batch.values.len())
        );
        Self {
            values: batch.values.into_iter(),
            times: batch.times.map(Vec::into_iter),
            hashes: batch.hashes.map(Vec::into_iter),
        }
    }

    /// All of a shared batch: taken whole if nobody else holds it, else copied.
    pub fn from_shared(batch: Arc<Batch<T>>) -> Self
    where
        T: Clone,
    {
        Self::new(Arc::unwrap_or_clone(batch))
    }

    /// Records not yet taken.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether all were taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.values.len() == 0
    }

    /// The next record with its event time, if the stream has one.
    #[inline]
    // Not an iterator: adapters would take the whole cursor, and a prefix is all that may be taken.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<(T, Option<EventTime>)> {
        let value = self.values.next()?;
        let time = self.times.as_mut().and_then(Iterator::next);
        if let Some(hashes) = &mut self.hashes {
            hashes.next();
        }
        Some((value, time))
    }

    /// Hands records to `f` until it has had `most`, or says that it wants no more, or fails. How many it had.
    #[inline]
    pub(crate) fn take_while<E>(
        &mut self,
        most: usize,
        mut f: impl FnMut(T, Option<EventTime>) -> Result<bool, E>,
    ) -> (usize, Result<(), E>) {
        let mut values = std::mem::take(&mut self.values);
        let before = values.len();
        let mut result = Ok(());
        for _ in 0..most {
            let Some(value) = values.next() else { break };
            let time = match &mut self.times {
                None => None,
                Some(times) => times.next(),
            };
            match f(value, time) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) => {
                    result = Err(e);
                    break;
                }
            }
        }
        let left = values.len();
        self.values = values;
        behind(&mut self.hashes, left);
        (before - left, result)
    }

    /// Whether its records have event times.
    #[inline]
    pub fn has_times(&self) -> bool {
        self.times.is_some()
    }

    /// The next `records` records; what isn't taken of the iterator stays in the cursor.
    #[inline]
    pub fn take(&mut self, records: usize) -> impl Iterator<Item = (T, Option<EventTime>)> + '_ {
        (0..records).map_while(|_| self.next())
    }

    /// Hands the next `records` records to `f` without their times. They are gone from the cursor.
    #[inline]
    pub fn untimed<R>(
        &mut self,
        records: usize,
        f: impl FnOnce(std::iter::Take<&mut IntoIter<T>>) -> R,
    ) -> R {
        // In a local the iterator's ends stay in registers, and the compiler knows that no output overlaps them.
        let mut values = std::mem::take(&mut self.values);
        let done = f(values.by_ref().take(records));
        self.values = values;
        behind(&mut self.times, self.values.len());
        behind(&mut self.hashes, self.values.len());
        done
    }

    /// The records not yet taken.
    pub fn values(&self) -> &[T] {
        self.values.as_slice()
    }

    /// The key hashes of the records not yet taken, on keyed edges.
    #[inline]
    pub fn hashes(&self) -> Option<&[u64]> {
        self.hashes.as_ref().map(IntoIter::as_slice)
    }

    /// What is left, as a batch.
    pub fn into_batch(self) -> Batch<T> {
        Batch {
            values: self.values.collect(),
            times: self.times.map(Iterator::collect),
            hashes: self.hashes.map(Iterator::collect),
        }
    }
}

/// Brings a column to where the values are.
#[inline]
fn behind<C>(column: &mut Option<IntoIter<C>>, left: usize) {
    if let Some(column) = column
        && let Some(last) = (column.len() - left).checked_sub(1)
    {
        column.nth(last);
    }
}
