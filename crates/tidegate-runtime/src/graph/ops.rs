//! What can be done with a stream when its record type is known: one object per stream.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use tidegate_types::codec::{Record, TypeFormat};
use tidegate_types::{EdgeKind, EventTime, Nanos, OperatorUid};

use crate::chain::{
    ChainItem, Control, Downstream, Fanout, Outlet, Output, OutputChannel, OutputSettings, Partitioner,
    SideLink,
};
use crate::gate::{Gate, GateSender};
use crate::signal::TaskSignal;

use super::Spread;

/// A part of a chain in a box: a `Box<dyn Downstream<T>>`.
pub type AnyDownstream = Box<dyn Any + Send>;

/// A gate in a box: an `Arc<Gate<T>>`.
pub type AnyGate = Arc<dyn Any + Send + Sync>;

/// What the graph does with a stream of one record type.
pub trait StreamOps: Send + Sync {
    /// The record type's name, for messages.
    fn type_name(&self) -> &'static str;

    /// How records are stored when they are in flight; a warning if not natively.
    fn warning(&self) -> Option<String>;

    /// A gate for records of this type.
    fn gate(&self, consumer: Arc<TaskSignal>, channels: Vec<(EdgeKind, Arc<TaskSignal>)>) -> AnyGate;

    /// Lets a gate whose consumer has nothing left to do take everything and keep nothing.
    fn discard(&self, gate: &AnyGate);

    /// The end of a chain at an edge: one channel to each of these gates, at this number in it.
    fn output(
        &self,
        uid: &OperatorUid,
        partitioner: &(dyn Any + Send + Sync),
        channels: Vec<(AnyGate, usize)>,
        settings: OutputSettings,
        producer: usize,
    ) -> AnyDownstream;

    /// Several consumers as one.
    fn fanout(&self, parts: Vec<AnyDownstream>) -> AnyDownstream;

    /// A side output with this consumer.
    fn side_link(&self, next: AnyDownstream) -> Box<dyn SideLink>;

    /// Sends the last watermark and the end down a part of a chain that nothing else will come from.
    fn end(&self, part: AnyDownstream, watermark: EventTime, now: Nanos);

    /// The consumers that a producer has channels to.
    fn consumers(
        &self,
        partitioner: &(dyn Any + Send + Sync),
        producer: u32,
        producers: u32,
        consumers: u32,
    ) -> Vec<u32>;

    /// What an edge has if nobody says otherwise: forward if that is possible, else rebalance.
    fn default_partitioner(&self, forward: bool) -> Arc<dyn Any + Send + Sync>;

    /// How a partitioner spreads, for people.
    fn spread(&self, partitioner: &(dyn Any + Send + Sync)) -> Spread;
}

/// [`StreamOps`] of `T`.
pub struct TypedOps<T> {
    _record: PhantomData<fn() -> T>,
}

impl<T: Record> TypedOps<T> {
    /// The ops of `T`, shared.
    pub fn shared() -> Arc<dyn StreamOps> {
        Arc::new(Self { _record: PhantomData })
    }
}

/// Opens a box whose content the typed API put in.
pub(super) fn open<T: 'static>(any: Box<dyn Any + Send>, what: &str) -> T {
    match any.downcast::<T>() {
        Ok(inside) => *inside,
        Err(_) => unreachable!(
            "the typed API connects equal types only: {what} isn't {}",
            std::any::type_name::<T>()
        ),
    }
}

/// Opens a shared gate box.
pub(super) fn open_gate<T: Send + Sync + 'static>(any: &AnyGate) -> Arc<Gate<T>> {
    match any.clone().downcast::<Gate<T>>() {
        Ok(gate) => gate,
        Err(_) => unreachable!(
            "the typed API connects equal types only: a gate isn't of {}",
            std::any::type_name::<T>()
        ),
    }
}

fn partitioner<T: 'static>(any: &(dyn Any + Send + Sync)) -> &Partitioner<T> {
    any.downcast_ref()
        .expect("an edge's partitioner is of the producer's record type")
}

impl<T: Record> StreamOps for TypedOps<T> {
    fn type_name(&self) -> &'static str {
        std::any::type_name::<T>()
    }

    fn warning(&self) -> Option<String> {
        TypeFormat::<T>::of().warning().map(str::to_owned)
    }

    fn gate(&self, consumer: Arc<TaskSignal>, channels: Vec<(EdgeKind, Arc<TaskSignal>)>) -> AnyGate {
        Gate::<T>::new(consumer, channels)
    }

    fn discard(&self, gate: &AnyGate) {
        open_gate::<T>(gate).revoke();
    }

    fn output(
        &self,
        uid: &OperatorUid,
        any: &(dyn Any + Send + Sync),
        channels: Vec<(AnyGate, usize)>,
        settings: OutputSettings,
        producer: usize,
    ) -> AnyDownstream {
        let channels = channels
            .iter()
            .map(|(gate, channel)| OutputChannel::new(GateSender::new(open_gate::<T>(gate), *channel)))
            .collect();
        let output = Output::new(
            uid.clone(),
            partitioner::<T>(any).clone(),
            channels,
            settings,
            producer,
        );
        let boxed: Box<dyn Downstream<T>> = Box::new(output);
        Box::new(boxed)
    }

    fn fanout(&self, parts: Vec<AnyDownstream>) -> AnyDownstream {
        let mut parts: Vec<Box<dyn Downstream<T>>> =
            parts.into_iter().map(|p| open(p, "a consumer")).collect();
        let one: Box<dyn Downstream<T>> = match (parts.len(), parts.pop()) {
            (1, Some(only)) => only,
            (_, last) => {
                parts.extend(last);
                Box::new(Fanout::new(parts))
            }
        };
        Box::new(one)
    }

    fn end(&self, part: AnyDownstream, watermark: EventTime, now: Nanos) {
        let mut part: Box<dyn Downstream<T>> = open(part, "a finished producer's edge");
        part.control(Control::Flush, now);
        part.push(ChainItem::Watermark(0, watermark));
        part.push(ChainItem::End(0, true));
    }

    fn side_link(&self, next: AnyDownstream) -> Box<dyn SideLink> {
        Box::new(Outlet::<T>::new(open(next, "a side output's consumer")))
    }

    fn consumers(
        &self,
        any: &(dyn Any + Send + Sync),
        producer: u32,
        producers: u32,
        consumers: u32,
    ) -> Vec<u32> {
        use tidegate_types::{Parallelism, SubtaskIndex};
        let (of, to) = (Parallelism(producers), Parallelism(consumers));
        crate::chain::consumers_of(partitioner::<T>(any), SubtaskIndex(producer), of, to)
            .iter()
            .map(|s| s.0)
            .collect()
    }

    fn default_partitioner(&self, forward: bool) -> Arc<dyn Any + Send + Sync> {
        Arc::new(if forward {
            Partitioner::<T>::Forward
        } else {
            Partitioner::Rebalance
        })
    }

    fn spread(&self, any: &(dyn Any + Send + Sync)) -> Spread {
        match partitioner::<T>(any) {
            Partitioner::Forward => Spread::Forward,
            Partitioner::Hash(_) => Spread::Hash,
            Partitioner::Rebalance => Spread::Rebalance,
            Partitioner::Rescale => Spread::Rescale,
            Partitioner::Broadcast => Spread::Broadcast,
            Partitioner::Custom(_, stable) => Spread::Custom { stable: *stable },
        }
    }
}
