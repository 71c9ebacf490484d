//! What an operator puts out in one call.

use std::any::Any;

use tidegate_types::{Activity, Batch, EventTime};

use super::outlet::SideLink;

/// Collects an operator's output. It has room for a number of records that the successor can take; what one
/// record pushes is always accepted.
pub struct OutBatch<T> {
    values: Vec<T>,
    times: Option<Vec<EventTime>>,
    limit: usize,
    skipped: u64,
    watermark: Option<EventTime>,
    status: Option<Activity>,
    pub(super) sides: Vec<Option<Box<dyn SideLink>>>,
}

impl<T> Default for OutBatch<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            times: None,
            limit: 0,
            skipped: 0,
            watermark: None,
            status: None,
            sides: Vec::new(),
        }
    }
}

impl<T> OutBatch<T> {
    /// An output that wants so many records: for driving a reader or an operator by hand, in a connector's tests.
    pub fn with_room(records: usize) -> Self {
        Self {
            limit: records,
            ..Self::default()
        }
    }

    /// The records put out, with their times; watermarks and side outputs are dropped.
    pub fn into_batch(mut self) -> Batch<T> {
        self.take_batch().unwrap_or_default()
    }

    /// Puts out one record with the event time of the record it was made from, if that has one.
    #[inline]
    pub fn push(&mut self, value: T, time: Option<EventTime>) {
        if time.is_some() != self.times.is_some() {
            self.switch_times(time.is_some());
        }
        if let (Some(times), Some(time)) = (&mut self.times, time) {
            times.push(time);
        }
        self.values.push(value);
    }

    /// Puts out records without event times.
    #[inline]
    pub fn extend_untimed(&mut self, values: impl Iterator<Item = T>) {
        if self.times.is_none() {
            self.values.extend(values);
        } else {
            values.for_each(|value| self.push(value, None));
        }
    }

    /// Puts out those of some records without event times that `keep` says yes to.
    #[inline]
    pub fn extend_untimed_if(&mut self, values: impl Iterator<Item = T>, mut keep: impl FnMut(&T) -> bool) {
        if self.times.is_none() {
            // All at once and some out again is half the work of one by one.
            let from = self.values.len();
            self.values.extend(values);
            self.values
                .extract_if(from.., |value| !keep(value))
                .for_each(drop);
        } else {
            values.filter(keep).for_each(|value| self.push(value, None));
        }
    }

    /// Puts a record out at the side output with this index; dropped if nobody consumes that.
    ///
    /// # Panics
    /// If it is consumed as records of another type.
    pub fn push_side<S: 'static>(&mut self, index: usize, value: S, time: Option<EventTime>) {
        if let Some(Some(side)) = self.sides.get_mut(index) {
            let buffer: &mut dyn Any = side.buffer();
            match buffer.downcast_mut::<OutBatch<S>>() {
                Some(buffer) => buffer.push(value, time),
                None => panic!(
                    "side output {index} is consumed as records of another type than `{}`, which is put out there: \
                     give both the same `SideTag`",
                    std::any::type_name::<S>()
                ),
            }
        }
    }

    /// A reader passed over so many records that it couldn't read: they are counted among the task's skipped ones.
    pub fn note_skipped(&mut self, records: u64) {
        self.skipped += records;
    }

    /// How many more records are welcome.
    #[inline]
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.values.len())
    }

    /// Whether the operator should stop and let its successor work.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.values.len() >= self.limit
    }

    /// Records put out so far.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether nothing was put out, neither records nor events.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.watermark.is_none() && self.status.is_none()
    }

    /// Puts out a watermark behind the records. Only operators that make watermarks do.
    pub fn emit_watermark(&mut self, watermark: EventTime) {
        self.watermark = Some(self.watermark.map_or(watermark, |w| w.max(watermark)));
    }

    /// Puts out a status behind the records and the watermark.
    pub fn emit_status(&mut self, status: Activity) {
        self.status = Some(status);
    }

    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    pub(crate) fn take_skipped(&mut self) -> u64 {
        std::mem::take(&mut self.skipped)
    }

    pub(crate) fn take_batch(&mut self) -> Option<Batch<T>> {
        if self.values.is_empty() {
            return None;
        }
        let capacity = self.values.len();
        let values = std::mem::replace(&mut self.values, Vec::with_capacity(capacity));
        Some(Batch {
            values,
            times: self.times.take(),
            hashes: None,
        })
    }

    pub(crate) fn take_events(&mut self) -> (Option<EventTime>, Option<Activity>) {
        (self.watermark.take(), self.status.take())
    }

    /// A stream mostly has times or has none. Where an operator mixes (a timer's output before the first
    /// record), records without one get the lowest time.
    #[cold]
    fn switch_times(&mut self, timed: bool) {
        if timed {
            let mut times = Vec::with_capacity(self.values.capacity().max(16));
            times.resize(self.values.len(), EventTime::MIN);
            self.times = Some(times);
        } else if self.values.is_empty() {
            self.times = None;
        } else if let Some(times) = &mut self.times {
            times.push(EventTime::MIN);
        }
    }
}
