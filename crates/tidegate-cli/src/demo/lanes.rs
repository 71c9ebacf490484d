//! A source of numbered records: a lane per subtask, each a run of numbers without an end.
//!
//! Lane `l` of `n` emits the numbers `l`, `l + n`, `l + 2n`, … and what a record is depends on its number alone.
//! So the whole input of a job that was stopped is known from how far each lane got, which the readers note
//! outside of the job's state: that is the oracle which the job's counts are compared with. At full speed, or on a
//! schedule that goes on whatever happens to the job, so that it falls behind when it is down.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::runtime::chain::OutBatch;
use tidegate::runtime::error::BoxError;
use tidegate::runtime::source::{
    NextSplit, Poll, PollContext, ReaderContext, Source, Split, SplitEnumerator, SplitReader,
};
use tidegate_types::codec::Record;
use tidegate_types::{CheckpointId, Nanos, SubtaskIndex};

/// Records between two looks whether something is urgent.
const STRIDE: usize = 64;

/// How far each lane got, and when the schedule began. Shared by readers and whoever compares.
#[derive(Debug)]
pub(crate) struct Tally {
    emitted: Mutex<Vec<u64>>,
    per_second: Option<f64>,
    begun: OnceLock<Nanos>,
}

impl Tally {
    /// For so many lanes, at full speed or so many records per second over all lanes.
    pub(crate) fn new(lanes: u32, per_second: Option<f64>) -> Arc<Self> {
        Arc::new(Self {
            emitted: Mutex::new(vec![0; lanes as usize]),
            per_second,
            begun: OnceLock::new(),
        })
    }

    /// How many records each lane has emitted, as of the reader's newest position: a restore sets it back.
    pub(crate) fn emitted(&self) -> Vec<u64> {
        self.emitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn note(&self, lane: &Lane) {
        if let Some(emitted) = self
            .emitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_mut(lane.lane as usize)
        {
            *emitted = lane.emitted;
        }
    }

    /// The number of a lane's record.
    pub(crate) fn number(lanes: u32, lane: u32, at: u64) -> u64 {
        at.wrapping_mul(u64::from(lanes)).wrapping_add(u64::from(lane))
    }

    /// How many records are due by now and weren't emitted, over all lanes. At full speed there is no such thing.
    pub(crate) fn behind(&self, now: Nanos) -> u64 {
        let emitted = self.emitted();
        let due = self.due(now, emitted.len()).unwrap_or(0);
        emitted.iter().map(|emitted| due.saturating_sub(*emitted)).sum()
    }

    /// How many records of each lane are due.
    fn due(&self, now: Nanos, lanes: usize) -> Option<u64> {
        let begun = self.begun.get()?;
        let rate = self.per_second? / lanes.max(1) as f64;
        Some((now.since(*begun).as_secs_f64() * rate) as u64 + 1)
    }

    /// When a lane's record is due.
    fn due_at(&self, at: u64, lanes: usize) -> Option<Nanos> {
        let rate = self.per_second? / lanes.max(1) as f64;
        Some(*self.begun.get()? + Duration::try_from_secs_f64(at as f64 / rate).unwrap_or(Duration::MAX))
    }
}

/// One lane and how much of it was emitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lane {
    lane: u32,
    emitted: u64,
}

impl Split for Lane {
    fn id(&self) -> String {
        format!("lane {}", self.lane)
    }
}

/// Lanes that nobody reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Undealt {
    lanes: Vec<Lane>,
}

/// The source: a record is made of its number.
pub(crate) struct Lanes<F> {
    lanes: u32,
    make: Arc<F>,
    tally: Arc<Tally>,
}

impl<F> Lanes<F> {
    /// As many lanes as there are subtasks. `tally` must have been made for as many.
    pub(crate) fn new(lanes: u32, tally: Arc<Tally>, make: F) -> Self {
        Self {
            lanes,
            make: Arc::new(make),
            tally,
        }
    }
}

