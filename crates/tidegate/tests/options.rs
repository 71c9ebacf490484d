//! Options that reach into operators and sources do there what they say.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use tidegate::prelude::*;

/// What a test waits at most for something that must happen: only a broken engine lets it pass.
const FOR_EVER: Duration = Duration::from_secs(120);

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
        .block_on(future)
}

fn start(env: &Environment) -> JobHandle {
    env.build()
        .expect("builds")
        .start(StartOptions::default())
        .expect("starts")
}

/// Takes a checkpoint. All tasks must run: a record at the end of the job is proof of that.
fn checkpoint(job: &JobHandle) {
    block_on(job.trigger_checkpoint()).expect("the checkpoint is taken");
}

/// A number that is waited for.
#[derive(Default)]
struct Count {
    value: Mutex<u64>,
    changed: Condvar,
}

impl Count {
    fn add(&self, n: u64) -> u64 {
        let mut value = self.value.lock().expect("nobody panics here");
        *value += n;
        self.changed.notify_all();
        *value
    }

    fn get(&self) -> u64 {
        *self.value.lock().expect("nobody panics here")
    }

    fn wait_for(&self, least: u64) {
        let value = self.value.lock().expect("nobody panics here");
        let (value, timeout) = self
            .changed
            .wait_timeout_while(value, FOR_EVER, |v| *v < least)
            .expect("nobody panics here");
        assert!(!timeout.timed_out(), "{} of {least}", *value);
    }
}

/// Fires one event timer, and says so.
struct Alarm(mpsc::Sender<i64>);

impl ProcessFunction<u8, i64, i64> for Alarm {
    fn state(&mut self, _: &mut States<'_, u8>) {}

    fn process(&mut self, _: i64, cx: &mut ProcessContext<'_, u8, i64>) -> Result<(), BoxError> {
        cx.register_event_timer(5);
        Ok(())
    }

    fn on_timer(&mut self, timer: Timer, _: &mut ProcessContext<'_, u8, i64>) -> Result<(), BoxError> {
        Ok(self.0.send(timer.time)?)
    }
}

#[test]
fn a_silent_stream_is_idle_after_the_configured_time() {
    let mut env = Environment::new("idle-timeout");
    env.configuration()
        .set_text("source.idle-timeout", "20 ms")
        .set_text("pipeline.auto-watermark-interval", "1 ms");
    let (silent, silent_source) = ChannelSource::<i64>::with_capacity(16);
    let (busy, busy_source) = ChannelSource::<i64>::with_capacity(16);
    let strategy = WatermarkStrategy::monotonous();
    let silent_stream =
        env.source("silent", silent_source)
            .assign_timestamps("silent times", strategy, |n| *n);
    // If it were idle too, it would be a matter of luck who holds whom back.
    let never = strategy.without_idleness();
    let busy_stream = env
        .source("busy", busy_source)
        .assign_timestamps("busy times", never, |n| *n);
    let (fired, alarms) = mpsc::channel();
    busy_stream
        .union(&[&silent_stream])
        .key_by(|_: &i64| 0u8)
        .process("alarm", move || Alarm(fired.clone()))
        .uid("alarm")
        .discard("nothing");
    let job = start(&env);
    for n in 1..=10 {
        busy.send(n as u64, n).expect("the job takes it");
    }
    assert_eq!(alarms.recv_timeout(FOR_EVER), Ok(5));
    busy.close();
    silent.close();
    job.wait_blocking().expect("ends well");
}

#[test]
fn a_push_source_publishes_what_it_staged_beyond_the_configured_limit() {
    const STAGED: u64 = 7;
    let mut env = Environment::new("max-staged");
    env.configuration()
        .set_text("source.max-staged-records", &STAGED.to_string());
    let (seen, arrivals) = mpsc::channel();
    let arrivals = Mutex::new(arrivals);
    let source = PushSource::new(move |cx: &SourceContext<u64>| {
        let lock = cx.checkpoint_lock()?;
        for n in 0..STAGED {
            lock.collect(n)?;
        }
        // The lock is still held: only the limit lets these out.
        let arrivals = arrivals.lock().expect("nobody panics here");
        for n in 0..STAGED {
            let arrived: u64 = arrivals.recv_timeout(FOR_EVER)?;
            assert_eq!(arrived, n);
        }
        Ok(())
    });
    env.source("pushed", source)
        .try_for_each("arrivals", move |n| seen.send(n));
    start(&env).wait_blocking().expect("ends well");
}

#[test]
fn a_long_record_runs_on_for_a_snapshot_as_far_as_configured() {
    const ITEMS: u64 = 4_000;
    const ITEM_BYTES: usize = 1_000;
    let mut env = Environment::new("overdraft");
    env.configuration()
        .set_text("task.overdraft.max-bytes", "64 kb")
        .set_text("task.overdraft.max-time", "1 h")
        .set_text("task.gate.budget", "fixed:4")
        .set_text("execution.checkpointing.mode", "unaligned");
    let made = Arc::new(Count::default());
    let taken = Arc::new(Count::default());
    let may_go_on = Arc::new(Count::default());
    let furthest = Arc::new(AtomicU64::new(0));
    let (making, taking, gate, lead) = (made.clone(), taken.clone(), may_go_on.clone(), furthest.clone());
    env.from_collection("one", vec![1u8])
        .uid("one")
        .flat_map("burst", move |_| {
            let making = making.clone();
            (0..ITEMS).map(move |_| {
                making.add(1);
                "x".repeat(ITEM_BYTES)
            })
        })
        .start_new_chain()
        .map("bytes", |item: String| item.len() as u64)
        .start_new_chain()
        .for_each("take", {
            let made = made.clone();
            move |_| {
                let so_far = taking.add(1);
                gate.wait_for(1);
                lead.fetch_max(made.get() - so_far, Ordering::Relaxed);
            }
        })
        .uid("take");
    let job = start(&env);
    taken.wait_for(1);
    let checkpoint = std::thread::spawn({
        let job = job.clone();
        // The job's last checkpoint may be complete first; then this one isn't taken any more.
        move || block_on(job.trigger_checkpoint())
    });
    // More than there is room for: the record runs on.
    made.wait_for(64);
    may_go_on.add(1);
    let _taken = checkpoint.join().expect("nobody panics there");
    job.wait_blocking().expect("ends well");
    assert_eq!((made.get(), taken.get()), (ITEMS, ITEMS));
    let lead = furthest.load(Ordering::Relaxed);
    assert!(
        lead < 400,
        "the record ran on by {lead} items of {ITEM_BYTES} bytes"
    );
}

#[test]
fn as_many_checkpoints_are_remembered_as_configured() {
    let mut env = Environment::new("history");
    env.configuration().set_text("web.checkpoints.history", "2");
    let (sender, source) = ChannelSource::<u64>::with_capacity(16);
    let taken = Arc::new(Count::default());
    let taking = taken.clone();
    env.source("numbers", source)
        .uid("numbers")
        .for_each("take", move |_| {
            taking.add(1);
        })
        .uid("take");
    let job = start(&env);
    sender.send(1, 1).expect("the job takes it");
    taken.wait_for(1);
    for _ in 0..4 {
        checkpoint(&job);
    }
    assert_eq!(job.status().history.recent().count(), 2);
    sender.close();
    job.wait_blocking().expect("ends well");
    assert_eq!(job.status().history.recent().count(), 2);
}
