//! The keyed job that the demos measure: numbered records, a count per key that takes its time, a task that can be
//! killed, and the proof that the counts are right.
//!
//! Owns: the job, the [`Probe`] that sees into it from outside of its state, and the comparison ([`Proof`]). Does
//! not own: when anything is done to it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::Environment;
use tidegate::prelude::*;
use tidegate::runtime::master::local::Engine;
use tidegate::runtime::operators::FunctionContext;
use tidegate_protocol::coordinator::Request;
use tidegate_types::options::{Attempts, RestartStrategyKind, keys};
use tidegate_types::{Nanos, Parallelism};

use super::as_option;
use super::lanes::{Lanes, Tally};
use crate::error::CliError;
use crate::session::Running;
use crate::settings::Decided;

/// What one record is and costs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) parallelism: Parallelism,
    pub(crate) work: Duration,
    pub(crate) payload: u32,
    pub(crate) keys: u32,
    /// Records that are due per second; `None` for full speed.
    pub(crate) per_second: Option<u32>,
}

/// One record.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Event {
    key: u64,
    #[serde(with = "serde_bytes")]
    payload: Vec<u8>,
}

/// A number whose bits depend on all of `n`'s: the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014, section 3).
fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// What is seen of a job from outside, over all its attempts.
pub(crate) struct Probe {
    clock: Box<dyn Fn() -> Nanos + Send + Sync>,
    pub(crate) tally: Arc<Tally>,
    /// Records that were counted, again after a restart too.
    counted: AtomicU64,
    /// The next record's subtask is to die.
    kill: AtomicBool,
    /// When it died; 0 before.
    killed_at: AtomicU64,
    /// When the first record was counted after that; 0 before.
    back_at: AtomicU64,
    /// How many had been counted by then.
    counted_at_kill: AtomicU64,
    results: Mutex<BTreeMap<u64, u64>>,
}

impl Probe {
    /// For a job on this engine.
    pub(crate) fn new(engine: &Arc<Engine>, workload: &Workload) -> Arc<Self> {
        let engine = engine.clone();
        Arc::new(Self {
            clock: Box::new(move || engine.now()),
            tally: Tally::new(workload.parallelism.0, workload.per_second.map(f64::from)),
            counted: AtomicU64::new(0),
            kill: AtomicBool::new(false),
            killed_at: AtomicU64::new(0),
            back_at: AtomicU64::new(0),
            counted_at_kill: AtomicU64::new(0),
            results: Mutex::default(),
        })
    }

    /// The engine's clock.
    pub(crate) fn now(&self) -> Nanos {
        (self.clock)()
    }

    /// Records counted so far.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.load(Ordering::Acquire)
    }

    /// Lets the subtask that gets the next record panic.
    pub(crate) fn kill(&self) {
        self.kill.store(true, Ordering::Release);
    }

    /// From the death of the task to the first record counted afterwards, once there was one; and how many had been
    /// counted when it died.
    pub(crate) fn restored(&self) -> Option<(Duration, u64)> {
        let back = self.back_at.load(Ordering::Acquire);
        let killed = Nanos(self.killed_at.load(Ordering::Acquire));
        (back != 0).then(|| {
            (
                Nanos(back).since(killed),
                self.counted_at_kill.load(Ordering::Acquire),
            )
        })
    }

    fn has_died(&self) -> bool {
        self.killed_at.load(Ordering::Acquire) != 0
    }

    /// The task's last words.
    fn die_if_told(&self) {
        if self.kill.load(Ordering::Relaxed) && self.kill.swap(false, Ordering::AcqRel) {
            self.counted_at_kill.store(self.counted(), Ordering::Release);
            self.killed_at.store(self.now().0, Ordering::Release);
            panic!("killed on purpose");
        }
    }
}

/// Counts the records of each key, and takes its time over each.
struct KeyedCount {
    seen: ValueState<u64, u64>,
    work: Work,
    probe: Arc<Probe>,
    /// This subtask was made after the kill, and hasn't counted anything yet.
    is_new: bool,
}

impl ProcessFunction<u64, Event, (u64, u64)> for KeyedCount {
    fn state(&mut self, states: &mut States<'_, u64>) {
        states.value("seen", &mut self.seen);
    }

