//! Channels as sources: what is read again after a failure, what makes room, and who is told of the job's end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tidegate::prelude::*;

/// Nothing that is waited for takes nearly as long; a test that would wait for ever fails.
const LIMIT: Duration = Duration::from_secs(120);

/// Does something on a thread of its own.
fn aside<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> Receiver<R> {
    let (told, done) = channel();
    std::thread::spawn(move || told.send(f()));
    done
}

#[track_caller]
fn come<R>(done: &Receiver<R>) -> R {
    done.recv_timeout(LIMIT).expect("it comes")
}

/// Waits for a job's end, not for ever; says what an error says, with what caused it.
#[track_caller]
fn ended(job: &JobHandle) -> Result<JobOutcome, String> {
    let job = job.clone();
    let done = aside(move || {
        job.wait_blocking().map_err(|e| {
            let mut text = e.to_string();
            let mut next = std::error::Error::source(&*e);
            while let Some(cause) = next {
                text.push_str(&format!(": {cause}"));
                next = cause.source();
            }
            text
        })
    });
    come(&done)
}

/// A job over a channel whose code fails, once, on the record `fails_at`.
fn job(
    name: &str,
    source: ChannelSource<u64>,
    fails_at: u64,
    options: &[(&str, &str)],
) -> (JobGraph, Collected<u64>) {
    let mut env = Environment::new(name);
    for (key, value) in options {
        env.configuration().set_text(key, value);
    }
    let failed = Arc::new(AtomicU64::new(0));
    let result = env
        .source("channel", source)
        .uid("channel")
        .map("fail once", move |n: u64| {
            if n == fails_at && failed.fetch_add(1, Ordering::Relaxed) == 0 {
                panic!("told to fail");
            }
            n
        })
        .collect("result");
    (env.build().expect("builds"), result)
}

fn start(graph: &JobGraph) -> JobHandle {
    graph.start(StartOptions::default()).expect("starts")
}

/// Sends these, each as itself, until the channel says no.
fn send_all(
    sender: ChannelSender<u64>,
    ids: std::ops::RangeInclusive<u64>,
) -> Receiver<Result<(), SendError>> {
    aside(move || ids.into_iter().try_for_each(|n| sender.send(n, n)))
}

const RESTARTS: [(&str, &str); 2] = [
    ("restart-strategy.type", "fixed-delay"),
    ("restart-strategy.fixed-delay.delay", "0ms"),
];
const CHECKPOINTS: (&str, &str) = ("execution.checkpointing.interval", "10ms");
/// The first checkpoint doesn't come within a test.
const NO_CHECKPOINT_YET: [(&str, &str); 2] = [
    ("execution.checkpointing.interval", "1h"),
    ("restart-strategy.type", "none"),
];

#[test]
fn a_channel_is_read_again_after_a_failure() {
    let (sender, source) = ChannelSource::with_capacity(100_000);
    let options = [RESTARTS[0], RESTARTS[1], CHECKPOINTS];
    let (graph, result) = job("channel", source, 7000, &options);
    let job = start(&graph);
    for n in 1..=20_000u64 {
        sender.send(n, n).expect("open");
    }
    sender.close();
    assert_eq!(job.wait_blocking().expect("ends well"), JobOutcome::Finished);
    let mut seen = result.take();
    seen.sort_unstable();
    assert_eq!(seen, (1..=20_000).collect::<Vec<u64>>());
}

#[test]
fn a_job_without_checkpoints_reads_more_than_its_channel_holds() {
    let (sender, source) = ChannelSource::with_capacity(10);
    let (graph, result) = job("no-checkpoints", source, 0, &[]);
    let job = start(&graph);
    let sent = send_all(sender, 1..=10_000);
    assert_eq!(come(&sent), Ok(()));
    // The last sender is gone: that ends the stream.
    assert_eq!(ended(&job), Ok(JobOutcome::Finished));
    assert_eq!(result.take(), (1..=10_000).collect::<Vec<u64>>());
}

#[test]
fn a_job_without_checkpoints_restarts_while_its_channel_has_everything_and_else_says_what_it_needs() {
    let (sender, source) = ChannelSource::with_capacity(100);
    let (graph, _result) = job("has-everything", source, 50, &RESTARTS);
    let whole = start(&graph);
    assert_eq!(come(&send_all(sender, 1..=100)), Ok(()));
    assert_eq!(ended(&whole), Ok(JobOutcome::Finished));
    assert_eq!(whole.status().restarts, 1);

    let (sender, source) = ChannelSource::with_capacity(100);
    let (graph, _result) = job("has-dropped", source, 5000, &RESTARTS);
    let failing = start(&graph);
    let sent = send_all(sender, 1..=10_000);
    let error = ended(&failing).expect_err("the first records are gone");
    assert!(
        error.contains("can't be read again from id 1: it doesn't keep its records 1 to")
            && error.contains("execution.checkpointing.interval"),
        "{error}"
    );
    assert_eq!(failing.status().restarts, 1, "no restart heals it");
    assert_eq!(come(&sent), Err(SendError::Closed));
}

#[test]
fn a_sender_that_waits_hears_of_the_end_of_the_job_however_it_comes() {
    for (name, fails_at) in [("fails", 3), ("is-cancelled", 0)] {
        let (sender, source) = ChannelSource::with_capacity(5);
        let (graph, _result) = job(name, source, fails_at, &NO_CHECKPOINT_YET);
        let ends = start(&graph);
        let sent = send_all(sender.clone(), 1..=10);
        if fails_at == 0 {
            ends.cancel();
        }
        let _outcome = ended(&ends);
        assert_eq!(come(&sent), Err(SendError::Closed), "{name}");
        assert_eq!(sender.send(100, 100), Err(SendError::Closed), "{name}");
    }
}

#[test]
fn a_job_that_is_started_again_opens_its_channel_again() {
    let (sender, source) = ChannelSource::with_capacity(10);
    let (graph, result) = job("again", source, 3, &[]);
    let first = start(&graph);
    assert_eq!(come(&send_all(sender.clone(), 1..=3)), Ok(()));
    ended(&first).expect_err("it was told to fail");
    assert_eq!(sender.send(4, 4), Err(SendError::Closed));
    let second = start(&graph);
    sender.send(4, 4).expect("open again");
    sender.close();
    assert_eq!(ended(&second), Ok(JobOutcome::Finished));
    assert_eq!(result.take(), [1, 2, 3, 4]);
}
