//! Two streams of different types, consumed by one operator.

use std::sync::Arc;

use tidegate_runtime::graph::{TypedOps, make_two_input};
use tidegate_runtime::operators::CoFlatMapOp;
use tidegate_types::codec::{Record, TypeFormat};

use crate::build::NodeDraft;
use crate::stream::Stream;

/// Two streams that one operator will consume.
#[must_use = "connected streams do nothing until something consumes them"]
pub struct ConnectedStreams<A, B> {
    pub(crate) first: Stream<A>,
    pub(crate) second: Stream<B>,
}

impl<A: Record, B: Record> ConnectedStreams<A, B> {
    /// One record of either stream to one record.
    pub fn map<O: Record>(
        &self,
        name: &str,
        first: impl Fn(A) -> O + Send + Sync + 'static,
        second: impl Fn(B) -> O + Send + Sync + 'static,
    ) -> Stream<O> {
        self.flat_map(name, move |a| Some(first(a)), move |b| Some(second(b)))
    }

    /// One record of either stream to any number.
    pub fn flat_map<O, Ra, Rb>(
        &self,
        name: &str,
        first: impl Fn(A) -> Ra + Send + Sync + 'static,
        second: impl Fn(B) -> Rb + Send + Sync + 'static,
    ) -> Stream<O>
    where
        O: Record,
        Ra: IntoIterator<Item = O> + 'static,
        Ra::IntoIter: Send,
        Rb: IntoIterator<Item = O> + 'static,
        Rb::IntoIter: Send,
    {
        let (first, second, format) = (Arc::new(first), Arc::new(second), TypeFormat::of());
        let make = make_two_input(
            move |_| Box::new(CoFlatMapOp::new(first.clone(), second.clone(), format.clone())),
            None,
            None,
        );
        let mut draft = NodeDraft::new(name, make, TypedOps::<O>::shared());
        draft.inputs.extend(self.first.edges(0));
        draft.inputs.extend(self.second.edges(1));
        let drafts = self.first.drafts.clone();
        Stream::of(drafts.add(draft), drafts)
    }
}
