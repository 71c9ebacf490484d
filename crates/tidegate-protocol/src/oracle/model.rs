//! A task made of plain queues: feeds a barrier handler and carries out its actions under the oracle's eyes.
//!
//! Owns: the queues, what is delivered to the handler and when (announcements may lag behind the queue), and the
//! checks that need no knowledge of the handler's inside: that nothing is held without a reason, nothing given
//! up without a cause, nothing awaited that will not come, and nothing overtaken that can't be. Does not own
//! which step comes next; that is a test's or the [`search`](super::search)'s.

mod actions;
mod checks;
mod fates;

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use tidegate_types::{Barrier, ChannelIndex, CheckpointId, EdgeKind, Nanos, SnapshotMode};

use crate::barrier::{BarrierAction, BarrierEvent, BarrierHandler};

use super::fingerprint::Fingerprint;
use super::{Oracle, Share, Violation};

pub use fates::{Fates, IdSet};

/// One element of a model channel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Item {
    Record(u32),
    Barrier(Arc<Barrier>),
    End,
}

/// An announcement that the handler hasn't been given yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Note {
    Barrier(Arc<Barrier>),
    Cancel(CheckpointId),
    End,
}

#[derive(Debug, Clone)]
struct Queue {
    kind: EdgeKind,
    items: VecDeque<Item>,
    notes: VecDeque<Note>,
    blocked: bool,
    /// The last barrier that was reached and not swallowed knowingly.
    reached: CheckpointId,
    /// The greatest id of which the handler knows that it stands or stood here.
    newest: CheckpointId,
    end_reached: bool,
    /// Open captures; `true` while records that arrive belong to it.
    captures: Vec<(CheckpointId, bool)>,
}

/// A task of plain queues with a handler. Every step checks what must hold and fails with the first violation.
#[derive(Debug, Clone)]
pub struct Model {
    handler: BarrierHandler,
    oracle: Oracle,
    queues: Vec<Queue>,
    fates: Fates,
    now: Nanos,
    /// What the handler asked for in the last step.
    actions: Vec<BarrierAction>,
    /// What completed in the last step.
    completed: Vec<(CheckpointId, Vec<Share>)>,
}

impl Model {
    /// A task whose channels have these kinds.
    pub fn new(kinds: &[EdgeKind]) -> Self {
        let queue = |kind: &EdgeKind| Queue {
            kind: *kind,
            items: VecDeque::new(),
            notes: VecDeque::new(),
            blocked: false,
            reached: CheckpointId(0),
            newest: CheckpointId(0),
            end_reached: false,
            captures: Vec::new(),
        };
        Self {
            handler: BarrierHandler::new(kinds.to_vec()),
            oracle: Oracle::new(kinds.len()),
            queues: kinds.iter().map(queue).collect(),
            fates: Fates::default(),
            now: Nanos(0),
            actions: Vec::new(),
            completed: Vec::new(),
        }
    }

    /// What the handler asked for in the last step.
    pub fn actions(&self) -> &[BarrierAction] {
        &self.actions
    }

    /// Checkpoints all of whose barriers came in with the last step, and what they hold of each channel.
    pub fn completed(&self) -> &[(CheckpointId, Vec<Share>)] {
        &self.completed
    }

    /// The handler.
    pub fn handler(&self) -> &BarrierHandler {
        &self.handler
    }

    /// What has become of which checkpoint.
    pub fn fates(&self) -> &Fates {
        &self.fates
    }

    /// Sets the clock.
    pub fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Whether an element of the channel can be taken.
    pub fn can_take(&self, channel: usize) -> bool {
        !self.queues[channel].blocked && !self.queues[channel].items.is_empty()
    }

    /// Whether a barrier or the end can be taken, with the records before it.
    pub fn can_take_marker(&self, channel: usize) -> bool {
        let queue = &self.queues[channel];
        !queue.blocked && queue.items.iter().any(|i| !matches!(i, Item::Record(_)))
    }

    /// Whether an announcement of the channel waits.
    pub fn can_announce(&self, channel: usize) -> bool {
        !self.queues[channel].notes.is_empty()
    }

    /// Whether the channel is held.
    pub fn is_blocked(&self, channel: usize) -> bool {
        self.queues[channel].blocked
    }

    /// Whether the channel's end was taken.
    pub fn has_ended(&self, channel: usize) -> bool {
        self.queues[channel].end_reached
    }

    /// Queues a record.
    ///
    /// # Errors
    /// If it is captured wrongly.
    pub fn send_record(&mut self, channel: usize) -> Result<(), Violation> {
        self.clear();
        let record = self.oracle.record_sent(index(channel));
        let queue = &mut self.queues[channel];
        queue.items.push_back(Item::Record(record));
        for (id, _) in queue.captures.iter().filter(|(_, arriving)| *arriving) {
            self.oracle.record_captured(*id, index(channel), record)?;
        }
        Ok(())
    }

