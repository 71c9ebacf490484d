//! Exhaustive search over a small task: every order in which elements can be queued, announced and taken, and
//! messages and timeouts can come in between.
//!
//! Owns: which steps a world of producers and a coordinator can take ([`Setup`]), and walking through all of
//! them, each state once ([`search`]). Does not own what must hold: the [`Model`](super::model::Model) fails on
//! the first violation, and the search adds that nothing is left waiting when nothing moves any more.
//!
//! States are told apart by 64-bit fingerprints (hash compaction): with 10⁸ states the chance that two collide
//! and one goes unvisited is about 3 in 10,000. Everything that can't make a difference any more is left out of
//! a fingerprint (absolute record numbers, barriers of checkpoints that are over, the order of channels of one
//! kind), so a state stands for all histories that lead to it.

mod setup;
mod world;

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use super::Violation;

pub use setup::{Alphabet, Cancels, Plan, Records, Setup};
pub use world::Step;

use world::World;

/// What a search came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Different states.
    pub states: u64,
    /// Steps from one to another.
    pub steps: u64,
    /// States in which nothing can happen any more.
    pub ends: u64,
    /// Checkpoints that completed, over all end states.
    pub completed: u64,
}

impl Figures {
    /// Adds another search's.
    pub fn add(&mut self, other: Self) {
        self.states += other.states;
        self.steps += other.steps;
        self.ends += other.ends;
        self.completed += other.completed;
    }
}

/// A violation with the steps that lead to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counterexample {
    /// What must not happen and does.
    pub violation: Violation,
    /// From the beginning.
    pub steps: Vec<Step>,
    /// In which world.
    pub setup: Setup,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\nin {:?}\nafter", self.violation, self.setup)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step:?}"))
    }
}

/// Visits every state that the setup allows.
///
/// # Errors
/// The first violation found, with the steps to it.
pub fn search(setup: &Setup) -> Result<Figures, Box<Counterexample>> {
    let mut walk = Walk {
        setup,
        visited: Visited::default(),
        path: Vec::new(),
        figures: Figures::default(),
    };
    let world = World::new(setup);
    walk.visited.insert(world.fingerprint());
    walk.figures.states = 1;
    walk.from(&world)?;
    Ok(walk.figures)
}

/// A fingerprint is as good as its own hash.
#[derive(Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("fingerprints are hashed as u64")
    }

    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }
}

type Visited = HashSet<u64, BuildHasherDefault<Itself>>;

struct Walk<'a> {
    setup: &'a Setup,
    visited: Visited,
    path: Vec<Step>,
    figures: Figures,
}

impl Walk<'_> {
    /// Depth first. As deep as a history is long: every channel sends a bounded number of elements, each of which is
    /// announced and taken once.
    fn from(&mut self, world: &World) -> Result<(), Box<Counterexample>> {
        let mut steps = Vec::new();
        world.steps(self.setup, &mut steps);
        if steps.is_empty() {
            self.figures.ends += 1;
            self.figures.completed += world.model.fates().complete.iter().count() as u64;
        }
        if let Err(violation) = world.check_settled(&steps) {
            return Err(self.counterexample(violation));
        }
        for step in steps {
            let mut next = world.clone();
            self.path.push(step);
            self.figures.steps += 1;
            if let Err(violation) = next.take(self.setup, step) {
                return Err(self.counterexample(violation));
            }
            if self.visited.insert(next.fingerprint()) {
                self.figures.states += 1;
                self.from(&next)?;
            }
            self.path.pop();
        }
        Ok(())
    }

    fn counterexample(&self, violation: Violation) -> Box<Counterexample> {
        Box::new(Counterexample {
            violation,
            steps: self.path.clone(),
            setup: self.setup.clone(),
        })
    }
}