    fn open(&mut self, _: &FunctionContext) -> Result<(), BoxError> {
        self.is_new = self.probe.has_died();
        Ok(())
    }

    fn process(&mut self, _: Event, cx: &mut ProcessContext<'_, u64, (u64, u64)>) -> Result<(), BoxError> {
        self.probe.die_if_told();
        self.work.carry_out();
        let seen = self.seen.get(cx.at()).copied().unwrap_or(0) + 1;
        self.seen.set(cx.at(), seen);
        if seen == 1 {
            // The end of time comes with the end of the input: then the count is final.
            cx.register_event_timer(i64::MAX);
        }
        self.probe.counted.fetch_add(1, Ordering::AcqRel);
        if std::mem::take(&mut self.is_new) {
            let now = self.probe.now().0.max(1);
            let _first = self
                .probe
                .back_at
                .compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire);
        }
        Ok(())
    }

    fn on_timer(&mut self, _: Timer, cx: &mut ProcessContext<'_, u64, (u64, u64)>) -> Result<(), BoxError> {
        let seen = self.seen.get(cx.at()).copied().unwrap_or(0);
        cx.collect((*cx.key(), seen));
        Ok(())
    }
}

/// What a record costs: time during which its thread does nothing else, as with a slow service behind it.
struct Work {
    takes: Duration,
    never: (Mutex<()>, Condvar),
}

impl Work {
    fn taking(takes: Duration) -> Self {
        Self {
            takes,
            never: (Mutex::new(()), Condvar::new()),
        }
    }

    fn carry_out(&self) {
        if self.takes.is_zero() {
            return;
        }
        let (lock, called) = &self.never;
        let held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody calls: the time limit is the point.
        let _timed_out = called.wait_timeout_while(held, self.takes, |()| true);
    }
}

/// Adds the job to an environment.
pub(crate) fn build(env: &Environment, workload: &Workload, probe: &Arc<Probe>) {
    let Workload {
        parallelism,
        work,
        payload,
        keys,
        ..
    } = *workload;
    let make = move |n: u64| Event {
        key: mix(n) % u64::from(keys),
        payload: vec![n as u8; payload as usize],
    };
    let (counter, results) = (probe.clone(), probe.clone());
    let _sink = env
        .source("generator", Lanes::new(parallelism.0, probe.tally.clone(), make))
        .uid("generator")
        .parallelism(parallelism.0)
        .key_by(|event: &Event| event.key)
        .process("count", move || KeyedCount {
            seen: ValueState::new(),
            work: Work::taking(work),
            probe: counter.clone(),
            is_new: false,
        })
        .uid("count")
        .parallelism(parallelism.0)
        .for_each("results", move |(key, seen)| {
            results
                .results
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(key, seen);
        })
        .uid("results")
        .parallelism(parallelism.0);
}

/// What [`configure`] decides beside the interval, whose flag each demo names itself.
pub(crate) fn decided() -> [Decided; 3] {
    [
        (keys::CHECKPOINT_DIR.key(), Some("--dir")),
        (keys::PARALLELISM.key(), Some("--parallelism")),
        (keys::RESTART_STRATEGY.key(), None),
    ]
}

/// Where checkpoints go, how often (with the flag that says so), and that the job survives one kill.
pub(crate) fn configure(
    configuration: &mut Configuration,
    workload: &Workload,
    dir: &Path,
    (flag, interval): (&str, Duration),
) -> Result<(), CliError> {
    configuration
        .set_flag("--dir", &keys::CHECKPOINT_DIR, as_option(dir)?)
        .set_flag(flag, &keys::CHECKPOINT_INTERVAL, Some(interval))
        .set_flag("--parallelism", &keys::PARALLELISM, workload.parallelism)
        .set(&keys::RESTART_STRATEGY, RestartStrategyKind::FixedDelay)
        .set(&keys::FIXED_DELAY_ATTEMPTS, Attempts::Limited(1))
        .set(&keys::FIXED_DELAY_DELAY, Duration::ZERO);
    Ok(())
}

