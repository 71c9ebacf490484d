//! The queues of a gate and what producers and consumer share of them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_types::{Barrier, CheckpointId, EdgeKind, Element, Nanos};

use crate::signal::TaskSignal;

use super::budget::OWN_RECORDS;

/// Something that the consumer must hear of although it hasn't read up to it.
#[derive(Debug, Clone)]
pub enum Announcement {
    /// This barrier was queued at that time in that channel.
    Barrier(usize, Barrier, Nanos),
    /// The checkpoint was aborted upstream; its barrier will not come in that channel.
    Cancel(usize, CheckpointId),
    /// The channel's end was queued: no barrier follows.
    End(usize),
}

/// One element with its place in the channel and when it was queued.
pub(super) struct Entry<T> {
    pub(super) seq: u64,
    pub(super) at: Nanos,
    pub(super) element: Element<T>,
}

pub(super) struct Channel<T> {
    pub(super) queue: VecDeque<Entry<T>>,
    pub(super) next_seq: u64,
    pub(super) blocked: bool,
    /// Stands in the ready list.
    pub(super) listed: bool,
}

pub(super) struct Queues<T> {
    pub(super) channels: Vec<Channel<T>>,
    pub(super) ready: VecDeque<u32>,
    pub(super) announced: Vec<Announcement>,
}

impl<T> Queues<T> {
    /// Puts a channel into the ready list if it has something to take and isn't there yet.
    pub(super) fn list(&mut self, channel: usize) {
        let c = &mut self.channels[channel];
        if !c.blocked && !c.listed && !c.queue.is_empty() {
            c.listed = true;
            self.ready.push_back(channel as u32);
        }
    }
}

/// What both sides of a channel read without the lock.
pub(super) struct ChannelRoom {
    /// Records queued or still standing in the consumer's chain.
    pub(super) queued: AtomicU64,
    /// Records it may hold.
    pub(super) share: AtomicU64,
    /// The producer found no room and sleeps.
    pub(super) waiting: AtomicBool,
    pub(super) producer: Arc<TaskSignal>,
}

/// One logical input of a task. Producers hold [`GateSender`](super::GateSender)s, the consumer its
/// [`GateReader`](super::GateReader).
pub struct Gate<T> {
    pub(super) queues: Mutex<Queues<T>>,
    pub(super) rooms: Vec<ChannelRoom>,
    pub(super) kinds: Vec<EdgeKind>,
    pub(super) consumer: Arc<TaskSignal>,
    /// A producer was held up by the capacity since the consumer looked last.
    pub(super) limited: AtomicBool,
    /// Something was announced since the consumer looked last.
    pub(super) has_announced: AtomicBool,
    /// The attempt is over: nothing is accepted or handed out any more.
    pub(super) revoked: AtomicBool,
}

impl<T> Gate<T> {
    /// A gate with one channel per producer, each of its edge's kind.
    pub fn new(consumer: Arc<TaskSignal>, channels: Vec<(EdgeKind, Arc<TaskSignal>)>) -> Arc<Self> {
        let kinds = channels.iter().map(|(kind, _)| *kind).collect::<Vec<_>>();
        let queues = Queues {
            channels: kinds
                .iter()
                .map(|_| Channel {
                    queue: VecDeque::with_capacity(16),
                    next_seq: 0,
                    blocked: false,
                    listed: false,
                })
                .collect(),
            ready: VecDeque::with_capacity(channels.len()),
            announced: Vec::with_capacity(channels.len() * 2),
        };
        let rooms = channels
            .into_iter()
            .map(|(_, producer)| ChannelRoom {
                queued: AtomicU64::new(0),
                share: AtomicU64::new(OWN_RECORDS),
                waiting: AtomicBool::new(false),
                producer,
            })
            .collect();
        Arc::new(Self {
            queues: Mutex::new(queues),
            rooms,
            kinds,
            consumer,
            limited: AtomicBool::new(false),
            has_announced: AtomicBool::new(false),
            revoked: AtomicBool::new(false),
        })
    }

    /// How many channels it has.
    pub fn channels(&self) -> usize {
        self.rooms.len()
    }

    /// Takes the gate out of service: a task that was abandoned in user code finds nothing when it comes back,
    /// and its producers never wait for it.
    pub fn revoke(&self) {
        self.revoked.store(true, Ordering::Release);
        let emptied = {
            let mut queues = self.lock();
            queues.ready.clear();
            queues
                .channels
                .iter_mut()
                .map(|c| std::mem::take(&mut c.queue))
                .collect::<Vec<_>>()
        };
        drop(emptied);
        for room in &self.rooms {
            room.producer.wake();
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queues<T>> {
        // Nothing that can panic runs under the lock, so a poisoned queue is a whole one.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back what `records` of a channel occupied, and wakes its producer if that sleeps and there is
    /// worthwhile room again.
    pub(super) fn give_back(&self, channel: usize, records: u64) {
        let room = &self.rooms[channel];
        let before = room.queued.fetch_sub(records, Ordering::AcqRel);
        debug_assert!(before >= records, "a channel gave back more records than it held");
        self.wake_producer(channel, before - records);
    }

    pub(super) fn wake_producer(&self, channel: usize, queued: u64) {
        let room = &self.rooms[channel];
        // Pairs with the fence in `GateSender::wait_for_room`: either it sees the room or we see it waiting.
        fence(Ordering::SeqCst);
        if room.waiting.load(Ordering::Relaxed) {
            let share = room.share.load(Ordering::Relaxed);
            let free = share.saturating_sub(queued);
            // A quarter of the share is a batch: waking for less would hand over single records.
            if free >= (share / 4).max(1) && room.waiting.swap(false, Ordering::AcqRel) {
                room.producer.wake();
            }
        }
    }
}
