//! One run of one seed: a safety phase with faults, then a liveness phase without, which must come to its end.

use std::sync::atomic::Ordering;

use tidegate_protocol::coordinator::Request;
use tidegate_runtime::master::{JobError, JobOutcome};
use tidegate_storage::Nonce;

use crate::checks;
use crate::clock::SimClock;
use crate::faults::{FaultMix, Faults, Without};
use crate::people::People;
use crate::process::Ended;
use crate::scenario::{Scenario, Tools};
use crate::seed::{Rng, Seed};
use crate::sim::{Pace, Sim, Turn};
use crate::topology::Size;
use crate::trace::{Trace, Violations};

/// Turns in which a job must end once nothing goes wrong any more.
const LIVENESS_TURNS: u64 = 400_000;

/// Processes that one run starts at most.
const MAX_PROCESSES: u32 = 60;

/// What a run is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether the whole trace is kept.
    pub trace: bool,
    /// Faults that never happen.
    pub without: Without,
    /// Whether nobody asks for savepoints, stops or drains the job.
    pub unattended: bool,
    /// How large a drawn job may be.
    pub size: Size,
}

impl Options {
    /// Nothing goes wrong.
    pub fn faultless() -> Self {
        Self {
            without: Without::everything(),
            ..Self::default()
        }
    }
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What was run.
    pub scenario: String,
    /// What went wrong on purpose.
    pub mix: FaultMix,
    /// The trace's hash.
    pub hash: u64,
    /// Turns it took.
    pub turns: u64,
    /// Processes that were started.
    pub processes: u32,
    /// Promises that were broken.
    pub violations: Vec<String>,
    /// The trace's tail, or all of it.
    pub trace: Vec<String>,
}

impl Report {
    /// Whether every promise was kept.
    pub fn is_ok(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Draws the scenario of a run.
pub type Draw<'a> = &'a dyn Fn(&mut Rng, Tools) -> Box<dyn Scenario>;

/// Runs one seed.
pub fn run(seed: u64, draw: Draw<'_>, options: Options) -> Report {
    let root = Seed(seed);
    let mut rng = root.child("plan").rng();
    let mix = FaultMix::draw(&mut rng).without(options.without);
    let faults = Faults::new(mix, root.child("faults"));
    let violations = Violations::default();
    let clock = SimClock::new();
    let trace = Trace::new(options.trace);
    let tools = Tools {
        clock: clock.clone(),
        faults: faults.clone(),
        violations: violations.clone(),
    };
    let scenario = draw(&mut root.child("scenario").rng(), tools);
    let mut sim = Sim::new(root.child("sim"), faults, violations, clock, trace);
    sim.pace = Pace::draw(&mut rng);
    if let Some(burst) = scenario.burst() {
        sim.shared().burst.store(burst, Ordering::Relaxed);
    }
    let people = if options.unattended {
        People::nobody()
    } else {
        People::draw(root.child("people"), scenario.can_be_cut_short())
    };
    let mut course = Course {
        sim,
        scenario: &*scenario,
        seed: root,
        rng,
        people,
        done: false,
    };
    course.safety();
    course.liveness();
    course.finish();
    let sim = course.sim;
    Report {
        seed,
        scenario: scenario.describe(),
        mix,
        hash: sim.shared().trace.hash(),
        turns: sim.turns(),
        processes: sim.started(),
        violations: sim.shared().violations.all(),
        trace: sim.shared().trace.kept(),
    }
}

struct Course<'a> {
    sim: Sim,
    scenario: &'a dyn Scenario,
    seed: Seed,
    rng: Rng,
    people: People,
    done: bool,
}

impl Course<'_> {
    fn ok(&self) -> bool {
        self.sim.shared().violations.is_empty()
    }

    fn start(&mut self) {
        let start = self.seed.child("start").nth(u64::from(self.sim.started()));
        let job = self.scenario.build(start);
        if self.sim.started() == 0 {
            let witness = checks::commits::witness(self.sim.shared().store.clone(), &job.graph.job);
            self.scenario.set_witness(witness);
        }
        self.sim.start(job);
    }

