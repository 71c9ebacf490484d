//! The end of a chain at an edge: spreads records over channels, in open batches.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tidegate_types::key_group::key_group;
use tidegate_types::time::MIN_WATERMARK;
use tidegate_types::{
    Batch, CheckpointId, Element, EventTime, MaxParallelism, Nanos, OperatorUid, Parallelism,
};

use crate::error::OpError;
use crate::gate::GateSender;

use super::flow::{Flow, PASS_RECORDS, Pass};
use super::node::{Chain, ChainItem, Control, Downstream, Node};
use super::overdraft::Overdraft;
use super::partition::{Partitioner, checked, group_table};

/// How an output batches.
#[derive(Debug, Clone, Copy)]
pub struct OutputSettings {
    /// How long a record may wait in an open batch. Zero: not beyond its pass.
    pub buffer_timeout: Duration,
    /// Key groups of the job.
    pub max_parallelism: MaxParallelism,
}

/// One channel of an output, with its open batch.
pub struct OutputChannel<T> {
    sender: GateSender<T>,
    open: Batch<T>,
    /// At how many records the open batch goes, as of the batch at hand.
    limit: usize,
}

impl<T> OutputChannel<T> {
    /// A channel to a gate.
    pub fn new(sender: GateSender<T>) -> Self {
        Self {
            sender,
            open: Batch::default(),
            limit: 1,
        }
    }

    fn room(&self) -> u64 {
        self.sender.room(self.open.len() as u64)
    }

    /// Makes the open batch one of hashed records, with times or without.
    fn begin_hashed(&mut self, timed: bool) {
        self.limit = self.sender.batch_limit().min(PASS_RECORDS);
        let len = self.open.len();
        if timed {
            self.open
                .times
                .get_or_insert_default()
                .resize(len, EventTime::MIN);
        }
    }

    #[inline]
    fn append_hashed(&mut self, value: T, hash: u64, now: Nanos) {
        self.open.hashes.get_or_insert_default().push(hash);
        self.open.values.push(value);
        if self.open.values.len() >= self.limit {
            self.flush(now);
        }
    }

    fn append(&mut self, value: T, time: Option<EventTime>) {
        push_time(&mut self.open.times, self.open.values.len(), time);
        self.open.values.push(value);
    }

    fn flush(&mut self, now: Nanos) {
        if !self.open.is_empty() {
            let capacity = self.open.len();
            let next = Batch {
                values: Vec::with_capacity(capacity),
                times: self.open.times.as_ref().map(|_| Vec::with_capacity(capacity)),
                hashes: self.open.hashes.as_ref().map(|_| Vec::with_capacity(capacity)),
            };
            let batch = std::mem::replace(&mut self.open, next);
            self.sender.push_batch(Arc::new(batch), now);
        }
    }

    fn flush_if_full(&mut self, now: Nanos) {
        if self.open.len() >= self.sender.batch_limit().min(PASS_RECORDS) {
            self.flush(now);
        }
    }
}

/// Records without a time among others get the lowest.
fn push_time(times: &mut Option<Vec<EventTime>>, len: usize, time: Option<EventTime>) {
    match (times.as_mut(), time) {
        (Some(times), time) => times.push(time.unwrap_or(EventTime::MIN)),
        (None, Some(time)) => {
            let mut column = Vec::with_capacity(len + 16);
            column.resize(len, EventTime::MIN);
            column.push(time);
            *times = Some(column);
        }
        (None, None) => {}
    }
}

/// One edge out of a task.
pub struct Output<T> {
    uid: OperatorUid,
    partitioner: Partitioner<T>,
    channels: Vec<OutputChannel<T>>,
    settings: OutputSettings,
    groups: Vec<u16>,
    hashes: Vec<u64>,
    next: usize,
    emitted: u64,
    flush_at: Option<Nanos>,
    failed: Option<OpError>,
    /// The end was sent: nothing follows it, not even barriers. To consumers an ended channel has passed all.
    ended: bool,
    now: Nanos,
}

