//! The benchmark's workloads by hand-written threads, batches and hash maps: what the machine does without an engine,
//! without checkpoints, and without anything that isn't needed for this very job.
//!
//! `tidegate-bench-floor WORKLOAD key=value…`, see [`Arguments`].

mod batch;
mod gate;
mod workloads;

use std::process::ExitCode;

use tidegate_bench_common::{Arguments, Checkpoints, Measure};

const NAME: &str = concat!("floor ", env!("CARGO_PKG_VERSION"));
/// The contestant doesn't do what was asked for.
const DOES_NOT: u8 = 3;

fn main() -> ExitCode {
    let arguments = match Arguments::from_env() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if let Some((key, _)) = arguments.own.first() {
        eprintln!("`{key}` isn't a key of this program");
        return ExitCode::FAILURE;
    }
    if arguments.checkpoints != Checkpoints::Off {
        eprintln!("floor doesn't do checkpoints");
        return ExitCode::from(DOES_NOT);
    }
    let measure = Measure::begin(&arguments);
    workloads::run(&arguments, &measure.lanes());
    measure.print(NAME, &arguments, Vec::new());
    ExitCode::SUCCESS
}
