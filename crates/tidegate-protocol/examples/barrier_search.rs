//! Exhausts the barrier handler: every order of events of small tasks, each state once, under the oracle.
//!
//! `cargo run --release -p tidegate-protocol --example barrier_search [-- SECTION…]`, sections `a` to `f`, all by
//! default. Stops at the first violation with the steps that lead to it. Runs on as many threads as there are cores.
//! FIGURES

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidegate_protocol::oracle::search::{Alphabet, Cancels, Figures, Plan, Records, Setup, search};
use tidegate_types::EdgeKind::{self, Feedback, Normal, Sealed};
use tidegate_types::SnapshotMode::{Adaptive, Quiesce};
use tidegate_types::SnapshotMode::{Aligned, AtLeastOnce, Unaligned};

/// How one checkpoint is taken: its letter in the output, and whether it is a savepoint.
type Mode = (char, tidegate_types::SnapshotMode, bool);

const SECOND: Duration = Duration::from_secs(1);
const A: Mode = ('a', Aligned, false);
const U: Mode = ('u', Unaligned, false);
const T: Mode = ('t', Adaptive { timeout: SECOND }, false);
const L: Mode = ('l', AtLeastOnce, false);
const Q: Mode = ('q', Quiesce { limit: SECOND }, false);
const S: Mode = ('s', Aligned, true);
const MODES: [Mode; 6] = [A, U, T, L, Q, S];

fn main() {
    let wanted = std::env::args().skip(1).collect::<Vec<_>>();
    let sections: [(&str, &str, Vec<Setup>); 6] = [
        (
            "a",
            "2 channels, 2 checkpoints, everything but late announcements",
            everything(),
        ),
        (
            "b",
            "3 channels, 2 checkpoints, no stray messages",
            three_channels(),
        ),
        (
            "c",
            "3 channels, 3 checkpoints, barriers and timeouts",
            three_checkpoints(),
        ),
        (
            "d",
            "2 channels, 2 checkpoints, late announcements, no stray messages",
            late_announcements(),
        ),
        (
            "e",
            "2 channels, 2 checkpoints, with and without records between",
            loose_records(),
        ),
        (
            "f",
            "2 channels, 3 checkpoints, no stray messages",
            long_histories(),
        ),
    ];
    let mut total = Figures::default();
    let started = now();
    for (name, title, setups) in &sections {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            let section = now();
            let figures = run(setups);
            say(&format!(
                "{name}: {title}: {} setups, {}",
                setups.len(),
                words(figures, section.elapsed())
            ));
            total.add(figures);
        }
    }
    say(&format!("in all {}", words(total, started.elapsed())));
}

#[expect(
    clippy::disallowed_methods,
    reason = "says how long it took; nothing depends on it"
)]
fn now() -> Instant {
    Instant::now()
}

fn words(figures: Figures, elapsed: Duration) -> String {
    let Figures {
        states,
        steps,
        ends,
        completed,
    } = figures;
    format!("{states} states, {steps} steps, {ends} ends with {completed} checkpoints, {elapsed:.0?}")
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody reads it any more: nothing to tell.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Searches the setups, the threads taking them in turn.
fn run(setups: &[Setup]) -> Figures {
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Figures::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(setup) = setups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let figures = match search(setup) {
                        Ok(figures) => figures,
                        Err(found) => {
                            say(&found.to_string());
                            std::process::exit(1)
                        }
                    };
                    if std::env::var_os("BARRIER_SEARCH_VERBOSE").is_some() {
                        say(&format!("  {} {} states", describe(setup), figures.states));
                    }
                    total.lock().expect("no thread panics with it").add(figures);
                }
            });
        }
    });
    total.into_inner().expect("no thread panics with it")
}

fn describe(setup: &Setup) -> String {
    let mut text = setup
        .kinds
        .iter()
        .map(|k| k.to_string())
        .collect::<Vec<_>>()
        .join(" ");
    for plan in &setup.plans {
        let name = if plan.savepoint {
            "savepoint"
        } else {
            plan.mode.name()
        };
        let _ = write!(text, ", {name} from {}", plan.oldest_pending);
    }
    text
}