impl<T: Clone + Send + Sync + 'static> Output<T> {
    /// The edge from `uid` over these channels. `producer` staggers round robins, so that not all producers
    /// begin with the same consumer.
    pub fn new(
        uid: OperatorUid,
        partitioner: Partitioner<T>,
        channels: Vec<OutputChannel<T>>,
        settings: OutputSettings,
        producer: usize,
    ) -> Self {
        let groups = match partitioner {
            Partitioner::Hash(_) => group_table(settings.max_parallelism, Parallelism(channels.len() as u32)),
            _ => Vec::new(),
        };
        let next = producer % channels.len().max(1);
        Self {
            uid,
            partitioner,
            channels,
            settings,
            groups,
            hashes: Vec::new(),
            next,
            emitted: 0,
            flush_at: None,
            failed: None,
            ended: false,
            now: Nanos(0),
        }
    }

    fn spread(&mut self, batch: Batch<T>) {
        if self.channels.is_empty() {
            return;
        }
        self.emitted += batch.len() as u64;
        let result = match &self.partitioner {
            Partitioner::Forward => {
                self.whole(batch);
                Ok(())
            }
            Partitioner::Broadcast => {
                self.broadcast(batch);
                Ok(())
            }
            Partitioner::Rebalance | Partitioner::Rescale => {
                self.round_robin(batch);
                Ok(())
            }
            Partitioner::Hash(hasher) => {
                let hasher = hasher.clone();
                self.hashed(batch, &hasher)
            }
            Partitioner::Custom(partition, _) => {
                let partition = partition.clone();
                let consumers = Parallelism(self.channels.len() as u32);
                self.by(batch, |v| {
                    checked(partition(v, consumers.0), consumers).map(|s| s.0 as usize)
                })
                .map_err(|e| OpError::fatal(&self.uid, "custom partitioner", e))
            }
        };
        if let Err(e) = result {
            self.failed = Some(e);
        }
    }

    fn whole(&mut self, batch: Batch<T>) {
        let channel = &mut self.channels[0];
        // A big batch goes as it is; small ones are gathered.
        if channel.open.is_empty() && batch.len() >= channel.sender.batch_limit().min(PASS_RECORDS) {
            channel.sender.push_batch(Arc::new(batch), self.now);
            return;
        }
        let mut times = batch.times.map(Vec::into_iter);
        for value in batch.values {
            channel.append(value, times.as_mut().and_then(Iterator::next));
            channel.flush_if_full(self.now);
        }
    }

    fn broadcast(&mut self, batch: Batch<T>) {
        let shared = Arc::new(batch);
        for channel in &mut self.channels {
            channel.sender.push_batch(shared.clone(), self.now);
        }
    }

    fn round_robin(&mut self, batch: Batch<T>) {
        let mut times = batch.times.map(Vec::into_iter);
        for value in batch.values {
            let channel = &mut self.channels[self.next];
            channel.append(value, times.as_mut().and_then(Iterator::next));
            channel.flush_if_full(self.now);
            self.next += 1;
            if self.next == self.channels.len() {
                self.next = 0;
            }
        }
    }

    fn hashed(&mut self, batch: Batch<T>, hasher: &super::partition::KeyHasher<T>) -> Result<(), OpError> {
        self.hashes.clear();
        hasher(&batch.values, &mut self.hashes).map_err(|e| OpError::fatal(&self.uid, "key", e))?;
        let max = self.settings.max_parallelism;
        // A stream mostly has times or has none. Where both come, records without one get the lowest.
        let timed = batch.times.is_some() || self.channels.iter().any(|c| c.open.times.is_some());
        let times = match batch.times {
            None if timed => Some(vec![EventTime::MIN; batch.values.len()]),
            times => times,
        };
        // Shares move seldom, and who moves them is another processor: read once a batch, not once a record.
        for channel in &mut self.channels {
            channel.begin_hashed(timed);
        }
        let Self {
            groups,
            channels,
            hashes,
            now,
            ..
        } = self;
        let records = batch.values.into_iter().zip(hashes.iter());
        match times {
            None => {
                for (value, &hash) in records {
                    let channel = &mut channels[groups[key_group(hash, max) as usize] as usize];
                    channel.append_hashed(value, hash, *now);
                }
            }
            Some(times) => {
                for ((value, &hash), time) in records.zip(times) {
                    let channel = &mut channels[groups[key_group(hash, max) as usize] as usize];
                    channel.open.times.get_or_insert_default().push(time);
                    channel.append_hashed(value, hash, *now);
                }
            }
        }
        Ok(())
    }

    fn by<E>(&mut self, batch: Batch<T>, target: impl Fn(&T) -> Result<usize, E>) -> Result<(), E> {
        let mut times = batch.times.map(Vec::into_iter);
        for value in batch.values {
            let channel = &mut self.channels[target(&value)?];
            channel.append(value, times.as_mut().and_then(Iterator::next));
            channel.flush_if_full(self.now);
        }
        Ok(())
    }

    fn flush_all(&mut self, now: Nanos) {
        for channel in &mut self.channels {
            channel.flush(now);
        }
        self.flush_at = None;
    }

    fn event(&mut self, element: &dyn Fn() -> Element<T>) {
        let now = self.now;
        self.flush_all(now);
        for channel in &self.channels {
            channel.sender.push_event(element(), now);
        }
    }

    fn cancel(&self, id: CheckpointId) {
        for channel in &self.channels {
            channel.sender.push_cancel(id);
        }
    }
}

