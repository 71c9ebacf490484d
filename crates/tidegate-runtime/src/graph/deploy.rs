//! Making the tasks of one attempt, with what a snapshot gives back to them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_types::key_group::hash_range;
use tidegate_types::snapshot::{Section, SectionKind, SubtaskSnapshot};
use tidegate_types::time::MAX_WATERMARK;
use tidegate_types::{
    AttemptNumber, Generation, LeaderEpoch, OperatorUid, Parallelism, SubtaskId, SubtaskIndex, VertexId,
};

use crate::chain::{OpenContext, OutputSettings, RestoredSection};
use crate::clock::Clock;
use crate::error::{BoxError, OpError};
use crate::gate::BudgetSettings;
use crate::signal::TaskSignal;
use crate::task::{Body, Mailbox, Outbox, SnapshotIo, Task, TaskMetrics, TaskParts, TaskSettings};

use super::build::{Built, MakeContext, Outputs};
use super::chains::Vertex;
use super::ops::{AnyDownstream, StreamOps};
use super::wiring::Wiring;
use super::{JobGraph, NodeId};

/// Which attempt is deployed.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// Its number under this leadership.
    pub number: AttemptNumber,
    /// The leadership.
    pub epoch: LeaderEpoch,
    /// Which line of history committed output belongs to.
    pub lineage: u64,
    /// How many restores lie behind it.
    pub generation: Generation,
}

/// Reads sections' payloads, in order. Blocks.
pub type Fetch = Arc<dyn Fn(&[&Section]) -> Result<Vec<Bytes>, BoxError> + Send + Sync>;

/// What a snapshot gives back to the tasks of an attempt.
pub struct RestorePlan {
    /// What the subtasks stored.
    pub subtasks: Vec<SubtaskSnapshot>,
    /// How many subtasks each operator had.
    pub parallelism: HashMap<OperatorUid, Parallelism>,
    /// Reads payloads.
    pub fetch: Fetch,
}

impl RestorePlan {
    /// Whether every old subtask of an operator had finished.
    fn is_finished(&self, uid: &OperatorUid) -> bool {
        let mut of = self
            .subtasks
            .iter()
            .filter(|s| s.sections.iter().any(|x| x.head.uid == *uid))
            .peekable();
        self.parallelism.contains_key(uid) && of.peek().is_some() && of.all(|s| s.finished)
    }

    /// Sections of an operator that a new subtask needs, with the old subtask that wrote each.
    fn sections_for(
        &self,
        uid: &OperatorUid,
        subtask: SubtaskIndex,
        now: Parallelism,
        graph: &JobGraph,
    ) -> Vec<(SubtaskIndex, &Section)> {
        let old = self.parallelism.get(uid).copied();
        let range = hash_range(subtask, graph.max_parallelism, now);
        let mut found = Vec::new();
        for snapshot in self.subtasks.iter().filter(|s| !s.finished) {
            for section in snapshot.sections.iter().filter(|s| s.head.uid == *uid) {
                let own = snapshot.subtask.index == subtask;
                let needed = match section.head.kind {
                    SectionKind::Keyed | SectionKind::Timers => match (section.head.hashes, range) {
                        (Some(stored), Some(range)) => stored.intersection(range).is_some(),
                        (None, _) => true,
                        (Some(_), None) => false,
                    },
                    SectionKind::InFlight(_)
                    | SectionKind::Watermarks
                    | SectionKind::Generator
                    | SectionKind::Splits => own || old != Some(now),
                    SectionKind::ListSplit
                    | SectionKind::ListUnion
                    | SectionKind::Broadcast
                    | SectionKind::Raw
                    | SectionKind::Named => true,
                    SectionKind::Enumerator | SectionKind::Committables => false,
                };
                if needed {
                    found.push((snapshot.subtask.index, section));
                }
            }
        }
        found.sort_by_key(|(holder, _)| *holder);
        found
    }
}

