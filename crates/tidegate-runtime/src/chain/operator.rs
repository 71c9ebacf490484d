//! What an operator is to its chain, and what it hands over for a snapshot.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_types::key_group::HashRange;
use tidegate_types::snapshot::{SectionBytes, SectionHead, SectionKind};
use tidegate_types::{CheckpointId, EventTime, MaxParallelism, OperatorUid, Parallelism, SubtaskIndex};

use crate::error::OpError;
use crate::signal::TaskSignal;

use super::cursor::Cursor;
use super::defaults::OperatorDefaults;
use super::flow::{Flow, Pass};
use super::out::OutBatch;
use super::overdraft::Overdraft;

/// One step of a chain: turns records of type `I` into records of type `O`.
///
/// # Driving it
/// `open` comes first. Then, in any order and always one at a time: `process` with a cursor of which it consumes
/// a *prefix*, `on_watermark` and `on_time` again and again until they are done, `on_end` likewise, once. A
/// snapshot is `finish_record` (if suspended) → `prepare_snapshot` → `cut` → `sweep` until done → `decided`.
///
/// Whatever consumes input looks at [`Pass::must_yield`] and [`OutBatch::is_full`]: before every record if it
/// has state, timers or I/O, at least every 64 records otherwise.
pub trait Operator<I, O>: Send {
    /// Gets its place, and the state it had.
    ///
    /// # Errors
    /// When restored state can't be used or user code fails.
    fn open(&mut self, cx: &mut OpenContext) -> Result<(), OpError> {
        let _ = cx;
        Ok(())
    }

    /// Consumes a prefix of `input`.
    ///
    /// # Errors
    /// When user code fails; the attempt ends.
    fn process(
        &mut self,
        input: &mut Cursor<I>,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError>;

    /// The watermark rose. Called again until done; only then is the watermark handed on.
    ///
    /// # Errors
    /// When user code fails.
    fn on_watermark(
        &mut self,
        watermark: EventTime,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        let _ = (watermark, out, pass);
        Ok(Flow::Done)
    }

    /// Whether watermarks that come in are handed on. An operator that makes its own says no, and still sees
    /// the last one.
    fn forwards_watermarks(&self) -> bool {
        true
    }

    /// The processing time reached what [`next_time`](Self::next_time) asked for. Called again until done.
    ///
    /// # Errors
    /// When user code fails.
    fn on_time(
        &mut self,
        wall_ms: EventTime,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        let _ = (wall_ms, out, pass);
        Ok(Flow::Done)
    }

    /// When [`on_time`](Self::on_time) should be called, in milliseconds of the wall clock.
    fn next_time(&self) -> Option<EventTime> {
        None
    }

    /// All input has ended for good. Called again until done.
    ///
    /// # Errors
    /// When user code fails.
    fn on_end(&mut self, out: &mut OutBatch<O>, pass: &mut Pass<'_>) -> Result<Flow, OpError> {
        let _ = (out, pass);
        Ok(Flow::Done)
    }

    /// Runs a suspended record on, without regard to room, until it is done or the overdraft is used up. True
    /// when no record is in progress.
    ///
    /// # Errors
    /// When user code fails.
    fn finish_record(
        &mut self,
        out: &mut OutBatch<O>,
        overdraft: &mut Overdraft<'_>,
    ) -> Result<bool, OpError> {
        let _ = (out, overdraft);
        Ok(true)
    }

    /// Whether a record is in progress (an iterator waits for room).
    fn is_suspended(&self) -> bool {
        false
    }

    /// The last moment before the barrier goes out: what must stand before it is put out now.
    ///
    /// # Errors
    /// A refusal declines the checkpoint.
    fn prepare_snapshot(&mut self, id: CheckpointId, out: &mut OutBatch<O>) -> Result<(), OpError> {
        let _ = (id, out);
        Ok(())
    }

    /// The cut, in constant time: handles and epochs, whatever the state's size.
    ///
    /// # Errors
    /// Fails the task.
    fn cut(&mut self, parts: &mut CutParts) -> Result<(), OpError> {
        let _ = parts;
        Ok(())
    }

    /// Preserves state for the cut of `id` while `may_go_on` says so; on [`Progress::Done`] everything that the
    /// cut owes has been added to `parts`. Called again until then, always on the task's thread.
    ///
    /// # Errors
    /// Declines the checkpoint.
    fn sweep(
        &mut self,
        id: CheckpointId,
        may_go_on: &mut dyn FnMut() -> bool,
        parts: &mut Vec<SnapshotPart>,
    ) -> Result<Progress, OpError> {
        let _ = (id, may_go_on, parts);
        Ok(Progress::Done)
    }

    /// What became of a checkpoint. A hint: may be lost, late or doubled.
    ///
    /// # Errors
    /// When user code fails.
    fn decided(&mut self, id: CheckpointId, outcome: Outcome) -> Result<(), OpError> {
        let _ = (id, outcome);
        Ok(())
    }

    /// The task ends, well or not. Not called when the process dies.
    fn close(&mut self) {}
}

/// Whether a sweep is through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is more to preserve.
    More,
    /// Everything is preserved and handed over.
    Done,
}

