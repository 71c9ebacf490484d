//! A contestant's command line: `WORKLOAD key=value…`.

use std::path::PathBuf;
use std::time::Duration;

use crate::Workload;

/// How a contestant takes checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checkpoints {
    /// None.
    Off,
    /// Aligned, one each interval.
    Aligned,
    /// Unaligned, one each interval.
    Unaligned,
}

impl Checkpoints {
    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Aligned => "aligned",
            Self::Unaligned => "unaligned",
        }
    }
}

/// What a contestant is asked to do.
#[derive(Debug, Clone)]
pub struct Arguments {
    /// The work.
    pub workload: Workload,
    /// Records that its sources emit, over all subtasks (words count for [`Workload::Words`]).
    pub records: u64,
    /// Subtasks of each operator, or workers.
    pub parallelism: usize,
    /// Different keys.
    pub keys: u64,
    /// Whether and how to take checkpoints.
    pub checkpoints: Checkpoints,
    /// Between two of them.
    pub interval: Duration,
    /// Where they go.
    pub dir: PathBuf,
    /// Whether the time between any two records is measured.
    pub gaps: bool,
    /// Keys that only this contestant knows, in order.
    pub own: Vec<(String, String)>,
}

/// A command line that can't be carried out.
#[derive(Debug, thiserror::Error)]
pub enum ArgumentError {
    /// Nothing was asked for.
    #[error("say which workload: WORKLOAD key=value…")]
    Nothing,
    /// No such work.
    #[error(
        "there is no workload `{0}`; there are chain, keyed-count, words, buckets, kilobyte and string-keys"
    )]
    Workload(String),
    /// Not `key=value`.
    #[error("`{0}` isn't key=value")]
    Form(String),
    /// A value that can't be understood.
    #[error("`{key}={value}`: {meaning}")]
    Value {
        /// Of this key.
        key: String,
        /// As given.
        value: String,
        /// What it must be.
        meaning: &'static str,
    },
}

impl Arguments {
    /// This process's.
    ///
    /// # Errors
    /// When something can't be understood.
    pub fn from_env() -> Result<Self, ArgumentError> {
        Self::parse(std::env::args().skip(1))
    }

    /// Those of a command line without the program's name.
    ///
    /// # Errors
    /// When something can't be understood.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, ArgumentError> {
        let mut words = words.into_iter();
        let workload = words.next().ok_or(ArgumentError::Nothing)?.parse()?;
        let mut arguments = Self {
            workload,
            records: 10_000_000,
            parallelism: 1,
            keys: 1_000_000,
            checkpoints: Checkpoints::Off,
            interval: Duration::from_secs(1),
            dir: std::env::temp_dir().join("tidegate-bench"),
            gaps: false,
            own: Vec::new(),
        };
        for word in words {
            let (key, value) = word.split_once('=').ok_or(ArgumentError::Form(word.clone()))?;
            arguments.set(key, value)?;
        }
        Ok(arguments)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ArgumentError> {
        let wrong = |meaning| ArgumentError::Value {
            key: key.to_owned(),
            value: value.to_owned(),
            meaning,
        };
        let number = |least: u64| match value.replace('_', "").parse() {
            Ok(n) if n >= least => Ok(n),
            _ => Err(wrong("it must be a whole number above zero")),
        };
        match key {
            "records" => self.records = number(1)?,
            "p" => self.parallelism = number(1)? as usize,
            "keys" => self.keys = number(1)?,
            "interval-ms" => self.interval = Duration::from_millis(number(1)?),
            "dir" => self.dir = PathBuf::from(value),
            "checkpoints" => {
                self.checkpoints = match value {
                    "off" => Checkpoints::Off,
                    "aligned" => Checkpoints::Aligned,
                    "unaligned" => Checkpoints::Unaligned,
                    _ => return Err(wrong("it must be off, aligned or unaligned")),
                }
            }
            "gaps" => {
                self.gaps = match value {
                    "on" => true,
                    "off" => false,
                    _ => return Err(wrong("it must be on or off")),
                }
            }
            _ => self.own.push((key.to_owned(), value.to_owned())),
        }
        Ok(())
    }

    /// A key that only this contestant knows.
    pub fn own(&self, key: &str) -> Option<&str> {
        self.own
            .iter()
            .rev()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }
}
