//! Tasks that read gates: one input, or two of different types.

use std::sync::Arc;
use std::time::Duration;

use tidegate_protocol::barrier::BarrierEvent;
use tidegate_types::codec::{Record, TypeFormat};
use tidegate_types::snapshot::ChannelAddress;
use tidegate_types::{
    Barrier, Batch, ChannelIndex, CheckpointId, EdgeKind, Generation, Nanos, OperatorUid, SubtaskIndex,
};

use crate::chain::{
    Chain, ChainItem, ChannelOrigin, Cursor, Downstream, Pass, SnapshotPart, TwoInputNode, in_flight_part,
};
use crate::error::OpError;
use crate::gate::{Announcement, Gate, GateReader, Taken};

use super::body::{Body, BodyTaken, SourceControl};

/// One gate as its task sees it, with what is needed to store what is in flight in it.
pub struct GatePort<T> {
    gate: Arc<Gate<T>>,
    reader: GateReader<T>,
    origins: Vec<ChannelOrigin>,
    format: TypeFormat<T>,
    uid: OperatorUid,
    consumer: SubtaskIndex,
    generation: Generation,
    first_channel: u32,
    in_chain: Option<(usize, u64)>,
    ended: usize,
    drains: bool,
    record_bytes: u64,
}

enum PortTaken<T> {
    Nothing,
    /// An item, and how many records that is.
    Item(ChainItem<T>, u64),
    Barrier(ChannelIndex, Barrier),
    End(ChannelIndex, ChainItem<T>),
}

impl<T: Record> GatePort<T> {
    /// The consumer's end of a gate whose channels come from `origins`, in that order.
    pub fn new(
        gate: Arc<Gate<T>>,
        reader: GateReader<T>,
        origins: Vec<ChannelOrigin>,
        format: TypeFormat<T>,
        uid: OperatorUid,
        consumer: SubtaskIndex,
    ) -> Self {
        debug_assert_eq!(origins.len(), reader.channels());
        Self {
            gate,
            reader,
            origins,
            format,
            uid,
            consumer,
            generation: Generation(0),
            first_channel: 0,
            in_chain: None,
            ended: 0,
            drains: true,
            record_bytes: 0,
        }
    }

