//! Checker: no file is deleted that a checkpoint needs which can still be restored.
//!
//! Looks past all faults before a deletion takes effect. What can be restored is the newest complete checkpoint and
//! what its decision names as retained; the decision objects of these count as needed too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object_store::ObjectStore;
use tidegate_runtime::master::Executor;
use tidegate_storage::{DecisionSummary, JobStore, layout};
use tidegate_types::snapshot::Location;
use tidegate_types::{CheckpointId, JobId};

use super::store::job_store;

/// What is needed, as far as it was read. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct DeletionCheck(Arc<Mutex<Option<Needed>>>);

/// Objects below the job's directory, each with a checkpoint that needs it.
type Needed = BTreeMap<String, CheckpointId>;

impl DeletionCheck {
    /// A decision is about to be written or deleted: what is needed must be read anew.
    pub fn forget(&self) {
        *self.needed() = None;
    }

    fn needed(&self) -> MutexGuard<'_, Option<Needed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object at this path is about to be deleted: what is wrong with that?
    pub fn saw(&self, store: &Arc<dyn ObjectStore>, job: &JobId, path: &str) -> Option<String> {
        let dir = layout::job_dir_name(job).ok()?;
        let below = path.strip_prefix(&format!("{dir}/"))?;
        let mut needed = self.needed();
        if needed.is_none() {
            match Executor::Inline.block_on(read(&job_store(store.clone(), job))) {
                Ok(read) => *needed = Some(read),
                Err(error) => return Some(format!("the deletion of `{path}` can't be judged: {error}")),
            }
        }
        let id = needed.as_ref()?.get(below)?;
        Some(format!("`{path}` is deleted and checkpoint {id} needs it"))
    }
}

/// What the newest complete checkpoint and those that it retains need.
async fn read(jobs: &JobStore) -> Result<Needed, Box<dyn std::error::Error>> {
    let checkpoints = jobs.checkpoints().await?;
    let complete = checkpoints
        .iter()
        .filter(|c| matches!(c.state, DecisionSummary::Complete { .. }));
    let mut needed = Needed::new();
    let Some(newest) = complete.map(|c| c.id).max() else {
        return Ok(needed);
    };
    let mut live = vec![newest];
    while let Some(id) = live.pop() {
        let Some(object) = jobs.read_decision(id).await? else {
            continue;
        };
        let Some(metadata) = object.complete() else {
            continue;
        };
        if id == newest {
            live.extend(&metadata.retained);
        }
        needed.insert(layout::metadata(id), id);
        for section in metadata.sections() {
            if let Location::File { path, .. } = &section.location {
                needed.insert(path.clone(), id);
            }
        }
    }
    Ok(needed)
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;
    use crate::checks::store::tests::complete;

    #[test]
    fn a_deletion_of_what_is_needed_is_told() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let job = JobId::from("job");
        let (old, new) = complete(&store, &job);
        let metadata = |id| format!("job/{}", layout::metadata(id));
        let check = DeletionCheck::default();
        let needed = |path: &str| check.saw(&store, &job, path);
        let problem = needed(&metadata(new));
        assert!(problem.is_some_and(|p| p.contains("needs it")));
        assert_eq!(needed(&metadata(old)), None, "not retained");
        assert_eq!(needed("job/chk-9/other"), None);
        assert_eq!(needed("elsewhere"), None);
    }
}
