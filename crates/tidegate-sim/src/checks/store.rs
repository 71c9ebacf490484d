//! Checker: manifests are complete, and after the last clean-up nothing stands that nobody names.
//!
//! Looks past all faults at the objects themselves.

use std::collections::BTreeSet;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;
use tidegate_runtime::master::Executor;
use tidegate_storage::verify::verify_at;
use tidegate_storage::{
    CheckpointStore, DecisionSummary, ErrorKind, JobStore, Newest, Nonce, StorageError, StoreDir, layout,
};
use tidegate_types::JobId;

fn dir(store: Arc<dyn ObjectStore>, job: &JobId) -> StoreDir {
    let name = layout::job_dir_name(job).expect("the job's id was accepted");
    StoreDir::new(store, Path::ROOT, None, "memory:///checked").child(&name)
}

/// A job's directory, seen past all faults.
pub fn job_store(store: Arc<dyn ObjectStore>, job: &JobId) -> JobStore {
    CheckpointStore::over(store, "memory:///checked")
        .job(job)
        .expect("the job's id was accepted")
}

/// Every file that a complete checkpoint names exists and is what was written.
pub fn incomplete_manifests(store: Arc<dyn ObjectStore>, job: &JobId) -> Vec<String> {
    match Executor::Inline.block_on(verify_at(dir(store, job))) {
        Ok(report) => report
            .problems
            .iter()
            .map(|p| format!("damaged checkpoint: {} {}", p.path, p.text))
            .collect(),
        // A job that never decided anything has no directory.
        Err(error) if error.is_not_there() => Vec::new(),
        Err(error) => vec![format!("the store can't be verified: {error}")],
    }
}

/// Takes the job over once more and cleans up; what stands then and isn't named.
pub fn orphans(store: Arc<dyn ObjectStore>, job: &JobId, nonce: Nonce) -> Vec<String> {
    let jobs = job_store(store.clone(), job);
    let cleaned = Executor::Inline.block_on(async {
        let mut claim = jobs.claim(nonce).await?;
        jobs.sweep(&mut claim.deletes, &claim.leadership.view()).await
    });
    if let Err(error) = cleaned {
        let kind: ErrorKind = error.kind();
        return vec![format!("the last clean-up failed ({kind:?}): {error}")];
    }
    match Executor::Inline.block_on(verify_at(dir(store, job))) {
        Ok(report) => report
            .orphans
            .iter()
            .map(|o| format!("orphan: {}", o.path))
            .collect(),
        Err(error) => vec![format!("the store can't be verified: {error}")],
    }
}

/// What a job has left behind that came to its end undisturbed: it cleans up before it says so, without another claim.
pub fn leftovers(store: Arc<dyn ObjectStore>, job: &JobId) -> Vec<String> {
    let jobs = job_store(store.clone(), job);
    let seen = Executor::Inline.block_on(async {
        let stands: BTreeSet<_> = jobs
            .checkpoints()
            .await?
            .into_iter()
            .filter(|c| matches!(c.state, DecisionSummary::Complete { .. }))
            .map(|c| c.id)
            .collect();
        let newest = match jobs.newest().await? {
            Newest::Complete(object) => Some(object),
            Newest::None | Newest::Unreadable { .. } => None,
        };
        let kept: BTreeSet<_> = newest
            .iter()
            .filter_map(|object| object.complete())
            .flat_map(|metadata| metadata.retained.iter().copied())
            .chain(newest.as_ref().map(|object| object.header.id))
            .collect();
        let orphans = verify_at(dir(store.clone(), job)).await?.orphans;
        Ok::<_, StorageError>((stands, kept, orphans))
    });
    match seen {
        Ok((stands, kept, orphans)) => stands
            .difference(&kept)
            .map(|id| format!("the job has ended, and checkpoint {id} stands although nobody keeps it"))
            .chain(
                orphans
                    .iter()
                    .map(|o| format!("the job has ended, and nobody names {}", o.path)),
            )
            .collect(),
        Err(error) => vec![format!("the store can't be read: {error}")],
    }
}

#[cfg(test)]
pub(super) mod tests {
    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, PutPayload};
    use tidegate_storage::{AbortCause, CheckpointMetadata, Decision, LineageId, StatsSummary};
    use tidegate_types::{CheckpointId, CheckpointKind, MaxParallelism};

    use super::*;

    fn put(store: &Arc<dyn ObjectStore>, path: &str, bytes: &'static [u8]) {
        let path = Path::from(path);
        Executor::Inline
            .block_on(store.put(&path, PutPayload::from_static(bytes)))
            .unwrap();
    }

    fn empty(retained: Vec<CheckpointId>) -> CheckpointMetadata {
        CheckpointMetadata {
            kind: CheckpointKind::Checkpoint,
            savepoint: None,
            triggered_at_ms: 0,
            completed_at_ms: 0,
            max_parallelism: MaxParallelism(128),
            operators: Vec::new(),
            subtasks: Vec::new(),
            master: Vec::new(),
            retained,
            lineage: LineageId(0),
            stats: StatsSummary::default(),
        }
    }

    /// Two complete checkpoints, of which the newer one retains no other.
    pub(in crate::checks) fn complete(
        store: &Arc<dyn ObjectStore>,
        job: &JobId,
    ) -> (CheckpointId, CheckpointId) {
        let jobs = job_store(store.clone(), job);
        Executor::Inline.block_on(async {
            let mut claim = jobs.claim(Nonce(1)).await.unwrap();
            let old = claim.leadership.next_id();
            for id in [old, old.next()] {
                let metadata = Box::new(empty(Vec::new()));
                jobs.decide(&mut claim.leadership, id, Decision::Complete(metadata))
                    .await
                    .unwrap();
            }
            (old, old.next())
        })
    }

    fn decided() -> (Arc<dyn ObjectStore>, JobId) {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let job = JobId::from("job");
        let jobs = job_store(store.clone(), &job);
        Executor::Inline.block_on(async {
            let mut claim = jobs.claim(Nonce(1)).await.unwrap();
            let id = claim.leadership.next_id();
            let cause = AbortCause::Failed {
                reason: "expired".into(),
                detail: String::new(),
            };
            jobs.decide(&mut claim.leadership, id, Decision::Aborted(cause))
                .await
                .unwrap();
        });
        (store, job)
    }

    #[test]
    fn a_damaged_decision_is_told() {
        let (store, job) = decided();
        assert_eq!(incomplete_manifests(store.clone(), &job), Vec::<String>::new());
        put(&store, "job/chk-7/_metadata", b"nonsense");
        assert_eq!(incomplete_manifests(store, &job).len(), 1);
    }

    #[test]
    fn a_file_that_outlives_the_clean_up_is_told() {
        let (store, job) = decided();
        assert_eq!(orphans(store.clone(), &job, Nonce(2)), Vec::<String>::new());
        // None of the engine's names: the clean-up leaves it alone.
        put(&store, "job/chk-1/forgotten", b"x");
        assert_eq!(orphans(store, &job, Nonce(3)), ["orphan: chk-1/forgotten"]);
    }

    #[test]
    fn leftovers_are_found() {
        let (store, job) = decided();
        let clean = leftovers(store.clone(), &job);
        assert_eq!(clean, Vec::<String>::new());
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let (old, _) = complete(&store, &job);
        put(&store, "job/shared/forgotten", b"bytes");
        let left = leftovers(store, &job);
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(left[0].contains(&format!("checkpoint {old} stands")), "{left:?}");
        assert!(left[1].contains("shared/forgotten"), "{left:?}");
    }
}
