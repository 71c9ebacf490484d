//! What happened to the checkpoints of a job: counts, figures and the newest ones in detail.
//!
//! Owns: everything that the REST answers about checkpoints are made of, with a bound on how much is kept. It outlives
//! attempts: a coordinator is given the history of the one before.
//! Does not own: wall clocks (times are the driver's [`Nanos`]), JSON, and any influence on what the coordinator does.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_types::snapshot::{SubtaskSnapshot, SubtaskStats};
use tidegate_types::{CheckpointId, CheckpointKind, Nanos, SnapshotMode, SubtaskId, SubtaskIndex, VertexId};

use super::event::RestoredFrom;
use super::failure::FailureRecord;
use super::plan::Plan;
use super::summary::{Series, Summary};

/// How many checkpoints there were (`counts`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointCounts {
    /// Restores.
    pub restored: u64,
    /// Triggered.
    pub total: u64,
    /// Not decided yet.
    pub in_progress: u64,
    /// Complete.
    pub completed: u64,
    /// Failed.
    pub failed: u64,
}

/// Where a checkpoint stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CheckpointStatus {
    /// Not decided yet.
    InProgress,
    /// Durable.
    Completed,
    /// It never was.
    Failed,
}

impl CheckpointStatus {
    /// The word that REST uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::InProgress => "IN_PROGRESS",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
        }
    }
}

/// One checkpoint in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointStats {
    /// Its id.
    pub id: CheckpointId,
    /// Checkpoint or savepoint.
    pub kind: CheckpointKind,
    /// How its barriers were sent out.
    pub mode: SnapshotMode,
    /// Where it stands.
    pub status: CheckpointStatus,
    /// When it was triggered.
    pub triggered_at: Nanos,
    /// When the last acknowledgement so far came.
    pub latest_ack_at: Option<Nanos>,
    /// When it was decided.
    pub ended_at: Option<Nanos>,
    /// Its vertices, in the plan's order.
    pub tasks: Vec<TaskStats>,
    /// Where the savepoint is.
    pub path: Option<String>,
    /// Why it failed.
    pub failure: Option<FailureRecord>,
    /// Whether it was deleted since.
    pub discarded: bool,
}

/// One vertex of one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStats {
    /// The vertex.
    pub vertex: VertexId,
    /// Its subtasks by index; `None` until acknowledged.
    pub subtasks: Vec<Option<SubtaskCheckpoint>>,
}

/// One subtask's part of one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubtaskCheckpoint {
    /// When its acknowledgement came.
    pub acked_at: Nanos,
    /// Bytes that the checkpoint names for it, those written by earlier checkpoints included.
    pub state_bytes: u64,
    /// Whether it had finished.
    pub finished: bool,
    /// What it measured.
    pub stats: SubtaskStats,
}

impl CheckpointStats {
    /// From the trigger to the newest acknowledgement, as Flink counts a checkpoint's duration.
    pub fn end_to_end(&self) -> Duration {
        self.latest_ack_at
            .map_or(Duration::ZERO, |at| at.since(self.triggered_at))
    }

    /// How many subtasks take part.
    pub fn subtask_count(&self) -> usize {
        self.tasks.iter().map(|task| task.subtasks.len()).sum()
    }

    /// How many have acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.acked().count()
    }

    /// Bytes that the checkpoint names.
    pub fn state_bytes(&self) -> u64 {
        self.sum(|subtask| subtask.state_bytes)
    }

    /// Bytes of state that this checkpoint wrote (`checkpointed_size`).
    pub fn checkpointed_bytes(&self) -> u64 {
        self.sum(|subtask| subtask.stats.state_bytes)
    }

    /// Bytes processed while aligning.
    pub fn processed_bytes(&self) -> u64 {
        self.sum(|subtask| subtask.stats.processed_bytes)
    }

    /// Bytes of in-flight data written.
    pub fn persisted_bytes(&self) -> u64 {
        self.sum(|subtask| subtask.stats.persisted_bytes)
    }

    /// Whether a barrier overtook anywhere.
    pub fn overtook(&self) -> bool {
        self.acked()
            .any(|subtask| subtask.stats.mode == Some(SnapshotMode::Unaligned))
    }

    /// The parts acknowledged so far.
    pub fn acked(&self) -> impl Iterator<Item = &SubtaskCheckpoint> {
        self.tasks.iter().flat_map(|task| task.subtasks.iter().flatten())
    }

    fn sum(&self, of: impl Fn(&SubtaskCheckpoint) -> u64) -> u64 {
        self.acked().map(of).fold(0, u64::saturating_add)
    }
}

