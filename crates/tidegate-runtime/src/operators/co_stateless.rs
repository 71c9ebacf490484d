//! Two streams of different types through one stateless operator.

use std::sync::Arc;

use crate::chain::{Cursor, Flow, Operator2, OutBatch, Pass};
use crate::error::OpError;

/// Each record of either stream to any number.
pub struct CoFlatMapOp<F, G> {
    first: Arc<F>,
    second: Arc<G>,
}

impl<F, G> CoFlatMapOp<F, G> {
    /// An operator that applies one function per input.
    pub fn new(first: Arc<F>, second: Arc<G>) -> Self {
        Self { first, second }
    }
}

fn run<T, O, R: IntoIterator<Item = O>>(
    f: impl Fn(T) -> R,
    input: &mut Cursor<T>,
    out: &mut OutBatch<O>,
    pass: &mut Pass<'_>,
) -> Flow {
    loop {
        if input.is_empty() {
            return Flow::Done;
        }
        if pass.must_yield() {
            return Flow::Yielded;
        }
        if out.is_full() {
            return Flow::Full;
        }
        if let Some((value, time)) = input.next() {
            // What one record makes is always accepted.
            for made in f(value) {
                out.push(made, time);
            }
            pass.spend();
        }
    }
}

impl<A, B, O, Ra, Rb, F, G> Operator2<A, B, O> for CoFlatMapOp<F, G>
where
    Ra: IntoIterator<Item = O>,
    Rb: IntoIterator<Item = O>,
    F: Fn(A) -> Ra + Send + Sync,
    G: Fn(B) -> Rb + Send + Sync,
{
    fn process1(
        &mut self,
        input: &mut Cursor<A>,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        Ok(run(&*self.first, input, out, pass))
    }

    fn process2(
        &mut self,
        input: &mut Cursor<B>,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        Ok(run(&*self.second, input, out, pass))
    }
}
