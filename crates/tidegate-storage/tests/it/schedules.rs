//! Leaders on one in-memory store, in every order in which their store operations can fall.
//!
//! Each leader runs over its own view of the store, in which every operation takes one step; a schedule says whose step
//! is next, and all schedules are tried. After each step the store itself is compared with what it was:
//! - a decision never changes, and one that comes back at a deleted id is a claim;
//! - the newest complete checkpoint never goes back, and every file that it names is there;
//! - once a claim has returned, nothing completes under an older epoch.
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

/// What leaders tell the checker.
#[derive(Default)]
pub struct Told {
    /// Epochs of claims that have returned.
    pub claimed: Vec<LeaderEpoch>,
    /// Ids that a leader believes it has decided, with its epoch.
    pub mine: Vec<(CheckpointId, LeaderEpoch)>,
    pub fenced: usize,
}

pub type Shared = Rc<RefCell<Told>>;

/// A leader, the operation that it does when it is polled next, and a digest of all that it has seen: it is
/// deterministic, so that is its state.
pub struct Leader {
    pub life: Pin<Box<dyn Future<Output = ()>>>,
    pub next_op: Arc<Mutex<Option<Op>>>,
    pub seen: u64,
    /// Of a leader whose listings take many steps: what they have shown.
    pub listed: Option<Arc<AtomicU64>>,
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
pub fn leader<F>(store: &Arc<dyn ObjectStore>, life: impl FnOnce(JobStore) -> F) -> Leader
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

/// The store as it is: decisions, and all paths.
pub struct Seen {
    pub decisions: BTreeMap<CheckpointId, DecisionObject>,
    pub paths: Vec<String>,
}

pub fn look(store: &Arc<dyn ObjectStore>) -> Seen {
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

pub struct Checker {
    ever: BTreeMap<CheckpointId, DecisionObject>,
    pub newest: Option<CheckpointId>,
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
pub fn every_schedule(
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