/// Figures over completed checkpoints (`summary`). Durations in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckpointSummary {
    /// `end_to_end_duration`
    pub end_to_end_ms: Summary,
    /// `state_size`
    pub state_bytes: Summary,
    /// `checkpointed_size`
    pub checkpointed_bytes: Summary,
    /// `processed_data`
    pub processed_bytes: Summary,
    /// `persisted_data`
    pub persisted_bytes: Summary,
}

/// The newest restore (`latest.restored`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredStats {
    /// From what.
    pub from: RestoredFrom,
    /// When.
    pub restored_at: Nanos,
}

/// Everything there is to show about a job's checkpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    limit: usize,
    counts: CheckpointCounts,
    /// Oldest first. Undecided ones are never dropped; of the decided ones, at most `limit`.
    entries: VecDeque<CheckpointStats>,
    completed: Option<CheckpointStats>,
    savepoint: Option<CheckpointStats>,
    failed: Option<CheckpointStats>,
    restored: Option<RestoredStats>,
    end_to_end_ms: Series,
    state_bytes: Series,
    checkpointed_bytes: Series,
    processed_bytes: Series,
    persisted_bytes: Series,
}

impl History {
    /// An empty history that keeps `limit` decided checkpoints in detail.
    pub fn new(limit: u32) -> Self {
        Self {
            limit: limit as usize,
            counts: CheckpointCounts::default(),
            entries: VecDeque::new(),
            completed: None,
            savepoint: None,
            failed: None,
            restored: None,
            end_to_end_ms: Series::default(),
            state_bytes: Series::default(),
            checkpointed_bytes: Series::default(),
            processed_bytes: Series::default(),
            persisted_bytes: Series::default(),
        }
    }

    /// How many there were.
    pub fn counts(&self) -> CheckpointCounts {
        self.counts
    }

    /// Figures over the completed ones. Sorts up to 10,000 values per quantity.
    pub fn summary(&self) -> CheckpointSummary {
        CheckpointSummary {
            end_to_end_ms: self.end_to_end_ms.summary(),
            state_bytes: self.state_bytes.summary(),
            checkpointed_bytes: self.checkpointed_bytes.summary(),
            processed_bytes: self.processed_bytes.summary(),
            persisted_bytes: self.persisted_bytes.summary(),
        }
    }

    /// The checkpoints in detail, newest first.
    pub fn recent(&self) -> impl Iterator<Item = &CheckpointStats> {
        self.entries.iter().rev()
    }

    /// One checkpoint in detail, if it is still there.
    pub fn get(&self, id: CheckpointId) -> Option<&CheckpointStats> {
        let latest = [&self.completed, &self.savepoint, &self.failed];
        self.entries
            .iter()
            .chain(latest.into_iter().flatten())
            .find(|stats| stats.id == id)
    }

    /// The newest complete checkpoint that isn't a savepoint.
    pub fn latest_completed(&self) -> Option<&CheckpointStats> {
        self.completed.as_ref()
    }

    /// The newest complete savepoint.
    pub fn latest_savepoint(&self) -> Option<&CheckpointStats> {
        self.savepoint.as_ref()
    }

    /// The newest failed one.
    pub fn latest_failed(&self) -> Option<&CheckpointStats> {
        self.failed.as_ref()
    }

    /// The newest restore.
    pub fn latest_restored(&self) -> Option<&RestoredStats> {
        self.restored.as_ref()
    }

    pub(super) fn restored(&mut self, from: RestoredFrom, restored_at: Nanos) {
        self.counts.restored += 1;
        self.restored = Some(RestoredStats { from, restored_at });
    }

