//! Checker: no file is deleted that a checkpoint needs which can still be restored.
//!
//! Looks past all faults before a deletion takes effect. What can be restored is the newest complete checkpoint and
//! what its decision names as retained; the decision objects of these count as needed too.

use std::sync::Arc;

use object_store::ObjectStore;
use tidegate_runtime::master::Executor;
use tidegate_storage::{DecisionSummary, JobStore, layout};
use tidegate_types::snapshot::Location;
use tidegate_types::{CheckpointId, JobId};

use super::store::job_store;

/// What is wrong with deleting the object at this path.
pub fn needed(store: &Arc<dyn ObjectStore>, job: &JobId, path: &str) -> Option<String> {
    let dir = layout::job_dir_name(job).ok()?;
    let below = path.strip_prefix(&format!("{dir}/"))?;
    let jobs = job_store(store.clone(), job);
    let needed = Executor::Inline.block_on(needs(&jobs, below));
    match needed {
        Ok(None) => None,
        Ok(Some(id)) => Some(format!("`{path}` is deleted and checkpoint {id} needs it")),
        Err(error) => Some(format!("the deletion of `{path}` can't be judged: {error}")),
    }
}

/// The checkpoint that needs the object at a path below the job's directory.
async fn needs(jobs: &JobStore, below: &str) -> Result<Option<CheckpointId>, Box<dyn std::error::Error>> {
    let checkpoints = jobs.checkpoints().await?;
    let complete = checkpoints
        .iter()
        .filter(|c| matches!(c.state, DecisionSummary::Complete { .. }));
    let Some(newest) = complete.map(|c| c.id).max() else {
        return Ok(None);
    };
    let Some(object) = jobs.read_decision(newest).await? else {
        return Ok(None);
    };
    let mut live = vec![newest];
    live.extend(
        object
            .complete()
            .into_iter()
            .flat_map(|m| m.retained.iter().copied()),
    );
    for id in live {
        let Some(object) = jobs.read_decision(id).await? else {
            continue;
        };
        let Some(metadata) = object.complete() else {
            continue;
        };
        let named = metadata.sections().any(|section| match &section.location {
            Location::Inline(_) => false,
            Location::File { path, .. } => below == path,
        });
        if named || below == layout::metadata(id) {
            return Ok(Some(id));
        }
    }
    Ok(None)
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
        let problem = needed(&store, &job, &metadata(new));
        assert!(problem.is_some_and(|p| p.contains("needs it")));
        assert_eq!(needed(&store, &job, &metadata(old)), None, "not retained");
        assert_eq!(needed(&store, &job, "job/chk-9/other"), None);
        assert_eq!(needed(&store, &job, "elsewhere"), None);
    }
}
