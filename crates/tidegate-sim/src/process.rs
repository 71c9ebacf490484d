//! One process of the simulated world: a job master, its tasks, and everything that dies with it.
//!
//! Owns: the master and its environment, the tasks' drivers, messages and pool jobs on their way. What it *could*
//! do next it offers ([`Process::offers`]); which of these happens is the scheduler's choice ([`Process::perform`]).
//! Does not own what survives a crash: the store, the log server, the clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use object_store::ObjectStore;
use tidegate_protocol::coordinator::{Request, RequestDone, RequestFailure, RequestId};
use tidegate_protocol::message::{FromTask, ToTask};
use tidegate_protocol::restart::Restarts;
use tidegate_runtime::clock::Clock;
use tidegate_runtime::driver::threads::panic_text;
use tidegate_runtime::graph::JobGraph;
use tidegate_runtime::master::{
    Executor, JobMaster, JobState, MasterEvent, MasterParts, RestoreChoice, Running, StoreWorker,
    StoreWorkerParts, coordinator_settings, restart_strategy,
};
use tidegate_storage::fault::FaultStore;
use tidegate_storage::{CheckpointStore, Nonces};
use tidegate_types::options::{CheckpointRetention, Settings};
use tidegate_types::{LeaderEpoch, Nanos, SubtaskId};

use crate::brief::{brief, brief_from, brief_reply, brief_request};
use crate::checks::deleted::DeletionCheck;
use crate::clock::SimClock;
use crate::disk::plan;
use crate::driven::{Driven, Phase};
use crate::env::SimEnv;
use crate::faults::{Fate, Faults};
use crate::seed::{Rng, Seed};
use crate::trace::{Trace, Violations};
use crate::wire::{FromWire, Lane, Wires, decode, encode};

/// How a job ended in one process.
pub use crate::env::Ended;

/// What is started in a process.
#[derive(Clone)]
pub struct Job {
    /// The dataflow.
    pub graph: Arc<JobGraph>,
    /// The job's settings.
    pub settings: Settings,
    /// What it starts from.
    pub restore: RestoreChoice,
}

/// What all processes of a world share.
#[derive(Clone)]
pub struct Shared {
    /// The time.
    pub clock: Arc<SimClock>,
    /// What happened.
    pub trace: Trace,
    /// What went wrong.
    pub violations: Violations,
    /// The objects.
    pub store: Arc<dyn ObjectStore>,
    /// What may not be deleted.
    pub deletions: DeletionCheck,
    /// Records that one record or timer of the job may bring out at once, at most; `u64::MAX` if nobody knows.
    pub burst: Arc<AtomicU64>,
    /// What goes wrong on purpose.
    pub faults: Faults,
}

impl Shared {
    /// Notes a line of the trace.
    pub fn note(&self, line: &str) {
        self.trace.note(self.clock.now(), line);
    }
}

/// What a case keeps from happening, to bring about a certain order.
#[derive(Debug, Clone, Default)]
pub struct Holds {
    /// Tasks that aren't stepped.
    pub tasks: BTreeSet<SubtaskId>,
    /// Tasks to which nothing is delivered.
    pub mail: BTreeSet<SubtaskId>,
    /// Snapshots aren't encoded and written.
    pub writes: bool,
    /// The master's requests aren't served.
    pub requests: bool,
    /// Nothing is delivered to the master.
    pub master: bool,
    /// Records of one step; `None`: drawn.
    pub fuel: Option<usize>,
}

/// Something that could happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// A task is stepped (the first time: opened).
    Step(usize),
    /// A message is delivered to a task.
    ToTask(SubtaskId),
    /// A task's message is delivered to the master.
    FromTask(Lane),
    /// A snapshot is encoded and written.
    Job(usize),
    /// A request of the master is served.
    Request(usize),
    /// The reply to one is delivered.
    Reply,
    /// The master's time has come.
    Timeout,
    /// The master gives up tasks that don't come back.
    Abandon,
}

