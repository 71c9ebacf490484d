//! The contract of sinks: a writer per subtask, and for exactly-once output one committer beside the coordinator.
//!
//! A two-phase sink's output becomes visible only by a commit of what its writers prepared at a checkpoint, after
//! that checkpoint is durable. Commits are idempotent: after a restore what the snapshot lists is committed
//! again. A writer never sees a barrier.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_types::codec::{Record, canonical};
use tidegate_types::{
    AttemptNumber, CheckpointId, EventTime, JobId, LeaderEpoch, OperatorUid, Parallelism, SubtaskIndex,
};

use crate::chain::{Cursor, Pass};
use crate::error::BoxError;
use crate::signal::TaskSignal;

/// Where a writer or committer works.
#[derive(Debug, Clone)]
pub struct SinkContext {
    /// The job.
    pub job: JobId,
    /// The sink operator.
    pub uid: OperatorUid,
    /// Which subtask (of a committer: 0).
    pub subtask: SubtaskIndex,
    /// How many there are.
    pub parallelism: Parallelism,
    /// The attempt.
    pub attempt: AttemptNumber,
    /// The leadership; with the attempt it makes names unique.
    pub epoch: LeaderEpoch,
    /// Which line of history output belongs to. It changes when the job restarts from an older snapshot than was
    /// committed, on the user's word.
    pub lineage: u64,
    /// Of a committer: the checkpoint that the attempt goes on from, `None` if it starts fresh. Writers don't learn it.
    pub restored: Option<CheckpointId>,
    /// Processing time when it was made.
    pub wall_ms: EventTime,
}

/// What a writer prepares at a cut: run on a pool thread, it makes everything durable and says what a commit needs.
pub type Prepared<C> = Box<dyn FnOnce() -> Result<Vec<C>, BoxError> + Send>;

/// A connector that writes.
pub trait Sink<T>: Send + Sync + 'static {
    /// What a commit needs to make prepared output visible. `()` for sinks without two phases.
    type Committable: Record;

    /// Makes a writer for one subtask.
    ///
    /// # Errors
    /// When it can't be opened.
    fn writer(&self, cx: SinkContext) -> Result<Box<dyn SinkWriter<T, Self::Committable>>, BoxError>;

    /// Makes the committer, if output is committed in a second phase.
    ///
    /// # Errors
    /// When it can't be opened.
    fn committer(&self, cx: SinkContext) -> Result<Option<Box<dyn Committer<Self::Committable>>>, BoxError>;
}

/// The records that a writer gets in one call. They end early when a barrier or anything else urgent has come.
pub struct SinkRecords<'a, T> {
    input: &'a mut Cursor<T>,
    signal: &'a TaskSignal,
    heeds_urgency: bool,
    left: usize,
}

impl<'a, T> SinkRecords<'a, T> {
    /// What is in `input`, as far as `pass` allows.
    pub(crate) fn new(input: &'a mut Cursor<T>, pass: &Pass<'a>) -> Self {
        let left = input.len().min(pass.allowance());
        Self {
            input,
            signal: pass.signal(),
            heeds_urgency: !pass.is_overdraft(),
            left,
        }
    }

    /// Records that may still be taken, if nothing urgent comes.
    pub fn len(&self) -> usize {
        self.left
    }

    /// Whether none may.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Hands the records to `write` one by one, with their event times if the stream has any.
    ///
    /// # Errors
    /// The first that `write` returns.
    #[inline]
    pub fn for_each(
        &mut self,
        mut write: impl FnMut(T, Option<EventTime>) -> Result<(), BoxError>,
    ) -> Result<(), BoxError> {
        let (signal, heeds_urgency) = (self.signal, self.heeds_urgency);
        let (done, result) = self.input.take_while(self.left, |record, time| {
            write(record, time)?;
            Ok(!(signal.is_urgent() && heeds_urgency))
        });
        self.left -= done;
        result
    }
}

/// Writes the records of one subtask.
pub trait SinkWriter<T, C>: Send {
    /// One record.
    ///
    /// # Errors
    /// Fail the attempt.
    fn write(&mut self, record: T, time: Option<EventTime>) -> Result<(), BoxError>;

    /// The records that are there, until none is left or the run has to end. What the engine calls: this loop is
    /// compiled for each writer, so that no call per record is virtual.
    ///
    /// # Errors
    /// Fail the attempt.
    fn write_all(&mut self, records: &mut SinkRecords<'_, T>) -> Result<(), BoxError> {
        records.for_each(|record, time| self.write(record, time))
    }

    /// The cut: everything written so far belongs to the checkpoint. `None` if nothing is to be prepared. Must be
    /// quick; what takes time belongs into what it returns.
    ///
    /// # Errors
    /// Fail the attempt.
    fn prepare(&mut self, id: CheckpointId) -> Result<Option<Prepared<C>>, BoxError>;

    /// Nothing more comes for now; a plain sink may flush.
    ///
    /// # Errors
    /// Fail the attempt.
    fn flush(&mut self) -> Result<(), BoxError> {
        Ok(())
    }

    /// The subtask ends.
    fn close(&mut self) {}
}

/// Prepared output can't be committed any more, whoever tries: a transaction expired, a file is gone. A commit that
/// fails with this ends the job with one error; after any other it is tried again.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct OutputLost(pub BoxError);

