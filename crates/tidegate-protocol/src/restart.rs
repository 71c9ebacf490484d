//! Restart strategies: whether a failed job is started again, and how long after.
//!
//! Owns: Flink's four strategies (`restart-strategy.type`) with its defaults and semantics, as data and as a pure
//! machine. Does not own: restarting, and failures that no restart can heal (a changed type, a missing checkpoint):
//! those never come here.
//!
//! The algorithms are those of Flink's `*RestartBackoffTimeStrategy`; jitter is drawn from a seed that the caller
//! chooses, so a run can be repeated.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tidegate_types::Nanos;

#[cfg(test)]
mod tests;

/// What is done about failures (`restart-strategy.*`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum RestartStrategy {
    /// The first failure is the last.
    None,
    /// A number of restarts in all, each after the same delay.
    FixedDelay {
        /// `restart-strategy.fixed-delay.attempts`: how many restarts there are.
        attempts: u32,
        /// `restart-strategy.fixed-delay.delay`
        delay: Duration,
    },
    /// Restarts after a delay that grows with each failure, until the job has run well for a while.
    ExponentialDelay {
        /// `restart-strategy.exponential-delay.initial-backoff`: the delay after the first failure.
        initial_backoff: Duration,
        /// `restart-strategy.exponential-delay.max-backoff`: the longest delay, jitter included.
        max_backoff: Duration,
        /// `restart-strategy.exponential-delay.backoff-multiplier`: how fast it grows; at least 1.
        backoff_multiplier: f64,
        /// `restart-strategy.exponential-delay.reset-backoff-threshold`: how long it must have run, once restarted, for
        /// the delay to begin anew.
        reset_backoff_threshold: Duration,
        /// `restart-strategy.exponential-delay.jitter-factor`: by which part of itself a delay is moved up or down at
        /// random; 0 to 1.
        jitter_factor: f64,
        /// `restart-strategy.exponential-delay.attempts-before-reset-backoff`: how many restarts there are before it
        /// must have run well; `None` for no limit.
        attempts_before_reset_backoff: Option<u32>,
    },
    /// Restarts after the same delay, as long as failures aren't too many in an interval.
    FailureRate {
        /// `restart-strategy.failure-rate.max-failures-per-interval`: so many are survived.
        max_failures_per_interval: u32,
        /// `restart-strategy.failure-rate.failure-rate-interval`
        failure_rate_interval: Duration,
        /// `restart-strategy.failure-rate.delay`
        delay: Duration,
    },
}

impl Default for RestartStrategy {
    /// What a job with checkpoints has if it says nothing: exponential delay.
    fn default() -> Self {
        Self::ExponentialDelay {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(60),
            backoff_multiplier: 1.5,
            reset_backoff_threshold: Duration::from_secs(3600),
            jitter_factor: 0.1,
            attempts_before_reset_backoff: None,
        }
    }
}

/// A strategy that makes no sense. The user's to fix, when the job is built.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum RestartError {
    /// The delay would shrink or stand still.
    #[error("restart-strategy.exponential-delay.backoff-multiplier is {0}; it must be at least 1")]
    Multiplier(f64),
    /// A delay can't be moved by more than itself.
    #[error("restart-strategy.exponential-delay.jitter-factor is {0}; it must be from 0 to 1")]
    Jitter(f64),
    /// There would be no delay at all.
    #[error("restart-strategy.exponential-delay.initial-backoff is {0:?}; it must be at least 1 ms")]
    InitialBackoff(Duration),
    /// The first delay would be beyond the longest.
    #[error(
        "restart-strategy.exponential-delay.initial-backoff is {initial:?} and max-backoff is {max:?}; the first \
         delay can't be longer than the longest"
    )]
    BackoffOrder {
        /// The first delay.
        initial: Duration,
        /// The longest.
        max: Duration,
    },
    /// Nothing could happen in it.
    #[error("restart-strategy.failure-rate.failure-rate-interval is 0; it must be more")]
    Interval,
    /// It would never restart; `none` says so.
    #[error("restart-strategy.failure-rate.max-failures-per-interval is 0; it must be at least 1")]
    Rate,
}

impl RestartStrategy {
    /// The name in configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::FixedDelay { .. } => "fixed-delay",
            Self::ExponentialDelay { .. } => "exponential-delay",
            Self::FailureRate { .. } => "failure-rate",
        }
    }

    /// Whether the numbers make sense.
    ///
    /// # Errors
    /// Names the first that doesn't.
    pub fn validate(&self) -> Result<(), RestartError> {
        match *self {
            Self::None | Self::FixedDelay { .. } => Ok(()),
            Self::ExponentialDelay {
                initial_backoff,
                max_backoff,
                backoff_multiplier,
                jitter_factor,
                ..
            } => {
                if !(backoff_multiplier >= 1.0 && backoff_multiplier.is_finite()) {
                    Err(RestartError::Multiplier(backoff_multiplier))
                } else if !(0.0..=1.0).contains(&jitter_factor) {
                    Err(RestartError::Jitter(jitter_factor))
                } else if initial_backoff < Duration::from_millis(1) {
                    Err(RestartError::InitialBackoff(initial_backoff))
                } else if initial_backoff > max_backoff {
                    Err(RestartError::BackoffOrder {
                        initial: initial_backoff,
                        max: max_backoff,
                    })
                } else {
                    Ok(())
                }
            }
            Self::FailureRate {
                max_failures_per_interval: 0,
                ..
            } => Err(RestartError::Rate),
            Self::FailureRate {
                failure_rate_interval: Duration::ZERO,
                ..
            } => Err(RestartError::Interval),
            Self::FailureRate { .. } => Ok(()),
        }
    }
}

