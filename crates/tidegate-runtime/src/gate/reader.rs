//! The consumer's end of a gate: taking, blocking, overtaking and capturing.
//!
//! Capture works on the consumer's side alone. When a snapshot begins to record a channel, what is queued there
//! is noted (a count per batch goes up); what arrives later is noted when it is taken, or when the barrier that
//! ends the recording overtakes it. Producers never know.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_types::{Activity, Barrier, Batch, CheckpointId, EdgeKind, Element, EventTime, Nanos};

use super::budget::{Budget, BudgetSettings};
use super::queue::{Announcement, Entry, Gate};

/// What [`GateReader::take`] found.
#[derive(Debug)]
pub enum Taken<T> {
    /// Nothing that isn't blocked.
    Nothing,
    /// Records of a channel; they count against it until given back.
    Batch(usize, Arc<Batch<T>>),
    /// A watermark of a channel.
    Watermark(usize, EventTime),
    /// A channel became idle or active.
    Status(usize, Activity),
    /// A channel's barrier is reached; its age is adjusted.
    Barrier(usize, Barrier),
    /// A channel's last element.
    End(usize, bool),
}

/// One element that a snapshot recorded.
#[derive(Debug, Clone)]
pub enum CapturedElement<T> {
    /// Records.
    Batch(Arc<Batch<T>>),
    /// A watermark of the channel.
    Watermark(EventTime),
    /// A status of the channel.
    Status(Activity),
}

/// What a snapshot recorded of one channel.
#[derive(Debug)]
pub struct Captured<T> {
    /// The channel in this gate.
    pub channel: usize,
    /// Its elements in order.
    pub elements: Vec<CapturedElement<T>>,
}

struct Capture<T> {
    id: CheckpointId,
    channel: usize,
    /// Elements below this place are recorded.
    recorded_to: u64,
    open: bool,
    elements: Vec<CapturedElement<T>>,
}

/// The consuming task's end of a gate.
pub struct GateReader<T> {
    gate: Arc<Gate<T>>,
    budget: Budget,
    captures: Vec<Capture<T>>,
    ended: Vec<bool>,
    blocked: usize,
    taken: u64,
}

impl<T> GateReader<T> {
    /// The consumer's end. There is one per gate.
    pub fn new(gate: Arc<Gate<T>>, settings: BudgetSettings) -> Self {
        let channels = gate.channels();
        let reader = Self {
            budget: Budget::new(settings, channels as u64),
            captures: Vec::new(),
            ended: vec![false; channels],
            blocked: 0,
            taken: 0,
            gate,
        };
        reader.publish_shares();
        reader
    }

    /// How many channels it has.
    pub fn channels(&self) -> usize {
        self.gate.channels()
    }

    /// What a channel's edge can do about barriers.
    pub fn kind(&self, channel: usize) -> EdgeKind {
        self.gate.kinds[channel]
    }

    /// Records that one pass may take: a quarter of the gate's capacity.
    pub fn pass_limit(&self) -> usize {
        usize::try_from(self.budget.capacity() / 4)
            .unwrap_or(usize::MAX)
            .max(1)
    }

    /// The gate's budget, for metrics.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Records queued or in the chain, over all channels.
    pub fn queued(&self) -> u64 {
        self.gate
            .rooms
            .iter()
            .map(|r| r.queued.load(Ordering::Relaxed))
            .sum()
    }

    /// Whether there may be something to take. May say yes for nothing.
    pub fn may_take(&self) -> bool {
        !self.gate.lock().ready.is_empty()
    }

    /// Takes the next element, channel by channel in turn.
    pub fn take(&mut self, now: Nanos) -> Taken<T> {
        let (channel, entry) = {
            let mut queues = self.gate.lock();
            let Some(index) = queues.ready.pop_front() else {
                return Taken::Nothing;
            };
            let index = index as usize;
            let channel = &mut queues.channels[index];
            channel.listed = false;
            let Some(entry) = channel.queue.pop_front() else {
                return Taken::Nothing;
            };
            queues.list(index);
            (index, entry)
        };
        self.record_taken(channel, &entry);
        match entry.element {
            Element::Batch(batch) => {
                self.taken += batch.len() as u64;
                Taken::Batch(channel, batch)
            }
            Element::Watermark(w) => Taken::Watermark(channel, w),
            Element::Status(a) => Taken::Status(channel, a),
            Element::Barrier(b) => Taken::Barrier(channel, b.aged(now.since(entry.at))),
            Element::Cancel(_) => unreachable!("cancel markers are announced, never queued"),
            Element::End { drain } => {
                self.ended[channel] = true;
                self.publish_shares();
                Taken::End(channel, drain)
            }
        }
    }