    /// Queues a barrier; its announcement waits.
    pub fn send_barrier(&mut self, channel: usize, barrier: Barrier) {
        self.clear();
        self.oracle.barrier_sent(index(channel), barrier.id);
        let queue = &mut self.queues[channel];
        for (id, arriving) in &mut queue.captures {
            *arriving &= *id != barrier.id;
        }
        let barrier = Arc::new(barrier);
        queue.notes.push_back(Note::Barrier(barrier.clone()));
        queue.items.push_back(Item::Barrier(barrier));
    }

    /// Says that a barrier will not come; the announcement waits.
    pub fn send_cancel(&mut self, channel: usize, id: CheckpointId) {
        self.clear();
        self.queues[channel].notes.push_back(Note::Cancel(id));
    }

    /// Ends a channel; the announcement waits.
    pub fn send_end(&mut self, channel: usize) {
        self.clear();
        self.oracle.end_sent(index(channel));
        self.queues[channel].items.push_back(Item::End);
        self.queues[channel].notes.push_back(Note::End);
    }

    /// Delivers the channel's next announcement.
    ///
    /// # Errors
    /// If the handler's answer is wrong.
    ///
    /// # Panics
    /// If there is none.
    pub fn announce(&mut self, channel: usize) -> Result<(), Violation> {
        let note = self.queues[channel].notes.pop_front().expect("the caller looked");
        match note {
            Note::Barrier(barrier) => {
                self.note_barrier(channel, &barrier);
                self.tell(BarrierEvent::Announced(index(channel), Barrier::clone(&barrier)))
            }
            Note::Cancel(id) => {
                self.fates.doomed.insert(id);
                self.tell(BarrierEvent::Cancel(index(channel), id))
            }
            Note::End => self.tell(BarrierEvent::EndQueued(index(channel))),
        }
    }

    /// Delivers all announcements of the channel.
    ///
    /// # Errors
    /// If a handler's answer is wrong. [`Self::actions`] are those of the last one.
    pub fn announce_all(&mut self, channel: usize) -> Result<(), Violation> {
        while self.can_announce(channel) {
            self.announce(channel)?;
        }
        Ok(())
    }

    /// Takes the channel's next element.
    ///
    /// # Errors
    /// If the handler's answer is wrong.
    ///
    /// # Panics
    /// If the channel is blocked or empty.
    pub fn take(&mut self, channel: usize) -> Result<(), Violation> {
        assert!(self.can_take(channel), "the caller looked");
        let item = self.queues[channel].items.pop_front().expect("the caller looked");
        match item {
            Item::Record(_) => {
                self.clear();
                self.oracle.record_processed(index(channel));
                Ok(())
            }
            Item::Barrier(barrier) => {
                self.queues[channel].reached = barrier.id;
                self.note_barrier(channel, &barrier);
                self.tell(BarrierEvent::Barrier(index(channel), Barrier::clone(&barrier)))
            }
            Item::End => {
                self.queues[channel].end_reached = true;
                self.tell(BarrierEvent::End(index(channel)))
            }
        }
    }

    /// Takes the channel's next barrier or end, and the records before it.
    ///
    /// # Errors
    /// If the handler's answer is wrong.
    ///
    /// # Panics
    /// If the channel is blocked or has neither.
    pub fn take_marker(&mut self, channel: usize) -> Result<(), Violation> {
        while matches!(self.queues[channel].items.front(), Some(Item::Record(_))) {
            self.take(channel)?;
        }
        self.take(channel)
    }

    /// Delivers a trigger by message.
    ///
    /// # Errors
    /// If the handler's answer is wrong.
    pub fn trigger(&mut self, barrier: Barrier) -> Result<(), Violation> {
        self.see(&barrier);
        self.tell(BarrierEvent::Triggered(barrier))
    }

    /// Delivers an abort by message.
    ///
    /// # Errors
    /// If the handler's answer is wrong.
    pub fn abort(&mut self, id: CheckpointId, oldest_pending: CheckpointId) -> Result<(), Violation> {
        self.fates.doomed.insert(id);
        self.fates.doomed.insert_below(oldest_pending);
        self.tell(BarrierEvent::Aborted { id, oldest_pending })
    }

    /// Lets a timeout pass.
    ///
    /// # Errors
    /// If the handler's answer is wrong.
    pub fn time_out(&mut self, barrier: &Barrier) -> Result<(), Violation> {
        match barrier.mode {
            SnapshotMode::Quiesce { .. } if !self.fates.cut.contains(barrier.id) => {
                self.fates.doomed.insert(barrier.id);
            }
            SnapshotMode::Adaptive { .. } => {
                self.fates.hurried.insert(barrier.id);
            }
            SnapshotMode::Quiesce { .. }
            | SnapshotMode::Aligned
            | SnapshotMode::Unaligned
            | SnapshotMode::AtLeastOnce => {}
        }
        self.tell(BarrierEvent::AlignmentTimeout(barrier.id))
    }

