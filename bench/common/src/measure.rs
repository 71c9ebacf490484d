//! Counting without disturbing, and the report.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::{Arguments, Checkpoints, Expected, Workload};

/// A lane publishes its counts this often, in records.
const PUBLISH_EVERY: u64 = 256;
/// Between two points of the timeline.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);

/// What a contestant prints as its last line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Who ran, with its version.
    pub contestant: String,
    /// What.
    pub workload: Workload,
    /// Subtasks or workers.
    pub parallelism: usize,
    /// How it took checkpoints.
    pub checkpoints: Checkpoints,
    /// Records that the sources emitted.
    pub records: u64,
    /// What the sinks saw.
    pub result: Expected,
    /// Milliseconds since the process began, and records counted by then.
    pub timeline: Vec<(f64, u64)>,
    /// Checkpoints that were completed.
    pub completed: Vec<Completed>,
    /// Gaps between records in nanoseconds, if asked for.
    pub gaps: Option<Gaps>,
    /// Processor time of the process in seconds.
    pub processor_seconds: f64,
    /// The most memory that was resident, in KiB.
    pub peak_rss_kib: u64,
}

/// One checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Completed {
    /// From trigger to decision, in milliseconds.
    pub duration_ms: f64,
    /// What was written for it.
    pub bytes: u64,
}

/// Time between two records at one sink subtask, over all of them, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gaps {
    /// Median.
    pub p50: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// 99.99 %.
    pub p9999: u64,
    /// The longest.
    pub max: u64,
}

#[derive(Default)]
#[repr(align(128))]
struct Published {
    counted: AtomicU64,
    outputs: AtomicU64,
    digest: AtomicU64,
    gaps: Mutex<Option<Histogram<u64>>>,
}

struct Shared {
    lanes: Mutex<Vec<Arc<Published>>>,
    over: AtomicBool,
    with_gaps: bool,
}

/// Measures one run of this process.
pub struct Measure {
    begun: Instant,
    shared: Arc<Shared>,
    sampler: JoinHandle<Vec<(f64, u64)>>,
}

/// Hands out [`Lane`]s to whoever counts.
#[derive(Clone)]
pub struct Lanes(Arc<Shared>);

/// One subtask's counts. Local to its thread; published now and then, and when it is dropped.
pub struct Lane {
    counted: u64,
    result: Expected,
    published: Arc<Published>,
    results_count: bool,
    gaps: Option<(Histogram<u64>, Option<Instant>)>,
}

impl Lane {
    /// A record went by that the timeline counts.
    #[inline(always)]
    pub fn count(&mut self) {
        self.counted += 1;
        if self.counted.is_multiple_of(PUBLISH_EVERY) {
            self.publish();
        }
    }

    /// A result reached a sink.
    #[inline(always)]
    pub fn result(&mut self, value: u64) {
        self.result.outputs += 1;
        self.result.digest = self.result.digest.wrapping_add(value);
    }

    /// Both: where each result stands for a record.
    #[inline(always)]
    pub fn count_result(&mut self, value: u64) {
        self.result(value);
        self.results_count = true;
        if self.result.outputs.is_multiple_of(PUBLISH_EVERY) {
            self.publish();
        }
        if self.gaps.is_some() {
            self.gap();
        }
    }

    #[inline(never)]
    fn gap(&mut self) {
        let Some((histogram, last)) = &mut self.gaps else {
            return;
        };
        let now = Instant::now();
        if let Some(last) = last.replace(now) {
            let gap = now.duration_since(last).as_nanos();
            histogram.saturating_record(u64::try_from(gap).unwrap_or(u64::MAX));
        }
    }

    #[cold]
    fn publish(&self) {
        let results = if self.results_count {
            self.result.outputs
        } else {
            0
        };
        self.published
            .counted
            .store(self.counted + results, Ordering::Relaxed);
        self.published
            .outputs
            .store(self.result.outputs, Ordering::Relaxed);
        self.published.digest.store(self.result.digest, Ordering::Relaxed);
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.publish();
        if let Some((histogram, _)) = self.gaps.take()
            && let Ok(mut gaps) = self.published.gaps.lock()
        {
            *gaps = Some(histogram);
        }
    }
}