/// What deploying needs besides the graph.
pub struct DeployContext {
    /// The clock of tasks and drivers.
    pub clock: Arc<dyn Clock>,
    /// Who writes snapshots.
    pub io: Arc<dyn SnapshotIo>,
    /// How outputs batch.
    pub outputs: OutputSettings,
    /// How gates are budgeted.
    pub budget: BudgetSettings,
    /// Limits and switches of tasks.
    pub task: TaskSettings,
    /// Makes the way of a task's messages to the job master.
    pub outbox: Box<dyn Fn(SubtaskId) -> Arc<dyn Outbox> + Send>,
    /// What to restore.
    pub restore: Option<Arc<RestorePlan>>,
}

/// One task that is ready to be driven.
pub struct Deployed {
    /// The task.
    pub task: Task,
    /// Opens the task; to be called by its driver, on its thread, before the first step.
    pub open: Box<dyn FnOnce(&mut Task) + Send>,
    /// Its mailbox.
    pub mailbox: Arc<Mailbox>,
    /// Its signal.
    pub signal: Arc<TaskSignal>,
    /// Its counters.
    pub metrics: Arc<TaskMetrics>,
    /// Takes its gates out of service.
    pub revoke: Box<dyn Fn() + Send + Sync>,
}

/// The tasks of one attempt.
pub struct Deployment {
    /// Tasks to drive.
    pub tasks: Vec<Deployed>,
    /// Subtasks that had finished in the restored snapshot, with what it says of them.
    pub finished: Vec<(SubtaskId, SubtaskSnapshot)>,
}

impl JobGraph {
    /// Makes the tasks of an attempt.
    ///
    /// # Errors
    /// When an operator can't be made.
    pub fn deploy(self: &Arc<Self>, attempt: Attempt, cx: &DeployContext) -> Result<Deployment, BoxError> {
        let signals: Vec<Vec<Arc<TaskSignal>>> = self
            .chained
            .vertices
            .iter()
            .map(|v| {
                (0..v.parallelism.0)
                    .map(|_| Arc::new(TaskSignal::new()))
                    .collect()
            })
            .collect();
        let finished = |vertex: &Vertex| {
            let restore = cx.restore.as_ref();
            restore.is_some_and(|r| vertex.nodes.iter().all(|n| r.is_finished(&self.node(*n).uid)))
        };
        let of_node = |node: NodeId| &self.chained.vertices[self.chained.vertex_of[node.0].0 as usize];
        let wiring = Wiring::new(self, &signals, &|node| finished(of_node(node)));
        let mut deployment = Deployment {
            tasks: Vec::new(),
            finished: Vec::new(),
        };
        for (at, vertex) in self.chained.vertices.iter().enumerate() {
            let id = VertexId(at as u32);
            let finished = finished(vertex);
            for subtask in 0..vertex.parallelism.0 {
                let who = SubtaskId::new(id, SubtaskIndex(subtask));
                let maker = Maker {
                    graph: self,
                    wiring: &wiring,
                    attempt,
                    cx,
                    vertex: id,
                    subtask,
                };
                if finished {
                    maker.end_outputs()?;
                    deployment.finished.push((who, maker.finished_snapshot()));
                    continue;
                }
                let body = maker.body()?;
                let signal = signals[at][subtask as usize].clone();
                deployment.tasks.push(maker.deploy(who, body, signal));
            }
        }
        Ok(deployment)
    }
}

struct Maker<'a> {
    graph: &'a Arc<JobGraph>,
    wiring: &'a Wiring,
    attempt: Attempt,
    cx: &'a DeployContext,
    vertex: VertexId,
    subtask: u32,
}

