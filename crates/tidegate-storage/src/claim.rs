//! Claiming a job: how a new leader makes every older one harmless before it touches anything.
//!
//! A claim is a permanent `aborted` at the lowest id that has no decision, created by climbing until a create
//! succeeds; then the directory is listed again, and only if nothing stands above the claim is it one. Its id is
//! the leader's epoch: unique because objects are create-only, rising because later claims stand higher, and with
//! no further object to keep in step (a counter of its own would need the same create-only write, and could
//! disagree with the claims after a crash between the two).
//!
//! Why it fences. Leaders decide ids in order, so an older leader's next decision is at the lowest free id
//! x. Either its write wins at x and the claimer, finding it, climbs on; or the claim stands at x, and the older leader
//! finds it there whenever it wakes, because claims are never deleted.
//!
//! Why the second listing. A claimer that slept after its first one may hit a *hole*: an id below the newest
//! complete checkpoint whose ordinary decision was deleted since. Holes stand below a complete (or closing) object
//! that the second listing sees: for it to miss the newest complete one, a sweep must have deleted that one during
//! the listing, for a newer one created before that sweep's own listing. Each sweep lists before it deletes and
//! stops when it meets a foreign claim, and sweeps of one leader follow each other. So of two sweeps that the
//! listing would have to overlap the second began after the claim stood, met it, and deleted nothing; and
//! what the first made newest stood when the listing began. No listing needs to be atomic for this.
//!
//! Two leaders that claim at once climb over each other; the one that finds a claim above its own gives way.
//! Leases are for liveness only.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_types::{CheckpointId, LeaderEpoch};

use crate::decision::{Written, is_claim_of};
use crate::error::{ErrorKind, Problem, StorageError};
use crate::layout::{self, Entry};
use crate::leadership::{DeletePermit, Fence, Leadership, View};
use crate::metadata::{AbortCause, Decision, DecisionHeader, DecisionObject};
use crate::nonce::Nonce;
use crate::store::JobStore;

const CLAIM: &str = "claim";

/// How often a claim starts over because the directory moved on under it. Each round needs another leader to have
/// completed a checkpoint meanwhile; a job whose old leader is that lively isn't to be taken over.
const ROUNDS: u32 = 16;
/// How many ids one round climbs past what its listing showed.
const CLIMB_LIMIT: u32 = 10_000;

/// A job taken over.
#[derive(Debug)]
pub struct Claim {
    /// The right to decide.
    pub leadership: Leadership,
    /// The right to delete.
    pub deletes: DeletePermit,
    /// What a restore of "latest" begins with.
    pub newest: Newest,
}

/// The newest complete checkpoint of a job.
#[derive(Debug)]
pub enum Newest {
    /// There is none.
    None,
    /// This one.
    Complete(Box<DecisionObject>),
    /// The object that is it, or says which one is it, is damaged or gone. Restoring "latest" must fail with the
    /// error; restoring a checkpoint that a person names may go on.
    Unreadable {
        /// Where it should be.
        id: CheckpointId,
        /// What is wrong.
        error: StorageError,
    },
}

impl JobStore {
    /// Takes the job over: fences every older leader, and finds the newest complete checkpoint. To be called once
    /// per leadership, an embedded restart too, and before anything is settled, deleted, restored or triggered.
    ///
    /// Creates the job's directory. `nonce` must be this leadership's own.
    ///
    /// # Errors
    /// The store's; [`Problem::Fenced`] if another leader claims at the same time and is ahead (the caller may
    /// claim again if it still should lead); [`Problem::FutureVersion`] and [`Problem::OtherJob`] if
    /// what stands there isn't this program's to touch.
    pub async fn claim(&self, nonce: Nonce) -> Result<Claim, StorageError> {
        self.dir.ensure_local(CLAIM)?;
        for _ in 0..ROUNDS {
            let Some(id) = self.climb(nonce).await? else {
                continue;
            };
            let ids = self.decided_ids().await?;
            match ids.range(id.next()..).next_back() {
                None => {
                    let Some(newest) = self.newest_below(&ids, id).await? else {
                        continue;
                    };
                    return self.taken(id, nonce, newest);
                }
                Some(above) => self.give_way_to_claim(*above).await?,
            }
        }
        let detail = format!("another leader kept deciding during {ROUNDS} tries");
        Err(self.problem(CLAIM, "", Problem::Undetermined { detail }))
    }

    /// Ids that have a decision.
    pub(crate) async fn decided_ids(&self) -> Result<BTreeSet<CheckpointId>, StorageError> {
        let id = |path: &str| match layout::parse(path) {
            Entry::Metadata(id) => Some(id),
            _ => None,
        };
        Ok(self
            .dir
            .list(CLAIM)
            .await?
            .iter()
            .filter_map(|object| id(&object.path))
            .collect())
    }

    /// The newest complete checkpoint among `ids` below `below`; `None` if the directory moved on meanwhile.
    pub(crate) async fn newest_below(
        &self,
        ids: &BTreeSet<CheckpointId>,
        below: CheckpointId,
    ) -> Result<Option<Newest>, StorageError> {
        let Some(top) = ids.range(..below).next_back() else {
            return Ok(Some(Newest::None));
        };
        match self.read_decision(*top).await {
            Ok(None) => Ok(None),
            Ok(Some(object)) => self.follow(object).await.map(Some),
            Err(error) if error.kind() == ErrorKind::Corrupted => {
                Ok(Some(Newest::Unreadable { id: *top, error }))
            }
            Err(error) => Err(error),
        }
    }

