//! One leadership: a coordinator and what it is waiting for.

use std::collections::BTreeSet;

use tidegate_types::{CheckpointId, LeaderEpoch, Nanos};

use crate::coordinator::*;

pub(super) struct Leader {
    pub(super) epoch: LeaderEpoch,
    pub(super) c: Coordinator,
    /// Answers on their way, in any order.
    pub(super) answers: Vec<CoordinatorEvent>,
    /// Writes that haven't reached the store.
    pub(super) writes: Vec<(CheckpointId, Decision)>,
    pub(super) commits: BTreeSet<CheckpointId>,
    pub(super) committed: BTreeSet<CheckpointId>,
    pub(super) asked: BTreeSet<RequestId>,
    pub(super) answered: BTreeSet<RequestId>,
    pub(super) triggered: BTreeSet<(CheckpointId, tidegate_types::SubtaskId)>,
    pub(super) last_periodic: Option<Nanos>,
    pub(super) failed_job: bool,
    pub(super) closed: bool,
}

impl Leader {
    pub(super) fn new(epoch: LeaderEpoch, c: Coordinator) -> Self {
        Self {
            epoch,
            c,
            answers: Vec::new(),
            writes: Vec::new(),
            commits: BTreeSet::new(),
            committed: BTreeSet::new(),
            asked: BTreeSet::new(),
            answered: BTreeSet::new(),
            triggered: BTreeSet::new(),
            last_periodic: None,
            failed_job: false,
            closed: false,
        }
    }
}