/// What is done about one failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestartDecision {
    /// Start the job again.
    Restart {
        /// So long after the failure.
        after: Duration,
    },
    /// Give it up.
    Fail {
        /// Why, for the job's last error.
        why: String,
    },
}

/// Decides about the failures of one job. Tell it of each attempt's failure once, by
/// [`on_failure`](Self::on_failure).
#[derive(Debug, Clone, PartialEq)]
pub struct Restarts {
    strategy: RestartStrategy,
    state: State,
}

/// What there is to remember of the failures so far.
#[derive(Debug, Clone, PartialEq)]
enum State {
    /// Nothing.
    None,
    /// How many there were.
    Fixed { failures: u32 },
    /// How many in a row, the newest one with the delay after it, and the jitter's generator.
    Exponential {
        in_a_row: u32,
        last: Option<LastFailure>,
        random: u64,
    },
    /// When the newest ones were, oldest first; one more than are survived.
    Rate { failures: VecDeque<Nanos> },
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct LastFailure {
    at: Nanos,
    /// Before jitter.
    backoff: Duration,
    restart_at: Nanos,
}

impl Restarts {
    /// Nothing has failed yet. The seed decides the jitter.
    ///
    /// # Panics
    /// If the strategy wasn't [validated](RestartStrategy::validate).
    pub fn new(strategy: RestartStrategy, seed: u64) -> Self {
        assert_eq!(
            strategy.validate(),
            Ok(()),
            "a strategy is validated when the job is built"
        );
        let state = match strategy {
            RestartStrategy::None => State::None,
            RestartStrategy::FixedDelay { .. } => State::Fixed { failures: 0 },
            RestartStrategy::ExponentialDelay { .. } => State::Exponential {
                in_a_row: 0,
                last: None,
                random: seed,
            },
            RestartStrategy::FailureRate { .. } => State::Rate {
                failures: VecDeque::new(),
            },
        };
        Self { strategy, state }
    }

    /// An attempt has failed: what now? Under `exponential-delay` a failure before the restart that the one before
    /// brought (several regions at once) is part of that one, as in Flink.
    pub fn on_failure(&mut self, now: Nanos) -> RestartDecision {
        match (&self.strategy, &mut self.state) {
            (RestartStrategy::None, _) => fail("restart-strategy.type is none".to_owned()),
            (RestartStrategy::FixedDelay { attempts, delay }, State::Fixed { failures }) => {
                *failures = failures.saturating_add(1);
                if *failures > *attempts {
                    return fail(format!(
                        "restart-strategy fixed-delay allows {attempts} restarts, all used up"
                    ));
                }
                RestartDecision::Restart { after: *delay }
            }
            (
                strategy @ RestartStrategy::ExponentialDelay { .. },
                State::Exponential {
                    in_a_row,
                    last,
                    random,
                },
            ) => exponential(strategy, now, in_a_row, last, random),
            (
                RestartStrategy::FailureRate {
                    max_failures_per_interval,
                    failure_rate_interval,
                    delay,
                },
                State::Rate { failures },
            ) => {
                let max = *max_failures_per_interval as usize;
                failures.push_back(now);
                failures.drain(..failures.len().saturating_sub(max + 1));
                let too_many = failures.len() > max && now.since(failures[0]) <= *failure_rate_interval;
                if too_many {
                    return fail(format!(
                        "{} failures within {failure_rate_interval:?}; restart-strategy failure-rate survives \
                         {max_failures_per_interval}",
                        failures.len()
                    ));
                }
                RestartDecision::Restart { after: *delay }
            }
            (
                RestartStrategy::FixedDelay { .. }
                | RestartStrategy::ExponentialDelay { .. }
                | RestartStrategy::FailureRate { .. },
                State::None | State::Fixed { .. } | State::Exponential { .. } | State::Rate { .. },
            ) => unreachable!("the state was made for the strategy"),
        }
    }
}

fn fail(why: String) -> RestartDecision {
    RestartDecision::Fail { why }
}

fn exponential(
    strategy: &RestartStrategy,
    now: Nanos,
    in_a_row: &mut u32,
    last: &mut Option<LastFailure>,
    random: &mut u64,
) -> RestartDecision {
    let RestartStrategy::ExponentialDelay {
        initial_backoff,
        max_backoff,
        backoff_multiplier,
        reset_backoff_threshold,
        jitter_factor,
        attempts_before_reset_backoff,
    } = *strategy
    else {
        unreachable!("only called for this strategy")
    };
    let backoff = match *last {
        Some(before) if now < before.restart_at => {
            return RestartDecision::Restart {
                after: before.restart_at.since(now),
            };
        }
        Some(before) if now.since(before.at) < reset_backoff_threshold + before.backoff => {
            let grown = before.backoff.as_secs_f64() * backoff_multiplier;
            // Beyond the longest it is the longest, whatever it grew to.
            Duration::try_from_secs_f64(grown).map_or(max_backoff, |grown| grown.min(max_backoff))
        }
        Some(_) | None => {
            *in_a_row = 0;
            initial_backoff
        }
    };
    *in_a_row = in_a_row.saturating_add(1);
    if let Some(attempts) = attempts_before_reset_backoff
        && *in_a_row > attempts
    {
        return fail(format!(
            "restart-strategy exponential-delay allows {attempts} restarts before the job has run for \
             {reset_backoff_threshold:?}, all used up"
        ));
    }
    let after = backoff
        .mul_f64(1.0 + jitter_factor * symmetric(random))
        .min(max_backoff);
    *last = Some(LastFailure {
        at: now,
        backoff,
        restart_at: now + after,
    });
    RestartDecision::Restart { after }
}

/// The next number from -1 to 1 (SplitMix64, by Steele, Lea and Flood).
fn symmetric(random: &mut u64) -> f64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *random;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    // 53 bits fill a double's mantissa.
    (z >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}