impl<T: Record, F: Fn(u64) -> T + Send + Sync + 'static> Source for Lanes<F> {
    type Out = T;
    type Split = Lane;
    type Enumeration = Undealt;

    fn enumerator(
        &self,
        restored: Option<Undealt>,
    ) -> Result<Box<dyn SplitEnumerator<Lane, Undealt>>, BoxError> {
        let all = || Undealt {
            lanes: (0..self.lanes)
                .rev()
                .map(|lane| Lane { lane, emitted: 0 })
                .collect(),
        };
        Ok(Box::new(restored.unwrap_or_else(all)))
    }

    fn reader(&self, _: ReaderContext) -> Result<Box<dyn SplitReader<T, Lane>>, BoxError> {
        Ok(Box::new(Reader {
            lanes: self.lanes,
            make: self.make.clone(),
            tally: self.tally.clone(),
            mine: Vec::new(),
        }))
    }
}

impl SplitEnumerator<Lane, Undealt> for Undealt {
    fn next_split(&mut self, _: SubtaskIndex) -> Result<NextSplit<Lane>, BoxError> {
        Ok(self.lanes.pop().map_or(NextSplit::NoMore, NextSplit::Split))
    }

    fn take_over(&mut self, splits: Vec<Lane>) {
        self.lanes
            .retain(|free| splits.iter().all(|held| held.lane != free.lane));
    }

    fn snapshot(&mut self) -> Result<Undealt, BoxError> {
        Ok(self.clone())
    }
}

struct Reader<F> {
    lanes: u32,
    make: Arc<F>,
    tally: Arc<Tally>,
    mine: Vec<Lane>,
}

impl<F> Reader<F> {
    /// Emits of one lane what is due and fits; when the next record is due if that is later.
    fn read<T>(&mut self, at: usize, out: &mut OutBatch<T>, cx: &PollContext<'_>) -> Option<Nanos>
    where
        F: Fn(u64) -> T,
    {
        let all = self.lanes as usize;
        let due = self.tally.due(cx.now, all);
        let lane = &mut self.mine[at];
        let room = out.room().min(STRIDE) as u64;
        let upto = (lane.emitted + room).min(due.unwrap_or(u64::MAX));
        while lane.emitted < upto {
            out.push(
                (self.make)(Tally::number(self.lanes, lane.lane, lane.emitted)),
                None,
            );
            lane.emitted += 1;
        }
        self.tally.note(lane);
        let waits = due.is_some_and(|due| lane.emitted >= due);
        waits.then(|| self.tally.due_at(lane.emitted, all)).flatten()
    }
}

impl<T: Record, F: Fn(u64) -> T + Send + Sync + 'static> SplitReader<T, Lane> for Reader<F> {
    fn add_split(&mut self, lane: Lane) -> Result<(), BoxError> {
        if lane.lane >= self.lanes {
            return Err(format!(
                "lane {} of {}: the demo ran with another parallelism before",
                lane.lane, self.lanes
            )
            .into());
        }
        self.tally.note(&lane);
        self.mine.push(lane);
        Ok(())
    }

    fn poll(&mut self, out: &mut OutBatch<T>, cx: &mut PollContext<'_>) -> Result<Poll, BoxError> {
        if self.mine.is_empty() {
            return Ok(Poll::SplitsDone);
        }
        self.tally.begun.get_or_init(|| cx.now);
        loop {
            let mut wait = Some(Nanos::NEVER);
            for at in 0..self.mine.len() {
                // One lane that goes on is enough not to wait.
                wait = match (wait, self.read(at, out, cx)) {
                    (Some(first), Some(next)) => Some(first.min(next)),
                    _ => None,
                };
            }
            if let Some(at) = wait {
                return Ok(Poll::Wait(Some(at)));
            }
            if out.is_full() || (cx.urgent)() {
                return Ok(Poll::More);
            }
        }
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Vec<Lane>, BoxError> {
        Ok(self.mine.clone())
    }
}

#[cfg(test)]
mod tests {
    use tidegate::runtime::clock::SystemClock;

