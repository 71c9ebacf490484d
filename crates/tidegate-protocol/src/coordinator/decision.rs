//! The order of durable effects.
//!
//! Owns: when a decision is written, what follows from its standing, and the three orders that everything else rests
//! on:
//!
//! 1. *Ids are decided in order, each by an object.* The lowest undecided id is written first, one at a time,
//!    `aborted` for what failed. A new leader claims the lowest id without an object, so an older one, which can
//!    decide nothing above before that id, meets the claim whatever it wakes up with, and stops. One gap and it could
//!    complete a higher id past the claim.
//! 2. *`aborted` stands before a file goes.* An older leader that still believes in the checkpoint finds out from the
//!    object, not from missing files. So tasks, which delete what they wrote when they hear of an abort, hear of it
//!    only then; cancel markers, which travel with the records, release whoever waits before. Files of complete
//!    checkpoints go only when a newer complete one stands that doesn't name them.
//! 3. *A commit is done before the next complete decision.* Recovery from that one commits what it lists and discards
//!    everything else, so nothing of the one before may be left to commit.
//!
//! Does not own: the objects themselves (the store creates, or reads what stands and compares), retrying a complete
//! decision (a failed write fails the checkpoint), what follows from completion (`complete.rs`).

use std::time::Duration;

use tidegate_types::CheckpointId;

use super::action::{CoordinatorAction, Decision};
use super::event::{DecisionOutcome, Verdict};
use super::failure::FailureReason;
use super::pending::{AbortWrite, Parts, Pending, Stage};
use super::trace::TraceStep;
use super::{Coordinator, Phase};

/// How long until writing `aborted` is tried again: the store has just said no, and nothing but newer checkpoints
/// waits for it.
pub(super) const ABORT_RETRY: Duration = Duration::from_secs(1);

/// How much longer than the timeout a ready checkpoint waits for its turn: for `aborted` to be written for one that
/// expired before it, even if that takes two tries.
pub(super) const TURN_GRACE: Duration = Duration::from_secs(2);

impl Coordinator {
    /// Everything of a checkpoint is there: older ones that aren't are given up, and its turn is awaited.
    pub(super) fn ready(&mut self, id: CheckpointId, parts: Parts) {
        let pending = self.undecided.get_mut(&id).expect("it has just become ready");
        pending.stage = Stage::AwaitingTurn(parts);
        // It has kept its time. A savepoint before it may have as much again to run, and a commit or the store must not
        // hold it for ever.
        pending.expires_at = self.now + self.settings.timeout + TURN_GRACE;
        self.trace(Some(id), || TraceStep::AwaitingTurn);
        let older = self.undecided.range(..id).map(|(_, pending)| pending);
        let subsumed: Vec<_> = older
            .filter(|pending| pending.is_live() && !pending.is_ready() && pending.purpose.is_subsumable())
            .map(|pending| pending.id)
            .collect();
        for older in subsumed {
            self.fail(
                older,
                FailureReason::Subsumed,
                None,
                format!("checkpoint {id} was complete before it"),
            );
        }
    }

    /// Writes the decision on the lowest undecided id if it is known and nothing stands before it.
    pub(super) fn advance_decisions(&mut self) {
        if matches!(self.phase, Phase::Claiming | Phase::Deposed) {
            return;
        }
        let Some(mut lowest) = self.undecided.first_entry() else {
            return;
        };
        let id = *lowest.key();
        let decision = match &mut lowest.get_mut().stage {
            Stage::AwaitingTurn(parts) => {
                if !self.committing.is_empty() {
                    return;
                }
                let parts = std::mem::take(parts);
                let content = Box::new(self.content(id, &parts));
                let pending = self.undecided.get_mut(&id).expect("it is still the lowest");
                pending.stage = Stage::WritingComplete(parts);
                Decision::Complete(content)
            }
            Stage::Aborting { write, record, .. } => {
                let due = match *write {
                    AbortWrite::AwaitingTurn => true,
                    AbortWrite::Writing => false,
                    AbortWrite::RetryAt(at) => at <= self.now,
                };
                if !due {
                    return;
                }
                *write = AbortWrite::Writing;
                Decision::Aborted(record.clone())
            }
            Stage::SnapshottingEnumerators
            | Stage::Collecting { .. }
            | Stage::ExternalPhase(_)
            | Stage::CopyingSavepoint(_)
            | Stage::WritingComplete(_) => return,
        };
        let verdict = match decision {
            Decision::Complete(_) => Verdict::Complete,
            Decision::Aborted(_) => Verdict::Aborted,
        };
        self.trace(Some(id), || TraceStep::Deciding(verdict));
        self.out.push(CoordinatorAction::WriteDecision { id, decision });
    }

