//! Tidegate as a contestant of its own benchmark: `tidegate-bench WORKLOAD key=value…`, see
//! [`Arguments`]. Keys of its own begin with `conf.` and name an option:
//! `conf.task.gate.budget=10ms`.
//!
//! `tidegate-bench expected WORKLOAD records=N keys=K` prints what a right run computes.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints what it found"
)]

mod jobs;
mod sink;

use std::process::ExitCode;

use tidegate::prelude::*;
use tidegate_bench_common::measure::Completed;
use tidegate_bench_common::{Arguments, Checkpoints, Measure, expected};

const NAME: &str = concat!("tidegate ", env!("CARGO_PKG_VERSION"));

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), BoxError> {
    let mut words = std::env::args().skip(1).peekable();
    if words.next_if(|w| w == "expected").is_some() {
        let arguments = Arguments::parse(words)?;
        println!("{}", serde_json::to_string(&expected(&arguments))?);
        return Ok(());
    }
    let arguments = Arguments::parse(words)?;
    let measure = Measure::begin(&arguments);
    let completed = run_job(&arguments, &measure)?;
    measure.print(NAME, &arguments, completed);
    Ok(())
}

/// Runs the job to its end. What its sinks saw is in `measure`.
fn run_job(arguments: &Arguments, measure: &Measure) -> Result<Vec<Completed>, BoxError> {
    let env = Environment::with_configuration("bench", configuration(arguments)?);
    jobs::build(&env, arguments, &measure.lanes());
    let job = env.build()?.start(StartOptions::default())?;
    job.wait_blocking()?;
    Ok(completed(&job))
}

fn configuration(arguments: &Arguments) -> Result<Configuration, BoxError> {
    let mut configuration = Configuration::new();
    configuration.set_text("parallelism.default", &arguments.parallelism.to_string());
    let mode = match arguments.checkpoints {
        Checkpoints::Off => None,
        Checkpoints::Aligned => Some("aligned"),
        Checkpoints::Unaligned => Some("unaligned"),
    };
    if let Some(mode) = mode {
        let interval = format!("{} ms", arguments.interval.as_millis());
        configuration
            .set_text("execution.checkpointing.mode", mode)
            .set_text("execution.checkpointing.interval", &interval)
            .set_text("web.checkpoints.history", "10000")
            .set_text(
                "execution.checkpointing.dir",
                &arguments.dir.display().to_string(),
            );
    }
    for (key, value) in &arguments.own {
        let Some(option) = key.strip_prefix("conf.") else {
            return Err(format!("`{key}` isn't a key of this program").into());
        };
        configuration.set_text(option, value);
    }
    Ok(configuration)
}

fn completed(job: &JobHandle) -> Vec<Completed> {
    let status = job.status();
    let mut completed: Vec<Completed> = status
        .history
        .recent()
        .filter(|c| c.status.name() == "COMPLETED")
        .map(|c| Completed {
            duration_ms: c.end_to_end().as_secs_f64() * 1e3,
            bytes: c.checkpointed_bytes(),
        })
        .collect();
    completed.reverse();
    completed
}

#[cfg(test)]
mod tests {
    use tidegate_bench_common::Workload;

    use super::*;

    /// Two seconds of event time and more for `buckets`, some thousand keys for the others.
    #[test]
    fn every_workload_computes_what_the_plain_program_does() {
        let dir = tempfile::tempdir().expect("a directory");
        for workload in Workload::ALL {
            let records = if workload == Workload::Buckets {
                2_300_000
            } else {
                40_000
            };
            for (parallelism, checkpoints) in [(1, "off"), (3, "aligned"), (2, "unaligned")] {
                let line = format!(
                    "{} records={records} keys=5000 p={parallelism} checkpoints={checkpoints} interval-ms=10 dir={}",
                    workload.name(),
                    dir.path()
                        .join(format!("{}-{parallelism}", workload.name()))
                        .display()
                );
                let arguments = Arguments::parse(line.split(' ').map(str::to_owned)).expect("it is right");
                let measure = Measure::begin(&arguments);
                let completed = run_job(&arguments, &measure).expect("it runs");
                assert_eq!(measure.result(), expected(&arguments), "{line}");
                assert!(checkpoints == "off" || !completed.is_empty(), "{line}");
            }
        }
    }
}
