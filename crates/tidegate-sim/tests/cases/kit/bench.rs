//! The tasks of a job without a master: a case steps each one itself, puts mail into its box, and looks at what its
//! snapshots hold. For what happens inside one step, while user code has a record in hand.

use std::sync::{Arc, Mutex};

use tidegate_protocol::message::{FromTask, ToTask};
use tidegate_runtime::graph::{Attempt, DeployContext, JobGraph};
use tidegate_runtime::master::task_options;
use tidegate_runtime::signal::TaskSignal;
use tidegate_runtime::source::Assignment;
use tidegate_runtime::task::{Mail, Mailbox, Outbox, SnapshotIo, Step, Task, WriteJob};
use tidegate_sim::clock::SimClock;
use tidegate_sim::process::Job;
use tidegate_types::snapshot::{SectionBytes, SectionKind};
use tidegate_types::{
    AttemptNumber, Barrier, CheckpointId, CheckpointKind, Generation, LeaderEpoch, SnapshotMode, SubtaskId,
    SubtaskIndex,
};

/// What a subtask's snapshot holds, and how it was taken.
pub struct Stored {
    /// Whose.
    pub subtask: SubtaskId,
    /// Everything, encoded.
    pub sections: Vec<SectionBytes>,
}

impl Stored {
    /// Records in flight before an operator.
    pub fn in_flight(&self, uid: &str) -> u64 {
        let of =
            |s: &&SectionBytes| s.head.uid.as_str() == uid && matches!(s.head.kind, SectionKind::InFlight(_));
        self.sections.iter().filter(of).map(|s| s.head.records).sum()
    }
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<Stored>>>);

impl SnapshotIo for Written {
    fn write(&self, job: WriteJob) {
        let parts = job.parts.into_iter();
        let sections = parts.flat_map(|p| (p.job)().expect("plain data is encoded"));
        let stored = Stored {
            subtask: job.subtask,
            sections: sections.collect(),
        };
        self.0.lock().expect("no panic under this lock").push(stored);
    }

    fn delete(&self, _: Vec<String>) {}
}

struct Nobody;

impl Outbox for Nobody {
    fn send(&self, _: FromTask) {}
}

struct Seat {
    task: Mutex<Task>,
    id: SubtaskId,
    mailbox: Arc<Mailbox>,
    signal: Arc<TaskSignal>,
}

/// The tasks of one job, each reachable from inside another one's step.
#[derive(Clone)]
pub struct Bench {
    seats: Arc<Vec<Seat>>,
    graph: Arc<JobGraph>,
    written: Written,
}

impl Bench {
    /// Deploys and opens the tasks of a job, and hands every source its splits.
    pub fn new(job: &Job, clock: &Arc<SimClock>) -> Self {
        let written = Written::default();
        let (outputs, budget, task) = task_options(&job.settings, &job.graph);
        let attempt = Attempt {
            number: AttemptNumber(1),
            epoch: LeaderEpoch(1),
            lineage: 0,
            generation: Generation(1),
        };
        let cx = DeployContext {
            clock: clock.clone(),
            io: Arc::new(written.clone()),
            outputs,
            budget,
            task,
            outbox: Box::new(|_| Arc::new(Nobody)),
            restore: None,
        };
        let deployed = job
            .graph
            .deploy(attempt, &cx)
            .expect("the case's job deploys")
            .tasks;
        let seats = deployed.into_iter().map(|mut d| {
            (d.open)(&mut d.task);
            Seat {
                id: d.task.id(),
                task: Mutex::new(d.task),
                mailbox: d.mailbox,
                signal: d.signal,
            }
        });
        let bench = Self {
            seats: Arc::new(seats.collect()),
            graph: job.graph.clone(),
            written,
        };
        bench.assign();
        bench
    }

    fn assign(&self) {
        for node in &self.graph.nodes {
            let Some(source) = &node.source else { continue };
            let mut enumerator = (source.enumerator)(None).expect("a case's source is there");
            for reader in 0..node.parallelism.0 {
                let next = enumerator.next_split(SubtaskIndex(reader));
                if let Ok(Assignment::Split(split)) = next {
                    let assign = ToTask::AssignSplits {
                        uid: node.uid.clone(),
                        splits: vec![split],
                    };
                    self.mail(node.uid.as_str(), reader, assign);
                }
            }
        }
    }

    fn seat(&self, uid: &str, subtask: u32) -> &Seat {
        let at = self.graph.nodes.iter().position(|n| n.uid.as_str() == uid);
        let at = at.unwrap_or_else(|| panic!("the job has an operator `{uid}`"));
        let id = SubtaskId::new(self.graph.chained.vertex_of[at], SubtaskIndex(subtask));
        let seat = self.seats.iter().find(|s| s.id == id);
        seat.expect("every subtask has a task")
    }

    /// Puts a message into a task's box.
    pub fn mail(&self, uid: &str, subtask: u32, message: ToTask) {
        self.seat(uid, subtask)
            .mailbox
            .send(Mail::Master(LeaderEpoch(1), message));
    }

    /// Triggers a checkpoint at a source.
    pub fn trigger(&self, uid: &str, subtask: u32, id: u64, mode: SnapshotMode) {
        let barrier = Barrier {
            id: CheckpointId(id),
            oldest_pending: CheckpointId(id),
            kind: CheckpointKind::Checkpoint,
            mode,
            age: std::time::Duration::ZERO,
            epoch: LeaderEpoch(1),
            base: None,
        };
        self.mail(uid, subtask, ToTask::Trigger(barrier));
    }

    /// Steps a task once. May be called from user code of another one.
    pub fn step(&self, uid: &str, subtask: u32, fuel: usize) -> Step {
        let seat = self.seat(uid, subtask);
        let mut task = seat.task.try_lock().expect("a task isn't stepped inside itself");
        seat.signal.take_notified();
        let step = task.step(fuel);
        assert_ne!(step, Step::Failed, "`{uid}` {subtask}");
        step
    }

    /// The newest checkpoint that a task has heard of.
    pub fn newest_seen(&self, uid: &str, subtask: u32) -> CheckpointId {
        let task = self.seat(uid, subtask).task.try_lock().expect("not in its step");
        task.barriers().newest_seen()
    }

    /// The snapshot of a task, once it was written.
    pub fn stored(&self, uid: &str, subtask: u32) -> Option<Stored> {
        let id = self.seat(uid, subtask).id;
        let mut written = self.written.0.lock().expect("no panic under this lock");
        let at = written.iter().position(|s| s.subtask == id)?;
        Some(written.remove(at))
    }
}