    fn kinds(&self) -> impl Iterator<Item = EdgeKind> + '_ {
        (0..self.reader.channels()).map(|c| self.reader.kind(c))
    }

    fn owns(&self, channel: ChannelIndex) -> bool {
        channel.0 >= self.first_channel && ((channel.0 - self.first_channel) as usize) < self.origins.len()
    }

    fn local(&self, channel: ChannelIndex) -> usize {
        (channel.0 - self.first_channel) as usize
    }

    fn global(&self, channel: usize) -> ChannelIndex {
        ChannelIndex(self.first_channel + channel as u32)
    }

    fn take(&mut self, now: Nanos) -> PortTaken<T> {
        match self.reader.take(now) {
            Taken::Nothing => PortTaken::Nothing,
            Taken::Batch(channel, batch) => {
                self.measure(&batch);
                let records = batch.len() as u64;
                self.in_chain = Some((channel, records));
                PortTaken::Item(ChainItem::Batch(channel, Cursor::from_shared(batch)), records)
            }
            Taken::Watermark(channel, w) => PortTaken::Item(ChainItem::Watermark(channel, w), 0),
            Taken::Status(channel, s) => PortTaken::Item(ChainItem::Status(channel, s), 0),
            Taken::Barrier(channel, barrier) => PortTaken::Barrier(self.global(channel), barrier),
            Taken::End(channel, drain) => {
                self.ended += 1;
                self.drains &= drain;
                PortTaken::End(self.global(channel), ChainItem::End(channel, drain))
            }
        }
    }

    /// One record in 1,024 is encoded to learn its size.
    fn measure(&mut self, batch: &Batch<T>) {
        if !self.reader.wants_size(batch.len() as u64) {
            return;
        }
        let mut bytes = Vec::new();
        if let Some(record) = batch.values.first()
            && self.format.encode_into(record, &mut bytes).is_ok()
        {
            self.record_bytes = bytes.len() as u64;
            self.reader.on_record_size(self.record_bytes);
        }
    }

    fn announcements(&mut self, now: Nanos, into: &mut Vec<BarrierEvent>) {
        let mut announced = Vec::new();
        self.reader.take_announced(now, &mut announced);
        into.extend(announced.into_iter().map(|a| match a {
            Announcement::Barrier(c, barrier, _) => BarrierEvent::Announced(self.global(c), barrier),
            Announcement::Cancel(c, id) => BarrierEvent::Cancel(self.global(c), id),
            Announcement::End(c) => BarrierEvent::EndQueued(self.global(c)),
        }));
    }

    fn give_back(&mut self) {
        if let Some((channel, records)) = self.in_chain.take() {
            self.reader.give_back(channel, records);
        }
    }

    fn take_captures(&mut self, id: CheckpointId) -> Vec<SnapshotPart> {
        let captured = self.reader.take_captures(id);
        let stored = captured.into_iter().filter(|c| !c.elements.is_empty());
        stored
            .map(|c| {
                let origin = self.origins[c.channel];
                let address = ChannelAddress {
                    input: origin.input,
                    generation: self.generation,
                    producer: origin.producer,
                    consumer: self.consumer,
                };
                in_flight_part(&self.uid, address, c.elements, self.format.clone())
            })
            .collect()
    }

    fn has_ended(&self) -> bool {
        self.ended == self.origins.len()
    }

    fn fill(&self) -> (u64, u64) {
        (self.reader.queued(), self.reader.budget().capacity())
    }
}

/// A task with one gate.
pub struct GateBody<T> {
    port: GatePort<T>,
    head: Box<dyn Downstream<T>>,
}

impl<T: Record> GateBody<T> {
    /// A chain behind one gate.
    pub fn new(port: GatePort<T>, head: Box<dyn Downstream<T>>) -> Self {
        Self { port, head }
    }
}

impl<T: Record> Body for GateBody<T> {
    fn kinds(&self) -> Vec<EdgeKind> {
        self.port.kinds().collect()
    }

    fn chain(&mut self) -> &mut dyn Chain {
        &mut *self.head
    }

    fn chain_is_empty(&self) -> bool {
        self.head.is_empty()
    }

    fn set_generation(&mut self, generation: Generation) {
        self.port.generation = generation;
    }

    fn pass_limit(&self) -> usize {
        self.port.reader.pass_limit()
    }

    fn take(&mut self, pass: &mut Pass<'_>) -> Result<BodyTaken, OpError> {
        Ok(match self.port.take(pass.now()) {
            PortTaken::Nothing => BodyTaken::Nothing(None),
            PortTaken::Item(item, records) => {
                self.head.push(item);
                BodyTaken::Element(records)
            }
            PortTaken::Barrier(channel, barrier) => BodyTaken::Barrier(channel, barrier),
            PortTaken::End(channel, item) => {
                self.head.push(item);
                BodyTaken::End(channel)
            }
        })
    }

    fn announcements(&mut self, now: Nanos, into: &mut Vec<BarrierEvent>) {
        self.port.announcements(now, into);
    }

    fn give_back(&mut self) {
        if self.head.is_empty() {
            self.port.give_back();
        }
    }

    fn on_busy(&mut self, busy: Duration, records: u64) {
        self.port.reader.on_busy(busy, records);
    }

    fn has_ended(&self) -> bool {
        self.port.has_ended() && self.head.is_empty()
    }

    fn ends_for_good(&self) -> bool {
        self.port.drains
    }

    fn fill(&self) -> (u64, u64) {
        self.port.fill()
    }

    fn block(&mut self, channel: ChannelIndex) {
        self.port.reader.block(channel.0 as usize);
    }