    /// Takes what was announced since the last call, in order; the age of barriers is adjusted.
    pub fn take_announced(&mut self, now: Nanos, into: &mut Vec<Announcement>) {
        if !self.gate.has_announced.swap(false, Ordering::AcqRel) {
            return;
        }
        let from = into.len();
        into.append(&mut self.gate.lock().announced);
        for announcement in &mut into[from..] {
            if let Announcement::Barrier(_, barrier, at) = announcement {
                *barrier = barrier.aged(now.since(*at));
                *at = now;
            }
        }
    }

    /// Stops reading a channel.
    pub fn block(&mut self, channel: usize) {
        let mut queues = self.gate.lock();
        let c = &mut queues.channels[channel];
        if c.blocked {
            return;
        }
        c.blocked = true;
        self.blocked += 1;
        if std::mem::take(&mut c.listed) {
            queues.ready.retain(|&r| r as usize != channel);
        }
    }

    /// Reads a channel again.
    pub fn release(&mut self, channel: usize) {
        let mut queues = self.gate.lock();
        let c = &mut queues.channels[channel];
        if c.blocked {
            c.blocked = false;
            self.blocked -= 1;
            queues.list(channel);
        }
    }

    /// Starts recording a channel for a snapshot: what is queued before the snapshot's own barrier, and then
    /// what comes until that barrier.
    pub fn begin_capture(&mut self, id: CheckpointId, channel: usize) {
        debug_assert!(!self.captures.iter().any(|c| c.id == id && c.channel == channel));
        let mut elements = Vec::with_capacity(self.gate.lock().channels[channel].queue.len() + 8);
        let queues = self.gate.lock();
        let queue = &queues.channels[channel].queue;
        let end = queue
            .iter()
            .position(|e| is_barrier(e, id))
            .unwrap_or(queue.len());
        elements.extend(queue.iter().take(end).filter_map(captured));
        let recorded_to = match queue.get(end) {
            Some(barrier) => barrier.seq,
            None => queues.channels[channel].next_seq,
        };
        drop(queues);
        self.captures.push(Capture {
            id,
            channel,
            recorded_to,
            open: true,
            elements,
        });
    }

    /// Lets the barrier of `id` overtake what stands before it in the channel: that is recorded, the barrier is
    /// taken out, and the recording of this channel ends.
    pub fn overtake(&mut self, id: CheckpointId, channel: usize) {
        let mut capture = self
            .captures
            .iter_mut()
            .find(|c| c.id == id && c.channel == channel && c.open);
        if let Some(capture) = &mut capture {
            // Outside the lock; what is pushed meanwhile at worst makes the list grow once more.
            capture
                .elements
                .reserve(self.gate.lock().channels[channel].queue.len());
        }
        let mut queues = self.gate.lock();
        let queue = &mut queues.channels[channel].queue;
        let at = queue.iter().position(|e| is_barrier(e, id));
        if let Some(capture) = capture {
            let end = at.unwrap_or(queue.len());
            let recorded_to = capture.recorded_to;
            capture.elements.extend(
                queue
                    .iter()
                    .take(end)
                    .filter(|e| e.seq >= recorded_to)
                    .filter_map(captured),
            );
            capture.open = false;
        }
        if let Some(at) = at {
            queue.remove(at);
        }
        if queues.channels[channel].queue.is_empty() && queues.channels[channel].listed {
            queues.channels[channel].listed = false;
            queues.ready.retain(|&r| r as usize != channel);
        }
    }

