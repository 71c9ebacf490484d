//! What can be wrong with a configuration, each with where it stands and what to do.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{MaxParallelism, Parallelism};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The job's program.
    Code {
        /// Source file.
        file: String,
        /// Line, from 1.
        line: u32,
    },
    /// A configuration file.
    File {
        /// Its name as given.
        name: String,
        /// Line, from 1.
        line: usize,
    },
    /// An environment variable.
    Environment {
        /// Its name.
        variable: String,
    },
    /// `-D key=value`.
    CommandLine,
    /// A flag of a command, which stands for an option.
    Flag {
        /// With its dashes.
        flag: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Code { file, line } => write!(f, "set at {file}:{line}"),
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Environment { variable } => write!(f, "environment variable {variable}"),
            Self::CommandLine => f.write_str("-D"),
            Self::Flag { flag } => f.write_str(flag),
        }
    }
}

/// What an unknown key was probably meant to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suggestion {
    /// A known one that looks like it.
    Nearest(String),
    /// Flink 1's name for this one.
    Renamed(String),
    /// Nothing comes near.
    Nothing,
}

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nearest(key) => write!(f, "did you mean `{key}`?"),
            Self::Renamed(key) => write!(f, "its name is now `{key}`"),
            Self::Nothing => f.write_str("`tidegate config` lists all options"),
        }
    }
}

/// One problem of a configuration. All of them are the user's to fix; trying again doesn't help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No option has this name.
    #[error("`{name}` ({origin}) is not an option; {suggestion}")]
    Unknown {
        /// The key, or the environment variable.
        name: String,
        /// Where it was given.
        origin: Origin,
        /// What it may have been meant to be.
        suggestion: Suggestion,
    },
    /// The option doesn't take this value.
    #[error("`{key}` = `{value}` ({origin}): expected {expected}")]
    BadValue {
        /// The option.
        key: &'static str,
        /// What was given, shortened if long.
        value: String,
        /// Where it was given.
        origin: Origin,
        /// What it takes.
        expected: String,
    },
    /// A key without a value in a file.
    #[error("`{key}` ({origin}) has no value; give one, or remove the line to keep the default")]
    NoValue {
        /// The key.
        key: String,
        /// Where it stands.
        origin: Origin,
    },
    /// A list where a single value belongs.
    #[error("`{key}` ({origin}) is a list; no option takes one")]
    List {
        /// The key.
        key: String,
        /// Where it stands.
        origin: Origin,
    },
    /// One file sets a key twice, flat and nested forms counted alike.
    #[error("`{key}` is set twice in one file ({first} and {second}); remove one of them")]
    Duplicate {
        /// The option.
        key: String,
        /// The first place.
        first: Origin,
        /// The second.
        second: Origin,
    },
    /// A file that can't be read as YAML, or as the part of YAML that configuration uses.
    #[error("{file}:{line}:{column}: {problem}")]
    Yaml {
        /// Its name as given.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong there.
        problem: String,
    },
    /// A `-D` without `=`.
    #[error("-D {argument}: expected -D key=value")]
    Argument {
        /// What stands after the `-D`.
        argument: String,
    },
    /// At-least-once never blocks a channel, so there is nothing for a barrier to overtake.
    #[error(
        "at-least-once ({mode_origin}) and `execution.checkpointing.unaligned.enabled` = true \
         ({unaligned_origin}) exclude each other: at-least-once never blocks and needs no overtaking barriers; \
         take mode exactly-once, or set unaligned.enabled to false"
    )]
    AtLeastOnceUnaligned {
        /// Where the mode is set.
        mode_origin: Origin,
        /// Where unaligned is enabled.
        unaligned_origin: Origin,
    },
    /// The mode says one thing about overtaking, `unaligned.enabled` the other.
    #[error(
        "`execution.checkpointing.mode` = {mode} ({mode_origin}) contradicts \
         `execution.checkpointing.unaligned.enabled` = {enabled} ({unaligned_origin}); remove one of them"
    )]
    ModeContradictsUnaligned {
        /// The mode as configured.
        mode: String,
        /// Where.
        mode_origin: Origin,
        /// The other option's value.
        enabled: bool,
        /// Where.
        unaligned_origin: Origin,
    },
    /// A pause after the end of each checkpoint and overlapping checkpoints.
    #[error(
        "`execution.checkpointing.min-pause` above zero ({pause_origin}) and \
         `execution.checkpointing.max-concurrent-checkpoints` = {concurrent} ({concurrent_origin}) exclude each \
         other: with a pause after each checkpoint none overlap; set one of them back to its default"
    )]
    MinPauseWithConcurrency {
        /// Where the pause is set.
        pause_origin: Origin,
        /// How many at once.
        concurrent: u32,
        /// Where that is set.
        concurrent_origin: Origin,
    },
    /// Quiesced snapshots hold the sources, so a second one has nothing to cut.
    #[error(
        "mode quiesce ({mode_origin}) takes one checkpoint at a time, \
         `execution.checkpointing.max-concurrent-checkpoints` is {concurrent} ({concurrent_origin}); set it to 1"
    )]
    QuiesceWithConcurrency {
        /// Where the mode is set.
        mode_origin: Origin,
        /// How many at once.
        concurrent: u32,
        /// Where that is set.
        concurrent_origin: Origin,
    },
    /// Subtasks beyond the key groups would own nothing.
    #[error(
        "`parallelism.default` = {parallelism} ({origin}) is above `pipeline.max-parallelism` = {max} \
         ({max_origin}); lower the first, or raise the second if there is no state to restore"
    )]
    ParallelismAboveMax {
        /// Subtasks.
        parallelism: Parallelism,
        /// Where that is set.
        origin: Origin,
        /// Key groups.
        max: MaxParallelism,
        /// Where that is set.
        max_origin: Origin,
    },
    /// The first pause is longer than the longest.
    #[error(
        "`restart-strategy.exponential-delay.initial-backoff` ({initial_origin}) is longer than \
         `restart-strategy.exponential-delay.max-backoff` ({max_origin}); lower the first or raise the second"
    )]
    BackoffAboveMax {
        /// Where the first pause is set.
        initial_origin: Origin,
        /// Where the longest is set.
        max_origin: Origin,
    },
    /// Checkpoints of a job that nothing tells apart from another.
    #[error(
        "checkpoints are on (`execution.checkpointing.interval`, {origin}) but the job has no name: two unnamed \
         jobs would share one checkpoint directory; set `pipeline.name` or `pipeline.job-id`"
    )]
    Unnamed {
        /// Where the interval is set.
        origin: Origin,
    },
}

/// Every problem of a configuration, found in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionErrors(pub(super) Vec<OptionError>);

impl OptionErrors {
    /// The problems, at least one; in the order code, file, environment, flags, arguments, combinations.
    pub fn problems(&self) -> &[OptionError] {
        &self.0
    }
}

impl fmt::Display for OptionErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [problem] = self.0.as_slice() {
            return write!(f, "configuration: {problem}");
        }
        write!(f, "configuration: {} problems", self.0.len())?;
        for (n, problem) in self.0.iter().enumerate() {
            write!(f, "\n  {}. {problem}", n + 1)?;
        }
        Ok(())
    }
}

impl std::error::Error for OptionErrors {}

/// Longest part of a user's text that an error repeats, in characters.
const MAX_SHOWN_CHARS: usize = 80;

/// The beginning of a text that may be long.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
