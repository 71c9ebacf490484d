//! What a consistent snapshot is, stated independently of how the barrier handler makes one.
//!
//! Chandy and Lamport's condition for one task: the records that a task's state has seen at its cut, and those
//! recorded as in flight, are together for each channel exactly the ones that were sent before the channel's
//! barrier, in their order, each once. It doesn't matter who started the snapshot or where. At-least-once asks
//! for no more than that none is missing.
//!
//! Owns: the judge of that condition ([`Oracle`]), a task made of plain queues that carries out a handler's
//! actions under the judge's eyes ([`model`]), and the exhaustive search over such tasks ([`search`]). Does not
//! own any rule of the handler's; it is told what was done and says whether that was right. For tests, the
//! simulator and `examples/barrier_search.rs`.

mod fingerprint;
pub mod model;
pub mod search;

use std::hash::{Hash, Hasher};

use thiserror::Error;
use tidegate_types::{ChannelIndex, CheckpointId};

/// Something that must not happen.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Violation {
    /// The snapshot isn't what was sent before the barrier.
    #[error(
        "checkpoint {id}, channel {channel}: {sent_before} records before the barrier, but the state has \
         {processed} and captured are {captured:?}"
    )]
    Inconsistent {
        /// The checkpoint.
        id: CheckpointId,
        /// Where.
        channel: ChannelIndex,
        /// Records sent before its barrier.
        sent_before: u32,
        /// Records in the state at the cut.
        processed: u32,
        /// First captured record and the one after the last.
        captured: Option<(u32, u32)>,
    },
    /// A record was captured out of order or twice.
    #[error("checkpoint {id}, channel {channel}: record {record} captured out of order")]
    CapturedOutOfOrder {
        /// The checkpoint.
        id: CheckpointId,
        /// Where.
        channel: ChannelIndex,
        /// Its number in the channel.
        record: u32,
    },
    /// A checkpoint was called complete while a channel had neither sent its barrier nor ended.
    #[error("checkpoint {id} ended before channel {channel} sent its barrier")]
    EndedEarly {
        /// The checkpoint.
        id: CheckpointId,
        /// Where.
        channel: ChannelIndex,
    },
    /// A cut at the wrong time: a second one, one after the checkpoint was given up, one behind a higher id.
    #[error("checkpoint {id} was cut although {why}")]
    WrongCut {
        /// The checkpoint.
        id: CheckpointId,
        /// What forbids it.
        why: &'static str,
    },
    /// An action that its channel can't carry out or that makes no sense where it came.
    #[error("checkpoint {id}, channel {channel}: {what}")]
    WrongAction {
        /// The checkpoint, 0 if none is concerned.
        id: CheckpointId,
        /// Where.
        channel: ChannelIndex,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The handler was told, or told others, something about a checkpoint that doesn't follow.
    #[error("checkpoint {id}: {what}")]
    WrongFate {
        /// The checkpoint.
        id: CheckpointId,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// How much a snapshot promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Promise {
    /// Each record once.
    ExactlyOnce,
    /// Each record at least once.
    AtLeastOnce,
}

#[derive(Debug, Clone, Default)]
struct ChannelLog {
    sent: u32,
    processed: u32,
    ended: bool,
    /// How many records were sent before each barrier.
    barriers: Vec<(CheckpointId, u32)>,
}

/// What a snapshot has of one channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Records that the state had seen at the cut.
    pub before: u32,
    /// The first captured record and the one after the last.
    pub captured: Option<(u32, u32)>,
}

#[derive(Debug, Clone)]
struct Snapshot {
    id: CheckpointId,
    /// By channel.
    shares: Vec<Share>,
    /// None before the cut.
    promise: Option<Promise>,
}

/// Judges the snapshots of one task. Records of a channel are numbered from 0 in the order in which they are sent.
///
/// # Driving it
///
/// Report what happens, in the order in which it happens. Capturing may begin before [`cut`](Self::cut) is
/// reported if nothing is processed in between. After [`complete`](Self::complete) or
/// [`drop_snapshot`](Self::drop_snapshot) a checkpoint is forgotten.
#[derive(Debug, Clone)]
pub struct Oracle {
    channels: Vec<ChannelLog>,
    open: Vec<Snapshot>,
    last_cut: CheckpointId,
}

impl Oracle {
    /// A judge of a task with so many channels.
    pub fn new(channels: usize) -> Self {
        Self {
            channels: vec![ChannelLog::default(); channels],
            open: Vec::new(),
            last_cut: CheckpointId(0),
        }
    }

    /// The next record is sent; returns its number.
    pub fn record_sent(&mut self, channel: ChannelIndex) -> u32 {
        let log = &mut self.channels[channel.0 as usize];
        log.sent += 1;
        log.sent - 1
    }

