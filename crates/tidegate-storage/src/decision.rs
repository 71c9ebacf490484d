//! Deciding a checkpoint: the one place that orders durable writes.
//!
//! The order, and why it is this one:
//! 1. *State files*, by the subtasks, each durable before its acknowledgement. A crash here leaves files that no
//!    `_metadata` names: garbage that bears its leader's epoch.
//! 2. Of a savepoint: its *intent*, its copied files, its own `_metadata` ([`crate::savepoint`]).
//! 3. On a local disk the job's directory is synced, so that `chk-<n>/` itself is durable (another process may have
//!    made it).
//! 4. *`chk-<n>/_metadata`, create-only*. This one write is the decision; before it checkpoint n doesn't exist,
//!    after it n is complete, whoever crashes. Nobody is told before it returned.
//! 5. Notifications, commits, and deletion of what has become garbage ([`crate::sweep`]).
//!
//! An abort is the same write with another content, and comes *before* a file of n is deleted once a task has
//! acknowledged n: otherwise a leader that sleeps could still complete n over missing files. Ids are decided
//! in order, so an undecided id has no decided one above it, and a claim at the lowest free id stops every older
//! leader. "Exists" and every unclear error are answered by reading: what bears this leader's nonce is its own.
//! An error after that leaves n undecided, and the only way on is to ask again for the same id.

use bytes::Bytes;
use object_store::PutPayload;
use tidegate_types::snapshot::Location;
use tidegate_types::{CheckpointId, LeaderEpoch};

use crate::dir::Create;
use crate::error::{ErrorKind, Problem, StorageError};
use crate::layout::{self, Entry};
use crate::leadership::Leadership;
use crate::metadata::{AbortCause, CheckpointMetadata, Decision, DecisionObject, MAX_BYTES};
use crate::nonce::Nonce;
use crate::store::JobStore;
use crate::unique::WRITE_TRIES;

const DECIDE: &str = "decide";

/// What stands after [`JobStore::decide`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// What was asked for, durably.
    Mine,
    /// Another decision of this same leader, from an earlier call whose outcome was unclear. It counts.
    MineEarlier(Box<DecisionObject>),
    /// Another leader's decision. This leadership is over: stop, delete nothing, commit nothing.
    Other(Box<DecisionObject>),
}

/// What a create-only write of a decision met.
#[derive(Debug)]
pub(crate) enum Written {
    /// It is there, byte for byte.
    Mine,
    /// Something else is there.
    Found(DecisionObject),
    /// Something is there that can't be read.
    Unreadable(StorageError),
}

impl JobStore {
    /// Decides checkpoint `id`, for good, and durably before it returns.
    ///
    /// `id` must be [`Leadership::next_id`]: skipped and subsumed ids are decided as aborted in their turn. After an
    /// error other than fencing `id` is still undecided, or its outcome unknown: call again for `id`, with the
    /// same or another decision, before anything else.
    ///
    /// # Errors
    /// The store's; [`Problem::Undetermined`]; [`Problem::Fenced`] once a newer leader was met in an earlier call;
    /// [`Problem::Bug`] for an id out of order or metadata that names files that can't be.
    pub async fn decide(
        &self,
        leadership: &mut Leadership,
        id: CheckpointId,
        decision: Decision,
    ) -> Result<Outcome, StorageError> {
        let path = layout::metadata(id);
        leadership.fence.check(DECIDE, &self.dir.describe(&path))?;
        self.check_decision(leadership, id, &decision)?;
        let object = DecisionObject {
            header: leadership.header(id, &decision),
            decision,
        };
        let bytes = object
            .encode()
            .map_err(|problem| self.problem(DECIDE, &path, problem))?;
        if let Some(metadata) = object.complete() {
            self.sync_directories(metadata)?;
        }
        match self.write_decision(DECIDE, id, &bytes).await? {
            Written::Mine => {
                advance(leadership, &object);
                Ok(Outcome::Mine)
            }
            Written::Found(found) if found.same_leader(leadership.epoch, leadership.nonce) => {
                advance(leadership, &found);
                Ok(Outcome::MineEarlier(Box::new(found)))
            }
            Written::Found(found) => {
                leadership.fence.raise(&found);
                Ok(Outcome::Other(Box::new(found)))
            }
            Written::Unreadable(error) => Err(error),
        }
    }

    /// Whether this leadership still leads, as far as the store shows: `None`, or the next id, because another leader
    /// has decided it. Once that was found, everything through `leadership` fails as fenced. `own` are nonces of claims
    /// by the same process whose outcome is unknown.
    ///
    /// # Errors
    /// The store's.
    pub async fn overtaken(
        &self,
        leadership: &mut Leadership,
        own: &[Nonce],
    ) -> Result<Option<CheckpointId>, StorageError> {
        let id = leadership.next_id();
        let Some(found) = self.read_decision(id).await? else {
            return Ok(None);
        };
        if found.same_leader(leadership.epoch, leadership.nonce) || own.contains(&found.header.nonce) {
            return Ok(None);
        }
        leadership.fence.raise(&found);
        Ok(Some(id))
    }

    /// Gives up all checkpoints of the job (cancelled with deletion): decides the next id as closed, after which
    /// everything complete is garbage and one last [`JobStore::sweep`] deletes it. Nothing can be decided then.
    ///
    /// # Errors
    /// As [`JobStore::decide`].
    pub async fn close(&self, leadership: &mut Leadership) -> Result<Outcome, StorageError> {
        let id = leadership.next_id();
        self.decide(leadership, id, Decision::Aborted(AbortCause::Closed))
            .await
    }

