//! A simulated world with the verbs that cases are told in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate::prelude::*;
use tidegate_protocol::coordinator::{
    CheckpointStats, CheckpointStatus, Request, RequestDone, RequestFailure, RequestId, SavepointOrder,
    SubtaskCheckpoint,
};
use tidegate_runtime::graph::JobGraph as Graph;
use tidegate_runtime::master::{Executor, RestoreChoice};
use tidegate_runtime::task::{Task, TaskStatus};
use tidegate_sim::checks;
use tidegate_sim::clock::SimClock;
use tidegate_sim::driven::Driven;
use tidegate_sim::faults::Faults;
use tidegate_sim::log::{Expected, Topic};
use tidegate_sim::process::{Ended, Holds, Job, Offer, Process};
use tidegate_sim::scenario::Tools;
use tidegate_sim::seed::Seed;
use tidegate_sim::sim::{Sim, Turn};
use tidegate_sim::trace::{Trace, Violations};
use tidegate_storage::Nonce;
use tidegate_types::snapshot::SectionKind;
use tidegate_types::{CheckpointId, JobId, SavepointFormat, SubtaskId, SubtaskIndex};

/// Turns within which anything that a case waits for must have happened.
const TURNS: u64 = 300_000;

/// The root of the simulated store.
const ROOT: &str = "memory:///sim";

/// Sets options by their texts.
pub fn configure(env: &mut Environment, options: &[(&str, &str)]) {
    for (key, value) in options {
        env.configuration().set_text(key, value);
    }
}

/// The job that an environment describes, to be restored from the newest checkpoint.
pub fn job_of(env: &Environment) -> Job {
    let (graph, settings) = env.build().expect("the case's job builds").into_parts();
    Job {
        graph,
        settings,
        restore: RestoreChoice::Latest,
    }
}

/// A world with at most one process at a time.
pub struct World {
    /// The simulator.
    pub sim: Sim,
    /// For the user code of jobs.
    pub tools: Tools,
    graph: Option<Arc<Graph>>,
    job: Option<JobId>,
}

impl World {
    /// An empty world.
    pub fn new(seed: u64) -> Self {
        let root = Seed(seed);
        let tools = Tools {
            clock: SimClock::new(),
            faults: Faults::none(),
            violations: Violations::default(),
        };
        let sim = Sim::new(
            root,
            tools.faults.clone(),
            tools.violations.clone(),
            tools.clock.clone(),
            Trace::new(false),
        );
        Self {
            sim,
            tools,
            graph: None,
            job: None,
        }
    }

    /// A topic that the sink `uid` writes, and what must come of it.
    pub fn topic(&self, uid: &str, expected: Vec<(String, u64)>) -> Topic<(String, u64)> {
        let expected = Expected::Exactly(expected);
        Topic::new(
            uid,
            expected,
            self.tools.faults.clone(),
            self.tools.violations.clone(),
        )
    }

    /// Every commit into the topic must be listed by a complete checkpoint.
    pub fn watch_commits(&self, topic: &Topic<(String, u64)>) {
        let job = self.job.as_ref().expect("a job was started");
        topic.set_witness(checks::commits::witness(self.sim.shared().store.clone(), job));
    }

    /// Starts a job in a process of its own; its tasks aren't opened yet.
    pub fn start(&mut self, job: Job) {
        self.graph = Some(job.graph.clone());
        self.job = Some(job.graph.job.clone());
        self.sim.start(job);
    }

    /// Starts a job and waits until it runs and its master knows.
    #[track_caller]
    pub fn run(&mut self, job: Job) {
        self.start(job);
        self.until("all tasks run", |w| {
            let tasks = w.process().tasks();
            let opened = |t: &Driven| t.metrics().status() != TaskStatus::Initializing;
            !tasks.is_empty() && tasks.iter().all(opened)
        });
        for _ in 0..TURNS {
            if !self.tasks_have_news() {
                return;
            }
            self.sim.turn();
        }
        panic!("tasks never stop sending\n{}", self.tail());
    }

