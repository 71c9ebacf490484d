//! What stays of a run: `bench/results/NAME.json`. A run that was interrupted goes on; one of another commit or
//! machine begins anew, since only what was measured in turns can be compared.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use tidegate_bench_common::{Expected, Workload};

use crate::contestant::Ready;
use crate::error::BenchError;
use crate::execute::Sample;
use crate::machine::Machine;
use crate::plan::{Cell, Run};

/// Everything measured in one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// Its name.
    pub run: String,
    /// For people.
    pub title: String,
    /// The work.
    pub workload: Workload,
    /// Of ours; `+` behind it: with changes that aren't committed.
    pub commit: String,
    /// Where.
    pub machine: Machine,
    /// Right results by number of records.
    pub expected: Vec<(u64, Expected)>,
    /// What was measured.
    pub cells: Vec<MeasuredCell>,
}

/// A cell with its samples, in the order they were taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MeasuredCell {
    /// Which.
    #[serde(flatten)]
    pub cell: Cell,
    /// Its samples.
    pub samples: Vec<Sample>,
}

/// A run's results and their file.
pub struct Results {
    path: Option<PathBuf>,
    measured: Measured,
}

impl Results {
    /// What there is of `run`; nothing, if it is of another commit or machine, or `quick`.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn open(root: &Path, run: &Run, quick: bool) -> Result<Self, BenchError> {
        let (commit, machine) = (commit(root), Machine::here());
        let path = root.join("bench/results").join(format!("{}.json", run.name));
        let path = (!quick).then_some(path);
        let found = match &path {
            Some(path) if path.exists() => Some(read(path)?),
            _ => None,
        };
        let measured = found.filter(|m| m.commit == commit && m.machine == machine);
        let measured = measured.unwrap_or_else(|| Measured {
            run: run.name.to_owned(),
            title: run.title.to_owned(),
            workload: run.workload,
            commit,
            machine,
            expected: Vec::new(),
            cells: Vec::new(),
        });
        Ok(Self { path, measured })
    }

    /// All of it.
    pub fn measured(&self) -> &Measured {
        &self.measured
    }

    /// What was measured of a cell.
    pub fn samples(&self, cell: &Cell) -> &[Sample] {
        let found = self.measured.cells.iter().find(|c| c.cell.is(cell));
        found.map_or(&[], |c| &c.samples)
    }

    /// Adds a sample and writes the file.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn add(&mut self, cell: &Cell, sample: Sample) -> Result<(), BenchError> {
        match self.measured.cells.iter_mut().find(|c| c.cell.is(cell)) {
            Some(known) => known.samples.push(sample),
            None => self.measured.cells.push(MeasuredCell {
                cell: cell.clone(),
                samples: vec![sample],
            }),
        }
        self.write()
    }

    /// What a right contestant computes; by the plain program, once for a number of records.
    ///
    /// # Errors
    /// When that program fails.
    pub fn expected(&mut self, run: &Run, cell: &Cell, tidegate: &Ready) -> Result<Expected, BenchError> {
        if let Some((_, known)) = self.measured.expected.iter().find(|(n, _)| *n == cell.records) {
            return Ok(*known);
        }
        let failed = |why: String| BenchError::Failed {
            cell: format!("the plain program for {}", run.name),
            why,
        };
        let output = Command::new(&tidegate.program)
            .args(["expected", run.workload.name()])
            .arg(format!("records={}", cell.records))
            .arg(format!("keys={}", run.keys))
            .output()
            .map_err(|e| failed(e.to_string()))?;
        let expected = serde_json::from_slice(&output.stdout).map_err(|e| failed(e.to_string()))?;
        self.measured.expected.push((cell.records, expected));
        self.write()?;
        Ok(expected)
    }

    fn write(&self) -> Result<(), BenchError> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let file = |source| BenchError::File {
            path: path.clone(),
            source,
        };
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).map_err(file)?;
        }
        let text = serde_json::to_string_pretty(&self.measured).unwrap_or_default() + "\n";
        let new = path.with_extension("json.new");
        std::fs::write(&new, text).map_err(file)?;
        std::fs::rename(&new, path).map_err(file)
    }
}

/// Reads one results file.
///
/// # Errors
/// When it can't be.
pub fn read(path: &Path) -> Result<Measured, BenchError> {
    let text = std::fs::read_to_string(path).map_err(|source| BenchError::File {
        path: path.to_owned(),
        source,
    })?;
    serde_json::from_str(&text).map_err(|source| BenchError::Results {
        path: path.to_owned(),
        source,
    })
}

/// The commit of what is measured: results and pages about them aren't part of it.
fn commit(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .current_dir(root)
            .args(arguments)
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    let code = [
        "crates",
        "bench/jobs",
        "bench/common",
        "bench/peers",
        "Cargo.lock",
    ];
    let Some(commit) = git(&[&["log", "-1", "--format=%h", "--"], &code[..]].concat()) else {
        return "unknown".to_owned();
    };
    let changed = git(&[&["status", "--porcelain", "--"], &code[..]].concat());
    match changed.as_deref() {
        Some("") => commit,
        _ => commit + "+",
    }
}
