//! Makes a failing run smaller: fewer faults, records, operators and subtasks, as long as it still fails.
//!
//! Whatever is left out changes the order of things, so a smaller run may hide the fault by chance and another show it
//! again. Every smaller run is tried once, in rounds, until a round finds nothing; how it fails may change.

use crate::batch::Job;
use crate::run::Report;

/// Rounds at most.
const ROUNDS: usize = 4;

/// The smallest run found that fails under this seed, with its report.
pub fn shrink(seed: u64, job: Job) -> (Job, Report) {
    shrink_with(job, &mut |job| job.run(seed))
}

fn shrink_with(job: Job, run: &mut dyn FnMut(Job) -> Report) -> (Job, Report) {
    let mut best = (job, run(job));
    for _ in 0..ROUNDS {
        let before = best.0;
        for step in STEPS {
            // A step is taken as often as it helps.
            while let Some(smaller) = step(best.0, &best.1) {
                let report = run(smaller);
                if report.is_ok() {
                    break;
                }
                best = (smaller, report);
            }
        }
        if best.0 == before {
            break;
        }
    }
    best
}

type Step = fn(Job, &Report) -> Option<Job>;

const STEPS: [Step; 18] = [
    |job, _| (!job.options.unattended).then(|| with(job, |j| j.options.unattended = true)),
    |job, r| drop_fault(job, r, 0),
    |job, r| drop_fault(job, r, 1),
    |job, r| drop_fault(job, r, 2),
    |job, r| drop_fault(job, r, 3),
    |job, r| drop_fault(job, r, 4),
    |job, r| drop_fault(job, r, 5),
    |job, r| drop_fault(job, r, 6),
    |job, r| drop_fault(job, r, 7),
    |job, _| less(job, |j| &mut j.options.size.nodes, |n| n / 2),
    |job, _| less(job, |j| &mut j.options.size.nodes, |n| n - 1),
    |job, _| less(job, |j| &mut j.options.size.records, |n| n / 4),
    |job, _| less(job, |j| &mut j.options.size.records, |n| n / 2),
    |job, _| less(job, |j| &mut j.options.size.records, |n| n - n / 4 - 1),
    |job, _| less(job, |j| &mut j.options.size.records, |n| n - 1),
    |job, _| less(job, |j| &mut j.options.size.parallelism, |_| 1),
    |job, _| less(job, |j| &mut j.options.size.parallelism, |n| n - 1),
    |job, r| drop_fault(job, r, 0),
];

fn with(mut job: Job, change: impl FnOnce(&mut Job)) -> Job {
    change(&mut job);
    job
}

/// Without the n-th kind of fault that happened.
fn drop_fault(job: Job, report: &Report, nth: usize) -> Option<Job> {
    let kinds = report.mix.kinds();
    let without = job.options.without.and(kinds.get(nth)?)?;
    Some(with(job, |j| j.options.without = without))
}

/// With a smaller limit, if it can be smaller.
fn less(job: Job, of: fn(&mut Job) -> &mut u64, f: fn(u64) -> u64) -> Option<Job> {
    let mut smaller = job;
    let limit = of(&mut smaller);
    let now = *limit;
    *limit = f(now).max(1);
    (*limit < now).then_some(smaller)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::FaultMix;

    fn report(mix: FaultMix, fails: bool) -> Report {
        Report {
            seed: 1,
            scenario: String::new(),
            mix,
            hash: 0,
            turns: 0,
            processes: 0,
            violations: if fails {
                vec!["wrong".to_owned()]
            } else {
                Vec::new()
            },
            trace: Vec::new(),
        }
    }

    #[test]
    fn what_the_failure_needs_is_kept_and_the_rest_dropped() {
        let all = FaultMix {
            crash: 1,
            sink: 1,
            hang: 1,
            takeover: 1,
            ..FaultMix::none()
        };
        let mut runs = 0;
        let (job, last) = shrink_with(Job::default(), &mut |job: Job| {
            runs += 1;
            let mix = all.without(job.options.without);
            let size = job.options.size;
            report(mix, mix.hang > 0 && size.nodes >= 3 && size.records >= 17)
        });
        assert_eq!(last.mix.kinds(), ["hang"]);
        let size = job.options.size;
        assert_eq!((size.nodes, size.records, size.parallelism), (3, 17, 1));
        assert!(job.options.unattended);
        assert!(runs < 100, "{runs}");
    }
}
