//! `docs/performance.md`: what stands between its two marks is written from the results.

use std::fmt::Write;
use std::path::Path;

use crate::chart::{self, Bar};
use tidegate_bench_common::measure::Gaps;

use crate::compare::{self, Quartiles};
use crate::contestant::Contestant;
use crate::error::BenchError;
use crate::execute::Sample;
use crate::plan::{self, Medium};
use crate::results::{self, Measured, MeasuredCell};

const BEGIN: &str = "<!-- results:begin -->";
const END: &str = "<!-- results:end -->";

/// Writes the page and its charts from all results that there are.
///
/// # Errors
/// When a file can't be read or written.
pub fn write(root: &Path) -> Result<(), BenchError> {
    let mut text = String::from(BEGIN);
    text.push('\n');
    for run in plan::all(false) {
        let path = root.join("bench/results").join(format!("{}.json", run.name));
        if path.exists() {
            let measured = results::read(&path)?;
            let chart = format!("performance/{}.svg", run.name);
            put(&root.join("docs").join(&chart), &chart_of(&measured))?;
            section(&mut text, &measured, &chart);
        }
    }
    text.push_str(END);
    let page = root.join("docs/performance.md");
    let old = std::fs::read_to_string(&page).map_err(|source| BenchError::File {
        path: page.clone(),
        source,
    })?;
    let new = match (old.find(BEGIN), old.find(END)) {
        (Some(from), Some(to)) if from < to => [&old[..from], &text, &old[to + END.len()..]].concat(),
        _ => format!("{old}\n{text}\n"),
    };
    put(&page, &new)
}

fn put(path: &Path, text: &str) -> Result<(), BenchError> {
    let file = |source| BenchError::File {
        path: path.to_owned(),
        source,
    };
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(file)?;
    }
    std::fs::write(path, text).map_err(file)
}

fn label(measured: &MeasuredCell) -> String {
    let cell = &measured.cell;
    let disk = if cell.medium == Medium::Disk { ", disk" } else { "" };
    let gaps = if cell.gaps { ", gaps measured" } else { "" };
    let (who, p, how) = (cell.contestant, cell.parallelism, cell.checkpoints.name());
    format!("{who}, p={p}, {how}{disk}{gaps}")
}

fn rates(cell: &MeasuredCell) -> Option<Quartiles> {
    Quartiles::of(cell.samples.iter().map(|s| s.rate))
}

/// By parallelism, contestant and mode.
fn in_order(measured: &Measured) -> Vec<&MeasuredCell> {
    let mut cells: Vec<&MeasuredCell> = measured.cells.iter().collect();
    cells.sort_by_key(|c| {
        let c = &c.cell;
        (c.parallelism, c.contestant, c.gaps, c.checkpoints, c.medium)
    });
    cells
}

fn chart_of(measured: &Measured) -> String {
    let plain = in_order(measured).into_iter().filter(|c| !c.cell.gaps);
    let bars: Vec<Bar> = plain
        .filter_map(|cell| {
            Some(Bar {
                label: label(cell),
                rate: rates(cell)?,
                ours: cell.cell.contestant == Contestant::Tidegate,
            })
        })
        .collect();
    chart::bars(&measured.title, &bars)
}

fn section(text: &mut String, measured: &Measured, chart: &str) {
    let Measured {
        run,
        title,
        commit,
        machine,
        ..
    } = measured;
    // Writing into a string can't fail.
    let _ = writeln!(
        text,
        "\n### {run}\n\n{title}. Commit {commit}; {}, {} cores, {} GiB.\n",
        machine.processor, machine.processors, machine.memory_gib
    );
    let _ = writeln!(text, "![{title}]({chart})\n");
    let _ = writeln!(
        text,
        "| contestant | M records/s, median (quartiles) | runs | checkpoints/min | duration | bytes | gaps p99.9 / \
         longest | peak RSS | others' cores |\n|---|---|---|---|---|---|---|---|---|"
    );
    for row in in_order(measured).into_iter().filter_map(row) {
        let _ = writeln!(text, "{row}");
    }
    let outcomes = compare::outcomes(measured);
    if !outcomes.is_empty() {
        let _ = writeln!(
            text,
            "\n| target | at least | ratio of medians (by quartiles) | |\n|---|---|---|---|"
        );
    }
    for outcome in outcomes {
        let (low, high) = outcome.between;
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} ({low:.2} to {high:.2}) | {} |",
            outcome.what(),
            outcome.least(),
            outcome.ratio,
            outcome.verdict()
        );
    }
}

/// A cell's line of the table.
fn row(cell: &MeasuredCell) -> Option<String> {
    let median =
        |of: &dyn Fn(&Sample) -> f64| Quartiles::of(cell.samples.iter().map(of)).map_or(0.0, |q| q.median);
    let rate = rates(cell)?;
    let checkpoints = match median(&|s| s.checkpoints as f64) {
        0.0 => "| | |".to_owned(),
        _ => format!(
            "{:.0} | {:.0} ms | {:.1} MB |",
            median(&|s| s.per_minute),
            median(&|s| s.duration_ms),
            median(&|s| s.bytes as f64) / 1e6
        ),
    };
    let gap = |of: fn(&Gaps) -> u64| median(&|s| s.gaps.as_ref().map_or(0, of) as f64);
    let gaps = if cell.cell.gaps {
        format!("{:.1} µs / {:.1} ms", gap(|g| g.p999) / 1e3, gap(|g| g.max) / 1e6)
    } else {
        String::new()
    };
    Some(format!(
        "| {} | {:.2} ({:.2} to {:.2}) | {} | {checkpoints} {gaps} | {:.0} MB | ≤ {:.2} |",
        label(cell),
        rate.median / 1e6,
        rate.low / 1e6,
        rate.high / 1e6,
        cell.samples.len(),
        median(&|s| s.peak_rss_kib as f64) / 1024.0,
        cell.samples.iter().map(|s| s.others).fold(0.0, f64::max)
    ))
}
