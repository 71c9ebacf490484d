//! Savepoints: a copy of a checkpoint that a person owns.
//!
//! Subtasks write for a savepoint as for any checkpoint, into `chk-<n>/`; once all have acknowledged, the
//! coordinator copies the files into the savepoint's own directory. Copied, not written there directly, because then
//! subtasks need not know the target, an abort leaves nothing outside of the job's directory but what one
//! note names, and `chk-<n>` is a full checkpoint of the engine's own: the person may move or delete the savepoint at
//! once, and the job still recovers to the point whose output was committed. Inside one store a copy is a hard
//! link or done by the store; to another store the bytes travel once more, which is the price.
//!
//! Order: *intent* `chk-<n>/savepoint-….intent` (where the copy goes) → files → the savepoint's `_metadata`, with paths
//! relative to its own directory, so it may be moved → `chk-<n>/_metadata`, which decides. A crash or an abort in
//! between leaves an intent; the next sweep deletes what it names unless that very savepoint was decided.

use serde::{Deserialize, Serialize};
use tidegate_types::snapshot::Location;
use tidegate_types::{CheckpointId, JobId};

use crate::dir::StoreDir;
use crate::error::{Problem, StorageError};
use crate::frame;
use crate::layout::{self, IntentName, METADATA, StateFileName};
use crate::leadership::Leadership;
use crate::local;
use crate::metadata::{CheckpointMetadata, Decision, DecisionObject, MAX_BYTES};
use crate::nonce::Nonce;
use crate::retention::{Facts, NamedFiles, Standing};
use crate::store::JobStore;
use crate::unique::put_unique;

const WRITE: &str = "write the savepoint";
const DISCARD: &str = "discard the unfinished savepoint";

const INTENT_MAGIC: [u8; 8] = *b"TIDEINTN";
const INTENT_VERSION: u16 = 1;
const INTENT_MAX_BYTES: u64 = 64 << 10;

/// The content of an intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Intent {
    /// The savepoint's location, as the decision will name it.
    location: String,
    /// Its path below the checkpoint directory, if it is inside: found again without opening a location.
    below_root: Option<String>,
}

impl JobStore {
    /// Copies what `metadata` names to a new directory in `target`, writes the savepoint's own `_metadata` there, and
    /// sets [`CheckpointMetadata::savepoint`]; to be called before `id` is decided with that metadata. Returns the
    /// savepoint's location.
    ///
    /// `nonce` must be fresh. After an error decide `id` as aborted; the next sweep removes what was copied.
    ///
    /// # Errors
    /// The stores'; [`Problem::Fenced`]; [`Problem::Bug`] if `metadata` is of no savepoint or `id` is decided.
    pub async fn write_savepoint(
        &self,
        leadership: &Leadership,
        id: CheckpointId,
        target: &StoreDir,
        nonce: Nonce,
        metadata: &mut CheckpointMetadata,
    ) -> Result<String, StorageError> {
        let dir = target.child(&layout::savepoint_dir(&self.job, nonce));
        leadership.fence.check(WRITE, dir.url())?;
        if !metadata.kind.is_savepoint() || id < leadership.next_id() {
            return Err(StorageError::bug(
                WRITE,
                dir.url(),
                "an undecided savepoint is written, nothing else",
            ));
        }
        let location = dir.url().to_owned();
        let intent = IntentName {
            checkpoint: id,
            epoch: leadership.epoch(),
            nonce,
        };
        let content = Intent {
            location: location.clone(),
            below_root: dir.below(&self.root),
        };
        self.write_intent(&intent, &content).await?;
        dir.ensure_local(WRITE)?;
        for file in NamedFiles::of(metadata).iter() {
            dir.copy_from(WRITE, &self.dir, file, file_name(file)).await?;
        }
        metadata.savepoint = Some(location.clone());
        let mut own = metadata.clone();
        own.retained.clear();
        for section in own.sections_mut() {
            if let Location::File { path, .. } = &mut section.location {
                *path = file_name(path).to_owned();
            }
        }
        let decision = Decision::Complete(Box::new(own));
        let object = DecisionObject {
            header: leadership.header(id, &decision),
            decision,
        };
        let bytes = object
            .encode()
            .map_err(|problem| StorageError::new(WRITE, dir.describe(METADATA), problem))?;
        put_unique(&dir, WRITE, METADATA, bytes.into()).await?;
        Ok(location)
    }

