//! A source that computes its records from their numbers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tidegate_types::codec::Record;
use tidegate_types::{CheckpointId, Nanos};

use crate::chain::{OutBatch, Strider};
use crate::error::BoxError;

use super::collection::{RangeEnumeration, RangeEnumerator, RangeSplit};
use super::{Poll, PollContext, ReaderContext, Source, SplitEnumerator, SplitReader};

/// Numbers that one reader gets at once, at most.
const SPLIT_RECORDS: u64 = 1 << 20;

/// How far a rate-limited reader may fall behind before it gives up catching up.
const MAX_BURST: Duration = Duration::from_millis(100);

/// Puts out the records from one number up to another.
type MakeRun<T> = Arc<dyn Fn(u64, &mut OutBatch<T>, u64) + Send + Sync>;

/// Emits `make(0)`, `make(1)`, … spread over its readers, with an end or without, at full speed or a rate.
pub struct GeneratorSource<T> {
    make: MakeRun<T>,
    count: Option<u64>,
    per_second: Option<f64>,
}

impl<T: Record> GeneratorSource<T> {
    /// Records made by `make` from their number; without an end.
    pub fn new(make: impl Fn(u64) -> T + Send + Sync + 'static) -> Self {
        // A run at a time, so that the closure is inlined into a loop.
        let make = move |from: u64, out: &mut OutBatch<T>, to: u64| out.extend_untimed((from..to).map(&make));
        Self {
            make: Arc::new(make),
            count: None,
            per_second: None,
        }
    }

    /// Ends after so many records.
    #[must_use]
    pub fn count(self, records: u64) -> Self {
        Self {
            count: Some(records),
            ..self
        }
    }

    /// Emits so many records per second over all readers. Not finite or not above zero means full speed.
    #[must_use]
    pub fn rate(self, per_second: f64) -> Self {
        Self {
            per_second: (per_second.is_finite() && per_second > 0.0).then_some(per_second),
            ..self
        }
    }
}

impl<T: Record> Source for GeneratorSource<T> {
    type Out = T;
    type Split = RangeSplit;
    type Enumeration = RangeEnumeration;

    fn enumerator(
        &self,
        restored: Option<RangeEnumeration>,
    ) -> Result<Box<dyn SplitEnumerator<RangeSplit, RangeEnumeration>>, BoxError> {
        let split = self
            .count
            .map_or(SPLIT_RECORDS, |n| n.div_ceil(128).clamp(1, SPLIT_RECORDS));
        Ok(Box::new(RangeEnumerator::new(restored, self.count, split)))
    }

    fn reader(&self, cx: ReaderContext) -> Result<Box<dyn SplitReader<T, RangeSplit>>, BoxError> {
        let pace = self
            .per_second
            .map(|rate| Pace::new(rate / f64::from(cx.parallelism.0.max(1))));
        Ok(Box::new(GeneratorReader {
            make: self.make.clone(),
            splits: VecDeque::new(),
            strider: Strider::default(),
            pace,
        }))
    }
}

/// Allows records at an even rate.
#[derive(Debug)]
struct Pace {
    per_record: Duration,
    next: Option<Nanos>,
}

impl Pace {
    fn new(per_second: f64) -> Self {
        Self {
            per_record: Duration::from_secs_f64(1.0 / per_second.max(1e-6)),
            next: None,
        }
    }

    /// How many records may be emitted now, or when the next may.
    fn allowed(&mut self, now: Nanos, wanted: u64) -> Result<u64, Nanos> {
        let next = self.next.get_or_insert(now);
        if *next > now {
            return Err(*next);
        }
        if now.since(*next) > MAX_BURST {
            // What couldn't be emitted under backpressure isn't made up for in one burst.
            *next = Nanos(now.0.saturating_sub(MAX_BURST.as_nanos() as u64));
        }
        let due = now.since(*next).as_nanos() / self.per_record.as_nanos().max(1) + 1;
        let allowed = wanted.min(u64::try_from(due).unwrap_or(u64::MAX));
        *next = *next + self.per_record * u32::try_from(allowed).unwrap_or(u32::MAX);
        Ok(allowed)
    }
}

struct GeneratorReader<T> {
    make: MakeRun<T>,
    splits: VecDeque<RangeSplit>,
    strider: Strider,
    pace: Option<Pace>,
}

impl<T: Record> GeneratorReader<T> {
    fn emit(&mut self, out: &mut OutBatch<T>, cx: &PollContext<'_>) -> Poll {
        while let Some(split) = self.splits.front_mut() {
            let room = self.strider.run(out.room()) as u64;
            if room == 0 || (cx.urgent)() {
                return Poll::More;
            }
            let wanted = room.min(split.end - split.next);
            let allowed = match &mut self.pace {
                None => wanted,
                Some(pace) => match pace.allowed(cx.now, wanted) {
                    Ok(allowed) => allowed,
                    Err(at) => return Poll::Wait(Some(at)),
                },
            };
            (self.make)(split.next, out, split.next + allowed);
            self.strider.done(allowed as usize, cx.clock);
            split.next += allowed;
            if split.next == split.end {
                self.splits.pop_front();
            }
        }
        Poll::SplitsDone
    }
}

impl<T: Record> SplitReader<T, RangeSplit> for GeneratorReader<T> {
    fn add_split(&mut self, split: RangeSplit) -> Result<(), BoxError> {
        self.splits.push_back(split);
        Ok(())
    }

    fn poll(&mut self, out: &mut OutBatch<T>, cx: &mut PollContext<'_>) -> Result<Poll, BoxError> {
        self.strider.begin(cx.clock);
        let poll = self.emit(out, cx);
        self.strider.end(cx.clock);
        Ok(poll)
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Vec<RangeSplit>, BoxError> {
        Ok(self.splits.iter().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_even_and_bursts_little() {
        let mut pace = Pace::new(1000.0);
        assert_eq!(pace.allowed(Nanos(0), 64), Ok(1));
        assert_eq!(pace.allowed(Nanos(0), 64), Err(Nanos(1_000_000)));
        assert_eq!(pace.allowed(Nanos(3_000_000), 64), Ok(3));
        // A second of backpressure is not made up for.
        assert_eq!(pace.allowed(Nanos(1_003_000_000), 4096), Ok(101));
    }
}