    /// Checks that nothing is left over when nothing can move any more although each channel has, for each of
    /// these checkpoints, sent a barrier, a higher one, a cancel marker, or its end.
    ///
    /// # Errors
    /// If a checkpoint is still pending.
    pub fn check_settled(&self, resolved: impl Fn(CheckpointId) -> bool) -> Result<(), Violation> {
        match self.handler.pending().find(|id| resolved(*id)) {
            Some(id) => Err(Violation::WrongFate {
                id,
                what: "pending although nothing is awaited",
            }),
            None => Ok(()),
        }
    }

    fn clear(&mut self) {
        self.actions.clear();
        self.completed.clear();
    }

    fn see(&mut self, barrier: &Barrier) {
        let id = barrier.id;
        let convertible = match barrier.mode {
            SnapshotMode::Aligned | SnapshotMode::Adaptive { .. } | SnapshotMode::Unaligned => true,
            SnapshotMode::AtLeastOnce | SnapshotMode::Quiesce { .. } => false,
        };
        self.fates.doomed.insert_below(barrier.oldest_pending);
        if self.fates.seen.insert(id) {
            if self.queues.iter().any(|q| !q.end_reached && q.newest > id) {
                // That channel skipped it.
                self.fates.doomed.insert(id);
            }
            if barrier.kind.is_savepoint() || !convertible {
                self.fates.steady.insert(id);
            }
            if barrier.mode == SnapshotMode::AtLeastOnce {
                self.fates.counting.insert(id);
            }
        }
        if barrier.mode == SnapshotMode::Unaligned {
            self.fates.hurried.insert(id);
        }
    }

    fn note_barrier(&mut self, channel: usize, barrier: &Barrier) {
        let newest = &mut self.queues[channel].newest;
        for skipped in (newest.0 + 1..barrier.id.0).map(CheckpointId) {
            if self.fates.seen.contains(skipped) {
                self.fates.doomed.insert(skipped);
            }
        }
        *newest = barrier.id.max(*newest);
        self.see(barrier);
    }

    fn tell(&mut self, event: BarrierEvent) -> Result<(), Violation> {
        self.clear();
        let mut actions = std::mem::take(&mut self.actions);
        self.handler.on_event(self.now, event, &mut actions);
        let done = actions.iter().try_for_each(|action| self.carry_out(action));
        self.actions = actions;
        done.and_then(|()| self.check())
    }

    /// A fingerprint of everything that can still make a difference. Channels of one kind are interchangeable, so
    /// it doesn't depend on their order; `extra` adds what the caller knows of a channel.
    pub(crate) fn fingerprint(&self, extra: impl Fn(usize, &mut Fingerprint)) -> u64 {
        let live = self.live();
        let mut channels: Vec<u64> = (0..self.queues.len())
            .map(|at| {
                let mut state = Fingerprint::default();
                self.queues[at].hash_into(live, &mut state);
                self.handler.hash_channel(at, &mut state);
                self.oracle.hash_channel(at, live.0, &mut state);
                extra(at, &mut state);
                state.finish()
            })
            .collect();
        channels.sort_unstable();
        let mut state = Fingerprint::default();
        channels.hash(&mut state);
        self.handler.hash_common(&mut state);
        self.fates.hash_into(live, &mut state);
        state.finish()
    }

    /// Checkpoints whose exact place in the channels still matters.
    fn live(&self) -> IdSet {
        let gone = self.fates.complete.or(self.fates.dropped);
        IdSet(u64::MAX).minus(gone)
    }
}

impl Queue {
    fn hash_into(&self, live: IdSet, state: &mut impl Hasher) {
        (
            self.kind,
            self.blocked,
            self.end_reached,
            self.newest,
            &self.notes,
            &self.captures,
        )
            .hash(state);
        (if live.contains(self.reached) {
            self.reached
        } else {
            CheckpointId(0)
        })
        .hash(state);
        self.items.len().hash(state);
        for item in &self.items {
            match item {
                Item::Record(_) => 0u8.hash(state),
                Item::Barrier(barrier) => (1u8, barrier.id, barrier.mode).hash(state),
                Item::End => 2u8.hash(state),
            }
        }
    }
}

fn index(channel: usize) -> ChannelIndex {
    ChannelIndex(u32::try_from(channel).expect("channels are numbered by u32"))
}

fn wrong(id: CheckpointId, channel: ChannelIndex, what: &'static str) -> Violation {
    Violation::WrongAction { id, channel, what }
}

fn expect(holds: bool, id: CheckpointId, what: &'static str) -> Result<(), Violation> {
    if holds {
        Ok(())
    } else {
        Err(Violation::WrongFate { id, what })
    }
}
