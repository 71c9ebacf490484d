use super::rig::*;
use crate::coordinator::*;
use crate::message::{DeclineReason, FromTask};

fn tolerating(tolerable_failures: u32) -> CoordinatorSettings {
    CoordinatorSettings {
        tolerable_failures,
        ..every_second()
    }
}

/// Checkpoint `n` is declined for `reason`, and `aborted` stands.
fn fail_next(rig: &mut Rig, n: u64, reason: DeclineReason) -> Vec<CoordinatorAction> {
    rig.after(1000);
    rig.enumerators(n);
    let actions = rig.decline(n, sub(0, 0), reason);
    rig.aborted_stands(n);
    actions
}

#[test]
fn a_decline_fails_it_and_tasks_hear_when_that_stands() {
    let mut rig = Rig::collecting(tolerating(1), line());
    let record = failure(1, FailureReason::AsyncFailed, Some(sub(1, 1)), "because");
    assert_eq!(
        rig.decline(1, sub(1, 1), DeclineReason::AsyncFailed),
        [write_aborted(record)]
    );
    assert_eq!(
        rig.aborted_stands(1),
        [aborted(&rig.all(), 1, 2), delete_files(1)]
    );
    assert_eq!(rig.decline(1, sub(1, 0), DeclineReason::AsyncFailed), [], "late");
}

#[test]
fn one_failure_too_many_fails_the_job() {
    let mut rig = Rig::running(tolerating(2), pair());
    fail_next(&mut rig, 1, DeclineReason::AsyncFailed);
    fail_next(&mut rig, 2, DeclineReason::PrepareRefused);
    rig.after(1000);
    rig.enumerators(3);
    let record = failure(3, FailureReason::AsyncFailed, Some(sub(0, 0)), "because");
    let fail_job = CoordinatorAction::FailJob(Box::new(record.clone()));
    assert_eq!(
        rig.decline(3, sub(0, 0), DeclineReason::AsyncFailed),
        [fail_job, write_aborted(record)]
    );
    assert_eq!(
        rig.aborted_stands(3),
        [delete_files(3)],
        "the tasks are being cancelled; the store is cleaned"
    );
    assert!(rig.c.is_drained());
    assert_eq!(rig.after(10_000), []);
}

#[test]
fn completion_forgives() {
    let mut rig = Rig::running(tolerating(1), pair());
    fail_next(&mut rig, 1, DeclineReason::AsyncFailed);
    rig.take(2);
    fail_next(&mut rig, 3, DeclineReason::AsyncFailed);
    assert_eq!(rig.c.failures_in_a_row(), 1);
}

#[test]
fn which_declines_count() {
    let counted = [
        DeclineReason::PrepareRefused,
        DeclineReason::AsyncFailed,
        DeclineReason::QuiesceLimit,
    ];
    let not = [
        DeclineReason::NotReady,
        DeclineReason::CancelMarker,
        DeclineReason::Subsumed,
        DeclineReason::InputEnded,
        DeclineReason::Aborted,
    ];
    for reason in counted.into_iter().chain(not) {
        let mut rig = Rig::running(tolerating(0), pair());
        let actions = fail_next(&mut rig, 1, reason);
        let failed = actions
            .iter()
            .any(|action| matches!(action, CoordinatorAction::FailJob(_)));
        assert_eq!(failed, counted.contains(&reason), "{reason:?}");
    }
}

#[test]
fn expiry_names_who_is_missing() {
    let mut rig = Rig::collecting(
        CoordinatorSettings {
            timeout: ms(500),
            ..tolerating(9)
        },
        line(),
    );
    rig.ack(1, sub(0, 0));
    rig.ack(1, sub(0, 1));
    assert_eq!(rig.c.next_timeout(), Some(at(1500)));
    assert_eq!(rig.after(499), []);
    let detail = "no acknowledgement from v1/0 (sum/0), v1/1 (sum/1), v2/0 (sink/0), v2/1 (sink/1)";
    let record = failure(1, FailureReason::Expired, None, detail);
    assert_eq!(rig.after(1), [write_aborted(record.clone())]);
    assert!(
        record
            .to_string()
            .starts_with("checkpoint 1: the checkpoint expired before completing: no ack")
    );
    assert!(record.remedy().contains("execution.checkpointing.timeout"));
}