    pub(super) fn started(
        &mut self,
        id: CheckpointId,
        kind: CheckpointKind,
        mode: SnapshotMode,
        now: Nanos,
        plan: &Plan,
    ) {
        self.counts.total += 1;
        self.counts.in_progress += 1;
        let tasks = plan.vertices().iter().map(|vertex| TaskStats {
            vertex: vertex.id,
            subtasks: vec![None; vertex.parallelism.0 as usize],
        });
        self.entries.push_back(CheckpointStats {
            id,
            kind,
            mode,
            status: CheckpointStatus::InProgress,
            triggered_at: now,
            latest_ack_at: None,
            ended_at: None,
            tasks: tasks.collect(),
            path: None,
            failure: None,
            discarded: false,
        });
    }

    pub(super) fn acknowledged(
        &mut self,
        id: CheckpointId,
        snapshot: &SubtaskSnapshot,
        stats: SubtaskStats,
        now: Nanos,
    ) {
        let SubtaskId {
            vertex,
            index: SubtaskIndex(index),
        } = snapshot.subtask;
        let Some(entry) = self.in_progress(id) else { return };
        let Some(task) = entry.tasks.iter_mut().find(|task| task.vertex == vertex) else {
            return;
        };
        let Some(place) = task.subtasks.get_mut(index as usize) else {
            return;
        };
        let state_bytes = snapshot
            .sections
            .iter()
            .map(|section| section.location.size_bytes());
        *place = Some(SubtaskCheckpoint {
            acked_at: now,
            state_bytes: state_bytes.fold(0, u64::saturating_add),
            finished: snapshot.finished,
            stats,
        });
        entry.latest_ack_at = Some(now);
    }

    pub(super) fn completed(&mut self, id: CheckpointId, path: Option<String>, now: Nanos) {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) else {
            return;
        };
        match entry.status {
            CheckpointStatus::InProgress => self.counts.in_progress -= 1,
            // An unclear write turned out to have succeeded.
            CheckpointStatus::Failed => self.counts.failed -= 1,
            CheckpointStatus::Completed => return,
        }
        self.counts.completed += 1;
        entry.status = CheckpointStatus::Completed;
        entry.ended_at = Some(now);
        entry.path = path;
        entry.failure = None;
        let entry = entry.clone();
        self.end_to_end_ms
            .add(u64::try_from(entry.end_to_end().as_millis()).unwrap_or(u64::MAX));
        self.state_bytes.add(entry.state_bytes());
        self.checkpointed_bytes.add(entry.checkpointed_bytes());
        self.processed_bytes.add(entry.processed_bytes());
        self.persisted_bytes.add(entry.persisted_bytes());
        if self.failed.as_ref().is_some_and(|failed| failed.id == id) {
            self.failed = None;
        }
        let latest = if entry.kind.is_savepoint() {
            &mut self.savepoint
        } else {
            &mut self.completed
        };
        *latest = Some(entry);
        self.trim();
    }

    pub(super) fn failed(&mut self, id: CheckpointId, record: FailureRecord, now: Nanos) {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) else {
            return;
        };
        match entry.status {
            CheckpointStatus::InProgress => {
                self.counts.in_progress -= 1;
                self.counts.failed += 1;
                entry.ended_at = Some(now);
            }
            // The culprit's own report replaces its echo.
            CheckpointStatus::Failed => {}
            CheckpointStatus::Completed => return,
        }
        entry.status = CheckpointStatus::Failed;
        entry.failure = Some(record);
        self.failed = Some(entry.clone());
        self.trim();
    }

    pub(super) fn discarded(&mut self, id: CheckpointId) {
        let latest = [&mut self.completed, &mut self.savepoint, &mut self.failed];
        let entries = self.entries.iter_mut().chain(latest.into_iter().flatten());
        entries
            .filter(|entry| entry.id == id)
            .for_each(|entry| entry.discarded = true);
    }

    fn in_progress(&mut self, id: CheckpointId) -> Option<&mut CheckpointStats> {
        self.entries
            .iter_mut()
            .find(|entry| entry.id == id && entry.status == CheckpointStatus::InProgress)
    }

    /// Drops the oldest decided ones beyond the limit.
    fn trim(&mut self) {
        let decided = |entry: &CheckpointStats| entry.status != CheckpointStatus::InProgress;
        let mut excess = self
            .entries
            .iter()
            .filter(|entry| decided(entry))
            .count()
            .saturating_sub(self.limit);
        self.entries.retain(|entry| {
            let drop = excess > 0 && decided(entry);
            excess -= usize::from(drop);
            !drop
        });
    }
}
