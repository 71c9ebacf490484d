//! Streams: handles on an operator's output, with the verbs that grow the graph.

use std::any::Any;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;

use tidegate_runtime::chain::Partitioner;
use tidegate_runtime::graph::{TypedOps, make_one_input};
use tidegate_runtime::operators::{
    KeySelector, KeyedProcessOp, ProcessFunction, SideTag, TimestampsOp, WatermarkStrategy,
};
use tidegate_state::Formats;
use tidegate_types::EventTime;
use tidegate_types::codec::{Key, Record};

use crate::build::{Drafts, EdgeDraft, NodeDraft};
use crate::connected::ConnectedStreams;
use crate::keyed::KeyedStream;

/// The output of an operator. Verbs take it by reference: a stream can have several consumers, each of which sees
/// all of it.
#[must_use = "a stream does nothing until something consumes it"]
pub struct Stream<T> {
    pub(crate) drafts: Drafts,
    /// Edges that feed a consumer: one, or several for a union.
    pub(crate) ends: Vec<End>,
    _record: PhantomData<fn() -> T>,
}

/// One stream's end, with how its records are to spread.
#[derive(Clone)]
pub(crate) struct End {
    pub(crate) node: usize,
    pub(crate) side: Option<usize>,
    pub(crate) partitioner: Option<Arc<dyn Any + Send + Sync>>,
}

impl<T> Clone for Stream<T> {
    fn clone(&self) -> Self {
        Self {
            drafts: self.drafts.clone(),
            ends: self.ends.clone(),
            _record: PhantomData,
        }
    }
}

/// A stream together with one of its operator's side outputs.
pub type SideStream<T, S> = (Stream<T>, Stream<S>);

impl<T: Record> Stream<T> {
    pub(crate) fn of(node: usize, drafts: Drafts) -> Self {
        Self {
            drafts,
            ends: vec![End {
                node,
                side: None,
                partitioner: None,
            }],
            _record: PhantomData,
        }
    }

    fn configure(self, f: impl Fn(&mut NodeDraft)) -> Self {
        self.drafts.with(|d| {
            for end in &self.ends {
                f(&mut d.nodes[end.node]);
            }
        });
        self
    }

    /// Gives the operator behind this stream its identity: state is found by it, whatever else changes. A side
    /// output has no identity of its own: here too it is the operator that is named.
    pub fn uid(self, uid: &str) -> Self {
        self.configure(|n| n.uids.push(uid.to_owned()))
    }

    /// Gives the operator behind this stream so many subtasks.
    pub fn parallelism(self, subtasks: u32) -> Self {
        self.configure(|n| n.parallelism = Some(subtasks))
    }

    /// The operator behind this stream runs in a task of its own, with what comes after it.
    pub fn start_new_chain(self) -> Self {
        self.configure(|n| n.starts_chain = true)
    }

    /// The operator behind this stream is chained to nothing.
    pub fn disable_chaining(self) -> Self {
        self.configure(|n| {
            n.starts_chain = true;
            n.ends_chain = true;
        })
    }

    fn spread(&self, partitioner: Partitioner<T>) -> Self {
        let mut stream = self.clone();
        for end in &mut stream.ends {
            end.partitioner = Some(Arc::new(partitioner.clone()));
        }
        stream
    }

    /// Hands records on subtask by subtask; both sides must have as many.
    pub fn forward(&self) -> Self {
        self.spread(Partitioner::Forward)
    }

    /// Deals records out over all consumers in turn.
    pub fn rebalance(&self) -> Self {
        self.spread(Partitioner::Rebalance)
    }

    /// Deals records out over neighbouring consumers in turn.
    pub fn rescale(&self) -> Self {
        self.spread(Partitioner::Rescale)
    }

    /// Gives every record to every consumer. Such an edge is aligned in every snapshot mode.
    pub fn broadcast(&self) -> Self {
        self.spread(Partitioner::Broadcast)
    }

    /// Picks the consumer of each record by a function of the record and the number of consumers. With records in
    /// flight such a job restores at its old parallelism only; see
    /// [`partition_stable`](Self::partition_stable).
    pub fn partition_custom(&self, f: impl Fn(&T, u32) -> u32 + Send + Sync + 'static) -> Self {
        self.spread(Partitioner::Custom(Arc::new(f), false))
    }

    /// Like [`partition_custom`](Self::partition_custom), for a function that depends on nothing but its arguments:
    /// stored records may be asked about again at another parallelism.
    pub fn partition_stable(&self, f: impl Fn(&T, u32) -> u32 + Send + Sync + 'static) -> Self {
        self.spread(Partitioner::Custom(Arc::new(f), true))
    }

    /// This stream and others as one. Order is kept within each of them only.
    pub fn union(&self, others: &[&Self]) -> Self {
        let mut all = self.clone();
        for other in others {
            assert!(
                self.drafts.is_same(&other.drafts),
                "streams of one job only can be united"
            );
            all.ends.extend(other.ends.iter().cloned());
        }
        all
    }

