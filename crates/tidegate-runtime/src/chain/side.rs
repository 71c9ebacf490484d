//! One input of a node: what stands unread before it, live and restored, with its channels' watermarks.
//!
//! Owns: the order of delivery (restored channels before anything live, older generations first), the merge of
//! watermarks, and the capture of what stands. Does not own: the operator, and what a merged watermark causes.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_types::codec::{Record, TypeFormat};
use tidegate_types::snapshot::ChannelAddress;
use tidegate_types::{Activity, Batch, EventTime, Generation, InputIndex, OperatorUid, SubtaskIndex};

use crate::gate::CapturedElement;

use super::cursor::Cursor;
use super::node::ChainItem;
use super::node_state::{RestoredInput, Watermarks, in_flight_part};
use super::operator::CutParts;
use super::partition::Route;
use super::restored::{ChannelOrigin, RestoredChannel};
use super::valve::{Merged, Valve};

/// What a node is to do besides processing records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// The merged watermark rose.
    Watermark(EventTime),
    Status(Activity),
    /// Processing-time timers are due.
    Timers(EventTime),
    End(bool),
}

/// What stands before a node.
pub(super) enum Standing<T> {
    Batch(usize, Cursor<T>),
    /// A batch that a snapshot may still hold: copied only when its turn comes and only if so.
    Shared(usize, Arc<Batch<T>>),
    Due(Due),
}

/// Stands for the front restored channel where a live channel's number is expected.
const RESTORED: usize = usize::MAX;

/// One input of a node.
pub struct Side<T> {
    channels: Vec<ChannelOrigin>,
    format: TypeFormat<T>,
    route: Route<T>,
    generation: Generation,
    valve: Valve,
    restored: VecDeque<RestoredChannel<T>>,
    pub(super) standing: VecDeque<Standing<T>>,
    ended: usize,
    drains: bool,
}

impl<T: Record> Side<T> {
    /// An input with these live channels. `format` and `route` say how its records are stored and, after a
    /// change of parallelism, which subtask a stored record belongs to.
    pub fn new(channels: Vec<ChannelOrigin>, format: TypeFormat<T>, route: Route<T>) -> Self {
        Self {
            valve: Valve::new(channels.len()),
            channels,
            format,
            route,
            generation: Generation(0),
            restored: VecDeque::new(),
            standing: VecDeque::new(),
            ended: 0,
            drains: true,
        }
    }

    /// Where stored records of this input belong.
    pub fn route(&self) -> &Route<T> {
        &self.route
    }

    /// Whether channels of this edge come in here.
    pub fn has_input(&self, input: InputIndex) -> bool {
        self.channels.iter().any(|c| c.input == input)
    }

    /// Whether every channel's end has come, if it only stands here yet: no timer fires behind it.
    pub fn has_ended(&self) -> bool {
        self.ended == self.channels.len()
    }

    /// Whether nothing stands here, nor is left of restored channels.
    pub fn is_empty(&self) -> bool {
        self.standing.is_empty() && self.restored.is_empty()
    }

    /// The merged watermark, unless all channels are idle.
    pub fn active_watermark(&self) -> Option<EventTime> {
        (!self.valve.is_idle()).then(|| self.valve.watermark())
    }

    /// Takes over what a restore brought back.
    pub fn open(&mut self, input: RestoredInput<T>, generation: Generation) -> Merged {
        self.generation = generation;
        let merged = input.start(&mut self.valve, &self.channels);
        self.restored = input.channels;
        merged
    }

    /// Takes an item of a live channel. Says what it did to the merged watermark and, when it was the last
    /// channel's end, whether the input has ended for good.
    pub fn push(&mut self, item: ChainItem<T>) -> (Merged, Option<bool>) {
        let restored = self.restored_watermark();
        match item {
            ChainItem::Batch(channel, cursor) => {
                self.standing.push_back(Standing::Batch(channel, cursor));
                (Merged::default(), None)
            }
            ChainItem::Watermark(channel, w) => (self.valve.on_watermark(channel, w, restored), None),
            ChainItem::Status(channel, a) => (self.valve.on_status(channel, a, restored), None),
            ChainItem::End(channel, drain) => {
                let merged = self.valve.on_end(channel, restored);
                self.ended += 1;
                // One channel that only paused is enough: nothing may be flushed as if it were over.
                self.drains &= drain;
                (merged, (self.ended == self.channels.len()).then_some(self.drains))
            }
        }
    }

