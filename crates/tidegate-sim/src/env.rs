//! What a simulated process does for its job master: effects become entries in queues.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tidegate_protocol::coordinator::{RequestDone, RequestFailure, RequestId};
use tidegate_protocol::message::ToTask;
use tidegate_runtime::clock::Clock;
use tidegate_runtime::error::BoxError;
use tidegate_runtime::graph::{Attempt, DeployContext, JobGraph, RestorePlan};
use tidegate_runtime::master::{
    Executor, IoReply, IoRequest, JobError, JobOutcome, JobState, MasterEnv, MasterEvent, Report, StoreIo,
    StoreWorker, task_options,
};
use tidegate_types::options::Settings;
use tidegate_types::snapshot::SubtaskSnapshot;
use tidegate_types::{AttemptNumber, EventTime, LeaderEpoch, Nanos, SubtaskId};

use crate::driven::Driven;
use crate::process::{ProcessWires, Shared, ToTasks, post};

/// How a job ended in one process.
pub type Ended = Result<JobOutcome, JobError>;

/// The environment of one process's master.
pub(crate) struct SimEnv {
    name: u32,
    graph: Arc<JobGraph>,
    settings: Settings,
    pub(crate) worker: Arc<StoreWorker>,
    shared: Shared,
    pub(crate) wires: ProcessWires,
    pub(crate) to_tasks: ToTasks,
    pub(crate) requests: Vec<IoRequest>,
    pub(crate) replies: VecDeque<IoReply>,
    pub(crate) tasks: Vec<Driven>,
    pub(crate) attempt: AttemptNumber,
    /// What was deployed last.
    pub(crate) deployed: Option<Attempt>,
    pub(crate) abandon_at: Option<Nanos>,
    pub(crate) answers: BTreeMap<RequestId, Result<RequestDone, RequestFailure>>,
    pub(crate) state: JobState,
    pub(crate) ended: Option<Ended>,
}

impl SimEnv {
    pub(crate) fn new(
        name: u32,
        graph: Arc<JobGraph>,
        settings: Settings,
        worker: Arc<StoreWorker>,
        shared: Shared,
    ) -> Self {
        Self {
            name,
            graph,
            settings,
            worker,
            shared,
            wires: ProcessWires::default(),
            to_tasks: ToTasks::new(),
            requests: Vec::new(),
            replies: VecDeque::new(),
            tasks: Vec::new(),
            attempt: AttemptNumber(0),
            deployed: None,
            abandon_at: None,
            answers: BTreeMap::new(),
            state: JobState::Created,
            ended: None,
        }
    }

    fn note(&self, line: &str) {
        self.shared.note(&format!("p{} {line}", self.name));
    }

    /// Tasks whose user code didn't come back in time count no more. They may still run.
    pub(crate) fn abandon(&mut self) -> Vec<MasterEvent> {
        self.abandon_at = None;
        let attempt = self.attempt;
        let mut events = Vec::new();
        for task in self.tasks.iter_mut().filter(|t| t.lane().0 == attempt) {
            if !task.abandon() {
                continue;
            }
            self.shared
                .note(&format!("p{} abandons {}", self.name, task.label()));
            events.push(MasterEvent::TaskGone(task.id(), attempt));
        }
        events
    }

    fn deploy_context(&self, attempt: Attempt, restore: Option<Arc<RestorePlan>>) -> DeployContext {
        let io = StoreIo::new(
            self.worker.store().clone(),
            Executor::Inline,
            Arc::new(self.wires.clone()),
            attempt.number,
            self.settings.checkpoints.inline_threshold.bytes(),
            self.worker.writer_nonces(),
        );
        let (outputs, budget, task) = task_options(&self.settings, &self.graph);
        let wires = self.wires.clone();
        DeployContext {
            clock: self.shared.clock.clone(),
            io,
            outputs,
            budget,
            task,
            outbox: Box::new(move |id| wires.outbox((attempt.number, id))),
            restore,
        }
    }
}

impl MasterEnv for SimEnv {
    fn now(&self) -> Nanos {
        self.shared.clock.now()
    }

    fn wall_ms(&self) -> EventTime {
        self.shared.clock.wall_ms()
    }

    fn send(&mut self, from: LeaderEpoch, to: SubtaskId, message: ToTask) {
        post(&mut self.to_tasks, to, &(from, message));
    }

    fn request(&mut self, request: IoRequest) {
        self.requests.push(request);
    }

    fn deploy(
        &mut self,
        attempt: Attempt,
        restore: Option<Arc<RestorePlan>>,
    ) -> Result<Vec<(SubtaskId, SubtaskSnapshot)>, BoxError> {
        self.note(&format!(
            "deploys attempt {} epoch {}",
            attempt.number, attempt.epoch
        ));
        self.attempt = attempt.number;
        self.deployed = Some(attempt);
        self.abandon_at = None;
        self.to_tasks.clear();
        // Whoever was abandoned in user code comes back some time; everybody else is gone.
        self.tasks.retain(Driven::is_abandoned);
        let cx = self.deploy_context(attempt, restore);
        let deployment = self.graph.deploy(attempt, &cx)?;
        self.tasks.extend(
            deployment
                .tasks
                .into_iter()
                .map(|d| Driven::new(d, attempt.number)),
        );
        Ok(deployment.finished)
    }

    fn cancel_tasks(&mut self, from: LeaderEpoch) {
        let attempt = self.attempt;
        for task in self
            .tasks
            .iter()
            .filter(|t| t.lane().0 == attempt && t.is_alive())
        {
            post(&mut self.to_tasks, task.id(), &(from, ToTask::Cancel));
        }
        self.abandon_at = self.settings.tasks.cancellation_timeout.map(|t| self.now() + t);
    }

    fn answer(&mut self, request: RequestId, result: Result<RequestDone, RequestFailure>) {
        self.note(&format!("answers request {}: {result:?}", request.0));
        if self.answers.insert(request, result).is_some() {
            self.shared
                .violations
                .note(format!("request {} was answered twice", request.0));
        }
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::State(state) => {
                self.note(&format!("job is {state:?}"));
                self.state = state;
            }
            Report::Attempt(_) => {}
            Report::Failure { subtask, error } => self.note(&format!("failure of {subtask:?}: {error}")),
            Report::Trace(event) => self.note(&format!(
                "checkpoint {:?} {:?}",
                event.id.map(|i| i.0),
                event.step
            )),
            Report::Warning(text) => self.note(&format!("warning: {text}")),
        }
    }

    fn ended(&mut self, outcome: Ended) {
        self.note(&format!(
            "ended: {}",
            match &outcome {
                Ok(outcome) => format!("{outcome:?}"),
                Err(error) => error.to_string(),
            }
        ));
        self.graph.job_ended();
        self.ended = Some(outcome);
    }
}