    /// Lets the pool write the snapshots that wait, oldest first, and the master hear of each and act.
    #[track_caller]
    pub fn write_in_order(&mut self) {
        for _ in 0..TURNS {
            let mut offers = Vec::new();
            self.sim.newest().offers(&Holds::default(), &mut offers);
            let is_news = |o: &Offer| matches!(o, Offer::FromTask(_) | Offer::Reply | Offer::Request(_));
            if offers.iter().any(is_news) {
                self.sim.turn();
            } else if offers.contains(&Offer::Job(0)) {
                let mut unused = Seed(0).rng();
                self.sim.newest().perform(Offer::Job(0), 1, &mut unused);
            } else {
                return;
            }
        }
        panic!("there is always more to write\n{}", self.tail());
    }

    /// Whether messages of tasks are on their way to the master.
    fn tasks_have_news(&mut self) -> bool {
        let mut offers = Vec::new();
        self.sim.newest().offers(&Holds::default(), &mut offers);
        offers.iter().any(|o| matches!(o, Offer::FromTask(_)))
    }

    fn graph(&self) -> &Arc<Graph> {
        self.graph.as_ref().expect("a job was started")
    }

    /// The subtask in which an operator runs.
    pub fn id(&self, uid: &str, subtask: u32) -> SubtaskId {
        let nodes = &self.graph().nodes;
        let at = nodes.iter().position(|n| n.uid.as_str() == uid);
        let at = at.unwrap_or_else(|| panic!("the job has an operator `{uid}`"));
        SubtaskId::new(self.graph().chained.vertex_of[at], SubtaskIndex(subtask))
    }

    /// All subtasks of an operator.
    pub fn ids(&self, uid: &str) -> Vec<SubtaskId> {
        let node = self.graph().nodes.iter().find(|n| n.uid.as_str() == uid);
        let parallelism = node.map_or(0, |n| n.parallelism.0);
        (0..parallelism).map(|s| self.id(uid, s)).collect()
    }

    /// The process.
    pub fn process(&self) -> &Process {
        self.sim.processes().last().expect("a process is there")
    }

    /// A task's driver.
    pub fn driven(&self, id: SubtaskId) -> &Driven {
        let of = |t: &&Driven| t.id() == id && !t.is_abandoned();
        self.process()
            .tasks()
            .iter()
            .rev()
            .find(of)
            .expect("the task is there")
    }

    /// A task.
    pub fn task(&self, id: SubtaskId) -> &Task {
        self.driven(id).task().expect("the task isn't over")
    }

    /// Records that a task has handed on so far.
    pub fn records_out(&self, id: SubtaskId) -> u64 {
        self.driven(id).metrics().records_out.load(Ordering::Relaxed)
    }

    /// Whether a subtask's part of a checkpoint has come in.
    pub fn has_acked(&self, checkpoint: CheckpointId, id: SubtaskId) -> bool {
        self.stats(checkpoint).is_some_and(|s| {
            let task = s.tasks.iter().find(|t| t.vertex == id.vertex);
            task.is_some_and(|t| t.subtasks[id.index.0 as usize].is_some())
        })
    }

    /// Keeps tasks of an operator from being stepped.
    pub fn hold(&mut self, uid: &str) {
        let ids = self.ids(uid);
        self.sim.holds.tasks.extend(ids);
    }

    /// Lets them be stepped again.
    pub fn release(&mut self, uid: &str) {
        let ids = self.ids(uid);
        self.sim.holds.tasks.retain(|t| !ids.contains(t));
    }

    /// Keeps messages to an operator's tasks from being delivered.
    pub fn hold_mail(&mut self, uid: &str) {
        let ids = self.ids(uid);
        self.sim.holds.mail.extend(ids);
    }

    /// Delivers them again.
    pub fn release_mail(&mut self, uid: &str) {
        let ids = self.ids(uid);
        self.sim.holds.mail.retain(|t| !ids.contains(t));
    }

    /// Delivers the next message to a task, held or not.
    pub fn deliver(&mut self, to: SubtaskId) {
        let mut unused = Seed(0).rng();
        self.sim.newest().perform(Offer::ToTask(to), 1, &mut unused);
    }

    /// Nothing is held any more.
    pub fn release_all(&mut self) {
        self.sim.holds = Default::default();
    }

