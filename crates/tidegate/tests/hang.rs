//! User code that doesn't come back: the job is cancelled, fails with one error, or goes on without that thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use tidegate::prelude::*;

/// Where user code hangs until it is let go.
#[derive(Default)]
struct Trap {
    state: Mutex<(bool, u64)>,
    changed: Condvar,
}

impl Trap {
    fn hang(&self) {
        let mut state = self.state.lock().expect("nobody panics here");
        state.1 += 1;
        self.changed.notify_all();
        while !state.0 {
            state = self.changed.wait(state).expect("nobody panics here");
        }
    }

    fn wait_until_caught(&self) {
        let mut state = self.state.lock().expect("nobody panics here");
        while state.1 == 0 {
            state = self.changed.wait(state).expect("nobody panics here");
        }
    }

    fn let_go(&self) {
        self.state.lock().expect("nobody panics here").0 = true;
        self.changed.notify_all();
    }
}

const N: u64 = 1_000;

/// Counts by key; the first time that it sees `hangs_at` it hangs.
fn start(name: &str, trap: &Arc<Trap>, settings: &[(&str, &str)]) -> (JobHandle, Collected<(u64, u64)>) {
    let mut env = Environment::new(name);
    env.configuration()
        .set_text("task.cancellation.timeout", "100 ms");
    for (key, value) in settings {
        env.configuration().set_text(key, value);
    }
    let (trap, times) = (trap.clone(), AtomicU64::new(0));
    let counts = env
        .source("numbers", CollectionSource::new((0..N).collect::<Vec<u64>>()))
        .uid("numbers")
        .rebalance()
        .map("stubborn", move |n: u64| {
            if n == N / 2 && times.fetch_add(1, Ordering::Relaxed) == 0 {
                trap.hang();
            }
            (n % 10, n)
        })
        .uid("stubborn")
        .key_by(|pair: &(u64, u64)| pair.0)
        .reduce("sum", |a, b| (a.0, a.1 + b.1))
        .uid("sum")
        .collect("sums");
    let job = env
        .build()
        .expect("builds")
        .start(StartOptions::default())
        .expect("starts");
    (job, counts)
}

#[test]
fn a_job_is_cancelled_although_its_user_code_hangs() {
    let trap = Arc::new(Trap::default());
    let (job, _) = start("cancelled", &trap, &[]);
    trap.wait_until_caught();
    job.cancel();
    assert_eq!(job.wait_blocking().expect("ends well"), JobOutcome::Canceled);
    assert_eq!(job.status().abandoned_threads, 1);
}

#[test]
fn a_checkpoint_that_waits_for_it_fails_with_the_name_of_the_task() {
    let trap = Arc::new(Trap::default());
    let settings = [
        ("execution.checkpointing.interval", "50 ms"),
        ("execution.checkpointing.timeout", "100 ms"),
        ("execution.checkpointing.tolerable-failed-checkpoints", "0"),
        ("restart-strategy.type", "none"),
    ];
    let (job, _) = start("timeout", &trap, &settings);
    let error = job.wait_blocking().expect_err("it can't end").to_string();
    assert!(error.contains("stubborn"), "{error}");
    assert_eq!(job.status().abandoned_threads, 1);
}

#[test]
fn the_job_goes_on_without_it_and_what_it_says_later_counts_no_more() {
    let trap = Arc::new(Trap::default());
    let settings = [
        ("execution.checkpointing.interval", "50 ms"),
        ("execution.checkpointing.timeout", "100 ms"),
        ("restart-strategy.type", "fixed-delay"),
        ("restart-strategy.fixed-delay.attempts", "1"),
        ("restart-strategy.fixed-delay.delay", "0 ms"),
    ];
    let (job, sums) = start("goes-on", &trap, &settings);
    assert_eq!(job.wait_blocking().expect("ends well"), JobOutcome::Finished);
    assert_eq!((job.status().restarts, job.status().abandoned_threads), (1, 1));
    trap.let_go();
    let mut sums_of_keys: BTreeMap<u64, u64> = BTreeMap::new();
    for (key, sum) in sums.take() {
        let last = sums_of_keys.entry(key).or_default();
        *last = sum.max(*last);
    }
    let expected: BTreeMap<u64, u64> = (0..10)
        .map(|key| (key, (0..N).filter(|n| n % 10 == key).sum()))
        .collect();
    assert_eq!(sums_of_keys, expected);
}
