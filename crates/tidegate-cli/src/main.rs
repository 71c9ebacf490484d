//! The `tidegate` command.
//!
//! Follow a command through it: [`args`] reads the command line, [`settings`] gathers the configuration, a
//! [`session`] has engine and REST interface, the [`demo`]s build jobs and watch them; [`checkpoint`], [`admin`]
//! and [`config`] need no job. Results go to standard output, remarks and errors to standard error ([`console`]).
//! Exit codes: 0 done, 1 failed, 2 the command line or configuration is wrong ([`error`]).

mod admin;
mod args;
mod checkpoint;
mod config;
mod console;
mod demo;
mod error;
mod http;
mod panics;
mod render;
mod session;
mod settings;
mod signals;
mod walk;

use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

use crate::args::{Cli, Command};
use crate::console::Console;
use crate::error::CliError;

/// What is logged, in the notation of `tracing_subscriber`'s `EnvFilter`.
const LOG_VARIABLE: &str = "TIDEGATE_LOG";

/// Without it: warnings. How an attempt failed the command says itself.
const LOG_DEFAULT: &str = "warn,tidegate_runtime::attempts=off";

fn main() -> ExitCode {
    panics::install();
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() {
                ExitCode::from(2)
            } else {
                ExitCode::SUCCESS
            };
            // A reader that went away is no reason to say more.
            let _printed = error.print();
            return code;
        }
    };
    let console = Console::new();
    match run(&console, &cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            console.clear();
            if !matches!(error, CliError::Closed) {
                console.note(format_args!("error: {error}"));
            }
            error.exit_code()
        }
    }
}

fn run(console: &Console, cli: &Cli) -> Result<(), CliError> {
    log_to_stderr()?;
    match &cli.command {
        Command::Config(args) => config::run(console, &settings::configuration(&cli.global)?, args),
        Command::Demo(command) => demo::run(console, &cli.global, command),
        Command::Checkpoint(command) => checkpoint::run(console, command),
        Command::Savepoint(args) => admin::savepoint(console, &cli.global, args),
        Command::Stop(args) => admin::stop(console, &cli.global, args),
        Command::Cancel(args) => admin::cancel(console, &cli.global, args),
    }
}

fn log_to_stderr() -> Result<(), CliError> {
    let wanted = std::env::var_os(LOG_VARIABLE).filter(|filter| !filter.is_empty());
    let filter = match wanted {
        None => EnvFilter::builder().parse(LOG_DEFAULT),
        Some(text) => match text.to_str() {
            Some(text) => EnvFilter::builder().parse(text),
            None => {
                let text = text.to_string_lossy();
                return Err(CliError::Usage(format!(
                    "the value `{text}` of {LOG_VARIABLE} isn't valid UTF-8"
                )));
            }
        },
    };
    let filter =
        filter.map_err(|error| CliError::Usage(format!("{LOG_VARIABLE} is no log filter: {error}")))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    Ok(())
}

/// A runtime for what needs no engine.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| CliError::Failed(format!("the runtime can't be started: {error}")))
}
