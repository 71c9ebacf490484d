//! Streams divided by key.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;

use tidegate_runtime::chain::Route;
use tidegate_runtime::error::BoxError;
use tidegate_runtime::graph::{TypedOps, make_one_input, make_two_input};
use tidegate_runtime::operators::{
    CoProcessFunction, KeySelector, KeyedCoProcessOp, KeyedProcessOp, ProcessContext, ProcessFunction,
};
use tidegate_state::{Formats, States, ValueState};
use tidegate_types::codec::{Key, Record};

use crate::build::NodeDraft;
use crate::stream::Stream;

/// A stream whose records are divided by key: what consumes it has state and timers per key.
#[must_use = "a stream does nothing until something consumes it"]
pub struct KeyedStream<K, T> {
    pub(crate) stream: Stream<T>,
    pub(crate) select: Arc<dyn KeySelector<T, K>>,
}

impl<K, T> Clone for KeyedStream<K, T> {
    fn clone(&self) -> Self {
        Self {
            stream: self.stream.clone(),
            select: self.select.clone(),
        }
    }
}

impl<K: Key, T: Record> KeyedStream<K, T> {
    /// A function with state and timers per key, made once per subtask by `make`. Give it a
    /// [`uid`](Stream::uid).
    pub fn process<O, F>(&self, name: &str, make: impl Fn() -> F + Send + Sync + 'static) -> Stream<O>
    where
        O: Record,
        F: ProcessFunction<K, T, O>,
    {
        let make = Arc::new(make);
        let select = self.select.clone();
        let formats = Formats::default();
        let route = route(&self.select);
        let made = make_one_input(
            move |cx| {
                Box::new(KeyedProcessOp::new(
                    make(),
                    select.clone(),
                    formats.clone(),
                    cx.uid.clone(),
                ))
            },
            Some(route),
        );
        self.stream.then(NodeDraft {
            stateful: true,
            ..NodeDraft::new(name, made, TypedOps::<O>::shared())
        })
    }

    /// This stream and another with the same kind of key: a function that consumes both shares its state.
    pub fn connect<B: Record>(&self, other: &KeyedStream<K, B>) -> ConnectedKeyedStreams<K, T, B> {
        ConnectedKeyedStreams {
            first: self.clone(),
            second: other.clone(),
        }
    }

    /// Combines the records of each key: puts out the running result after every record. Give it a
    /// [`uid`](Stream::uid).
    pub fn reduce(&self, name: &str, f: impl Fn(T, T) -> T + Send + Sync + 'static) -> Stream<T> {
        self.try_reduce(name, move |so_far, record| Ok::<T, Infallible>(f(so_far, record)))
    }

    /// As [`reduce`](Self::reduce); an error fails the attempt.
    pub fn try_reduce<E>(
        &self,
        name: &str,
        f: impl Fn(T, T) -> Result<T, E> + Send + Sync + 'static,
    ) -> Stream<T>
    where
        E: Into<BoxError> + 'static,
    {
        let f = Arc::new(f);
        self.process(name, move || Reduce {
            f: f.clone(),
            result: ValueState::new(),
            _error: PhantomData,
        })
    }

    /// The stream as it is divided, for the verbs that need no state: equal keys meet in one subtask of whatever
    /// consumes it.
    pub fn as_stream(&self) -> Stream<T> {
        self.stream.clone()
    }
}

/// Two keyed streams that one function will consume.
#[must_use = "connected streams do nothing until something consumes them"]
pub struct ConnectedKeyedStreams<K, A, B> {
    first: KeyedStream<K, A>,
    second: KeyedStream<K, B>,
}

fn route<K: Key, T: Record>(select: &Arc<dyn KeySelector<T, K>>) -> Route<T> {
    let by = select.clone();
    Route::Keyed(Arc::new(move |records: &[T], hashes: &mut Vec<u64>| {
        by.hash(records, hashes)
    }))
}

impl<K: Key, A: Record, B: Record> ConnectedKeyedStreams<K, A, B> {
    /// A function with state and timers per key over both streams, made once per subtask by `make`. Give it a
    /// [`uid`](Stream::uid).
    pub fn process<O, F>(&self, name: &str, make: impl Fn() -> F + Send + Sync + 'static) -> Stream<O>
    where
        O: Record,
        F: CoProcessFunction<K, A, B, O>,
    {
        let (first, second) = (self.first.select.clone(), self.second.select.clone());
        let routes = (route(&first), route(&second));
        let formats = Formats::default();
        let made = make_two_input(
            move |cx| {
                let (first, second) = (first.clone(), second.clone());
                Box::new(KeyedCoProcessOp::new(
                    make(),
                    first,
                    second,
                    formats.clone(),
                    cx.uid.clone(),
                ))
            },
            Some(routes.0),
            Some(routes.1),
        );
        let mut draft = NodeDraft {
            stateful: true,
            ..NodeDraft::new(name, made, TypedOps::<O>::shared())
        };
        draft.inputs.extend(self.first.stream.edges(0));
        draft.inputs.extend(self.second.stream.edges(1));
        let drafts = self.first.stream.drafts.clone();
        Stream::of(drafts.add(draft), drafts)
    }
}

struct Reduce<K: Key, T: Record, F, E> {
    f: Arc<F>,
    result: ValueState<K, T>,
    _error: PhantomData<fn() -> E>,
}

impl<K, T, F, E> ProcessFunction<K, T, T> for Reduce<K, T, F, E>
where
    K: Key,
    T: Record,
    F: Fn(T, T) -> Result<T, E> + Send + Sync + 'static,
    E: Into<BoxError> + 'static,
{
    fn state(&mut self, states: &mut States<'_, K>) {
        states.value("result", &mut self.result);
    }

    fn process(&mut self, record: T, cx: &mut ProcessContext<'_, K, T>) -> Result<(), BoxError> {
        let reduced = match self.result.get(cx.at()) {
            Some(so_far) => (self.f)(so_far.clone(), record).map_err(Into::into)?,
            None => record,
        };
        self.result.set(cx.at(), reduced.clone());
        cx.collect(reduced);
        Ok(())
    }
}