    fn release(&mut self, channel: ChannelIndex) {
        self.port.reader.release(channel.0 as usize);
    }

    fn begin_capture(&mut self, id: CheckpointId, channel: ChannelIndex) {
        self.port.reader.begin_capture(id, channel.0 as usize);
    }

    fn overtake(&mut self, id: CheckpointId, channel: ChannelIndex) {
        self.port.reader.overtake(id, channel.0 as usize);
    }

    fn capture_rest(&mut self, id: CheckpointId, channel: ChannelIndex) {
        self.port.reader.capture_rest(id, channel.0 as usize);
    }

    fn end_capture(&mut self, id: CheckpointId, channel: ChannelIndex) {
        self.port.reader.end_capture(id, channel.0 as usize);
    }

    fn drop_captures(&mut self, id: CheckpointId) {
        self.port.reader.drop_captures(id);
    }

    fn take_captures(&mut self, id: CheckpointId) -> Vec<SnapshotPart> {
        self.port.take_captures(id)
    }

    fn estimate_bytes(&self, records: u64) -> u64 {
        self.port.record_bytes * records
    }

    fn source(&mut self) -> Option<&mut dyn SourceControl> {
        None
    }

    fn revoke(&self) -> Box<dyn Fn() + Send + Sync> {
        let gate = self.port.gate.clone();
        Box::new(move || gate.revoke())
    }
}

/// The head of a chain with two inputs.
pub trait TwoInputHead<A, B>: Chain {
    /// Puts an item of the first input in.
    fn push_first(&mut self, item: ChainItem<A>);

    /// Puts an item of the second input in.
    fn push_second(&mut self, item: ChainItem<B>);
}

impl<A: Record, B: Record, O: Send + 'static> TwoInputHead<A, B> for TwoInputNode<A, B, O> {
    fn push_first(&mut self, item: ChainItem<A>) {
        TwoInputNode::push_first(self, item);
    }

    fn push_second(&mut self, item: ChainItem<B>) {
        TwoInputNode::push_second(self, item);
    }
}

/// A task with two gates.
pub struct TwoGateBody<A, B> {
    first: GatePort<A>,
    second: GatePort<B>,
    head: Box<dyn TwoInputHead<A, B>>,
    second_next: bool,
}

impl<A: Record, B: Record> TwoGateBody<A, B> {
    /// A chain behind two gates; the second one's channels are numbered after the first one's.
    pub fn new(first: GatePort<A>, mut second: GatePort<B>, head: Box<dyn TwoInputHead<A, B>>) -> Self {
        second.first_channel = first.origins.len() as u32;
        Self {
            first,
            second,
            head,
            second_next: false,
        }
    }
}

/// Does something with the port that owns a channel.
macro_rules! on_port {
    ($self:ident, $channel:ident, |$port:ident, $local:ident| $do:expr) => {
        if $self.first.owns($channel) {
            let $port = &mut $self.first;
            let $local = $port.local($channel);
            $do
        } else {
            let $port = &mut $self.second;
            let $local = $port.local($channel);
            $do
        }
    };
}

impl<A: Record, B: Record> Body for TwoGateBody<A, B> {
    fn kinds(&self) -> Vec<EdgeKind> {
        self.first.kinds().chain(self.second.kinds()).collect()
    }

    fn chain(&mut self) -> &mut dyn Chain {
        &mut *self.head
    }

    fn chain_is_empty(&self) -> bool {
        self.head.is_empty()
    }

    fn set_generation(&mut self, generation: Generation) {
        self.first.generation = generation;
        self.second.generation = generation;
    }

    fn pass_limit(&self) -> usize {
        // An input that brings nothing never grows its capacity and must not hold the other one down.
        self.first
            .reader
            .pass_limit()
            .max(self.second.reader.pass_limit())
    }

