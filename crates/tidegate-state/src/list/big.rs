//! A list that has outgrown its slot: segments, of which only the last is ever written.

use tidegate_types::codec::{Record, encode_as};
use tidegate_types::snapshot::Encoding;

use crate::apart::{Big, PartSink};

/// A segment holds about this much, encoded or in memory, whichever is more.
const SEGMENT_BYTES: usize = 16 * 1024;
const MAX_SEGMENT_LEN: usize = 4096;
/// Elements that are encoded to learn how large they are.
const SAMPLES: usize = 16;

/// Consecutive elements of a list.
pub(super) struct Segment<T> {
    /// Its place among the segments; above 0.
    ordinal: u32,
    /// The epoch in which it was last preserved (or made).
    epoch: u32,
    pub(super) items: Vec<T>,
}

/// A list in segments of its own.
pub(crate) struct BigList<T> {
    pub(super) segments: Vec<Segment<T>>,
    pub(super) len: usize,
    /// Elements of a segment.
    segment_len: usize,
    /// The lap that is under way.
    lap: Option<u32>,
    /// The next segment of the lap.
    next: usize,
}

impl<T: Record> BigList<T> {
    /// An empty list for elements like these.
    pub(super) fn for_elements_like(items: &[T]) -> Self {
        let step = (items.len() / SAMPLES).max(1);
        let mut encoded = Vec::new();
        let samples = items.iter().step_by(step).take(SAMPLES);
        // One that can't be encoded will be heard of when it has to be.
        let count = samples
            .filter(|item| encode_as(Encoding::Native, *item, &mut encoded).is_ok())
            .count();
        let bytes = (encoded.len() / count.max(1)).max(size_of::<T>()).max(1);
        let segment_len = (SEGMENT_BYTES / bytes).clamp(1, MAX_SEGMENT_LEN);
        Self {
            segments: Vec::new(),
            len: 0,
            segment_len,
            lap: None,
            next: 0,
        }
    }

    /// Appends an element made in `epoch` to a list of which nothing is owed.
    pub(super) fn push_preserved(&mut self, item: T, epoch: u32) {
        if self
            .segments
            .last()
            .is_none_or(|last| last.items.len() >= self.segment_len)
        {
            let ordinal = self.segments.last().map_or(1, |last| last.ordinal + 1);
            self.segments.push(Segment {
                ordinal,
                epoch,
                items: Vec::new(),
            });
        }
        if let Some(last) = self.segments.last_mut() {
            last.items.push(item);
            self.len += 1;
        }
    }

    /// Appends an element.
    pub(super) fn push(&mut self, item: T, sink: &mut PartSink<'_>) {
        if let Some(last) = self
            .segments
            .last_mut()
            .filter(|last| last.items.len() < self.segment_len)
        {
            preserve(last, sink);
        }
        self.push_preserved(item, sink.epoch());
    }

    /// Puts a stored segment in its place. `false` if there is one.
    pub(super) fn restore(&mut self, ordinal: u32, items: Vec<T>, epoch: u32) -> bool {
        let Err(at) = self
            .segments
            .binary_search_by_key(&ordinal, |segment| segment.ordinal)
        else {
            return false;
        };
        self.len += items.len();
        self.segments.insert(
            at,
            Segment {
                ordinal,
                epoch,
                items,
            },
        );
        true
    }

    /// All elements.
    pub(super) fn into_items(self) -> Vec<T> {
        let mut items = Vec::with_capacity(self.len);
        items.extend(self.segments.into_iter().flat_map(|segment| segment.items));
        items
    }
}

fn preserve<T: Record>(segment: &mut Segment<T>, sink: &mut PartSink<'_>) {
    if segment.epoch == sink.epoch() {
        return;
    }
    let items = &segment.items;
    sink.part(segment.epoch, segment.ordinal, |encoding, out| {
        for item in items {
            encode_as(encoding, item, out)?;
        }
        Ok(items.len() as u32)
    });
    segment.epoch = sink.epoch();
}

impl<T: Record> Big for BigList<T> {
    fn sweep_one(&mut self, lap: u32, sink: &mut PartSink<'_>) -> bool {
        if self.lap != Some(lap) {
            (self.lap, self.next) = (Some(lap), 0);
        }
        let Some(segment) = self.segments.get_mut(self.next) else {
            return false;
        };
        preserve(segment, sink);
        self.next += 1;
        self.next < self.segments.len()
    }

    fn rewind(&mut self) {
        self.lap = None;
    }

    fn memory_bytes(&self) -> u64 {
        let items: usize = self
            .segments
            .iter()
            .map(|s| s.items.capacity() * size_of::<T>())
            .sum();
        (items + self.segments.capacity() * size_of::<Segment<T>>()) as u64
    }
}
