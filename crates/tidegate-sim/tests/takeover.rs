//! C17: the coordinator dies after assigning a split and before the next checkpoint; readers run on; another one takes
//! over. No split is read twice or never, no task restarts, and the old one can neither decide nor commit any more.

use std::time::Duration;

use tidegate_runtime::master::{IoRequest, JobError, JobOutcome, JobState};
use tidegate_sim::clock::SimClock;
use tidegate_sim::faults::Faults;
use tidegate_sim::process::Ended;
use tidegate_sim::scenario::{Scenario, Tools};
use tidegate_sim::seed::{Rng, Seed};
use tidegate_sim::sim::{Pace, Sim, Turn};
use tidegate_sim::takeover::Ghost;
use tidegate_sim::trace::{Trace, Violations};
use tidegate_sim::words::WordCount;

struct World {
    sim: Sim,
    scenario: WordCount,
    seed: Seed,
    rng: Rng,
}

impl World {
    fn new(seed: u64) -> Self {
        let seed = Seed(seed);
        let (clock, faults, violations) = (SimClock::new(), Faults::none(), Violations::default());
        let tools = Tools {
            clock: clock.clone(),
            faults: faults.clone(),
            violations: violations.clone(),
        };
        let scenario = WordCount::draw(&mut seed.child("scenario").rng(), tools);
        let mut rng = seed.child("plan").rng();
        let mut sim = Sim::new(
            seed.child("sim"),
            faults,
            violations,
            clock,
            Trace::new(std::env::var("T").is_ok()),
        );
        sim.pace = Pace::draw(&mut rng);
        sim.start(scenario.build(seed));
        Self {
            sim,
            scenario,
            seed,
            rng,
        }
    }

    fn runs(&mut self) -> bool {
        self.sim.until(100_000, |sim| {
            sim.newest().state() == JobState::Running || sim.newest().ended().is_some()
        }) && self.sim.newest().ended().is_none()
    }

    /// Turns until everything of a checkpoint is acknowledged and its decision isn't written.
    fn decides(&mut self) -> bool {
        let waits = self.sim.until(200_000, |sim| {
            sim.holds.requests = sim.newest().wants_to_complete();
            sim.holds.requests || sim.newest().ended().is_some()
        });
        waits && self.sim.newest().ended().is_none()
    }

    /// Turns until the job ends.
    fn end(&mut self) -> Ended {
        self.sim.pace = Pace::even();
        for _ in 0..400_000 {
            if let Some((_, ended)) = self.sim.reap().pop() {
                return ended;
            }
            assert_ne!(self.sim.turn(), Turn::Stuck, "{}", self.tail());
        }
        panic!("the job doesn't end: {}", self.tail())
    }

    fn check(&mut self, seed: u64) {
        let violations = self.sim.shared().violations.all();
        assert_eq!(violations, [""; 0], "seed {seed}: {}", self.tail());
        let problems = self.scenario.problems();
        assert_eq!(
            problems,
            [""; 0],
            "seed {seed}: {} {}",
            self.scenario.describe(),
            self.tail()
        );
    }

    fn tail(&self) -> String {
        self.sim.shared().trace.kept().join("\n")
    }

    fn take_over(&mut self, nth: u64) -> Ghost {
        let seed = self.seed.child("leader").nth(nth);
        self.sim.newest().take_over(seed)
    }
}

/// At any moment, several times, with ghosts that wake at any moment: every word is counted once, by the same tasks.
#[test]
fn the_tasks_run_on_and_every_split_is_read_once() {
    let mut taken_over = 0;
    for seed in 0..150 {
        let mut world = World::new(seed);
        let mut ghosts = Vec::new();
        for nth in 0..3 {
            let turns = world.rng.range(1, 1_500);
            world.sim.until(turns, |_| false);
            if !world.runs() {
                break;
            }
            taken_over += 1;
            ghosts.push(world.take_over(nth));
            if world.rng.chance(1, 2) {
                // The successor has spoken.
                if !world.runs() {
                    break;
                }
                let turns = world.rng.range(1, 400);
                world.sim.until(turns, |_| false);
                if world.sim.newest().ended().is_some() {
                    break;
                }
                let mut ghost = ghosts.swap_remove(world.rng.index(ghosts.len()));
                world.sim.newest().haunt(&mut ghost);
            }
        }
        let restarts = world.sim.newest().master().restarts();
        let ended = world.end();
        assert!(
            matches!(ended, Ok(JobOutcome::Finished)),
            "seed {seed}: {ended:?} {}",
            world.tail()
        );
        assert_eq!(restarts, 0, "seed {seed}");
        world.check(seed);
    }
    assert!(taken_over > 200, "{taken_over}");
}

/// A ghost that is deposed before its successor has said a word takes the tasks along: they are started again.
#[test]
fn tasks_that_are_stopped_while_they_are_taken_over_are_deployed_again() {
    let mut restarts = 0;
    for seed in 0..60 {
        let mut world = World::new(seed);
        if !world.decides() {
            continue;
        }
        let mut ghost = world.take_over(0);
        world.sim.holds.requests = false;
        world.sim.holds.master = true;
        let claimed = world.sim.until(10_000, |sim| sim.newest().replies() > 0);
        assert!(claimed, "seed {seed}");
        world.sim.holds.master = false;
        world.sim.newest().haunt(&mut ghost);
        let mut seen = 0;
        world.sim.until(400_000, |sim| {
            seen = sim.newest().master().restarts();
            sim.newest().ended().is_some()
        });
        restarts += seen;
        let ended = world.end();
        assert!(
            matches!(ended, Ok(JobOutcome::Finished)),
            "seed {seed}: {ended:?} {}",
            world.tail()
        );
        world.check(seed);
    }
    assert!(restarts > 5, "{restarts}");
}

/// The old one had a decision under way when its successor claimed the job.
#[test]
fn a_ghost_neither_decides_nor_commits() {
    let mut decided = 0;
    for seed in 0..60 {
        let mut world = World::new(seed);
        if !world.decides() {
            continue;
        }
        let mut ghost = world.take_over(0);
        assert!(
            ghost
                .requests()
                .iter()
                .any(|r| matches!(r, IoRequest::Decide { .. }))
        );
        world.sim.holds.requests = false;
        // The successor leads, has given that checkpoint up and deleted its files.
        let led = world
            .sim
            .until(100_000, |sim| sim.newest().state() == JobState::Running);
        assert!(led, "seed {seed}");
        world.sim.pass(Duration::from_secs(2));
        world.sim.until(3_000, |_| false);
        let answers = world.sim.newest().haunt(&mut ghost);
        assert!(
            answers.iter().any(|a| a.contains("Foreign")) && !answers.iter().any(|a| a.contains("Mine")),
            "seed {seed}: {answers:?}"
        );
        ghost.lose_tasks();
        assert!(
            matches!(ghost.ended(), Some(Err(JobError::Deposed(_)))),
            "seed {seed}: {:?}",
            ghost.ended()
        );
        decided += 1;
        let ended = world.end();
        assert!(
            matches!(ended, Ok(JobOutcome::Finished)),
            "seed {seed}: {ended:?} {}",
            world.tail()
        );
        world.check(seed);
    }
    assert!(decided > 20, "{decided}");
}
