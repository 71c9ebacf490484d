//! What a node stores besides its operator's state: watermarks, and what was in flight before it.
//!
//! Owns the `Watermarks` section and the way in which in-flight sections of all old subtasks become the restored
//! channels of a new one. Does not own the elements' bytes ([`super::inflight`]).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidegate_types::codec::{Record, TypeFormat, UnreadableError, canonical};
use tidegate_types::key_group::{HashRange, hash_range};
use tidegate_types::snapshot::{ChannelAddress, Encoding, SectionBytes, SectionHead, SectionKind};
use tidegate_types::time::{MAX_WATERMARK, MIN_WATERMARK};
use tidegate_types::{Batch, EventTime, InputIndex, OperatorUid, SubtaskIndex};

use crate::error::OpError;
use crate::gate::CapturedElement;

use super::inflight::{decode_in_flight, encode_in_flight};
use super::operator::{OpenContext, SnapshotPart};
use super::partition::Route;
use super::restored::{ChannelOrigin, RestoredChannel, assemble};
use super::valve::{Merged, Valve};

/// The watermarks of one node at a cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermarks {
    /// What the operator was told last.
    pub current: EventTime,
    /// Each channel's last watermark.
    pub channels: Vec<(ChannelAddress, EventTime)>,
}

impl Watermarks {
    /// Of an operator at `current`.
    pub fn new(current: EventTime) -> Self {
        Self {
            current,
            channels: Vec::new(),
        }
    }

    /// The section.
    ///
    /// # Errors
    /// Never in practice: the content is plain data.
    pub fn into_part(self, uid: &OperatorUid) -> Result<SnapshotPart, OpError> {
        let mut bytes = Vec::new();
        canonical::encode_into(&self, &mut bytes).map_err(|e| OpError::fatal(uid, "watermarks", e))?;
        let head = SectionHead {
            uid: uid.clone(),
            kind: SectionKind::Watermarks,
            name: String::new(),
            hashes: None,
            encoding: Encoding::Canonical,
            shapes: Vec::new(),
            records: self.channels.len() as u64,
        };
        Ok(SnapshotPart::ready(SectionBytes {
            head,
            bytes: bytes.into(),
        }))
    }
}

/// A section of in-flight elements, encoded later.
pub fn in_flight_part<T: Record>(
    uid: &OperatorUid,
    address: ChannelAddress,
    elements: Vec<CapturedElement<T>>,
    format: TypeFormat<T>,
) -> SnapshotPart {
    let uid = uid.clone();
    SnapshotPart::later(move || {
        let (bytes, records) = encode_in_flight(&elements, &format)
            .map_err(|e| OpError::fatal(&uid, format!("in-flight records of input {}", address.input), e))?;
        let head = SectionHead {
            uid,
            kind: SectionKind::InFlight(address),
            name: String::new(),
            hashes: None,
            encoding: format.encoding(),
            shapes: format.shape().cloned().into_iter().collect(),
            records,
        };
        Ok(vec![SectionBytes {
            head,
            bytes: Bytes::from(bytes),
        }])
    })
}

/// What one node input gets back.
#[derive(Debug)]
pub struct RestoredInput<T> {
    /// The lowest watermark that the old owners had.
    pub watermark: EventTime,
    /// Which old owner of hashes was where, if they differ.
    pub floors: Vec<(HashRange, EventTime)>,
    /// Old channels that have something for this subtask, in the order of delivery.
    pub channels: VecDeque<RestoredChannel<T>>,
    /// Every old channel of these inputs, with the watermark it would have when drained.
    last: Vec<(ChannelAddress, EventTime)>,
}

impl<T: Record> RestoredInput<T> {
    /// Takes from the context what belongs to the inputs that `of` picks.
    ///
    /// # Errors
    /// When a section is damaged, or its records can't be read as `T` any more.
    pub fn take(
        cx: &mut OpenContext,
        format: &TypeFormat<T>,
        route: &Route<T>,
        of: impl Fn(InputIndex) -> bool,
    ) -> Result<Self, OpError> {
        let mut own = Vec::new();
        let mut watermarks: BTreeMap<ChannelAddress, EventTime> = BTreeMap::new();
        for section in cx
            .restored
            .iter()
            .filter(|s| s.head.kind == SectionKind::Watermarks)
        {
            let stored: Watermarks = canonical::decode_from(&mut &section.bytes[..])
                .map_err(|e| OpError::fatal(&cx.uid, "restored watermarks", e))?;
            own.push((section.subtask, stored.current));
            for (address, w) in stored.channels.into_iter().filter(|(a, _)| of(a.input)) {
                let least = watermarks.entry(address).or_insert(w);
                *least = (*least).min(w);
            }
        }
        let sections = cx.take(|k| matches!(k, SectionKind::InFlight(a) if of(a.input)));
        let mut parts = Vec::new();
        let mut last = watermarks.clone();
        for section in sections {
            let SectionKind::InFlight(address) = section.head.kind else {
                continue;
            };
            let place = || {
                format!(
                    "in-flight records of input {} from subtask {}",
                    address.input, address.producer
                )
            };
            let head = &section.head;
            format
                .check_readable(head.encoding, head.shapes.first())
                .map_err(|e| OpError::fatal(&cx.uid, place(), not_readable(&e)))?;
            let elements = decode_in_flight::<T>(&section.bytes, head.encoding)
                .map_err(|e| OpError::fatal(&cx.uid, place(), e))?;
            for element in &elements {
                if let CapturedElement::Watermark(w) = element {
                    let l = last.entry(address).or_insert(MIN_WATERMARK);
                    *l = (*l).max(*w);
                }
            }
            let kept = keep_own(cx, route, section.subtask, elements)
                .map_err(|e| OpError::fatal(&cx.uid, place(), e))?;
            parts.push((address, kept));
        }
        let (watermark, floors) = own_watermark(cx, route, &own);
        Ok(Self {
            watermark,
            floors,
            channels: assemble(parts, &watermarks),
            last: last.into_iter().collect(),
        })
    }