    /// Adds an operator that consumes this stream.
    pub(crate) fn then<O: Record>(&self, mut draft: NodeDraft) -> Stream<O> {
        draft.inputs.extend(self.edges(0));
        Stream::of(self.drafts.add(draft), self.drafts.clone())
    }

    pub(crate) fn edges(&self, slot: usize) -> impl Iterator<Item = EdgeDraft> + '_ {
        self.ends.iter().map(move |e| EdgeDraft {
            from: e.node,
            side: e.side,
            partitioner: e.partitioner.clone(),
            slot,
        })
    }

    /// One record to one record.
    pub fn map<O: Record>(&self, name: &str, f: impl Fn(T) -> O + Send + Sync + 'static) -> Stream<O> {
        self.try_map(name, move |record| Ok::<_, Infallible>(f(record)))
    }

    /// Keeps the records that `f` says yes to.
    pub fn filter(&self, name: &str, f: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        self.try_filter(name, move |record| Ok::<_, Infallible>(f(record)))
    }

    /// One record to any number: what the iterator yields. While there is no room the iterator waits, so it may
    /// be long; a snapshot runs it on.
    pub fn flat_map<O, R>(&self, name: &str, f: impl Fn(T) -> R + Send + Sync + 'static) -> Stream<O>
    where
        O: Record,
        R: IntoIterator<Item = O> + 'static,
        R::IntoIter: Send + 'static,
    {
        self.try_flat_map(name, move |record| Ok::<_, Infallible>(f(record)))
    }

    pub(crate) fn side_at<S: Record>(&self, index: usize) -> Stream<S> {
        let ends = self.ends.iter().map(|e| End {
            node: e.node,
            side: Some(index),
            partitioner: None,
        });
        Stream {
            drafts: self.drafts.clone(),
            ends: ends.collect(),
            _record: PhantomData,
        }
    }

    /// A side output of the operator behind this stream. The function puts records there with the tag.
    ///
    /// The tag's number says which of the operator's side outputs it is; each of them needs one of its own, and
    /// one number with two record types is refused when the job is built.
    pub fn side_output<S: Record>(&self, tag: &SideTag<S>) -> Stream<S> {
        self.drafts.with(|d| {
            for end in &self.ends {
                d.nodes[end.node].side(tag.index(), TypedOps::<S>::shared());
            }
        });
        self.side_at(tag.index())
    }

    /// Gives records event times and makes watermarks.
    pub fn assign_timestamps(
        &self,
        name: &str,
        strategy: WatermarkStrategy,
        extract: impl Fn(&T) -> EventTime + Send + Sync + 'static,
    ) -> Self {
        let extract = Arc::new(extract);
        let make = make_one_input(
            move |cx| Box::new(TimestampsOp::new(extract.clone(), strategy, cx.uid.clone())),
            None,
        );
        self.then(NodeDraft::new(name, make, TypedOps::<T>::shared()))
    }

    /// Divides the stream by key: equal keys meet in one subtask, in order.
    pub fn key_by<K: Key>(&self, select: impl Fn(&T) -> K + Send + Sync + 'static) -> KeyedStream<K, T> {
        let select: Arc<dyn KeySelector<T, K>> = Arc::new(select);
        let by = select.clone();
        let hasher = Arc::new(move |records: &[T], hashes: &mut Vec<u64>| by.hash(records, hashes));
        KeyedStream {
            stream: self.spread(Partitioner::Hash(hasher)),
            select,
        }
    }

    /// A function with operator state, made once per subtask by `make`. For state and timers per key use
    /// [`key_by`](Self::key_by) first.
    pub fn process<O, F>(&self, name: &str, make: impl Fn() -> F + Send + Sync + 'static) -> Stream<O>
    where
        O: Record,
        F: ProcessFunction<(), T, O>,
    {
        let make = Arc::new(make);
        let formats = Formats::default();
        let made = make_one_input(
            move |cx| {
                let nobody: Arc<dyn KeySelector<T, ()>> = Arc::new(|_: &T| ());
                Box::new(KeyedProcessOp::new(
                    make(),
                    nobody,
                    formats.clone(),
                    cx.uid.clone(),
                ))
            },
            None,
        );
        self.then(NodeDraft {
            stateful: true,
            ..NodeDraft::new(name, made, TypedOps::<O>::shared())
        })
    }

    /// This stream and another of a different type, for one operator that sees both.
    pub fn connect<B: Record>(&self, other: &Stream<B>) -> ConnectedStreams<T, B> {
        assert!(
            self.drafts.is_same(&other.drafts),
            "streams of one job only can be connected"
        );
        ConnectedStreams {
            first: self.clone(),
            second: other.clone(),
        }
    }
}
