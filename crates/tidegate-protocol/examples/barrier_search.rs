//! Exhausts the barrier handler: every order of events of small tasks, each state once, under the oracle.
//!
//! `cargo run --release -p tidegate-protocol --example barrier_search [-- SECTION…]`, sections `a` to `f`, all by
//! default. Stops at the first violation with the steps that lead to it. Runs on as many threads as there are cores.
//! `BARRIER_SEARCH_VERBOSE=1` says each setup's states.
//!
//! The whole visits 389,671,271 states (230,000 to 280,000 a second and core; a quarter of an hour on two) and finds
//! nothing:
//!
//! | section | setups | states |
//! |---|---|---|
//! | a: 2 channels, 2 checkpoints, everything but late announcements | 432 | 83,914,862 |
//! | b: 3 channels (one normal at least), 2 checkpoints, no stray messages | 432 | 165,898,975 |
//! | c: 3 channels, 3 checkpoints, barriers and timeouts | 640 | 2,849,511 |
//! | d: 2 channels, 2 checkpoints, late announcements, no stray messages | 432 | 83,190,181 |
//! | e: 2 channels, 2 checkpoints, with and without records between | 192 | 33,412,408 |
//! | f: 2 channels, 3 checkpoints, no stray messages | 54 | 20,405,334 |

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_protocol::oracle::search::{
    Alphabet, Cancels, Counterexample, Figures, Plan, Records, Setup, search,
};
use tidegate_types::EdgeKind::{self, Feedback, Normal, Sealed};
use tidegate_types::SnapshotMode::{self, Adaptive, Aligned, AtLeastOnce, Quiesce, Unaligned};

/// How one checkpoint is taken, and whether it is a savepoint.
type Mode = (SnapshotMode, bool);

const SECOND: Duration = Duration::from_secs(1);
const A: Mode = (Aligned, false);
const U: Mode = (Unaligned, false);
const T: Mode = (Adaptive { timeout: SECOND }, false);
const L: Mode = (AtLeastOnce, false);
const Q: Mode = (Quiesce { limit: SECOND }, false);
const S: Mode = (Aligned, true);
const MODES: [Mode; 6] = [A, U, T, L, Q, S];

fn main() -> ExitCode {
    let wanted = std::env::args().skip(1).collect::<Vec<_>>();
    let sections: [(&str, &str, Vec<Setup>); 6] = [
        (
            "a",
            "2 channels, 2 checkpoints, everything but late announcements",
            everything(),
        ),
        (
            "b",
            "3 channels (one normal at least), 2 checkpoints, no stray messages",
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
    for (name, title, setups) in &sections {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            match run(setups) {
                Ok(figures) => {
                    say(&format!(
                        "{name}: {title}: {} setups, {}",
                        setups.len(),
                        words(figures)
                    ));
                    total.add(figures);
                }
                Err(found) => {
                    say(&format!("{name}: {found}"));
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    say(&format!("in all {}", words(total)));
    ExitCode::SUCCESS
}

fn words(figures: Figures) -> String {
    let Figures {
        states,
        steps,
        ends,
        completed,
    } = figures;
    format!("{states} states, {steps} steps, {ends} ends with {completed} checkpoints")
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody reads it any more: nothing to tell.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Searches the setups, the threads taking them in turn until one finds something.
fn run(setups: &[Setup]) -> Result<Figures, Box<Counterexample>> {
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Ok(Figures::default()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let verbose = std::env::var_os("BARRIER_SEARCH_VERBOSE").is_some();
    let work = || {
        while let Some(setup) = setups.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = search(setup);
            if verbose && let Ok(figures) = &found {
                say(&format!("  {} {} states", describe(setup), figures.states));
            }
            let mut total = total.lock().expect("no thread panics with it");
            match (found, total.as_mut()) {
                (_, Err(_)) => return,
                (Ok(figures), Ok(total)) => total.add(figures),
                (Err(found), Ok(_)) => *total = Err(found),
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
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

fn plan((mode, savepoint): Mode, oldest_pending: u64) -> Plan {
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
    let alphabet = Alphabet {
        cancels: Cancels::InPlace,
        strays: false,
        ..Alphabet::ALL
    };
    let mut setups = pairs(3, alphabet);
    // Without a normal channel the third adds nothing to what two do to each other.
    setups.retain(|s| s.kinds.contains(&Normal));
    setups
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
            .all(|p| [A, U, L].iter().any(|(mode, _)| *mode == p.mode))
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
