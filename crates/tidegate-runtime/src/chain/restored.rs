//! Channels that a restore brought back: what was in flight, delivered before anything new.

use std::collections::{BTreeMap, VecDeque};

use tidegate_types::snapshot::ChannelAddress;
use tidegate_types::{EventTime, InputIndex, SubtaskIndex};

use super::inflight::InFlightElement;

/// Where a live channel of a node comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelOrigin {
    /// Which incoming edge of the operator.
    pub input: InputIndex,
    /// The producing subtask.
    pub producer: SubtaskIndex,
}

/// An old channel with what is left of it. It is captured again under its own address by an unaligned snapshot,
/// counts in the watermark minimum until it is drained, and is then gone.
#[derive(Debug)]
pub struct RestoredChannel<T> {
    /// Under which it was stored.
    pub address: ChannelAddress,
    /// Its last watermark that was delivered.
    pub watermark: EventTime,
    /// What is left, in order.
    pub elements: VecDeque<InFlightElement<T>>,
}

impl<T> RestoredChannel<T> {
    /// The watermark it will have when drained.
    pub fn last_watermark(&self) -> EventTime {
        let ahead = self.elements.iter().filter_map(|e| match e {
            InFlightElement::Watermark(w) => Some(*w),
            _ => None,
        });
        ahead.max().map_or(self.watermark, |w| w.max(self.watermark))
    }
}

/// Joins the sections of each address in the order in which they were written, and orders the channels: older
/// generations first, then by producer and consumer. `watermarks` are those the channels had at the cut.
pub fn assemble<T>(
    parts: Vec<(ChannelAddress, Vec<InFlightElement<T>>)>,
    watermarks: &BTreeMap<ChannelAddress, EventTime>,
) -> VecDeque<RestoredChannel<T>> {
    let mut channels: BTreeMap<_, RestoredChannel<T>> = BTreeMap::new();
    for (address, elements) in parts {
        let key = (
            address.generation,
            address.input,
            address.producer,
            address.consumer,
        );
        channels
            .entry(key)
            .or_insert_with(|| RestoredChannel {
                address,
                watermark: watermarks.get(&address).copied().unwrap_or(EventTime::MIN),
                elements: VecDeque::new(),
            })
            .elements
            .extend(elements);
    }
    channels
        .into_values()
        .filter(|c| !c.elements.is_empty())
        .collect()
}
