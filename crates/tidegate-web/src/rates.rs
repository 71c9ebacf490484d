//! What tasks did per second, from counters that only grow.
//!
//! Owns: a few seconds of samples, taken once a second by the server, and the rates between the oldest and the newest
//! of them. So every client sees the same figures, however often it asks. Does not own: counting (the tasks).
//!
//! Busy is what is neither idle nor backpressured, as Flink defines it: user code that is in one record for minutes
//! counts as busy although its own counter hasn't moved yet.

use std::collections::{BTreeMap, VecDeque};

use tidegate_runtime::master::{JobStatus, SubtaskInfo};
use tidegate_types::{JobId, Nanos, SubtaskId};

/// Samples that are kept: with one a second, rates are over the last five seconds.
pub(crate) const SAMPLES: usize = 6;

/// One subtask of one attempt; counters of the next one begin at zero.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    job: JobId,
    attempt: u32,
    subtask: SubtaskId,
}

#[derive(Debug, Clone, Copy)]
struct Counters {
    records_in: u64,
    records_out: u64,
    idle_ns: u64,
    backpressured_ns: u64,
}

#[derive(Debug)]
struct Sample {
    at: Nanos,
    tasks: BTreeMap<Key, Counters>,
}

/// What is sampled of a job that hasn't ended.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) job: JobId,
    pub(crate) attempt: u32,
    pub(crate) subtasks: Vec<SubtaskInfo>,
}

impl Live {
    /// What to sample of a job, if it hasn't ended.
    pub(crate) fn of(status: &JobStatus) -> Option<Self> {
        (!status.state.is_terminal()).then(|| Self {
            job: status.job.clone(),
            attempt: status.attempts,
            subtasks: status.subtasks.clone(),
        })
    }
}

/// What one subtask did per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rate {
    pub(crate) records_in: f64,
    pub(crate) records_out: f64,
    /// Milliseconds per second, 0 to 1000; the three add up to 1000.
    pub(crate) busy_ms: f64,
    pub(crate) idle_ms: f64,
    pub(crate) backpressured_ms: f64,
}

/// The newest samples.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    samples: VecDeque<Sample>,
}

impl Rates {
    /// Takes a sample of all subtasks.
    pub(crate) fn sample(&mut self, at: Nanos, jobs: &[Live]) {
        let mut tasks = BTreeMap::new();
        for live in jobs {
            for subtask in &live.subtasks {
                let totals = subtask.metrics.totals(at);
                let counters = Counters {
                    records_in: totals.records_in,
                    records_out: totals.records_out,
                    idle_ns: totals.idle_ns,
                    backpressured_ns: totals.backpressured_ns,
                };
                let key = Key {
                    job: live.job.clone(),
                    attempt: live.attempt,
                    subtask: subtask.id,
                };
                tasks.insert(key, counters);
            }
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { at, tasks });
    }

    /// What a subtask of the job's current attempt did per second; `None` until it was sampled twice.
    pub(crate) fn of(&self, status: &JobStatus, subtask: SubtaskId) -> Option<Rate> {
        let key = Key {
            job: status.job.clone(),
            attempt: status.attempts,
            subtask,
        };
        let newest = self.samples.back()?;
        let to = newest.tasks.get(&key)?;
        let (oldest, from) = self.samples.iter().find_map(|s| Some((s, s.tasks.get(&key)?)))?;
        let elapsed_ns = newest.at.since(oldest.at).as_nanos() as f64;
        if elapsed_ns <= 0.0 {
            return None;
        }
        let per_ns = |from: u64, to: u64| to.saturating_sub(from) as f64 / elapsed_ns;
        let share_ms = |from: u64, to: u64| (per_ns(from, to) * 1e3).clamp(0.0, 1e3);
        let backpressured_ms = share_ms(from.backpressured_ns, to.backpressured_ns);
        let idle_ms = share_ms(from.idle_ns, to.idle_ns).min(1e3 - backpressured_ms);
        Some(Rate {
            records_in: per_ns(from.records_in, to.records_in) * 1e9,
            records_out: per_ns(from.records_out, to.records_out) * 1e9,
            busy_ms: 1e3 - idle_ms - backpressured_ms,
            idle_ms,
            backpressured_ms,
        })
    }
}
