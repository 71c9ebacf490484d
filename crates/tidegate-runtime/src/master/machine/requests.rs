//! What people ask a job for while it starts, runs or stops.
//!
//! Owns: who has to wait until all tasks run, and who is refused. Does not own: what a request means (the coordinator).

use tidegate_protocol::coordinator::{Coordinator, CoordinatorEvent, Request, RequestFailure, RequestId};

use super::super::env::MasterEnv;
use super::{JobMaster, Phase};

/// How many requests wait for the start at most.
const MAX_EARLY: usize = 32;

impl JobMaster {
    pub(super) fn on_request(&mut self, env: &mut dyn MasterEnv, id: RequestId, what: Request) {
        match self.phase {
            Phase::Created | Phase::Claiming | Phase::Settling | Phase::TakingOver | Phase::Running => {}
            Phase::Stopping | Phase::Waiting(_) | Phase::Closing | Phase::Ended => {
                return refuse(
                    env,
                    id,
                    "the job isn't running at the moment; try again when it is",
                );
            }
        }
        self.requests.insert(id);
        if self.is_up() {
            self.pass_on(env, id, what);
        } else if self.early.len() < MAX_EARLY {
            self.early.push_back((id, what));
        } else {
            self.requests.remove(&id);
            refuse(
                env,
                id,
                "many requests wait for the job's start already; try again when it runs",
            );
        }
    }

    /// Hands what waits for the start to the coordinator once it can begin with it.
    pub(super) fn pass_on_early(&mut self, env: &mut dyn MasterEnv) {
        while !self.early.is_empty() && self.is_up() {
            if let Some((id, what)) = self.early.pop_front() {
                self.pass_on(env, id, what);
            }
        }
    }

    /// The attempt ends before it was up.
    pub(super) fn refuse_early(&mut self, env: &mut dyn MasterEnv) {
        for (id, _) in std::mem::take(&mut self.early) {
            self.requests.remove(&id);
            refuse(
                env,
                id,
                "the job stopped before all its tasks ran; try again when it runs",
            );
        }
    }

    fn is_up(&self) -> bool {
        self.phase == Phase::Running && self.coordinator.as_ref().is_some_and(Coordinator::is_up)
    }

    fn pass_on(&mut self, env: &mut dyn MasterEnv, id: RequestId, what: Request) {
        if matches!(what, Request::Suspend { .. }) {
            self.suspends.insert(id);
        }
        self.tell(env, CoordinatorEvent::Request { request: id, what });
    }
}

fn refuse(env: &mut dyn MasterEnv, id: RequestId, reason: &str) {
    let reason = reason.to_owned();
    env.answer(id, Err(RequestFailure::Refused { reason }));
}
