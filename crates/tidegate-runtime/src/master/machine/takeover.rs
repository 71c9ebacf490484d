//! A new leader for tasks that run: claim, commit what stands, ask the tasks what they hold, lead them on.
//!
//! Owns: the way from a claim to [`Phase::Running`](super::Phase) without a deployment. Does not own: the answers of
//! the tasks (`tidegate_protocol::coordinator`), and keeping an earlier leader's messages away from them (the mailbox).
//!
//! No sink is settled, because its writers are at work. Whatever doesn't fit fails the attempt as a task would, and the
//! next one starts from the newest checkpoint.

use std::collections::VecDeque;

use tidegate_protocol::coordinator::{CoordinatorEvent, ReaderSplits, StartMode};
use tidegate_types::CheckpointId;

use crate::error::chain_of;

use super::super::attempt::Enumerators;
use super::super::env::{ClaimedStore, IoRequest, MasterEnv, Report};
use super::super::error::JobError;
use super::super::status::JobState;
use super::{JobMaster, Phase};

impl JobMaster {
    /// The claim stands: from here on no earlier leader decides anything.
    pub(super) fn take_over(&mut self, env: &mut dyn MasterEnv, claimed: ClaimedStore) {
        self.claim = self.claim_of(&claimed);
        self.attempt.epoch = claimed.epoch;
        let line = claimed.snapshot.as_ref().map(|s| s.metadata().lineage.0);
        self.completed_any = line == Some(self.attempt.lineage);
        self.snapshot.clone_from(&claimed.snapshot);
        self.phase = Phase::TakingOver;
        self.settling = true;
        env.request(IoRequest::TakeOverSinks {
            snapshot: claimed.snapshot,
            attempt: self.attempt,
        });
    }

    /// What the newest checkpoint lists is committed: the tasks are asked.
    pub(super) fn lead_running(&mut self, env: &mut dyn MasterEnv) {
        self.sweep(env);
        let (graph, executor) = (self.parts.graph.clone(), self.parts.executor.clone());
        self.make_coordinator(StartMode::Takeover);
        self.takes_over = false;
        match Enumerators::make(&graph, self.snapshot.as_deref(), &executor) {
            Ok(enumerators) => self.enumerators = enumerators,
            Err(error) => return self.fail(env, None, &chain_of(&error), error.heals(), error),
        }
        if self.cancelled {
            return self.cancel(env);
        }
        env.report(Report::Attempt(self.attempt));
        env.report(Report::State(JobState::Running));
        self.tell(env, CoordinatorEvent::Claimed(self.claim.clone()));
        for event in std::mem::take(&mut self.unheard) {
            self.on_event(env, event);
        }
    }

    /// Every task has said what it holds.
    pub(super) fn take_over_splits(
        &mut self,
        env: &mut dyn MasterEnv,
        checkpoint: Option<CheckpointId>,
        held: Vec<ReaderSplits>,
        events: &mut VecDeque<CoordinatorEvent>,
    ) {
        let known = self.snapshot.as_ref().map(|s| s.id());
        if known != checkpoint {
            let error = JobError::Takeover(format!(
                "the newest complete checkpoint is {checkpoint:?}, and the sources' state is that of {known:?}"
            ));
            return self.fail(env, None, &chain_of(&error), error.heals(), error);
        }
        if let Err(error) = self.enumerators.take_over(&held) {
            return self.fail(env, None, &chain_of(&error), error.heals(), error);
        }
        self.phase = Phase::Running;
        events.push_back(CoordinatorEvent::EnumeratorsRestored);
        self.ask_for_splits(env);
    }
}
