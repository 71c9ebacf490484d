//! Any source, slowed down to so many records per second.
//!
//! Wraps the readers: after each poll it waits for as long as what was read may take. The reader behind is told that
//! something is urgent, so that it stops after a short run and the pace stays even. Splits and state are the wrapped
//! source's, so a job can be restored with and without a limit.

use std::time::Duration;

use tidegate::runtime::chain::OutBatch;
use tidegate::runtime::error::BoxError;
use tidegate::runtime::source::{Poll, PollContext, ReaderContext, Source, SplitEnumerator, SplitReader};
use tidegate_types::{CheckpointId, Nanos};

/// What couldn't be read under backpressure is made up for up to this much.
const MAX_BURST: Duration = Duration::from_millis(100);

/// A source with a limit, or without.
pub(crate) struct Limited<S> {
    source: S,
    per_second: Option<u32>,
}

impl<S> Limited<S> {
    /// At most so many records per second over all subtasks.
    pub(crate) fn new(source: S, per_second: Option<u32>) -> Self {
        Self { source, per_second }
    }
}

impl<S: Source> Source for Limited<S> {
    type Out = S::Out;
    type Split = S::Split;
    type Enumeration = S::Enumeration;

    fn enumerator(
        &self,
        restored: Option<S::Enumeration>,
    ) -> Result<Box<dyn SplitEnumerator<S::Split, S::Enumeration>>, BoxError> {
        self.source.enumerator(restored)
    }

    fn reader(&self, cx: ReaderContext) -> Result<Box<dyn SplitReader<S::Out, S::Split>>, BoxError> {
        let subtasks = cx.parallelism.0.max(1);
        let reader = self.source.reader(cx)?;
        Ok(match self.per_second {
            None => reader,
            Some(all) => {
                let per_record = Duration::from_secs(1) * subtasks / all.max(1);
                Box::new(Paced {
                    reader,
                    per_record,
                    next: None,
                })
            }
        })
    }

    fn job_starts(&self) {
        self.source.job_starts();
    }

    fn job_ended(&self) {
        self.source.job_ended();
    }
}

struct Paced<T, S> {
    reader: Box<dyn SplitReader<T, S>>,
    per_record: Duration,
    /// When the next record may be read.
    next: Option<Nanos>,
}

impl<T, S> SplitReader<T, S> for Paced<T, S> {
    fn add_split(&mut self, split: S) -> Result<(), BoxError> {
        self.reader.add_split(split)
    }

    fn poll(&mut self, out: &mut OutBatch<T>, cx: &mut PollContext<'_>) -> Result<Poll, BoxError> {
        let now = cx.now;
        let next = self.next.unwrap_or(now);
        if next > now {
            return Ok(Poll::Wait(Some(next)));
        }
        let before = out.len();
        let urgent = || true;
        let poll = self.reader.poll(
            out,
            &mut PollContext {
                wall_ms: cx.wall_ms,
                now,
                clock: cx.clock,
                urgent: &urgent,
            },
        )?;
        let read = u32::try_from(out.len() - before).unwrap_or(u32::MAX);
        let from = next.max(Nanos(now.0.saturating_sub(MAX_BURST.as_nanos() as u64)));
        self.next = Some(from + self.per_record.saturating_mul(read));
        Ok(poll)
    }

    fn snapshot(&mut self, id: CheckpointId) -> Result<Vec<S>, BoxError> {
        self.reader.snapshot(id)
    }

    fn completed(&mut self, id: CheckpointId) -> Result<(), BoxError> {
        self.reader.completed(id)
    }

    fn close(&mut self) {
        self.reader.close();
    }
}

#[cfg(test)]
mod tests {
    use tidegate::runtime::clock::SystemClock;

    use super::*;

    /// Emits runs of 64 and looks at what is urgent in between.
    struct Runs;

    impl SplitReader<u8, ()> for Runs {
        fn add_split(&mut self, (): ()) -> Result<(), BoxError> {
            Ok(())
        }

        fn poll(&mut self, out: &mut OutBatch<u8>, cx: &mut PollContext<'_>) -> Result<Poll, BoxError> {
            while !out.is_full() {
                (0..64).for_each(|n| out.push(n, None));
                if (cx.urgent)() {
                    break;
                }
            }
            Ok(Poll::More)
        }

        fn snapshot(&mut self, _: CheckpointId) -> Result<Vec<()>, BoxError> {
            Ok(vec![()])
        }
    }

    #[test]
    fn a_limited_reader_waits_for_what_it_read() {
        let mut reader = Paced {
            reader: Box::new(Runs),
            per_record: Duration::from_millis(1),
            next: None,
        };
        let ms = 1_000_000;
        let mut poll = |now: u64| {
            let mut out = OutBatch::with_room(1000);
            let not_urgent = || false;
            let mut cx = PollContext {
                wall_ms: 0,
                now: Nanos(now * ms),
                clock: &SystemClock::new(),
                urgent: &not_urgent,
            };
            let poll = reader.poll(&mut out, &mut cx).expect("it never fails");
            (out.len(), poll)
        };
        assert_eq!(poll(1000), (64, Poll::More));
        assert_eq!(poll(1001), (0, Poll::Wait(Some(Nanos(1064 * ms)))));
        assert_eq!(poll(1064), (64, Poll::More));
        // Ten seconds without room are not made up for: 100 ms of them are, which is two more runs.
        assert_eq!([poll(11_000).0, poll(11_000).0, poll(11_000).0], [64, 64, 0]);
    }
}
