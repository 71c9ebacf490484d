//! Every configuration option of the engine: declared once as data, read from four sources, handed out as typed
//! settings.
//!
//! Owns keys, types, defaults and meanings (`keys`), the notation of values (`value`, `kinds`), precedence and
//! error reporting (`configuration`, `error`), the rules between options (`settings`), and the documentation
//! made of it all (`markdown`). Does not own reading files or the environment: callers hand in their text. There
//! is no global configuration: a job is built with one [`Settings`] value and parts of it are passed down.
//!
//! To read next: [`Configuration`] for how values get in, [`Settings`] for how they come out.

mod configuration;
mod error;
pub mod keys;
mod kinds;
mod markdown;
mod names;
mod settings;
mod spec;
mod value;
mod yaml;

#[cfg(test)]
mod tests;

pub use configuration::{Configuration, Effective};
pub use error::{OptionError, OptionErrors, Origin, Suggestion};
pub use kinds::{
    Attempts, CheckpointRetention, CheckpointingMode, GateBudget, RestPort, RestartStrategyKind, RestoreFrom,
    StateBackendKind,
};
pub use markdown::{Row, markdown, table};
pub use names::environment_variable;
pub use settings::{
    CheckpointSettings, JobSettings, RecoverySettings, RestSettings, RestartStrategy, Settings,
    SourceSettings, TaskSettings,
};
pub use spec::{Declared, DefaultValue, Flink, Opt, Spec};
pub use value::{MAX_DURATION, MemorySize, OptionValue};
pub use yaml::MAX_FILE_BYTES;
