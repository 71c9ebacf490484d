//! Runs seeds: `tidegate-sim [--words] [--trace] [--no-faults] [--count N] SEED...`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to its terminal"
)]

use std::process::ExitCode;

use tidegate_sim::run::{Options, Report, run};
use tidegate_sim::scenario::{Scenario, Tools};
use tidegate_sim::seed::Rng;
use tidegate_sim::words::WordCount;

const HELP: &str = "\
tidegate-sim [OPTION...] SEED...

  --words        the word count instead of a random job
  --count N      N seeds, from each SEED on
  --trace        prints the whole trace
  --no-faults    nothing goes wrong
";

#[derive(Debug, Default)]
struct Arguments {
    words: bool,
    trace: bool,
    no_faults: bool,
    count: Option<u64>,
    seeds: Vec<u64>,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut parsed = Arguments::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--words" => parsed.words = true,
            "--trace" => parsed.trace = true,
            "--no-faults" => parsed.no_faults = true,
            "--count" => {
                let count = arguments.next().and_then(|n| n.parse().ok());
                parsed.count = Some(count.ok_or("--count needs a number")?);
            }
            "--help" | "-h" => return Err(HELP.to_owned()),
            seed => parsed
                .seeds
                .push(seed.parse().map_err(|_| format!("`{seed}` is no seed\n{HELP}"))?),
        }
    }
    if parsed.seeds.is_empty() {
        Err(HELP.to_owned())
    } else {
        Ok(parsed)
    }
}

fn draw(words: bool, rng: &mut Rng, tools: Tools) -> Box<dyn Scenario> {
    let _ = words;
    Box::new(WordCount::draw(rng, tools))
}

fn tell(report: &Report, arguments: &Arguments) {
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
        let words = if arguments.words { "--words " } else { "" };
        let faults = if arguments.no_faults { "--no-faults " } else { "" };
        println!("again: cargo xtask sim {words}{faults}--trace {}", report.seed);
    }
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::FAILURE;
        }
    };
    let options = Options {
        trace: arguments.trace,
        faults: !arguments.no_faults,
    };
    let (mut runs, mut turns, mut failed) = (0u64, 0u64, 0u64);
    for first in &arguments.seeds {
        for seed in (0..arguments.count.unwrap_or(1)).map(|n| first.wrapping_add(n)) {
            let report = run(seed, &|rng, tools| draw(arguments.words, rng, tools), options);
            runs += 1;
            turns += report.turns;
            if arguments.trace || !report.is_ok() {
                tell(&report, &arguments);
            }
            failed += u64::from(!report.is_ok());
        }
    }
    println!("{runs} runs, {turns} turns, {failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