impl<T: Clone + Send + Sync + 'static> Downstream<T> for Output<T> {
    fn push(&mut self, item: ChainItem<T>) {
        match item {
            ChainItem::Batch(_, cursor) => {
                self.spread(cursor.into_batch());
                if self.flush_at.is_none() && self.channels.iter().any(|c| !c.open.is_empty()) {
                    self.flush_at = Some(self.now + self.settings.buffer_timeout);
                }
            }
            ChainItem::Watermark(_, w) => self.event(&|| Element::Watermark(w)),
            ChainItem::Status(_, a) => self.event(&|| Element::Status(a)),
            ChainItem::End(_, drain) => {
                self.event(&|| Element::End { drain });
                self.ended = true;
            }
        }
    }
}

impl<T: Clone + Send + Sync + 'static> Chain for Output<T> {
    fn run(&mut self, pass: &mut Pass<'_>) -> Result<Flow, OpError> {
        self.now = pass.now();
        match self.failed.take() {
            Some(e) => Err(e),
            None => Ok(Flow::Done),
        }
    }

    fn room(&self) -> usize {
        let least = self
            .channels
            .iter()
            .map(OutputChannel::room)
            .min()
            .unwrap_or(u64::MAX);
        if least < PASS_RECORDS as u64 {
            for channel in &self.channels {
                if channel.room() == least {
                    channel.sender.note_limited();
                }
            }
        }
        usize::try_from(least).unwrap_or(usize::MAX).min(PASS_RECORDS)
    }

    fn is_empty(&self) -> bool {
        true
    }

    fn watermark(&self) -> EventTime {
        MIN_WATERMARK
    }

    fn emitted(&self) -> u64 {
        self.emitted
    }

    fn control(&mut self, control: Control<'_>, now: Nanos) {
        self.now = now;
        match control {
            Control::Barrier(_) | Control::Cancel(_) if self.ended => {}
            Control::Barrier(barrier) => {
                self.flush_all(now);
                for channel in &self.channels {
                    channel.sender.push_barrier(barrier.clone(), now);
                }
            }
            Control::Cancel(id) => self.cancel(id),
            Control::Flush => self.flush_all(now),
            Control::FlushDue => {
                if self.flush_at.is_some_and(|at| at <= now) {
                    self.flush_all(now);
                }
            }
        }
    }

    fn wait_for_room(&self) -> bool {
        let mut waits = false;
        for channel in &self.channels {
            if channel.room() == 0 && channel.sender.wait_for_room(channel.open.len() as u64) {
                waits = true;
            }
        }
        waits
    }

    fn deadlines(&self) -> (Option<Nanos>, Option<EventTime>) {
        (self.flush_at, None)
    }

    fn on_time(&mut self, _: EventTime) {}

    fn visit(&mut self, _: &mut dyn FnMut(&mut dyn Node) -> Result<(), OpError>) -> Result<(), OpError> {
        Ok(())
    }

    fn finish_records(&mut self, _: &mut Overdraft<'_>) -> Result<bool, OpError> {
        Ok(true)
    }

    fn prepare_snapshot(&mut self, _: CheckpointId, _: Option<&mut Pass<'_>>) -> Result<(), OpError> {
        Ok(())
    }
}
