//! The handler: events in, actions out, over all channels of one task.
//!
//! Owns: its state, its documentation and what each event means ([`BarrierHandler::on_event`]). How a checkpoint
//! becomes pending and is given up is in [`admission`], when and how it is cut in [`cutting`].

mod admission;
mod cutting;
mod digest;

use tidegate_types::{Barrier, ChannelIndex, CheckpointId, EdgeKind, Nanos, SnapshotMode};

use crate::message::DeclineReason;

use super::channel::{Channel, Ending};
use super::dead::{DeadIds, Marker};
use super::pending::{Arrival, Pending, Progress, Urgency};
use super::{BarrierAction, BarrierEvent};

/// Decides for one task when its snapshots are cut and what in flight belongs to them.
///
/// # Driving it
///
/// 1. [`new`](Self::new) with the kind of each channel, all gates of the task flattened into one row. A source
///    has none.
/// 2. [`on_event`](Self::on_event) for everything that [`BarrierEvent`] lists, from the task's thread; then carry
///    out the actions appended to `out`, in order, before the next element is taken from any channel.
/// 3. On [`BarrierAction::Cut`]: prepare, forward the barrier, cut ([`crate::subtask`]). If that has to wait (a
///    chain to be run empty) the later actions may be carried out meanwhile, but nothing may be taken from a gate.
///
/// It needs no tick: the only thing it waits for is the time it asked for with [`BarrierAction::ArmTimeout`].
/// The cost of an event is that of a few comparisons per pending checkpoint; a cut goes over all channels once.
///
/// # What it does
///
/// *Aligned* blocks a channel when its barrier is reached, cuts when all are in, releases. *At-least-once* counts
/// and doesn't block. *Unaligned* cuts on the first announcement: what stands before queued barriers, and what
/// arrives until barriers not yet queued, is captured. *Adaptive* is aligned until its timeout since the trigger,
/// or until a barrier of it comes that overtook upstream. *Quiesce* is aligned, and declined at its limit.
///
/// - **Sealed channels** can't be overtaken. An unaligned cut waits until their barriers are reached; meanwhile
///   normal channels are read up to their barriers, and blocked there. Only at the cut do barriers overtake.
/// - **Feedback channels** are never waited for, and captured from the cut until their barrier returns, in every
///   mode. One whose barrier is reached *before* the cut is blocked until then: what follows it was made after
///   the cut upstream and must not get into the state here. It happens only if the loop's body converted to
///   unaligned on its own while a sealed channel holds up the cut here; the edge has no credit limit, so nobody
///   waits for it.
/// - **Several pending.** Barriers never pass barriers and cuts fall in the order of ids. An unaligned checkpoint
///   makes the uncut ones below it unaligned too, since its barrier can't overtake without theirs. It waits if
///   one of these must stay as it is: a savepoint that isn't itself unaligned, a quiesced or an at-least-once
///   one. So does an adaptive one whose time has come; both go on as soon as that one is cut here or given up.
///   (Its decision need not be awaited: after the cut here nothing below this task can convert it, because every
///   task below holds back likewise.)
/// - **Ends.** An ended channel counts as one whose barrier is in, blocks nothing, and has nothing to capture.
///   A trigger by message is a barrier behind the end of every channel.
///
/// # What is swallowed, and what downstream sees
///
/// A barrier is swallowed if its checkpoint is dead here, and for no other reason. A pending checkpoint dies by
/// a cancel marker, by an abort, when something says that a higher `oldest_pending` is reached, when a quiesce
/// limit passes, or when a channel brings a higher barrier without having brought its own: ids rise within a
/// channel, so its own will never come there. One that isn't pending yet is dead on arrival if it was aborted or
/// cancelled before, is below `oldest_pending` or below a cut already taken here, or was skipped by a channel.
///
/// Whatever a task has heard of, it passes on: for each id it forwards the barrier at the cut or, the first
/// time it knows that there will be none, a cancel marker; after a local failure behind the cut, both. So no
/// channel downstream waits for a task that has given up, even if the coordinator's hint is lost and the next
/// trigger far. It isn't left to the newer barrier's own `oldest_pending`: this task forwards that barrier only
/// when it cuts, which may be long after it knows, and a task with two inputs would keep the other one blocked
/// till then. Two cases need no marker: an abort by message after the cut (every task is told, and
/// [`crate::subtask`] sends one if the barrier hasn't left yet), and an abort by message of an id of which no
/// barrier or marker ever comes here.
///
/// The coordinator's leadership isn't looked at. Any initiator's barriers make a consistent cut, even two
/// initiators' under one id; fencing is by the envelope of messages, and the age of ids by `oldest_pending`.
///
/// # Panics
/// [`on_event`](Self::on_event) panics if the driver breaks the contract above: a channel that doesn't exist, an
/// element behind a channel's end or behind a block, ids that fall within a channel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BarrierHandler {
    channels: Vec<Channel>,
    /// By rising id; those that are cut stand before those that aren't.
    pending: Vec<Pending>,
    /// Everything up to here that isn't pending is over in this task.
    last_cut: CheckpointId,
    /// Everything below is decided.
    oldest_pending: CheckpointId,
    dead: DeadIds,
}