    fn take(&mut self, pass: &mut Pass<'_>) -> Result<BodyTaken, OpError> {
        // In turn, so that neither input starves the other.
        self.second_next = !self.second_next;
        for second in [self.second_next, !self.second_next] {
            let taken = if second {
                match self.second.take(pass.now()) {
                    PortTaken::Nothing => continue,
                    PortTaken::Item(item, records) => {
                        self.head.push_second(item);
                        BodyTaken::Element(records)
                    }
                    PortTaken::Barrier(channel, barrier) => BodyTaken::Barrier(channel, barrier),
                    PortTaken::End(channel, item) => {
                        self.head.push_second(item);
                        BodyTaken::End(channel)
                    }
                }
            } else {
                match self.first.take(pass.now()) {
                    PortTaken::Nothing => continue,
                    PortTaken::Item(item, records) => {
                        self.head.push_first(item);
                        BodyTaken::Element(records)
                    }
                    PortTaken::Barrier(channel, barrier) => BodyTaken::Barrier(channel, barrier),
                    PortTaken::End(channel, item) => {
                        self.head.push_first(item);
                        BodyTaken::End(channel)
                    }
                }
            };
            return Ok(taken);
        }
        Ok(BodyTaken::Nothing(None))
    }

    fn announcements(&mut self, now: Nanos, into: &mut Vec<BarrierEvent>) {
        self.first.announcements(now, into);
        self.second.announcements(now, into);
    }

    fn give_back(&mut self) {
        if self.head.is_empty() {
            self.first.give_back();
            self.second.give_back();
        }
    }

    fn on_busy(&mut self, busy: Duration, records: u64) {
        // Records of both inputs cost alike as far as anybody can tell.
        self.first.reader.on_busy(busy, records);
        self.second.reader.on_busy(busy, records);
    }

    fn has_ended(&self) -> bool {
        self.first.has_ended() && self.second.has_ended() && self.head.is_empty()
    }

    fn ends_for_good(&self) -> bool {
        self.first.drains && self.second.drains
    }

    fn fill(&self) -> (u64, u64) {
        let (a, b) = (self.first.fill(), self.second.fill());
        (a.0 + b.0, a.1 + b.1)
    }

    fn block(&mut self, channel: ChannelIndex) {
        on_port!(self, channel, |port, c| port.reader.block(c));
    }

    fn release(&mut self, channel: ChannelIndex) {
        on_port!(self, channel, |port, c| port.reader.release(c));
    }

    fn begin_capture(&mut self, id: CheckpointId, channel: ChannelIndex) {
        on_port!(self, channel, |port, c| port.reader.begin_capture(id, c));
    }

    fn overtake(&mut self, id: CheckpointId, channel: ChannelIndex) {
        on_port!(self, channel, |port, c| port.reader.overtake(id, c));
    }

    fn capture_rest(&mut self, id: CheckpointId, channel: ChannelIndex) {
        on_port!(self, channel, |port, c| port.reader.capture_rest(id, c));
    }

    fn end_capture(&mut self, id: CheckpointId, channel: ChannelIndex) {
        on_port!(self, channel, |port, c| port.reader.end_capture(id, c));
    }

    fn drop_captures(&mut self, id: CheckpointId) {
        self.first.reader.drop_captures(id);
        self.second.reader.drop_captures(id);
    }

    fn take_captures(&mut self, id: CheckpointId) -> Vec<SnapshotPart> {
        let mut parts = self.first.take_captures(id);
        parts.append(&mut self.second.take_captures(id));
        parts
    }

    fn estimate_bytes(&self, records: u64) -> u64 {
        (self.first.record_bytes + self.second.record_bytes) / 2 * records
    }

    fn source(&mut self) -> Option<&mut dyn SourceControl> {
        None
    }

    fn revoke(&self) -> Box<dyn Fn() + Send + Sync> {
        let (first, second) = (self.first.gate.clone(), self.second.gate.clone());
        Box::new(move || {
            first.revoke();
            second.revoke();
        })
    }
}