impl Maker<'_> {
    fn deploy(&self, who: SubtaskId, body: Box<dyn Body>, signal: Arc<TaskSignal>) -> Deployed {
        let mailbox = Arc::new(Mailbox::new(signal.clone()));
        let metrics = Arc::new(TaskMetrics::default());
        let revoke = body.revoke();
        let task = Task::new(TaskParts {
            id: who,
            name: self.graph.vertex_name(self.vertex).into(),
            body,
            mailbox: mailbox.clone(),
            signal: signal.clone(),
            clock: self.cx.clock.clone(),
            outbox: (self.cx.outbox)(who),
            io: self.cx.io.clone(),
            settings: self.cx.task.clone(),
            metrics: metrics.clone(),
        });
        Deployed {
            task,
            open: self.opener(signal.clone()),
            mailbox,
            signal,
            metrics,
            revoke,
        }
    }

    /// Reads and hands out what the snapshot holds for each operator, when the driver calls it.
    fn opener(&self, signal: Arc<TaskSignal>) -> Box<dyn FnOnce(&mut Task) + Send> {
        let graph = self.graph.clone();
        let restore = self.cx.restore.clone();
        let clock = self.cx.clock.clone();
        let defaults = self.cx.task.defaults;
        let generation = self.attempt.generation;
        let vertex = self.vertex;
        let subtask = SubtaskIndex(self.subtask);
        Box::new(move |task| {
            let nodes = &graph.chained.vertices[vertex.0 as usize].nodes;
            task.open(
                &mut |uid| {
                    let node = nodes
                        .iter()
                        .map(|n| graph.node(*n))
                        .find(|n| n.uid == *uid)
                        .expect("a chain's nodes are the vertex's operators");
                    let mut cx = OpenContext {
                        uid: uid.clone(),
                        name: node.name.clone(),
                        subtask,
                        parallelism: node.parallelism,
                        max_parallelism: graph.max_parallelism,
                        old_parallelism: None,
                        restored: Vec::new(),
                        watermark_floors: Vec::new(),
                        generation,
                        wall_ms: clock.wall_ms(),
                        signal: signal.clone(),
                        defaults,
                    };
                    if let Some(plan) = &restore {
                        fill(plan, &graph, &mut cx)?;
                    }
                    Ok(cx)
                },
                generation,
            );
        })
    }

    /// The task's inputs and chain.
    fn body(&self) -> Result<Box<dyn Body>, BoxError> {
        match self.build(self.graph.chained.head(self.vertex))? {
            Built::Body(body) => Ok(body),
            Built::Part(_) => unreachable!("a head operator makes a body: it is a source or has gates"),
        }
    }

    fn build(&self, id: NodeId) -> Result<Built, BoxError> {
        let node = self.graph.node(id);
        let outputs = Outputs {
            main: self.downstream(id, None, &node.ops)?,
            sides: node
                .side_ops
                .iter()
                .enumerate()
                .map(|(side, ops)| Ok((side, ops.side_link(self.downstream(id, Some(side), ops)?))))
                .collect::<Result<_, BoxError>>()?,
        };
        let chained = self.graph.chained.is_chained(id);
        let slots = node.inputs.iter().map(|e| e.slot + 1).max().unwrap_or(0);
        let gates = if chained {
            Vec::new()
        } else {
            (0..slots)
                .map(|slot| self.wiring.gate(id, self.subtask, slot))
                .collect()
        };
        let partitioners = (0..slots)
            .filter_map(|slot| node.inputs.iter().find(|e| e.slot == slot))
            .map(|e| &*e.partitioner)
            .collect();
        let cx = MakeContext {
            job: &self.graph.job,
            uid: &node.uid,
            name: &node.name,
            subtask: SubtaskIndex(self.subtask),
            parallelism: node.parallelism,
            max_parallelism: self.graph.max_parallelism,
            attempt: self.attempt.number,
            epoch: self.attempt.epoch,
            lineage: self.attempt.lineage,
            budget: self.cx.budget,
            gates,
            partitioners,
        };
        (node.make)(&cx, outputs)
    }

    /// Everything that consumes an output: chained operators and edges.
    fn downstream(
        &self,
        of: NodeId,
        side: Option<usize>,
        ops: &Arc<dyn StreamOps>,
    ) -> Result<AnyDownstream, BoxError> {
        let mut parts = Vec::new();
        for (consumer, input) in self.graph.consumers(of, side) {
            if self.graph.chained.is_chained(consumer) {
                match self.build(consumer)? {
                    Built::Part(part) => parts.push(part),
                    Built::Body(_) => unreachable!("a chained operator has no gates"),
                }
            } else {
                parts.push(self.edge(of, consumer, input, ops));
            }
        }
        Ok(ops.fanout(parts))
    }

    fn edge(&self, of: NodeId, consumer: NodeId, input: usize, ops: &Arc<dyn StreamOps>) -> AnyDownstream {
        let to = self.graph.node(consumer);
        let edge = &to.inputs[input];
        let channels = self
            .wiring
            .channels_of(consumer, input, to.parallelism.0, self.subtask)
            .into_iter()
            .map(|(c, channel)| (self.wiring.gate(consumer, c, edge.slot).gate.clone(), channel))
            .collect();
        let uid = &self.graph.node(of).uid;
        ops.output(
            uid,
            &*edge.partitioner,
            channels,
            self.cx.outputs,
            self.subtask as usize,
        )
    }

    /// For a subtask that had finished: its consumers see the last watermark and the end.
    fn end_outputs(&self) -> Result<(), BoxError> {
        for id in &self.graph.chained.vertices[self.vertex.0 as usize].nodes {
            let node = self.graph.node(*id);
            let outputs = std::iter::once((None, &node.ops))
                .chain(node.side_ops.iter().enumerate().map(|(s, ops)| (Some(s), ops)));
            for (side, ops) in outputs {
                for (consumer, input) in self.graph.consumers(*id, side) {
                    if !self.graph.chained.is_chained(consumer) {
                        let now = self.cx.clock.now();
                        ops.end(self.edge(*id, consumer, input, ops), MAX_WATERMARK, now);
                    }
                }
            }
        }
        Ok(())
    }

    /// What the restored snapshot says of a finished subtask; at another parallelism the old ones are merged into
    /// the first.
    fn finished_snapshot(&self) -> SubtaskSnapshot {
        let who = SubtaskId::new(self.vertex, SubtaskIndex(self.subtask));
        let mut snapshot = SubtaskSnapshot {
            subtask: who,
            sections: Vec::new(),
            finished: true,
        };
        let nodes = &self.graph.chained.vertices[self.vertex.0 as usize].nodes;
        let uids: Vec<&OperatorUid> = nodes.iter().map(|n| &self.graph.node(*n).uid).collect();
        let parallelism = self.graph.chained.vertices[self.vertex.0 as usize].parallelism.0;
        for old in self.cx.restore.iter().flat_map(|r| &r.subtasks) {
            if old.subtask.index.0 % parallelism == self.subtask {
                let own = old.sections.iter().filter(|s| uids.contains(&&s.head.uid));
                snapshot.sections.extend(own.cloned());
            }
        }
        snapshot
    }
}

/// Whether reading again can help: the store may only have been away for a moment.
fn heals(error: &BoxError) -> bool {
    use tidegate_storage::{ErrorKind, StorageError};
    error
        .downcast_ref::<StorageError>()
        .is_some_and(|e| e.kind() == ErrorKind::Retry)
}

fn fill(plan: &RestorePlan, graph: &JobGraph, cx: &mut OpenContext) -> Result<(), OpError> {
    cx.old_parallelism = plan.parallelism.get(&cx.uid).copied();
    let wanted = plan.sections_for(&cx.uid, cx.subtask, cx.parallelism, graph);
    let sections: Vec<&Section> = wanted.iter().map(|(_, s)| *s).collect();
    let payloads = (plan.fetch)(&sections).map_err(|e| OpError {
        uid: cx.uid.clone(),
        place: "reading the restored snapshot".to_owned(),
        retryable: heals(&e),
        source: e,
    })?;
    cx.restored = wanted
        .iter()
        .zip(payloads)
        .map(|((subtask, section), bytes)| RestoredSection {
            subtask: *subtask,
            head: section.head.clone(),
            bytes,
        })
        .collect();
    Ok(())
}
