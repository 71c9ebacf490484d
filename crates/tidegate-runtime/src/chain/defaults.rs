//! What operators and sources do where the program leaves it to whoever runs the job.
//!
//! Owns the part of the settings that reaches operators when they open. Does not own the settings themselves.

use std::time::Duration;

use tidegate_types::options::Settings;

/// Settings that an operator falls back to when its own say nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatorDefaults {
    /// How often watermark generators emit (`pipeline.auto-watermark-interval`).
    pub watermark_interval: Duration,
    /// After so long without a record a stream counts as idle (`source.idle-timeout`); `None`: never.
    pub idle_after: Option<Duration>,
    /// Records that a push source stages under its lock (`source.max-staged-records`).
    pub max_staged_records: usize,
    /// Whether the job takes checkpoints by itself (`execution.checkpointing.interval`).
    pub periodic_checkpoints: bool,
}

impl From<&Settings> for OperatorDefaults {
    fn from(settings: &Settings) -> Self {
        Self {
            watermark_interval: settings.job.auto_watermark_interval,
            idle_after: settings.sources.idle_timeout,
            max_staged_records: settings.sources.max_staged_records as usize,
            periodic_checkpoints: settings.checkpoints.interval.is_some(),
        }
    }
}

impl Default for OperatorDefaults {
    /// Those of a job that sets nothing.
    fn default() -> Self {
        Self::from(&Settings::default())
    }
}
