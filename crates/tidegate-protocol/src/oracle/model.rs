//! A task made of plain queues: feeds a barrier handler and carries out its actions under the oracle's eyes.
//!
//! Owns: the queues, what is delivered to the handler and when (announcements may lag behind the queue), and the
//! checks that need no knowledge of the handler's inside: that nothing is held without a reason, nothing given
//! up without a cause, nothing awaited that will not come, and nothing overtaken that can't be. Does not own
//! which step comes next; that is a test's or the [`search`](super::search)'s.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use tidegate_types::{Barrier, ChannelIndex, CheckpointId, EdgeKind, Nanos, SnapshotMode};

use crate::barrier::{BarrierAction, BarrierEvent, BarrierHandler, Cut};

use super::fingerprint::Fingerprint;
use super::{Oracle, Promise, Share, Violation};

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

/// A set of checkpoint ids, all below 64.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct IdSet(u64);

impl IdSet {
    /// Whether it holds the id.
    pub fn contains(self, id: CheckpointId) -> bool {
        self.0 >> id.0 & 1 == 1
    }

    /// Adds an id; whether it is new.
    pub fn insert(&mut self, id: CheckpointId) -> bool {
        assert!(id.0 < 64, "a model's checkpoint ids are below 64");
        let is_new = !self.contains(id);
        self.0 |= 1 << id.0;
        is_new
    }

    /// Adds all ids below this one.
    pub fn insert_below(&mut self, id: CheckpointId) {
        assert!(id.0 < 64, "a model's checkpoint ids are below 64");
        self.0 |= (1 << id.0) - 1;
    }

    /// The ids, lowest first.
    pub fn iter(self) -> impl Iterator<Item = CheckpointId> {
        (0..64).map(CheckpointId).filter(move |id| self.contains(*id))
    }

    fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What is known of checkpoints, by id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Fates {
    /// The handler knows of a barrier or trigger of it.
    pub seen: IdSet,
    /// There was a cause to give it up.
    pub doomed: IdSet,
    /// Its cut was taken.
    pub cut: IdSet,
    /// All its barriers are in.
    pub complete: IdSet,
    /// A cancel marker went downstream.
    pub cancelled: IdSet,
    /// The coordinator was told.
    pub declined: IdSet,
    /// The handler has given it up.
    pub dropped: IdSet,
    /// It may overtake, as far as it alone is concerned.
    pub hurried: IdSet,
    /// It must not be made to overtake by others: savepoints, quiesced and at-least-once ones.
    pub steady: IdSet,
    /// It counts and doesn't block.
    pub counting: IdSet,
    /// A timeout was asked for.
    pub armed: IdSet,
    /// Something in flight was captured for it, feedback channels aside.
    pub overtook: IdSet,
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

    fn carry_out(&mut self, action: &BarrierAction) -> Result<(), Violation> {
        match action {
            BarrierAction::Block(channel) => self.set_blocked(*channel, true),
            BarrierAction::Release(channel) => self.set_blocked(*channel, false),
            BarrierAction::BeginCapture(id, channel) => self.begin_capture(*id, *channel),
            BarrierAction::Overtake(id, channel) => {
                let queue = &mut self.queues[channel.0 as usize];
                let at = queue
                    .items
                    .iter()
                    .position(|i| matches!(i, Item::Barrier(b) if b.id == *id));
                let at = at.ok_or(wrong(*id, *channel, "overtakes without standing in the queue"))?;
                queue.items.remove(at);
                self.end_capture(*id, *channel)
            }
            BarrierAction::CaptureRest(id, channel) => {
                if !self.queues[channel.0 as usize].items.contains(&Item::End) {
                    return Err(wrong(*id, *channel, "the end isn't queued"));
                }
                self.end_capture(*id, *channel)
            }
            BarrierAction::EndCapture(id, channel) => self.end_capture(*id, *channel),
            BarrierAction::DropCaptures(id) => {
                self.queues
                    .iter_mut()
                    .for_each(|q| q.captures.retain(|(open, _)| open != id));
                self.oracle.drop_snapshot(*id);
                self.give_up(*id)
            }
            BarrierAction::ArmTimeout(id, _) => {
                let is_new = self.fates.armed.insert(*id);
                expect(is_new, *id, "a timeout is asked for twice")
            }
            BarrierAction::Cut(cut) => self.cut(cut),
            BarrierAction::AllBarriersIn(id) => {
                let open = self
                    .queues
                    .iter()
                    .any(|q| q.captures.iter().any(|(open, _)| open == id));
                expect(!open, *id, "all barriers are in although a capture is open")?;
                expect(
                    self.fates.complete.insert(*id),
                    *id,
                    "all barriers are in for the second time",
                )?;
                expect(
                    !self.fates.dropped.contains(*id),
                    *id,
                    "completes after it was given up",
                )?;
                self.completed.push((*id, self.oracle.complete(*id)?));
                Ok(())
            }
            BarrierAction::ForwardCancel(id) => {
                expect(self.fates.cancelled.insert(*id), *id, "two cancel markers go out")?;
                self.give_up(*id)
            }
            BarrierAction::Decline { id, .. } => {
                expect(self.fates.declined.insert(*id), *id, "declined twice")?;
                expect(
                    self.fates.cancelled.contains(*id),
                    *id,
                    "declined without a cancel marker",
                )?;
                self.give_up(*id)
            }
        }
    }

    fn give_up(&mut self, id: CheckpointId) -> Result<(), Violation> {
        expect(self.fates.doomed.contains(id), id, "given up without a cause")?;
        expect(
            !self.fates.complete.contains(id),
            id,
            "given up after it was complete",
        )?;
        self.fates.dropped.insert(id);
        Ok(())
    }

    fn set_blocked(&mut self, channel: ChannelIndex, blocked: bool) -> Result<(), Violation> {
        let queue = &mut self.queues[channel.0 as usize];
        if queue.blocked == blocked {
            return Err(wrong(CheckpointId(0), channel, "blocked or released twice"));
        }
        queue.blocked = blocked;
        Ok(())
    }

    fn begin_capture(&mut self, id: CheckpointId, channel: ChannelIndex) -> Result<(), Violation> {
        let queue = &mut self.queues[channel.0 as usize];
        if queue.kind == EdgeKind::Sealed {
            return Err(wrong(id, channel, "a sealed channel is captured"));
        }
        if queue.captures.iter().any(|(open, _)| *open == id) {
            return Err(wrong(id, channel, "captured twice"));
        }
        let mut arriving = true;
        for item in &queue.items {
            match item {
                Item::Record(record) => self.oracle.record_captured(id, channel, *record)?,
                Item::Barrier(barrier) if barrier.id == id => {
                    arriving = false;
                    break;
                }
                Item::Barrier(_) | Item::End => {}
            }
        }
        queue.captures.push((id, arriving));
        if queue.kind != EdgeKind::Feedback {
            self.fates.overtook.insert(id);
        }
        Ok(())
    }

    fn end_capture(&mut self, id: CheckpointId, channel: ChannelIndex) -> Result<(), Violation> {
        let captures = &mut self.queues[channel.0 as usize].captures;
        let before = captures.len();
        captures.retain(|(open, _)| *open != id);
        if captures.len() == before {
            return Err(wrong(id, channel, "a capture ends that wasn't begun"));
        }
        Ok(())
    }

    fn cut(&mut self, cut: &Cut) -> Result<(), Violation> {
        let id = cut.barrier.id;
        if self.fates.dropped.contains(id) {
            return Err(Violation::WrongCut {
                id,
                why: "it was given up",
            });
        }
        let overtook = match self.queues.is_empty() {
            true => cut.barrier.mode == SnapshotMode::Unaligned,
            false => self.fates.overtook.contains(id),
        };
        let may_overtake = self.fates.hurried.contains(id) || !self.fates.steady.contains(id);
        if overtook && !may_overtake {
            return Err(Violation::WrongCut {
                id,
                why: "it overtook and must stay aligned",
            });
        }
        expect(
            overtook == (cut.mode == SnapshotMode::Unaligned),
            id,
            "another mode is reported than used",
        )?;
        let told = !overtook || cut.barrier.mode == SnapshotMode::Unaligned;
        expect(told, id, "overtook and the barrier doesn't say so")?;
        let promise = match self.fates.counting.contains(id) {
            true => Promise::AtLeastOnce,
            false => Promise::ExactlyOnce,
        };
        self.oracle.cut(id, promise)?;
        self.fates.cut.insert(id);
        let mut below = IdSet::default();
        below.insert_below(id);
        self.fates.doomed = self.fates.doomed.or(below.minus(self.fates.cut));
        Ok(())
    }

    /// What holds between steps.
    fn check(&self) -> Result<(), Violation> {
        let fates = &self.fates;
        for (at, queue) in self.queues.iter().enumerate().filter(|(_, q)| q.blocked) {
            let id = queue.reached;
            let holds = id.0 > 0
                && !fates.cut.contains(id)
                && !fates.dropped.contains(id)
                && !fates.counting.contains(id);
            if !holds {
                return Err(wrong(id, index(at), "held without a reason"));
            }
        }
        let lost = fates
            .seen
            .and(fates.doomed)
            .minus(fates.complete)
            .minus(fates.dropped);
        if let Some(id) = lost.iter().next() {
            return Err(Violation::WrongFate {
                id,
                what: "not given up although it can't complete",
            });
        }
        self.check_prompt()
    }

    /// The lowest checkpoint that isn't cut has something to wait for.
    fn check_prompt(&self) -> Result<(), Violation> {
        let uncut = self.fates.seen.minus(self.fates.cut).minus(self.fates.doomed);
        let Some(id) = uncut.iter().next() else {
            return Ok(());
        };
        let waits_for = |wanted: fn(EdgeKind) -> bool| {
            self.queues
                .iter()
                .any(|q| wanted(q.kind) && !q.end_reached && q.reached < id)
        };
        let firm = uncut
            .and(self.fates.steady)
            .minus(self.fates.hurried)
            .iter()
            .next();
        let hurry = uncut
            .and(self.fates.hurried)
            .iter()
            .find(|h| firm.is_none_or(|firm| *h < firm));
        let waits = match hurry {
            Some(_) => waits_for(|kind| kind == EdgeKind::Sealed),
            None => waits_for(|kind| kind != EdgeKind::Feedback),
        };
        expect(waits, id, "not cut although nothing is awaited")
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

impl Fates {
    /// What was known of a checkpoint that is over makes no difference, but that it is over and who was told.
    fn hash_into(&self, live: IdSet, state: &mut impl Hasher) {
        (
            self.cut,
            self.complete,
            self.dropped,
            self.cancelled,
            self.declined,
        )
            .hash(state);
        for set in [
            self.doomed,
            self.hurried,
            self.steady,
            self.counting,
            self.armed,
            self.overtook,
            self.seen,
        ] {
            set.and(live).hash(state);
        }
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
