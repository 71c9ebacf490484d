//! The word count under faults: a bounded number of seeds, and seeds that once found something.

use tidegate_sim::run::{Options, Report, run};
use tidegate_sim::words::WordCount;

fn words(seed: u64, options: Options) -> Report {
    run(seed, &|rng, tools| Box::new(WordCount::draw(rng, tools)), options)
}

#[track_caller]
fn assert_ok(report: &Report) {
    let tail = report.trace.join("\n");
    assert!(
        report.is_ok(),
        "{tail}\n{}\n{:#?}\nagain: cargo xtask sim --words --trace {}",
        report.scenario,
        report.violations,
        report.seed
    );
}

#[test]
fn every_word_is_counted_once_whatever_fails() {
    for seed in 1..=100 {
        assert_ok(&words(seed, Options::default()));
    }
}

#[test]
fn every_word_is_counted_once_when_nothing_fails() {
    for seed in 1..=20 {
        let options = Options {
            unattended: true,
            ..Options::faultless()
        };
        let report = words(seed, options);
        assert_ok(&report);
        assert_eq!(report.processes, 1);
    }
}

#[test]
fn the_same_seed_does_the_same() {
    for seed in 1000..1010 {
        let (first, second) = (words(seed, Options::default()), words(seed, Options::default()));
        assert_eq!(
            (first.hash, first.turns, first.processes),
            (second.hash, second.turns, second.processes)
        );
        assert_ne!(first.hash, words(seed + 500, Options::default()).hash);
    }
}

/// Seeds that found a fault of the engine once. What each was: in the history of the file that it was mended in.
#[test]
fn seeds_that_found_something() {
    // 9: state that can't be read for a moment ended the job. 59: a decision that wasn't deleted lost its files.
    // 107: a finished job didn't commit what its last checkpoint lists.
    for seed in [9, 59, 107] {
        assert_ok(&words(seed, Options::default()));
    }
}
