//! The two handles through which everything is reached: a checkpoint directory, and one job in it.
//!
//! Both are cheap to clone and hold no leadership: any process may read, list and write state files of its own;
//! only what a claim yields ([`crate::claim`]) decides and deletes.
//!
//! Every `async` function of this crate runs on any executor, a bare `block_on` too, and spawns nothing. On a
//! local disk they block for a few small system calls besides what `object_store` does (outside a tokio context
//! all of it runs on the calling thread), so production drives them from threads that may block.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;
use tidegate_types::{CheckpointId, JobId};

use crate::dir::StoreDir;
use crate::error::{Problem, StorageError, leader_text};
use crate::layout;
use crate::lock::LockTable;
use crate::metadata::{DecisionObject, MAX_BYTES};

/// A checkpoint directory: what `execution.checkpointing.dir` names. Holds the directories of jobs.
#[derive(Debug, Clone)]
pub struct CheckpointStore {
    root: StoreDir,
    locks: LockTable,
}

impl CheckpointStore {
    /// Opens a path, `file:///…` or `memory:///…`; a local directory that is missing is created. Each opening
    /// of `memory:///…` is a store of its own: clone the handle to share it.
    ///
    /// # Errors
    /// An unknown scheme, a file in the way, a directory that may not be created.
    pub fn open(location: &str) -> Result<Self, StorageError> {
        Ok(Self::at(StoreDir::create(location)?))
    }

    /// The same over a directory that is open already.
    pub fn at(root: StoreDir) -> Self {
        Self {
            root,
            locks: LockTable::default(),
        }
    }

    /// The root of an object store without a local directory, in-memory ones above all. `url` names it in
    /// messages.
    pub fn over(store: Arc<dyn ObjectStore>, url: &str) -> Self {
        Self::at(StoreDir::new(store, Path::ROOT, None, url))
    }

    /// The directory itself.
    pub fn root(&self) -> &StoreDir {
        &self.root
    }

    /// One job's part of it. Nothing is created.
    ///
    /// # Errors
    /// [`Problem::BadJobId`].
    pub fn job(&self, job: &JobId) -> Result<JobStore, StorageError> {
        let name = layout::job_dir_name(job)?;
        let dir = self.root.child(&name);
        Ok(JobStore {
            job: job.clone(),
            dir,
            root: self.root.clone(),
            locks: self.locks.clone(),
        })
    }
}

/// One job's directory in a checkpoint directory.
#[derive(Debug, Clone)]
pub struct JobStore {
    pub(crate) job: JobId,
    pub(crate) dir: StoreDir,
    pub(crate) root: StoreDir,
    pub(crate) locks: LockTable,
}

impl JobStore {
    /// The job.
    pub fn job(&self) -> &JobId {
        &self.job
    }

    /// Its directory.
    pub fn dir(&self) -> &StoreDir {
        &self.dir
    }

    /// The decision on a checkpoint; `None` while there is none.
    ///
    /// # Errors
    /// The store's, and [`Problem::Corrupt`], [`Problem::FutureVersion`], [`Problem::OtherJob`].
    pub async fn read_decision(&self, id: CheckpointId) -> Result<Option<DecisionObject>, StorageError> {
        const OPERATION: &str = "read the decision";
        let path = layout::metadata(id);
        let Some(bytes) = self.dir.read(OPERATION, &path, MAX_BYTES).await? else {
            return Ok(None);
        };
        self.decode(OPERATION, id, &bytes).map(Some)
    }

    pub(crate) fn decode(
        &self,
        operation: &'static str,
        id: CheckpointId,
        bytes: &[u8],
    ) -> Result<DecisionObject, StorageError> {
        let fail = |problem| StorageError::new(operation, self.dir.describe(&layout::metadata(id)), problem);
        let object = DecisionObject::decode(bytes).map_err(fail)?;
        if object.header.job != self.job {
            return Err(fail(Problem::OtherJob {
                expected: self.job.clone(),
                found: object.header.job,
            }));
        }
        if object.header.id != id {
            let detail = format!("it is the decision on checkpoint {}", object.header.id);
            return Err(fail(Problem::Corrupt { detail }));
        }
        Ok(object)
    }

    /// That another leader decided `object`.
    pub(crate) fn fenced_by(&self, operation: &'static str, object: &DecisionObject) -> StorageError {
        let header = &object.header;
        StorageError::fenced(operation, self.dir.url(), leader_text(header.epoch, header.id))
    }
}
