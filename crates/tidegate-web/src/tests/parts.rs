//! The parts behind the handlers: ids, rates, operations.

use std::sync::atomic::Ordering::Relaxed;

use tidegate_protocol::coordinator::RequestDone;
use tidegate_types::{JobId, Nanos};

use super::fixture::{SOURCE_ID, SUM_ID, counts, sub};
use crate::ids::{TriggerId, TriggerIds, find_vertex, vertex_id};
use crate::operations::{Begun, Key, Kind, LIMIT, Operations};
use crate::rates::{Live, Rates, SAMPLES};

#[test]
fn a_vertex_goes_by_the_hash_of_its_head() {
    let vertices = counts().vertices;
    assert_eq!(vertex_id(&vertices[0]), SOURCE_ID);
    assert_eq!(vertex_id(&vertices[1]), SUM_ID);
    let found = |text: &str| find_vertex(&vertices, text).map(|vertex| vertex.0);
    assert_eq!(found(SUM_ID), Some(1));
    assert_eq!(found(&SUM_ID.to_uppercase()), Some(1));
    assert_eq!(found("v0"), Some(0));
    assert_eq!(
        (found("v2"), found("v"), found("v-1"), found("1"), found("")),
        (None, None, None, None, None)
    );
}

#[test]
fn trigger_ids_are_32_digits_and_never_drawn_twice() {
    let ids = TriggerIds::new();
    let drawn: std::collections::BTreeSet<TriggerId> = (0..1000).map(|_| ids.draw()).collect();
    assert_eq!(drawn.len(), 1000);
    for id in drawn {
        assert_eq!(TriggerId::parse(&id.to_string()), Some(id));
    }
    for text in [
        "",
        "7",
        "+0112233445566778899aabbccddeeff0",
        "g0112233445566778899aabbccddeeff",
    ] {
        assert_eq!(TriggerId::parse(text), None, "{text}");
    }
}

fn key(n: u128) -> Key {
    let trigger = TriggerId::parse(&format!("{n:032x}")).unwrap();
    Key {
        job: JobId::from("job"),
        kind: Kind::Savepoint,
        trigger,
    }
}

#[test]
fn an_outcome_is_unfetched_until_a_client_was_told() {
    let mut operations = Operations::default();
    let unfetched = operations.unfetched();
    assert_eq!(*unfetched.borrow(), 0);
    (0..2).for_each(|n| assert_eq!(operations.begin(key(n)), Begun::New));
    assert_eq!(operations.fetch(&key(0)), Some(None));
    assert_eq!(*unfetched.borrow(), 2, "that it is in progress is no outcome");
    operations.end(&key(0), Ok(RequestDone { id: None, path: None }));
    assert_eq!(*unfetched.borrow(), 2);
    for _ in 0..2 {
        assert!(operations.fetch(&key(0)).is_some_and(|outcome| outcome.is_some()));
        assert_eq!(*unfetched.borrow(), 1, "fetched once is enough");
    }
    // What makes room for others isn't waited for any more.
    (2..LIMIT as u128).for_each(|n| assert_eq!(operations.begin(key(n)), Begun::New));
    operations.end(&key(1), Ok(RequestDone { id: None, path: None }));
    let before = *unfetched.borrow();
    assert_eq!(
        operations.begin(key(9999)),
        Begun::New,
        "in place of one that was fetched"
    );
    assert_eq!(
        operations.begin(key(9998)),
        Begun::New,
        "in place of one that wasn't"
    );
    assert_eq!(*unfetched.borrow(), before + 2 - 1);
}

#[test]
fn the_oldest_ended_operation_makes_room() {
    let mut operations = Operations::default();
    let many = LIMIT as u128;
    (0..many).for_each(|n| assert_eq!(operations.begin(key(n)), Begun::New));
    assert_eq!(operations.begin(key(3)), Begun::Already);
    assert_eq!(operations.begin(key(many)), Begun::Full, "none has ended");
    operations.end(&key(7), Ok(RequestDone { id: None, path: None }));
    operations.end(&key(5), Ok(RequestDone { id: None, path: None }));
    assert_eq!(operations.begin(key(many)), Begun::New);
    assert_eq!(
        operations.fetch(&key(5)),
        None,
        "the oldest that has ended is forgotten"
    );
    assert!(operations.fetch(&key(7)).is_some_and(|answer| answer.is_some()));
    assert_eq!(operations.fetch(&key(6)), Some(None));
    operations.end(&key(5), Ok(RequestDone { id: None, path: None }));
    assert_eq!(
        operations.fetch(&key(5)),
        None,
        "an answer that comes later doesn't bring it back"
    );
}

fn at(seconds: u64) -> Nanos {
    Nanos(seconds * 1_000_000_000)
}

#[test]
fn rates_are_over_the_last_samples_only() {
    let status = counts();
    let metrics = status.subtasks[0].metrics.clone();
    let mut rates = Rates::default();
    let live = [Live::of(&status).unwrap()];
    for second in 0..20 {
        // Ten records a second, and a thousand in the last one.
        let records = if second == 19 { 1000 } else { 10 };
        metrics.records_out.fetch_add(records, Relaxed);
        rates.sample(at(second), &live);
    }
    let seconds = SAMPLES as f64 - 1.0;
    let rate = rates.of(&status, sub(0, 0)).unwrap();
    assert_eq!(rate.records_out, (1000.0 + 10.0 * (seconds - 1.0)) / seconds);
    assert_eq!(
        (rate.busy_ms, rate.idle_ms, rate.backpressured_ms),
        (1000.0, 0.0, 0.0)
    );
}

#[test]
fn shares_of_a_second_add_up_whatever_the_counters_say() {
    let status = counts();
    let metrics = status.subtasks[0].metrics.clone();
    let mut rates = Rates::default();
    let live = [Live::of(&status).unwrap()];
    rates.sample(at(0), &live);
    metrics.idle_ns.fetch_add(1_200_000_000, Relaxed);
    metrics.backpressured_ns.fetch_add(400_000_000, Relaxed);
    rates.sample(at(1), &live);
    let rate = rates.of(&status, sub(0, 0)).unwrap();
    assert_eq!(
        (rate.busy_ms, rate.idle_ms, rate.backpressured_ms),
        (0.0, 600.0, 400.0)
    );
}

#[test]
fn another_attempt_has_rates_of_its_own() {
    let mut status = counts();
    let mut rates = Rates::default();
    rates.sample(at(0), &[Live::of(&status).unwrap()]);
    status.attempts += 1;
    rates.sample(at(1), &[Live::of(&status).unwrap()]);
    assert_eq!(rates.of(&status, sub(0, 0)), None, "sampled once only");
    rates.sample(at(2), &[Live::of(&status).unwrap()]);
    assert!(rates.of(&status, sub(0, 0)).is_some());
    assert_eq!(rates.of(&status, sub(5, 0)), None);
}