    fn safety(&mut self) {
        let turns = self.rng.pick(&[500u64, 3_000, 10_000]);
        for _ in 0..turns {
            if self.done || !self.ok() || self.sim.started() >= MAX_PROCESSES {
                return;
            }
            if self.sim.processes().is_empty() {
                self.start();
            }
            if self.rng.chance(1, 2_000) {
                self.sim.pace = Pace::draw(&mut self.rng);
            }
            if self.sim.shared().faults.crashes() {
                let at = self.rng.index(self.sim.processes().len());
                self.sim.crash(at);
                continue;
            }
            if self.sim.shared().faults.takes_over() && self.sim.processes().len() < 3 {
                self.start();
            }
            if let Some(what) = self.people.wants() {
                if matches!(what, Request::Drain { .. }) {
                    self.scenario.on_cut_short();
                }
                self.sim.newest().request(what);
            }
            if self.sim.turn() == Turn::Stuck {
                self.sim
                    .shared()
                    .violations
                    .note("nothing can happen any more and the job hasn't ended");
            }
            self.reap();
        }
    }

    fn liveness(&mut self) {
        self.sim.shared().faults.stop();
        self.sim.shared().note("faults are off");
        self.sim.pace = Pace::even();
        // Two that take the job from each other may do so for ever; leases are to see that one is left.
        while self.sim.processes().len() > 1 {
            self.sim.crash(0);
        }
        // Whoever is there may be stuck behind a fault of before, but never for good.
        for _ in 0..LIVENESS_TURNS {
            if self.done || !self.ok() {
                return;
            }
            if self.sim.processes().is_empty() {
                self.start();
            }
            if self.sim.turn() == Turn::Stuck {
                self.sim
                    .shared()
                    .violations
                    .note("nothing can happen any more and the job hasn't ended");
            }
            self.reap();
        }
        self.sim.shared().violations.note(format!(
            "the job didn't end within {LIVENESS_TURNS} turns without faults"
        ));
    }

    fn reap(&mut self) {
        for (name, ended) in self.sim.reap() {
            self.judge(name, ended);
        }
    }

    fn judge(&mut self, name: u32, ended: Ended) {
        match ended {
            Ok(JobOutcome::Finished | JobOutcome::AlreadyFinished(_)) => {
                self.done = true;
                self.check_tidiness();
            }
            // Whoever stopped it starts it again.
            Ok(JobOutcome::Suspended) if self.people.may_suspend() => {}
            Ok(outcome) => self
                .sim
                .shared()
                .violations
                .note(format!("process {name} ended: {outcome:?}")),
            // The store was made to fail, or two processes met: whoever looks after the job starts it again.
            Err(JobError::Store(_) | JobError::Deposed(_)) => {}
            Err(JobError::Settle { reason, .. })
                if ["injected", "newer leadership", "FaultStore"]
                    .iter()
                    .any(|known| reason.contains(known)) => {}
            Err(error) => {
                if self.sim.shared().faults.is_on() && error.to_string().contains("FaultStore") {
                    return;
                }
                self.sim
                    .shared()
                    .violations
                    .note(format!("process {name} ended: {error}"));
            }
        }
    }

    /// With faults a deletion may have failed, or another process have left something meanwhile.
    fn check_tidiness(&self) {
        let shared = self.sim.shared();
        if !shared.faults.is_on() && self.sim.processes().is_empty() {
            let job = self.scenario.build(self.seed).graph.job.clone();
            for left in checks::store::leftovers(shared.store.clone(), &job) {
                shared.violations.note(left);
            }
        }
    }

    fn finish(&mut self) {
        if !self.ok() {
            return;
        }
        self.sim.crash_all();
        let shared = self.sim.shared().clone();
        let problems = self.scenario.problems();
        let job = self.scenario.build(self.seed).graph.job.clone();
        let damaged = checks::store::incomplete_manifests(shared.store.clone(), &job);
        let orphans = checks::store::orphans(shared.store.clone(), &job, Nonce(self.seed.child("last").0));
        for problem in problems.into_iter().chain(damaged).chain(orphans) {
            shared.violations.note(problem);
        }
    }
}