    /// A barrier is sent.
    pub fn barrier_sent(&mut self, channel: ChannelIndex, id: CheckpointId) {
        let log = &mut self.channels[channel.0 as usize];
        log.barriers.push((id, log.sent));
    }

    /// The channel ends.
    pub fn end_sent(&mut self, channel: ChannelIndex) {
        self.channels[channel.0 as usize].ended = true;
    }

    /// The task's state has seen the channel's next record.
    pub fn record_processed(&mut self, channel: ChannelIndex) {
        let log = &mut self.channels[channel.0 as usize];
        assert!(
            log.processed < log.sent,
            "no record is processed before it is sent"
        );
        log.processed += 1;
    }

    /// A record is recorded as in flight.
    ///
    /// # Errors
    /// If it isn't the next one.
    pub fn record_captured(
        &mut self,
        id: CheckpointId,
        channel: ChannelIndex,
        record: u32,
    ) -> Result<(), Violation> {
        let at = self.snapshot(id);
        let share = &mut self.open[at].shares[channel.0 as usize];
        let (from, to) = share.captured.unwrap_or((record, record));
        if to != record {
            return Err(Violation::CapturedOutOfOrder { id, channel, record });
        }
        share.captured = Some((from, record + 1));
        Ok(())
    }

    /// The task's state is what the snapshot holds.
    ///
    /// # Errors
    /// If it was cut before, or a higher one was.
    pub fn cut(&mut self, id: CheckpointId, promise: Promise) -> Result<(), Violation> {
        if id <= self.last_cut {
            return Err(Violation::WrongCut {
                id,
                why: "it or a higher one was cut before",
            });
        }
        self.last_cut = id;
        let at = self.snapshot(id);
        let snapshot = &mut self.open[at];
        snapshot.promise = Some(promise);
        for (share, log) in snapshot.shares.iter_mut().zip(&self.channels) {
            share.before = log.processed;
        }
        Ok(())
    }

    /// Everything of the checkpoint is recorded. Returns what it has of each channel.
    ///
    /// # Errors
    /// If it isn't a consistent snapshot.
    pub fn complete(&mut self, id: CheckpointId) -> Result<Vec<Share>, Violation> {
        let at = self.snapshot(id);
        let snapshot = self.open.remove(at);
        let Some(promise) = snapshot.promise else {
            return Err(Violation::WrongFate {
                id,
                what: "all barriers are in although it wasn't cut",
            });
        };
        for (at, (share, log)) in snapshot.shares.iter().zip(&self.channels).enumerate() {
            let channel = ChannelIndex(u32::try_from(at).expect("channels are numbered by u32"));
            let sent_before = match log.barriers.iter().find(|(barrier, _)| *barrier == id) {
                Some((_, sent)) => *sent,
                None if log.ended => log.sent,
                None => return Err(Violation::EndedEarly { id, channel }),
            };
            if !share.is_right(sent_before, promise) {
                return Err(Violation::Inconsistent {
                    id,
                    channel,
                    sent_before,
                    processed: share.before,
                    captured: share.captured,
                });
            }
        }
        Ok(snapshot.shares)
    }

    /// The checkpoint is off; what was recorded for it is gone.
    pub fn drop_snapshot(&mut self, id: CheckpointId) {
        self.open.retain(|s| s.id != id);
    }

    /// Feeds everything about one channel that can still make a difference, relative to where the task stands in
    /// it: two histories with the same fingerprints have the same future.
    pub(crate) fn hash_channel(&self, at: usize, live: u64, state: &mut impl Hasher) {
        let log = &self.channels[at];
        let relative = |n: u32| n.wrapping_sub(log.processed);
        (relative(log.sent), log.ended).hash(state);
        for (id, sent) in log.barriers.iter().filter(|(id, _)| live >> id.0 & 1 == 1) {
            (id, relative(*sent)).hash(state);
        }
        for snapshot in &self.open {
            let share = snapshot.shares[at];
            let captured = share.captured.map(|(from, to)| (relative(from), relative(to)));
            (snapshot.id, relative(share.before), captured).hash(state);
        }
    }

    fn snapshot(&mut self, id: CheckpointId) -> usize {
        if let Some(at) = self.open.iter().position(|s| s.id == id) {
            return at;
        }
        let at = self.open.partition_point(|s| s.id < id);
        let shares = vec![Share::default(); self.channels.len()];
        self.open.insert(
            at,
            Snapshot {
                id,
                shares,
                promise: None,
            },
        );
        at
    }
}

impl Share {
    fn is_right(self, sent_before: u32, promise: Promise) -> bool {
        let (from, to) = self.captured.unwrap_or((self.before, self.before));
        match promise {
            Promise::ExactlyOnce => from == self.before && to == sent_before,
            Promise::AtLeastOnce => from <= self.before && to.max(self.before) >= sent_before,
        }
    }
}
