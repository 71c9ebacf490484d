//! Bounded inputs that end one after the other while a third goes on.

use super::rig::*;
use crate::coordinator::*;
use crate::message::ToTask;

/// A, B and C each with a sink of its own, and C with a forward map before it.
fn three_pipelines() -> Plan {
    Plan::new(
        vec![
            vertex(0, "a", 1),
            vertex(1, "a-sink", 1),
            vertex(2, "b", 1),
            vertex(3, "b-sink", 1),
            vertex(4, "c", 1),
            vertex(5, "c-sink", 1),
        ],
        [(0, 1), (2, 3), (4, 5)]
            .map(|(from, to)| edge(from, to, EdgePattern::AllToAll))
            .to_vec(),
    )
    .expect("three pipelines")
}

/// A, B and C into one sink.
fn one_sink() -> Plan {
    Plan::new(
        vec![
            vertex(0, "a", 1),
            vertex(1, "b", 1),
            vertex(2, "c", 1),
            vertex(3, "sink", 1),
        ],
        [0, 1, 2]
            .map(|from| edge(from, 3, EdgePattern::AllToAll))
            .to_vec(),
    )
    .expect("a union")
}

fn hourly() -> CoordinatorSettings {
    CoordinatorSettings {
        interval: Some(ms(3_600_000)),
        ..every_second()
    }
}

#[test]
fn each_pipeline_commits_when_it_ends_and_the_last_one_ends_the_job() {
    let mut rig = Rig::running(hourly(), three_pipelines());
    for (n, source, sink) in [(1, sub(0, 0), sub(1, 0)), (2, sub(2, 0), sub(3, 0))] {
        rig.finish(source);
        assert_eq!(rig.wait(sink), [snapshot_enumerators(n)]);
        rig.enumerators(n);
        rig.complete(n);
        rig.finish(sink);
        let finished = rig
            .c
            .history()
            .get(id(n))
            .expect("it was taken")
            .acked()
            .filter(|part| part.finished)
            .count();
        assert_eq!(
            finished as u64,
            2 * n - 1,
            "ended subtasks stay in later checkpoints"
        );
    }
    rig.request(1, Request::Drain { savepoint: None });
    rig.finish(sub(4, 0));
    assert_eq!(
        rig.wait(sub(5, 0)),
        [snapshot_enumerators(3)],
        "the next id, and no waiting"
    );
    assert_eq!(rig.enumerators(3).len(), 1);
    rig.complete(3);
    assert_eq!(rig.finish(sub(5, 0)), [answer(1, done(3, None))]);
    assert!(rig.c.is_finished());
}

#[test]
fn a_shared_sink_waits_once_and_checkpoints_complete_after_a_ended() {
    let mut rig = Rig::running(hourly(), one_sink());
    rig.finish(sub(0, 0));
    rig.after(3_600_000);
    assert_eq!(
        rig.enumerators(1),
        [trigger(&[sub(1, 0), sub(2, 0)], rig.barrier(1))]
    );
    rig.finish(sub(1, 0));
    for subtask in [sub(2, 0), sub(3, 0)] {
        rig.ack(1, subtask);
    }
    rig.complete_stands(1);
    rig.committed(1);
    let operators = |rig: &Rig| rig.c.history().get(id(1)).map(|stats| stats.acknowledged());
    assert_eq!(operators(&rig), Some(4));
    assert_eq!(
        rig.request(1, Request::Drain { savepoint: None }),
        [send(&[sub(2, 0)], ToTask::Stop { drain: true })]
    );
    rig.finish(sub(2, 0));
    assert_eq!(rig.wait(sub(3, 0)), [snapshot_enumerators(2)]);
}

#[test]
fn vertices_restored_as_finished_never_run_and_are_in_every_checkpoint() {
    let mut rig = Rig::new(every_second(), one_sink());
    rig.claim(Claim {
        next_id: id(3),
        ..Claim::default()
    });
    assert_eq!(rig.finish(sub(0, 0)), [], "said for it by whoever restored");
    for subtask in [sub(1, 0), sub(2, 0), sub(3, 0)] {
        rig.say(subtask, crate::message::FromTask::Running);
    }
    rig.after(1000);
    assert_eq!(
        rig.enumerators(3),
        [trigger(&[sub(1, 0), sub(2, 0)], rig.barrier(3))]
    );
    for subtask in [sub(1, 0), sub(2, 0)] {
        rig.ack(3, subtask);
    }
    let actions = rig.ack(3, sub(3, 0));
    let [
        CoordinatorAction::WriteDecision {
            decision: Decision::Complete(content),
            ..
        },
    ] = &actions[..]
    else {
        panic!("{actions:?}")
    };
    let finished: Vec<_> = content
        .operators
        .iter()
        .map(|operator| operator.finished)
        .collect();
    use OperatorFinish::{Fully, None};
    assert_eq!(finished, [Fully, None, None, None]);
}

#[test]
fn finishing_twice_keeps_the_first_state() {
    let mut rig = Rig::running(every_second(), pair());
    rig.finish(sub(0, 0));
    let again = crate::message::FromTask::Finished {
        snapshot: snapshot(id(1), sub(0, 0)),
        newest_seen: id(0),
    };
    assert_eq!(rig.say(sub(0, 0), again), []);
    rig.after(1000);
    rig.enumerators(1);
    let actions = rig.ack(1, sub(1, 0));
    let [
        CoordinatorAction::WriteDecision {
            decision: Decision::Complete(content),
            ..
        },
    ] = &actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(content.subtasks[0], last_state(sub(0, 0)));
}

#[test]
fn one_that_saw_the_barrier_and_whose_word_was_lost_fails_the_checkpoint() {
    let mut rig = Rig::collecting(every_second(), pair());
    let detail = "it has finished, and what it said of this checkpoint was lost";
    let record = failure(1, FailureReason::AbortedByTask, Some(sub(0, 0)), detail);
    assert_eq!(rig.finish_having_seen(sub(0, 0), 1), [write_aborted(record)]);
    rig.aborted_stands(1);
    rig.after(1000);
    rig.enumerators(2);
    rig.ack(2, sub(1, 0));
    assert!(rig.complete_stands(2).contains(&commit(2)));
    assert_eq!(
        rig.finish_having_seen(sub(1, 0), 2),
        [],
        "it has acknowledged this one"
    );
}
