//! The machine and what else uses its processors.

use serde::{Deserialize, Serialize};

/// What figures are good for only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Processors that the system sees.
    pub processors: usize,
    /// GiB of memory.
    pub memory_gib: u64,
    /// The system's release.
    pub kernel: String,
}

impl Machine {
    /// This one.
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|l| l.starts_with(name)).unwrap_or_default();
            let value = line.split_once(':').map_or("", |(_, v)| v);
            value.trim().to_owned()
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let kib: u64 = memory
            .split_whitespace()
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(0);
        Self {
            processor: field(&cpuinfo, "model name"),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: (kib + (1 << 19)) >> 20,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

/// Processor time of the whole machine so far, in seconds: used, and taken by others outside of it.
pub fn used_and_stolen() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = first
        .split_whitespace()
        .skip(1)
        .map(|f| f.parse().unwrap_or(0.0))
        .collect();
    let at = |i: usize| ticks.get(i).copied().unwrap_or(0.0) / 100.0;
    // user, nice, system, irq, softirq; idle and waiting for disks aren't use.
    (at(0) + at(1) + at(2) + at(5) + at(6), at(7))
}
