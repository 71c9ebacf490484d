//! How a coordinator begins: after its claim, with new tasks or with those of an earlier leadership.
//!
//! Owns: what the claim means for ids, asking running tasks what they hold, and what of that the enumerators must be
//! restored with. Does not own: the claim itself (objects in the store), settling sinks, leases.
//!
//! A checkpoint that an earlier leadership triggered is never completed by a later one: what the enumerators had at its
//! cut died with their leader. Its id is decided `aborted` like any other, in order, and with that its files go.

use std::time::Duration;

use tidegate_types::{CheckpointId, Nanos, SnapshotMode, SubtaskId};

use super::action::{CoordinatorAction, ReaderSplits};
use super::decided::REMEMBERED;
use super::event::{Claim, Verdict};
use super::failure::{FailureReason, FailureRecord};
use super::pending::{AbortWrite, Pending, Purpose, Stage};
use super::retention::Retention;
use super::{Coordinator, Phase, StartMode};
use crate::message::{HeldSplits, ToTask};

/// How often a task that hasn't answered is asked again.
pub(super) const REOFFER_EVERY: Duration = Duration::from_secs(1);

/// How many ids above the claim an earlier leadership can have used: it had at most so many undecided, as here. More is
/// nonsense, and writing that many objects would take forever.
pub(super) const MAX_INHERITED: u64 = 1024;

/// Collects what running tasks hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Adopting {
    held: Vec<(SubtaskId, HeldSplits)>,
    reoffer_at: Nanos,
}

impl Adopting {
    pub(super) fn reoffer_at(&self) -> Nanos {
        self.reoffer_at
    }
}

impl Coordinator {
    pub(super) fn on_claimed(&mut self, claim: Claim) {
        match self.phase {
            Phase::Claiming => {}
            // Stopped meanwhile.
            Phase::Stopping { .. } | Phase::Deposed => return,
            Phase::Adopting(_) | Phase::RestoringEnumerators | Phase::Active => {
                panic!("a coordinator is told of its claim once")
            }
        }
        let Claim {
            newest,
            retained,
            next_id,
            highest_used,
            restored,
        } = claim;
        let newest_complete = newest.map(|newest| newest.id);
        assert!(
            newest_complete < Some(next_id),
            "the claim is above the newest complete checkpoint"
        );
        assert!(
            retained.iter().all(|id| Some(*id) < newest_complete),
            "only older ones are named as retained"
        );
        self.next_id = next_id.max(CheckpointId(1));
        let first_aborted = newest_complete.map_or(CheckpointId(1), CheckpointId::next);
        let remembered = self.next_id.0.saturating_sub(REMEMBERED as u64 / 2);
        if let Some(id) = newest_complete {
            self.decided.record(id, Verdict::Complete);
        }
        (first_aborted.0.max(remembered)..self.next_id.0)
            .for_each(|id| self.decided.record(CheckpointId(id), Verdict::Aborted));
        self.retention = Retention::found(newest.map(|newest| (newest.id, newest.kind)), &retained);
        let restored_from = restored.as_ref().map(|from| from.id);
        if let Some(from) = restored {
            self.history.restored(from, self.now);
        }
        let usable = self.retention.newest_checkpoint();
        match self.mode {
            StartMode::Deploy => {
                self.base = usable.filter(|id| Some(*id) == restored_from);
                self.phase = Phase::Active;
            }
            StartMode::Takeover => {
                self.base = usable;
                self.phase = Phase::Adopting(Adopting {
                    held: Vec::new(),
                    reoffer_at: self.now + REOFFER_EVERY,
                });
                self.send(self.tasks.deploying(), ToTask::Reoffer);
            }
        }
        if let Some(id) = highest_used {
            self.inherit_up_to(id, None);
        }
    }

    /// Ids up to `id` have been in use: they are decided `aborted` before any other.
    pub(super) fn inherit_up_to(&mut self, id: CheckpointId, said_by: Option<SubtaskId>) {
        if id < self.next_id {
            return;
        }
        if id.0 - self.next_id.0 >= MAX_INHERITED {
            return self.fail_job(FailureRecord {
                id: None,
                reason: FailureReason::Takeover,
                subtask: said_by,
                detail: format!(
                    "checkpoint {id} is said to have been in use, and the next id is {}",
                    self.next_id
                ),
                counted: false,
            });
        }
        while self.next_id <= id {
            let id = self.next_id;
            self.next_id = id.next();
            let record = FailureRecord {
                id: Some(id),
                reason: FailureReason::Takeover,
                subtask: None,
                detail: String::new(),
                counted: false,
            };
            let stage = Stage::Aborting {
                record,
                unclear: None,
                copy_begun: false,
                write: AbortWrite::AwaitingTurn,
            };
            let pending = Pending {
                id,
                purpose: Purpose::Inherited,
                mode: SnapshotMode::Aligned,
                base: None,
                triggered_at: self.now,
                expires_at: Nanos::NEVER,
                quiesce_until: None,
                triggered: Default::default(),
                stage,
            };
            self.undecided.insert(id, pending);
        }
    }

