//! Barrier handling: when a task cuts its snapshot, which channels wait, and what in flight belongs to it.
//!
//! Owns: the decision, per task, what a barrier, a cancel marker or an end of input means for each pending
//! checkpoint ([`BarrierHandler`]). Does not own: the queues (the gate carries out [`BarrierAction`]s on them),
//! the snapshot itself (what happens after [`BarrierAction::Cut`] is [`crate::subtask`]'s), or which checkpoint
//! is triggered when (the coordinator).
//!
//! The rules are those of Chandy and Lamport's snapshot with four ways to treat a channel: block it, overtake
//! it, record it, or let it be. [`crate::oracle`] states what must hold, and `examples/barrier_search.rs` checks
//! it over every order of events of a small task. Read [`BarrierHandler`]'s "Driving it" next.

mod channel;
mod dead;
mod handler;
mod pending;

use std::time::Duration;

use tidegate_types::{Barrier, ChannelIndex, CheckpointId, SnapshotMode};

use crate::message::DeclineReason;

pub use handler::BarrierHandler;

/// What a handler is told. A barrier's age is that at delivery: whoever takes it out of a queue (or announces
/// it) has added the time it stood there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BarrierEvent {
    /// The barrier is reached: everything before it in its channel was taken, nothing after it.
    Barrier(ChannelIndex, Barrier),
    /// The barrier stands in its channel's queue. Said of every barrier, in the order of the channel. May come
    /// late: after other events, and even after the barrier was reached (it then says nothing new).
    Announced(ChannelIndex, Barrier),
    /// The barrier of this checkpoint will not come in this channel. Said as soon as the marker is known: it
    /// may stand behind anything, and may follow the barrier itself.
    Cancel(ChannelIndex, CheckpointId),
    /// The channel's end stands in its queue: no barrier follows what is queued. Optional; without it the
    /// capture of an ending channel lasts until the end is reached. A channel that only delivers restored
    /// records has this from the start.
    EndQueued(ChannelIndex),
    /// The channel's end is reached: everything in it was taken.
    End(ChannelIndex),
    /// By message: to a source, or to a task all of whose producers have finished. Like a barrier right behind
    /// the end of each channel.
    Triggered(Barrier),
    /// The time that [`BarrierAction::ArmTimeout`] asked for has passed. Stale ones are ignored, so nothing
    /// need be disarmed.
    AlignmentTimeout(CheckpointId),
    /// By message: the coordinator has aborted `id`, and everything below `oldest_pending` is decided.
    Aborted {
        /// The aborted checkpoint.
        id: CheckpointId,
        /// The lowest id not yet decided.
        oldest_pending: CheckpointId,
    },
    /// By message (a completion says it too): everything below this id is decided.
    OldestPending(CheckpointId),
}

/// What the driver has to do, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BarrierAction {
    /// Stop reading the channel.
    Block(ChannelIndex),
    /// Read the channel again.
    Release(ChannelIndex),
    /// Capture for the checkpoint what is queued in the channel (up to the checkpoint's barrier, if that is
    /// queued) and then what arrives, until one of the following three or [`Self::DropCaptures`].
    BeginCapture(CheckpointId, ChannelIndex),
    /// The checkpoint's barrier is queued: what stands before it and isn't captured yet is captured, the
    /// barrier is taken out of the queue, the capture ends.
    Overtake(CheckpointId, ChannelIndex),
    /// The channel's end is queued: what stands before it and isn't captured yet is captured, the capture ends.
    CaptureRest(CheckpointId, ChannelIndex),
    /// The barrier or the end is reached: everything before it was taken, so nothing is left to capture, and
    /// what is queued now isn't part of it. The capture ends.
    EndCapture(CheckpointId, ChannelIndex),
    /// The checkpoint is off: discard all that was captured for it, in whatever channel, open or ended.
    DropCaptures(CheckpointId),
    /// Come back with [`BarrierEvent::AlignmentTimeout`] after this time.
    ArmTimeout(CheckpointId, Duration),
    /// Take the snapshot and forward the barrier, before another record is taken from any channel.
    Cut(Cut),
    /// All barriers of the checkpoint are in: nothing is captured for it any more and its captures can be
    /// taken. Once per cut, unless the checkpoint is dropped first.
    AllBarriersIn(CheckpointId),
    /// Send a cancel marker downstream: this task will not forward the checkpoint's barrier, or has forwarded
    /// it and will not complete.
    ForwardCancel(CheckpointId),
    /// Tell the coordinator that this subtask can't take part. At most once per checkpoint.
    Decline {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        reason: DeclineReason,
        /// The particulars, in words.
        detail: String,
    },
}

/// How and when a task cuts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cut {
    /// The barrier to forward: its age is of now, its mode `Unaligned` if the checkpoint overtakes from here on.
    pub barrier: Barrier,
    /// How the input side did it: `Unaligned` if a barrier overtook here. Never `Adaptive`. (A task without
    /// channels says what the barrier asked for.)
    pub mode: SnapshotMode,
    /// From the trigger until the first barrier was handled here: reached, or let pass what stood before it.
    pub start_delay: Duration,
    /// From then until the cut.
    pub alignment: Duration,
}
