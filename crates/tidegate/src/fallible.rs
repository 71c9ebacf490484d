//! The verbs whose functions can fail.
//!
//! Owns `try_map`, `try_filter` and `try_flat_map`, each in two forms: an error fails the attempt, or sends its record
//! to a side output. Does not own the loops (`tidegate-runtime`), nor what a restart does about a failed attempt:
//! a record that fails always will do so again after it.

use std::sync::Arc;

use tidegate_runtime::chain::Operator;
use tidegate_runtime::error::BoxError;
use tidegate_runtime::graph::{MakeContext, TypedOps, make_one_input};
use tidegate_runtime::operators::{FilterOp, FlatMapOp, MapOp, OnError};
use tidegate_types::codec::{Record, TypeFormat};

use crate::build::NodeDraft;
use crate::stream::{SideStream, Stream};

/// A record that was skipped, with the error's text.
type Skipped<T> = (T, String);

const TO_SIDE: OnError = OnError::Skip { side: 0 };

impl<T: Record> Stream<T> {
    fn then_fallible<O: Record>(
        &self,
        name: &str,
        op: impl Fn(&MakeContext<'_>) -> Box<dyn Operator<T, O>> + Send + Sync + 'static,
    ) -> Stream<O> {
        let make = make_one_input(op, None);
        self.then(NodeDraft::new(name, make, TypedOps::<O>::shared()))
    }

    fn then_skipping<O: Record>(
        &self,
        name: &str,
        op: impl Fn(&MakeContext<'_>) -> Box<dyn Operator<T, O>> + Send + Sync + 'static,
    ) -> SideStream<O, Skipped<T>> {
        let mut draft = NodeDraft::new(name, make_one_input(op, None), TypedOps::<O>::shared());
        draft.side(0, TypedOps::<Skipped<T>>::shared());
        let main = self.then(draft);
        let side = main.side_at(0);
        (main, side)
    }

    /// One record to one record; an error fails the attempt.
    pub fn try_map<O, E>(
        &self,
        name: &str,
        f: impl Fn(T) -> Result<O, E> + Send + Sync + 'static,
    ) -> Stream<O>
    where
        O: Record,
        E: Into<BoxError> + 'static,
    {
        let f = Arc::new(f);
        self.then_fallible(name, move |cx| {
            Box::new(MapOp::new(f.clone(), cx.uid.clone(), OnError::Fail))
        })
    }

    /// One record to one record; a record on which `f` fails goes to the second stream, with the error's text.
    ///
    /// ```
    /// use tidegate::prelude::*;
    /// let env = Environment::new("numbers");
    /// let texts = env.from_collection("texts", vec!["1".to_owned(), "two".to_owned()]);
    /// let (numbers, bad) = texts.try_map_or_side("parse", |t: String| t.parse::<u64>());
    /// let (numbers, bad) = (numbers.collect("numbers"), bad.collect("bad"));
    /// env.build()?.start(StartOptions::default())?.wait_blocking()?;
    /// assert_eq!(numbers.take(), [1]);
    /// assert_eq!(bad.take(), [("two".to_owned(), "invalid digit found in string".to_owned())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_map_or_side<O, E>(
        &self,
        name: &str,
        f: impl Fn(T) -> Result<O, E> + Send + Sync + 'static,
    ) -> SideStream<O, (T, String)>
    where
        O: Record,
        E: Into<BoxError> + 'static,
    {
        let f = Arc::new(f);
        self.then_skipping(name, move |cx| {
            Box::new(MapOp::new(f.clone(), cx.uid.clone(), TO_SIDE))
        })
    }

    /// Keeps the records that `f` says yes to; an error fails the attempt.
    pub fn try_filter<E>(&self, name: &str, f: impl Fn(&T) -> Result<bool, E> + Send + Sync + 'static) -> Self
    where
        E: Into<BoxError> + 'static,
    {
        let f = Arc::new(f);
        self.then_fallible(name, move |cx| {
            Box::new(FilterOp::new(f.clone(), cx.uid.clone(), OnError::Fail))
        })
    }

    /// Keeps the records that `f` says yes to; a record on which it fails goes to the second stream, with the
    /// error's text.
    pub fn try_filter_or_side<E>(
        &self,
        name: &str,
        f: impl Fn(&T) -> Result<bool, E> + Send + Sync + 'static,
    ) -> SideStream<T, (T, String)>
    where
        E: Into<BoxError> + 'static,
    {
        let f = Arc::new(f);
        self.then_skipping(name, move |cx| {
            Box::new(FilterOp::new(f.clone(), cx.uid.clone(), TO_SIDE))
        })
    }

    /// One record to any number, as [`flat_map`](Self::flat_map); an error fails the attempt.
    pub fn try_flat_map<O, R, E>(
        &self,
        name: &str,
        f: impl Fn(T) -> Result<R, E> + Send + Sync + 'static,
    ) -> Stream<O>
    where
        O: Record,
        R: IntoIterator<Item = O> + 'static,
        R::IntoIter: Send + 'static,
        E: Into<BoxError> + 'static,
    {
        let (f, format) = (Arc::new(f), TypeFormat::of());
        self.then_fallible(name, move |cx| {
            let op: FlatMapOp<_, R::IntoIter> =
                FlatMapOp::new(f.clone(), format.clone(), cx.uid.clone(), OnError::Fail);
            Box::new(op)
        })
    }

    /// One record to any number, as [`flat_map`](Self::flat_map); a record on which `f` fails goes to the second
    /// stream, with the error's text. `f` decides before the first item: what its iterator yields can't fail.
    pub fn try_flat_map_or_side<O, R, E>(
        &self,
        name: &str,
        f: impl Fn(T) -> Result<R, E> + Send + Sync + 'static,
    ) -> SideStream<O, (T, String)>
    where
        O: Record,
        R: IntoIterator<Item = O> + 'static,
        R::IntoIter: Send + 'static,
        E: Into<BoxError> + 'static,
    {
        let (f, format) = (Arc::new(f), TypeFormat::of());
        self.then_skipping(name, move |cx| {
            let op: FlatMapOp<_, R::IntoIter> =
                FlatMapOp::new(f.clone(), format.clone(), cx.uid.clone(), TO_SIDE);
            Box::new(op)
        })
    }
}
