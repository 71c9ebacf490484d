//! Which runs there are, and their cells.
//!
//! A run is one workload with its contestants in turns. Cells that a target names have seven samples, others three. A
//! cell's records are chosen for some ten seconds of work (Flink: twenty, since its compiler needs the first eight).

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_bench_common::{Checkpoints, Workload};

use crate::contestant::Contestant::{self, Flink, Floor, Renoir, Tidegate, Timely};

/// One workload with its contestants.
#[derive(Debug, Clone)]
pub struct Run {
    /// For `--run` and the file of its results.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// The work.
    pub workload: Workload,
    /// Different keys.
    pub keys: u64,
    /// Between two checkpoints, in milliseconds.
    pub interval_ms: u64,
    /// What is run, in turns.
    pub cells: Vec<Cell>,
}

/// Where checkpoints go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    /// Memory that looks like a disk: what the engine costs.
    Memory,
    /// The machine's disk.
    Disk,
}

/// One contestant under one setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// Who.
    pub contestant: Contestant,
    /// Subtasks or workers.
    pub parallelism: usize,
    /// Checkpoints.
    pub checkpoints: Checkpoints,
    /// Where they go.
    pub medium: Medium,
    /// Whether gaps between records are measured, which costs.
    pub gaps: bool,
    /// Records in all.
    pub records: u64,
    /// Samples wanted.
    #[serde(skip)]
    pub repeats: usize,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gaps = if self.gaps { " gaps" } else { "" };
        let disk = if self.medium == Medium::Disk { " disk" } else { "" };
        let (who, p, how) = (self.contestant, self.parallelism, self.checkpoints.name());
        write!(f, "{who:8} p={p} {how}{disk}{gaps}")
    }
}

impl Cell {
    /// Whether two cells are the same but for the number of samples.
    pub fn is(&self, other: &Self) -> bool {
        let key = |c: &Self| {
            let how = (c.checkpoints, c.medium, c.gaps);
            (c.contestant, c.parallelism, how, c.records)
        };
        key(self) == key(other)
    }
}

const M: u64 = 1_000_000;
const NAMED: usize = 7;
const OTHERS: usize = 3;

/// Makes cells.
struct Cells {
    cells: Vec<Cell>,
}

impl Cells {
    fn new() -> Self {
        Self { cells: Vec::new() }
    }

    fn add(
        mut self,
        contestant: Contestant,
        parallelism: usize,
        how: &[Checkpoints],
        records: u64,
        repeats: usize,
    ) -> Self {
        self.cells.extend(how.iter().map(|checkpoints| Cell {
            contestant,
            parallelism,
            checkpoints: *checkpoints,
            medium: Medium::Memory,
            gaps: false,
            records,
            repeats,
        }));
        self
    }

    /// The last cells again, with checkpoints on the disk.
    fn on_disk(mut self, contestant: Contestant, parallelism: usize, how: Checkpoints) -> Self {
        let same =
            |c: &&Cell| c.contestant == contestant && c.parallelism == parallelism && c.checkpoints == how;
        if let Some(cell) = self.cells.iter().find(same).cloned() {
            self.cells.push(Cell {
                medium: Medium::Disk,
                repeats: OTHERS,
                ..cell
            });
        }
        self
    }

    /// Tidegate with gaps measured, with and without checkpoints.
    fn gaps(mut self, parallelism: usize, records: u64) -> Self {
        let from = self.cells.len();
        self = self.add(Tidegate, parallelism, &[OFF, ALIGNED, UNALIGNED], records, NAMED);
        self.cells[from..].iter_mut().for_each(|c| c.gaps = true);
        self
    }
}

const OFF: Checkpoints = Checkpoints::Off;
const ALIGNED: Checkpoints = Checkpoints::Aligned;
const UNALIGNED: Checkpoints = Checkpoints::Unaligned;
const ALL: &[Checkpoints] = &[OFF, ALIGNED, UNALIGNED];
const REST: &[Checkpoints] = &[UNALIGNED];

/// Every run.
pub fn all(quick: bool) -> Vec<Run> {
    let mut runs = vec![
        keyed_count_1m(),
        keyed_count_10m(),
        chain(),
        words(),
        kilobyte(),
        buckets(),
        string_keys(),
        wide(),
    ];
    if quick {
        for cell in runs.iter_mut().flat_map(|r| &mut r.cells) {
            cell.records /= if cell.contestant == Flink { 4 } else { 8 };
            cell.repeats = cell.repeats.min(OTHERS);
        }
    }
    runs
}

fn run(name: &'static str, title: &'static str, workload: Workload, keys: u64, cells: Cells) -> Run {
    Run {
        name,
        title,
        workload,
        keys,
        interval_ms: 1000,
        cells: cells.cells,
    }
}

fn keyed_count_1m() -> Run {
    let cells = Cells::new()
        .add(Tidegate, 2, &[OFF, ALIGNED], 200 * M, NAMED)
        .add(Flink, 2, &[ALIGNED], 30 * M, NAMED)
        .add(Renoir, 2, &[OFF], 100 * M, NAMED)
        .add(Timely, 2, &[OFF], 200 * M, NAMED)
        .add(Floor, 2, &[OFF], 200 * M, NAMED)
        .add(Tidegate, 2, REST, 200 * M, OTHERS)
        .add(Flink, 2, &[OFF, UNALIGNED], 30 * M, OTHERS)
        .add(Tidegate, 1, ALL, 120 * M, OTHERS)
        .add(Flink, 1, ALL, 20 * M, OTHERS)
        .add(Renoir, 1, &[OFF], 80 * M, OTHERS)
        .add(Timely, 1, &[OFF], 120 * M, OTHERS)
        .add(Floor, 1, &[OFF], 120 * M, OTHERS)
        .on_disk(Tidegate, 2, ALIGNED)
        .on_disk(Flink, 2, ALIGNED)
        .gaps(2, 60 * M);
    run(
        "keyed-count-1m",
        "running count per key across a shuffle, 1 M keys",
        Workload::KeyedCount,
        M,
        cells,
    )
}

