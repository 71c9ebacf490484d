//! One sample: a contestant's process from start to end.

use std::fmt;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use tidegate_bench_common::measure::Gaps;
use tidegate_bench_common::{Checkpoints, Expected, Report};

use crate::contestant::{Contestant, Ready};
use crate::error::BenchError;
use crate::machine::used_and_stolen;
use crate::plan::{Cell, Medium, Run};

/// The rate is that of the last so much of the records: before it, compilers warm up and tables grow.
const MEASURED: f64 = 0.6;

/// What one process came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Records per second over the last 60 % of the records.
    pub rate: f64,
    /// From process start to the last record, in seconds.
    pub seconds: f64,
    /// Completed checkpoints.
    pub checkpoints: usize,
    /// … per minute of the job.
    pub per_minute: f64,
    /// Median of their durations in milliseconds.
    pub duration_ms: f64,
    /// Median of their bytes.
    pub bytes: u64,
    /// Gaps between records, if measured.
    pub gaps: Option<Gaps>,
    /// Cores that the process used.
    pub cores: f64,
    /// Cores that others used or the host withheld meanwhile.
    pub others: f64,
    /// The most resident memory, in KiB.
    pub peak_rss_kib: u64,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} M/s", self.rate / 1e6)?;
        if self.checkpoints > 0 {
            let (n, ms, mb) = (self.checkpoints, self.duration_ms, self.bytes as f64 / 1e6);
            write!(f, ", {n} checkpoints of {ms:.0} ms, {mb:.1} MB")?;
        }
        if let Some(gaps) = &self.gaps {
            let (p999, max) = (gaps.p999 as f64 / 1e3, gaps.max as f64 / 1e6);
            write!(f, ", gaps p99.9 {p999:.1} µs, longest {max:.1} ms")?;
        }
        let mb = self.peak_rss_kib as f64 / 1024.0;
        write!(
            f,
            " ({:.1} cores, others {:.2}, {mb:.0} MB)",
            self.cores, self.others
        )
    }
}

/// Runs a cell once.
///
/// # Errors
/// When it fails or computes something else than `expected`.
pub fn sample(program: &Ready, run: &Run, cell: &Cell, expected: Expected) -> Result<Sample, BenchError> {
    let failed = |why: String| BenchError::Failed {
        cell: format!("{} {cell}", run.name),
        why,
    };
    let medium = match cell.medium {
        Medium::Memory => tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()),
        Medium::Disk => tempfile::tempdir_in(crate::root().join("target")).or_else(|_| tempfile::tempdir()),
    };
    let dir = medium.map_err(|e| failed(e.to_string()))?;
    let mut command = Command::new(&program.program);
    command
        .arg(run.workload.name())
        .arg(format!("records={}", cell.records))
        .arg(format!("p={}", cell.parallelism))
        .arg(format!("keys={}", run.keys))
        .arg(format!("checkpoints={}", cell.checkpoints.name()))
        .arg(format!("interval-ms={}", run.interval_ms))
        .arg(format!("gaps={}", if cell.gaps { "on" } else { "off" }))
        .arg(format!("dir={}", dir.path().display()))
        .stdin(Stdio::null());
    if cell.contestant == Contestant::Flink && run.keys > 2_000_000 {
        command.arg("heap=12g");
    }
    let before = used_and_stolen();
    let output = command.output().map_err(|e| failed(e.to_string()))?;
    let after = used_and_stolen();
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.trim().lines().last().unwrap_or_default();
    let report = serde_json::from_str::<Report>(last);
    let report = match (output.status.success(), report) {
        (true, Ok(report)) => report,
        (_, report) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            let end: Vec<&str> = errors.trim().lines().rev().take(8).collect();
            let end = end.into_iter().rev().collect::<Vec<_>>().join("\n");
            let form = report.err().map(|e| format!(" ({e})")).unwrap_or_default();
            return Err(failed(format!("{}{form}\n{end}", output.status)));
        }
    };
    if report.result != expected {
        let shown = |e: Expected| format!("{} results with digest {:016x}", e.outputs, e.digest);
        return Err(BenchError::Wrong {
            cell: format!("{} {cell}", run.name),
            found: shown(report.result),
            expected: shown(expected),
        });
    }
    let others = (after.0 - before.0 - report.processor_seconds).max(0.0) + (after.1 - before.1);
    summed_up(&report, others, cell.checkpoints).ok_or_else(|| failed("its timeline is too short".to_owned()))
}

fn summed_up(report: &Report, others: f64, how: Checkpoints) -> Option<Sample> {
    let total = report.timeline.last()?.1;
    let from = (total as f64 * (1.0 - MEASURED)) as u64;
    let begin = report.timeline.iter().find(|(_, n)| *n >= from && *n > 0)?;
    let end = report.timeline.iter().find(|(_, n)| *n == total)?;
    let (ms, counted) = (end.0 - begin.0, end.1 - begin.1);
    if ms <= 0.0 {
        return None;
    }
    // What is counted may be results, of which there are fewer than records.
    let records = counted as f64 / total as f64 * report.records as f64;
    let job_seconds = (end.0 - first_of(report)) / 1e3;
    let mut durations: Vec<f64> = report.completed.iter().map(|c| c.duration_ms).collect();
    let mut bytes: Vec<u64> = report.completed.iter().map(|c| c.bytes).collect();
    durations.sort_by(f64::total_cmp);
    bytes.sort_unstable();
    let n = report.completed.len();
    let counts = how != Checkpoints::Off;
    Some(Sample {
        rate: records / ms * 1e3,
        seconds: end.0 / 1e3,
        checkpoints: if counts { n } else { 0 },
        per_minute: n as f64 / job_seconds * 60.0,
        duration_ms: durations.get(n / 2).copied().unwrap_or(0.0),
        bytes: bytes.get(n / 2).copied().unwrap_or(0),
        gaps: report.gaps,
        cores: report.processor_seconds / (end.0 / 1e3),
        others: others / (end.0 / 1e3),
        peak_rss_kib: report.peak_rss_kib,
    })
}

/// When the first record was counted, in milliseconds.
fn first_of(report: &Report) -> f64 {
    report.timeline.iter().find(|(_, n)| *n > 0).map_or(0.0, |p| p.0)
}
