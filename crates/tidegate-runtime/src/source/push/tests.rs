//! What passes between a producer and its task, at the queue itself.

use std::sync::mpsc::channel;
use std::time::Duration;

use super::*;

/// Nothing that is waited for takes nearly as long; a test that would wait for ever fails.
const LIMIT: Duration = Duration::from_secs(120);

/// A queue without room.
fn full() -> Shared<u64> {
    Shared {
        queue: Mutex::new(Queue {
            held: Held { owner: None },
            staged: Vec::new(),
            published: (0..QUEUE_RECORDS as u64).map(|n| (n, None)).collect(),
            ended: None,
        }),
        changed: Condvar::new(),
        wants_cut: AtomicBool::new(false),
        stopped: AtomicBool::new(false),
        max_staged: 1,
        signal: Arc::new(TaskSignal::new()),
        sources: SnapshotSources::default(),
        instance: 0,
    }
}

/// The stop falls into each part of the producer's way into its wait: between its look at the flag and the wait, too.
#[test]
fn a_stop_reaches_a_producer_that_is_about_to_wait() {
    const ROUNDS: usize = 20_000;
    let shared = Arc::new(full());
    let theirs = shared.clone();
    let ((go, may_go), (told, returned)) = (channel(), channel());
    let begun = Arc::new(AtomicBool::new(false));
    let begins = begun.clone();
    std::thread::spawn(move || {
        while may_go.recv().is_ok() {
            begins.store(true, Ordering::Release);
            let _heard = told.send(theirs.lock());
        }
    });
    for round in 0..ROUNDS {
        shared.stopped.store(false, Ordering::Release);
        begun.store(false, Ordering::Release);
        go.send(()).expect("it waits");
        while !begun.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        (0..round % 64).for_each(|_| std::hint::spin_loop());
        shared.stop();
        let outcome = returned.recv_timeout(LIMIT);
        assert_eq!(outcome, Ok(Err(Stopped)), "round {round}");
    }
}

/// User code that forgets its guard keeps nobody from the rest.
#[test]
fn a_guard_that_was_forgotten_is_let_go_at_the_end() {
    let shared = Arc::new(full());
    shared.queue.lock().published.clear();
    let theirs = shared.clone();
    let forgets = std::thread::spawn(move || {
        theirs.lock().expect("free");
        theirs.stage(1, None).expect("there is room");
        theirs.end(Ok(()));
    });
    forgets.join().expect("returns");
    assert!(shared.try_hold());
    assert_eq!(shared.queue.lock().published.len(), 1);
}