fn keyed_count_10m() -> Run {
    let cells = Cells::new()
        .add(Tidegate, 2, &[OFF, ALIGNED], 300 * M, NAMED)
        .add(Flink, 2, &[ALIGNED], 30 * M, NAMED)
        .add(Renoir, 2, &[OFF], 100 * M, NAMED)
        .add(Timely, 2, &[OFF], 150 * M, NAMED)
        .add(Floor, 2, &[OFF], 150 * M, OTHERS)
        .add(Tidegate, 2, REST, 300 * M, OTHERS)
        .on_disk(Tidegate, 2, ALIGNED);
    Run {
        interval_ms: 10_000,
        ..run(
            "keyed-count-10m",
            "running count per key across a shuffle, 10 M keys, a checkpoint every 10 s",
            Workload::KeyedCount,
            10 * M,
            cells,
        )
    }
}

fn chain() -> Run {
    let cells = Cells::new()
        .add(Tidegate, 2, &[OFF, ALIGNED], 6_000 * M, NAMED)
        .add(Flink, 2, &[ALIGNED], 900 * M, NAMED)
        .add(Renoir, 2, &[OFF], 10_000 * M, NAMED)
        .add(Floor, 2, &[OFF], 10_000 * M, OTHERS)
        .add(Timely, 2, &[OFF], 1_000 * M, OTHERS)
        .add(Tidegate, 2, REST, 6_000 * M, OTHERS)
        .add(Tidegate, 1, ALL, 3_000 * M, OTHERS)
        .add(Flink, 1, &[ALIGNED], 500 * M, OTHERS)
        .add(Renoir, 1, &[OFF], 5_000 * M, OTHERS);
    run(
        "chain",
        "map, filter, map over 64-bit numbers, no shuffle",
        Workload::Chain,
        1,
        cells,
    )
}

fn words() -> Run {
    let cells = Cells::new()
        .add(Tidegate, 2, &[OFF, ALIGNED], 200 * M, NAMED)
        .add(Flink, 2, &[ALIGNED], 80 * M, NAMED)
        .add(Renoir, 2, &[OFF], 100 * M, NAMED)
        .add(Timely, 2, &[OFF], 100 * M, OTHERS)
        .add(Floor, 2, &[OFF], 100 * M, OTHERS)
        .add(Tidegate, 2, REST, 200 * M, OTHERS)
        .add(Tidegate, 1, ALL, 100 * M, OTHERS)
        .add(Flink, 1, &[ALIGNED], 40 * M, OTHERS);
    run(
        "words",
        "running word count over lines of eight Zipf words out of 10,000",
        Workload::Words,
        1,
        cells,
    )
}

fn kilobyte() -> Run {
    let cells = Cells::new()
        .add(Tidegate, 2, &[OFF, ALIGNED], 40 * M, NAMED)
        .add(Flink, 2, &[ALIGNED], 12 * M, NAMED)
        .add(Renoir, 2, &[OFF], 15 * M, OTHERS)
        .add(Floor, 2, &[OFF], 40 * M, OTHERS)
        .add(Tidegate, 2, REST, 40 * M, OTHERS)
        .add(Tidegate, 1, ALL, 30 * M, OTHERS)
        .add(Flink, 1, &[ALIGNED], 8 * M, OTHERS);
    run(
        "kilobyte",
        "records of 1 KiB through two shuffles",
        Workload::Kilobyte,
        1,
        cells,
    )
}

fn buckets() -> Run {
    let cells = Cells::new()
        .add(Tidegate, 2, &[OFF, ALIGNED], 200 * M, NAMED)
        .add(Flink, 2, &[ALIGNED], 50 * M, NAMED)
        .add(Floor, 2, &[OFF], 200 * M, OTHERS)
        .add(Tidegate, 2, REST, 200 * M, OTHERS)
        .add(Tidegate, 1, ALL, 100 * M, OTHERS)
        .add(Flink, 1, &[ALIGNED], 30 * M, OTHERS);
    run(
        "buckets",
        "sum per key and second of event time, 10,000 keys (Flink: a tumbling window)",
        Workload::Buckets,
        1,
        cells,
    )
}

fn string_keys() -> Run {
    let cells = Cells::new()
        .add(Tidegate, 2, &[OFF, ALIGNED], 60 * M, OTHERS)
        .add(Flink, 2, &[ALIGNED], 20 * M, OTHERS)
        .add(Renoir, 2, &[OFF], 40 * M, OTHERS)
        .add(Timely, 2, &[OFF], 40 * M, OTHERS)
        .add(Floor, 2, &[OFF], 60 * M, OTHERS);
    run(
        "string-keys",
        "running count per text key, 1 M keys",
        Workload::StringKeys,
        M,
        cells,
    )
}

fn wide() -> Run {
    let cells = Cells::new()
        .add(Tidegate, 16, &[OFF, ALIGNED, UNALIGNED], 100 * M, OTHERS)
        .add(Flink, 16, &[ALIGNED], 20 * M, OTHERS)
        .add(Renoir, 16, &[OFF], 50 * M, OTHERS)
        .add(Floor, 16, &[OFF], 100 * M, OTHERS);
    run(
        "wide",
        "running count per key, 16 × 16 channels, 1 M keys",
        Workload::KeyedCount,
        M,
        cells,
    )
}
