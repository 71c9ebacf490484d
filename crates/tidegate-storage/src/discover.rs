//! Finding checkpoints: what a job's directory holds, and what a path that a person gives means.
//!
//! Reads only, and needs no claim: it works beside a running job, whose directory may move on meanwhile.
//!
//! A path may name a checkpoint (`…/chk-7`), a savepoint, the `_metadata` of either, or a job's directory, which means
//! its newest complete checkpoint. What it is not gets a plain answer: not there, not a checkpoint, another
//! job's, damaged, aborted.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_types::snapshot::Location;
use tidegate_types::{CheckpointId, JobId};

use crate::claim::Newest;
use crate::dir::StoreDir;
use crate::error::{Problem, StorageError};
use crate::layout::{self, METADATA};
use crate::metadata::{CheckpointMetadata, Decision, DecisionHeader, DecisionObject, MAX_BYTES};
use crate::state_reader::StateReader;
use crate::store::{CheckpointStore, JobStore};

const OPEN: &str = "open the checkpoint";
const LIST: &str = "list checkpoints";

/// How often "the newest" is looked for while the directory moves on.
const TRIES: u32 = 16;

/// One checkpoint of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckpointSummary {
    /// Which.
    pub id: CheckpointId,
    /// What was decided.
    pub state: DecisionSummary,
    /// Objects in its own directory, `_metadata` too.
    pub files: u64,
    /// Bytes in them.
    pub size_bytes: u64,
}

/// A decision in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum DecisionSummary {
    /// Complete.
    Complete {
        /// Where the savepoint's copy stands, if it is one.
        savepoint: Option<String>,
        /// When it was triggered, in milliseconds since the Unix epoch.
        triggered_at_ms: i64,
        /// Bytes of state that it names, here and in shared files.
        state_bytes: u64,
    },
    /// Aborted, or claimed by a new leader.
    Aborted {
        /// Why.
        reason: String,
    },
    /// In progress, or left by a leader that is gone.
    Undecided,
    /// Its decision can't be read.
    Unreadable {
        /// What is wrong.
        error: String,
    },
}

/// A checkpoint or savepoint that can be restored.
#[derive(Debug, Clone)]
pub struct Snapshot {
    header: DecisionHeader,
    metadata: Box<CheckpointMetadata>,
    base: StoreDir,
    location: String,
}

impl Snapshot {
    fn new(object: DecisionObject, base: StoreDir, location: String) -> Result<Self, StorageError> {
        match object.decision {
            Decision::Complete(metadata) => Ok(Self {
                header: object.header,
                metadata,
                base,
                location,
            }),
            Decision::Aborted(cause) => {
                let problem = Problem::Aborted {
                    id: object.header.id,
                    reason: cause.text(),
                };
                Err(StorageError::new(OPEN, location, problem))
            }
        }
    }

    /// Its id.
    pub fn id(&self) -> CheckpointId {
        self.header.id
    }

    /// The job that took it.
    pub fn job(&self) -> &JobId {
        &self.header.job
    }

    /// Who decided it.
    pub fn header(&self) -> &DecisionHeader {
        &self.header
    }

    /// What it holds.
    pub fn metadata(&self) -> &CheckpointMetadata {
        &self.metadata
    }

    /// Where it stands.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// The directory that its paths are relative to.
    pub fn base(&self) -> &StoreDir {
        &self.base
    }

    /// Reads its state.
    pub fn reader(&self) -> StateReader {
        StateReader::of(self.base.clone(), format!("{}/{METADATA}", self.location))
    }

    /// Takes what outlives finished subtasks into the metadata itself, and drops the rest of them, so that checkpoints
    /// in another directory can name it.
    ///
    /// # Errors
    /// The store's, and those of damaged files.
    pub async fn inline_finished(&mut self) -> Result<(), StorageError> {
        let reader = self.reader();
        for subtask in self.metadata.subtasks.iter_mut().filter(|s| s.finished) {
            subtask.sections.retain(|s| s.head.kind.outlives_its_subtask());
            for section in &mut subtask.sections {
                if matches!(section.location, Location::File { .. }) {
                    section.location = Location::Inline(reader.read_section(section).await?);
                }
            }
        }
        Ok(())
    }

    /// That it belongs to `job`.
    ///
    /// # Errors
    /// [`Problem::OtherJob`].
    pub fn expect_job(&self, job: &JobId) -> Result<(), StorageError> {
        if self.job() == job {
            return Ok(());
        }
        let problem = Problem::OtherJob {
            expected: job.clone(),
            found: self.job().clone(),
        };
        Err(StorageError::new(OPEN, &*self.location, problem))
    }
}