/// Ends the job for good, so that every record that was emitted is counted.
///
/// # Errors
/// When it can't be ended, or fails.
pub(crate) async fn drain(running: &Running<'_>) -> Result<(), CliError> {
    let drained = running.running().request(Request::Drain { savepoint: None });
    // The answer comes when the job has ended; until then there may be a walk to show.
    let refused = drained.await.err().map(|failure| format!("{failure:?}"));
    match (running.end().await?, refused) {
        (JobOutcome::Finished, _) => Ok(()),
        (outcome, refused) => {
            let why = refused.unwrap_or_default();
            Err(CliError::Failed(format!(
                "the job couldn't be drained, it ended as {outcome:?}. {why}"
            )))
        }
    }
}

/// What the comparison of the counts came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Proof {
    /// Every key's count is what it must be.
    pub(crate) exact: bool,
    /// Records that were emitted and not counted.
    pub(crate) lost: u64,
    /// Records that were counted more than once.
    pub(crate) duplicated: u64,
    /// Records that were emitted.
    pub(crate) records: u64,
    /// Distinct keys among them.
    pub(crate) keys: u64,
    /// Records that were processed again after the kill.
    pub(crate) replayed: u64,
}

/// Compares the counts of a job that has ended with what its generators emitted.
pub(crate) fn prove(probe: &Probe, workload: &Workload) -> Proof {
    let expected = emitted(&probe.tally.emitted(), workload.keys);
    let counts = probe.results.lock().unwrap_or_else(PoisonError::into_inner);
    compare(&expected, &counts, probe.counted())
}

/// How many records of each key the lanes emitted, from nothing but how far they got.
fn emitted(lanes: &[u64], keys: u32) -> BTreeMap<u64, u64> {
    let mut expected = BTreeMap::new();
    for (lane, emitted) in lanes.iter().enumerate() {
        for at in 0..*emitted {
            let n = Tally::number(lanes.len() as u32, lane as u32, at);
            *expected.entry(mix(n) % u64::from(keys)).or_default() += 1;
        }
    }
    expected
}

fn compare(expected: &BTreeMap<u64, u64>, counts: &BTreeMap<u64, u64>, processed: u64) -> Proof {
    let (mut lost, mut duplicated) = (0, 0);
    let keys: std::collections::BTreeSet<&u64> = expected.keys().chain(counts.keys()).collect();
    for key in keys {
        let of = |counts: &BTreeMap<u64, u64>| counts.get(key).copied().unwrap_or(0);
        lost += of(expected).saturating_sub(of(counts));
        duplicated += of(counts).saturating_sub(of(expected));
    }
    let records = expected.values().sum();
    Proof {
        exact: lost == 0 && duplicated == 0,
        lost,
        duplicated,
        records,
        keys: expected.len() as u64,
        replayed: processed.saturating_sub(records),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oracle_counts_what_the_lanes_emitted() {
        let expected = emitted(&[3, 1], 1);
        assert_eq!(expected, BTreeMap::from([(0, 4)]));
        let expected = emitted(&[500, 499], 10);
        let mut by_hand = BTreeMap::new();
        for n in 0..999 {
            *by_hand.entry(mix(n) % 10).or_insert(0u64) += 1;
        }
        assert_eq!(
            expected, by_hand,
            "two lanes that got equally far have all the numbers up to there"
        );
        assert_eq!(expected.len(), 10);
    }

    #[test]
    fn what_is_lost_doesnt_make_up_for_what_is_doubled() {
        let expected = BTreeMap::from([(1, 10), (2, 10), (3, 10)]);
        let right = compare(&expected, &expected, 42);
        assert_eq!(
            (right.exact, right.records, right.keys, right.replayed),
            (true, 30, 3, 12)
        );
        let wrong = compare(&expected, &BTreeMap::from([(1, 9), (2, 11), (4, 1)]), 30);
        assert_eq!((wrong.exact, wrong.lost, wrong.duplicated), (false, 11, 2));
    }

    #[test]
    fn mixed_numbers_are_those_of_the_reference() {
        // The first outputs of SplitMix64 with seed 0: the finaliser of multiples of its odd constant.
        let gamma = 0x9e37_79b9_7f4a_7c15u64;
        assert_eq!(mix(gamma), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(gamma.wrapping_mul(2)), 0x6e78_9e6a_a1b9_65f4);
    }
}
