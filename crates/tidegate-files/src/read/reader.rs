//! Reading splits on the task's thread, a bounded piece per poll.

use std::collections::VecDeque;

use tidegate_runtime::chain::OutBatch;
use tidegate_runtime::error::BoxError;
use tidegate_runtime::source::{Poll, PollContext, SplitReader};
use tidegate_types::CheckpointId;

use super::error::{BadRecord, SourceError};
use super::format::{Cursor, Format, Step};
use super::input::open_same;
use super::skipped::{SkipReason, SkippedRecords};
use super::source::{OnBadRecord, ReadOptions};
use super::split::FileSplit;

/// After so many records it is asked whether something is urgent…
const STRIDE: u32 = 64;
/// …or after so many bytes, whichever is first: large records take long to parse.
const STRIDE_BYTES: u64 = 64 * 1024;
/// A poll ends after so many bytes, even if nothing came of them.
const POLL_BYTES: u64 = 1 << 20;

/// Reads splits one after the other.
pub(crate) struct FileReader<F: Format> {
    format: F,
    options: ReadOptions,
    skipped: SkippedRecords,
    /// What was skipped since the last poll's end, for the task's counter.
    skipped_now: u64,
    current: Option<Current<F::Cursor>>,
    queue: VecDeque<FileSplit>,
}

struct Current<C> {
    split: FileSplit,
    cursor: C,
}

impl<C> Current<C> {
    /// The split with the position at hand.
    fn now<T>(&self) -> FileSplit
    where
        C: Cursor<T>,
    {
        let position = self.cursor.position();
        FileSplit {
            position: position.offset,
            lines: position.lines,
            ..self.split.clone()
        }
    }
}

/// Why the walk through a split was left.
enum Left {
    /// Something else should have its turn.
    Paused,
    /// It is read, or what is left of it was skipped.
    Done,
}

impl<F: Format> FileReader<F> {
    pub(crate) fn new(format: F, options: ReadOptions, skipped: SkippedRecords) -> Self {
        Self {
            format,
            options,
            skipped,
            skipped_now: 0,
            current: None,
            queue: VecDeque::new(),
        }
    }

    fn on_bad(&mut self, bad: BadRecord) -> Result<(), SourceError> {
        match self.options.on_bad_record {
            OnBadRecord::Fail => Err(SourceError::Bad(bad)),
            OnBadRecord::Skip => {
                self.skipped.note(bad.reason.kind(), &bad);
                self.skipped_now += 1;
                Ok(())
            }
        }
    }

    /// An error that costs the rest of a split, if it may be skipped.
    fn on_error(&mut self, error: SourceError) -> Result<(), SourceError> {
        match error {
            SourceError::Unreadable { .. } | SourceError::Read { .. }
                if self.options.on_bad_record == OnBadRecord::Skip =>
            {
                self.skipped.note(SkipReason::UnreadableFile, &error);
                self.skipped_now += 1;
                Ok(())
            }
            // A header that is a bad record costs its file.
            SourceError::Bad(bad) => self.on_bad(bad),
            other => Err(other),
        }
    }

    /// Takes the next split up; whether there is one.
    fn take_up(&mut self) -> Result<bool, SourceError> {
        while self.current.is_none() {
            let Some(split) = self.queue.pop_front() else {
                return Ok(false);
            };
            match self.format.open(&split, self.options.record_limit) {
                Ok(cursor) => self.current = Some(Current { split, cursor }),
                Err(error) => self.on_error(error)?,
            }
        }
        Ok(true)
    }

    fn read(
        &mut self,
        out: &mut OutBatch<F::Out>,
        cx: &PollContext<'_>,
        left_bytes: &mut u64,
    ) -> Result<Left, SourceError> {
        let Some(Current { cursor, .. }) = &mut self.current else {
            return Ok(Left::Done);
        };
        let begun_at = cursor.consumed();
        let (mut steps, mut looked_at) = (0, begun_at);
        let left = loop {
            if out.is_full() {
                break Ok(Left::Paused);
            }
            if steps >= STRIDE || cursor.consumed() - looked_at >= STRIDE_BYTES {
                if (cx.urgent)() || cursor.consumed() - begun_at >= *left_bytes {
                    break Ok(Left::Paused);
                }
                (steps, looked_at) = (0, cursor.consumed());
            }
            steps += 1;
            match cursor.step() {
                Ok(Step::Record(record)) => out.push(record, None),
                Ok(Step::Nothing) => {}
                Ok(Step::Working) => steps = STRIDE,
                Ok(Step::Bad(bad)) => match self.options.on_bad_record {
                    OnBadRecord::Fail => break Err(SourceError::Bad(bad)),
                    OnBadRecord::Skip => {
                        self.skipped.note(bad.reason.kind(), &bad);
                        self.skipped_now += 1;
                    }
                },
                Ok(Step::End) => break Ok(Left::Done),
                Err(error) => break Err(error),
            }
        };
        *left_bytes = left_bytes.saturating_sub(cursor.consumed() - begun_at);
        left
    }

    fn read_on(&mut self, out: &mut OutBatch<F::Out>, cx: &PollContext<'_>) -> Result<Poll, SourceError> {
        let mut left_bytes = POLL_BYTES;
        loop {
            if !self.take_up()? {
                return Ok(Poll::SplitsDone);
            }
            match self.read(out, cx, &mut left_bytes) {
                Ok(Left::Paused) => return Ok(Poll::More),
                Ok(Left::Done) => self.current = None,
                Err(error) => {
                    self.on_error(error)?;
                    self.current = None;
                }
            }
            if out.is_full() || left_bytes == 0 || (cx.urgent)() {
                return Ok(Poll::More);
            }
        }
    }
}

impl<F: Format> SplitReader<F::Out, FileSplit> for FileReader<F> {
    fn add_split(&mut self, split: FileSplit) -> Result<(), BoxError> {
        if split.is_done() {
            return Ok(());
        }
        // Looked at here, because a changed file found on restoring is an error that no restart heals.
        match open_same(&split) {
            Ok(_) => self.queue.push_back(split),
            Err(error) => self.on_error(error).map_err(SourceError::boxed)?,
        }
        Ok(())
    }

    fn poll(&mut self, out: &mut OutBatch<F::Out>, cx: &mut PollContext<'_>) -> Result<Poll, BoxError> {
        let polled = self.read_on(out, cx).map_err(SourceError::boxed);
        out.note_skipped(std::mem::take(&mut self.skipped_now));
        polled
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Vec<FileSplit>, BoxError> {
        let current = self
            .current
            .iter()
            .map(Current::now::<F::Out>)
            .filter(|split| !split.is_done());
        Ok(current.chain(self.queue.iter().cloned()).collect())
    }

    fn close(&mut self) {
        self.current = None;
        self.queue.clear();
    }
}