/// One process.
pub struct Process {
    name: u32,
    pub(crate) job: Job,
    pub(crate) master: JobMaster,
    pub(crate) env: SimEnv,
    shared: Shared,
    store: FaultStore,
    next_request: u64,
    /// What tasks of the current attempt said when they finished.
    pub(crate) finished: BTreeMap<SubtaskId, FromTask>,
}

impl Process {
    /// Starts a job. `name` is its number in the trace.
    ///
    /// # Panics
    /// If the job's id can't name a directory.
    pub fn start(name: u32, job: Job, shared: &Shared, seed: Seed) -> Self {
        let store = FaultStore::new(
            shared.store.clone(),
            plan(shared.clone(), name, job.graph.job.clone()),
        );
        let (master, worker) = leader(&job, &store, seed, None);
        let env = SimEnv::new(
            name,
            job.graph.clone(),
            job.settings.clone(),
            worker,
            shared.clone(),
        );
        let mut process = Self {
            name,
            job,
            master,
            env,
            shared: shared.clone(),
            store,
            next_request: 0,
            finished: BTreeMap::new(),
        };
        process.shared.note(&format!("p{name} starts"));
        process.job.graph.job_starts();
        process.tell(MasterEvent::Start);
        process
    }

    /// Its number in the trace.
    pub fn name(&self) -> u32 {
        self.name
    }

    /// The job's master.
    pub fn master(&self) -> &JobMaster {
        &self.master
    }

    /// The job's state, as reported last.
    pub fn state(&self) -> JobState {
        self.env.state
    }

    /// How the job ended here, if it has.
    pub fn ended(&self) -> Option<&Ended> {
        self.env.ended.as_ref()
    }

    /// Takes how the job ended.
    pub fn take_ended(&mut self) -> Option<Ended> {
        self.env.ended.take()
    }

    /// Whether a fault of the store killed it.
    pub fn is_dead(&self) -> bool {
        self.store.is_crashed()
    }

    /// Its tasks, those of abandoned attempts too.
    pub fn tasks(&self) -> &[Driven] {
        &self.env.tasks
    }

    /// How requests were answered.
    pub fn answers(&self) -> &BTreeMap<RequestId, Result<RequestDone, RequestFailure>> {
        &self.env.answers
    }

    /// A person asks for something; the answer will stand in [`answers`](Self::answers).
    pub fn request(&mut self, what: Request) -> RequestId {
        self.next_request += 1;
        let id = RequestId(self.next_request);
        self.shared
            .note(&format!("p{} request {} {what:?}", self.name, id.0));
        self.tell(MasterEvent::Request(id, what));
        id
    }

    /// A person cancels the job.
    pub fn cancel(&mut self) {
        self.shared.note(&format!("p{} cancel", self.name));
        self.tell(MasterEvent::Cancel);
    }

