//! The simulated world and its scheduler: one thread, one seed.
//!
//! Owns: what survives a crash (clock, store, trace), the processes, and the choice of what happens next. Does not
//! own: what a job is (a scenario builds it), when a run is over ([`crate::run`]), what a case wants to see.
//!
//! # Driving it
//! [`start`](Sim::start) a job, then [`turn`](Sim::turn) again and again. One turn lets one thing happen: a step of a
//! task, the delivery of a message, a pool job, a request of the master. When nothing can happen time jumps to the
//! next deadline. A case narrows the choice with [`Sim::holds`] and goes on with [`until`](Sim::until).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use tidegate_protocol::coordinator::Request;
use tidegate_runtime::clock::Clock;
use tidegate_types::{Nanos, SubtaskId};

use crate::checks::deleted::DeletionCheck;
use crate::clock::SimClock;
use crate::faults::Faults;
use crate::process::{Ended, Holds, Job, Offer, Process, Shared};
use crate::seed::{Rng, Seed};
use crate::trace::{Trace, Violations};

/// Where savepoints go. Every opening of it is a store of its own: what matters of a savepoint for the job itself is
/// its checkpoint.
pub const SAVEPOINTS: &str = "memory:///savepoints";

/// How fast things go relative to each other; drawn once per run and now and then anew.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Weights of: task steps, mail to tasks, mail to the master, pool jobs, requests, replies.
    weights: [u64; 6],
    /// Time that passes with a turn, at most.
    tick: Duration,
    /// Records of one step, at most.
    fuel: u64,
    /// Time jumps to the next deadline although something could happen, per thousand turns.
    jump: u64,
    /// A task that is slow at the moment, and how often its turn is passed over, in eighths.
    slow: Option<(u64, u64)>,
    /// A checkpoint is asked for, per million turns.
    ask: u64,
}

impl Pace {
    /// Everything at the same speed.
    pub fn even() -> Self {
        Self {
            weights: [1; 6],
            tick: Duration::from_micros(10),
            fuel: 64,
            jump: 0,
            slow: None,
            ask: 0,
        }
    }

    /// Draws one.
    pub fn draw(rng: &mut Rng) -> Self {
        Self {
            weights: std::array::from_fn(|_| rng.pick(&[1, 2, 8, 32])),
            tick: Duration::from_micros(rng.pick(&[1, 20, 200, 1000])),
            fuel: rng.pick(&[1, 3, 16, 200]),
            jump: rng.pick(&[0, 0, 1, 20]),
            slow: rng.chance(1, 2).then(|| (rng.below(64), rng.range(4, 8))),
            ask: rng.pick(&[0, 0, 2_000, 20_000]),
        }
    }
}

/// What a turn came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Something happened.
    Acted,
    /// Nothing could happen; time went on to the next deadline.
    Waited,
    /// Nothing can happen any more.
    Stuck,
    /// A fault killed a process.
    Died,
}

/// The simulated world.
pub struct Sim {
    shared: Shared,
    seed: Seed,
    rng: Rng,
    processes: Vec<Process>,
    started: u32,
    turns: u64,
    /// How fast things go.
    pub pace: Pace,
    /// What is kept from happening.
    pub holds: Holds,
    offers: Vec<Offer>,
}

impl Sim {
    /// An empty world.
    pub fn new(
        seed: Seed,
        faults: Faults,
        violations: Violations,
        clock: Arc<SimClock>,
        trace: Trace,
    ) -> Self {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        Self {
            shared: Shared {
                clock,
                trace,
                violations,
                store,
                deletions: DeletionCheck::default(),
                burst: Arc::new(AtomicU64::new(u64::MAX)),
                faults,
            },
            seed,
            rng: seed.child("scheduler").rng(),
            processes: Vec::new(),
            started: 0,
            turns: 0,
            pace: Pace::even(),
            holds: Holds::default(),
            offers: Vec::new(),
        }
    }

    /// What all processes share.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Turns so far.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Starts a job in a process of its own. The newest process is the last.
    pub fn start(&mut self, job: Job) {
        self.started += 1;
        let seed = self.seed.child("process").nth(u64::from(self.started));
        self.processes
            .push(Process::start(self.started, job, &self.shared, seed));
    }

    /// Processes that are there, the newest last.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// The newest process.
    ///
    /// # Panics
    /// If there is none.
    pub fn newest(&mut self) -> &mut Process {
        self.processes
            .last_mut()
            .expect("a process was started and is there")
    }

    /// How many processes were started.
    pub fn started(&self) -> u32 {
        self.started
    }

    /// A process dies: nothing of it is left but what it made durable.
    pub fn crash(&mut self, index: usize) {
        let process = self.processes.remove(index);
        self.shared.note(&format!("p{} crashes", process.name()));
        drop(process);
    }

    /// Every process dies.
    pub fn crash_all(&mut self) {
        while !self.processes.is_empty() {
            self.crash(0);
        }
    }

