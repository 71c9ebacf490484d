//! The producer's end of one channel.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use tidegate_types::{Barrier, Batch, CheckpointId, Element, Nanos, SnapshotMode};

use super::queue::{Announcement, Entry, Gate};

/// Puts elements into one channel of a gate. Everything pushed is accepted: a producer asks for room before it
/// makes records, never after.
pub struct GateSender<T> {
    gate: Arc<Gate<T>>,
    channel: usize,
}

impl<T> GateSender<T> {
    /// The producer's end of `channel`.
    ///
    /// # Panics
    /// If the gate has no such channel.
    pub fn new(gate: Arc<Gate<T>>, channel: usize) -> Self {
        assert!(channel < gate.channels(), "a sender's channel exists in its gate");
        Self { gate, channel }
    }

    /// Records that fit, `open` of which the producer holds in a batch that isn't queued yet.
    #[inline]
    pub fn room(&self, open: u64) -> u64 {
        if self.gate.revoked.load(Ordering::Relaxed) {
            return u64::MAX;
        }
        let room = &self.gate.rooms[self.channel];
        let share = room.share.load(Ordering::Relaxed);
        share.saturating_sub(room.queued.load(Ordering::Acquire) + open)
    }

    /// At how many records an open batch is cut: a quarter of the channel's share.
    #[inline]
    pub fn batch_limit(&self) -> usize {
        let share = self.gate.rooms[self.channel].share.load(Ordering::Relaxed);
        usize::try_from(share / 4).unwrap_or(usize::MAX).max(1)
    }

    /// Asks to be woken when there is room. False if there is some after all.
    pub fn wait_for_room(&self, open: u64) -> bool {
        let room = &self.gate.rooms[self.channel];
        self.gate.limited.store(true, Ordering::Relaxed);
        room.waiting.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.room(open) > 0 {
            room.waiting.store(false, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Says that the capacity, not the supply, bounds what is sent.
    pub fn note_limited(&self) {
        if !self.gate.limited.load(Ordering::Relaxed) {
            self.gate.limited.store(true, Ordering::Relaxed);
        }
    }

    /// Queues records.
    pub fn push_batch(&self, batch: Arc<Batch<T>>, now: Nanos) {
        if batch.is_empty() || self.gate.revoked.load(Ordering::Relaxed) {
            return;
        }
        self.gate.rooms[self.channel]
            .queued
            .fetch_add(batch.len() as u64, Ordering::AcqRel);
        self.push(Element::Batch(batch), now);
        self.gate.consumer.wake();
    }

    /// Queues an event other than a barrier or a cancel marker.
    pub fn push_event(&self, element: Element<T>, now: Nanos) {
        debug_assert!(matches!(
            element,
            Element::Watermark(_) | Element::Status(_) | Element::End { .. }
        ));
        let ends = matches!(element, Element::End { .. });
        self.push(element, now);
        if ends {
            self.gate.lock().announced.push(Announcement::End(self.channel));
            self.gate.has_announced.store(true, Ordering::Release);
        }
        self.gate.consumer.wake();
    }

    /// Queues a barrier and announces it. One that may overtake interrupts the consumer.
    pub fn push_barrier(&self, barrier: Barrier, now: Nanos) {
        if self.gate.revoked.load(Ordering::Relaxed) {
            return;
        }
        let overtakes = barrier.mode == SnapshotMode::Unaligned;
        {
            let mut queues = self.gate.lock();
            queues
                .announced
                .push(Announcement::Barrier(self.channel, barrier.clone(), now));
            let channel = &mut queues.channels[self.channel];
            let seq = channel.next_seq;
            channel.next_seq += 1;
            channel.queue.push_back(Entry {
                seq,
                at: now,
                element: Element::Barrier(barrier),
            });
            queues.list(self.channel);
        }
        self.announce(overtakes);
    }

    /// Says that the barrier of `id` will not come. It needs no place in the queue: an abort undoes nothing
    /// that the records before it did.
    pub fn push_cancel(&self, id: CheckpointId) {
        if self.gate.revoked.load(Ordering::Relaxed) {
            return;
        }
        self.gate
            .lock()
            .announced
            .push(Announcement::Cancel(self.channel, id));
        self.announce(true);
    }

    fn announce(&self, urgent: bool) {
        self.gate.has_announced.store(true, Ordering::Release);
        if urgent {
            self.gate.consumer.interrupt();
        } else {
            self.gate.consumer.wake();
        }
    }

    fn push(&self, element: Element<T>, now: Nanos) {
        if self.gate.revoked.load(Ordering::Relaxed) {
            return;
        }
        let mut queues = self.gate.lock();
        let channel = &mut queues.channels[self.channel];
        let seq = channel.next_seq;
        channel.next_seq += 1;
        channel.queue.push_back(Entry {
            seq,
            at: now,
            element,
        });
        queues.list(self.channel);
    }
}
