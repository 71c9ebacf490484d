//! Two and three leaders on one directory, in every order in which their store operations can fall (C17).
//!
//! Each leader runs over its own view of one in-memory store, in which every operation takes one step; a schedule says
//! whose step is next, and all schedules are tried. After each step the store itself is compared with what it was:
//! - a decision never changes, and one that comes back at a deleted id is a claim;
//! - the newest complete checkpoint never goes back, and every file that it names is there;
//! - once a claim has returned, nothing completes under an older epoch.
//!
//! A leader that crashes is a schedule that ends early, so every prefix is a crash too: at each of them a fresh claim
//! must find the newest complete checkpoint.
//!
//! Schedules that lead to one state (the store's content, what each leader has seen, what the checker knows) go on
//! the same way, so only the first is followed.

use std::cell::RefCell;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use object_store::ObjectStore;
use object_store::memory::InMemory;
use tidegate_storage::fault::{Fault, FaultStore, Op, OpKind};
use tidegate_storage::layout::{self, Entry};
use tidegate_storage::*;
use tidegate_types::*;

use crate::common::*;
use crate::torn::{Order, TornListing};

/// What leaders tell the checker.
#[derive(Default)]
struct Told {
    /// Epochs of claims that have returned.
    claimed: Vec<LeaderEpoch>,
    /// Ids that a leader believes it has decided, with its epoch.
    mine: Vec<(CheckpointId, LeaderEpoch)>,
    fenced: usize,
}

type Shared = Rc<RefCell<Told>>;

/// A leader, the operation that it does when it is polled next, and a digest of all that it has seen: it is
/// deterministic, so that is its state.
struct Leader {
    life: Pin<Box<dyn Future<Output = ()>>>,
    next_op: Arc<Mutex<Option<Op>>>,
    seen: u64,
    /// Of a leader whose listings take many steps: what they have shown.
    listed: Option<Arc<AtomicU64>>,
}