impl CheckpointStore {
    /// [`open_snapshot`], with a location inside this store found in it: savepoints of an in-memory store can be
    /// opened no other way.
    ///
    /// # Errors
    /// As [`open_snapshot`].
    pub async fn open_snapshot(&self, location: &str) -> Result<Snapshot, StorageError> {
        open_below(self.root(), location).await
    }

    /// The jobs that have a directory here, in the order of their directories' names.
    ///
    /// # Errors
    /// The store's.
    pub async fn jobs(&self) -> Result<Vec<JobId>, StorageError> {
        let mut jobs: Vec<JobId> = Vec::new();
        for object in self.root().list("list jobs").await? {
            let Some((dir, below)) = object.path.split_once('/') else {
                continue;
            };
            let holds_checkpoints = below
                .split_once('/')
                .is_some_and(|(dir, _)| layout::checkpoint_of_dir(dir).is_some());
            if let Some(job) = layout::job_of_dir_name(dir).filter(|_| holds_checkpoints)
                && jobs.last() != Some(&job)
            {
                jobs.push(job);
            }
        }
        Ok(jobs)
    }
}

impl JobStore {
    /// [`CheckpointStore::open_snapshot`] of the checkpoint directory that this job is in.
    ///
    /// # Errors
    /// As [`open_snapshot`].
    pub async fn open_snapshot(&self, location: &str) -> Result<Snapshot, StorageError> {
        open_below(&self.root, location).await
    }

    /// The directory that a person names for savepoints: created if it is on disk, or one inside this in-memory store.
    ///
    /// # Errors
    /// As [`StoreDir::create`].
    pub fn savepoint_target(&self, location: &str) -> Result<StoreDir, StorageError> {
        match self.root.find(location) {
            Some(inside) => Ok(inside),
            None => StoreDir::create(location),
        }
    }

    /// Every checkpoint that left a trace, lowest id first.
    ///
    /// # Errors
    /// The store's. A decision that can't be read is an entry of its own.
    pub async fn checkpoints(&self) -> Result<Vec<CheckpointSummary>, StorageError> {
        let mut sizes: BTreeMap<CheckpointId, (u64, u64)> = BTreeMap::new();
        for object in self.dir.list(LIST).await? {
            let Some((dir, _)) = object.path.split_once('/') else {
                continue;
            };
            let Some(id) = layout::checkpoint_of_dir(dir) else {
                continue;
            };
            let (files, bytes) = sizes.entry(id).or_default();
            *files += 1;
            *bytes += object.size_bytes;
        }
        let mut all = Vec::with_capacity(sizes.len());
        for (id, (files, size_bytes)) in sizes {
            let state = match self.read_decision(id).await {
                Ok(None) => DecisionSummary::Undecided,
                Ok(Some(object)) => summary(&object.decision),
                Err(error) => DecisionSummary::Unreadable {
                    error: error.to_string(),
                },
            };
            all.push(CheckpointSummary {
                id,
                state,
                files,
                size_bytes,
            });
        }
        Ok(all)
    }

    /// The newest complete checkpoint as it stands; without a claim another may complete meanwhile.
    ///
    /// # Errors
    /// The store's; [`Problem::Undetermined`] if the directory doesn't hold still.
    pub async fn newest(&self) -> Result<Newest, StorageError> {
        for _ in 0..TRIES {
            let ids = self.decided_ids().await?;
            if let Some(newest) = self.newest_below(&ids, CheckpointId(u64::MAX)).await? {
                return Ok(newest);
            }
        }
        Err(self.problem(
            LIST,
            "",
            Problem::Undetermined {
                detail: "the directory keeps changing".to_owned(),
            },
        ))
    }

    /// The checkpoint that a decision of this job's directory describes.
    ///
    /// # Errors
    /// [`Problem::Aborted`] if it describes none.
    pub fn snapshot(&self, object: DecisionObject) -> Result<Snapshot, StorageError> {
        let location = self.dir.describe(&layout::checkpoint_dir(object.header.id));
        Snapshot::new(object, self.dir.clone(), location)
    }
}

fn summary(decision: &Decision) -> DecisionSummary {
    match decision {
        Decision::Complete(metadata) => DecisionSummary::Complete {
            savepoint: metadata.savepoint.clone(),
            triggered_at_ms: metadata.triggered_at_ms,
            state_bytes: metadata.state_bytes(),
        },
        Decision::Aborted(cause) => DecisionSummary::Aborted { reason: cause.text() },
    }
}