    /// From a decision to the newest complete checkpoint at or below it.
    async fn follow(&self, mut object: DecisionObject) -> Result<Newest, StorageError> {
        loop {
            let at = object.header.id;
            if object.complete().is_some() {
                // It is visible; its writer may have died before it was durable.
                self.dir.sync_local(CLAIM, &layout::checkpoint_dir(at))?;
                self.dir.sync_local(CLAIM, "")?;
                return Ok(Newest::Complete(Box::new(object)));
            }
            // Strictly lower each time, so this ends; one step unless a person has deleted something.
            let Some(id) = object.header.newest_complete.filter(|lower| *lower < at) else {
                return Ok(Newest::None);
            };
            match self.read_decision(id).await {
                Ok(Some(lower)) => object = lower,
                Ok(None) => {
                    let error = self.problem("read the decision", &layout::metadata(id), Problem::NotThere);
                    return Ok(Newest::Unreadable { id, error });
                }
                Err(error) if error.kind() == ErrorKind::Corrupted => {
                    return Ok(Newest::Unreadable { id, error });
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Creates a claim object at the lowest id without a decision above all that are listed; its id, or `None` if
    /// the directory moved on meanwhile.
    async fn climb(&self, nonce: Nonce) -> Result<Option<CheckpointId>, StorageError> {
        let ids = self.decided_ids().await?;
        let (mut id, mut newest) = match ids.last() {
            None => (CheckpointId(1), None),
            Some(top) => match self.newest_hint(*top).await? {
                None => return Ok(None),
                Some(hint) => (top.next(), hint),
            },
        };
        for _ in 0..CLIMB_LIMIT {
            let epoch = LeaderEpoch(id.0);
            let header = DecisionHeader {
                job: self.job.clone(),
                id,
                epoch,
                nonce,
                newest_complete: newest,
            };
            let object = DecisionObject {
                header,
                decision: Decision::Aborted(AbortCause::Claim),
            };
            let bytes = object
                .encode()
                .map_err(|problem| self.problem(CLAIM, &layout::metadata(id), problem))?;
            newest = match self.write_decision(CLAIM, id, &bytes).await? {
                Written::Mine => return Ok(Some(id)),
                Written::Found(found) if is_claim_of(&found, epoch, nonce) => return Ok(Some(id)),
                Written::Found(found) => hint_of(&found),
                Written::Unreadable(_) => Some(id),
            };
            id = id.next();
        }
        Ok(None)
    }

    /// Where to look for the newest complete checkpoint at or below `top`; `None` if `top` has vanished.
    async fn newest_hint(&self, top: CheckpointId) -> Result<Option<Option<CheckpointId>>, StorageError> {
        match self.read_decision(top).await {
            Ok(found) => Ok(found.map(|object| hint_of(&object))),
            // Whatever it was: whoever looks there finds it unreadable too, and says so.
            Err(error) if error.kind() == ErrorKind::Corrupted => Ok(Some(Some(top))),
            Err(error) => Err(error),
        }
    }

    /// Something stands above the claim. A claim or a closing there is a leader that is ahead; anything else shows
    /// that the claim fell into a hole, and the next round climbs on.
    async fn give_way_to_claim(&self, above: CheckpointId) -> Result<(), StorageError> {
        match self.read_decision(above).await {
            Ok(Some(object)) => match object.decision {
                Decision::Aborted(AbortCause::Claim | AbortCause::Closed) => {
                    Err(self.fenced_by(CLAIM, &object))
                }
                Decision::Aborted(AbortCause::Failed { .. }) | Decision::Complete(_) => Ok(()),
            },
            Ok(None) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Corrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn taken(&self, id: CheckpointId, nonce: Nonce, newest: Newest) -> Result<Claim, StorageError> {
        let mut view = View::after_claim(id);
        match &newest {
            Newest::None => {}
            Newest::Complete(object) => {
                if let Some(metadata) = object.complete() {
                    view.completed(object.header.id, metadata);
                }
            }
            Newest::Unreadable { id, .. } => {
                view.newest = Some(*id);
                view.newest_unreadable = true;
            }
        }
        let (epoch, fence) = (LeaderEpoch(id.0), Fence::default());
        let deletes = DeletePermit {
            job: self.job.clone(),
            epoch,
            nonce,
            claim: id,
            fence: fence.clone(),
            known: BTreeMap::new(),
            kept: BTreeMap::new(),
        };
        let leadership = Leadership {
            job: self.job.clone(),
            epoch,
            nonce,
            fence,
            view,
        };
        Ok(Claim {
            leadership,
            deletes,
            newest,
        })
    }
}

/// Where a decision says the newest complete checkpoint at or below it is.
fn hint_of(object: &DecisionObject) -> Option<CheckpointId> {
    match &object.decision {
        Decision::Complete(_) => Some(object.header.id),
        Decision::Aborted(_) => object.header.newest_complete,
    }
}
