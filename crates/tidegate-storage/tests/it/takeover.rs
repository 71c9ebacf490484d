//! Two and three leaders on one directory (C17), in every order of their steps (`schedules.rs`).
//!
//! A leader that crashes is a schedule that ends early, so every prefix is a crash too: at each of them a fresh claim
//! must find the newest complete checkpoint.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use tidegate_storage::layout::{self, Entry};
use tidegate_storage::*;
use tidegate_types::*;

use crate::common::*;
use crate::schedules::{Leader, Seen, Shared, every_schedule, leader, look};
use crate::torn::{Order, TornListing};

/// Decides the next id; false once fenced.
async fn decide(job: &JobStore, leader: &mut Leadership, told: &Shared, decision: Decision) -> bool {
    let (id, epoch) = (leader.next_id(), leader.epoch());
    match job.decide(leader, id, decision).await {
        Ok(Outcome::Mine) => {
            told.borrow_mut().mine.push((id, epoch));
            true
        }
        Ok(Outcome::Other(_)) => {
            told.borrow_mut().fenced += 1;
            false
        }
        Ok(Outcome::MineEarlier(_)) => panic!("no outcome was unclear"),
        Err(error) if error.kind() == ErrorKind::Fenced => false,
        Err(error) => panic!("{error}"),
    }
}

/// What a subtask writes for `id`, and the checkpoint that names it.
async fn checkpointed(job: &JobStore, id: CheckpointId, epoch: LeaderEpoch) -> Decision {
    let snapshot = write_one(job, &file_name(id.0, 0, epoch, 1), Place::Checkpoint, "x").await;
    complete(checkpoint(vec![snapshot], &[]))
}

async fn sweep(job: &JobStore, permit: &mut DeletePermit, leader: &Leadership, told: &Shared) {
    match job.sweep(permit, &leader.view()).await {
        Ok(report) => assert!(report.warnings.is_empty(), "{:?}", report.warnings),
        Err(error) if error.kind() == ErrorKind::Fenced => told.borrow_mut().fenced += 1,
        Err(error) => panic!("{error}"),
    }
}

