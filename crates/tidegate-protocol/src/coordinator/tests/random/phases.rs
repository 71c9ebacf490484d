//! The two parts of a run: with faults, and without.

use tidegate_types::{CheckpointId, SavepointFormat};

use super::steps::Step;
use super::task::{State, Task};
use super::world::World;
use crate::coordinator::last::Ending;
use crate::coordinator::*;

/// How much happens with faults.
const FAULTY_STEPS: usize = 400;
/// Within how many steps without faults the job must have got where it is going. A few hundred are usual.
const BOUND: usize = 20_000;

impl World {
    pub(super) fn with_faults(&mut self) {
        for _ in 0..FAULTY_STEPS {
            let mut steps = self.enabled();
            // Now and then time passes though something could still happen.
            if steps.is_empty() || self.rng.one_in(12) {
                steps = vec![Step::Time];
            }
            match self.rng.below(200) {
                0..3 => steps = vec![Step::Ask],
                3 => steps = vec![Step::RunDry(self.rng.below(self.tasks.len()))],
                4 => steps = vec![Step::Replace],
                5 if self.rng.one_in(4) => steps = vec![Step::Stop],
                _ => {}
            }
            let step = self.rng.pick(&steps);
            self.take(step);
        }
    }

    fn is_over(&self) -> bool {
        let leader = &self.leaders[self.current()];
        let stopping = leader.c.is_drained() || leader.closed;
        leader.failed_job
            || stopping
            || !matches!(
                leader.c.phase,
                Phase::Adopting(_) | Phase::RestoringEnumerators | Phase::Active
            )
    }

    /// Runs without faults until `done`; a job that still fails for what happened before is started again.
    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..BOUND {
            if self.is_over() {
                self.deploy();
                continue;
            }
            if done(self) {
                return;
            }
            let steps = self.enabled();
            let step = if steps.is_empty() {
                Step::Time
            } else {
                self.rng.pick(&steps)
            };
            self.take(step);
        }
        let leader = &self.leaders[self.current()];
        panic!(
            "{what}: no end in {BOUND} steps\n{:#?}\n{:#?}",
            leader.c, self.tasks
        );
    }

    fn until_running(&mut self) {
        self.until("start", |world| {
            let running = world.tasks.iter().all(|task| task.state != State::Starting);
            let leader = &world.leaders[world.current()];
            running && leader.c.phase == Phase::Active && leader.c.tasks.all_started()
        });
    }

    /// The liveness half: a checkpoint completes, then the job drains, then everything it was asked is answered.
    pub(super) fn without_faults(&mut self) {
        self.faults = false;
        self.until_running();
        self.complete_one();
        let savepoint = SavepointOrder {
            format: SavepointFormat::Native,
            target: None,
            unaligned: false,
        };
        let savepoint = if self.rng.one_in(2) { Some(savepoint) } else { None };
        while !self.drain(savepoint.clone()) {
            self.until_running();
        }
        self.summary.saw("drained");
        let leader = &self.leaders[self.current()];
        assert_eq!(leader.asked, leader.answered, "requests without an answer");
        let stuck = self
            .tasks
            .iter()
            .find(|task| task.at_rest.is_some() && task.state != State::Gone);
        assert!(stuck.is_none(), "nobody told it to go on: {stuck:?}");
        self.tell(
            self.current(),
            CoordinatorEvent::Stop {
                discard_retained: false,
            },
        );
        assert!(self.leaders[self.current()].c.is_drained());
    }

    fn complete_one(&mut self) {
        let before = self.store.newest_complete().map(|(id, _)| id);
        let goes_on = |world: &Self| world.store.newest_complete().map(|(id, _)| id) > before;
        let gone = |world: &Self| world.tasks.iter().all(|task| task.state == State::Gone);
        let ending =
            |world: &Self| world.tasks.iter().any(Task::has_ended) && !world.settings.after_tasks_finish;
        let through = |world: &Self| goes_on(world) || gone(world) || ending(world);
        self.until("suspension", |world| {
            world.leaders[world.current()].c.ending != Ending::Suspending
        });
        // What the faults left behind can fail some more (`aborted` is tried again after a second, and the shortest
        // timeout is a twentieth of that); without an interval nobody else asks again.
        for _ in 0..40 {
            self.until_running();
            if through(self) {
                return;
            }
            let l = self.current();
            let request = self.request(Request::Checkpoint { full: false });
            self.until("checkpoint", |world| {
                let leader = &world.leaders[world.current()];
                // Refused because the job is ending: then it ends, unless it fails for what happened before.
                let ending = leader.c.ending != Ending::Not;
                through(world) || world.current() != l || (leader.answered.contains(&request) && !ending)
            });
        }
        let history = self.leaders[self.current()].c.history();
        assert!(
            through(self),
            "many requests failed: {:#?}",
            history.recent().collect::<Vec<_>>()
        );
    }

    /// Lets the job end; whether it did, and wasn't restarted instead.
    fn drain(&mut self, savepoint: Option<SavepointOrder>) -> bool {
        let l = self.current();
        // A suspension under way ends the job, or fails and lets it be drained. An earlier `aborted` whose writing
        // failed holds nothing up any more either.
        self.until("quiet", |world| {
            let c = &world.leaders[world.current()].c;
            let decided = c.undecided.values().all(|pending| pending.is_live());
            world.current() != l || (c.ending != Ending::Suspending && decided)
        });
        if self.current() != l {
            return false;
        }
        let clean = self.leaders[l].c.next_id();
        // One that is pending while tasks end.
        self.request(Request::Checkpoint { full: true });
        self.request(Request::Drain { savepoint });
        self.until("drain", |world| {
            world.current() != l || world.leaders[l].c.is_finished()
        });
        if self.current() == l {
            self.check_clean(clean);
        }
        self.current() == l
    }

    /// Of checkpoints that began when nothing went wrong any more none has failed but for a newer one.
    fn check_clean(&self, since: CheckpointId) {
        let history = self.leaders[self.current()].c.history();
        for stats in history.recent().filter(|stats| stats.id >= since) {
            let reason = stats.failure.as_ref().map(|record| record.reason);
            assert!(
                matches!(reason, None | Some(FailureReason::Subsumed)),
                "{stats:#?}"
            );
        }
    }
}
