//! From a job's settings to what its parts obey: the same for every driver.

use tidegate_protocol::coordinator::CoordinatorSettings;
use tidegate_protocol::restart::RestartStrategy;
use tidegate_types::options::{GateBudget, Settings};

use crate::chain::{OperatorDefaults, OutputSettings};
use crate::gate::BudgetSettings;
use crate::graph::JobGraph;
use crate::task::TaskSettings;

/// What the checkpoint coordinator obeys.
pub fn coordinator_settings(settings: &Settings, trace: bool) -> CoordinatorSettings {
    let c = &settings.checkpoints;
    CoordinatorSettings {
        interval: c.interval,
        timeout: c.timeout,
        min_pause: c.min_pause,
        max_concurrent: c.max_concurrent,
        tolerable_failures: c.tolerable_failures,
        mode: c.mode,
        num_retained: c.num_retained,
        after_tasks_finish: c.after_tasks_finish,
        history_size: c.history_size,
        storage: true,
        trace,
    }
}

/// What is done about failures.
pub fn restart_strategy(settings: &Settings) -> RestartStrategy {
    use tidegate_types::options::{Attempts, RestartStrategy as Option};
    let limit = |attempts: Attempts| match attempts {
        Attempts::Limited(n) => Some(n),
        Attempts::Unlimited => None,
    };
    match settings.restart {
        Option::None => RestartStrategy::None,
        Option::FixedDelay { attempts, delay } => RestartStrategy::FixedDelay {
            attempts: limit(attempts).unwrap_or(u32::MAX),
            delay,
        },
        Option::ExponentialDelay {
            initial,
            max,
            multiplier,
            reset_threshold,
            jitter,
            attempts,
        } => RestartStrategy::ExponentialDelay {
            initial_backoff: initial,
            max_backoff: max,
            backoff_multiplier: multiplier,
            reset_backoff_threshold: reset_threshold,
            jitter_factor: jitter,
            attempts_before_reset_backoff: limit(attempts),
        },
        Option::FailureRate {
            max_failures,
            interval,
            delay,
        } => RestartStrategy::FailureRate {
            max_failures_per_interval: max_failures,
            failure_rate_interval: interval,
            delay,
        },
    }
}

/// How outputs batch, what gates hold, and the limits of tasks.
pub fn task_options(settings: &Settings, graph: &JobGraph) -> (OutputSettings, BudgetSettings, TaskSettings) {
    let t = &settings.tasks;
    let outputs = OutputSettings {
        buffer_timeout: t.buffer_timeout,
        max_parallelism: graph.max_parallelism,
    };
    let budget = match t.gate_budget {
        GateBudget::Time(budget) => BudgetSettings::Time {
            budget,
            max_bytes: t.gate_max_bytes.bytes(),
        },
        GateBudget::Fixed(records) => BudgetSettings::FixedPerChannel(u64::from(records)),
    };
    let task = TaskSettings {
        awaits_last_checkpoint: settings.checkpoints.after_tasks_finish,
        max_overdraft: t.overdraft_max_time,
        max_overdraft_bytes: t.overdraft_max_bytes.bytes(),
        defaults: OperatorDefaults::from(settings),
        ..TaskSettings::default()
    };
    (outputs, budget, task)
}