    async fn write_intent(&self, name: &IntentName, content: &Intent) -> Result<(), StorageError> {
        let path = name.path();
        let body = rmp_serde::to_vec_named(content)
            .map_err(|error| StorageError::bug(WRITE, self.dir.describe(&path), error.to_string()))?;
        put_unique(
            &self.dir,
            WRITE,
            &path,
            frame::seal(INTENT_MAGIC, INTENT_VERSION, &body).into(),
        )
        .await
    }

    /// Deletes what an intent names, unless that savepoint was decided; its location if something was deleted.
    /// Only a sweep calls this, for an intent that nobody can complete any more.
    pub(crate) async fn settle_intent(
        &self,
        name: &IntentName,
        facts: &Facts,
    ) -> Result<Option<String>, StorageError> {
        let path = name.path();
        let Some(bytes) = self.dir.read(DISCARD, &path, INTENT_MAX_BYTES).await? else {
            return Ok(None);
        };
        let fail = |problem| self.problem(DISCARD, &path, problem);
        let body = frame::open(INTENT_MAGIC, INTENT_VERSION, &bytes).map_err(fail)?;
        let intent: Intent = rmp_serde::from_slice(body).map_err(|error| {
            fail(Problem::Corrupt {
                detail: format!("its body can't be read: {error}"),
            })
        })?;
        let decided_elsewhere = match facts.decisions.get(&name.checkpoint) {
            Some(Standing::Complete { savepoint }) => savepoint.as_ref() == Some(&intent.location),
            // Retired since: it may have been this savepoint, which is a person's then.
            None => name.checkpoint < facts.floor,
            Some(_) => false,
        };
        if decided_elsewhere {
            return Ok(None);
        }
        let own_name = layout::savepoint_dir(&self.job, name.nonce);
        let plausible =
            |path: &String| path.ends_with(&own_name) && !path.split('/').any(|segment| segment == "..");
        if !plausible(&intent.location) || intent.below_root.as_ref().is_some_and(|below| !plausible(below)) {
            return Err(fail(Problem::Corrupt {
                detail: format!("it names \"{}\"", intent.location),
            }));
        }
        let dir = match &intent.below_root {
            Some(below) => below
                .split('/')
                .fold(self.root.clone(), |dir, segment| dir.child(segment)),
            None => match StoreDir::open(&intent.location) {
                Err(error) if error.is_not_there() => return Ok(None),
                opened => opened?,
            },
        };
        let deleted = discard(&dir, &self.job, name).await?;
        Ok(deleted.then_some(intent.location))
    }
}

/// Deletes an undecided savepoint, its `_metadata` first; whether anything was there.
async fn discard(dir: &StoreDir, job: &JobId, name: &IntentName) -> Result<bool, StorageError> {
    let objects = dir.list(DISCARD).await?;
    if let Some(bytes) = dir.read(DISCARD, METADATA, MAX_BYTES).await? {
        let object = DecisionObject::decode(&bytes)
            .map_err(|problem| StorageError::new(DISCARD, dir.describe(METADATA), problem))?;
        let header = &object.header;
        if (&header.job, header.id, header.epoch) != (job, name.checkpoint, name.epoch) {
            return Err(StorageError::bug(
                DISCARD,
                dir.url(),
                "another savepoint stands there",
            ));
        }
        dir.delete(DISCARD, METADATA).await?;
        dir.sync_local(DISCARD, "")?;
    }
    let ours = |path: &str| StateFileName::parse(path).is_some();
    let files: Vec<_> = objects
        .iter()
        .map(|object| object.path.clone())
        .filter(|path| ours(path))
        .collect();
    for (_, result) in dir.delete_many(DISCARD, files).await {
        result?;
    }
    let walk = dir.walk_local(DISCARD)?;
    for (path, _) in &walk.files {
        let staging = layout::staged_for(path).is_some_and(|base| base == METADATA || ours(base));
        if let Some(file) = dir.local_file(path).filter(|_| staging) {
            local::remove_file(&file)
                .map_err(|error| StorageError::of_io(DISCARD, dir.describe(path), error))?;
        }
    }
    let there = dir.local_path().is_some_and(|path| path.exists());
    if let Some(path) = dir.local_path() {
        local::remove_dir_if_empty(path).map_err(|error| StorageError::of_io(DISCARD, dir.url(), error))?;
    }
    Ok(there || !objects.is_empty())
}

/// The last segment of a path.
fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}
