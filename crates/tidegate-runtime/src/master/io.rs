//! The store's side of a job master: claims, decisions, commits and clean-up, one request at a time per lane.
//!
//! Three lanes, each strictly in order: decisions (with claims and savepoint copies), commits, clean-up. A slow
//! clean-up never holds up a decision.

// Every future here is run to its end by one thread (`Executor::block_on`), so a lane's lock may be held across it:
// that is what makes the lane strictly ordered.
#![allow(clippy::await_holding_lock)]

mod claiming;

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_protocol::coordinator::{CheckpointContent, Decision, DecisionOutcome, OperatorFinish, Verdict};
use tidegate_storage::{
    AbortCause, CheckpointMetadata, Decision as StoredDecision, DeletePermit, Finished, InputMeta, JobStore,
    Leadership, LineageId, Nonce, Nonces, OperatorMeta, Outcome, StateFileName, StatsSummary, StorageError,
    View, Writer,
};
use tidegate_types::snapshot::SectionKind;
use tidegate_types::{AttemptNumber, CheckpointId, EventTime, InputIndex};

use crate::error::{BoxError, chain_of};
use crate::graph::{JobGraph, NodeId};
use crate::operators::OutputLost;

use super::commits::Commits;
use super::env::{CommitFailure, IoReply, IoRequest};

/// Runs the store's futures where blocking is allowed.
#[derive(Debug, Clone)]
pub enum Executor {
    /// On a runtime's pool.
    Tokio(tokio::runtime::Handle),
    /// Right here; for stores that are always ready (in memory).
    Inline,
}

impl Executor {
    /// Runs a future to its end.
    ///
    /// # Panics
    /// `Inline` if the future waits for something.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self {
            Self::Tokio(handle) => handle.block_on(future),
            Self::Inline => {
                let mut future = pin!(future);
                let mut cx = Context::from_waker(Waker::noop());
                // A store in memory may yield, but never waits for anybody.
                for _ in 0..1_000_000 {
                    if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                        return output;
                    }
                }
                panic!("an inline executor got a future that waits")
            }
        }
    }
}

/// What a store worker is made of.
pub struct StoreWorkerParts {
    /// The job's directory.
    pub store: JobStore,
    /// The job.
    pub graph: Arc<JobGraph>,
    /// Where futures run.
    pub executor: Executor,
    /// Nonces of this process.
    pub nonces: Nonces,
    /// All inline state of one checkpoint at most, in bytes.
    pub inline_total_bytes: u64,
    /// Where savepoints go that name no place.
    pub savepoint_dir: Option<String>,
}

struct Decider {
    leadership: Option<Leadership>,
    /// Claims that failed after the leadership began: each may stand all the same.
    unsure: Vec<Nonce>,
    nonces: Nonces,
}