#[test]
fn expiry_blames_one_subtask_and_does_not_list_hundreds() {
    let settings = CoordinatorSettings {
        timeout: ms(500),
        ..tolerating(9)
    };
    let mut rig = Rig::collecting(settings.clone(), pair());
    rig.ack(1, sub(0, 0));
    let record = failure(
        1,
        FailureReason::Expired,
        Some(sub(1, 0)),
        "no acknowledgement from v1/0 (sink/0)",
    );
    assert_eq!(rig.after(500), [write_aborted(record)]);
    let wide = Plan::new(vec![vertex(0, "wide", 100)], vec![]).expect("one vertex");
    let mut rig = Rig::collecting(settings, wide);
    rig.after(500);
    let stats = rig
        .c
        .history()
        .get(id(1))
        .and_then(|stats| stats.failure.clone())
        .expect("it failed");
    assert!(
        stats.detail.ends_with("v0/7 (wide/7) and 92 more"),
        "{}",
        stats.detail
    );
}

#[test]
fn an_acknowledgement_at_the_last_moment_counts() {
    let mut rig = Rig::collecting(
        CoordinatorSettings {
            timeout: ms(500),
            ..tolerating(9)
        },
        pair(),
    );
    rig.ack(1, sub(0, 0));
    rig.now = rig.now + ms(500);
    assert!(matches!(
        rig.ack(1, sub(1, 0))[..],
        [CoordinatorAction::WriteDecision { .. }]
    ));
}

#[test]
fn one_that_waits_for_its_turn_expires_too_and_says_for_what() {
    let settings = CoordinatorSettings {
        timeout: ms(500),
        ..tolerating(9)
    };
    let mut rig = Rig::collecting(settings, pair());
    rig.ack_all(1);
    rig.complete_stands(1);
    rig.after(1000);
    rig.enumerators(2);
    assert_eq!(rig.ack_all(2), [], "the commit of 1 isn't done");
    let record = failure(
        2,
        FailureReason::Expired,
        None,
        "what checkpoint 1 lists is not committed yet",
    );
    assert_eq!(rig.after(2499), []);
    let actions = rig.after(1);
    assert_eq!(
        actions,
        [snapshot_enumerators(3), write_aborted(record)],
        "as long again, and a little more"
    );
}

#[test]
fn the_culprits_own_report_replaces_its_echo_and_counts() {
    let mut rig = Rig::collecting(tolerating(0), line());
    let echo = rig.decline(1, sub(2, 0), DeclineReason::CancelMarker);
    assert_eq!(echo.len(), 1, "an echo alone fails no job");
    rig.aborted_stands(1);
    let record = failure(1, FailureReason::PrepareRefused, Some(sub(0, 0)), "because");
    let fail_job = CoordinatorAction::FailJob(Box::new(record.clone()));
    assert_eq!(
        rig.decline(1, sub(0, 0), DeclineReason::PrepareRefused),
        [fail_job]
    );
    assert_eq!(
        rig.c
            .history()
            .latest_failed()
            .and_then(|stats| stats.failure.clone()),
        Some(record)
    );
    assert_eq!(rig.decline(1, sub(0, 1), DeclineReason::AsyncFailed), [], "once");
    assert_eq!(rig.c.history().counts().failed, 1);
}

#[test]
fn a_decline_of_one_that_has_acknowledged_is_no_news() {
    let mut rig = Rig::collecting(tolerating(0), pair());
    rig.ack(1, sub(0, 0));
    assert_eq!(rig.decline(1, sub(0, 0), DeclineReason::CancelMarker), []);
    assert_eq!(rig.c.pending().collect::<Vec<_>>(), [id(1)]);
}

