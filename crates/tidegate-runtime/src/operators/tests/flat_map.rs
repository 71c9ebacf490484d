//! A record in progress: it waits for room, and runs on as far as an overdraft goes.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::vec;

use tidegate_types::codec::TypeFormat;
use tidegate_types::{Batch, Nanos, OperatorUid};

use super::Hands;
use crate::chain::{Cursor, Flow, Operator, Operator2, OutBatch, Overdraft, Pass};
use crate::operators::{CoFlatMapOp, FlatMapOp, OnError};
use crate::signal::TaskSignal;

const ITEMS: usize = 10_000;
/// Encoded: a byte for the length and 99 of text.
const ITEM_BYTES: u64 = 100;

type Burst = FlatMapOp<fn(u8) -> Result<Vec<String>, Infallible>, vec::IntoIter<String>>;

fn burst(_: u8) -> Result<Vec<String>, Infallible> {
    Ok(vec!["x".repeat(99); ITEMS])
}

fn under_test() -> OperatorUid {
    OperatorUid::new("under-test".to_owned())
}

/// An operator in the middle of its record, with what it put out.
fn suspended() -> (Burst, OutBatch<String>) {
    let (signal, hands) = (TaskSignal::new(), Hands::default());
    let mut op = FlatMapOp::new(
        Arc::new(burst as fn(u8) -> Result<Vec<String>, Infallible>),
        TypeFormat::of(),
        under_test(),
        OnError::Fail,
    );
    let mut input = Cursor::new(Batch::of(vec![0u8]));
    let mut out = OutBatch::with_room(3);
    let mut pass = Pass::new(&signal, &hands, 100);
    let flow = Operator::<u8, String>::process(&mut op, &mut input, &mut out, &mut pass);
    assert_eq!(flow.expect("no error"), Flow::Full);
    assert_eq!(out.len(), 3);
    (op, out)
}

fn finish(op: &mut Burst, out: &mut OutBatch<String>, overdraft: &mut Overdraft<'_>) -> bool {
    Operator::<u8, String>::finish_record(op, out, overdraft).expect("no error")
}

#[test]
fn it_puts_out_as_many_bytes_as_it_is_granted() {
    let hands = Hands::default();
    let (mut op, mut out) = suspended();
    let mut overdraft = Overdraft::new(&hands, Nanos(u64::MAX), 64 * ITEM_BYTES);
    assert!(!finish(&mut op, &mut out, &mut overdraft));
    assert_eq!((out.len(), overdraft.spent()), (3 + 64, 64 * ITEM_BYTES));
    // Nothing is granted any more, so nothing comes.
    let mut nothing = Overdraft::new(&hands, Nanos(u64::MAX), 0);
    assert!(!finish(&mut op, &mut out, &mut nothing));
    assert_eq!(out.len(), 3 + 64);
    assert!(Operator::<u8, String>::is_suspended(&op));
    let mut plenty = Overdraft::new(&hands, Nanos(u64::MAX), u64::MAX);
    assert!(finish(&mut op, &mut out, &mut plenty));
    assert_eq!(out.len(), ITEMS);
    assert!(!Operator::<u8, String>::is_suspended(&op));
}

#[test]
fn it_stops_when_its_time_is_over() {
    let hands = Hands::default();
    let (mut op, mut out) = suspended();
    let mut overdraft = Overdraft::new(&hands, Nanos(5_000_000), u64::MAX);
    hands.set(5);
    assert!(!finish(&mut op, &mut out, &mut overdraft));
    assert_eq!(out.len(), 3);
    hands.set(4);
    assert!(finish(&mut op, &mut out, &mut overdraft));
    assert_eq!(out.len(), ITEMS);
}

#[test]
fn an_iterator_is_not_asked_ahead_of_room() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let (signal, hands) = (TaskSignal::new(), Hands::default());
    let f = |_: u8| {
        Ok::<_, Infallible>((0..100u64).inspect(|_| {
            ASKED.fetch_add(1, Ordering::Relaxed);
        }))
    };
    let mut op = FlatMapOp::new(Arc::new(f), TypeFormat::of(), under_test(), OnError::Fail);
    let mut input = Cursor::new(Batch::of(vec![0u8]));
    let mut out = OutBatch::with_room(10);
    let flow = op.process(&mut input, &mut out, &mut Pass::new(&signal, &hands, 100));
    assert_eq!(flow.expect("no error"), Flow::Full);
    assert_eq!(ASKED.load(Ordering::Relaxed), 10);
}

#[test]
fn a_record_of_one_of_two_streams_waits_for_room_and_the_other_stream_for_it() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let (signal, hands) = (TaskSignal::new(), Hands::default());
    let first = |n: u8| {
        (0..u64::from(n)).inspect(|_| {
            ASKED.fetch_add(1, Ordering::Relaxed);
        })
    };
    let second = |n: u16| Some(u64::from(n));
    let mut op = CoFlatMapOp::new(Arc::new(first), Arc::new(second), TypeFormat::of());
    let (mut bytes, mut words) = (
        Cursor::new(Batch::of(vec![15u8])),
        Cursor::new(Batch::of(vec![700u16])),
    );
    let mut out = OutBatch::with_room(10);
    let mut pass = Pass::new(&signal, &hands, 100);
    let flow = Operator2::<u8, u16, u64>::process1(&mut op, &mut bytes, &mut out, &mut pass);
    assert_eq!(flow.expect("no error"), Flow::Full);
    assert_eq!(ASKED.load(Ordering::Relaxed), 10);
    assert!(Operator2::<u8, u16, u64>::is_suspended(&op));
    let mut rest = OutBatch::with_room(10);
    let flow = Operator2::<u8, u16, u64>::process2(&mut op, &mut words, &mut rest, &mut pass);
    assert_eq!(flow.expect("no error"), Flow::Done);
    assert!(!Operator2::<u8, u16, u64>::is_suspended(&op));
    assert_eq!(out.into_batch().values, (0..10).collect::<Vec<_>>());
    assert_eq!(rest.into_batch().values, [10, 11, 12, 13, 14, 700]);
}
