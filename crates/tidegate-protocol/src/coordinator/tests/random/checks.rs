//! What no action may do, whatever led to it.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_types::{CheckpointId, LeaderEpoch, Nanos, SubtaskId};

use super::leader::Leader;
use crate::coordinator::pending::Purpose;
use crate::coordinator::*;
use crate::message::ToTask;

/// What stands in the store.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) epoch: LeaderEpoch,
    pub(super) content: Option<CheckpointContent>,
}

impl Object {
    pub(super) fn verdict(&self) -> Verdict {
        if self.content.is_some() {
            Verdict::Complete
        } else {
            Verdict::Aborted
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) objects: BTreeMap<CheckpointId, Object>,
}

impl Store {
    pub(super) fn verdict(&self, id: CheckpointId) -> Option<Verdict> {
        self.objects.get(&id).map(Object::verdict)
    }

    pub(super) fn newest_complete(&self) -> Option<(CheckpointId, &CheckpointContent)> {
        let mut newest_first = self.objects.iter().rev();
        newest_first.find_map(|(id, object)| object.content.as_ref().map(|content| (*id, content)))
    }

    fn all_below_decided(&self, id: CheckpointId) -> bool {
        (1..id.0).all(|lower| self.objects.contains_key(&CheckpointId(lower)))
    }
}

pub(super) fn check(
    action: &CoordinatorAction,
    leader: &mut Leader,
    store: &Store,
    settings: &CoordinatorSettings,
    now: Nanos,
) {
    match action {
        CoordinatorAction::SnapshotEnumerators { id } => started(*id, leader, settings, now),
        CoordinatorAction::WriteDecision { id, decision } => {
            assert!(leader.writes.is_empty(), "two decisions at once");
            assert!(store.all_below_decided(*id), "{id} is decided before a lower one");
            if let Decision::Complete(content) = decision {
                assert!(
                    leader.commits.is_empty(),
                    "{id} completes before an earlier commit is done"
                );
                complete(content, leader);
            }
        }
        CoordinatorAction::Commit { id, .. } => {
            let object = store.objects.get(id).expect("only what is decided is committed");
            assert_eq!(
                (object.epoch, object.verdict()),
                (leader.epoch, Verdict::Complete),
                "commit of {id}"
            );
            assert!(
                leader.commits.is_empty() && leader.committed.insert(*id),
                "commit of {id} again"
            );
        }
        CoordinatorAction::DeleteFiles { id }
        | CoordinatorAction::DiscardSavepoint { id }
        | CoordinatorAction::DiscardSnapshot { id, .. } => {
            assert_eq!(
                store.verdict(*id),
                Some(Verdict::Aborted),
                "files of {id} are deleted"
            );
        }
        CoordinatorAction::Retire { ids } => retired(ids, store),
        CoordinatorAction::Answer { request, .. } => {
            assert!(leader.asked.contains(request), "{request:?} was never asked");
            assert!(leader.answered.insert(*request), "{request:?} is answered again");
        }
        CoordinatorAction::StepDown { id } => {
            let object = store.objects.get(id).expect("it met something");
            assert!(object.epoch != leader.epoch, "it met itself");
        }
        CoordinatorAction::Send { to, message } => sent(to, message, leader, store),
        CoordinatorAction::FailJob(_) => {
            assert!(!leader.failed_job, "the job fails once");
        }
        CoordinatorAction::Close => assert!(leader.c.is_drained(), "closed with work left"),
        CoordinatorAction::RestoreEnumerators { checkpoint, .. } => {
            assert_eq!(*checkpoint, store.newest_complete().map(|(id, _)| id));
        }
        CoordinatorAction::ExternalPhase { .. }
        | CoordinatorAction::CopySavepoint { .. }
        | CoordinatorAction::Trace(_) => {}
    }
}

fn started(id: CheckpointId, leader: &mut Leader, settings: &CoordinatorSettings, now: Nanos) {
    let Some(pending) = leader.c.undecided.get(&id) else {
        panic!("{id} is started and not pending")
    };
    if pending.purpose == Purpose::Periodic {
        let count = leader.c.pending().filter(|other| *other <= id).count();
        assert!(
            count <= settings.max_concurrent as usize,
            "{count} are pending when {id} starts"
        );
        let interval = settings.interval.expect("there is one, or nothing is periodic");
        if let Some(last) = leader.last_periodic {
            assert!(now.since(last) >= interval / 2, "{id} starts too soon");
        }
        leader.last_periodic = Some(now);
    }
}

fn retired(ids: &[CheckpointId], store: &Store) {
    let (newest, content) = store.newest_complete().expect("something newer is complete");
    for id in ids {
        assert_eq!(store.verdict(*id), Some(Verdict::Complete), "{id} is retired");
        assert!(
            *id < newest && !content.retained.contains(id),
            "{id} is still named by {newest}"
        );
    }
}

/// A complete checkpoint is a consistent cut of the whole graph.
fn complete(content: &CheckpointContent, leader: &Leader) {
    let tasks = &leader.c.tasks;
    let subtasks: Vec<_> = content.subtasks.iter().map(|snapshot| snapshot.subtask).collect();
    assert_eq!(
        subtasks,
        tasks.plan().subtasks().collect::<Vec<_>>(),
        "every subtask, once"
    );
    let finished: BTreeSet<_> = content
        .subtasks
        .iter()
        .filter(|snapshot| snapshot.finished)
        .map(|snapshot| snapshot.subtask)
        .collect();
    for (producer, consumer) in super::draw::channels(tasks.plan()) {
        // Else records that left the producer after its cut would be inside the consumer's.
        assert!(
            !finished.contains(&consumer) || finished.contains(&producer),
            "{consumer} has finished in {} and its producer {producer} has not",
            content.id
        );
    }
}

fn sent(to: &[SubtaskId], message: &ToTask, leader: &mut Leader, store: &Store) {
    assert!(!to.is_empty() && to.is_sorted(), "receivers: {to:?}");
    let decided = |below: CheckpointId| (1..below.0).all(|n| store.objects.contains_key(&CheckpointId(n)));
    match message {
        ToTask::Trigger(barrier) => {
            assert_eq!(barrier.epoch, leader.epoch);
            assert!(decided(barrier.oldest_pending) && barrier.oldest_pending <= barrier.id);
            for subtask in to {
                let later = leader
                    .triggered
                    .iter()
                    .find(|(id, other)| other == subtask && *id > barrier.id);
                assert!(
                    later.is_none(),
                    "{subtask} is triggered for {} after {later:?}",
                    barrier.id
                );
                assert!(
                    leader.triggered.insert((barrier.id, *subtask)),
                    "{subtask} is triggered again"
                );
            }
        }
        ToTask::Completed { id, oldest_pending } => {
            assert_eq!(
                store.verdict(*id),
                Some(Verdict::Complete),
                "{id} is told as complete"
            );
            assert!(decided(*oldest_pending));
        }
        ToTask::Aborted { id, oldest_pending } => {
            assert_eq!(
                store.verdict(*id),
                Some(Verdict::Aborted),
                "{id} is told as aborted"
            );
            assert!(decided(*oldest_pending));
        }
        ToTask::Resume { .. } | ToTask::Reoffer | ToTask::Stop { .. } => {}
        ToTask::AssignSplits { .. } | ToTask::NoMoreSplits { .. } | ToTask::Cancel => {
            panic!("the coordinator doesn't send {message:?}")
        }
    }
    let unfinished = leader.c.tasks.unfinished();
    assert!(
        to.iter().all(|subtask| unfinished.contains(subtask)),
        "{to:?} are told {message:?}"
    );
}