/// Serves a master's requests.
pub struct StoreWorker {
    store: JobStore,
    graph: Arc<JobGraph>,
    executor: Executor,
    inline_total_bytes: u64,
    savepoint_dir: Option<String>,
    decider: Mutex<Decider>,
    view: Mutex<Option<View>>,
    permit: Mutex<Option<DeletePermit>>,
    commits: Commits,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StoreWorker {
    /// A worker that leads nothing yet.
    pub fn new(parts: StoreWorkerParts) -> Arc<Self> {
        Arc::new(Self {
            commits: Commits::new(
                parts.graph.clone(),
                parts.store.dir().clone(),
                parts.executor.clone(),
            ),
            store: parts.store,
            graph: parts.graph,
            executor: parts.executor,
            inline_total_bytes: parts.inline_total_bytes,
            savepoint_dir: parts.savepoint_dir,
            decider: Mutex::new(Decider {
                leadership: None,
                unsure: Vec::new(),
                nonces: parts.nonces,
            }),
            view: Mutex::new(None),
            permit: Mutex::new(None),
        })
    }

    /// The job's directory.
    pub fn store(&self) -> &JobStore {
        &self.store
    }

    /// Nonces for writers of one attempt.
    pub fn writer_nonces(&self) -> Nonces {
        Nonces::seeded(lock(&self.decider).nonces.draw().0)
    }

    /// Serves one request. Blocks; call it where that is allowed. `wall_ms` is now.
    pub fn perform(&self, request: IoRequest, wall_ms: EventTime) -> IoReply {
        match request {
            IoRequest::Claim(choice) => {
                IoReply::Claimed(self.executor.block_on(self.claim(choice)).map(Box::new))
            }
            IoRequest::Settle {
                snapshot,
                attempt,
                refusal,
            } => IoReply::Settled(self.commits.settle(snapshot.as_deref(), attempt, refusal)),
            IoRequest::TakeOverSinks { snapshot, attempt } => {
                IoReply::Settled(self.commits.take_over(snapshot.as_deref(), attempt))
            }
            IoRequest::Decide {
                id,
                decision,
                lineage,
            } => {
                let outcome = self
                    .executor
                    .block_on(self.decide(id, decision, lineage, wall_ms));
                IoReply::Decided { id, outcome }
            }
            IoRequest::CopySavepoint {
                id,
                order,
                content,
                lineage,
            } => {
                let copied = self.copy_savepoint(id, order.target.as_deref(), &content, lineage, wall_ms);
                let result = self.executor.block_on(copied).map_err(|e| chain_of(&*e));
                IoReply::Copied { id, result }
            }
            IoRequest::Commit { id, committables } => {
                let result = self.commits.commit(&committables);
                let result = result.map_err(|(uid, error)| CommitFailure {
                    uid,
                    lost: error.is::<OutputLost>(),
                    overtaken: self.executor.block_on(self.overtaken()),
                    error: chain_of(&*error),
                    committables,
                });
                IoReply::Committed { id, result }
            }
            IoRequest::Sweep => IoReply::Swept {
                warnings: self.executor.block_on(self.sweep()),
            },
            IoRequest::Close => {
                IoReply::Closed(self.executor.block_on(self.close()).map_err(|e| chain_of(&e)))
            }
        }
    }

    async fn decide(
        &self,
        id: CheckpointId,
        decision: Decision,
        lineage: u64,
        wall_ms: EventTime,
    ) -> DecisionOutcome {
        match self.try_decide(id, decision, lineage, wall_ms).await {
            Ok(outcome) => outcome,
            Err(error) if error.kind() == tidegate_storage::ErrorKind::Fenced => DecisionOutcome::Foreign,
            Err(error) => DecisionOutcome::Failed {
                error: chain_of(&error),
            },
        }
    }

    async fn try_decide(
        &self,
        id: CheckpointId,
        decision: Decision,
        lineage: u64,
        wall_ms: EventTime,
    ) -> Result<DecisionOutcome, StorageError> {
        let mut guard = lock(&self.decider);
        let Decider {
            leadership, nonces, ..
        } = &mut *guard;
        let leadership = leadership.as_mut().expect("decisions come after a claim");
        let stored = match decision {
            Decision::Complete(content) => {
                let mut metadata = self.metadata(&content, lineage, wall_ms);
                let name = StateFileName {
                    checkpoint: id,
                    writer: Writer::Coordinator,
                    attempt: AttemptNumber(0),
                    epoch: leadership.epoch(),
                    nonce: nonces.draw(),
                };
                self.store
                    .spill_inline(&name, self.inline_total_bytes, &mut metadata)
                    .await?;
                StoredDecision::Complete(Box::new(metadata))
            }
            Decision::Aborted(record) => StoredDecision::Aborted(AbortCause::Failed {
                reason: record.reason.to_string(),
                detail: record.detail,
            }),
        };
        let wanted = verdict(&stored);
        let outcome = match self.store.decide(leadership, id, stored).await? {
            Outcome::Mine => DecisionOutcome::Mine(wanted),
            Outcome::MineEarlier(object) => DecisionOutcome::Mine(verdict(&object.decision)),
            Outcome::Other(_) => DecisionOutcome::Foreign,
        };
        *lock(&self.view) = Some(leadership.view());
        Ok(outcome)
    }

    async fn copy_savepoint(
        &self,
        id: CheckpointId,
        target: Option<&str>,
        content: &CheckpointContent,
        lineage: u64,
        wall_ms: EventTime,
    ) -> Result<String, BoxError> {
        let target = target.or(self.savepoint_dir.as_deref()).ok_or(
            "no directory was given for the savepoint and execution.checkpointing.savepoint-dir isn't set",
        )?;
        let target = self.store.savepoint_target(target)?;
        let mut guard = lock(&self.decider);
        let Decider {
            leadership, nonces, ..
        } = &mut *guard;
        let leadership = leadership.as_ref().expect("savepoints come after a claim");
        let mut metadata = self.metadata(content, lineage, wall_ms);
        Ok(self
            .store
            .write_savepoint(leadership, id, &target, nonces.draw(), &mut metadata)
            .await?)
    }

    async fn sweep(&self) -> Vec<String> {
        let Some(view) = lock(&self.view).clone() else {
            return Vec::new();
        };
        let mut permit = lock(&self.permit);
        let Some(permit) = permit.as_mut() else {
            return Vec::new();
        };
        match self.store.sweep(permit, &view).await {
            Ok(report) => report.warnings.iter().map(ToString::to_string).collect(),
            Err(error) if error.kind() == tidegate_storage::ErrorKind::Fenced => Vec::new(),
            Err(error) => vec![format!(
                "the checkpoint directory could not be cleaned up: {}",
                chain_of(&error)
            )],
        }
    }

    async fn close(&self) -> Result<(), StorageError> {
        {
            let mut guard = lock(&self.decider);
            let Some(leadership) = guard.leadership.as_mut() else {
                return Ok(());
            };
            self.store.close(leadership).await?;
            *lock(&self.view) = Some(leadership.view());
        }
        self.sweep().await;
        Ok(())
    }

    fn metadata(&self, content: &CheckpointContent, lineage: u64, wall_ms: EventTime) -> CheckpointMetadata {
        let stats = StatsSummary {
            subtasks: content.subtasks.len() as u32,
            ..content_stats(content)
        };
        CheckpointMetadata {
            kind: content.kind,
            savepoint: content.savepoint.clone(),
            triggered_at_ms: wall_ms - EventTime::try_from(content.duration.as_millis()).unwrap_or(0),
            completed_at_ms: wall_ms,
            max_parallelism: self.graph.max_parallelism,
            operators: self.operators(content),
            subtasks: content.subtasks.clone(),
            master: content
                .enumerators
                .iter()
                .chain(&content.external)
                .cloned()
                .collect(),
            retained: content.retained.clone(),
            lineage: LineageId(lineage),
            stats,
        }
    }

    fn operators(&self, content: &CheckpointContent) -> Vec<OperatorMeta> {
        let meta = |(at, node): (usize, &crate::graph::OperatorNode)| {
            let id = NodeId(at);
            let vertex = self.graph.chained.vertex_of[at];
            let nodes = &self.graph.chained.vertices[vertex.0 as usize].nodes;
            let summary = content.operators.iter().find(|o| o.uid == node.uid);
            OperatorMeta {
                uid: node.uid.clone(),
                name: node.name.to_string(),
                parallelism: node.parallelism,
                vertex,
                position: nodes.iter().position(|n| *n == id).unwrap_or(0) as u32,
                finished: match summary.map(|s| s.finished) {
                    Some(OperatorFinish::Fully) => Finished::Fully,
                    Some(OperatorFinish::Partly) => Finished::Partly,
                    Some(OperatorFinish::None) | None => Finished::No,
                },
                inputs: self.inputs(node),
            }
        };
        self.graph.nodes.iter().enumerate().map(meta).collect()
    }

    fn inputs(&self, node: &crate::graph::OperatorNode) -> Vec<InputMeta> {
        let input = |(at, edge): (usize, &crate::graph::InputEdge)| {
            let producer = self.graph.node(edge.from);
            InputMeta {
                input: InputIndex(at as u32),
                producer: producer.uid.clone(),
                producer_parallelism: producer.parallelism,
                kind: edge.spread.kind().0,
                partitioner: edge.spread.name().to_lowercase(),
            }
        };
        node.inputs.iter().enumerate().map(input).collect()
    }
}

fn verdict(decision: &StoredDecision) -> Verdict {
    match decision {
        StoredDecision::Complete(_) => Verdict::Complete,
        StoredDecision::Aborted(_) => Verdict::Aborted,
    }
}

fn content_stats(content: &CheckpointContent) -> StatsSummary {
    let mut stats = StatsSummary {
        end_to_end: content.duration,
        ..StatsSummary::default()
    };
    for section in content.subtasks.iter().flat_map(|s| &s.sections) {
        let bytes = section.location.size_bytes();
        if matches!(section.head.kind, SectionKind::InFlight(_)) {
            stats.persisted_bytes += bytes;
            stats.persisted_records += section.head.records;
        } else {
            stats.state_bytes += bytes;
        }
    }
    stats
}

/// How long a failed commit waits before it is tried again.
pub(super) const COMMIT_AGAIN: Duration = Duration::from_secs(1);
