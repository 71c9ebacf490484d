//! Many seeds over several threads.
//!
//! A run shares nothing with others: which thread runs it, and when, changes nothing in it.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use crate::faults::Without;
use crate::run::{Options, Report, run};
use crate::topology::{RandomJob, Size};
use crate::words::WordCount;

/// What is run under a seed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Job {
    /// The word count instead of a random job.
    pub words: bool,
    /// The run's options.
    pub options: Options,
}

impl Job {
    /// Runs one seed.
    pub fn run(self, seed: u64) -> Report {
        let size = self.options.size;
        if self.words {
            run(
                seed,
                &|rng, tools| Box::new(WordCount::draw(rng, tools)),
                self.options,
            )
        } else {
            let draw = |rng: &mut _, tools| Box::new(RandomJob::draw(rng, size, tools)) as _;
            run(seed, &draw, self.options)
        }
    }

    /// The command that runs a seed like this.
    pub fn command(self, seed: u64) -> String {
        let mut text = "cargo xtask sim".to_owned();
        let (options, usual) = (self.options, Size::default());
        if self.words {
            text.push_str(" --words");
        }
        if options.unattended {
            text.push_str(" --unattended");
        }
        if options.without == Without::everything() {
            text.push_str(" --no-faults");
        } else if options.without != Without::default() {
            let names: Vec<&str> = options.without.names().collect();
            text.push_str(" --without ");
            text.push_str(&names.join(","));
        }
        let limits = [
            ("--nodes", options.size.nodes, usual.nodes),
            ("--records", options.size.records, usual.records),
            ("--parallelism", options.size.parallelism, usual.parallelism),
        ];
        for (name, value, _) in limits.iter().filter(|(_, value, usual)| value != usual) {
            let _ = write!(text, " {name} {value}");
        }
        let _ = write!(text, " {seed}");
        text
    }
}

/// Seeds to be run.
#[derive(Debug, Clone)]
pub struct Course {
    /// The seeds.
    pub seeds: Vec<u64>,
    /// What is run under each.
    pub job: Job,
    /// Threads; 0: one per processor.
    pub threads: usize,
}

/// What all runs came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Runs.
    pub runs: u64,
    /// Their turns.
    pub turns: u64,
    /// Processes that they started.
    pub processes: u64,
}

/// Runs every seed; tells each report, in the order in which they come.
pub fn run_all(course: &Course, tell: &mut dyn FnMut(Report)) -> Totals {
    let threads = match course.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let next = AtomicUsize::new(0);
    let (sender, reports) = mpsc::channel();
    let mut totals = Totals::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(seed) = course.seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if sender.send(course.job.run(*seed)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for report in reports {
            totals.runs += 1;
            totals.turns += report.turns;
            totals.processes += u64::from(report.processes);
            tell(report);
        }
    });
    totals
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn threads_change_nothing_in_a_run() {
        let hashes = |threads| {
            let course = Course {
                seeds: (1..=12).collect(),
                job: Job::default(),
                threads,
            };
            let mut hashes = BTreeMap::new();
            let totals = run_all(&course, &mut |report| {
                hashes.insert(report.seed, report.hash);
            });
            assert_eq!(totals.runs, 12);
            hashes
        };
        assert_eq!(hashes(1), hashes(4));
    }
}
