//! The part of the exhaustive search that fits into an ordinary test run. `examples/barrier_search.rs` is the whole.

use crate::common::*;
use tidegate_protocol::oracle::search::{Alphabet, Cancels, Figures, Plan, Setup, search};
use tidegate_types::EdgeKind::{self, Feedback, Normal, Sealed};
use tidegate_types::SnapshotMode::{Aligned, AtLeastOnce, Unaligned};

fn plan(barrier: &tidegate_types::Barrier) -> Plan {
    Plan {
        mode: barrier.mode,
        savepoint: barrier.kind.is_savepoint(),
        oldest_pending: barrier.oldest_pending.0,
    }
}

fn run(kinds: &[EdgeKind], barriers: &[tidegate_types::Barrier], alphabet: Alphabet, total: &mut Figures) {
    let setup = Setup {
        kinds: kinds.to_vec(),
        plans: barriers.iter().map(plan).collect(),
        alphabet,
    };
    match search(&setup) {
        Ok(figures) => {
            assert!(figures.completed > 0, "something comes of it: {setup:?}");
            total.add(figures);
        }
        Err(found) => panic!("{found}"),
    }
}

/// Everything that can happen to one checkpoint, and what is left of it for the next.
#[test]
fn one_checkpoint_on_three_channels() {
    let mut total = Figures::default();
    for kinds in [
        [Normal, Normal, Normal],
        [Normal, Normal, Sealed],
        [Normal, Sealed, Feedback],
    ] {
        for mode in [Aligned, Unaligned, ADAPTIVE, AtLeastOnce, QUIESCE] {
            run(&kinds, &[barrier(1, mode)], Alphabet::ALL, &mut total);
        }
    }
    println!("{total:?}");
}

/// Two checkpoints on two channels, in the pairs of modes that meet each other in different ways.
#[test]
fn two_checkpoints_on_two_channels() {
    let alphabet = Alphabet {
        cancels: Cancels::InPlace,
        strays: false,
        ..Alphabet::ALL
    };
    let mut total = Figures::default();
    for kinds in [[Normal, Normal], [Normal, Sealed], [Sealed, Feedback]] {
        for (first, second) in [
            (barrier(1, Aligned), barrier(2, Aligned)),
            (barrier(1, Aligned), barrier(2, Unaligned)),
            (barrier(1, Unaligned), oldest(2, barrier(2, Unaligned))),
            (savepoint(1, Aligned), barrier(2, Unaligned)),
            (barrier(1, AtLeastOnce), oldest(2, savepoint(2, Aligned))),
            (barrier(1, QUIESCE), barrier(2, Unaligned)),
        ] {
            run(&kinds, &[first, second], alphabet, &mut total);
        }
    }
    run(
        &[Normal, Normal],
        &[barrier(1, ADAPTIVE), barrier(2, Unaligned)],
        Alphabet::ALL,
        &mut total,
    );
    println!("{total:?}");
}

/// The same, with announcements that lag behind the queue.
#[test]
fn late_announcements() {
    let alphabet = Alphabet {
        late: true,
        aborts: false,
        triggers: false,
        ..Alphabet::ALL
    };
    let mut total = Figures::default();
    run(&[Normal, Normal], &[barrier(1, Unaligned)], alphabet, &mut total);
    run(&[Normal, Sealed], &[barrier(1, ADAPTIVE)], alphabet, &mut total);
    let alphabet = Alphabet {
        cancels: Cancels::Never,
        skips: false,
        ends: false,
        ..alphabet
    };
    run(
        &[Normal, Normal],
        &[barrier(1, Unaligned), barrier(2, Unaligned)],
        alphabet,
        &mut total,
    );
    run(
        &[Normal, Feedback],
        &[barrier(1, Aligned), barrier(2, ADAPTIVE)],
        alphabet,
        &mut total,
    );
    println!("{total:?}");
}

/// Three checkpoints, none complete before the next starts: every order that FIFO among barriers allows.
#[test]
fn three_checkpoints_on_three_channels() {
    let alphabet = Alphabet {
        timeouts: true,
        upgrades: true,
        ..Alphabet::BARRIERS
    };
    let mut total = Figures::default();
    for kinds in [
        [Normal, Normal, Normal],
        [Normal, Normal, Sealed],
        [Normal, Sealed, Feedback],
    ] {
        for barriers in [
            [
                barrier(1, Unaligned),
                barrier(2, Unaligned),
                barrier(3, Unaligned),
            ],
            [barrier(1, Aligned), barrier(2, Unaligned), barrier(3, Unaligned)],
            [savepoint(1, Aligned), barrier(2, ADAPTIVE), barrier(3, Unaligned)],
            [barrier(1, ADAPTIVE), savepoint(2, Aligned), barrier(3, ADAPTIVE)],
        ] {
            run(&kinds, &barriers, alphabet, &mut total);
        }
    }
    println!("{total:?}");
}
