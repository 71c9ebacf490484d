//! What is garbage: a pure function from what stands in a job's directory to what is deleted from it.
//!
//! The rules, with the leader that sweeps holding the claim with epoch e and having decided every id below `next`:
//! - a file that a kept checkpoint names is never deleted. Kept are the newest complete checkpoint, those it
//!   names as retained, and those that are pinned (being restored);
//! - any other state file goes if it is of an older leader (epoch < e: nothing it was written for can complete any
//!   more), or of this leader and a decided id. One of a *newer* leader stays: this leader may have been
//!   replaced without knowing, and what a newer leader keeps is named by its base or bears its epoch;
//! - `_metadata` of a complete checkpoint goes if it is older than the newest complete one and not kept, that of
//!   an ordinary abort if it is older. Claims stay for ever: a leader that sleeps must meet one;
//! - what can't be read or isn't of this layout stays, and is reported.
//!
//! Does not own: reading and deleting ([`crate::sweep`]).

use std::collections::{BTreeMap, BTreeSet};

use tidegate_types::snapshot::Location;
use tidegate_types::{CheckpointId, LeaderEpoch};

use crate::layout::{self, Entry, IntentName, StateFileName};
use crate::metadata::CheckpointMetadata;

/// The files that one checkpoint names, relative to the job's directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedFiles(BTreeSet<String>);

impl NamedFiles {
    /// What `metadata` names.
    pub fn of(metadata: &CheckpointMetadata) -> Self {
        let file = |location: &Location| match location {
            Location::Inline(_) => None,
            Location::File { path, .. } => Some(path.clone()),
        };
        Self(
            metadata
                .sections()
                .filter_map(|section| file(&section.location))
                .collect(),
        )
    }

    /// Whether `path` is among them.
    pub fn contains(&self, path: &str) -> bool {
        self.0.contains(path)
    }

    /// Each of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// What the decision on one id is, as far as retention cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A claim or a closing object.
    Permanent { closed: bool },
    /// A complete checkpoint, and its savepoint's location if it is one.
    Complete { savepoint: Option<String> },
    /// An ordinary abort.
    Aborted,
    /// Its bytes can't be read.
    Unreadable,
}

/// What a sweep knows before it plans.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// The sweeping leader's epoch.
    pub(crate) epoch: LeaderEpoch,
    /// Every lower id is decided.
    pub(crate) next: CheckpointId,
    /// What is complete below this and not kept is garbage: the newest complete id, or the closing one's.
    pub(crate) floor: CheckpointId,
    /// Kept checkpoints.
    pub(crate) kept: BTreeSet<CheckpointId>,
    /// Every file that a kept checkpoint names.
    pub(crate) named: BTreeSet<String>,
    /// The decisions that stand.
    pub(crate) decisions: BTreeMap<CheckpointId, Standing>,
}

impl Facts {
    /// Whether nothing written under `epoch` for `id` can still become part of a checkpoint.
    fn is_settled(&self, epoch: LeaderEpoch, id: CheckpointId) -> bool {
        epoch < self.epoch || (epoch == self.epoch && id < self.next)
    }

    /// Whether what `id` names is unknown though it matters.
    fn is_unreadable(&self, id: CheckpointId) -> bool {
        matches!(self.decisions.get(&id), Some(Standing::Unreadable))
    }

    fn state_goes(&self, path: &str, dir: CheckpointId, name: &StateFileName) -> bool {
        !self.named.contains(path)
            && !self.is_unreadable(dir)
            && self.is_settled(name.epoch, name.checkpoint.max(dir))
    }

    fn shared_goes(&self, path: &str, name: &StateFileName) -> bool {
        let unknown = self.kept.iter().any(|id| self.is_unreadable(*id));
        !self.named.contains(path) && !unknown && self.is_settled(name.epoch, name.checkpoint)
    }

    /// An intent is settled before the decision that it belongs to goes.
    fn intent_goes(&self, intent: &IntentName) -> bool {
        self.is_settled(intent.epoch, intent.checkpoint) && !self.is_unreadable(intent.checkpoint)
    }

    fn metadata_goes(&self, id: CheckpointId) -> bool {
        match self.decisions.get(&id) {
            Some(Standing::Complete { .. }) => id < self.floor && !self.kept.contains(&id),
            Some(Standing::Aborted) => id < self.floor,
            Some(Standing::Permanent { .. } | Standing::Unreadable) | None => false,
        }
    }
}

/// What is to be deleted, in the order of the fields.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Unfinished or obsolete notes about savepoints.
    pub(crate) intents: Vec<IntentName>,
    /// Decisions. They go before the files they name, so that nothing complete ever lacks a file.
    pub(crate) metadata: Vec<CheckpointId>,
    /// State files.
    pub(crate) files: Vec<String>,
    /// Staging files of a local store.
    pub(crate) staging: Vec<String>,
    /// What stands there and is none of ours.
    pub(crate) unknown: Vec<String>,
}

/// Plans a sweep over `paths` (objects, and on a local disk staging files), relative to the job's directory.
pub(crate) fn plan<'a>(facts: &Facts, paths: impl IntoIterator<Item = &'a str>) -> Plan {
    let mut plan = Plan::default();
    for path in paths {
        if let Some(base) = layout::staged_for(path) {
            plan_staging(facts, path, base, &mut plan);
            continue;
        }
        match layout::parse(path) {
            Entry::Metadata(id) if facts.metadata_goes(id) => plan.metadata.push(id),
            Entry::State { dir, name } if facts.state_goes(path, dir, &name) => {
                plan.files.push(path.to_owned())
            }
            Entry::Shared(name) if facts.shared_goes(path, &name) => plan.files.push(path.to_owned()),
            Entry::Intent(intent) if facts.intent_goes(&intent) => plan.intents.push(intent),
            Entry::Unknown => plan.unknown.push(path.to_owned()),
            Entry::Metadata(_) | Entry::State { .. } | Entry::Shared(_) | Entry::Intent(_) | Entry::Lock => {}
        }
    }
    plan
}

fn plan_staging(facts: &Facts, path: &str, base: &str, plan: &mut Plan) {
    let settled = match layout::parse(base) {
        // A newer leader stages decisions only at ids that this one hasn't decided.
        Entry::Metadata(id) => id < facts.next,
        Entry::State { name, .. } | Entry::Shared(name) => facts.is_settled(name.epoch, name.checkpoint),
        Entry::Intent(intent) => facts.is_settled(intent.epoch, intent.checkpoint),
        Entry::Lock | Entry::Unknown => return plan.unknown.push(path.to_owned()),
    };
    if settled {
        plan.staging.push(path.to_owned());
    }
}

#[cfg(test)]
mod tests;