    pub(super) fn on_decision_written(&mut self, id: CheckpointId, outcome: DecisionOutcome) {
        let Some(lowest) = self.undecided.first_entry().filter(|lowest| *lowest.key() == id) else {
            // Doubled: it is decided already.
            return;
        };
        let pending = lowest.remove();
        match pending.stage {
            Stage::WritingComplete(_) => self.on_complete_written(pending, outcome),
            Stage::Aborting { .. } => self.on_aborted_written(pending, outcome),
            // Doubled: its like was heard, and nothing is being written.
            Stage::SnapshottingEnumerators
            | Stage::Collecting { .. }
            | Stage::ExternalPhase(_)
            | Stage::CopyingSavepoint(_)
            | Stage::AwaitingTurn(_) => {
                self.undecided.insert(id, pending);
            }
        }
    }

    fn on_complete_written(&mut self, pending: Pending, outcome: DecisionOutcome) {
        let id = pending.id;
        let Stage::WritingComplete(parts) = pending.stage else {
            unreachable!("checkpoint {id} is being written as complete")
        };
        match outcome {
            DecisionOutcome::Mine(Verdict::Complete) => self.completed(id, pending.purpose, parts),
            DecisionOutcome::Failed { error } => {
                self.undecided.insert(
                    id,
                    Pending {
                        stage: Stage::WritingComplete(parts),
                        ..pending
                    },
                );
                self.fail(id, FailureReason::MetadataWriteFailed, None, error);
            }
            // An `aborted` that this leadership never wrote is not its own, whatever it says.
            DecisionOutcome::Mine(Verdict::Aborted) | DecisionOutcome::Foreign => self.step_down(id),
        }
    }

    fn on_aborted_written(&mut self, pending: Pending, outcome: DecisionOutcome) {
        let id = pending.id;
        let Stage::Aborting {
            record,
            unclear,
            copy_begun,
            write,
        } = pending.stage
        else {
            unreachable!("checkpoint {id} is being aborted")
        };
        match (outcome, unclear, write) {
            (DecisionOutcome::Mine(Verdict::Aborted), unclear, _) => {
                self.aborted(id, &pending.purpose, pending.mode, copy_begun);
                if unclear.is_some() {
                    self.answer_failed(&pending.purpose, record);
                }
            }
            // The write that seemed to fail had succeeded.
            (DecisionOutcome::Mine(Verdict::Complete), Some(parts), _) => {
                self.completed(id, pending.purpose, *parts);
            }
            (DecisionOutcome::Failed { .. }, unclear, write) => {
                let write = match write {
                    AbortWrite::Writing => AbortWrite::RetryAt(self.now + ABORT_RETRY),
                    // Doubled: it is to be tried again already.
                    AbortWrite::AwaitingTurn | AbortWrite::RetryAt(_) => write,
                };
                let stage = Stage::Aborting {
                    record,
                    unclear,
                    copy_begun,
                    write,
                };
                self.undecided.insert(id, Pending { stage, ..pending });
            }
            // A complete object that this leadership never tried to write is not its own.
            (DecisionOutcome::Mine(Verdict::Complete), None, _) | (DecisionOutcome::Foreign, _, _) => {
                self.step_down(id);
            }
        }
    }
}
