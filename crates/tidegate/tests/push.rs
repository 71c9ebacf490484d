//! Push sources and channels: the lock is real (case C11), positions are in the cut.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::prelude::*;

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

#[test]
fn a_channel_is_read_again_after_a_failure() {
    let mut env = Environment::new("channel");
    env.configuration()
        .set_text("execution.checkpointing.interval", "10ms")
        .set_text("restart-strategy.type", "fixed-delay")
        .set_text("restart-strategy.fixed-delay.delay", "0ms");
    let (sender, source) = ChannelSource::with_capacity(100_000);
    let failed = Arc::new(AtomicU64::new(0));
    let result = env
        .source("channel", source)
        .uid("channel")
        .map("fail once", move |n: u64| {
            if n == 7000 && failed.fetch_add(1, Ordering::Relaxed) == 0 {
                panic!("told to fail");
            }
            n
        })
        .collect("result");
    let job = env
        .build()
        .expect("builds")
        .start(StartOptions::default())
        .expect("starts");
    for n in 1..=20_000u64 {
        sender.send(n, n).expect("open");
    }
    sender.close();
    assert_eq!(job.wait_blocking().expect("ends well"), JobOutcome::Finished);
    let mut seen = result.take();
    seen.sort_unstable();
    assert_eq!(seen, (1..=20_000).collect::<Vec<u64>>());
}