fn digest(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What `op` will see.
fn outlook(store: &Arc<dyn ObjectStore>, op: &Op) -> u64 {
    if op.kind == OpKind::List {
        return digest(objects(store));
    }
    let path = op.path.strip_prefix("word%20count/").unwrap();
    let content = objects(store)
        .iter()
        .any(|there| there == path)
        .then(|| read_raw(store, path));
    digest((op.kind, path, content))
}

/// A leader over its own view of the store: one operation, one step.
fn leader<F>(store: &Arc<dyn ObjectStore>, life: impl FnOnce(JobStore) -> F) -> Leader
where
    F: Future<Output = ()> + 'static,
{
    let next_op = Arc::new(Mutex::new(None));
    let next = next_op.clone();
    let view = FaultStore::new(store.clone(), move |op| {
        *next.lock().unwrap() = Some(op.clone());
        Fault::delay(1)
    });
    Leader {
        life: Box::pin(life(job_over(Arc::new(view)))),
        next_op,
        seen: 0,
        listed: None,
    }
}

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

/// The store as it is: decisions, and all paths.
struct Seen {
    decisions: BTreeMap<CheckpointId, DecisionObject>,
    paths: Vec<String>,
}

fn look(store: &Arc<dyn ObjectStore>) -> Seen {
    let paths = objects(store);
    let id = |path: &String| match layout::parse(path) {
        Entry::Metadata(id) => Some((id, DecisionObject::decode(&read_raw(store, path)).unwrap())),
        _ => None,
    };
    Seen {
        decisions: paths.iter().filter_map(id).collect(),
        paths,
    }
}

struct Checker {
    ever: BTreeMap<CheckpointId, DecisionObject>,
    newest: Option<CheckpointId>,
    highest_claimed: LeaderEpoch,
}

impl Checker {
    fn digest(&self) -> u64 {
        let ever: Vec<_> = self
            .ever
            .values()
            .map(|object| (object.header.id, object.header.epoch))
            .collect();
        digest((ever, self.newest, self.highest_claimed))
    }

    fn check(&mut self, store: &Arc<dyn ObjectStore>) -> Seen {
        let seen = look(store);
        for (id, now) in &seen.decisions {
            let is_claim = matches!(now.decision, Decision::Aborted(AbortCause::Claim));
            match self.ever.get(id) {
                Some(before) if before == now => continue,
                Some(_) => assert!(
                    is_claim && Some(*id) < self.newest,
                    "the decision on {id} changed"
                ),
                None => {}
            }
            let fenced = now.header.epoch < self.highest_claimed;
            assert!(
                now.complete().is_none() || !fenced,
                "{id} completed under a leader that was fenced"
            );
            self.ever.insert(*id, now.clone());
        }
        let newest = seen
            .decisions
            .iter()
            .rfind(|(_, object)| object.complete().is_some());
        let newest_id = newest.map(|(id, _)| *id);
        assert!(
            newest_id >= self.newest,
            "the newest complete checkpoint was lost"
        );
        self.newest = newest_id;
        if let Some(metadata) = newest.and_then(|(_, object)| object.complete()) {
            for file in NamedFiles::of(metadata).iter() {
                assert!(seen.paths.iter().any(|path| path == file), "{file} is gone");
            }
        }
        seen
    }
}

type SetUp<'a> = &'a dyn Fn(&Arc<dyn ObjectStore>, &Shared) -> Vec<Leader>;
type AtEach<'a> = &'a mut dyn FnMut(&Arc<dyn ObjectStore>, &Seen, &Checker);

/// Runs the leaders that `set_up` makes by a schedule, which is extended by first choices to the end or to a state
/// in `visited`; how many leaders there were to choose from at each step.
fn run(
    schedule: &mut Vec<usize>,
    visited: &mut HashSet<u64>,
    set_up: SetUp<'_>,
    at_each: AtEach<'_>,
) -> Vec<usize> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let told = Shared::default();
    let mut leaders = set_up(&store, &told);
    let mut checker = Checker {
        ever: BTreeMap::new(),
        newest: None,
        highest_claimed: LeaderEpoch(0),
    };
    let mut content = digest(checker.check(&store).paths);
    let mut choices = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    let replayed = schedule.len().saturating_sub(1);
    // Brings each to its first operation.
    leaders.retain_mut(|leader| leader.life.as_mut().poll(&mut context).is_pending());
    while !leaders.is_empty() {
        let at = choices.len();
        choices.push(leaders.len());
        if schedule.len() == at {
            schedule.push(0);
        }
        let leader = &mut leaders[schedule[at]];
        let op = leader.next_op.lock().unwrap().clone().unwrap();
        let torn = leader.listed.clone().filter(|_| op.kind == OpKind::List);
        let outlook = if torn.is_some() { 0 } else { outlook(&store, &op) };
        let done = leader.life.as_mut().poll(&mut context).is_ready();
        leader.seen = digest((leader.seen, outlook, torn.map(|listed| listed.load(Relaxed))));
        if done {
            drop(leaders.remove(schedule[at]));
        }
        // Only a write changes what there is to see.
        if op.kind.is_write() {
            let seen = checker.check(&store);
            content = digest((&seen.paths, format!("{:?}", seen.decisions)));
            at_each(&store, &seen, &checker);
        }
        checker.highest_claimed = told.borrow().claimed.iter().copied().max().unwrap_or_default();
        check_decided_once(&told.borrow());
        let each: Vec<_> = leaders.iter().map(|leader| leader.seen).collect();
        let state = digest((content, each, checker.digest(), &told.borrow().mine));
        if at >= replayed && !visited.insert(state) {
            break;
        }
    }
    choices
}

fn check_decided_once(told: &Told) {
    for (n, (id, epoch)) in told.mine.iter().enumerate() {
        let twice = told.mine[n + 1..]
            .iter()
            .find(|(other, by)| other == id && by != epoch);
        assert!(twice.is_none(), "{id} was decided twice");
    }
}

/// Every schedule, in lexicographic order; how many states there were.
fn every_schedule(
    set_up: impl Fn(&Arc<dyn ObjectStore>, &Shared) -> Vec<Leader>,
    mut at_each: impl FnMut(&Arc<dyn ObjectStore>, &Seen, &Checker),
) -> usize {
    let (mut schedule, mut visited) = (Vec::new(), HashSet::new());
    loop {
        let choices = run(&mut schedule, &mut visited, &set_up, &mut at_each);
        schedule.truncate(choices.len());
        loop {
            match schedule.pop() {
                None => return visited.len(),
                Some(turn) if turn + 1 < choices[schedule.len()] => {
                    schedule.push(turn + 1);
                    break;
                }
                Some(_) => {}
            }
        }
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

use Step::{Abort, Complete, Sweep};

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
                old(store, told, &[Complete, Sweep])
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
