//! Sources without their split types: splits and enumerator states as bytes.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_types::codec::{Record, canonical};
use tidegate_types::{CheckpointId, SubtaskIndex};

use crate::chain::OutBatch;
use crate::error::BoxError;

use super::{NextSplit, Poll, PollContext, ReaderContext, Source, Split, SplitEnumerator, SplitReader};

/// A source that emits `T`, whatever its splits.
pub trait AnySource<T>: Send + Sync {
    /// See [`Source::enumerator`].
    ///
    /// # Errors
    /// When the source can't be found, or its state can't be read any more.
    fn enumerator(&self, restored: Option<&[u8]>) -> Result<Box<dyn AnyEnumerator>, BoxError>;

    /// See [`Source::reader`].
    ///
    /// # Errors
    /// When it can't be opened.
    fn reader(&self, cx: ReaderContext) -> Result<Box<dyn AnyReader<T>>, BoxError>;

    /// See [`Source::job_starts`].
    fn job_starts(&self);

    /// See [`Source::job_ended`].
    fn job_ended(&self);
}

/// What an enumerator answers a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assignment {
    /// An encoded split.
    Split(Bytes),
    /// Nothing now.
    Later,
    /// Nothing any more.
    NoMore,
}

/// See [`SplitEnumerator`].
pub trait AnyEnumerator: Send {
    /// See [`SplitEnumerator::next_split`].
    ///
    /// # Errors
    /// When discovery fails.
    fn next_split(&mut self, reader: SubtaskIndex) -> Result<Assignment, BoxError>;

    /// See [`SplitEnumerator::take_over`].
    ///
    /// # Errors
    /// When a split can't be read.
    fn take_over(&mut self, splits: &[Bytes]) -> Result<(), BoxError>;

    /// See [`SplitEnumerator::snapshot`].
    ///
    /// # Errors
    /// Fails the checkpoint.
    fn snapshot(&mut self) -> Result<Bytes, BoxError>;
}

/// See [`SplitReader`].
pub trait AnyReader<T>: Send {
    /// See [`SplitReader::add_split`].
    ///
    /// # Errors
    /// When it can't be read or opened.
    fn add_split(&mut self, split: &[u8]) -> Result<(), BoxError>;

    /// See [`SplitReader::poll`].
    ///
    /// # Errors
    /// When reading fails.
    fn poll(&mut self, out: &mut OutBatch<T>, cx: &mut PollContext<'_>) -> Result<Poll, BoxError>;

    /// See [`SplitReader::takes_more`].
    fn takes_more(&self) -> bool;

    /// See [`SplitReader::snapshot`].
    ///
    /// # Errors
    /// Fails the task.
    fn snapshot(&mut self, id: CheckpointId) -> Result<Vec<Bytes>, BoxError>;

    /// See [`SplitReader::hold_for_cut`].
    fn hold_for_cut(&mut self) -> bool;

    /// See [`SplitReader::release_after_cut`].
    fn release_after_cut(&mut self);

    /// See [`SplitReader::stop`].
    fn stop(&mut self) -> bool;

    /// See [`SplitReader::completed`].
    ///
    /// # Errors
    /// Fails the task.
    fn completed(&mut self, id: CheckpointId) -> Result<(), BoxError>;

    /// See [`SplitReader::close`].
    fn close(&mut self);
}

/// Hides a source's split types.
pub fn erase<S: Source>(source: S) -> Arc<dyn AnySource<S::Out>> {
    Arc::new(Erased(source))
}

struct Erased<S>(S);

struct ErasedEnumerator<S, E>(Box<dyn SplitEnumerator<S, E>>);

struct ErasedReader<T, S> {
    reader: Box<dyn SplitReader<T, S>>,
    _split: PhantomData<fn() -> S>,
}

fn encode<T: Record>(value: &T) -> Result<Bytes, BoxError> {
    let mut bytes = Vec::new();
    canonical::encode_into(value, &mut bytes)?;
    Ok(bytes.into())
}

fn decode<T: Record>(what: &str, mut bytes: &[u8]) -> Result<T, BoxError> {
    let value = canonical::decode_from(&mut bytes).map_err(|e| format!("{what} can't be read: {e}"))?;
    if bytes.is_empty() {
        Ok(value)
    } else {
        Err(format!("{what} has bytes left over").into())
    }
}

fn decode_splits<S: Split>(splits: &[Bytes]) -> Result<Vec<S>, BoxError> {
    splits.iter().map(|b| decode("a split", b)).collect()
}

impl<S: Source> AnySource<S::Out> for Erased<S> {
    fn enumerator(&self, restored: Option<&[u8]>) -> Result<Box<dyn AnyEnumerator>, BoxError> {
        let state = restored
            .map(|b| decode("the split enumerator's state", b))
            .transpose()?;
        Ok(Box::new(ErasedEnumerator(self.0.enumerator(state)?)))
    }

    fn reader(&self, cx: ReaderContext) -> Result<Box<dyn AnyReader<S::Out>>, BoxError> {
        Ok(Box::new(ErasedReader {
            reader: self.0.reader(cx)?,
            _split: PhantomData,
        }))
    }

    fn job_starts(&self) {
        self.0.job_starts();
    }

    fn job_ended(&self) {
        self.0.job_ended();
    }
}

impl<S: Split, E: Record> AnyEnumerator for ErasedEnumerator<S, E> {
    fn next_split(&mut self, reader: SubtaskIndex) -> Result<Assignment, BoxError> {
        Ok(match self.0.next_split(reader)? {
            NextSplit::Split(split) => Assignment::Split(encode(&split)?),
            NextSplit::Later => Assignment::Later,
            NextSplit::NoMore => Assignment::NoMore,
        })
    }

    fn take_over(&mut self, splits: &[Bytes]) -> Result<(), BoxError> {
        self.0.take_over(decode_splits(splits)?);
        Ok(())
    }

    fn snapshot(&mut self) -> Result<Bytes, BoxError> {
        encode(&self.0.snapshot()?)
    }
}

impl<T, S: Split> AnyReader<T> for ErasedReader<T, S> {
    fn add_split(&mut self, split: &[u8]) -> Result<(), BoxError> {
        self.reader.add_split(decode("a split", split)?)
    }

    fn poll(&mut self, out: &mut OutBatch<T>, cx: &mut PollContext<'_>) -> Result<Poll, BoxError> {
        self.reader.poll(out, cx)
    }

    fn takes_more(&self) -> bool {
        self.reader.takes_more()
    }

    fn snapshot(&mut self, id: CheckpointId) -> Result<Vec<Bytes>, BoxError> {
        self.reader.snapshot(id)?.iter().map(encode).collect()
    }

    fn hold_for_cut(&mut self) -> bool {
        self.reader.hold_for_cut()
    }

    fn release_after_cut(&mut self) {
        self.reader.release_after_cut();
    }

    fn stop(&mut self) -> bool {
        self.reader.stop()
    }

    fn completed(&mut self, id: CheckpointId) -> Result<(), BoxError> {
        self.reader.completed(id)
    }

    fn close(&mut self) {
        self.reader.close();
    }
}