    /// Writes a decision create-only and finds out what stands. `bytes` are its encoding.
    pub(crate) async fn write_decision(
        &self,
        operation: &'static str,
        id: CheckpointId,
        bytes: &Bytes,
    ) -> Result<Written, StorageError> {
        let path = layout::metadata(id);
        let mut unclear = String::new();
        for _ in 0..WRITE_TRIES {
            let wrote = match self
                .dir
                .put_new(operation, &path, PutPayload::from(bytes.clone()))
                .await
            {
                Ok(Create::Created) => return Ok(Written::Mine),
                Ok(Create::Exists) => Ok(()),
                Err(error) => Err(error),
            };
            match (self.dir.read(operation, &path, MAX_BYTES).await, wrote) {
                (Ok(Some(found)), _) => return self.judge(operation, id, bytes, &found),
                // Neither there nor likely to become so: the error is the answer.
                (Ok(None), Err(error)) if error.kind() != ErrorKind::Retry => return Err(error),
                (Ok(None), wrote) => {
                    unclear = wrote.err().map_or("it vanished".to_owned(), |e| e.to_string())
                }
                (Err(read), Ok(())) => unclear = format!("something is there: {read}"),
                (Err(read), Err(wrote)) => unclear = format!("{wrote}; {read}"),
            }
        }
        Err(self.problem(operation, &path, Problem::Undetermined { detail: unclear }))
    }

    /// What an object is that was found where `bytes` should go. It was visible, so it is made durable before
    /// anything is built on it: on a local disk its writer may have died before the directory's sync.
    fn judge(
        &self,
        operation: &'static str,
        id: CheckpointId,
        bytes: &Bytes,
        found: &Bytes,
    ) -> Result<Written, StorageError> {
        self.dir.sync_local(operation, &layout::checkpoint_dir(id))?;
        self.dir.sync_local(operation, "")?;
        if found == bytes {
            return Ok(Written::Mine);
        }
        match self.decode(operation, id, found) {
            Ok(object) => Ok(Written::Found(object)),
            Err(error) if error.kind() == ErrorKind::Corrupted => Ok(Written::Unreadable(error)),
            Err(error) => Err(error),
        }
    }

    /// Makes the directories themselves durable in which subtasks wrote: of one that another writer has just made, a
    /// writer's sync covers the entries in it, not its own entry in the job's directory.
    fn sync_directories(&self, metadata: &CheckpointMetadata) -> Result<(), StorageError> {
        if metadata
            .sections()
            .any(|section| matches!(section.location, Location::File { .. }))
        {
            self.dir.sync_local(DECIDE, "")?;
        }
        Ok(())
    }

    fn check_decision(
        &self,
        leadership: &Leadership,
        id: CheckpointId,
        decision: &Decision,
    ) -> Result<(), StorageError> {
        let bug = |rule: String| {
            Err(StorageError::bug(
                DECIDE,
                self.dir.describe(&layout::metadata(id)),
                rule,
            ))
        };
        if leadership.job != self.job {
            return bug(format!("the leadership is of job \"{}\"", leadership.job));
        }
        if leadership.view.closed.is_some() {
            return bug("the job's checkpoints were given up".to_owned());
        }
        if id != leadership.next_id() {
            return bug(format!(
                "ids are decided in order, {} is next",
                leadership.next_id()
            ));
        }
        match decision {
            Decision::Complete(metadata) => match check_complete(id, leadership.epoch, metadata) {
                Ok(()) => Ok(()),
                Err(rule) => bug(rule),
            },
            Decision::Aborted(AbortCause::Claim) => bug("only a claim claims".to_owned()),
            Decision::Aborted(_) => Ok(()),
        }
    }

    pub(crate) fn problem(&self, operation: &'static str, path: &str, problem: Problem) -> StorageError {
        StorageError::new(operation, self.dir.describe(path), problem)
    }
}

/// What a complete checkpoint must satisfy to be restorable from this directory.
fn check_complete(id: CheckpointId, epoch: LeaderEpoch, metadata: &CheckpointMetadata) -> Result<(), String> {
    if metadata.kind.is_savepoint() != metadata.savepoint.is_some() {
        return Err("a savepoint, and nothing else, says where its copy stands".to_owned());
    }
    if let Some(late) = metadata.retained.iter().find(|old| **old >= id) {
        return Err(format!("checkpoint {late} can't be retained besides {id}"));
    }
    for section in metadata.sections() {
        let Location::File { path, .. } = &section.location else {
            continue;
        };
        let name = match layout::parse(path) {
            Entry::State { name, .. } | Entry::Shared(name) => name,
            _ => return Err(format!("\"{path}\" is no state file")),
        };
        if name.checkpoint > id || name.epoch > epoch {
            return Err(format!("\"{path}\" belongs to a later checkpoint or leader"));
        }
    }
    Ok(())
}

fn advance(leadership: &mut Leadership, object: &DecisionObject) {
    let id = object.header.id;
    leadership.view.next = id.next();
    match &object.decision {
        Decision::Complete(metadata) => leadership.view.completed(id, metadata),
        Decision::Aborted(AbortCause::Closed) => leadership.view.closed_at(id),
        Decision::Aborted(_) => {}
    }
}

/// Whether a claim of this leader is what `object` is.
pub(crate) fn is_claim_of(object: &DecisionObject, epoch: LeaderEpoch, nonce: Nonce) -> bool {
    object.same_leader(epoch, nonce) && matches!(object.decision, Decision::Aborted(AbortCause::Claim))
}
