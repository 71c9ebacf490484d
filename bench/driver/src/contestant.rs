//! Who runs: building it, and the program it is.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::error::BenchError;

/// A program that does a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Contestant {
    /// Ourselves.
    Tidegate,
    /// Apache Flink on the JVM, as an in-process cluster.
    Flink,
    /// Renoir: no snapshots, no fault tolerance.
    Renoir,
    /// Timely dataflow: no snapshots, no fault tolerance.
    Timely,
    /// A hand-written program without any engine.
    Floor,
}

/// A contestant that can be run.
#[derive(Debug, Clone)]
pub struct Ready {
    /// The program.
    pub program: PathBuf,
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Contestant {
    /// Its name in results and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate",
            Self::Flink => "flink",
            Self::Renoir => "renoir",
            Self::Timely => "timely",
            Self::Floor => "floor",
        }
    }

    /// Builds it.
    ///
    /// # Errors
    /// When it can't be: then this machine doesn't have what it needs.
    pub fn prepare(self, root: &Path) -> Result<Ready, BenchError> {
        match self {
            Self::Tidegate => {
                let target = target_dir(root);
                let arguments = ["build", "--quiet", "--profile", "max", "-p", "tidegate-bench"];
                cargo(self.name(), root, &arguments)?;
                Ok(Ready {
                    program: target.join("max/tidegate-bench"),
                })
            }
            Self::Flink => {
                let run = root.join("bench/peers/flink/run");
                let mut prepare = Command::new(&run);
                prepare.arg("prepare");
                output(self.name(), &mut prepare)?;
                Ok(Ready { program: run })
            }
            Self::Renoir | Self::Timely | Self::Floor => {
                let peer = root.join("bench/peers").join(self.name());
                let manifest = peer.join("Cargo.toml").into_os_string();
                let target = match std::env::var_os("CARGO_TARGET_DIR") {
                    Some(dir) => PathBuf::from(dir).join("peers").join(self.name()),
                    None => peer.join("target"),
                };
                let arguments: [OsString; 7] = [
                    "build".into(),
                    "--quiet".into(),
                    "--release".into(),
                    "--manifest-path".into(),
                    manifest,
                    "--target-dir".into(),
                    target.clone().into(),
                ];
                cargo(self.name(), root, &arguments)?;
                Ok(Ready {
                    program: target
                        .join("release")
                        .join(format!("tidegate-bench-{}", self.name())),
                })
            }
        }
    }
}

/// Where the workspace's own builds go.
pub fn target_dir(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn cargo<S: AsRef<std::ffi::OsStr>>(what: &str, root: &Path, arguments: &[S]) -> Result<(), BenchError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(arguments);
    output(what, &mut command)
}

fn output(what: &str, command: &mut Command) -> Result<(), BenchError> {
    let not_ready = |why: String| BenchError::NotReady {
        what: what.to_owned(),
        why,
    };
    let output = command.output().map_err(|e| not_ready(e.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = said.trim().lines().rev().take(5).collect();
    Err(not_ready(last.into_iter().rev().collect::<Vec<_>>().join("\n")))
}
