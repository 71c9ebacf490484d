//! Jobs that show what the engine does, each with its own check that it did.
//!
//! [`backpressure`] and [`interval`] run the same keyed count ([`keyed`]) over numbered records ([`lanes`]), so
//! what must come out can be computed from how far the generators got. [`wordcount`] is the job to kill from outside.

mod backpressure;
mod durable;
mod interval;
mod keyed;
mod lanes;
mod limited;
mod wordcount;

use std::path::Path;

use tempfile::TempDir;

use crate::args::{DemoCommand, Global};
use crate::console::Console;
use crate::error::CliError;

/// Carries the command out.
pub(crate) fn run(console: &Console, global: &Global, command: &DemoCommand) -> Result<(), CliError> {
    match command {
        DemoCommand::Backpressure(args) => backpressure::run(console, global, args),
        DemoCommand::Interval(args) => interval::run(console, global, args),
        DemoCommand::Wordcount(args) => wordcount::run(console, global, args),
    }
}

/// A directory of a demo's own, which goes when it is dropped.
fn own_directory(below: Option<&Path>) -> Result<TempDir, CliError> {
    let mut names = tempfile::Builder::new();
    let names = names.prefix("tidegate-demo-");
    let made = match below {
        None => names.tempdir(),
        Some(dir) => std::fs::create_dir_all(dir).and_then(|()| names.tempdir_in(dir)),
    };
    made.map_err(|error| {
        let dir = below.map_or_else(std::env::temp_dir, Path::to_owned);
        CliError::Failed(format!(
            "no directory for checkpoints can be made in `{}`: {error}",
            dir.display()
        ))
    })
}

/// A path as the engine's options want it.
fn as_option(path: &Path) -> Result<String, CliError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        CliError::Usage(format!(
            "`{}` isn't valid Unicode; use another path",
            path.display()
        ))
    })
}