impl Lanes {
    /// A lane for one subtask.
    pub fn lane(&self) -> Lane {
        let published = Arc::new(Published::default());
        if let Ok(mut lanes) = self.0.lanes.lock() {
            lanes.push(published.clone());
        }
        let gaps = self.0.with_gaps.then(|| {
            let histogram = Histogram::new_with_bounds(1, 100_000_000_000, 2);
            (histogram.expect("the bounds are right"), None)
        });
        Lane {
            counted: 0,
            result: Expected {
                outputs: 0,
                digest: 0,
            },
            results_count: false,
            published,
            gaps,
        }
    }
}

impl Shared {
    fn counted(&self) -> u64 {
        let lanes = self.lanes.lock().map(|l| l.clone()).unwrap_or_default();
        lanes.iter().map(|l| l.counted.load(Ordering::Relaxed)).sum()
    }
}

impl Measure {
    /// Begins to measure: call it first of all.
    pub fn begin(arguments: &Arguments) -> Self {
        let begun = Instant::now();
        let shared = Arc::new(Shared {
            lanes: Mutex::default(),
            over: AtomicBool::new(false),
            with_gaps: arguments.gaps,
        });
        let watched = shared.clone();
        let sampler = std::thread::spawn(move || {
            let mut timeline = Vec::new();
            let mut at = |begun: Instant| {
                let counted = watched.counted();
                timeline.push((begun.elapsed().as_secs_f64() * 1e3, counted));
            };
            while !watched.over.load(Ordering::Acquire) {
                std::thread::park_timeout(SAMPLE_EVERY);
                at(begun);
            }
            timeline
        });
        Self {
            begun,
            shared,
            sampler,
        }
    }

    /// When it began.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// What the sinks have seen: all of it once the job is over and the lanes are dropped.
    pub fn result(&self) -> Expected {
        let mut result = Expected {
            outputs: 0,
            digest: 0,
        };
        for lane in self.shared.lanes.lock().map(|l| l.clone()).unwrap_or_default() {
            result.outputs += lane.outputs.load(Ordering::Relaxed);
            result.digest = result.digest.wrapping_add(lane.digest.load(Ordering::Relaxed));
        }
        result
    }

    /// Where subtasks get their lanes.
    pub fn lanes(&self) -> Lanes {
        Lanes(self.shared.clone())
    }

    /// The job is over and all lanes are dropped: prints the report.
    pub fn print(self, contestant: &str, arguments: &Arguments, completed: Vec<Completed>) {
        self.shared.over.store(true, Ordering::Release);
        self.sampler.thread().unpark();
        let result = self.result();
        let timeline = self.sampler.join().unwrap_or_default();
        let lanes = self.shared.lanes.lock().map(|l| l.clone()).unwrap_or_default();
        let mut gaps: Option<Histogram<u64>> = None;
        for lane in lanes {
            let of_lane = lane.gaps.lock().ok().and_then(|mut g| g.take());
            gaps = match (gaps, of_lane) {
                (Some(mut all), Some(more)) => all.add(more).map(|()| all).ok(),
                (all, more) => all.or(more),
            };
        }
        let report = Report {
            contestant: contestant.to_owned(),
            workload: arguments.workload,
            parallelism: arguments.parallelism,
            checkpoints: arguments.checkpoints,
            records: arguments.records,
            result,
            timeline,
            completed,
            gaps: gaps.map(|h| Gaps {
                p50: h.value_at_quantile(0.5),
                p99: h.value_at_quantile(0.99),
                p999: h.value_at_quantile(0.999),
                p9999: h.value_at_quantile(0.9999),
                max: h.max(),
            }),
            processor_seconds: processor_seconds(),
            peak_rss_kib: status("VmHWM:"),
        };
        match serde_json::to_string(&report) {
            Ok(line) => println!("{line}"),
            Err(error) => println!("the report can't be written: {error}"),
        }
    }
}

/// User and system time of this process.
pub fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    // Linux counts these in hundredths of a second for user space, whatever its own clock is.
    (ticks(11) + ticks(12)) / 100.0
}

/// A field of `/proc/self/status`, in KiB.
pub fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with(field)).unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}