    use super::*;

    fn reader(tally: &Arc<Tally>, lanes: u32) -> Reader<impl Fn(u64) -> u64 + use<>> {
        Reader {
            lanes,
            make: Arc::new(|n| n),
            tally: tally.clone(),
            mine: Vec::new(),
        }
    }

    fn poll<F: Fn(u64) -> u64 + Send + Sync + 'static>(
        reader: &mut Reader<F>,
        room: usize,
        now: u64,
    ) -> (Vec<u64>, Poll) {
        let mut out = OutBatch::with_room(room);
        let urgent = || false;
        let mut cx = PollContext {
            wall_ms: 0,
            now: Nanos(now),
            clock: &SystemClock::new(),
            urgent: &urgent,
        };
        let poll = reader.poll(&mut out, &mut cx).expect("it never fails");
        (out.into_batch().values, poll)
    }

    #[test]
    fn lanes_share_the_numbers_and_tell_how_far_they_got() {
        let tally = Tally::new(2, None);
        let mut source = Undealt {
            lanes: vec![Lane { lane: 1, emitted: 0 }, Lane { lane: 0, emitted: 0 }],
        };
        let mut readers = [reader(&tally, 2), reader(&tally, 2)];
        for reader in &mut readers {
            assert_eq!(poll(reader, 3, 0), (vec![], Poll::SplitsDone));
            let NextSplit::Split(lane) = source.next_split(SubtaskIndex(0)).expect("it never fails") else {
                panic!()
            };
            reader.add_split(lane).expect("it is one of two");
        }
        assert_eq!(
            source.next_split(SubtaskIndex(0)).expect("it never fails"),
            NextSplit::NoMore
        );
        assert_eq!(poll(&mut readers[0], 3, 0), (vec![0, 2, 4], Poll::More));
        assert_eq!(poll(&mut readers[1], 2, 0), (vec![1, 3], Poll::More));
        assert_eq!(poll(&mut readers[0], 100, 0).0.len(), 100);
        assert_eq!(tally.emitted(), [103, 2]);
        assert_eq!(tally.behind(Nanos(1)), 0);
    }

    #[test]
    fn a_restored_lane_goes_on_and_sets_the_tally_back() {
        let tally = Tally::new(1, None);
        let mut first = reader(&tally, 1);
        first
            .add_split(Lane { lane: 0, emitted: 0 })
            .expect("it is the one");
        poll(&mut first, 5, 0);
        let held = first.snapshot(CheckpointId(1)).expect("it never fails");
        poll(&mut first, 5, 0);
        assert_eq!(tally.emitted(), [10]);
        let mut second = reader(&tally, 1);
        second.add_split(held[0].clone()).expect("it is the one");
        assert_eq!(tally.emitted(), [5]);
        assert_eq!(poll(&mut second, 2, 0).0, [5, 6]);
        assert!(second.add_split(Lane { lane: 1, emitted: 0 }).is_err());
    }

    #[test]
    fn a_schedule_goes_on_while_nobody_reads() {
        let tally = Tally::new(1, Some(1000.0));
        let mut reader = reader(&tally, 1);
        reader
            .add_split(Lane { lane: 0, emitted: 0 })
            .expect("it is the one");
        let ms = 1_000_000;
        assert_eq!(
            poll(&mut reader, 100, 50 * ms),
            (vec![0], Poll::Wait(Some(Nanos(51 * ms))))
        );
        assert_eq!(tally.behind(Nanos(50 * ms)), 0);
        assert_eq!(tally.behind(Nanos(60 * ms)), 10);
        let (values, after) = poll(&mut reader, 8, 60 * ms);
        assert_eq!((values.len(), after), (8, Poll::More));
        assert_eq!(tally.behind(Nanos(60 * ms)), 2);
        let (values, after) = poll(&mut reader, 100, 60 * ms);
        assert_eq!((values, after), (vec![9, 10], Poll::Wait(Some(Nanos(61 * ms)))));
    }
}