    /// Lets the next element of the oldest restored channel stand here. `None` when nothing is left of them.
    pub fn stand_restored(&mut self) -> Option<Merged> {
        let channel = self.restored.front_mut()?;
        let merged = match channel.elements.pop_front() {
            None => {
                self.restored.pop_front();
                self.valve.merge(self.restored_watermark())
            }
            Some(CapturedElement::Batch(batch)) => {
                self.standing.push_back(Standing::Shared(RESTORED, batch));
                Merged::default()
            }
            Some(CapturedElement::Watermark(w)) => {
                channel.watermark = channel.watermark.max(w);
                self.valve.merge(self.restored_watermark())
            }
            // While it has records it holds the watermark back, idle or not.
            Some(CapturedElement::Status(_)) => Merged::default(),
        };
        Some(merged)
    }

    /// The first batch that stands here becomes this node's own.
    pub(super) fn unshare(&mut self) {
        if let Some(first) = self.standing.front_mut()
            && let Standing::Shared(channel, batch) = first
        {
            *first = Standing::Batch(*channel, Cursor::from_shared(std::mem::take(batch)));
        }
    }

    /// The first records to process, restored ones before live ones.
    pub fn cursor(&mut self) -> Option<&mut Cursor<T>> {
        while self.standing.is_empty() {
            self.stand_restored()?;
        }
        self.unshare();
        match self.standing.front_mut() {
            Some(Standing::Batch(_, cursor)) => Some(cursor),
            _ => None,
        }
    }

    /// Drops the first batch if all of it was processed.
    pub fn settle(&mut self, done: bool) {
        if done && matches!(self.standing.front(), Some(Standing::Batch(_, c)) if c.is_empty()) {
            self.standing.pop_front();
        }
    }

    /// Adds this input's channels to what the node stores. In a node with this one input and one channel,
    /// watermarks may stand behind records: they are stored in order with these
    /// ([`capture`](Self::capture)), and the channel counts as being where the operator is (`alone`).
    pub fn add_watermarks(&self, into: &mut Watermarks, consumer: SubtaskIndex, alone: bool) {
        let single = alone && self.channels.len() == 1;
        for channel in 0..self.channels.len() {
            let watermark = if single {
                into.current
            } else {
                self.valve.channel(channel).0
            };
            into.channels.push((self.address(channel, consumer), watermark));
        }
        into.channels
            .extend(self.restored.iter().map(|c| (c.address, c.watermark)));
    }

    /// Stores what stands here and what is left of restored channels; all of it stays in place.
    pub fn capture(
        &mut self,
        uid: &OperatorUid,
        consumer: SubtaskIndex,
        current: EventTime,
        parts: &mut CutParts,
    ) {
        for (address, elements) in self.remainders(consumer, current) {
            parts
                .parts
                .push(in_flight_part(uid, address, elements, self.format.clone()));
        }
    }

    fn remainders(
        &mut self,
        consumer: SubtaskIndex,
        current: EventTime,
    ) -> Vec<(ChannelAddress, Vec<CapturedElement<T>>)> {
        let mut remainders: Vec<(ChannelAddress, Vec<CapturedElement<T>>)> = Vec::new();
        let mut add = |address: ChannelAddress, element: CapturedElement<T>| match remainders.last_mut() {
            Some((last, elements)) if *last == address => elements.push(element),
            _ => remainders.push((address, vec![element])),
        };
        let live = |channel: usize| {
            let origin = self.channels[channel];
            let (input, producer) = (origin.input, origin.producer);
            ChannelAddress {
                input,
                generation: self.generation,
                producer,
                consumer,
            }
        };
        let front = self.restored.front().map(|c| c.address);
        for standing in &mut self.standing {
            if let Standing::Batch(channel, cursor) = standing {
                let tail = std::mem::replace(cursor, Cursor::new(Batch::default())).into_batch();
                *standing = Standing::Shared(*channel, Arc::new(tail));
            }
            match standing {
                Standing::Shared(RESTORED, tail) if !tail.is_empty() => {
                    let address =
                        front.expect("a restored channel stays in front while a batch of it stands");
                    add(address, CapturedElement::Batch(tail.clone()));
                }
                Standing::Shared(channel, tail) if !tail.is_empty() => {
                    add(live(*channel), CapturedElement::Batch(tail.clone()));
                }
                Standing::Due(Due::Watermark(w)) if *w > current && self.channels.len() == 1 => {
                    add(live(0), CapturedElement::Watermark(*w));
                }
                _ => {}
            }
        }
        for channel in &self.restored {
            for element in &channel.elements {
                add(channel.address, element.clone());
            }
        }
        remainders
    }

    /// The address under which records of a live channel are stored.
    pub fn address(&self, channel: usize, consumer: SubtaskIndex) -> ChannelAddress {
        let origin = self.channels[channel];
        let (input, producer) = (origin.input, origin.producer);
        ChannelAddress {
            input,
            generation: self.generation,
            producer,
            consumer,
        }
    }

    /// How its records are stored.
    pub fn format(&self) -> &TypeFormat<T> {
        &self.format
    }

    fn restored_watermark(&self) -> Option<EventTime> {
        self.restored.iter().map(|c| c.watermark).min()
    }
}
