//! `map` and `filter`. What can't fail has an error type without values, which costs nothing.

use std::sync::Arc;

use tidegate_types::OperatorUid;

use crate::chain::{Cursor, Flow, Operator, OutBatch, Pass, Strider};
use crate::error::{BoxError, OpError};

/// What an operator does with a record its code fails on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// The attempt fails.
    #[default]
    Fail,
    /// The record goes to a side output, with the error's text, and is counted among the task's skipped records
    /// ([`TaskMetrics::records_skipped`](crate::task::TaskMetrics::records_skipped)).
    Skip {
        /// Which side output.
        side: usize,
    },
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

/// One record to one record, or an error.
pub struct MapOp<F> {
    f: Arc<F>,
    strider: Strider,
    uid: OperatorUid,
    on_error: OnError,
}

impl<F> MapOp<F> {
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

impl<I, O, E, F> Operator<I, O> for MapOp<F>
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
                    Err(e) => {
                        pass.note_skipped(1);
                        out.push_side(side, (value, e.into().to_string()), time);
                    }
                }
            }),
        }
    }
}

/// Keeps some records, or fails on them.
pub struct FilterOp<F> {
    f: Arc<F>,
    strider: Strider,
    uid: OperatorUid,
    on_error: OnError,
}

impl<F> FilterOp<F> {
    /// An operator that keeps what `f` says yes to and treats its errors so.
    pub fn new(f: Arc<F>, uid: OperatorUid, on_error: OnError) -> Self {
        Self {
            f,
            strider: Strider::default(),
            uid,
            on_error,
        }
    }
}

impl<T, E, F> Operator<T, T> for FilterOp<F>
where
    T: Send + 'static,
    E: Into<BoxError>,
    F: Fn(&T) -> Result<bool, E> + Send + Sync,
{
    fn process(
        &mut self,
        input: &mut Cursor<T>,
        out: &mut OutBatch<T>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        let f = self.f.clone();
        strides!(self.strider, input, out, pass, |value, time| {
            match f(&value) {
                Ok(true) => out.push(value, time),
                Ok(false) => {}
                Err(e) => match self.on_error {
                    OnError::Fail => return Err(OpError::user(&self.uid, e)),
                    OnError::Skip { side } => {
                        pass.note_skipped(1);
                        out.push_side(side, (value, e.into().to_string()), time);
                    }
                },
            }
        })
    }
}