/// Why a pending checkpoint is given up.
enum Cause {
    /// The coordinator said so, and knows.
    Coordinator,
    /// Found out here; the coordinator is told.
    Local(DeclineReason, String),
}

impl BarrierHandler {
    /// A handler for a task whose channels have these kinds; none for a source.
    pub fn new(kinds: Vec<EdgeKind>) -> Self {
        Self {
            channels: kinds.into_iter().map(Channel::new).collect(),
            pending: Vec::new(),
            last_cut: CheckpointId(0),
            oldest_pending: CheckpointId(0),
            dead: DeadIds::default(),
        }
    }

    /// Checkpoints that this task has heard of and neither finished with nor given up, lowest first.
    pub fn pending(&self) -> impl Iterator<Item = CheckpointId> + '_ {
        self.pending.iter().map(Pending::id)
    }

    /// Whether the checkpoint waits for its cut here.
    pub fn is_collecting(&self, id: CheckpointId) -> bool {
        self.find(id)
            .is_some_and(|at| matches!(self.pending[at].progress, Progress::Collecting(_)))
    }

    /// Whether a reached barrier holds the channel.
    ///
    /// # Panics
    /// If there is no such channel.
    pub fn is_blocked(&self, channel: ChannelIndex) -> bool {
        self.channels[index(channel)].blocked.is_some()
    }

    /// Channels whose barrier the checkpoint still waits for: to cut, or to end their capture.
    pub fn missing(&self, id: CheckpointId) -> impl Iterator<Item = ChannelIndex> + '_ {
        let pending = self.find(id).map(|at| &self.pending[at]);
        self.channels
            .iter()
            .enumerate()
            .filter(move |(at, channel)| match pending.map(|p| &p.progress) {
                None => false,
                Some(Progress::Collecting(collecting)) => {
                    channel.kind != EdgeKind::Feedback && collecting.arrivals[*at] != Arrival::In
                }
                Some(Progress::Capturing(capturing)) => capturing.open[*at],
            })
            .map(|(at, _)| channel_index(at))
    }

    /// The highest checkpoint of which this task ever heard by a barrier, a trigger or an abort; 0 if none. A new
    /// coordinator uses none up to it.
    pub fn newest_seen(&self) -> CheckpointId {
        let channels = self.channels.iter().map(|c| c.newest).max().unwrap_or_default();
        let pending = self.pending.last().map(Pending::id).unwrap_or_default();
        let decided = CheckpointId(self.oldest_pending.0.saturating_sub(1));
        channels
            .max(pending)
            .max(decided)
            .max(self.last_cut)
            .max(self.dead.newest())
    }

    /// Takes note of an event and appends what is to be done about it.
    ///
    /// # Panics
    /// See the type's documentation.
    pub fn on_event(&mut self, now: Nanos, event: BarrierEvent, out: &mut Vec<BarrierAction>) {
        match event {
            BarrierEvent::Barrier(channel, barrier) => self.on_reached(now, index(channel), &barrier, out),
            BarrierEvent::Announced(channel, barrier) => {
                self.on_announced(now, index(channel), &barrier, out)
            }
            BarrierEvent::Cancel(channel, id) => self.on_cancel(index(channel), id, out),
            BarrierEvent::EndQueued(channel) => self.on_end_queued(index(channel), out),
            BarrierEvent::End(channel) => self.on_end(index(channel), out),
            BarrierEvent::Triggered(barrier) => self.on_triggered(now, &barrier, out),
            BarrierEvent::AlignmentTimeout(id) => self.on_timeout(id, out),
            BarrierEvent::Aborted { id, oldest_pending } => {
                self.on_aborted(id, out);
                self.raise_oldest_pending(oldest_pending, out);
            }
            BarrierEvent::OldestPending(id) => self.raise_oldest_pending(id, out),
        }
        self.advance(now, out);
        self.check();
    }

    fn on_announced(&mut self, now: Nanos, channel: usize, barrier: &Barrier, out: &mut Vec<BarrierAction>) {
        if barrier.id <= self.channels[channel].newest {
            // It was reached before the announcement was delivered.
            return;
        }
        assert!(
            self.channels[channel].ending == Ending::Open,
            "no barrier follows a channel's end"
        );
        self.note_in_channel(channel, barrier, out);
        let Some(at) = self.admit(now, barrier, out) else {
            return;
        };
        match &mut self.pending[at].progress {
            Progress::Collecting(collecting) => {
                assert!(
                    collecting.arrivals[channel] == Arrival::Awaited,
                    "a barrier is announced once"
                );
                collecting.arrivals[channel] = Arrival::Queued;
            }
            Progress::Capturing(capturing) => {
                assert!(
                    capturing.close(channel),
                    "a channel whose barrier is still to come is captured"
                );
                out.push(BarrierAction::Overtake(barrier.id, channel_index(channel)));
                self.finish_if_complete(at, out);
            }
        }
    }

    fn on_reached(&mut self, now: Nanos, channel: usize, barrier: &Barrier, out: &mut Vec<BarrierAction>) {
        assert!(
            self.channels[channel].ending != Ending::Reached,
            "nothing follows a channel's end"
        );
        assert!(
            self.channels[channel].blocked.is_none(),
            "nothing is taken from a blocked channel"
        );
        let at = if barrier.id > self.channels[channel].newest {
            self.note_in_channel(channel, barrier, out);
            self.admit(now, barrier, out)
        } else {
            // Announced before: what had to be said about a dead one was said then.
            self.find(barrier.id).inspect(|&at| self.hasten(at, barrier.mode))
        };
        let Some(at) = at else { return };
        let kind = self.channels[channel].kind;
        let pending = &mut self.pending[at];
        let blocks = pending.blocks();
        match &mut pending.progress {
            Progress::Collecting(collecting) => {
                collecting.arrived(channel, kind);
                collecting.handled.get_or_insert(now);
                if blocks {
                    self.channels[channel].blocked = Some(barrier.id);
                    out.push(BarrierAction::Block(channel_index(channel)));
                }
            }
            Progress::Capturing(capturing) => {
                assert!(
                    capturing.close(channel),
                    "a barrier that overtook isn't in the queue any more"
                );
                out.push(BarrierAction::EndCapture(barrier.id, channel_index(channel)));
                self.finish_if_complete(at, out);
            }
        }
    }

    fn on_triggered(&mut self, now: Nanos, barrier: &Barrier, out: &mut Vec<BarrierAction>) {
        self.raise_oldest_pending(barrier.oldest_pending, out);
        let Some(at) = self.admit(now, barrier, out) else {
            return;
        };
        if let Progress::Collecting(collecting) = &mut self.pending[at].progress {
            collecting.handled.get_or_insert(now);
        }
    }

    fn on_cancel(&mut self, channel: usize, id: CheckpointId, out: &mut Vec<BarrierAction>) {
        let detail = || format!("a cancel marker came in channel {channel}");
        if let Some(at) = self.find(id) {
            self.abort(at, Cause::Local(DeclineReason::CancelMarker, detail()), out);
        } else if self.dead.get(id).is_some() || (id > self.last_cut && !self.is_passed(id)) {
            self.bury(id, DeclineReason::CancelMarker, detail, out);
        }
        // Else it was cut here, captures and all, or never got here before a higher one was: nobody below waits
        // for a marker, for the barrier or the higher one went out. Or it is decided and forgotten.
    }

    fn on_aborted(&mut self, id: CheckpointId, out: &mut Vec<BarrierAction>) {
        if let Some(at) = self.find(id) {
            self.abort(at, Cause::Coordinator, out);
        } else if self.dead.get(id).is_none() && id > self.last_cut && !self.is_passed(id) {
            self.dead.insert(id, Marker::Owed);
        }
    }

    fn on_end_queued(&mut self, channel: usize, out: &mut Vec<BarrierAction>) {
        if self.channels[channel].ending != Ending::Open {
            // It was reached before this was delivered, or is said twice.
            return;
        }
        self.channels[channel].ending = Ending::Queued;
        self.close_captures(channel, BarrierAction::CaptureRest, out);
    }

    fn on_end(&mut self, channel: usize, out: &mut Vec<BarrierAction>) {
        assert!(
            self.channels[channel].ending != Ending::Reached,
            "a channel ends once"
        );
        assert!(
            self.channels[channel].blocked.is_none(),
            "nothing is taken from a blocked channel"
        );
        self.channels[channel].ending = Ending::Reached;
        let kind = self.channels[channel].kind;
        for pending in &mut self.pending {
            match &mut pending.progress {
                // A barrier before the end was reached before it, so that an arrival is missing only if no
                // barrier comes.
                Progress::Collecting(collecting) => match collecting.arrivals[channel] {
                    Arrival::Awaited => collecting.arrived(channel, kind),
                    Arrival::In => {}
                    Arrival::Queued => panic!("a channel's end stands behind its barriers"),
                },
                Progress::Capturing(_) => {}
            }
        }
        self.close_captures(channel, BarrierAction::EndCapture, out);
    }

    fn on_timeout(&mut self, id: CheckpointId, out: &mut Vec<BarrierAction>) {
        let Some(at) = self.find(id) else { return };
        let pending = &mut self.pending[at];
        match (&mut pending.progress, pending.barrier.mode) {
            (Progress::Collecting(collecting), SnapshotMode::Adaptive { .. }) => match collecting.urgency {
                Urgency::Patient => collecting.urgency = Urgency::Held,
                Urgency::Held | Urgency::Overtaking => {}
            },
            (Progress::Collecting(_), SnapshotMode::Quiesce { limit }) => {
                self.decline_quiesce(at, limit, out)
            }
            (
                Progress::Collecting(_),
                SnapshotMode::Aligned | SnapshotMode::Unaligned | SnapshotMode::AtLeastOnce,
            )
            | (Progress::Capturing(_), _) => {}
        }
    }

    fn find(&self, id: CheckpointId) -> Option<usize> {
        self.pending.iter().position(|p| p.id() == id)
    }

    /// What holds between events.
    fn check(&self) {
        let mut last = None;
        let mut collecting = false;
        for pending in &self.pending {
            assert!(
                last < Some(pending.id()),
                "pending checkpoints stand by rising id"
            );
            assert!(
                pending.id() >= self.oldest_pending,
                "a decided checkpoint isn't pending"
            );
            last = Some(pending.id());
            match &pending.progress {
                Progress::Collecting(_) => {
                    assert!(
                        pending.id() > self.last_cut,
                        "an uncut checkpoint is above every cut one"
                    );
                    collecting = true;
                }
                Progress::Capturing(capturing) => {
                    assert!(!collecting, "cuts fall in the order of ids");
                    assert!(
                        capturing.count > 0,
                        "a checkpoint with nothing left to capture is finished"
                    );
                }
            }
        }
    }
}

fn index(channel: ChannelIndex) -> usize {
    channel.0 as usize
}

fn channel_index(at: usize) -> ChannelIndex {
    ChannelIndex(u32::try_from(at).expect("a task has fewer than 2^32 channels"))
}
