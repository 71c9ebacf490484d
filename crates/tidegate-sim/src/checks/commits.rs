//! Checker: nothing is committed before a checkpoint that lists it is complete and durable.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use object_store::ObjectStore;
use tidegate_runtime::master::Executor;
use tidegate_runtime::operators::read_committables;
use tidegate_storage::{CheckpointStore, DecisionSummary, JobStore};
use tidegate_types::JobId;
use tidegate_types::codec::canonical;
use tidegate_types::snapshot::SectionKind;

use crate::log::TxnId;

/// Says whether a commit (of a sink, of a transaction) is due; if not, why not.
pub type Witness = Arc<dyn Fn(&str, &TxnId) -> Result<(), String> + Send + Sync>;

/// Whoever looks into the job's store, past all faults.
pub fn witness(store: Arc<dyn ObjectStore>, job: &JobId) -> Witness {
    let store = CheckpointStore::over(store, "memory:///witness")
        .job(job)
        .expect("the job's id was accepted");
    // What was listed once stays listed: each checkpoint is read once or twice and not for every transaction.
    let seen: Mutex<Listed> = Mutex::default();
    Arc::new(move |uid, txn| {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = (uid.to_owned(), txn.clone());
        if seen.contains(&wanted) {
            return Ok(());
        }
        Executor::Inline
            .block_on(listed(&store, &mut seen))
            .map_err(|e| format!("a commit can't be judged, the store can't be read: {e}"))?;
        if seen.contains(&wanted) {
            Ok(())
        } else {
            Err(format!(
                "transaction {txn} of `{uid}` was committed and no complete checkpoint lists it"
            ))
        }
    })
}

/// Transactions by sink.
type Listed = BTreeSet<(String, TxnId)>;

/// Adds what complete checkpoints list.
async fn listed(store: &JobStore, into: &mut Listed) -> Result<(), Box<dyn std::error::Error>> {
    let checkpoints = store.checkpoints().await?;
    for checkpoint in checkpoints
        .iter()
        .filter(|c| matches!(c.state, DecisionSummary::Complete { .. }))
    {
        let Some(object) = store.read_decision(checkpoint.id).await? else {
            continue;
        };
        let snapshot = store.snapshot(object)?;
        let reader = snapshot.reader();
        for section in snapshot.metadata().sections() {
            if section.head.kind != SectionKind::Committables {
                continue;
            }
            let payload = reader.read_section(section).await?;
            for committable in read_committables(&payload).map_err(|e| e.to_string())? {
                let txn: TxnId = canonical::decode_from(&mut &committable[..])?;
                into.insert((section.head.uid.as_str().to_owned(), txn));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    #[test]
    fn a_commit_without_a_checkpoint_is_told() {
        let witness = witness(Arc::new(InMemory::new()), &JobId::from("job"));
        let txn = TxnId {
            epoch: 1,
            attempt: 1,
            lineage: 0,
            subtask: 0,
            number: 0,
        };
        let problem = witness("out", &txn).unwrap_err();
        assert!(problem.contains("no complete checkpoint lists it"), "{problem}");
    }
}