/// What an established leader does: two decisions and a sweep.
async fn old_leader(job: JobStore, mut claim: Claim, told: Shared, script: Vec<Step>) {
    for step in script {
        let (id, epoch) = (claim.leadership.next_id(), claim.leadership.epoch());
        let goes_on = match step {
            Step::Complete => {
                let decision = checkpointed(&job, id, epoch).await;
                decide(&job, &mut claim.leadership, &told, decision).await
            }
            Step::Write => {
                checkpointed(&job, id, epoch).await;
                true
            }
            Step::Abort => decide(&job, &mut claim.leadership, &told, failed()).await,
            Step::Sweep => {
                sweep(&job, &mut claim.deletes, &claim.leadership, &told).await;
                true
            }
        };
        if !goes_on {
            return;
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Complete,
    /// Writes for the next checkpoint, as subtasks do while the one before is swept up after.
    Write,
    Abort,
    Sweep,
}

/// A new leader: claims, then what an established one does.
async fn new_leader(job: JobStore, nonce: u64, told: Shared, script: Vec<Step>) {
    match job.claim(Nonce(nonce)).await {
        Ok(claim) => {
            told.borrow_mut().claimed.push(claim.leadership.epoch());
            old_leader(job, claim, told, script).await;
        }
        Err(error) if error.kind() == ErrorKind::Fenced => told.borrow_mut().fenced += 1,
        Err(error) => panic!("{error}"),
    }
}

/// A job whose leader (epoch 1) has completed 2 and aborted 3. Its claim.
fn established(store: &Arc<dyn ObjectStore>) -> Claim {
    let job = job_over(store.clone());
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    let decision = block_on(checkpointed(&job, CheckpointId(2), LeaderEpoch(1)));
    block_on(job.decide(&mut claim.leadership, CheckpointId(2), decision)).unwrap();
    block_on(job.decide(&mut claim.leadership, CheckpointId(3), failed())).unwrap();
    claim
}

fn old(store: &Arc<dyn ObjectStore>, told: &Shared, script: &[Step]) -> Leader {
    let (claim, told, script) = (established(store), told.clone(), script.to_vec());
    leader(store, |job| old_leader(job, claim, told, script))
}

fn new(store: &Arc<dyn ObjectStore>, told: &Shared, nonce: u64, script: &[Step]) -> Leader {
    let (told, script) = (told.clone(), script.to_vec());
    leader(store, |job| new_leader(job, nonce, told, script))
}

/// A leader that `make` makes, over listings that take a step for each entry.
fn torn(
    store: &Arc<dyn ObjectStore>,
    order: Order,
    make: impl FnOnce(&Arc<dyn ObjectStore>) -> Leader,
) -> Leader {
    let listed = Arc::new(AtomicU64::new(0));
    let slow: Arc<dyn ObjectStore> = Arc::new(TornListing {
        inner: store.clone(),
        listed: listed.clone(),
        order,
    });
    Leader {
        listed: Some(listed),
        ..make(&slow)
    }
}

use Step::{Abort, Complete, Sweep, Write};

#[test]
fn an_old_leader_that_decides_and_sweeps_while_a_new_one_claims_and_does_the_same() {
    let states = every_schedule(
        |store, told| {
            vec![
                old(store, told, &[Complete, Sweep, Abort]),
                new(store, told, 2, &[Complete, Sweep, Complete]),
            ]
        },
        |_, _, _| {},
    );
    assert!(states > 500, "{states} states");
}

/// The claimer's stale write may fall into the hole that the old leader's sweep leaves at 4.
#[test]
fn a_claim_never_counts_in_a_hole() {
    let states = every_schedule(
        |store, told| {
            let script = [Abort, Complete, Sweep, Complete];
            vec![old(store, told, &script), new(store, told, 2, &[Complete])]
        },
        |_, _, _| {},
    );
    assert!(states > 500, "{states} states");
}

#[test]
fn an_abort_that_is_newer_than_every_complete_one_leaves_no_hole() {
    let states = every_schedule(
        |store, told| {
            vec![
                old(store, told, &[Sweep, Abort, Sweep, Complete]),
                new(store, told, 2, &[Complete]),
            ]
        },
        |_, _, _| {},
    );
    assert!(states > 200, "{states} states");
}

#[test]
fn a_listing_that_the_old_leader_overtakes_changes_nothing() {
    let states = every_schedule(
        |store, told| {
            let claimer = torn(store, Order::Downwards, |store| new(store, told, 2, &[Complete]));
            vec![old(store, told, &[Complete, Sweep, Complete, Sweep]), claimer]
        },
        |_, _, _| {},
    );
    assert!(states > 5000, "{states} states");
}

#[test]
fn a_sweep_that_the_new_leader_overtakes_deletes_nothing_of_it() {
    let states = every_schedule(
        |store, told| {
            let sweeper = torn(store, Order::Upwards, |store| {
                old(store, told, &[Complete, Write, Sweep])
            });
            vec![sweeper, new(store, told, 2, &[Complete])]
        },
        |_, _, _| {},
    );
    assert!(states > 500, "{states} states");
}

#[test]
fn two_new_leaders_at_once_while_the_old_one_decides() {
    let states = every_schedule(
        |store, told| {
            vec![
                old(store, told, &[Complete]),
                new(store, told, 2, &[Abort]),
                new(store, told, 3, &[Complete]),
            ]
        },
        |_, _, _| {},
    );
    assert!(states > 5000, "{states} states");
}

/// A process that dies between any two operations: whoever claims next finds what was complete, and after its
/// sweep the store holds that, the claims, and nothing else.
#[test]
fn after_a_crash_at_any_step_a_fresh_leader_finds_the_newest_and_cleans_up() {
    let copy = |seen: &Seen, from: &Arc<dyn ObjectStore>| {
        let to: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        for path in &seen.paths {
            write_raw(&to, path, read_raw(from, path));
        }
        to
    };
    let mut checked = std::collections::BTreeSet::new();
    every_schedule(
        |store, told| {
            vec![
                old(store, told, &[Complete, Sweep]),
                new(store, told, 2, &[Complete, Sweep]),
            ]
        },
        |store, seen, checker| {
            // Most prefixes lead to a store that was seen before.
            let content: Vec<_> = seen
                .decisions
                .values()
                .map(|d| (d.header.id, d.header.epoch, d.complete().is_some()))
                .collect();
            if !checked.insert((content, seen.paths.clone())) {
                return;
            }
            let store = copy(seen, store);
            let job = job_over(store.clone());
            let mut claim = block_on(job.claim(Nonce(99))).unwrap();
            let newest = match &claim.newest {
                Newest::Complete(object) => Some(object.header.id),
                other => panic!("{other:?}"),
            };
            assert_eq!(newest, checker.newest);
            let view = claim.leadership.view();
            block_on(job.sweep(&mut claim.deletes, &view)).unwrap();
            let left = look(&store);
            let newest = &left.decisions[&newest.unwrap()];
            let named = NamedFiles::of(newest.complete().unwrap());
            for path in &left.paths {
                let stays = match layout::parse(path) {
                    Entry::Metadata(id) => {
                        let object = &left.decisions[&id];
                        id >= newest.header.id
                            || matches!(object.decision, Decision::Aborted(AbortCause::Claim))
                    }
                    Entry::State { .. } => named.contains(path),
                    _ => false,
                };
                assert!(stays, "{path} is left over");
            }
        },
    );
    assert!(checked.len() > 20, "{} states", checked.len());
}