    /// Starts the live channels where the old ones that they continue will end. A channel that had come to its end
    /// says nothing of those that follow: if others of its operator hadn't, that operator goes on, and what takes the
    /// place of the one that ended may get records again.
    pub fn start(&self, valve: &mut Valve, live: &[ChannelOrigin]) -> Merged {
        valve.restore_merged(self.watermark);
        for (channel, origin) in live.iter().enumerate() {
            let of_input = || self.last.iter().filter(|(a, _)| a.input == origin.input);
            let Some(newest) = of_input().map(|(a, _)| a.generation).max() else {
                continue;
            };
            let old_producers = of_input()
                .filter(|(a, _)| a.generation == newest)
                .map(|(a, _)| a.producer)
                .max();
            let new_producers = live
                .iter()
                .filter(|o| o.input == origin.input)
                .map(|o| o.producer)
                .max();
            let same = old_producers == new_producers;
            let least = of_input()
                .filter(|(a, _)| a.generation == newest && (!same || a.producer == origin.producer))
                .map(|(_, w)| *w)
                .filter(|w| *w != MAX_WATERMARK)
                .min();
            if let Some(w) = least {
                valve.restore_channel(channel, w);
            }
        }
        valve.merge(self.channels.iter().map(|c| c.watermark).min())
    }
}

/// The watermark to begin with, and what is known better per range of hashes.
fn own_watermark<T>(
    cx: &OpenContext,
    route: &Route<T>,
    own: &[(SubtaskIndex, EventTime)],
) -> (EventTime, Vec<(HashRange, EventTime)>) {
    let Some(old) = cx.old_parallelism else {
        return (MIN_WATERMARK, Vec::new());
    };
    let least = |it: &mut dyn Iterator<Item = EventTime>| it.min();
    if !route.is_keyed() || old == cx.parallelism {
        let mine = own
            .iter()
            .filter(|(s, _)| route.position(*s, old, cx.parallelism) == cx.subtask);
        let found = least(&mut mine.map(|(_, w)| *w)).or_else(|| least(&mut own.iter().map(|(_, w)| *w)));
        return (found.unwrap_or(MIN_WATERMARK), Vec::new());
    }
    let Some(range) = cx.hash_range() else {
        return (MIN_WATERMARK, Vec::new());
    };
    let floors = own
        .iter()
        .filter_map(|(s, w)| Some((hash_range(*s, cx.max_parallelism, old)?.intersection(range)?, *w)))
        .collect::<Vec<_>>();
    (
        least(&mut floors.iter().map(|(_, w)| *w)).unwrap_or(MIN_WATERMARK),
        floors,
    )
}

fn not_readable(why: &UnreadableError) -> String {
    format!(
        "{why}. In-flight records are natively stored only: stop the old program with a savepoint, which holds none, and \
         restore from that"
    )
}

/// Keeps of an old subtask's elements what belongs to this one.
fn keep_own<T: Record>(
    cx: &OpenContext,
    route: &Route<T>,
    holder: SubtaskIndex,
    elements: Vec<CapturedElement<T>>,
) -> Result<Vec<CapturedElement<T>>, crate::error::BoxError> {
    let old = cx.old_parallelism.unwrap_or(cx.parallelism);
    let mut kept = Vec::with_capacity(elements.len());
    let mut index = 0u64;
    for element in elements {
        let CapturedElement::Batch(batch) = element else {
            kept.push(element);
            continue;
        };
        let mut batch = Arc::unwrap_or_clone(batch);
        let targets = route.targets(&batch.values, holder, &mut index, old, cx)?;
        if let Some(hashes) = targets.hashes {
            batch.hashes = Some(hashes);
        }
        let own = retain(batch, |i| targets.subtasks[i] == cx.subtask);
        if !own.is_empty() {
            kept.push(CapturedElement::Batch(Arc::new(own)));
        }
    }
    // Watermarks alone, of a channel that has no record for this subtask, would only be noise.
    if kept.iter().any(|e| matches!(e, CapturedElement::Batch(_))) || old == cx.parallelism {
        Ok(kept)
    } else {
        Ok(Vec::new())
    }
}

fn retain<T>(batch: Batch<T>, keep: impl Fn(usize) -> bool) -> Batch<T> {
    let pick = |column: Option<Vec<u64>>| {
        column.map(|c| {
            c.into_iter()
                .enumerate()
                .filter(|(i, _)| keep(*i))
                .map(|(_, v)| v)
                .collect()
        })
    };
    Batch {
        times: batch.times.map(|c| {
            c.into_iter()
                .enumerate()
                .filter(|(i, _)| keep(*i))
                .map(|(_, v)| v)
                .collect()
        }),
        hashes: pick(batch.hashes),
        values: batch
            .values
            .into_iter()
            .enumerate()
            .filter(|(i, _)| keep(*i))
            .map(|(_, v)| v)
            .collect(),
    }
}
