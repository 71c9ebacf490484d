//! What a contestant without checkpoints and without keys of its own is from outside.

use std::error::Error;
use std::process::ExitCode;

use crate::measure::Lanes;
use crate::{Arguments, Checkpoints, Measure};

/// The exit code of a contestant that doesn't do what was asked for.
const DOES_NOT: u8 = 3;

/// Runs `job` as this process's command line says and prints its report. `name` is the contestant's with its version;
/// `job` says whether it does that workload at all, and returns when it is done.
#[expect(clippy::print_stderr, reason = "a command tells its errors")]
pub fn peer(name: &str, job: impl FnOnce(&Arguments, &Lanes) -> Result<bool, Box<dyn Error>>) -> ExitCode {
    let who = name.split(' ').next().unwrap_or(name);
    match run(name, job) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(what)) => {
            eprintln!("{who} doesn't do {what}");
            ExitCode::from(DOES_NOT)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What it doesn't do, if that was asked for.
fn run(
    name: &str,
    job: impl FnOnce(&Arguments, &Lanes) -> Result<bool, Box<dyn Error>>,
) -> Result<Option<&'static str>, Box<dyn Error>> {
    let arguments = Arguments::from_env()?;
    if let Some((key, _)) = arguments.own.first() {
        return Err(format!("`{key}` isn't a key of this program").into());
    }
    if arguments.checkpoints != Checkpoints::Off {
        return Ok(Some("checkpoints"));
    }
    let measure = Measure::begin(&arguments);
    if !job(&arguments, &measure.lanes())? {
        return Ok(Some(arguments.workload.name()));
    }
    measure.print(name, &arguments, Vec::new());
    Ok(None)
}
