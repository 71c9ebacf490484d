//! What one subtask contributes to a snapshot: sections of bytes, addressed by operator, kind and name.
//!
//! Everything that is stored (keyed state, timers, list state, watermarks, source positions, in-flight
//! records, what a sink prepared) is a [`Section`]. A section's bytes stand in the subtask's file or, when
//! they are few, inside `_metadata`. Owners of a kind define the payload; this module knows addresses only.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::barrier::SnapshotMode;
use crate::ids::{Generation, InputIndex, OperatorUid, SubtaskId, SubtaskIndex};
use crate::key_group::HashRange;
use crate::shape::Shape;

/// What a section holds, and by that how it is handed out on restore.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SectionKind {
    /// One keyed state in hash order; new subtasks read what intersects their range.
    Keyed,
    /// Timers, a keyed table too.
    Timers,
    /// Operator list state: entries are dealt out over the new subtasks.
    ListSplit,
    /// Operator list state: every new subtask gets all entries.
    ListUnion,
    /// Broadcast state: every new subtask gets one copy.
    Broadcast,
    /// User bytes of an operator, per subtask; every new subtask gets all old ones.
    Raw,
    /// A named snapshot source; restore receives all old subtasks' values.
    Named,
    /// An operator's watermark, its channels' watermarks and activities.
    Watermarks,
    /// A watermark generator's state.
    Generator,
    /// A source reader's splits with their positions.
    Splits,
    /// A split enumerator's state (coordinator side, one per source).
    Enumerator,
    /// What a two-phase sink prepared at this checkpoint.
    Committables,
    /// Records, watermarks and status changes that a barrier overtook, in order.
    InFlight(ChannelAddress),
}

impl SectionKind {
    /// Whether it stays readable once its subtask has finished: what others may ask for, in small parts. Keyed tables
    /// and timers of a finished subtask are of no use to anybody.
    pub fn outlives_its_subtask(&self) -> bool {
        match self {
            Self::Keyed | Self::Timers | Self::InFlight(_) => false,
            Self::ListSplit
            | Self::ListUnion
            | Self::Broadcast
            | Self::Raw
            | Self::Named
            | Self::Watermarks
            | Self::Generator
            | Self::Splits
            | Self::Enumerator
            | Self::Committables => true,
        }
    }
}

/// Where in-flight elements belong: to an input of an operator, never to a task or chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChannelAddress {
    /// Which incoming edge of the consuming operator.
    pub input: InputIndex,
    /// After how many restores they were captured first; lower ones are delivered first.
    pub generation: Generation,
    /// Producer subtask at capture.
    pub producer: SubtaskIndex,
    /// Consumer subtask at capture.
    pub consumer: SubtaskIndex,
}

/// How a section's payload is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Encoding {
    /// Compact; readable only with the same shape.
    Native,
    /// Self-describing with named fields.
    Canonical,
    /// The owner's own bytes.
    Raw,
}

/// Where a section's bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Location {
    /// Inside `_metadata`.
    Inline(Bytes),
    /// In a file of the checkpoint directory (path relative to the job's directory).
    File {
        /// Relative path, `chk-<n>/<name>`.
        path: String,
        /// First byte of the section.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
}

impl Location {
    /// Length in bytes.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::File { len, .. } => *len,
        }
    }
}

/// The description of one piece of stored state; its bytes are elsewhere ([`Location`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionHead {
    /// The operator it belongs to.
    pub uid: OperatorUid,
    /// What it is.
    pub kind: SectionKind,
    /// State name, source name, …; empty where the kind says it all.
    pub name: String,
    /// The hashes that a keyed section covers.
    pub hashes: Option<HashRange>,
    /// How its payload is encoded.
    pub encoding: Encoding,
    /// Key, value, … types as they were when it was written (native sections).
    pub shapes: Vec<Shape>,
    /// Entries or records inside.
    pub records: u64,
}

/// A stored piece of state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// What it is.
    pub head: SectionHead,
    /// CRC-32C over its bytes.
    pub crc: u32,
    /// Where its bytes are.
    pub location: Location,
}

impl Section {
    /// A section whose bytes travel inside `_metadata`.
    pub fn inline(head: SectionHead, bytes: Bytes) -> Self {
        Self {
            head,
            crc: crc32c::crc32c(&bytes),
            location: Location::Inline(bytes),
        }
    }
}

/// A piece of state before it is written: head and owned bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionBytes {
    /// What it is.
    pub head: SectionHead,
    /// The payload.
    pub bytes: Bytes,
}

/// All that one subtask stored for one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubtaskSnapshot {
    /// Whose it is.
    pub subtask: SubtaskId,
    /// Its pieces.
    pub sections: Vec<Section>,
    /// Operators of the chain that had finished: their state is readable, and never restored into a running
    /// subtask.
    pub finished: bool,
}

/// What a subtask measured about one checkpoint. Durations in nanoseconds on its own clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubtaskStats {
    /// From the trigger to the first barrier being handled here.
    pub start_delay: Duration,
    /// Part of the start delay spent running the chain empty.
    pub chain_delay: Duration,
    /// Part of the start delay spent on a record in progress (a suspended iterator run on).
    pub record_delay: Duration,
    /// From the first barrier to the cut.
    pub alignment: Duration,
    /// The cut: the time the task thread was held.
    pub sync: Duration,
    /// From the cut until everything was durable.
    pub asynchronous: Duration,
    /// From the trigger until everything was durable.
    pub end_to_end: Duration,
    /// Bytes of operator state written.
    pub state_bytes: u64,
    /// Bytes of in-flight data written.
    pub persisted_bytes: u64,
    /// Records of in-flight data written.
    pub persisted_records: u64,
    /// Bytes of records processed while aligning.
    pub processed_bytes: u64,
    /// Records processed while aligning.
    pub processed_records: u64,
    /// How this subtask did it: `Unaligned` if a barrier overtook here.
    pub mode: Option<SnapshotMode>,
    /// Persisted in-flight bytes and records by channel.
    pub channels: Vec<ChannelStats>,
}

/// In-flight data that was written for one channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelStats {
    /// Consuming operator.
    pub uid: OperatorUid,
    /// Which channel of it.
    pub address: ChannelAddress,
    /// Encoded bytes.
    pub bytes: u64,
    /// Records.
    pub records: u64,
}