/// How a checkpoint was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is complete and durable.
    Completed,
    /// It will never be.
    Aborted,
}

/// Turns captured state into bytes, on a pool thread.
pub type EncodeJob = Box<dyn FnOnce() -> Result<Vec<SectionBytes>, OpError> + Send>;

/// Sections to be.
pub struct SnapshotPart {
    /// Makes their bytes.
    pub job: EncodeJob,
}

impl SnapshotPart {
    /// A part whose bytes are there already.
    pub fn ready(section: SectionBytes) -> Self {
        Self {
            job: Box::new(move || Ok(vec![section])),
        }
    }

    /// A part that is encoded later.
    pub fn later(job: impl FnOnce() -> Result<Vec<SectionBytes>, OpError> + Send + 'static) -> Self {
        Self { job: Box::new(job) }
    }
}

impl std::fmt::Debug for SnapshotPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SnapshotPart")
    }
}

/// What a cut collects.
#[derive(Debug)]
pub struct CutParts {
    /// The checkpoint.
    pub id: CheckpointId,
    /// The newest checkpoint known complete.
    pub base: Option<CheckpointId>,
    /// It is a savepoint: no later checkpoint may build on it.
    pub savepoint: bool,
    /// State is written self-describing.
    pub canonical: bool,
    /// What stands unread in the chain is in-flight data of this snapshot.
    pub capture_remainders: bool,
    /// What was handed over so far.
    pub parts: Vec<SnapshotPart>,
}

/// One section of an older subtask that concerns the opened operator.
#[derive(Debug, Clone)]
pub struct RestoredSection {
    /// Which of the old subtasks wrote it.
    pub subtask: SubtaskIndex,
    /// What it is.
    pub head: SectionHead,
    /// Its payload.
    pub bytes: Bytes,
}

/// What an operator learns when it is opened.
#[derive(Debug)]
pub struct OpenContext {
    /// The operator.
    pub uid: OperatorUid,
    /// Its display name.
    pub name: Arc<str>,
    /// Which parallel copy this is.
    pub subtask: SubtaskIndex,
    /// How many there are.
    pub parallelism: Parallelism,
    /// Key groups of the job.
    pub max_parallelism: MaxParallelism,
    /// How many there were when the restored snapshot was taken.
    pub old_parallelism: Option<Parallelism>,
    /// Sections of the restored snapshot for this operator, of all old subtasks that may matter.
    pub restored: Vec<RestoredSection>,
    /// After a change of parallelism: which watermark the owners of these hashes had reached. What was late for
    /// a key stays late, and what was due is due, although the subtask's own watermark is lower.
    pub watermark_floors: Vec<(HashRange, EventTime)>,
    /// How many restores lie behind this attempt.
    pub generation: tidegate_types::Generation,
    /// Processing time.
    pub wall_ms: EventTime,
    /// Wakes the task; sources hand it to whoever delivers records.
    pub signal: Arc<TaskSignal>,
    /// What holds where the program says nothing.
    pub defaults: OperatorDefaults,
}

impl OpenContext {
    /// Whether the job was restored from a snapshot that knows this operator.
    pub fn is_restored(&self) -> bool {
        self.old_parallelism.is_some()
    }

    /// The key hashes this subtask owns.
    pub fn hash_range(&self) -> Option<HashRange> {
        tidegate_types::key_group::hash_range(self.subtask, self.max_parallelism, self.parallelism)
    }

    /// Takes the restored sections of one kind.
    pub fn take(&mut self, mut is: impl FnMut(&SectionKind) -> bool) -> Vec<RestoredSection> {
        let (taken, rest) = std::mem::take(&mut self.restored)
            .into_iter()
            .partition(|s: &RestoredSection| is(&s.head.kind));
        self.restored = rest;
        taken
    }
}