#[test]
fn a_task_that_fails_takes_what_is_pending_with_it() {
    let mut rig = Rig::collecting(tolerating(9), pair());
    rig.request(3, Request::Savepoint(order()));
    let failed_task = FromTask::Failed {
        error: "overflow".to_owned(),
        retryable: true,
    };
    let record = |n| FailureRecord {
        counted: false,
        ..failure(n, FailureReason::TaskFailed, Some(sub(1, 0)), "overflow")
    };
    let actions = rig.say(sub(1, 0), failed_task);
    assert_eq!(actions, [answer(3, failed(record(2))), write_aborted(record(1))]);
    assert_eq!(rig.c.failures_in_a_row(), 0);
    rig.aborted_stands(1);
    assert!(!rig.c.is_drained(), "2 is undecided");
    assert_eq!(rig.aborted_stands(2), [delete_files(2)]);
    assert!(rig.c.is_drained());
}

#[test]
fn stopping_aborts_what_is_pending_in_order() {
    let mut rig = Rig::collecting(
        CoordinatorSettings {
            max_concurrent: 2,
            ..tolerating(0)
        },
        pair(),
    );
    rig.after(1000);
    let record = |n| failure(n, FailureReason::JobStopped, None, "");
    assert_eq!(
        rig.on(CoordinatorEvent::Stop {
            discard_retained: false
        }),
        [write_aborted(record(1))]
    );
    assert_eq!(rig.aborted_stands(1), [delete_files(1), write_aborted(record(2))]);
    assert_eq!(rig.aborted_stands(2), [delete_files(2)]);
    assert!(rig.c.is_drained());
    assert_eq!(rig.c.newest_complete(), None);
}

#[test]
fn a_complete_decision_under_way_when_the_job_stops_stands_but_is_left_to_the_next_start() {
    let mut rig = Rig::running(tolerating(0), pair());
    rig.take(1);
    rig.after(1000);
    rig.enumerators(2);
    rig.ack_all(2);
    assert_eq!(
        rig.on(CoordinatorEvent::Stop {
            discard_retained: false
        }),
        []
    );
    assert_eq!(
        rig.complete_stands(2),
        [retire(&[1])],
        "the next start settles what it lists"
    );
    assert_eq!(rig.c.newest_complete(), Some(id(2)));
    assert!(rig.c.is_drained());
}

#[test]
fn cancelling_gives_everything_up_once_all_is_decided_and_committed() {
    let mut rig = Rig::running(tolerating(0), pair());
    rig.after(1000);
    rig.enumerators(1);
    rig.ack_all(1);
    rig.complete_stands(1);
    rig.after(1000);
    rig.enumerators(2);
    let stop = || CoordinatorEvent::Stop {
        discard_retained: true,
    };
    assert_eq!(rig.on(stop()).len(), 1);
    assert_eq!(rig.aborted_stands(2), [delete_files(2)]);
    assert!(!rig.c.is_drained(), "the commit of 1 is outstanding");
    assert_eq!(rig.committed(1), [CoordinatorAction::Close]);
    assert!(rig.c.is_drained());
    assert_eq!(rig.on(stop()), [], "once");
}

#[test]
fn every_reason_has_a_message_and_a_remedy() {
    let all = [
        FailureReason::PrepareRefused,
        FailureReason::AsyncFailed,
        FailureReason::Expired,
        FailureReason::MetadataWriteFailed,
        FailureReason::EnumeratorFailed,
        FailureReason::ExternalPhaseFailed,
        FailureReason::SavepointCopyFailed,
        FailureReason::QuiesceLimit,
        FailureReason::NotReady,
        FailureReason::Subsumed,
        FailureReason::CancelMarker,
        FailureReason::InputEnded,
        FailureReason::AbortedByTask,
        FailureReason::TaskFailed,
        FailureReason::JobStopped,
        FailureReason::Deposed,
        FailureReason::Takeover,
        FailureReason::NoStorage,
    ];
    for reason in all {
        assert!(
            !reason.message().ends_with('.') && reason.remedy().ends_with('.'),
            "{reason:?}"
        );
        assert!(
            !(reason.counts() && reason.is_echo()),
            "{reason:?} would count twice"
        );
    }
}
