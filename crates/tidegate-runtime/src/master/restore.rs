//! From a snapshot to what an attempt's tasks get back, with the checks that it fits the job.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate_storage::Snapshot;
use tidegate_types::snapshot::{Section, SectionHead, SectionKind};
use tidegate_types::{OperatorUid, Parallelism};

use crate::graph::{JobGraph, RestorePlan};

use super::error::JobError;
use super::io::Executor;

fn refuse(snapshot: &Snapshot, reason: String) -> JobError {
    JobError::Restore {
        snapshot: snapshot.location().to_owned(),
        reason,
    }
}

/// Checks the snapshot against the job and says what its tasks get back.
///
/// # Errors
/// [`JobError::Restore`] with what to do.
pub fn restore_plan(
    snapshot: &Snapshot,
    graph: &JobGraph,
    executor: &Executor,
) -> Result<RestorePlan, JobError> {
    let metadata = snapshot.metadata();
    if metadata.max_parallelism != graph.max_parallelism {
        return Err(refuse(
            snapshot,
            format!(
                "it was taken with {} key groups and the job has {}: set pipeline.max-parallelism to {}",
                metadata.max_parallelism, graph.max_parallelism, metadata.max_parallelism
            ),
        ));
    }
    check_operators(snapshot, graph)?;
    let parallelism: HashMap<OperatorUid, Parallelism> = metadata
        .operators
        .iter()
        .map(|o| (o.uid.clone(), o.parallelism))
        .collect();
    let reader = snapshot.reader();
    let executor = executor.clone();
    Ok(RestorePlan {
        subtasks: metadata.subtasks.clone(),
        parallelism,
        fetch: Arc::new(move |sections: &[&Section]| Ok(executor.block_on(reader.read_sections(sections))?)),
    })
}

/// Everything that holds something must still have somebody to give it to.
fn check_operators(snapshot: &Snapshot, graph: &JobGraph) -> Result<(), JobError> {
    let known: BTreeMap<&OperatorUid, usize> = graph.nodes.iter().map(|n| (&n.uid, n.inputs.len())).collect();
    // A source's position may be in its enumerator alone, also when all its readers have finished.
    let enumerators = snapshot.metadata().master.iter();
    let mut enumerators = enumerators.filter(|section| section.head.kind == SectionKind::Enumerator);
    if let Some(lost) = enumerators.find(|section| !known.contains_key(&section.head.uid)) {
        return Err(refuse(snapshot, not_there(&lost.head)));
    }
    for subtask in snapshot.metadata().subtasks.iter().filter(|s| !s.finished) {
        for section in &subtask.sections {
            let head = &section.head;
            let inputs = known.get(&head.uid).copied();
            match (&head.kind, inputs) {
                (SectionKind::InFlight(address), _)
                    if head.records > 0 && inputs.is_none_or(|n| address.input.0 as usize >= n) =>
                {
                    return Err(refuse(
                        snapshot,
                        format!(
                            "{} records were in flight on input {} of operator `{}`, which the job doesn't have. \
                             Give the operator its old uid and inputs, or take a savepoint with the old program",
                            head.records, address.input, head.uid
                        ),
                    ));
                }
                (SectionKind::Watermarks | SectionKind::Generator | SectionKind::InFlight(_), _) => {}
                (_, None) if head.records > 0 => return Err(refuse(snapshot, not_there(head))),
                _ => {}
            }
        }
    }
    Ok(())
}

fn not_there(head: &SectionHead) -> String {
    format!(
        "it holds {} of operator `{}`, which the job doesn't have. Give the operator that uid again",
        what(&head.kind, &head.name),
        head.uid
    )
}

fn what(kind: &SectionKind, name: &str) -> String {
    match kind {
        SectionKind::Splits | SectionKind::Enumerator => "source positions".to_owned(),
        SectionKind::Committables => "prepared output".to_owned(),
        SectionKind::Timers => "timers".to_owned(),
        _ => format!("state `{name}`"),
    }
}
