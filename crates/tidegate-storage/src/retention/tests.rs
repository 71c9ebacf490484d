use tidegate_types::{AttemptNumber, SubtaskId, SubtaskIndex, VertexId};

use super::*;
use crate::layout::Writer;
use crate::nonce::Nonce;

/// A state file of checkpoint `n` written under leader `e`.
fn name(n: u64, e: u64) -> StateFileName {
    let writer = Writer::Subtask(SubtaskId::new(VertexId(0), SubtaskIndex(0)));
    StateFileName {
        checkpoint: CheckpointId(n),
        writer,
        attempt: AttemptNumber(1),
        epoch: LeaderEpoch(e),
        nonce: Nonce(n),
    }
}

fn intent(n: u64, e: u64) -> IntentName {
    IntentName {
        checkpoint: CheckpointId(n),
        epoch: LeaderEpoch(e),
        nonce: Nonce(1),
    }
}

/// Leader 5 has completed 8, which names 6 as retained; 9 is next.
fn facts() -> Facts {
    let complete = Standing::Complete { savepoint: None };
    let decisions = [
        (1, Standing::Permanent { closed: false }),
        (2, complete.clone()),
        (3, Standing::Aborted),
        (4, Standing::Unreadable),
        (5, Standing::Permanent { closed: false }),
        (6, complete.clone()),
        (7, Standing::Aborted),
        (8, complete),
    ];
    Facts {
        epoch: LeaderEpoch(5),
        next: CheckpointId(9),
        floor: CheckpointId(8),
        kept: [6, 8].map(CheckpointId).into(),
        named: [
            name(8, 5).in_checkpoint(),
            name(6, 5).in_shared(),
            name(2, 1).in_checkpoint(),
        ]
        .into(),
        decisions: decisions
            .map(|(id, standing)| (CheckpointId(id), standing))
            .into(),
    }
}

fn planned(paths: &[String]) -> Plan {
    plan(&facts(), paths.iter().map(String::as_str))
}

#[test]
fn of_the_decisions_only_older_ordinary_ones_go() {
    let paths: Vec<_> = (1..=9).map(|id| layout::metadata(CheckpointId(id))).collect();
    assert_eq!(planned(&paths).metadata, [2, 3, 7].map(CheckpointId));
}

#[test]
fn an_abort_above_the_newest_complete_one_stays_so_that_ids_have_no_gap() {
    let mut facts = facts();
    facts.floor = CheckpointId(6);
    let paths: Vec<_> = (1..=9).map(|id| layout::metadata(CheckpointId(id))).collect();
    assert_eq!(
        plan(&facts, paths.iter().map(String::as_str)).metadata,
        [2, 3].map(CheckpointId)
    );
}

#[test]
fn named_files_stay_wherever_they_are_and_others_go_once_settled() {
    let stay = [
        name(8, 5).in_checkpoint(),
        name(6, 5).in_shared(),
        // Of a checkpoint that is gone itself.
        name(2, 1).in_checkpoint(),
        // In progress under this leader, and under a newer one; the newer one reuses ids.
        name(9, 5).in_checkpoint(),
        name(9, 5).in_shared(),
        name(8, 7).in_checkpoint(),
        name(10, 9).in_shared(),
        // What an unreadable decision may name.
        name(4, 1).in_checkpoint(),
        "leader.lock".to_owned(),
    ];
    assert_eq!(planned(&stay), Plan::default());
    let go = [
        name(2, 2).in_checkpoint(),
        name(7, 5).in_checkpoint(),
        // A late writer of an older leader, at an id that is in use again.
        name(9, 4).in_checkpoint(),
        name(12, 4).in_checkpoint(),
        name(6, 4).in_shared(),
        name(8, 5).in_shared(),
    ];
    assert_eq!(planned(&go).files, go);
}

#[test]
fn shared_files_stay_while_a_kept_checkpoint_cannot_be_read() {
    let mut facts = facts();
    facts.decisions.insert(CheckpointId(6), Standing::Unreadable);
    let path = name(6, 4).in_shared();
    assert_eq!(plan(&facts, [path.as_str()]), Plan::default());
}

#[test]
fn staging_files_go_when_what_they_were_to_become_is_settled() {
    let staged = |path: String| format!("{path}#1");
    let go = [
        staged(layout::metadata(CheckpointId(8))),
        staged(name(9, 4).in_checkpoint()),
        staged(intent(8, 5).path()),
    ];
    assert_eq!(planned(&go).staging, go);
    let stay = [
        staged(layout::metadata(CheckpointId(9))),
        staged(name(9, 5).in_shared()),
        staged(intent(9, 6).path()),
    ];
    assert_eq!(planned(&stay), Plan::default());
}

#[test]
fn intents_are_settled_with_their_checkpoint() {
    let paths = [
        intent(9, 4).path(),
        intent(8, 5).path(),
        intent(9, 5).path(),
        intent(4, 1).path(),
    ];
    assert_eq!(planned(&paths).intents, [intent(9, 4), intent(8, 5)]);
}

#[test]
fn what_is_not_of_this_layout_is_reported_and_stays() {
    let paths = [
        "notes.txt",
        "chk-2/notes.txt",
        "savepoint-job-0000000000000001/_metadata",
        "chk-2/x#1",
    ]
    .map(str::to_owned);
    let plan = planned(&paths);
    assert_eq!(plan.unknown, paths);
    assert_eq!(
        Plan {
            unknown: Vec::new(),
            ..plan
        },
        Plan::default()
    );
}
