//! `flat_map`, and `flat_map` over two streams.
//!
//! Owns the iterator of a record in progress: while there is no room it waits, and a snapshot runs it on into
//! overdraft. Does not own the limits of that ([`Overdraft`]).

use std::sync::Arc;

use tidegate_types::codec::{Record, TypeFormat};
use tidegate_types::{EventTime, OperatorUid};

use crate::chain::{Cursor, Flow, Operator, Operator2, OutBatch, Overdraft, Pass};
use crate::error::{BoxError, OpError};

use super::stateless::OnError;

/// Items between two looks at an overdraft: the clock and a record's size cost more than most items.
const ITEMS_AT_ONCE: usize = 64;

/// A record's iterator, as far as it has come.
struct Unrolling<It: Iterator> {
    current: Option<(It, Option<EventTime>)>,
    format: TypeFormat<It::Item>,
    scratch: Vec<u8>,
}

impl<It: Iterator<Item: Record>> Unrolling<It> {
    fn new(format: TypeFormat<It::Item>) -> Self {
        Self {
            current: None,
            format,
            scratch: Vec::new(),
        }
    }

    /// Puts out what there is room for. False if something is left.
    fn drain(&mut self, out: &mut OutBatch<It::Item>) -> bool {
        if let Some((items, time)) = &mut self.current {
            loop {
                if out.is_full() {
                    return false;
                }
                match items.next() {
                    Some(item) => out.push(item, *time),
                    None => break,
                }
            }
            self.current = None;
        }
        true
    }

    /// Puts out what the overdraft allows. False if something is left.
    fn overdraw(&mut self, out: &mut OutBatch<It::Item>, overdraft: &mut Overdraft<'_>) -> bool {
        while let Some((items, time)) = &mut self.current {
            if !overdraft.may_go_on() {
                return false;
            }
            let mut size = 0;
            for at in 0..ITEMS_AT_ONCE {
                let Some(item) = items.next() else {
                    self.current = None;
                    return true;
                };
                // Neighbours of one record are mostly alike: the first stands for all of them.
                if at == 0 {
                    self.scratch.clear();
                    // What can't be encoded fails where it must be; here it only has no size.
                    let _ = self.format.encode_into(&item, &mut self.scratch);
                    size = self.scratch.len() as u64;
                }
                out.push(item, *time);
                overdraft.spend(size);
            }
        }
        true
    }
}

/// Takes records one by one while the iterator of none of them waits.
macro_rules! unroll {
    ($unrolling:expr, $input:ident, $out:ident, $pass:ident, |$value:ident, $time:ident| $items:expr) => {
        loop {
            if !$unrolling.drain($out) {
                return Ok(Flow::Full);
            }
            if $input.is_empty() {
                return Ok(Flow::Done);
            }
            if $pass.must_yield() {
                return Ok(Flow::Yielded);
            }
            if let Some(($value, $time)) = $input.next() {
                $unrolling.current = $items.map(|items| (items, $time));
                $pass.spend();
            }
        }
    };
}

/// One record to any number, made by an iterator that waits while there is no room; or an error.
pub struct FlatMapOp<F, It: Iterator> {
    f: Arc<F>,
    unrolling: Unrolling<It>,
    uid: OperatorUid,
    on_error: OnError,
}

impl<F, It: Iterator<Item: Record>> FlatMapOp<F, It> {
    /// An operator that puts out what `f`'s iterators yield and treats its errors so.
    pub fn new(f: Arc<F>, format: TypeFormat<It::Item>, uid: OperatorUid, on_error: OnError) -> Self {
        Self {
            f,
            unrolling: Unrolling::new(format),
            uid,
            on_error,
        }
    }
}

impl<I, O, E, R, F> Operator<I, O> for FlatMapOp<F, R::IntoIter>
where
    I: Send + Clone + 'static,
    O: Record,
    E: Into<BoxError>,
    R: IntoIterator<Item = O>,
    R::IntoIter: Send,
    F: Fn(I) -> Result<R, E> + Send + Sync,
{
    fn process(
        &mut self,
        input: &mut Cursor<I>,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        match self.on_error {
            OnError::Fail => unroll!(self.unrolling, input, out, pass, |value, time| {
                let items = (self.f)(value).map_err(|e| OpError::user(&self.uid, e))?;
                Some(items.into_iter())
            }),
            OnError::Skip { side } => unroll!(self.unrolling, input, out, pass, |value, time| {
                match (self.f)(value.clone()) {
                    Ok(items) => Some(items.into_iter()),
                    Err(e) => {
                        pass.note_skipped(1);
                        out.push_side(side, (value, e.into().to_string()), time);
                        None
                    }
                }
            }),
        }
    }

    fn finish_record(
        &mut self,
        out: &mut OutBatch<O>,
        overdraft: &mut Overdraft<'_>,
    ) -> Result<bool, OpError> {
        Ok(self.unrolling.overdraw(out, overdraft))
    }

    fn is_suspended(&self) -> bool {
        self.unrolling.current.is_some()
    }
}

/// Each record of either of two streams to any number. One record is in progress at a time, whichever stream it is of.
pub struct CoFlatMapOp<F, G, Ia, Ib>
where
    Ia: Iterator,
    Ib: Iterator<Item = Ia::Item>,
{
    first: Arc<F>,
    second: Arc<G>,
    unrolling: Unrolling<Either<Ia, Ib>>,
}

/// What a record of one of two streams makes.
enum Either<A, B> {
    First(A),
    Second(B),
}

impl<A: Iterator, B: Iterator<Item = A::Item>> Iterator for Either<A, B> {
    type Item = A::Item;

    fn next(&mut self) -> Option<A::Item> {
        match self {
            Self::First(items) => items.next(),
            Self::Second(items) => items.next(),
        }
    }
}

impl<F, G, Ia, Ib> CoFlatMapOp<F, G, Ia, Ib>
where
    Ia: Iterator<Item: Record>,
    Ib: Iterator<Item = Ia::Item>,
{
    /// An operator that applies one function per input. By `format` it measures what they make in an overdraft.
    pub fn new(first: Arc<F>, second: Arc<G>, format: TypeFormat<Ia::Item>) -> Self {
        Self {
            first,
            second,
            unrolling: Unrolling::new(format),
        }
    }
}

impl<A, B, O, Ra, Rb, F, G> Operator2<A, B, O> for CoFlatMapOp<F, G, Ra::IntoIter, Rb::IntoIter>
where
    O: Record,
    Ra: IntoIterator<Item = O>,
    Ra::IntoIter: Send,
    Rb: IntoIterator<Item = O>,
    Rb::IntoIter: Send,
    F: Fn(A) -> Ra + Send + Sync,
    G: Fn(B) -> Rb + Send + Sync,
{
    fn process1(
        &mut self,
        input: &mut Cursor<A>,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        unroll!(self.unrolling, input, out, pass, |value, time| Some(
            Either::First((self.first)(value).into_iter())
        ))
    }

    fn process2(
        &mut self,
        input: &mut Cursor<B>,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        unroll!(self.unrolling, input, out, pass, |value, time| Some(
            Either::Second((self.second)(value).into_iter())
        ))
    }

    fn finish_record(
        &mut self,
        out: &mut OutBatch<O>,
        overdraft: &mut Overdraft<'_>,
    ) -> Result<bool, OpError> {
        Ok(self.unrolling.overdraw(out, overdraft))
    }

    fn is_suspended(&self) -> bool {
        self.unrolling.current.is_some()
    }
}
