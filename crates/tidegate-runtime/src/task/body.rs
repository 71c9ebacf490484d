//! The inputs of a task together with its chain, without their types.

use std::time::Duration;

use tidegate_protocol::barrier::BarrierEvent;
use tidegate_types::{Barrier, ChannelIndex, CheckpointId, EdgeKind, Generation, Nanos};

use crate::chain::{Chain, Pass, SnapshotPart};
use crate::error::OpError;

/// What [`Body::take`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyTaken {
    /// Nothing, until the task is woken or this time.
    Nothing(Option<Nanos>),
    /// There may be something, and the outputs have no room for it.
    Full,
    /// There may be something, and the pass has to end.
    Yield,
    /// Something that now stands in the chain: so many records, or an event.
    Element(u64),
    /// A barrier was reached.
    Barrier(ChannelIndex, Barrier),
    /// A channel's end was reached; it stands in the chain.
    End(ChannelIndex),
}

/// Inputs and chain of a task. Channels are numbered over all gates.
pub trait Body: Send {
    /// The kind of each channel.
    fn kinds(&self) -> Vec<EdgeKind>;

    /// The chain.
    fn chain(&mut self) -> &mut dyn Chain;

    /// Whether nothing stands in the chain.
    fn chain_is_empty(&self) -> bool;

    /// Learns how many restores lie behind the attempt, before anything is taken.
    fn set_generation(&mut self, generation: Generation);

    /// Records one pass may take.
    fn pass_limit(&self) -> usize;

    /// Takes one element from the inputs into the chain. Only called when nothing stands in the chain.
    ///
    /// # Errors
    /// When a source fails.
    fn take(&mut self, pass: &mut Pass<'_>) -> Result<BodyTaken, OpError>;

    /// What was announced since the last call.
    fn announcements(&mut self, now: Nanos, into: &mut Vec<BarrierEvent>);

    /// Records that were taken have left the chain if that is empty now.
    fn give_back(&mut self);

    /// The task was busy so long with so many records.
    fn on_busy(&mut self, busy: Duration, records: u64);

    /// All inputs have ended and nothing of them stands in the chain.
    fn has_ended(&self) -> bool;

    /// Once ended: whether for good. False if the job is being stopped to go on later.
    fn ends_for_good(&self) -> bool;

    /// Records queued and the capacity, over all gates.
    fn fill(&self) -> (u64, u64);

    /// Stops reading a channel.
    fn block(&mut self, channel: ChannelIndex);

    /// Reads a channel again.
    fn release(&mut self, channel: ChannelIndex);

    /// Starts recording a channel.
    fn begin_capture(&mut self, id: CheckpointId, channel: ChannelIndex);

    /// Lets a barrier overtake.
    fn overtake(&mut self, id: CheckpointId, channel: ChannelIndex);

    /// Records up to the channel's queued end.
    fn capture_rest(&mut self, id: CheckpointId, channel: ChannelIndex);

    /// Ends recording a channel.
    fn end_capture(&mut self, id: CheckpointId, channel: ChannelIndex);

    /// Drops what was recorded.
    fn drop_captures(&mut self, id: CheckpointId);

    /// Hands over what was recorded.
    fn take_captures(&mut self, id: CheckpointId) -> Vec<SnapshotPart>;

    /// Estimated encoded bytes of `records` records of the inputs.
    fn estimate_bytes(&self, records: u64) -> u64;

    /// The source in this task, if it has one.
    fn source(&mut self) -> Option<&mut dyn SourceControl>;

    /// Takes the gates out of service: the attempt is over.
    fn revoke(&self) -> Box<dyn Fn() + Send + Sync>;
}

/// What the job master can tell a source.
pub trait SourceControl {
    /// Splits were assigned.
    ///
    /// # Errors
    /// When one can't be opened.
    fn assign(&mut self, splits: &[bytes::Bytes]) -> Result<(), OpError>;

    /// There will be no more splits.
    fn no_more_splits(&mut self);

    /// Stops emitting, for a while.
    fn pause(&mut self);

    /// Goes on emitting.
    fn resume(&mut self);

    /// Ends, as if all splits were read.
    fn stop(&mut self, drain: bool);

    /// Whether what it would emit next are records, not its end.
    fn is_reading(&self) -> bool;

    /// Whether it wants another split now. True once per want.
    fn wants_split(&mut self) -> bool;

    /// See [`SplitReader::hold_for_cut`](crate::source::SplitReader::hold_for_cut).
    fn hold_for_cut(&mut self) -> bool;

    /// See [`SplitReader::release_after_cut`](crate::source::SplitReader::release_after_cut).
    fn release_after_cut(&mut self);

    /// A request for a split that wasn't answered is to be made again: the answer died with whoever was asked.
    fn ask_again(&mut self);

    /// The source operator.
    fn uid(&self) -> &tidegate_types::OperatorUid;
}
