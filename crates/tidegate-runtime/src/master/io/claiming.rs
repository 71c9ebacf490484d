//! A leadership begins, or turns out to be over.
//!
//! Owns: which snapshot a claim chooses and what it finds beside it. Does not own: the order of durable writes
//! (`tidegate_storage::claim`), what follows (the master).

use tidegate_storage::{
    Decision as StoredDecision, DecisionObject, ErrorKind, Newest, Nonces, Snapshot, StorageError,
};
use tidegate_types::CheckpointId;

use super::super::env::{ClaimFailure, ClaimedStore, RestoreChoice};
use super::{Decider, StoreWorker, lock};

impl StoreWorker {
    /// A snapshot of another directory stands on its own, and begins a line of output of its own.
    async fn told_apart(
        &self,
        snapshot: Option<Box<Snapshot>>,
        nonces: &mut Nonces,
    ) -> Result<(Option<Box<Snapshot>>, Option<u64>), StorageError> {
        let Some(mut snapshot) = snapshot else {
            return Ok((None, None));
        };
        if self.is_own(&snapshot).await? {
            return Ok((Some(snapshot), None));
        }
        snapshot.inline_finished().await?;
        Ok((Some(snapshot), Some(nonces.draw().0)))
    }

    /// Whether a snapshot was taken into this directory, wherever its copy stands.
    async fn is_own(&self, snapshot: &Snapshot) -> Result<bool, StorageError> {
        let decision = match self.store.read_decision(snapshot.id()).await {
            Ok(decision) => decision,
            Err(error) if error.kind() == ErrorKind::Corrupted => None,
            Err(error) => return Err(error),
        };
        Ok(decision.is_some_and(|d| d.same_leader(snapshot.header().epoch, snapshot.header().nonce)))
    }

    /// What another leader decided at the place of this one's next checkpoint. What can't be read says nothing.
    pub(super) async fn overtaken(&self) -> Option<CheckpointId> {
        let mut decider = lock(&self.decider);
        self.overtaking(&mut decider).await.unwrap_or_default()
    }

    async fn overtaking(&self, decider: &mut Decider) -> Result<Option<CheckpointId>, StorageError> {
        match &mut decider.leadership {
            Some(leadership) => self.store.overtaken(leadership, &decider.unsure).await,
            None => Ok(None),
        }
    }

    pub(super) async fn claim(&self, choice: RestoreChoice) -> Result<ClaimedStore, ClaimFailure> {
        // A snapshot in the way of which is an error must not cost a claim.
        let named = match &choice {
            RestoreChoice::Path(path) => {
                let snapshot = self.store.open_snapshot(path).await?;
                snapshot.expect_job(self.store.job())?;
                Some(Box::new(snapshot))
            }
            RestoreChoice::Fresh | RestoreChoice::Latest => None,
        };
        let mut decider = lock(&self.decider);
        // A restart takes nothing back from who took the job over meanwhile.
        if let Some(id) = self.overtaking(&mut decider).await? {
            return Err(ClaimFailure::Overtaken(id));
        }
        let nonce = decider.nonces.draw();
        decider.unsure.push(nonce);
        let claim = self.store.claim(nonce).await?;
        let mut leadership = claim.leadership;
        let (newest, committed, object) = match claim.newest {
            Newest::None => (None, None, None),
            Newest::Complete(object) => {
                let (id, kind) = (object.header.id, object.complete().map(|m| m.kind));
                (kind.map(|kind| (id, kind)), Some(id), Some(object))
            }
            Newest::Unreadable { id, error } => match choice {
                RestoreChoice::Latest => return Err(error.into()),
                RestoreChoice::Fresh | RestoreChoice::Path(_) => {
                    tracing::warn!(%id, %error, "the newest checkpoint can't be read; nothing is deleted");
                    // It may be complete, and then its output is out.
                    (None, Some(id), None)
                }
            },
        };
        let retained = object
            .as_ref()
            .and_then(|o| o.complete())
            .map(|m| m.retained.clone())
            .unwrap_or_default();
        let snapshot = match choice {
            RestoreChoice::Fresh => None,
            RestoreChoice::Latest => match object {
                Some(object) => Some(Box::new(self.store.snapshot(*object)?)),
                None => None,
            },
            RestoreChoice::Path(_) => named,
        };
        let (snapshot, foreign) = self.told_apart(snapshot, &mut decider.nonces).await?;
        if let Some(snapshot) = snapshot.as_ref().filter(|_| foreign.is_none()) {
            leadership.pin(&DecisionObject {
                header: snapshot.header().clone(),
                decision: StoredDecision::Complete(Box::new(snapshot.metadata().clone())),
            });
        }
        let claimed = ClaimedStore {
            epoch: leadership.epoch(),
            next_id: leadership.next_id(),
            newest,
            committed,
            retained,
            snapshot,
            foreign,
        };
        *lock(&self.view) = Some(leadership.view());
        *lock(&self.permit) = Some(claim.deletes);
        decider.leadership = Some(leadership);
        decider.unsure.clear();
        Ok(claimed)
    }
}
