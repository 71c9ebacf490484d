use tidegate_types::{CheckpointKind, SavepointFormat};

use super::rig::*;
use crate::coordinator::retention::Retention;
use crate::coordinator::*;

const SAVEPOINT: CheckpointKind = CheckpointKind::Savepoint {
    format: SavepointFormat::Native,
    stop: false,
};

fn ids(ids: &[u64]) -> Vec<tidegate_types::CheckpointId> {
    ids.iter().map(|n| id(*n)).collect()
}

#[test]
fn the_newest_are_kept_and_older_ones_go_when_the_newer_stands() {
    let mut rig = Rig::running(
        CoordinatorSettings {
            num_retained: 2,
            ..every_second()
        },
        pair(),
    );
    rig.take(1);
    rig.take(2);
    rig.after(1000);
    rig.enumerators(3);
    let actions = rig.ack_all(3);
    let [
        CoordinatorAction::WriteDecision {
            decision: Decision::Complete(content),
            ..
        },
    ] = &actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(
        content.retained,
        ids(&[2]),
        "1 isn't named any more, and is still there"
    );
    assert_eq!(
        rig.complete_stands(3),
        [commit(3), completed(&rig.all(), 3, 4), retire(&[1])]
    );
    assert_eq!(
        rig.c.history().get(id(1)).map(|stats| stats.discarded),
        Some(true)
    );
}

#[test]
fn a_savepoint_takes_no_checkpoints_place_and_goes_with_the_next() {
    let mut retention = Retention::default();
    assert_eq!(retention.completed(id(1), CheckpointKind::Checkpoint, 1), []);
    assert_eq!(retention.beside(SAVEPOINT, 1), ids(&[1]));
    assert_eq!(retention.completed(id(2), SAVEPOINT, 1), []);
    assert_eq!(retention.newest_checkpoint(), Some(id(1)));
    assert_eq!(
        retention.completed(id(3), SAVEPOINT, 1),
        ids(&[2]),
        "its owner has the copy"
    );
    assert_eq!(
        retention.completed(id(4), CheckpointKind::Checkpoint, 1),
        ids(&[1, 3])
    );
}

#[test]
fn what_a_claim_found_is_kept_on() {
    let mut rig = Rig::new(
        CoordinatorSettings {
            num_retained: 3,
            ..every_second()
        },
        pair(),
    );
    let newest = NewestComplete {
        id: id(8),
        kind: CheckpointKind::Checkpoint,
    };
    rig.claim(Claim {
        newest: Some(newest),
        retained: ids(&[5, 7]),
        next_id: id(10),
        ..Claim::default()
    });
    for subtask in rig.all() {
        rig.say(subtask, crate::message::FromTask::Running);
    }
    rig.after(1000);
    rig.enumerators(10);
    rig.ack_all(10);
    assert_eq!(rig.complete_stands(10).last(), Some(&retire(&[5])));
}

#[test]
fn fewer_to_keep_than_before_retires_the_rest() {
    let newest = Some((id(9), CheckpointKind::Checkpoint));
    let mut retention = Retention::found(newest, &ids(&[5, 6, 7]));
    assert_eq!(
        retention.completed(id(10), CheckpointKind::Checkpoint, 2),
        ids(&[5, 6, 7])
    );
}
