//! Minimum, maximum, average and quantiles over completed checkpoints.
//!
//! Owns: the running figures of one measured quantity. Minimum, maximum and average are over everything since the
//! job began; quantiles are over the newest [`WINDOW`] values, as in Flink, so memory stays bounded.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// How many values quantiles are taken over: enough for the 99.9th percentile to mean something.
pub const WINDOW: usize = 10_000;

/// What REST shows of one quantity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The least.
    pub min: u64,
    /// The greatest.
    pub max: u64,
    /// The mean.
    pub avg: u64,
    /// The median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
}

impl Summary {
    /// The figures over some values; all zero if there are none.
    pub fn of(values: impl IntoIterator<Item = u64>) -> Self {
        let mut series = Series::default();
        values.into_iter().for_each(|value| series.add(value));
        series.summary()
    }
}

/// Collects the values of one quantity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Series {
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
    window: VecDeque<u64>,
}

impl Series {
    pub(super) fn add(&mut self, value: u64) {
        self.min = if self.count == 0 {
            value
        } else {
            self.min.min(value)
        };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        self.window.push_back(value);
    }

    /// The figures; all zero if there is no value yet. Sorts the window.
    pub(super) fn summary(&self) -> Summary {
        if self.count == 0 {
            return Summary::default();
        }
        let mut sorted: Vec<u64> = self.window.iter().copied().collect();
        sorted.sort_unstable();
        Summary {
            min: self.min,
            max: self.max,
            avg: u64::try_from(self.sum / u128::from(self.count)).unwrap_or(u64::MAX),
            p50: quantile(&sorted, 0.5),
            p90: quantile(&sorted, 0.9),
            p95: quantile(&sorted, 0.95),
            p99: quantile(&sorted, 0.99),
            p999: quantile(&sorted, 0.999),
        }
    }
}

/// The quantile of sorted values: between the two nearest ranks by distance, position `q * (n + 1)`, the
/// commonest estimate for software packages (R's type 6).
fn quantile(sorted: &[u64], q: f64) -> f64 {
    let (Some(&first), Some(&last)) = (sorted.first(), sorted.last()) else {
        return 0.0;
    };
    let position = q * (sorted.len() as f64 + 1.0);
    let below = position.floor();
    if below < 1.0 {
        return first as f64;
    }
    let index = below as usize;
    if index >= sorted.len() {
        return last as f64;
    }
    let (a, b) = (sorted[index - 1] as f64, sorted[index] as f64);
    a + (position - below) * (b - a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_known_values() {
        let mut series = Series::default();
        assert_eq!(series.summary(), Summary::default());
        (1..=99).for_each(|value| series.add(value));
        let summary = series.summary();
        assert_eq!((summary.min, summary.max, summary.avg), (1, 99, 50));
        assert_eq!(
            (summary.p50, summary.p90, summary.p95, summary.p99),
            (50.0, 90.0, 95.0, 99.0)
        );
        assert_eq!(summary.p999, 99.0, "beyond the last rank is the last value");
    }

    #[test]
    fn quantiles_forget_and_extremes_do_not() {
        let mut series = Series::default();
        series.add(1_000_000);
        (0..WINDOW).for_each(|_| series.add(7));
        let summary = series.summary();
        assert_eq!((summary.min, summary.max), (7, 1_000_000));
        assert_eq!((summary.p50, summary.p999), (7.0, 7.0));
        assert_eq!(series.window.len(), WINDOW);
    }
}
