//! A job master dies, its tasks run on, another one leads them.
//!
//! Owns: parting a process's master from its tasks, starting another over them, and the old one's afterlife: what it
//! had asked of the store may still be served, and it may wake and say things. Does not own: what has to come of that.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_protocol::coordinator::{Decision, RequestDone, RequestFailure, RequestId};
use tidegate_protocol::message::ToTask;
use tidegate_runtime::clock::Clock;
use tidegate_runtime::error::BoxError;
use tidegate_runtime::graph::{Attempt, RestorePlan};
use tidegate_runtime::master::{
    IoReply, IoRequest, JobMaster, JobState, MasterEnv, MasterEvent, Report, Running, StoreWorker,
};
use tidegate_types::snapshot::SubtaskSnapshot;
use tidegate_types::{AttemptNumber, EventTime, LeaderEpoch, Nanos, SubtaskId};

use crate::env::Ended;
use crate::process::{Process, Shared, leader, post};
use crate::seed::Seed;

/// A master that leads nothing any more and doesn't know.
pub struct Ghost {
    master: JobMaster,
    worker: Arc<StoreWorker>,
    world: GhostEnv,
}

struct GhostEnv {
    shared: Shared,
    tasks: Vec<SubtaskId>,
    attempt: AttemptNumber,
    said: Vec<(LeaderEpoch, SubtaskId, ToTask)>,
    requests: Vec<IoRequest>,
    ended: Option<Ended>,
}

impl Process {
    /// Another master takes the place of the one that is there. What is on its way to the old one is lost; what it
    /// has sent to tasks is still delivered.
    ///
    /// # Panics
    /// If nothing was deployed yet.
    pub fn take_over(&mut self, seed: Seed) -> Ghost {
        let attempt = self.env.deployed.expect("something runs");
        self.env.wires.lose_unheard();
        let ended: BTreeSet<SubtaskId> = self.finished.keys().copied().collect();
        let current = self.env.tasks.iter().filter(|t| t.lane().0 == attempt.number);
        let tasks: Vec<SubtaskId> = current.map(|t| t.id()).collect();
        let running = Running {
            attempt,
            alive: tasks.iter().copied().filter(|id| !ended.contains(id)).collect(),
            finished: self.finished.clone().into_iter().collect(),
        };
        let (master, worker) = leader(&self.job, self.store(), seed, Some(running));
        let shared = self.shared().clone();
        shared.note("another master takes over");
        let ghost = Ghost {
            master: std::mem::replace(&mut self.master, master),
            worker: std::mem::replace(&mut self.env.worker, worker),
            world: GhostEnv {
                shared,
                tasks,
                attempt: attempt.number,
                said: Vec::new(),
                requests: std::mem::take(&mut self.env.requests),
                ended: None,
            },
        };
        self.env.replies.clear();
        self.env.state = JobState::Created;
        self.tell(MasterEvent::Start);
        ghost
    }

    /// Whether the master has asked for a decision that a checkpoint is complete.
    pub fn wants_to_complete(&self) -> bool {
        let complete = |request: &IoRequest| {
            matches!(
                request,
                IoRequest::Decide {
                    decision: Decision::Complete(_),
                    ..
                }
            )
        };
        self.env.requests.iter().any(complete)
    }

    /// Answers of the store that the master hasn't heard.
    pub fn replies(&self) -> usize {
        self.env.replies.len()
    }

    /// Lets a ghost go on: everything it asks for is served, and everything it says is on its way to the tasks. Returns
    /// what the store answered.
    pub fn haunt(&mut self, ghost: &mut Ghost) -> Vec<String> {
        let mut answers = Vec::new();
        // It asks again what fails for a moment; what is fenced fails for good, so this ends.
        for _ in 0..100 {
            let Some(request) = (!ghost.world.requests.is_empty()).then(|| ghost.world.requests.remove(0))
            else {
                break;
            };
            let reply = ghost.worker.perform(request, ghost.world.shared.clock.wall_ms());
            answers.push(describe(&reply));
            ghost.master.on_event(&mut ghost.world, MasterEvent::Io(reply));
        }
        ghost.master.on_event(&mut ghost.world, MasterEvent::Timeout);
        for (from, to, message) in ghost.world.said.drain(..) {
            post(&mut self.env.to_tasks, to, &(from, message));
        }
        answers
    }
}

impl Ghost {
    /// How it thinks that the job ended.
    pub fn ended(&self) -> Option<&Ended> {
        self.world.ended.as_ref()
    }

    /// What it had asked of the store and wasn't served.
    pub fn requests(&self) -> &[IoRequest] {
        &self.world.requests
    }

    /// Its tasks are gone, as far as it is concerned.
    pub fn lose_tasks(&mut self) {
        for id in self.world.tasks.clone() {
            let gone = MasterEvent::TaskGone(id, self.world.attempt);
            self.master.on_event(&mut self.world, gone);
        }
    }
}

fn describe(reply: &IoReply) -> String {
    match reply {
        IoReply::Decided { id, outcome } => format!("decided {id} {outcome:?}"),
        IoReply::Committed { id, result } => {
            format!("committed {id} {}", if result.is_ok() { "ok" } else { "failed" })
        }
        other => format!("{other:?}"),
    }
}

impl MasterEnv for GhostEnv {
    fn now(&self) -> Nanos {
        self.shared.clock.now()
    }

    fn wall_ms(&self) -> EventTime {
        self.shared.clock.wall_ms()
    }

    fn send(&mut self, from: LeaderEpoch, to: SubtaskId, message: ToTask) {
        self.said.push((from, to, message));
    }

    fn request(&mut self, request: IoRequest) {
        self.requests.push(request);
    }

    fn deploy(
        &mut self,
        _: Attempt,
        _: Option<Arc<RestorePlan>>,
    ) -> Result<Vec<(SubtaskId, SubtaskSnapshot)>, BoxError> {
        Err("a ghost deploys nothing".into())
    }

    fn cancel_tasks(&mut self, from: LeaderEpoch) {
        for task in self.tasks.clone() {
            self.said.push((from, task, ToTask::Cancel));
        }
    }

    fn answer(&mut self, _: RequestId, _: Result<RequestDone, RequestFailure>) {}

    fn report(&mut self, report: Report) {
        self.shared.note(&format!("ghost: {report:?}"));
    }

    fn ended(&mut self, outcome: Ended) {
        self.ended = Some(outcome);
    }
}
