//! Why checkpoints fail, and how many the job survives: policy, apart from the machine.
//!
//! Owns: the named reasons with what to do about each, which of them count, and the count.
//! Does not own: aborting (`abort.rs`), what a task says when it declines ([`DeclineReason`]).

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_types::{CheckpointId, SubtaskId};

use crate::message::DeclineReason;

/// Why a checkpoint failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FailureReason {
    /// An operator refused in its prepare step.
    PrepareRefused,
    /// Encoding or writing a subtask's state failed.
    AsyncFailed,
    /// It wasn't ready to be decided within the timeout.
    Expired,
    /// The decision could not be written.
    MetadataWriteFailed,
    /// A split enumerator's state could not be taken.
    EnumeratorFailed,
    /// The external phase of a quiesced checkpoint failed.
    ExternalPhaseFailed,
    /// The savepoint's own directory could not be made.
    SavepointCopyFailed,
    /// The tasks stood still for as long as they may.
    QuiesceLimit,
    /// A task wasn't running.
    NotReady,
    /// A newer checkpoint was ready first.
    Subsumed,
    /// A cancel marker came in the place of a barrier, and who sent it hasn't said why.
    CancelMarker,
    /// An input ended without a barrier and without being finished.
    InputEnded,
    /// A task heard of an abort that the coordinator doesn't know of.
    AbortedByTask,
    /// A task failed, and with it the attempt.
    TaskFailed,
    /// The attempt was stopped.
    JobStopped,
    /// Another leadership took over.
    Deposed,
    /// An earlier leadership triggered it and didn't live to decide it.
    Takeover,
    /// A sink waits for a checkpoint to commit, and the job has no store for one.
    NoStorage,
}

impl FailureReason {
    /// Whether it counts against the tolerance: something went wrong with the checkpoint itself.
    pub fn counts(self) -> bool {
        match self {
            Self::PrepareRefused
            | Self::AsyncFailed
            | Self::Expired
            | Self::MetadataWriteFailed
            | Self::EnumeratorFailed
            | Self::ExternalPhaseFailed
            | Self::SavepointCopyFailed
            | Self::QuiesceLimit => true,
            Self::NotReady
            | Self::Subsumed
            | Self::CancelMarker
            | Self::InputEnded
            | Self::AbortedByTask
            | Self::TaskFailed
            | Self::JobStopped
            | Self::Deposed
            | Self::Takeover
            | Self::NoStorage => false,
        }
    }

    /// Whether it is only an echo of a failure elsewhere, whose own report may still come and then stands.
    pub fn is_echo(self) -> bool {
        match self {
            Self::CancelMarker | Self::InputEnded | Self::AbortedByTask => true,
            Self::PrepareRefused
            | Self::AsyncFailed
            | Self::Expired
            | Self::MetadataWriteFailed
            | Self::EnumeratorFailed
            | Self::ExternalPhaseFailed
            | Self::SavepointCopyFailed
            | Self::QuiesceLimit
            | Self::NotReady
            | Self::Subsumed
            | Self::TaskFailed
            | Self::JobStopped
            | Self::Deposed
            | Self::Takeover
            | Self::NoStorage => false,
        }
    }