    /// Takes away processes whose job has ended; how it ended, in the order of their start.
    pub fn reap(&mut self) -> Vec<(u32, Ended)> {
        let mut ended = Vec::new();
        let mut at = 0;
        while at < self.processes.len() {
            if self.processes[at].ended().is_some() {
                let mut process = self.processes.remove(at);
                // The pool outlives the job: what was asked for is still done.
                process.finish_work();
                ended.extend(process.take_ended().map(|e| (process.name(), e)));
            } else {
                at += 1;
            }
        }
        ended
    }

    /// Lets one thing happen.
    pub fn turn(&mut self) -> Turn {
        self.turns += 1;
        let tick = self.pace.tick.as_nanos() as u64;
        self.shared
            .clock
            .advance(Duration::from_nanos(self.rng.range(1, tick.max(1))));
        if self.rng.chance(self.pace.jump, 1000) {
            self.jump();
        }
        if self.rng.chance(self.pace.ask, 1_000_000)
            && let Some(process) = self.processes.last_mut()
        {
            process.request(Request::Checkpoint { full: false });
        }
        let mut offers = std::mem::take(&mut self.offers);
        let chosen = self.choose(&mut offers);
        self.offers = offers;
        let Some((process, offer)) = chosen else {
            return if self.jump() { Turn::Waited } else { Turn::Stuck };
        };
        let fuel = self
            .holds
            .fuel
            .unwrap_or_else(|| self.rng.range(1, self.pace.fuel) as usize);
        self.processes[process].perform(offer, fuel, &mut self.rng);
        if self.processes[process].is_dead() {
            self.crash(process);
            return Turn::Died;
        }
        Turn::Acted
    }

    /// Time goes on to the next deadline. False if there is none.
    fn jump(&mut self) -> bool {
        let next = self
            .processes
            .iter()
            .filter_map(|p| p.next_deadline(&self.holds))
            .min();
        if let Some(at) = next {
            self.shared.clock.advance_to(at);
        }
        next.is_some()
    }

    /// One of all things that could happen: first which kind, by weight, then which one.
    fn choose(&mut self, offers: &mut Vec<Offer>) -> Option<(usize, Offer)> {
        let count = self.processes.len();
        if count == 0 {
            return None;
        }
        // Several processes take turns as they like; one that has nothing to do passes.
        let first = self.rng.index(count);
        for at in (0..count).map(|n| (first + n) % count) {
            offers.clear();
            self.processes[at].offers(&self.holds, offers);
            self.slow_down(offers);
            let mut counts = [0u64; 6];
            offers.iter().for_each(|o| counts[kind(*o)] += 1);
            let weights: [u64; 6] =
                std::array::from_fn(|k| if counts[k] > 0 { self.pace.weights[k] } else { 0 });
            let Some(chosen) = self.rng.weighted(&weights) else {
                continue;
            };
            let nth = self.rng.index(counts[chosen] as usize);
            let offer = offers.iter().filter(|o| kind(**o) == chosen).nth(nth)?;
            return Some((at, *offer));
        }
        None
    }

    /// Passes over the turn of the slow task, unless it is the only thing that can happen.
    fn slow_down(&mut self, offers: &mut Vec<Offer>) {
        if let Some((task, eighths)) = self.pace.slow
            && offers.len() > 1
            && self.rng.chance(eighths, 8)
        {
            let slow = offers.iter().position(|o| *o == Offer::Step(task as usize));
            if let Some(at) = slow {
                offers.swap_remove(at);
            }
        }
    }

    /// Turns until something holds. False if it didn't within so many turns, or nothing can happen any more.
    pub fn until(&mut self, turns: u64, mut holds: impl FnMut(&mut Self) -> bool) -> bool {
        for _ in 0..turns {
            if holds(self) {
                return true;
            }
            if self.turn() == Turn::Stuck {
                break;
            }
        }
        holds(self)
    }

    /// Lets time pass without anything happening.
    pub fn pass(&mut self, time: Duration) {
        self.shared.clock.advance(time);
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        self.shared.clock.now()
    }

    /// Steps one task of the newest process once. False if it wouldn't be stepped now.
    pub fn step_task(&mut self, id: SubtaskId, fuel: usize) -> bool {
        let now = self.now();
        let holds = Holds::default();
        let mut offers = Vec::new();
        let mut rng = self.rng.clone();
        let process = self.newest();
        process.offers(&holds, &mut offers);
        let at = process
            .tasks()
            .iter()
            .position(|t| t.id() == id && !t.is_abandoned());
        let Some(offer) = at.map(Offer::Step).filter(|o| offers.contains(o)) else {
            return false;
        };
        let _ = now;
        process.perform(offer, fuel, &mut rng);
        true
    }
}

fn kind(offer: Offer) -> usize {
    match offer {
        Offer::Step(_) => 0,
        Offer::ToTask(_) => 1,
        Offer::FromTask(_) => 2,
        Offer::Job(_) => 3,
        Offer::Request(_) => 4,
        Offer::Reply | Offer::Timeout | Offer::Abandon => 5,
    }
}
