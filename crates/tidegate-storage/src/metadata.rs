//! The `_metadata` object: the decision on one checkpoint, and all that a restore needs to know.
//!
//! Owns: [`DecisionObject`] with its two outcomes, the description of a completed checkpoint
//! ([`CheckpointMetadata`]), and their bytes: a checksummed frame around MessagePack with named fields, so that
//! later versions add fields with defaults. Format: `docs/formats.md`, "_metadata".
//!
//! Does not own: when such an object is written ([`crate::decision`]) or what a section's payload means.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidegate_types::snapshot::{Location, Section, SubtaskSnapshot, SubtaskStats};
use tidegate_types::{
    CheckpointId, CheckpointKind, EdgeKind, InputIndex, JobId, LeaderEpoch, MaxParallelism, OperatorUid,
    Parallelism, VertexId,
};

use crate::error::Problem;
use crate::frame;
use crate::nonce::Nonce;

/// What a `_metadata` object begins with.
pub const MAGIC: [u8; 8] = *b"TIDEMETA";
/// The version that is written, and the newest that is read.
pub const VERSION: u16 = 1;
/// The largest `_metadata` that is written or read: inline state is limited to 16 MB by default, the rest are
/// descriptions of sections. A larger one means an absurd job or a damaged store.
pub const MAX_BYTES: u64 = 512 << 20;
/// How deep the body may nest; what is written stays far below, and a decoder's stack is bounded by it.
const MAX_DEPTH: usize = 256;

/// The decision on one checkpoint, as it stands in the store for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionObject {
    /// Which checkpoint, of which job, by whom.
    pub header: DecisionHeader,
    /// What was decided.
    pub decision: Decision,
}

/// What every decision bears.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionHeader {
    /// The job.
    pub job: JobId,
    /// The checkpoint that is decided.
    pub id: CheckpointId,
    /// The leader that decided it.
    pub epoch: LeaderEpoch,
    /// That leader's nonce: the same in all of its decisions and in nobody else's.
    pub nonce: Nonce,
    /// The newest complete checkpoint below this id when it was decided. Ids are decided in order, so this is
    /// exact, and a new leader finds the newest complete checkpoint by reading two objects.
    pub newest_complete: Option<CheckpointId>,
}

/// The outcome of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// It is complete: every byte that it names was durable before this was written.
    Complete(Box<CheckpointMetadata>),
    /// It will never complete.
    Aborted(AbortCause),
}

/// Why an id was decided as aborted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AbortCause {
    /// A new leader took the id to fence older ones. Such an object is never deleted.
    Claim,
    /// The job's checkpoints were given up (cancelled with deletion): every lower complete one is garbage. Never
    /// deleted either, so ids and epochs go on from here.
    Closed,
    /// The checkpoint failed or was overtaken by a newer one.
    Failed {
        /// A named reason, as in the checkpoint history.
        reason: String,
        /// The particulars.
        detail: String,
    },
}

impl AbortCause {
    /// Whether the object stays for ever.
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Claim | Self::Closed)
    }

    /// The reason in words.
    pub fn text(&self) -> String {
        match self {
            Self::Claim => "a new leader took its id".to_owned(),
            Self::Closed => "the job's checkpoints were deleted".to_owned(),
            Self::Failed { reason, detail } if detail.is_empty() => reason.clone(),
            Self::Failed { reason, detail } => format!("{reason}: {detail}"),
        }
    }
}

/// Which line of a job's history a checkpoint belongs to. Restoring an older checkpoint than what was committed
/// starts a new one; names of committed output carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LineageId(pub u64);

/// A completed checkpoint or savepoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointMetadata {
    /// Checkpoint or savepoint.
    pub kind: CheckpointKind,
    /// Of a savepoint: where its own copy stands (as opened by [`crate::StoreDir::open`]). Information only in
    /// the copy itself, which may have been moved.
    pub savepoint: Option<String>,
    /// When it was triggered, in milliseconds since the Unix epoch on the coordinator's clock. For people.
    pub triggered_at_ms: i64,
    /// When it was decided, likewise.
    pub completed_at_ms: i64,
    /// How many key groups its keys fall into.
    pub max_parallelism: MaxParallelism,
    /// Every operator of the job.
    pub operators: Vec<OperatorMeta>,
    /// What the subtasks stored.
    pub subtasks: Vec<SubtaskSnapshot>,
    /// What the coordinator stored: enumerators, committables that weren't committed yet.
    pub master: Vec<Section>,
    /// The checkpoints that still stand besides this one. What is older and not among them is garbage.
    pub retained: Vec<CheckpointId>,
    /// The line of history it belongs to.
    pub lineage: LineageId,
    /// What the subtasks measured, in sum.
    pub stats: StatsSummary,
}

impl CheckpointMetadata {
    /// Every section, the subtasks' first.
    pub fn sections(&self) -> impl Iterator<Item = &Section> {
        self.subtasks
            .iter()
            .flat_map(|subtask| &subtask.sections)
            .chain(&self.master)
    }