    /// The reason in words, as the history and logs show it.
    pub fn message(self) -> &'static str {
        match self {
            Self::PrepareRefused => "an operator refused the snapshot",
            Self::AsyncFailed => "the state could not be encoded or written",
            Self::Expired => "the checkpoint expired before completing",
            Self::MetadataWriteFailed => "the checkpoint's metadata could not be written",
            Self::EnumeratorFailed => "a split enumerator's state could not be taken",
            Self::ExternalPhaseFailed => "the external phase failed",
            Self::SavepointCopyFailed => "the savepoint's directory could not be written",
            Self::QuiesceLimit => "the job could not be brought to rest within the limit",
            Self::NotReady => "a task was not running",
            Self::Subsumed => "a newer checkpoint was complete first",
            Self::CancelMarker => "a task upstream gave the checkpoint up",
            Self::InputEnded => "an input ended without a barrier",
            Self::AbortedByTask => "a task had given the checkpoint up",
            Self::TaskFailed => "a task failed",
            Self::JobStopped => "the job was stopped",
            Self::Deposed => "another coordinator has taken over",
            Self::Takeover => "its coordinator died before it was decided",
            Self::NoStorage => "there is no checkpoint storage",
        }
    }

    /// What a person can do about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::PrepareRefused => {
                "Look at the operator's error; an operator may refuse while a request of its own is pending."
            }
            Self::AsyncFailed => {
                "Check that the checkpoint directory is writable and has space from this subtask's machine."
            }
            Self::Expired => {
                "Look at which subtasks were missing and at their start delay, alignment and asynchronous times. Under \
                 backpressure use execution.checkpointing.unaligned; if writing takes long, raise \
                 execution.checkpointing.timeout or take snapshots incrementally."
            }
            Self::MetadataWriteFailed => {
                "Check that the checkpoint directory is reachable, writable and has space from the job manager."
            }
            Self::EnumeratorFailed => {
                "Look at the source's error; its enumerator runs beside the job manager."
            }
            Self::ExternalPhaseFailed => "Look at the error of the snapshot source named.",
            Self::SavepointCopyFailed => {
                "Check that the savepoint directory exists, is writable and has space, then ask again."
            }
            Self::QuiesceLimit => {
                "Look at the channel or subtask named: it did not come to rest. Raise the limit, or speed it up."
            }
            Self::NotReady => "Ask again once all tasks run.",
            Self::Subsumed => "Nothing to do; if it happens often, raise execution.checkpointing.interval.",
            Self::CancelMarker | Self::InputEnded | Self::AbortedByTask => {
                "Look at the failures of the subtasks upstream of this one."
            }
            Self::TaskFailed => {
                "Look at the task's error; the job goes on from its newest complete checkpoint."
            }
            Self::JobStopped => "Nothing to do.",
            Self::Deposed => "Ask the job manager that leads now.",
            Self::Takeover => "Nothing to do; the next checkpoint replaces it.",
            Self::NoStorage => "Set execution.checkpointing.dir, or use a sink that needs no commit.",
        }
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl From<DeclineReason> for FailureReason {
    fn from(reason: DeclineReason) -> Self {
        match reason {
            DeclineReason::NotReady => Self::NotReady,
            DeclineReason::PrepareRefused => Self::PrepareRefused,
            DeclineReason::AsyncFailed => Self::AsyncFailed,
            DeclineReason::CancelMarker => Self::CancelMarker,
            DeclineReason::Subsumed => Self::Subsumed,
            DeclineReason::QuiesceLimit => Self::QuiesceLimit,
            DeclineReason::InputEnded => Self::InputEnded,
            DeclineReason::Aborted => Self::AbortedByTask,
        }
    }
}

/// One failed checkpoint, in the history and in answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRecord {
    /// The checkpoint; `None` if it never got an id.
    pub id: Option<CheckpointId>,
    /// Why.
    pub reason: FailureReason,
    /// Where, if one subtask is to blame.
    pub subtask: Option<SubtaskId>,
    /// The particulars: an error's text, the subtasks that were missing.
    pub detail: String,
    /// Whether it counted against the tolerance.
    pub counted: bool,
}

impl FailureRecord {
    /// What a person can do about it.
    pub fn remedy(&self) -> &'static str {
        self.reason.remedy()
    }
}

impl fmt::Display for FailureRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(id) = self.id {
            write!(f, "checkpoint {id}: ")?;
        }
        write!(f, "{}", self.reason)?;
        if let Some(subtask) = self.subtask {
            write!(f, " at {subtask}")?;
        }
        if !self.detail.is_empty() {
            // An error's text may be whole sentences.
            write!(f, ": {}", self.detail.trim_end_matches('.'))?;
        }
        write!(f, ". {}", self.remedy())
    }
}

/// Counts failures in a row against what the job tolerates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tolerance {
    tolerable: u32,
    in_a_row: u32,
}

impl Tolerance {
    pub(super) fn new(tolerable: u32) -> Self {
        Self {
            tolerable,
            in_a_row: 0,
        }
    }

    /// One more counted failure; whether that is one too many.
    #[must_use]
    pub(super) fn failed(&mut self) -> bool {
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.in_a_row > self.tolerable
    }

    pub(super) fn succeeded(&mut self) {
        self.in_a_row = 0;
    }

    pub(super) fn in_a_row(&self) -> u32 {
        self.in_a_row
    }
}
