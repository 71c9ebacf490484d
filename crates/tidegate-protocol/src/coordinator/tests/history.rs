use tidegate_types::snapshot::SubtaskStats;
use tidegate_types::{CheckpointKind, SnapshotMode};

use super::rig::*;
use crate::coordinator::*;
use crate::message::{DeclineReason, FromTask};

fn lenient() -> CoordinatorSettings {
    CoordinatorSettings {
        tolerable_failures: 99,
        ..every_second()
    }
}

#[test]
fn counts_follow_each_checkpoint() {
    let mut rig = Rig::running(lenient(), pair());
    rig.take(1);
    rig.after(1000);
    let counts = |rig: &Rig| rig.c.history().counts();
    let expected = CheckpointCounts {
        restored: 0,
        total: 2,
        in_progress: 1,
        completed: 1,
        failed: 0,
    };
    assert_eq!(counts(&rig), expected);
    rig.enumerators(2);
    rig.decline(2, sub(0, 0), DeclineReason::AsyncFailed);
    assert_eq!(
        counts(&rig),
        CheckpointCounts {
            in_progress: 0,
            failed: 1,
            ..expected
        }
    );
    rig.aborted_stands(2);
    assert_eq!(counts(&rig).failed, 1, "once");
}

#[test]
fn one_in_progress_shows_who_has_acknowledged() {
    let mut rig = Rig::collecting(lenient(), line());
    rig.now = rig.now + ms(30);
    let stats = SubtaskStats {
        state_bytes: 4,
        processed_bytes: 5,
        persisted_bytes: 6,
        alignment: ms(7),
        mode: Some(SnapshotMode::Unaligned),
        ..SubtaskStats::default()
    };
    let body = FromTask::Acknowledged {
        id: id(1),
        snapshot: snapshot(id(1), sub(1, 1)),
        stats: stats.clone(),
    };
    rig.say(sub(1, 1), body);
    let shown = rig.c.history().get(id(1)).expect("it is in progress");
    assert_eq!(shown.status.name(), "IN_PROGRESS");
    assert_eq!((shown.acknowledged(), shown.subtask_count()), (1, 6));
    assert_eq!(shown.end_to_end(), ms(30));
    assert_eq!(
        (shown.state_bytes(), shown.checkpointed_bytes()),
        (10, 4),
        "named is more than written"
    );
    assert_eq!((shown.processed_bytes(), shown.persisted_bytes()), (5, 6));
    assert!(shown.overtook());
    let part = shown.tasks[1].subtasks[1].clone();
    assert_eq!(
        part,
        Some(SubtaskCheckpoint {
            acked_at: rig.now,
            state_bytes: 10,
            finished: false,
            stats
        })
    );
}

#[test]
fn figures_are_over_the_completed_ones() {
    let mut rig = Rig::running(lenient(), pair());
    assert_eq!(rig.c.history().summary(), CheckpointSummary::default());
    for (n, took) in [(1, 10), (2, 30), (3, 20)] {
        rig.after(1000);
        rig.enumerators(n);
        rig.now = rig.now + ms(took);
        rig.complete(n);
    }
    let summary = rig.c.history().summary();
    let took = summary.end_to_end_ms;
    assert_eq!((took.min, took.max, took.avg, took.p50), (10, 30, 20, 20.0));
    assert_eq!(
        (summary.state_bytes.min, summary.state_bytes.max),
        (20, 20),
        "two subtasks of ten bytes"
    );
}

#[test]
fn only_the_newest_are_kept_in_detail_and_those_in_progress_always() {
    let settings = CoordinatorSettings {
        history_size: 2,
        max_concurrent: 9,
        ..lenient()
    };
    let mut rig = Rig::running(settings, pair());
    for n in 1..=4 {
        rig.take(n);
    }
    rig.after(1000);
    let kept = |rig: &Rig| {
        rig.c
            .history()
            .recent()
            .map(|stats| stats.id.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(kept(&rig), [5, 4, 3]);
    rig.enumerators(5);
    rig.decline(5, sub(0, 0), DeclineReason::AsyncFailed);
    assert_eq!(kept(&rig), [5, 4]);
    rig.aborted_stands(5);
    for n in 6..=8 {
        rig.take(n);
    }
    assert_eq!(kept(&rig), [8, 7]);
    let failed = rig.c.history().latest_failed().expect("5 failed");
    assert_eq!((failed.id, failed.discarded), (id(5), true));
    assert!(
        rig.c.history().get(id(5)).is_some(),
        "the latest of each kind can still be looked up"
    );
    assert_eq!(rig.c.history().counts().total, 8);
}

#[test]
fn the_history_outlives_the_attempt_and_knows_of_restores() {
    let mut rig = Rig::running(lenient(), pair());
    rig.take(1);
    rig.after(1000);
    let identity = Identity {
        attempt: tidegate_types::AttemptNumber(1),
        ..rig.c.identity.clone()
    };
    let history = rig.c.into_history();
    let c = Coordinator::new(lenient(), pair(), identity, StartMode::Deploy, Some(history));
    let mut rig = Rig { c, now: at(10_000) };
    let from = RestoredFrom {
        id: id(1),
        is_savepoint: false,
        path: None,
    };
    rig.claim(Claim {
        next_id: id(3),
        restored: Some(from.clone()),
        ..Claim::default()
    });
    let counts = rig.c.history().counts();
    let expected = CheckpointCounts {
        restored: 1,
        total: 2,
        in_progress: 0,
        completed: 1,
        failed: 1,
    };
    assert_eq!(
        counts, expected,
        "what was pending when the attempt ended has failed"
    );
    let restored = rig.c.history().latest_restored().cloned();
    assert_eq!(
        restored,
        Some(RestoredStats {
            from,
            restored_at: at(10_000)
        })
    );
}

#[test]
fn kinds_and_times_are_shown() {
    let mut rig = Rig::running(lenient(), pair());
    rig.request(1, Request::Savepoint(order()));
    rig.enumerators(1);
    rig.now = rig.now + ms(5);
    rig.ack_all(1);
    rig.on(CoordinatorEvent::SavepointCopied {
        id: id(1),
        path: "/save/1".to_owned(),
    });
    rig.now = rig.now + ms(50);
    rig.complete_stands(1);
    let shown = rig.c.history().latest_savepoint().expect("it is complete");
    assert!(matches!(
        shown.kind,
        CheckpointKind::Savepoint { stop: false, .. }
    ));
    assert_eq!(
        (shown.status, shown.end_to_end()),
        (CheckpointStatus::Completed, ms(5))
    );
    assert_eq!((shown.triggered_at, shown.ended_at), (at(0), Some(at(55))));
}
