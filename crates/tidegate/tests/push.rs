//! Push sources: the lock is real (case C11), positions are in the cut.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidegate::prelude::*;
use tidegate_protocol::coordinator::TraceStep;

/// Nothing that is waited for takes nearly as long; a test that would wait for ever fails.
const LIMIT: Duration = Duration::from_secs(120);

/// Two threads meet at such a pair.
fn meeting<T: Send>() -> (Sender<T>, Mutex<Receiver<T>>) {
    let (tx, rx) = channel();
    (tx, Mutex::new(rx))
}

#[track_caller]
fn wait<T>(rx: &Mutex<Receiver<T>>) -> T {
    let rx = rx.lock().unwrap_or_else(PoisonError::into_inner);
    rx.recv_timeout(LIMIT).expect("the other side comes")
}

/// Waits for a job's end, not for ever.
#[track_caller]
fn ended(job: &JobHandle) -> Result<JobOutcome, String> {
    let (told, end) = meeting();
    let job = job.clone();
    std::thread::spawn(move || told.send(job.wait_blocking().map_err(|e| e.to_string())));
    wait(&end)
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
        .block_on(future)
}

/// Emits pairs under the lock and keeps its position in a named snapshot source.
fn pairs(upto: u64) -> PushSource<(u64, u8)> {
    PushSource::new(move |cx: &SourceContext<(u64, u8)>| {
        let position = Arc::new(AtomicU64::new(0));
        let (take, give) = (position.clone(), position.clone());
        cx.snapshot_sources().register(
            "position",
            move || Ok(take.load(Ordering::Relaxed).to_le_bytes().to_vec()),
            move |old| {
                for (_, bytes) in old {
                    give.store(u64::from_le_bytes(bytes[..].try_into()?), Ordering::Relaxed);
                }
                Ok(())
            },
        )?;
        loop {
            let lock = cx.checkpoint_lock()?;
            let n = position.load(Ordering::Relaxed);
            if n == upto {
                return Ok(());
            }
            lock.collect((n, 0))?;
            lock.collect((n, 1))?;
            position.store(n + 1, Ordering::Relaxed);
        }
    })
}

#[test]
fn pairs_pushed_under_the_lock_survive_a_failure_whole() {
    for mode in ["aligned", "unaligned", "adaptive"] {
        let mut env = Environment::new(format!("pairs-{mode}"));
        env.configuration()
            .set_text("execution.checkpointing.interval", "10ms")
            .set_text("execution.checkpointing.mode", mode)
            .set_text("restart-strategy.type", "fixed-delay")
            .set_text("restart-strategy.fixed-delay.delay", "0ms");
        let n = 20_000u64;
        let failed = Arc::new(AtomicU64::new(0));
        let result = env
            .source("pairs", pairs(n))
            .uid("pairs")
            .map("fail once", move |r: (u64, u8)| {
                if r.0 == n / 2 && failed.fetch_add(1, Ordering::Relaxed) == 0 {
                    panic!("told to fail");
                }
                r
            })
            .rebalance()
            .collect("result");
        let job = env
            .build()
            .expect("builds")
            .start(StartOptions::default())
            .expect("starts");
        assert_eq!(
            job.wait_blocking().expect("ends well"),
            JobOutcome::Finished,
            "{mode}"
        );
        let mut seen: HashMap<u64, Vec<u8>> = HashMap::new();
        for (n, half) in result.take() {
            seen.entry(n).or_default().push(half);
        }
        assert_eq!(seen.len() as u64, n, "{mode}");
        assert!(
            seen.values().all(|halves| halves.len() == 2),
            "{mode}: every half once"
        );
    }
}

/// A checkpoint comes while user code holds the lock and emits, under it, many times what there is room for. The
/// producer waits for the task to take records, and the task for the producer to let go: neither for good.
#[test]
fn a_checkpoint_during_a_hold_over_more_than_fits_is_taken_when_it_ends() {
    const RECORDS: u64 = 20_000;
    for mode in ["aligned", "unaligned", "adaptive", "at-least-once", "quiesce"] {
        let mut env = Environment::new(format!("held-{mode}"));
        env.configuration().set_text("execution.checkpointing.mode", mode);
        if mode == "adaptive" {
            env.configuration()
                .set_text("execution.checkpointing.aligned-checkpoint-timeout", "1ms");
        }
        let ((holds, held), (go_on, may_go_on)) = (meeting(), meeting());
        let ((lets_go, let_go), (decided, is_decided)) = (meeting(), meeting());
        let source = PushSource::new(move |cx: &SourceContext<u64>| {
            let lock = cx.checkpoint_lock()?;
            holds.send(())?;
            wait(&may_go_on);
            for n in 0..RECORDS {
                lock.collect(n)?;
            }
            drop(lock);
            lets_go.send(())?;
            wait(&is_decided);
            Ok(())
        });
        let result = env
            .source("held", source.max_staged(1))
            .uid("held")
            .flat_map("twice", |n: u64| [n, n])
            .rebalance()
            .map("slow", |n: u64| {
                // Slower than its source.
                (0..50).for_each(|_| std::hint::spin_loop());
                n
            })
            .collect("result");
        let triggered = go_on.clone();
        let trace = StartOptions::default().trace(Arc::new(move |event| {
            if matches!(event.step, TraceStep::Triggered { .. }) {
                // Whoever listened is through with it when there are more than one.
                let _heard = triggered.send(());
            }
        }));
        let job = env.build().expect("builds").start(trace).expect("starts");
        wait(&held);
        let asks = job.clone();
        let (answers, answer) = meeting();
        std::thread::spawn(move || answers.send(block_on(asks.trigger_checkpoint())));
        wait(&let_go);
        wait(&answer).unwrap_or_else(|e| panic!("{mode}: {e}"));
        decided.send(()).expect("it waits");
        assert_eq!(ended(&job), Ok(JobOutcome::Finished), "{mode}");
        let mut seen = result.take();
        seen.sort_unstable();
        assert!(seen.into_iter().eq((0..2 * RECORDS).map(|n| n / 2)), "{mode}");
        drop(go_on);
    }
}
