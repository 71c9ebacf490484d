//! Project automation, run as `cargo xtask COMMAND`.
//!
//! Owns the dispatch of commands; each command is a module. Everything here runs in seconds and changes nothing
//! unless its help says so.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to its terminal"
)]

mod error;
mod licences;
mod mask;
mod metadata;
mod run;
mod tidy;
mod tree;

use std::process::ExitCode;

use error::Error;

const HELP: &str = "\
cargo xtask COMMAND

  tidy [--bless]   style as a test: crate graph, purity, sizes, bans, dead files and links
                   --bless rewrites the crate table of ARCHITECTURE.md and lowers xtask/ratchet.toml
  licences         licences of all dependencies, and crates that are there in two versions
  docs             writes docs/configuration.md from the option declarations
  ci               everything that scripts/test does
  bench [OPTION]   Tidegate beside its peers; --help for more (cargo run -p tidegate-bench-driver --release)
  sim SEED...      runs the simulator with these arguments (cargo run -p tidegate-sim --release)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match command(&arguments) {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one command and gives what it has to say.
fn command(arguments: &[&str]) -> Result<String, Error> {
    match arguments {
        ["tidy"] => tidy::check(),
        ["tidy", "--bless"] => tidy::bless(),
        ["licences"] => licences::check(),
        ["docs"] => run::docs(),
        ["ci"] => run::ci(),
        ["bench", rest @ ..] => run::bench(rest),
        ["sim", rest @ ..] => run::sim(rest),
        [] | ["help" | "--help" | "-h"] => Ok(HELP.to_owned()),
        unknown => Err(Error::Usage(unknown.join(" "))),
    }
}