    /// Whether tasks of an earlier leadership are still to be asked what they hold.
    pub(super) fn is_adopting(&self) -> bool {
        let begun = match self.phase {
            Phase::Claiming | Phase::Adopting(_) => false,
            Phase::RestoringEnumerators | Phase::Active | Phase::Stopping { .. } | Phase::Deposed => true,
        };
        self.mode == StartMode::Takeover && !begun
    }

    pub(super) fn on_still_running(
        &mut self,
        subtask: SubtaskId,
        newest_seen: CheckpointId,
        held: Vec<HeldSplits>,
    ) {
        match &mut self.phase {
            Phase::Adopting(adopting) => {
                if self.tasks.deploying().binary_search(&subtask).is_err() {
                    return self.ignore(None, subtask, "a doubled answer");
                }
                adopting.held.extend(held.into_iter().map(|held| (subtask, held)));
                self.tasks.set(subtask, super::tasks::TaskState::Running);
                self.inherit_up_to(newest_seen, Some(subtask));
            }
            Phase::Claiming | Phase::RestoringEnumerators | Phase::Active | Phase::Stopping { .. } => {
                self.on_running(subtask);
            }
            Phase::Deposed => {}
        }
    }

    pub(super) fn reoffer_when_due(&mut self) {
        let now = self.now;
        match &mut self.phase {
            Phase::Adopting(adopting) if adopting.reoffer_at <= now => {
                adopting.reoffer_at = now + REOFFER_EVERY;
                self.send(self.tasks.deploying(), ToTask::Reoffer);
            }
            Phase::Adopting(_)
            | Phase::Claiming
            | Phase::RestoringEnumerators
            | Phase::Active
            | Phase::Stopping { .. }
            | Phase::Deposed => {}
        }
    }

    /// Once every task has said what it holds, the enumerators are restored with it.
    pub(super) fn finish_adopting(&mut self) {
        let newest = self.decided.newest_complete();
        match &mut self.phase {
            Phase::Adopting(adopting) => {
                if !self.tasks.all_started() {
                    return;
                }
                // Up to the newest complete one they are in a reader's part, and the enumerator knows that.
                let known = newest.unwrap_or(CheckpointId(0));
                let held = std::mem::take(&mut adopting.held);
                let held = held.into_iter().filter(|(_, held)| held.after >= known);
                let held = held
                    .map(|(subtask, HeldSplits { uid, splits, .. })| ReaderSplits { subtask, uid, splits })
                    .collect();
                self.phase = Phase::RestoringEnumerators;
                self.out.push(CoordinatorAction::RestoreEnumerators {
                    checkpoint: newest,
                    held,
                });
            }
            Phase::Claiming
            | Phase::RestoringEnumerators
            | Phase::Active
            | Phase::Stopping { .. }
            | Phase::Deposed => {}
        }
    }

    pub(super) fn on_enumerators_restored(&mut self) {
        match self.phase {
            Phase::RestoringEnumerators => {}
            Phase::Claiming
            | Phase::Adopting(_)
            | Phase::Active
            | Phase::Stopping { .. }
            | Phase::Deposed => return,
        }
        self.phase = Phase::Active;
        // What the earlier leadership may not have said any more: what stands, that the rest doesn't, and that
        // nobody need stand still for it.
        let oldest_pending = self.oldest_pending();
        let to = self.tasks.unfinished();
        if let Some(id) = self.decided.newest_complete() {
            self.send(to.clone(), ToTask::Completed { id, oldest_pending });
        }
        if let Some((id, Verdict::Aborted)) = self.decided.newest() {
            self.send(to.clone(), ToTask::Aborted { id, oldest_pending });
        }
        if self.next_id > CheckpointId(1) {
            self.send(
                to,
                ToTask::Resume {
                    id: CheckpointId(self.next_id.0 - 1),
                },
            );
        }
    }
}
