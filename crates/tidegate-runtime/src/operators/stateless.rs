//! `map`, `filter`, `flat_map` and their fallible forms.

use std::marker::PhantomData;
use std::sync::Arc;

use tidegate_types::{CheckpointId, EventTime, OperatorUid};

use crate::chain::{Cursor, CutParts, Flow, OpenContext, Operator, OutBatch, Pass, Strider};
use crate::error::{BoxError, OpError};

/// What an operator does with a record its code fails on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// The attempt fails.
    #[default]
    Fail,
    /// The record goes to a side output, with the error's text, and is counted.
    Skip {
        /// Which side output.
        side: usize,
    },
}

/// One record to one record.
pub struct MapOp<F> {
    f: Arc<F>,
    strider: Strider,
}

impl<F> MapOp<F> {
    /// An operator that applies `f`.
    pub fn new(f: Arc<F>) -> Self {
        Self {
            f,
            strider: Strider::default(),
        }
    }
}

/// Runs a loop over as many records as there are, there is room for, and the pass allows at once.
macro_rules! strides {
    ($strider:expr, $input:ident, $out:ident, $pass:ident, |$value:ident, $time:ident| $body:expr) => {
        loop {
            if $input.is_empty() {
                return Ok(Flow::Done);
            }
            if $pass.must_yield() {
                return Ok(Flow::Yielded);
            }
            if $out.is_full() {
                return Ok(Flow::Full);
            }
            let run = $strider.run($input.len().min($out.room()), $pass);
            let begun = $pass.clock().now();
            for _ in 0..run {
                if let Some(($value, $time)) = $input.next() {
                    $body
                }
            }
            $strider.done(run, begun, $pass);
        }
    };
}

impl<I, O, F> Operator<I, O> for MapOp<F>
where
    I: Send,
    O: Send,
    F: Fn(I) -> O + Send + Sync,
{
    fn process(
        &mut self,
        input: &mut Cursor<I>,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        let f = self.f.clone();
        strides!(self.strider, input, out, pass, |value, time| out
            .push(f(value), time))
    }
}

/// Keeps some records.
pub struct FilterOp<F> {
    f: Arc<F>,
    strider: Strider,
}

impl<F> FilterOp<F> {
    /// An operator that keeps what `f` says yes to.
    pub fn new(f: Arc<F>) -> Self {
        Self {
            f,
            strider: Strider::default(),
        }
    }
}

impl<T, F> Operator<T, T> for FilterOp<F>
where
    T: Send,
    F: Fn(&T) -> bool + Send + Sync,
{
    fn process(
        &mut self,
        input: &mut Cursor<T>,
        out: &mut OutBatch<T>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        let f = self.f.clone();
        strides!(self.strider, input, out, pass, |value, time| if f(&value) {
            out.push(value, time);
        })
    }
}

/// One record to one record, or an error.
pub struct TryMapOp<F> {
    f: Arc<F>,
    strider: Strider,
    uid: OperatorUid,
    on_error: OnError,
}

impl<F> TryMapOp<F> {
    /// An operator that applies `f` and treats its errors so.
    pub fn new(f: Arc<F>, uid: OperatorUid, on_error: OnError) -> Self {
        Self {
            f,
            strider: Strider::default(),
            uid,
            on_error,
        }
    }
}

impl<I, O, E, F> Operator<I, O> for TryMapOp<F>
where
    I: Send + Clone + 'static,
    O: Send,
    E: Into<BoxError>,
    F: Fn(I) -> Result<O, E> + Send + Sync,
{
    fn process(
        &mut self,
        input: &mut Cursor<I>,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        let f = self.f.clone();
        match self.on_error {
            OnError::Fail => strides!(self.strider, input, out, pass, |value, time| {
                out.push(f(value).map_err(|e| OpError::user(&self.uid, e))?, time);
            }),
            OnError::Skip { side } => strides!(self.strider, input, out, pass, |value, time| {
                match f(value.clone()) {
                    Ok(made) => out.push(made, time),
                    Err(e) => out.push_side(side, (value, e.into().to_string()), time),
                }
            }),
        }
    }
}

/// One record to any number, made by an iterator that waits while there is no room.
pub struct FlatMapOp<F, It> {
    f: Arc<F>,
    uid: OperatorUid,
    current: Option<(It, Option<EventTime>)>,
    _items: PhantomData<fn() -> It>,
}

impl<F, It> FlatMapOp<F, It> {
    /// An operator that puts out what `f`'s iterators yield.
    pub fn new(f: Arc<F>, uid: OperatorUid) -> Self {
        Self {
            f,
            uid,
            current: None,
            _items: PhantomData,
        }
    }
}

impl<I, O, R, F> Operator<I, O> for FlatMapOp<F, R::IntoIter>
where
    I: Send,
    O: Send,
    R: IntoIterator<Item = O>,
    R::IntoIter: Send,
    F: Fn(I) -> R + Send + Sync,
{
    fn open(&mut self, cx: &mut OpenContext) -> Result<(), OpError> {
        self.uid = cx.uid.clone();
        Ok(())
    }

    fn process(
        &mut self,
        input: &mut Cursor<I>,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        loop {
            if let Some((items, time)) = &mut self.current {
                loop {
                    if out.is_full() {
                        return Ok(Flow::Full);
                    }
                    match items.next() {
                        Some(item) => out.push(item, *time),
                        None => break,
                    }
                }
                self.current = None;
            }
            if input.is_empty() {
                return Ok(Flow::Done);
            }
            if pass.must_yield() {
                return Ok(Flow::Yielded);
            }
            if let Some((value, time)) = input.next() {
                self.current = Some(((self.f)(value).into_iter(), time));
                pass.spend();
            }
        }
    }

    fn finish_record(
        &mut self,
        out: &mut OutBatch<O>,
        may_go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, OpError> {
        // Asking the clock for every item would cost more than most items.
        const ITEMS_AT_ONCE: usize = 64;
        while let Some((items, time)) = &mut self.current {
            for _ in 0..ITEMS_AT_ONCE {
                match items.next() {
                    Some(item) => out.push(item, *time),
                    None => {
                        self.current = None;
                        return Ok(true);
                    }
                }
            }
            if !may_go_on() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_suspended(&self) -> bool {
        self.current.is_some()
    }

    fn prepare_snapshot(&mut self, id: CheckpointId, _: &mut OutBatch<O>) -> Result<(), OpError> {
        debug_assert!(self.current.is_none(), "{}: cut {id} inside a record", self.uid);
        Ok(())
    }

    fn cut(&mut self, _: &mut CutParts) -> Result<(), OpError> {
        Ok(())
    }
}