/// Makes prepared output visible. Lives beside the coordinator, once per sink.
pub trait Committer<C>: Send {
    /// After a restore and before any writer opens: commits what the snapshot lists and discards every other
    /// unfinished output of this sink, whatever subtask it came from.
    ///
    /// # Errors
    /// When output can't be made to agree with the snapshot.
    fn settle(&mut self, listed: Vec<C>) -> Result<(), BoxError>;

    /// Commits. Doing it again is no error and has no effect.
    ///
    /// # Errors
    /// When it didn't work; it will be tried again, unless it is [`OutputLost`].
    fn commit(&mut self, committables: Vec<C>) -> Result<(), BoxError>;

    /// Whether committed output outlives the process, so that a run from the beginning would write it twice.
    fn outlives_process(&self) -> bool {
        true
    }
}

/// A [`Prepared`] without its type.
pub type AnyPrepared = Box<dyn FnOnce() -> Result<Vec<Bytes>, BoxError> + Send>;

/// A sink of `T`, whatever it commits.
pub trait AnySink<T>: Send + Sync {
    /// See [`Sink::writer`].
    ///
    /// # Errors
    /// When it can't be opened.
    fn writer(&self, cx: SinkContext) -> Result<Box<dyn AnyWriter<T>>, BoxError>;

    /// See [`Sink::committer`].
    ///
    /// # Errors
    /// When it can't be opened.
    fn committer(&self, cx: SinkContext) -> Result<Option<Box<dyn AnyCommitter>>, BoxError>;
}

/// See [`SinkWriter`].
pub trait AnyWriter<T>: Send {
    /// See [`SinkWriter::write_all`].
    ///
    /// # Errors
    /// Fail the attempt.
    fn write_all(&mut self, records: &mut SinkRecords<'_, T>) -> Result<(), BoxError>;

    /// See [`SinkWriter::prepare`].
    ///
    /// # Errors
    /// Fail the attempt.
    fn prepare(&mut self, id: CheckpointId) -> Result<Option<AnyPrepared>, BoxError>;

    /// See [`SinkWriter::flush`].
    ///
    /// # Errors
    /// Fail the attempt.
    fn flush(&mut self) -> Result<(), BoxError>;

    /// See [`SinkWriter::close`].
    fn close(&mut self);
}

/// See [`Committer`].
pub trait AnyCommitter: Send {
    /// See [`Committer::settle`].
    ///
    /// # Errors
    /// When output can't be made to agree with the snapshot.
    fn settle(&mut self, listed: &[Bytes]) -> Result<(), BoxError>;

    /// See [`Committer::commit`].
    ///
    /// # Errors
    /// When it didn't work.
    fn commit(&mut self, committables: &[Bytes]) -> Result<(), BoxError>;

    /// See [`Committer::outlives_process`].
    fn outlives_process(&self) -> bool;
}

/// Hides what a sink commits.
pub fn erase_sink<T: Send + 'static, S: Sink<T>>(sink: S) -> Arc<dyn AnySink<T>> {
    Arc::new(Erased {
        sink,
        _record: PhantomData,
    })
}

struct Erased<T, S> {
    sink: S,
    _record: PhantomData<fn(T)>,
}

struct ErasedWriter<T, C>(Box<dyn SinkWriter<T, C>>);

struct ErasedCommitter<C>(Box<dyn Committer<C>>);

impl<T: Send + 'static, S: Sink<T>> AnySink<T> for Erased<T, S> {
    fn writer(&self, cx: SinkContext) -> Result<Box<dyn AnyWriter<T>>, BoxError> {
        Ok(Box::new(ErasedWriter(self.sink.writer(cx)?)))
    }

    fn committer(&self, cx: SinkContext) -> Result<Option<Box<dyn AnyCommitter>>, BoxError> {
        Ok(self
            .sink
            .committer(cx)?
            .map(|c| Box::new(ErasedCommitter(c)) as Box<dyn AnyCommitter>))
    }
}

impl<T: Send + 'static, C: Record> AnyWriter<T> for ErasedWriter<T, C> {
    fn write_all(&mut self, records: &mut SinkRecords<'_, T>) -> Result<(), BoxError> {
        self.0.write_all(records)
    }

    fn prepare(&mut self, id: CheckpointId) -> Result<Option<AnyPrepared>, BoxError> {
        let Some(prepared) = self.0.prepare(id)? else {
            return Ok(None);
        };
        Ok(Some(Box::new(move || {
            prepared()?
                .iter()
                .map(|c| {
                    let mut bytes = Vec::new();
                    canonical::encode_into(c, &mut bytes)?;
                    Ok(Bytes::from(bytes))
                })
                .collect()
        })))
    }

    fn flush(&mut self) -> Result<(), BoxError> {
        self.0.flush()
    }

    fn close(&mut self) {
        self.0.close();
    }
}

fn decode<C: Record>(bytes: &[Bytes]) -> Result<Vec<C>, BoxError> {
    bytes
        .iter()
        .map(|b| {
            canonical::decode_from(&mut &b[..])
                .map_err(|e| format!("a stored committable can't be read any more: {e}").into())
        })
        .collect()
}

impl<C: Record> AnyCommitter for ErasedCommitter<C> {
    fn settle(&mut self, listed: &[Bytes]) -> Result<(), BoxError> {
        self.0.settle(decode(listed)?)
    }

    fn commit(&mut self, committables: &[Bytes]) -> Result<(), BoxError> {
        self.0.commit(decode(committables)?)
    }

    fn outlives_process(&self) -> bool {
        self.0.outlives_process()
    }
}