    pub(crate) fn store(&self) -> &FaultStore {
        &self.store
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn tell(&mut self, event: MasterEvent) {
        let told = catch_unwind(AssertUnwindSafe(|| self.master.on_event(&mut self.env, event)));
        if let Err(panic) = told {
            self.shared
                .violations
                .note(format!("the job master panicked: {}", panic_text(&*panic)));
        }
    }

    /// Everything that could happen next.
    pub fn offers(&mut self, holds: &Holds, into: &mut Vec<Offer>) {
        let now = self.shared.clock.now();
        for at in 0..self.env.tasks.len() {
            let task = &mut self.env.tasks[at];
            if task.is_runnable(now) && !holds.tasks.contains(&task.id()) {
                into.push(Offer::Step(at));
            }
        }
        let mail = self
            .env
            .to_tasks
            .iter()
            .filter(|(id, lane)| !lane.is_empty() && !holds.mail.contains(id));
        into.extend(mail.map(|(id, _)| Offer::ToTask(*id)));
        if !holds.writes {
            into.extend((0..self.env.wires.jobs()).map(Offer::Job));
        }
        if !holds.requests {
            into.extend((0..self.env.requests.len()).map(Offer::Request));
        }
        if holds.master {
            return;
        }
        into.extend(self.env.wires.lanes().into_iter().map(Offer::FromTask));
        if !self.env.replies.is_empty() {
            into.push(Offer::Reply);
        }
        if self.master.next_timeout().is_some_and(|at| at <= now) {
            into.push(Offer::Timeout);
        }
        if self.env.abandon_at.is_some_and(|at| at <= now) {
            into.push(Offer::Abandon);
        }
    }

    /// The next moment at which something happens by itself.
    pub fn next_deadline(&self, holds: &Holds) -> Option<Nanos> {
        let awake = self.env.tasks.iter().filter(|t| !holds.tasks.contains(&t.id()));
        let tasks = awake.filter_map(Driven::wakes_at);
        let master = self.master.next_timeout().filter(|_| !holds.master);
        tasks
            .chain(master)
            .chain(self.env.abandon_at)
            .filter(|at| *at != Nanos::NEVER)
            .min()
    }

    /// Lets something happen.
    pub fn perform(&mut self, offer: Offer, fuel: usize, rng: &mut Rng) {
        match offer {
            Offer::Step(at) => self.step(at, fuel),
            Offer::ToTask(id) => self.deliver(id),
            Offer::FromTask(lane) => self.hear(lane),
            Offer::Job(at) => self.run_job(at),
            Offer::Request(at) => self.serve(at),
            Offer::Reply => self.reply(rng),
            Offer::Timeout => {
                self.shared.note(&format!("p{} timeout", self.name));
                self.tell(MasterEvent::Timeout);
            }
            Offer::Abandon => self.abandon(),
        }
    }

    fn step(&mut self, at: usize, fuel: usize) {
        let task = &mut self.env.tasks[at];
        if self.shared.faults.hangs() {
            let until = self.shared.clock.now() + std::time::Duration::from_secs(40);
            self.shared
                .note(&format!("p{} {} hangs", self.name, task.label()));
            task.hang(until);
            return;
        }
        task.step(fuel, &self.shared);
        if task.phase() == Phase::Over {
            let lane = task.lane();
            self.env.wires.gone(lane);
        }
    }

    /// Delivers the next message to a task, unless it is one that may be lost and is.
    fn deliver(&mut self, id: SubtaskId) {
        let Some(lane) = self.env.to_tasks.get_mut(&id) else {
            return;
        };
        let Some(bytes) = lane.pop_front() else { return };
        let (from, message): (LeaderEpoch, ToTask) = decode(&bytes);
        let fate = match &message {
            ToTask::Completed { .. } | ToTask::Aborted { .. } => self.shared.faults.hint(),
            ToTask::Trigger(_) if self.shared.faults.loses_trigger() => Fate::Lost,
            _ => Fate::Arrives,
        };
        match fate {
            Fate::Arrives => {}
            Fate::Doubled => lane.push_back(bytes),
            Fate::Late if lane.is_empty() => {}
            Fate::Late => {
                lane.push_back(bytes);
                return;
            }
            Fate::Lost => {
                self.shared
                    .note(&format!("p{} to {id} lost: {}", self.name, brief(&message)));
                return;
            }
        }
        self.shared
            .note(&format!("p{} to {id}: {}", self.name, brief(&message)));
        let current = self.env.attempt;
        if let Some(task) = self
            .env
            .tasks
            .iter()
            .find(|t| t.id() == id && t.lane().0 == current)
        {
            task.send(from, message);
        }
    }

    fn hear(&mut self, lane: Lane) {
        let (attempt, id) = lane;
        match self.env.wires.take(lane) {
            None => {}
            Some(FromWire::Gone) => {
                self.shared.note(&format!("p{} {id} is gone", self.name));
                self.tell(MasterEvent::TaskGone(id, attempt));
            }
            Some(FromWire::Message(bytes)) => {
                let message: FromTask = decode(&bytes);
                self.shared
                    .note(&format!("p{} from {id}: {}", self.name, brief_from(&message)));
                self.judge_failure(&message);
                if matches!(message, FromTask::Finished { .. }) && attempt == self.env.attempt {
                    self.finished.insert(id, message.clone());
                }
                self.tell(MasterEvent::FromTask(id, attempt, message));
            }
        }
    }

    /// Tasks may fail only as they were made to.
    fn judge_failure(&self, message: &FromTask) {
        if let FromTask::Failed { error, retryable } = message
            && !(error.contains("injected") && *retryable)
            && !(error.contains("FaultStore") && *retryable)
            && !error.contains("older leadership")
        {
            self.shared
                .violations
                .note(format!("a task failed by itself: {error}"));
        }
    }

    fn run_job(&mut self, at: usize) {
        let Some(job) = self.env.wires.take_job(at) else {
            return;
        };
        self.shared.note(&format!("p{} pool job", self.name));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
            self.shared
                .violations
                .note(format!("a job of the pool panicked: {}", panic_text(&*panic)));
        }
    }

