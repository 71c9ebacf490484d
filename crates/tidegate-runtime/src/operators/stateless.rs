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

/// Calls `$run` with ever so many records as there are, there is room for, and the pass allows at once.
macro_rules! strides {
    ($strider:expr, $input:ident, $out:ident, $pass:ident, |$records:ident| $run:expr) => {{
        $strider.begin($pass.clock());
        let flow = loop {
            if $input.is_empty() {
                break Flow::Done;
            }
            if $pass.must_yield() {
                break Flow::Yielded;
            }
            if $out.is_full() {
                break Flow::Full;
            }
            let available = $input.len().min($out.room()).min($pass.allowance());
            let $records = $strider.run(available);
            $run;
            $pass.spend_run($records);
            $strider.done($records, $pass.clock());
        };
        $strider.end($pass.clock());
        Ok(flow)
    }};
}
pub(super) use strides;

/// Whether a result of this error type always is `Ok`: then a loop needs no way out, and the compiler may do several
/// records at once.
const fn cannot_fail<E>() -> bool {
    size_of::<Result<(), E>>() == 0
}

/// The value of a result that [`cannot_fail`].
#[inline(always)]
fn certain<T, E>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(_) => unreachable!("the error type has no values"),
    }
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
        let (f, uid, on_error) = (&self.f, &self.uid, self.on_error);
        strides!(self.strider, input, out, pass, |records| {
            match on_error {
                _ if cannot_fail::<E>() && !input.has_times() => {
                    input.untimed(records, |values| {
                        out.extend_untimed(values.map(|value| certain(f(value))))
                    });
                }
                OnError::Fail => {
                    for (value, time) in input.take(records) {
                        out.push(f(value).map_err(|e| OpError::user(uid, e))?, time);
                    }
                }
                OnError::Skip { side } => {
                    for (value, time) in input.take(records) {
                        match f(value.clone()) {
                            Ok(made) => out.push(made, time),
                            Err(e) => {
                                pass.note_skipped(1);
                                out.push_side(side, (value, e.into().to_string()), time);
                            }
                        }
                    }
                }
            }
        })
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
        let (f, uid, on_error) = (&self.f, &self.uid, self.on_error);
        strides!(self.strider, input, out, pass, |records| {
            if cannot_fail::<E>() && !input.has_times() {
                input.untimed(records, |values| {
                    out.extend_untimed_if(values, |value| certain(f(value)));
                });
            } else {
                for (value, time) in input.take(records) {
                    match f(&value) {
                        Ok(true) => out.push(value, time),
                        Ok(false) => {}
                        Err(e) => match on_error {
                            OnError::Fail => return Err(OpError::user(uid, e)),
                            OnError::Skip { side } => {
                                pass.note_skipped(1);
                                out.push_side(side, (value, e.into().to_string()), time);
                            }
                        },
                    }
                }
            }
        })
    }
}