    /// Records what stands before the channel's queued end, and ends the recording of this channel.
    pub fn capture_rest(&mut self, id: CheckpointId, channel: usize) {
        let Some(capture) = self
            .captures
            .iter_mut()
            .find(|c| c.id == id && c.channel == channel && c.open)
        else {
            return;
        };
        capture
            .elements
            .reserve(self.gate.lock().channels[channel].queue.len());
        let queues = self.gate.lock();
        let queue = &queues.channels[channel].queue;
        let recorded_to = capture.recorded_to;
        capture
            .elements
            .extend(queue.iter().filter(|e| e.seq >= recorded_to).filter_map(captured));
        capture.open = false;
    }

    /// Drops everything that was recorded for `id`.
    pub fn drop_captures(&mut self, id: CheckpointId) {
        self.captures.retain(|c| c.id != id);
    }

    /// Ends the recording of a channel whose barrier was reached, or which ended.
    pub fn end_capture(&mut self, id: CheckpointId, channel: usize) {
        if let Some(capture) = self
            .captures
            .iter_mut()
            .find(|c| c.id == id && c.channel == channel)
        {
            capture.open = false;
        }
    }

    /// Whether some channel is still recorded for `id`.
    pub fn is_capturing(&self, id: CheckpointId) -> bool {
        self.captures.iter().any(|c| c.id == id && c.open)
    }

    /// Hands over what was recorded for `id`, ordered by channel.
    pub fn take_captures(&mut self, id: CheckpointId) -> Vec<Captured<T>> {
        let mut taken = Vec::new();
        let mut i = 0;
        while i < self.captures.len() {
            if self.captures[i].id == id {
                let c = self.captures.swap_remove(i);
                taken.push(Captured {
                    channel: c.channel,
                    elements: c.elements,
                });
            } else {
                i += 1;
            }
        }
        taken.sort_by_key(|c| c.channel);
        taken
    }

    /// The records of a channel that were taken have left the chain.
    pub fn give_back(&mut self, channel: usize, records: u64) {
        self.gate.give_back(channel, records);
    }

    /// The task was busy so long with so many of this gate's records: the capacity follows.
    pub fn on_busy(&mut self, busy: Duration, records: u64) {
        let limited = self.gate.limited.swap(false, Ordering::Relaxed);
        if self.budget.on_busy(busy, records, limited, self.blocked > 0) {
            self.publish_shares();
        }
    }

    /// Whether a record's size should be measured now: about one in 1,024.
    pub fn wants_size(&self, batch: u64) -> bool {
        self.taken / super::budget::SIZE_SAMPLE_EVERY
            != self.taken.saturating_sub(batch) / super::budget::SIZE_SAMPLE_EVERY
            || self.taken == batch
    }

    /// One record was encoded to so many bytes.
    pub fn on_record_size(&mut self, bytes: u64) {
        self.budget.on_record_size(bytes);
    }

    #[cfg(test)]
    pub(super) fn gate_for_test(&self) -> &Gate<T> {
        &self.gate
    }

    fn publish_shares(&self) {
        let active = self.ended.iter().filter(|e| !**e).count() as u64;
        let share = self.budget.share(active);
        for (i, room) in self.gate.rooms.iter().enumerate() {
            if room.share.swap(share, Ordering::AcqRel) < share {
                self.gate.wake_producer(i, room.queued.load(Ordering::Acquire));
            }
        }
    }

    fn record_taken(&mut self, channel: usize, entry: &Entry<T>) {
        for capture in &mut self.captures {
            if capture.open && capture.channel == channel && entry.seq >= capture.recorded_to {
                capture.elements.extend(captured(entry));
            }
        }
    }
}

fn is_barrier<T>(entry: &Entry<T>, id: CheckpointId) -> bool {
    matches!(&entry.element, Element::Barrier(b) if b.id == id)
}

fn captured<T>(entry: &Entry<T>) -> Option<CapturedElement<T>> {
    match &entry.element {
        Element::Batch(batch) => Some(CapturedElement::Batch(batch.clone())),
        Element::Watermark(w) => Some(CapturedElement::Watermark(*w)),
        Element::Status(a) => Some(CapturedElement::Status(*a)),
        Element::Barrier(_) | Element::Cancel(_) | Element::End { .. } => None,
    }
}