    fn serve(&mut self, at: usize) {
        if at >= self.env.requests.len() {
            return;
        }
        let request = self.env.requests.remove(at);
        self.shared
            .note(&format!("p{} serves {}", self.name, brief_request(&request)));
        let worker = self.env.worker.clone();
        let wall_ms = self.shared.clock.wall_ms();
        match catch_unwind(AssertUnwindSafe(|| worker.perform(request, wall_ms))) {
            Ok(reply) => self.env.replies.push_back(reply),
            Err(panic) => {
                self.shared
                    .violations
                    .note(format!("a request panicked: {}", panic_text(&*panic)));
            }
        }
    }

    fn reply(&mut self, rng: &mut Rng) {
        let at = rng.index(self.env.replies.len());
        let Some(reply) = self.env.replies.remove(at) else {
            return;
        };
        self.shared
            .note(&format!("p{} reply {}", self.name, brief_reply(&reply)));
        self.tell(MasterEvent::Io(reply));
    }

    fn abandon(&mut self) {
        for event in self.env.abandon() {
            self.tell(event);
        }
    }

    /// Whether jobs, requests or replies are left.
    pub fn has_work_left(&self) -> bool {
        self.env.wires.jobs() > 0 || !self.env.requests.is_empty()
    }

    /// Runs what the pool and the store still have to do after the job's end.
    pub fn finish_work(&mut self) {
        while self.env.wires.jobs() > 0 {
            self.run_job(0);
        }
        while !self.env.requests.is_empty() {
            self.serve(0);
        }
    }
}

/// A job's leader: its master, and who serves its requests.
pub(crate) fn leader(
    job: &Job,
    store: &FaultStore,
    seed: Seed,
    running: Option<Running>,
) -> (JobMaster, Arc<StoreWorker>) {
    let jobs = CheckpointStore::over(Arc::new(store.clone()), "memory:///sim");
    let worker = StoreWorker::new(StoreWorkerParts {
        store: jobs.job(&job.graph.job).expect("a job's id names a directory"),
        graph: job.graph.clone(),
        executor: Executor::Inline,
        nonces: Nonces::seeded(seed.child("nonces").0),
        inline_total_bytes: job.settings.checkpoints.inline_total.bytes(),
        savepoint_dir: job.settings.checkpoints.savepoint_dir.clone(),
    });
    let master = JobMaster::new(MasterParts {
        graph: job.graph.clone(),
        checkpoints: coordinator_settings(&job.settings, true),
        restart: Restarts::new(restart_strategy(&job.settings), seed.child("restarts").0),
        restore: job.restore.clone(),
        new_lineage: job.settings.recovery.new_lineage,
        running,
        delete_on_cancel: job.settings.checkpoints.retention == CheckpointRetention::DeleteOnCancellation,
        executor: Executor::Inline,
    });
    (master, worker)
}

/// Lanes of messages to tasks.
pub(crate) type ToTasks = BTreeMap<SubtaskId, VecDeque<Vec<u8>>>;

/// Puts a message in line.
pub(crate) fn post(lanes: &mut ToTasks, to: SubtaskId, message: &(LeaderEpoch, ToTask)) {
    lanes.entry(to).or_default().push_back(encode(message));
}

/// What a process's tasks put in.
pub(crate) type ProcessWires = Wires;