    /// Every section, to change.
    pub fn sections_mut(&mut self) -> impl Iterator<Item = &mut Section> {
        self.subtasks
            .iter_mut()
            .flat_map(|subtask| &mut subtask.sections)
            .chain(&mut self.master)
    }

    /// Bytes of state inside this object.
    pub fn inline_bytes(&self) -> u64 {
        self.sections()
            .map(|section| match &section.location {
                Location::Inline(bytes) => bytes.len() as u64,
                Location::File { .. } => 0,
            })
            .sum()
    }

    /// Bytes of state here and in files.
    pub fn state_bytes(&self) -> u64 {
        self.sections().map(|section| section.location.size_bytes()).sum()
    }
}

/// One operator as it was at the checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorMeta {
    /// Its identity.
    pub uid: OperatorUid,
    /// Its name, for people.
    pub name: String,
    /// How many subtasks it had.
    pub parallelism: Parallelism,
    /// The chain it ran in.
    pub vertex: VertexId,
    /// Its place in that chain, from 0 at the head.
    pub position: u32,
    /// Whether its subtasks had finished.
    pub finished: Finished,
    /// Its incoming edges; in-flight records are addressed to them.
    #[serde(default)]
    pub inputs: Vec<InputMeta>,
}

/// One incoming edge of an operator as it was at the checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputMeta {
    /// Which input.
    pub input: InputIndex,
    /// Who produced into it.
    pub producer: OperatorUid,
    /// How many subtasks the producer had.
    pub producer_parallelism: Parallelism,
    /// What a barrier may do there.
    pub kind: EdgeKind,
    /// How records were spread: `forward`, `hash`, `rebalance`, …
    pub partitioner: String,
}

/// How much of an operator had finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Finished {
    /// No subtask.
    #[default]
    No,
    /// Some subtasks: a restore runs all again with what is left.
    Partly,
    /// All: a restore runs none of it.
    Fully,
}

/// What the subtasks measured, in sum or at most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatsSummary {
    /// Subtasks that acknowledged.
    pub subtasks: u32,
    /// The longest from the trigger until all was durable.
    pub end_to_end: Duration,
    /// The longest from the trigger to the first barrier.
    pub start_delay: Duration,
    /// The longest alignment.
    pub alignment: Duration,
    /// The longest cut.
    pub sync: Duration,
    /// The longest asynchronous part.
    pub asynchronous: Duration,
    /// Bytes of operator state.
    pub state_bytes: u64,
    /// Bytes of in-flight data.
    pub persisted_bytes: u64,
    /// Records of in-flight data.
    pub persisted_records: u64,
}

impl StatsSummary {
    /// Adds what one subtask measured.
    pub fn add(&mut self, stats: &SubtaskStats) {
        self.subtasks += 1;
        self.end_to_end = self.end_to_end.max(stats.end_to_end);
        self.start_delay = self.start_delay.max(stats.start_delay);
        self.alignment = self.alignment.max(stats.alignment);
        self.sync = self.sync.max(stats.sync);
        self.asynchronous = self.asynchronous.max(stats.asynchronous);
        self.state_bytes = self.state_bytes.saturating_add(stats.state_bytes);
        self.persisted_bytes = self.persisted_bytes.saturating_add(stats.persisted_bytes);
        self.persisted_records = self.persisted_records.saturating_add(stats.persisted_records);
    }
}

impl DecisionObject {
    /// Whether it was written by the same leader as `other`.
    pub fn same_leader(&self, epoch: LeaderEpoch, nonce: Nonce) -> bool {
        self.header.epoch == epoch && self.header.nonce == nonce
    }

    /// The completed checkpoint, unless it was aborted.
    pub fn complete(&self) -> Option<&CheckpointMetadata> {
        match &self.decision {
            Decision::Complete(metadata) => Some(metadata),
            Decision::Aborted(_) => None,
        }
    }

    /// Its bytes.
    ///
    /// # Errors
    /// [`Problem::TooLarge`] beyond [`MAX_BYTES`]; [`Problem::Bug`] if the encoder refuses.
    pub fn encode(&self) -> Result<Bytes, Problem> {
        let body =
            rmp_serde::to_vec_named(self).map_err(|error| Problem::Bug(format!("encoding: {error}")))?;
        let framed = frame::seal(MAGIC, VERSION, &body);
        match framed.len() as u64 {
            size if size > MAX_BYTES => Err(Problem::TooLarge {
                size,
                limit: MAX_BYTES,
            }),
            _ => Ok(framed.into()),
        }
    }

    /// Reads it back. Takes any bytes.
    ///
    /// # Errors
    /// [`Problem::Corrupt`], or [`Problem::FutureVersion`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Problem> {
        let body = frame::open(MAGIC, VERSION, bytes)?;
        let mut deserializer = rmp_serde::Deserializer::from_read_ref(body);
        deserializer.set_max_depth(MAX_DEPTH);
        Self::deserialize(&mut deserializer).map_err(|error| Problem::Corrupt {
            detail: format!("its body can't be read: {error}"),
        })
    }
}