/// All multisets of kinds.
fn kinds(channels: usize) -> Vec<Vec<EdgeKind>> {
    let mut out = vec![Vec::new()];
    for _ in 0..channels {
        out = out
            .iter()
            .flat_map(|kinds: &Vec<EdgeKind>| {
                [Normal, Sealed, Feedback]
                    .into_iter()
                    .filter(|k| kinds.last().is_none_or(|last| *last as u8 <= *k as u8))
                    .map(|k| kinds.iter().copied().chain([k]).collect())
            })
            .collect();
    }
    out
}

fn plan((_, mode, savepoint): Mode, oldest_pending: u64) -> Plan {
    Plan {
        mode,
        savepoint,
        oldest_pending,
    }
}

/// Each kind of task with each pair of modes; when 2 is triggered, 1 may be decided or not.
fn pairs(channels: usize, alphabet: Alphabet) -> Vec<Setup> {
    let mut setups = Vec::new();
    for kinds in kinds(channels) {
        for first in MODES {
            for second in MODES {
                for oldest in [1, 2] {
                    let plans = vec![plan(first, 1), plan(second, oldest)];
                    setups.push(Setup {
                        kinds: kinds.clone(),
                        plans,
                        alphabet,
                    });
                }
            }
        }
    }
    setups
}

fn everything() -> Vec<Setup> {
    pairs(2, Alphabet::ALL)
}

fn late_announcements() -> Vec<Setup> {
    let alphabet = Alphabet {
        late: true,
        cancels: Cancels::InPlace,
        strays: false,
        ..Alphabet::ALL
    };
    pairs(2, alphabet)
}

fn three_channels() -> Vec<Setup> {
    pairs(
        3,
        Alphabet {
            cancels: Cancels::InPlace,
            strays: false,
            ..Alphabet::ALL
        },
    )
}

fn three_checkpoints() -> Vec<Setup> {
    let alphabet = Alphabet {
        timeouts: true,
        upgrades: true,
        ..Alphabet::BARRIERS
    };
    let mut setups = Vec::new();
    for kinds in kinds(3) {
        for first in [A, U, T, S] {
            for second in [A, U, T, S] {
                for third in [A, U, T, S] {
                    let plans = vec![plan(first, 1), plan(second, 1), plan(third, 1)];
                    setups.push(Setup {
                        kinds: kinds.clone(),
                        plans,
                        alphabet,
                    });
                }
            }
        }
    }
    setups
}

fn loose_records() -> Vec<Setup> {
    let mut setups = pairs(
        2,
        Alphabet {
            records: Records::UpToOne,
            cancels: Cancels::InPlace,
            ..Alphabet::ALL
        },
    );
    setups.retain(|s| {
        s.plans
            .iter()
            .all(|p| [A, U, L].iter().any(|(_, mode, _)| *mode == p.mode))
    });
    setups
}

/// What three checkpoints do to each other when they may also be given up.
fn long_histories() -> Vec<Setup> {
    let alphabet = Alphabet {
        cancels: Cancels::InPlace,
        strays: false,
        triggers: false,
        ..Alphabet::ALL
    };
    let mut setups = Vec::new();
    for kinds in [[Normal, Normal], [Normal, Sealed], [Normal, Feedback]] {
        for modes in [[U, U, U], [A, A, U], [S, U, U], [A, S, U], [U, A, A], [L, S, U]] {
            for oldest in [1, 2, 3] {
                let plans = vec![
                    plan(modes[0], 1),
                    plan(modes[1], oldest.min(2)),
                    plan(modes[2], oldest),
                ];
                setups.push(Setup {
                    kinds: kinds.to_vec(),
                    plans,
                    alphabet,
                });
            }
        }
    }
    setups
}
