//! Medians, quartiles, and whether a target is met: when the quartiles clear it.

use std::fmt;

use tidegate_bench_common::Checkpoints;

use crate::contestant::Contestant::{self, Flink, Floor, Renoir, Tidegate, Timely};
use crate::plan::{Cell, Medium};
use crate::results::{Measured, Results};

/// Lower quartile, median and upper quartile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quartiles {
    /// A quarter is below.
    pub low: f64,
    /// Half is.
    pub median: f64,
    /// Three quarters are.
    pub high: f64,
}

impl Quartiles {
    /// Of some values, by linear interpolation; none of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |q: f64| {
            let place = q * last as f64;
            let (below, above) = (sorted[place as usize], sorted[(place as usize + 1).min(last)]);
            below + (above - below) * place.fract()
        };
        Some(Self {
            low: at(0.25),
            median: at(0.5),
            high: at(0.75),
        })
    }
}

/// One side of a ratio.
#[derive(Debug, Clone, Copy)]
pub struct Side {
    contestant: Contestant,
    checkpoints: Checkpoints,
}

/// That one side's rate is at least so many times the other's.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    run: &'static str,
    ours: Side,
    theirs: Side,
    least: f64,
}

/// How a target came out.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was wanted.
    pub target: Target,
    /// The ratio of the medians.
    pub ratio: f64,
    /// The worst and the best that the quartiles allow.
    pub between: (f64, f64),
}

const OFF: Checkpoints = Checkpoints::Off;
const ALIGNED: Checkpoints = Checkpoints::Aligned;

const fn side(contestant: Contestant, checkpoints: Checkpoints) -> Side {
    Side {
        contestant,
        checkpoints,
    }
}

const fn with(run: &'static str, least: f64) -> Target {
    Target {
        run,
        ours: side(Tidegate, ALIGNED),
        theirs: side(Flink, ALIGNED),
        least,
    }
}

const fn without(run: &'static str, peer: Contestant, least: f64) -> Target {
    Target {
        run,
        ours: side(Tidegate, ALIGNED),
        theirs: side(peer, OFF),
        least,
    }
}

const fn cost(run: &'static str, least: f64) -> Target {
    Target {
        run,
        ours: side(Tidegate, ALIGNED),
        theirs: side(Tidegate, OFF),
        least,
    }
}

/// All of them, at parallelism 2. Peers without snapshots run without; we always run with.
const TARGETS: &[Target] = &[
    with("keyed-count-1m", 15.0),
    without("keyed-count-1m", Renoir, 2.0),
    without("keyed-count-1m", Timely, 1.0),
    without("keyed-count-1m", Floor, 0.8),
    cost("keyed-count-1m", 0.97),
    with("keyed-count-10m", 20.0),
    without("keyed-count-10m", Renoir, 3.0),
    without("keyed-count-10m", Timely, 1.3),
    cost("keyed-count-10m", 0.95),
    with("chain", 10.0),
    without("chain", Renoir, 0.3),
    with("words", 8.0),
    without("words", Renoir, 1.5),
    with("kilobyte", 5.0),
    with("buckets", 10.0),
];

/// How those that a run has measured came out.
pub fn targets(results: &Results) -> Vec<Outcome> {
    outcomes(results.measured())
}

/// How those that a run has measured came out.
pub fn outcomes(measured: &Measured) -> Vec<Outcome> {
    let of_run = TARGETS.iter().filter(|t| t.run == measured.run);
    of_run
        .filter_map(|target| {
            let (ours, theirs) = (rates(measured, target.ours)?, rates(measured, target.theirs)?);
            Some(Outcome {
                target: *target,
                ratio: ours.median / theirs.median,
                between: (ours.low / theirs.high, ours.high / theirs.low),
            })
        })
        .collect()
}

fn rates(measured: &Measured, side: Side) -> Option<Quartiles> {
    let is = |c: &Cell| {
        let plain = c.parallelism == 2 && c.medium == Medium::Memory && !c.gaps;
        plain && c.contestant == side.contestant && c.checkpoints == side.checkpoints
    };
    let found = measured.cells.iter().find(|c| is(&c.cell))?;
    Quartiles::of(found.samples.iter().map(|s| s.rate))
}

impl Outcome {
    /// What is compared.
    pub fn what(&self) -> String {
        let Target { ours, theirs, .. } = self.target;
        let shown = |s: Side| format!("{}, {}", s.contestant, s.checkpoints.name());
        format!("{} ÷ {}", shown(ours), shown(theirs))
    }

    /// The ratio that is wanted at least.
    pub fn least(&self) -> f64 {
        self.target.least
    }

    /// In a word.
    pub fn verdict(&self) -> &'static str {
        if self.between.0 >= self.target.least {
            "met"
        } else if self.between.1 < self.target.least {
            "missed"
        } else {
            "open: the quartiles don't clear it"
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, ratio, (low, high)) = (self.target.least, self.ratio, self.between);
        let (what, verdict) = (self.what(), self.verdict());
        write!(
            f,
            "{what} ≥ {least}: {ratio:.2} ({low:.2} to {high:.2}), {verdict}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated() {
        let q = Quartiles::of([4.0, 1.0, 3.0, 2.0, 5.0]).expect("there are values");
        assert_eq!((q.low, q.median, q.high), (2.0, 3.0, 4.0));
        let q = Quartiles::of([1.0, 2.0]).expect("there are values");
        assert_eq!((q.low, q.median, q.high), (1.25, 1.5, 1.75));
        assert_eq!(Quartiles::of([]), None);
    }
}
