//! Commands that run other programs.

use std::process::Command;

use crate::error::Error;

/// Runs a program in the workspace's root with its output on our terminal.
fn run(command: &mut Command) -> Result<(), Error> {
    let shown = shown(command);
    let start = |source| Error::Start {
        program: shown.clone(),
        source,
    };
    let status = command.current_dir(crate::tree::root()).status().map_err(start)?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::Failed {
            command: shown,
            output: status.to_string(),
        })
    }
}

/// Runs a program in the workspace's root and gives what it prints.
pub fn output(command: &mut Command) -> Result<Vec<u8>, Error> {
    let shown = shown(command);
    let start = |source| Error::Start {
        program: shown.clone(),
        source,
    };
    let output = command.current_dir(crate::tree::root()).output().map_err(start)?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        let output = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(Error::Failed {
            command: shown,
            output,
        })
    }
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The cargo that runs us.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Writes `docs/configuration.md` through the test that compares it, so that there is one generator.
pub fn docs() -> Result<String, Error> {
    run(cargo()
        .args([
            "test",
            "--quiet",
            "-p",
            "tidegate-types",
            "--test",
            "configuration_doc",
        ])
        .env("BLESS", "1"))?;
    Ok("docs/configuration.md is current\n".to_owned())
}

/// The whole test script.
pub fn ci() -> Result<String, Error> {
    run(Command::new("bash").arg("scripts/test"))?;
    Ok(String::new())
}

/// The simulator with the arguments given.
pub fn sim(arguments: &[&str]) -> Result<String, Error> {
    run(cargo()
        .args(["run", "--release", "-p", "tidegate-sim", "--"])
        .args(arguments))?;
    Ok(String::new())
}

/// The benchmark with the options given.
pub fn bench(arguments: &[&str]) -> Result<String, Error> {
    run(cargo()
        .args(["run", "--quiet", "--release", "-p", "tidegate-bench-driver", "--"])
        .args(arguments))?;
    Ok(String::new())
}
