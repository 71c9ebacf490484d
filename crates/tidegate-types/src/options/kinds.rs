//! The types of single options that are more than a number or a text: enumerations, and values with a form of
//! their own such as the gate's budget.
//!
//! Names are matched without regard to case, and `_` stands for `-`, so that Flink's `EXACTLY_ONCE` and our
//! `exactly-once` are one name.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::value::OptionValue;
use crate::ids::JobId;

/// Declares an enumeration with the names it has in configuration; the first name is the one we write.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $first:literal $(| $other:literal)*,)+
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl OptionValue for $name {
            fn type_name() -> &'static str {
                concat!("one of ", $("`", $first, "` ",)+).trim_end()
            }

            fn expected() -> String {
                format!("one of {}", [$(concat!("`", $first, "`")),+].join(", "))
            }

            fn parse(text: &str) -> Option<Self> {
                let text = normalised(text);
                $(if [$first $(, $other)*].iter().any(|name| normalised(name) == text) {
                    return Some(Self::$variant);
                })+
                None
            }

            fn render(&self) -> String {
                match self {
                    $(Self::$variant => $first,)+
                }
                .to_owned()
            }
        }
    };
}

fn normalised(name: &str) -> String {
    name.trim().to_ascii_lowercase().replace('_', "-")
}

names!(
    /// `execution.checkpointing.mode` as it is written; [`SnapshotMode`](crate::SnapshotMode) is what becomes of
    /// it together with `unaligned.enabled` and `aligned-checkpoint-timeout`.
    CheckpointingMode {
        /// Adaptive, unless the other two options say aligned or unaligned.
        ExactlyOnce = "exactly-once",
        /// Blocks channels whose barrier came.
        Aligned = "aligned",
        /// Barriers overtake from the start.
        Unaligned = "unaligned",
        /// Aligned, and overtaking after the timeout.
        Adaptive = "adaptive",
        /// Never blocks; records may be processed twice after a restore.
        AtLeastOnce = "at-least-once",
        /// Pauses the sources until nothing is in flight.
        Quiesce = "quiesce",
    }
);

names!(
    /// What becomes of the retained checkpoints of a job that is cancelled. SIGTERM is not a cancellation, and
    /// neither is a failure: those keep them.
    CheckpointRetention {
        /// They are deleted.
        DeleteOnCancellation = "DELETE_ON_CANCELLATION",
        /// They stay until someone deletes them.
        RetainOnCancellation = "RETAIN_ON_CANCELLATION",
    }
);

names!(
    /// `restart-strategy.type`; [`RestartStrategy`](super::RestartStrategy) carries the figures.
    RestartStrategyKind {
        /// A failure ends the job.
        None = "none" | "off" | "disable",
        /// The same pause before each of a number of attempts.
        FixedDelay = "fixed-delay" | "fixeddelay",
        /// A pause that grows with each failure and is reset after a time without one.
        ExponentialDelay = "exponential-delay" | "exponentialdelay",
        /// Gives up when failures come too often.
        FailureRate = "failure-rate" | "failurerate",
    }
);

names!(
    /// Where keyed state lives.
    StateBackendKind {
        /// In memory, snapshots written from a constant-time cut.
        Memory = "memory" | "hashmap",
    }
);

/// Longest id of a job, in bytes: it names a directory.
const MAX_JOB_ID_BYTES: usize = 200;

impl OptionValue for JobId {
    fn type_name() -> &'static str {
        "text of 1 to 200 bytes, without `/` and `\\`, not starting with `.`"
    }

    fn expected() -> String {
        format!(
            "a text of 1 to {MAX_JOB_ID_BYTES} bytes without control characters, `/` and `\\`, not starting with `.`"
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let text = String::parse(text)?;
        let fits = text.len() <= MAX_JOB_ID_BYTES && !text.contains(['/', '\\']) && !text.starts_with('.');
        fits.then(|| Self::new(text))
    }

    fn render(&self) -> String {
        self.as_str().to_owned()
    }
}

/// How much a gate may queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum GateBudget {
    /// What its task works off in this time, over all channels.
    Time(Duration),
    /// So many records per channel, whatever they cost.
    Fixed(u32),
}

impl OptionValue for GateBudget {
    fn type_name() -> &'static str {
        "duration or `fixed:N`"
    }

    fn expected() -> String {
        "a time such as `100 ms`, or `fixed:N` with N records per channel, both above zero".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            Some((word, n)) if word.trim().eq_ignore_ascii_case("fixed") => {
                u32::parse(n.trim()).filter(|n| *n > 0).map(Self::Fixed)
            }
            _ => Duration::parse(text).filter(|d| !d.is_zero()).map(Self::Time),
        }
    }

    fn render(&self) -> String {
        match self {
            Self::Time(time) => time.render(),
            Self::Fixed(records) => format!("fixed:{records}"),
        }
    }
}

/// How often something may be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Attempts {
    /// So many times.
    Limited(u32),
    /// For ever.
    Unlimited,
}

impl Attempts {
    /// Whether one more is allowed after `made`.
    pub fn allows_another_after(self, made: u32) -> bool {
        match self {
            Self::Limited(limit) => made < limit,
            Self::Unlimited => true,
        }
    }
}

impl OptionValue for Attempts {
    fn type_name() -> &'static str {
        "count or `infinite`"
    }

    fn expected() -> String {
        format!("{}, or `infinite`", u32::expected())
    }

    fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("infinite") {
            return Some(Self::Unlimited);
        }
        u32::parse(text).map(Self::Limited)
    }

    fn render(&self) -> String {
        match self {
            Self::Limited(limit) => limit.to_string(),
            Self::Unlimited => "infinite".to_owned(),
        }
    }
}

/// Whether and where the REST interface listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RestPort {
    /// Nothing listens.
    Off,
    /// On any free port; the job's handle tells which.
    Any,
    /// On this one.
    Port(u16),
}

impl OptionValue for RestPort {
    fn type_name() -> &'static str {
        "port or `off`"
    }

    fn expected() -> String {
        "a port from 1 to 65535, `0` for any free one, or `off`".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("off") {
            return Some(Self::Off);
        }
        text.parse()
            .ok()
            .map(|port| if port == 0 { Self::Any } else { Self::Port(port) })
    }

    fn render(&self) -> String {
        match self {
            Self::Off => "off".to_owned(),
            Self::Any => "0".to_owned(),
            Self::Port(port) => port.to_string(),
        }
    }
}

/// What state a job starts with.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RestoreFrom {
    /// The newest completed checkpoint in the job's directory; with none there it starts without state.
    Latest,
    /// A checkpoint's or savepoint's directory or `_metadata` file.
    Path(String),
}

impl OptionValue for RestoreFrom {
    fn type_name() -> &'static str {
        "`latest` or path"
    }

    fn expected() -> String {
        "`latest`, or the path of a checkpoint or savepoint".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("latest") {
            return Some(Self::Latest);
        }
        String::parse(text).map(Self::Path)
    }

    fn render(&self) -> String {
        match self {
            Self::Latest => "latest".to_owned(),
            Self::Path(path) => path.clone(),
        }
    }
}
