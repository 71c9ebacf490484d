//! What a successful claim yields: the right to decide, and the right to delete.
//!
//! [`Leadership`] is neither `Clone` nor made anywhere but by [`JobStore::claim`](crate::JobStore::claim), so code
//! that can decide a checkpoint holds one. [`DeletePermit`] is the same for deletions, apart from it so that a
//! sweep may run beside the next decision. There is one of each: sweeps of one leader follow each other, which
//! the proof in [`crate::claim`] needs. Meeting a foreign decision through either ends both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use tidegate_types::{CheckpointId, JobId, LeaderEpoch};

use crate::error::StorageError;
use crate::metadata::{AbortCause, CheckpointMetadata, Decision, DecisionHeader, DecisionObject};
use crate::nonce::Nonce;
use crate::retention::{NamedFiles, Standing};

/// Set once a foreign decision was met, with the words for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fence(Arc<OnceLock<String>>);

impl Fence {
    pub(crate) fn raise(&self, by: &DecisionObject) {
        let text = crate::error::leader_text(by.header.epoch, by.header.id);
        // A second reason changes nothing.
        let _ = self.0.set(text);
    }

    pub(crate) fn check(&self, operation: &'static str, path: &str) -> Result<(), StorageError> {
        match self.0.get() {
            Some(by) => Err(StorageError::fenced(operation, path, by.clone())),
            None => Ok(()),
        }
    }
}

/// The right to decide checkpoints of one job, in order of their ids, until a newer leader is met.
#[derive(Debug)]
pub struct Leadership {
    pub(crate) job: JobId,
    pub(crate) epoch: LeaderEpoch,
    pub(crate) nonce: Nonce,
    pub(crate) fence: Fence,
    pub(crate) view: View,
}

impl Leadership {
    /// The job.
    pub fn job(&self) -> &JobId {
        &self.job
    }

    /// This leadership's epoch: the id it claimed, so later leaders have greater ones.
    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// This leadership's nonce.
    pub fn nonce(&self) -> Nonce {
        self.nonce
    }

    /// The lowest id that isn't decided: the next to be decided, and the first to be triggered after a claim.
    pub fn next_id(&self) -> CheckpointId {
        self.view.next
    }

    /// The newest complete checkpoint or savepoint.
    pub fn newest_complete(&self) -> Option<CheckpointId> {
        self.view.newest
    }

    /// Whether a newer leader was met: everything fails with [`ErrorKind::Fenced`](crate::ErrorKind::Fenced) then.
    pub fn is_fenced(&self) -> bool {
        self.fence.0.get().is_some()
    }

    /// Keeps an older checkpoint of this job, because it is being restored, until the next one completes.
    pub fn pin(&mut self, object: &DecisionObject) {
        if let Some(metadata) = object.complete()
            && object.header.job == self.job
        {
            self.view.pinned.insert(object.header.id);
            self.view.known.insert(object.header.id, Kept::of(metadata));
        }
    }

    /// What a sweep needs to know, as of now. An old one is safe to use: it deletes less.
    pub fn view(&self) -> View {
        self.view.clone()
    }

    pub(crate) fn header(&self, id: CheckpointId, decision: &Decision) -> DecisionHeader {
        let newest_complete = match decision {
            Decision::Aborted(AbortCause::Closed) => None,
            _ => self.view.newest,
        };
        DecisionHeader {
            job: self.job.clone(),
            id,
            epoch: self.epoch,
            nonce: self.nonce,
            newest_complete,
        }
    }
}

/// What a leader knew at one moment about which checkpoints stand.
#[derive(Debug, Clone)]
pub struct View {
    pub(crate) next: CheckpointId,
    pub(crate) newest: Option<CheckpointId>,
    /// The newest complete decision couldn't be read: nothing may be deleted.
    pub(crate) newest_unreadable: bool,
    /// Set by closing: every complete checkpoint below is garbage.
    pub(crate) closed: Option<CheckpointId>,
    /// What the newest complete checkpoint names as still standing.
    pub(crate) retained: BTreeSet<CheckpointId>,
    pub(crate) pinned: BTreeSet<CheckpointId>,
    /// Of newest, retained and pinned ones those that were read.
    pub(crate) known: BTreeMap<CheckpointId, Kept>,
}

impl View {
    pub(crate) fn after_claim(claim: CheckpointId) -> Self {
        Self {
            next: claim.next(),
            newest: None,
            newest_unreadable: false,
            closed: None,
            retained: BTreeSet::new(),
            pinned: BTreeSet::new(),
            known: BTreeMap::new(),
        }
    }

    /// Newest, retained and pinned ones.
    pub(crate) fn kept(&self) -> BTreeSet<CheckpointId> {
        self.retained
            .iter()
            .chain(&self.pinned)
            .chain(&self.newest)
            .copied()
            .collect()
    }

    /// Whether a checkpoint is kept for being restored alone.
    pub(crate) fn is_only_pinned(&self, id: CheckpointId) -> bool {
        self.pinned.contains(&id) && !self.retained.contains(&id) && self.newest != Some(id)
    }

    pub(crate) fn completed(&mut self, id: CheckpointId, metadata: &CheckpointMetadata) {
        self.newest = Some(id);
        self.newest_unreadable = false;
        self.retained = metadata
            .retained
            .iter()
            .copied()
            .filter(|old| *old < id)
            .collect();
        self.pinned.clear();
        self.known.insert(id, Kept::of(metadata));
        let kept = self.kept();
        self.known.retain(|id, _| kept.contains(id));
    }

    pub(crate) fn closed_at(&mut self, id: CheckpointId) {
        self.closed = Some(id);
        self.newest = None;
        self.newest_unreadable = false;
        self.retained.clear();
        self.pinned.clear();
        self.known.clear();
    }
}

/// What retention needs of a complete checkpoint.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) named: Arc<NamedFiles>,
    pub(crate) savepoint: Option<String>,
}

impl Kept {
    pub(crate) fn of(metadata: &CheckpointMetadata) -> Self {
        Self {
            named: Arc::new(NamedFiles::of(metadata)),
            savepoint: metadata.savepoint.clone(),
        }
    }
}

/// The right to delete what is garbage in one job's directory, until a newer leader is met.
#[derive(Debug)]
pub struct DeletePermit {
    pub(crate) job: JobId,
    pub(crate) epoch: LeaderEpoch,
    pub(crate) nonce: Nonce,
    pub(crate) claim: CheckpointId,
    pub(crate) fence: Fence,
    /// Decisions read before. They never change; what was deleted is taken out, so that whatever stands there
    /// later is read again.
    pub(crate) known: BTreeMap<CheckpointId, Standing>,
    /// Kept checkpoints that had to be read.
    pub(crate) kept: BTreeMap<CheckpointId, Kept>,
}