    /// Lets things happen until something holds.
    #[track_caller]
    pub fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..TURNS {
            if holds(self) {
                return;
            }
            if self.sim.turn() == Turn::Stuck {
                break;
            }
        }
        assert!(holds(self), "{what}: didn't come\n{}", self.tail());
    }

    /// So many things happen at most. Stops when nothing could happen now: time doesn't jump.
    pub fn turns(&mut self, turns: u64) {
        for _ in 0..turns {
            if !self.has_offers() {
                return;
            }
            self.sim.turn();
        }
    }

    fn has_offers(&mut self) -> bool {
        let mut offers = Vec::new();
        let holds = self.sim.holds.clone();
        self.sim.newest().offers(&holds, &mut offers);
        !offers.is_empty()
    }

    /// What happened last, for a message.
    pub fn tail(&self) -> String {
        let shared = self.sim.shared();
        format!(
            "{}\n{:#?}",
            shared.trace.kept().join("\n"),
            shared.violations.all()
        )
    }

    /// A person asks for something.
    pub fn request(&mut self, what: Request) -> RequestId {
        self.sim.newest().request(what)
    }

    /// Asks for a checkpoint.
    pub fn trigger(&mut self) -> RequestId {
        self.request(Request::Checkpoint { full: false })
    }

    /// Asks for a checkpoint and waits until it is triggered.
    #[track_caller]
    pub fn begin(&mut self) -> (RequestId, CheckpointId) {
        let before = self.newest_triggered();
        let request = self.trigger();
        self.until("the checkpoint is triggered", |w| w.newest_triggered() > before);
        (request, self.newest_triggered().expect("one was triggered"))
    }

    /// Asks for a savepoint inside the simulated store.
    pub fn trigger_savepoint(&mut self, format: SavepointFormat, unaligned: bool) -> RequestId {
        self.request(Request::Savepoint(SavepointOrder {
            format,
            target: Some(format!("{ROOT}/savepoints")),
            unaligned,
        }))
    }

    /// The answer to a request, if there is one.
    pub fn answer(&self, request: RequestId) -> Option<&Result<RequestDone, RequestFailure>> {
        self.process().answers().get(&request)
    }

    /// Takes a checkpoint. One that was subsumed by a newer complete one (a source has ended meanwhile) is as good.
    #[track_caller]
    pub fn checkpoint(&mut self) -> CheckpointStats {
        let (request, id) = self.begin();
        self.until("the checkpoint is decided", |w| {
            w.answer(request).is_some() && w.newest_complete().is_some_and(|c| c.id >= id)
        });
        self.newest_complete().expect("a checkpoint is complete")
    }

    /// What is known of a checkpoint.
    pub fn stats(&self, id: CheckpointId) -> Option<CheckpointStats> {
        let history = self.process().master().history()?;
        history.get(id).cloned()
    }

    /// The newest complete checkpoint of this process.
    pub fn newest_complete(&self) -> Option<CheckpointStats> {
        let history = self.process().master().history()?;
        let complete = |c: &&CheckpointStats| c.status == CheckpointStatus::Completed;
        history.recent().filter(complete).max_by_key(|c| c.id).cloned()
    }

    /// The ids of the newest checkpoint that was triggered.
    pub fn newest_triggered(&self) -> Option<CheckpointId> {
        let history = self.process().master().history()?;
        history.recent().map(|c| c.id).max()
    }

    /// One subtask's part of a checkpoint.
    #[track_caller]
    pub fn part(&self, stats: &CheckpointStats, uid: &str, subtask: u32) -> SubtaskCheckpoint {
        let id = self.id(uid, subtask);
        let task = stats.tasks.iter().find(|t| t.vertex == id.vertex);
        let part = task.and_then(|t| t.subtasks[subtask as usize].clone());
        part.unwrap_or_else(|| panic!("`{uid}` {subtask} is no part of checkpoint {}", stats.id))
    }

    /// Records in flight per input, producer and consumer of an operator.
    pub fn in_flight(&self, stats: &CheckpointStats, uid: &str) -> BTreeMap<(u32, u32, u32), u64> {
        let parts = stats.tasks.iter().flat_map(|t| t.subtasks.iter().flatten());
        let channels = parts.flat_map(|p| &p.stats.channels);
        let mut found = BTreeMap::new();
        for c in channels.filter(|c| c.uid.as_str() == uid && c.records > 0) {
            let address = (c.address.input.0, c.address.producer.0, c.address.consumer.0);
            *found.entry(address).or_default() += c.records;
        }
        found
    }

    /// Where a checkpoint stands, to be restored by its path.
    pub fn path_of(&self, id: CheckpointId) -> RestoreChoice {
        let job = self.job.as_ref().expect("a job was started");
        RestoreChoice::Path(format!("{ROOT}/{job}/chk-{id}"))
    }

    /// Checkpoints that are complete in the store, whatever anybody was told.
    pub fn complete_in_store(&self) -> Vec<CheckpointId> {
        let job = self.job.as_ref().expect("a job was started");
        let store = checks::store::job_store(self.sim.shared().store.clone(), job);
        let listed = Executor::Inline.block_on(store.checkpoints());
        let complete = |c: &tidegate_storage::CheckpointSummary| {
            matches!(c.state, tidegate_storage::DecisionSummary::Complete { .. })
        };
        let listed = listed.expect("the store can be read");
        listed.iter().filter(|c| complete(c)).map(|c| c.id).collect()
    }

    /// The named snapshot sources' bytes of an operator in a checkpoint: of finished subtasks, or of running ones.
    pub fn named(&self, id: CheckpointId, uid: &str, finished: bool) -> Vec<(String, Vec<u8>)> {
        let job = self.job.as_ref().expect("a job was started");
        let store = checks::store::job_store(self.sim.shared().store.clone(), job);
        Executor::Inline.block_on(async {
            let object = store.read_decision(id).await.expect("the store can be read");
            let snapshot = store
                .snapshot(object.expect("it is decided"))
                .expect("it is complete");
            let reader = snapshot.reader();
            let mut found = Vec::new();
            let subtasks = snapshot.metadata().subtasks.iter();
            for section in subtasks
                .filter(|s| s.finished == finished)
                .flat_map(|s| &s.sections)
            {
                if section.head.uid.as_str() == uid && section.head.kind == SectionKind::Named {
                    let bytes = reader.read_section(section).await.expect("it is readable");
                    found.push((section.head.name.clone(), bytes.to_vec()));
                }
            }
            found
        })
    }

    /// The process dies.
    pub fn crash(&mut self) {
        self.release_all();
        self.sim.crash_all();
    }

    /// Waits for the job's end in this process.
    #[track_caller]
    pub fn ended(&mut self) -> Ended {
        self.release_all();
        self.until("the job ends", |w| w.process().ended().is_some());
        let mut ended = self.sim.reap();
        ended.pop().expect("the process has ended").1
    }

    /// The job runs to its end, and nothing was broken on the way.
    #[track_caller]
    pub fn finish(&mut self, topic: &Topic<(String, u64)>) {
        let ended = self.ended();
        assert!(
            matches!(ended, Ok(JobOutcome::Finished)),
            "{ended:?}\n{}",
            self.tail()
        );
        assert_eq!(topic.problems(), Vec::<String>::new(), "{}", self.tail());
        self.assert_clean();
    }

    /// No promise was broken so far, and the store holds what it should and nothing else.
    #[track_caller]
    pub fn assert_clean(&self) {
        let shared = self.sim.shared();
        assert_eq!(shared.violations.all(), Vec::<String>::new(), "{}", self.tail());
        let job = self.job.as_ref().expect("a job was started");
        let damaged = checks::store::incomplete_manifests(shared.store.clone(), job);
        assert_eq!(damaged, Vec::<String>::new());
    }

    /// After the last process: a clean-up leaves nothing that nobody names.
    #[track_caller]
    pub fn assert_no_orphans(&self) {
        let job = self.job.as_ref().expect("a job was started");
        let store = self.sim.shared().store.clone();
        assert_eq!(
            checks::store::orphans(store, job, Nonce(77)),
            Vec::<String>::new()
        );
    }

    /// No channel of a task is blocked.
    pub fn blocked(&self, id: SubtaskId) -> Vec<u32> {
        let task = self.task(id);
        let channels = task.body().kinds().len() as u32;
        let handler = task.barriers();
        (0..channels)
            .filter(|c| handler.is_blocked(tidegate_types::ChannelIndex(*c)))
            .collect()
    }
}
