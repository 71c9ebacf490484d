//! What becomes of a subtask's snapshots after the barrier handler said "cut": the race between preparing,
//! writing, the coordinator's decision and a new leader, per checkpoint.
//!
//! Owns: whether the cut still takes place, when everything is collected and may be written, what is
//! acknowledged or declined (once), which files go when a checkpoint is off, and the acknowledgements until
//! their checkpoint is decided ([`SubtaskSnapshots`]). Does not own: when to cut ([`crate::barrier`]), operators
//! and state, encoding and writing (the driver's pool), the decision itself ([`crate::coordinator`]).
//!
//! The rule about files: those of a snapshot that was never acknowledged are known to nobody else, so they are
//! deleted as soon as it is off. Once acknowledged they may be part of a complete checkpoint, so they go only
//! when the coordinator says that this one is aborted, which it does after that is durable.
//!
//! The writer acknowledges by itself, so that a checkpoint doesn't wait for the record that the task is at. What the
//! coordinator says about it comes later than the news of the write, because the writer queues that first; only a
//! barrier's `oldest_pending` may overtake it. Then nobody here knows how the checkpoint came out, and its files stay.

mod machine;
mod times;

use std::time::Duration;

use tidegate_types::snapshot::{SubtaskSnapshot, SubtaskStats};
use tidegate_types::{Barrier, CheckpointId};

use crate::barrier::Cut;
use crate::message::DeclineReason;

pub use machine::{REOFFER_EVERY, SubtaskSnapshots};
pub use times::CutTimes;

/// What the machine is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotEvent {
    /// The barrier handler said "cut".
    Begin(Cut),
    /// An operator refused in its prepare step; the barrier isn't forwarded.
    PrepareRefused {
        /// The checkpoint.
        id: CheckpointId,
        /// The operator's error.
        detail: String,
    },
    /// Prepared, barrier forwarded, cut taken.
    CutTaken {
        /// The checkpoint.
        id: CheckpointId,
        /// What is still to be collected: one for the captures of the input side
        /// ([`BarrierAction::AllBarriersIn`](crate::barrier::BarrierAction::AllBarriersIn)), one per operator whose
        /// state is being swept, one per output whose barrier may still overtake.
        parts: u32,
        /// What was measured.
        measured: CutMeasured,
    },
    /// One of those parts is collected. That of the input side may come before [`Self::CutTaken`].
    PartDone(CheckpointId),
    /// A barrier overtook on an output after the cut: the subtask counts as unaligned.
    OutputOvertook(CheckpointId),
    /// The write that [`SnapshotAction::StartWrite`] asked for has ended, and is acknowledged already if it went
    /// well and wasn't cancelled.
    WriteDone {
        /// The checkpoint.
        id: CheckpointId,
        /// What is durable now, or why nothing is.
        result: Result<Box<Written>, WriteFailed>,
    },
    /// The barrier handler declines, before or after the cut.
    Declined {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        reason: DeclineReason,
        /// The particulars.
        detail: String,
    },
    /// By message: the checkpoint is aborted, durably, and everything below `oldest_pending` is decided.
    Aborted {
        /// The checkpoint.
        id: CheckpointId,
        /// The lowest id not yet decided.
        oldest_pending: CheckpointId,
    },
    /// By message: the checkpoint is complete, and everything below `oldest_pending` is decided.
    Completed {
        /// The checkpoint.
        id: CheckpointId,
        /// The lowest id not yet decided.
        oldest_pending: CheckpointId,
    },
    /// By message: another coordinator leads now and knows nothing of what was acknowledged.
    Reoffer,
    /// Time has passed; see [`SubtaskSnapshots::next_tick`].
    Tick,
}

/// What the task thread measured while it cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CutMeasured {
    /// Running the chain empty before the cut.
    pub chain_delay: Duration,
    /// Finishing a record in progress before the cut.
    pub record_delay: Duration,
    /// The cut itself.
    pub sync: Duration,
    /// Whether remainders in the chain or queued output were captured: the subtask counts as unaligned.
    pub overtook: bool,
}

/// A snapshot whose every byte is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// What is stored and where; its sections may lie in files of earlier checkpoints.
    pub snapshot: SubtaskSnapshot,
    /// Everything that was measured, as it was acknowledged.
    pub stats: SubtaskStats,
    /// The files that this write made, and nobody else refers to.
    pub files: Vec<String>,
    /// Whether the writer acknowledged it to the coordinator. If not, it was cancelled before.
    pub acknowledged: bool,
}

/// A write that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteFailed {
    /// The error, in words.
    pub detail: String,
    /// Files that it left behind.
    pub files: Vec<String>,
}

/// How a checkpoint came out, for operators and state. A hint: it may be late, and may not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is complete and durable.
    Completed,
    /// It will never be complete.
    Aborted,
    /// It is decided, but nobody told this subtask how. To be treated as aborted wherever that only costs work.
    Unknown,
}

/// What the driver has to do, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotAction {
    /// Prepare the operators, forward this barrier, cut; then say [`SnapshotEvent::CutTaken`] (or
    /// [`SnapshotEvent::PrepareRefused`]) unless [`Self::Settle`] comes first.
    Proceed(Barrier),
    /// Send a cancel marker downstream, in the place of a barrier that hasn't left.
    ForwardCancel(CheckpointId),
    /// Everything is collected: encode and write it on the pool. Once it is durable, whoever wrote it queues
    /// [`SnapshotEvent::WriteDone`] for the machine and then acknowledges, in this order and without waiting for the
    /// task: a record in progress may take long.
    StartWrite {
        /// The checkpoint.
        id: CheckpointId,
        /// The times of the statistics that go with the acknowledgement.
        times: Box<CutTimes>,
    },
    /// The write is pointless now and may stop early. Unless it was acknowledged already it mustn't be any more.
    /// [`SnapshotEvent::WriteDone`] must come all the same.
    CancelWrite(CheckpointId),
    /// The writer has told the coordinator that everything is durable; nothing is left to send.
    Acknowledged {
        /// The checkpoint.
        id: CheckpointId,
        /// What is stored and where.
        snapshot: SubtaskSnapshot,
    },
    /// Tell the coordinator once more that everything is durable.
    AcknowledgeAgain {
        /// The checkpoint.
        id: CheckpointId,
        /// What is stored and where.
        snapshot: SubtaskSnapshot,
        /// What was measured.
        stats: SubtaskStats,
    },
    /// Tell the coordinator that this subtask can't take part.
    Decline {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        reason: DeclineReason,
        /// The particulars.
        detail: String,
    },
    /// Delete these files of a snapshot that no checkpoint names.
    DeleteFiles {
        /// The checkpoint.
        id: CheckpointId,
        /// Their paths.
        files: Vec<String>,
    },
    /// Tell operators and state how it came out, and drop what is held for it: a preparation, sweeps, captures.
    Settle(CheckpointId, Outcome),
}
