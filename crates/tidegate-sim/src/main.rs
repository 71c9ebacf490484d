//! Runs seeds; the help text says how.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to its terminal"
)]

use std::process::ExitCode;

use tidegate_sim::batch::{Course, Job, run_all};
use tidegate_sim::command::{Arguments, parse};
use tidegate_sim::run::Report;
use tidegate_sim::shrink::shrink;

/// Seeds between two lines about how far it is.
const TELL_EVERY: u64 = 1_000;

/// Failures that are told in full.
const TOLD: usize = 5;

fn tell(report: &Report, job: Job) {
    report.trace.iter().for_each(|line| println!("{line}"));
    println!("seed {}: {}", report.seed, report.scenario);
    println!("faults: {:?}", report.mix);
    println!(
        "{} turns, {} processes, trace hash {:016x}",
        report.turns, report.processes, report.hash
    );
    for violation in &report.violations {
        println!("VIOLATION: {violation}");
    }
    if !report.is_ok() {
        println!("again: {}", job.command(report.seed));
    }
}

/// Tells a failure, then the smallest that still fails.
fn tell_failure(report: &Report, job: Job, shrinks: bool) {
    tell(report, job);
    if !shrinks {
        return;
    }
    let (smaller, report) = shrink(report.seed, job);
    if smaller == job {
        println!("nothing smaller fails");
        return;
    }
    println!("smaller:");
    tell(&report, smaller);
}

fn run(arguments: &Arguments) -> bool {
    let job = arguments.job;
    let mut done = 0;
    let mut failures = Vec::new();
    let course = Course {
        seeds: arguments.seeds(),
        job,
        threads: arguments.threads,
    };
    let of = course.seeds.len();
    let totals = run_all(&course, &mut |report| {
        done += 1;
        if done % TELL_EVERY == 0 {
            eprintln!("{done} of {of}");
        }
        if !report.is_ok() {
            eprintln!("seed {} fails: {}", report.seed, report.violations[0]);
            failures.push(report);
        } else if job.options.trace {
            tell(&report, job);
        }
    });
    failures.sort_by_key(|r| r.seed);
    for report in failures.iter().take(TOLD) {
        tell_failure(report, job, arguments.shrinks);
    }
    println!(
        "{} runs, {} turns, {} processes, {} failed",
        totals.runs,
        totals.turns,
        totals.processes,
        failures.len()
    );
    if failures.len() > TOLD {
        let seeds: Vec<u64> = failures.iter().map(|r| r.seed).collect();
        println!("seeds that failed: {seeds:?}");
    }
    failures.is_empty()
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(arguments) if run(&arguments) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}
