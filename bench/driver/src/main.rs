//! `cargo xtask bench`: runs contestants in turns, checks that all computed the same, compares them, and writes
//! `bench/results/*.json` and `docs/performance.md`.
//!
//! Owns: which cells there are ([`plan`]), running them ([`execute`]), what stays ([`results`]), medians, quartiles
//! and targets ([`compare`]), the page ([`page`]). Does not own: the work, which every contestant does by itself.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to its terminal"
)]

mod chart;
mod compare;
mod contestant;
mod error;
mod execute;
mod machine;
mod page;
mod plan;
mod results;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use contestant::{Contestant, Ready};
use error::BenchError;
use plan::{Cell, Run};
use results::Results;

/// Measures Tidegate beside its peers.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Options {
    /// Fewer records and at most three runs a cell: shows that everything works, not how fast it is.
    #[arg(long)]
    quick: bool,
    /// Peers to run beside Tidegate.
    #[arg(long, value_delimiter = ',', default_value = "flink,renoir,timely,floor")]
    peers: Vec<Contestant>,
    /// Only these runs; all if none is named. `--list` names them.
    #[arg(long = "run", value_name = "NAME")]
    runs: Vec<String>,
    /// Lists runs and their cells.
    #[arg(long)]
    list: bool,
    /// Measures nothing; writes the page from what is there.
    #[arg(long)]
    report: bool,
}

fn main() -> ExitCode {
    match bench(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(options: &Options) -> Result<(), BenchError> {
    let root = root();
    let runs = chosen(options)?;
    if options.list {
        for run in &runs {
            println!("{}: {}", run.name, run.title);
            run.cells.iter().for_each(|c| println!("  {c}"));
        }
        return Ok(());
    }
    if !options.report {
        measure(options, &root, &runs)?;
    }
    if options.quick {
        println!("a quick run isn't written down");
        return Ok(());
    }
    page::write(&root)
}

fn chosen(options: &Options) -> Result<Vec<Run>, BenchError> {
    let all = plan::all(options.quick);
    if let Some(unknown) = options.runs.iter().find(|n| all.iter().all(|r| r.name != **n)) {
        return Err(BenchError::NoSuchRun(unknown.clone()));
    }
    let wanted = |r: &Run| options.runs.is_empty() || options.runs.iter().any(|n| n == r.name);
    let mut runs: Vec<Run> = all.into_iter().filter(wanted).collect();
    for run in &mut runs {
        run.cells
            .retain(|c| c.contestant == Contestant::Tidegate || options.peers.contains(&c.contestant));
    }
    Ok(runs)
}

fn measure(options: &Options, root: &Path, runs: &[Run]) -> Result<(), BenchError> {
    let tidegate = Contestant::Tidegate.prepare(root)?;
    let mut ready = BTreeMap::from([(Contestant::Tidegate, tidegate.clone())]);
    let named = runs.iter().flat_map(|r| r.cells.iter().map(|c| c.contestant));
    let peers: BTreeSet<Contestant> = named.filter(|c| *c != Contestant::Tidegate).collect();
    for peer in peers {
        match peer.prepare(root) {
            Ok(program) => {
                ready.insert(peer, program);
            }
            Err(why) => println!("{peer} is left out: {why}"),
        }
    }
    for run in runs {
        println!("{}: {}", run.name, run.title);
        let mut results = Results::open(root, run, options.quick)?;
        one_run(run, &ready, &tidegate, &mut results)?;
        for outcome in compare::targets(&results) {
            println!("  {outcome}");
        }
    }
    Ok(())
}

/// Goes round over the cells until each has its samples: A B A B …
fn one_run(
    run: &Run,
    ready: &BTreeMap<Contestant, Ready>,
    tidegate: &Ready,
    results: &mut Results,
) -> Result<(), BenchError> {
    let rounds = run.cells.iter().map(|c| c.repeats).max().unwrap_or(0);
    for round in 0..rounds {
        let due = |c: &&Cell| c.repeats > round && results.samples(c).len() <= round;
        let cells: Vec<&Cell> = run.cells.iter().filter(due).collect();
        for cell in cells {
            let Some(program) = ready.get(&cell.contestant) else {
                continue;
            };
            let expected = results.expected(run, cell, tidegate)?;
            let sample = execute::sample(program, run, cell, expected)?;
            println!("  {}/{} {cell}: {sample}", round + 1, cell.repeats);
            results.add(cell, sample)?;
        }
    }
    Ok(())
}

/// The repository.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}