/// Opens what a person gave: a checkpoint, a savepoint, the `_metadata` of either, or a job's directory.
///
/// # Errors
/// [`Problem::NotThere`], [`Problem::NotACheckpoint`], [`Problem::NoCheckpoint`], [`Problem::Aborted`],
/// [`Problem::Corrupt`], [`Problem::BadLocation`], the store's. Whose job it is the caller compares
/// ([`Snapshot::expect_job`]).
pub async fn open_snapshot(location: &str) -> Result<Snapshot, StorageError> {
    snapshot_at(StoreDir::open(strip_metadata(location))?).await
}

/// [`open_snapshot`], with what is inside of an in-memory `root` found in it.
async fn open_below(root: &StoreDir, location: &str) -> Result<Snapshot, StorageError> {
    match root.find(strip_metadata(location)) {
        Some(inside) => snapshot_at(inside).await,
        None => open_snapshot(location).await,
    }
}

/// The directory that a path means: itself, or the one in which a named `_metadata` stands.
pub(crate) fn strip_metadata(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => path,
        METADATA => ".",
        trimmed => trimmed
            .strip_suffix(METADATA)
            .and_then(|rest| rest.strip_suffix('/'))
            .unwrap_or(trimmed),
    }
}

/// The same for a directory that is open already.
///
/// # Errors
/// As [`open_snapshot`].
pub async fn snapshot_at(dir: StoreDir) -> Result<Snapshot, StorageError> {
    let location = dir.url().to_owned();
    let Some(bytes) = dir.read(OPEN, METADATA, MAX_BYTES).await? else {
        return newest_in(dir).await;
    };
    let object = DecisionObject::decode(&bytes)
        .map_err(|problem| StorageError::new(OPEN, dir.describe(METADATA), problem))?;
    let savepoint = match &object.decision {
        Decision::Complete(metadata) => metadata.kind.is_savepoint(),
        Decision::Aborted(_) => false,
    };
    // The engine's own decision on a savepoint stands in a checkpoint's directory like any other.
    match dir.split_parent() {
        Some((parent, name)) if layout::checkpoint_of_dir(&name) == Some(object.header.id) => {
            Snapshot::new(object, parent, location)
        }
        _ if savepoint => Snapshot::new(object, dir, location),
        _ => {
            let found = format!(
                "its directory must keep the name {}, in a job's directory",
                layout::checkpoint_dir(object.header.id)
            );
            Err(StorageError::new(
                OPEN,
                location,
                Problem::NotACheckpoint { found },
            ))
        }
    }
}

/// The newest complete checkpoint of a job's directory.
async fn newest_in(dir: StoreDir) -> Result<Snapshot, StorageError> {
    let fail = |problem| Err(StorageError::new(OPEN, dir.url(), problem));
    let objects = dir.list(OPEN).await?;
    let decided = objects
        .iter()
        .find_map(|object| match layout::parse(&object.path) {
            layout::Entry::Metadata(id) => Some(id),
            _ => None,
        });
    let Some(id) = decided else {
        let is_checkpoint = dir
            .url()
            .rsplit('/')
            .next()
            .is_some_and(|name| layout::checkpoint_of_dir(name).is_some());
        return match (objects.first(), is_checkpoint) {
            (_, true) => fail(Problem::NotACheckpoint {
                found: "it has no _metadata: it was never completed".into(),
            }),
            (None, false) => fail(Problem::NotThere),
            (Some(first), false) => fail(Problem::NotACheckpoint {
                found: format!("it holds {} and no _metadata", first.path),
            }),
        };
    };
    // Whose directory it is a decision says; the name may have been changed.
    let path = layout::metadata(id);
    let Some(bytes) = dir.read(OPEN, &path, MAX_BYTES).await? else {
        return fail(Problem::NoCheckpoint);
    };
    let object = DecisionObject::decode(&bytes)
        .map_err(|problem| StorageError::new(OPEN, dir.describe(&path), problem))?;
    let job = JobStore {
        job: object.header.job,
        root: dir.clone(),
        dir,
        locks: Default::default(),
    };
    match job.newest().await? {
        Newest::Complete(object) => job.snapshot(*object),
        Newest::Unreadable { error, .. } => Err(error),
        Newest::None => Err(job.problem(OPEN, "", Problem::NoCheckpoint)),
    }
}
