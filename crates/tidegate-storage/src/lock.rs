//! Local leadership: one process runs a job on one checkpoint directory.
//!
//! For liveness and for a plain error, not for safety: a claim ([`crate::claim`]) makes an older leader harmless even
//! where locks don't work. On a local disk it is an advisory lock on `leader.lock`, which the operating system lets
//! go when the process ends, however it ends; the file stays, because removing it would let two processes
//! lock two files of one name. Elsewhere it is an entry in a table that all clones of one opened
//! [`CheckpointStore`](crate::CheckpointStore) share.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tidegate_types::JobId;

use crate::error::{Problem, StorageError};
use crate::layout;
use crate::store::JobStore;

const LOCK: &str = "lock the job's directory";

/// The most of a lock file that is read; what is written is far shorter.
const MAX_HOLDER_BYTES: u64 = 4096;

/// Who holds a lock; shown to whoever is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// Process id.
    pub pid: u32,
    /// When and as what it was started, for people.
    pub started: String,
}

/// Locks of stores without a disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct LockTable(Arc<Mutex<BTreeMap<JobId, LockHolder>>>);

impl LockTable {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<JobId, LockHolder>> {
        // The map is whole after every statement that changes it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held while a process leads a job; let go when dropped.
#[derive(Debug)]
#[must_use = "the lock is let go when this is dropped"]
pub struct JobLock {
    held: Held,
}

#[derive(Debug)]
enum Held {
    /// The operating system unlocks when the file is closed.
    File {
        _file: File,
    },
    Entry {
        table: LockTable,
        job: JobId,
    },
}

impl JobStore {
    /// Locks the job for this process (`holder`), or says who runs it. Creates the job's directory.
    ///
    /// # Errors
    /// [`Problem::Locked`]; [`Problem::NotSupported`] where the file system has no locks; what prevents the file.
    pub fn lock(&self, holder: &LockHolder) -> Result<JobLock, StorageError> {
        match self.dir.local_file(layout::LOCK) {
            Some(path) => {
                self.dir.ensure_local(LOCK)?;
                let fail = |error| StorageError::of_io(LOCK, path.display().to_string(), error);
                let file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(&path);
                let mut file = file.map_err(fail)?;
                match file.try_lock() {
                    Ok(()) => {}
                    Err(TryLockError::WouldBlock) => return Err(self.refused(&read_holder(&mut file))),
                    Err(TryLockError::Error(error)) => return Err(fail(error)),
                }
                write_holder(&mut file, holder).map_err(fail)?;
                Ok(JobLock {
                    held: Held::File { _file: file },
                })
            }
            None => {
                let mut entries = self.locks.entries();
                if let Some(other) = entries.get(&self.job) {
                    return Err(self.refused(&text(other)));
                }
                entries.insert(self.job.clone(), holder.clone());
                drop(entries);
                Ok(JobLock {
                    held: Held::Entry {
                        table: self.locks.clone(),
                        job: self.job.clone(),
                    },
                })
            }
        }
    }

    fn refused(&self, holder: &str) -> StorageError {
        let problem = Problem::Locked {
            job: self.job.clone(),
            holder: holder.to_owned(),
        };
        StorageError::new(LOCK, self.dir.url(), problem)
    }
}

impl Drop for JobLock {
    fn drop(&mut self) {
        if let Held::Entry { table, job } = &self.held {
            table.entries().remove(job);
        }
    }
}

fn text(holder: &LockHolder) -> String {
    format!("pid {}, started {}", holder.pid, holder.started)
}

/// Who wrote the lock file. It may be between locking and writing, so anything is possible.
fn read_holder(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file.take(MAX_HOLDER_BYTES).read_to_end(&mut bytes);
    match read
        .ok()
        .and_then(|_| serde_json::from_slice::<LockHolder>(&bytes).ok())
    {
        Some(holder) => text(&holder),
        None => "which one its lock file doesn't say".to_owned(),
    }
}

fn write_holder(file: &mut File, holder: &LockHolder) -> std::io::Result<()> {
    let json = serde_json::to_vec(holder)?;
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CheckpointStore;

    fn holder(pid: u32) -> LockHolder {
        LockHolder {
            pid,
            started: "2026-01-02 03:04:05".to_owned(),
        }
    }

    #[test]
    fn a_second_leader_is_told_who_runs_the_job_and_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        for location in ["memory:///ckpt", root.path().to_str().unwrap()] {
            let store = CheckpointStore::open(location).unwrap();
            let job = store.job(&JobId::from("word count")).unwrap();
            let lock = job.lock(&holder(41)).unwrap();
            let error = store
                .clone()
                .job(&JobId::from("word count"))
                .unwrap()
                .lock(&holder(42))
                .unwrap_err();
            let text = error.to_string();
            for part in [
                "pid 41",
                "started 2026-01-02",
                "word count",
                "word%20count",
                "--job-id",
            ] {
                assert!(text.contains(part), "{text} lacks {part}");
            }
            let other = store.job(&JobId::from("other")).unwrap();
            let _other = other.lock(&holder(42)).unwrap();
            drop(lock);
            let _again = job.lock(&holder(43)).unwrap();
            assert!(job.lock(&holder(44)).unwrap_err().to_string().contains("pid 43"));
        }
    }

    #[test]
    fn two_openings_of_one_directory_exclude_each_other() {
        let root = tempfile::tempdir().unwrap();
        let open = || {
            CheckpointStore::open(root.path().to_str().unwrap())
                .unwrap()
                .job(&JobId::from("j"))
                .unwrap()
        };
        let _lock = open().lock(&holder(1)).unwrap();
        assert!(matches!(
            open().lock(&holder(2)).unwrap_err().problem(),
            Problem::Locked { .. }
        ));
    }

    #[test]
    fn a_lock_file_of_any_content_is_survived() {
        let root = tempfile::tempdir().unwrap();
        let job = CheckpointStore::open(root.path().to_str().unwrap())
            .unwrap()
            .job(&JobId::from("j"))
            .unwrap();
        let lock = job.lock(&holder(1)).unwrap();
        std::fs::write(root.path().join("j").join(layout::LOCK), b"\xff{").unwrap();
        assert!(
            job.lock(&holder(2))
                .unwrap_err()
                .to_string()
                .contains("doesn't say")
        );
        drop(lock);
        let _lock = job.lock(&holder(3)).unwrap();
        let written = std::fs::read(root.path().join("j").join(layout::LOCK)).unwrap();
        assert_eq!(serde_json::from_slice::<LockHolder>(&written).unwrap(), holder(3));
    }
}
