use super::rig::*;
use crate::coordinator::*;
use crate::message::DeclineReason;

fn steps(actions: &[CoordinatorAction]) -> Vec<String> {
    let texts = actions.iter().filter_map(|action| match action {
        CoordinatorAction::Trace(event) => Some(event.to_string()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn each_step_is_a_line() {
    let mut rig = Rig::running(
        CoordinatorSettings {
            trace: true,
            tolerable_failures: 9,
            ..every_second()
        },
        pair(),
    );
    let mut lines = steps(&rig.after(1000));
    lines.extend(steps(&rig.enumerators(1)));
    lines.extend(steps(&rig.ack(1, sub(0, 0))));
    lines.extend(steps(&rig.ack(1, sub(0, 0))));
    lines.extend(steps(&rig.after(1000)));
    lines.extend(steps(&rig.after(100)));
    lines.extend(steps(&rig.finish(sub(1, 0))));
    lines.extend(steps(&rig.complete_stands(1)));
    assert_eq!(
        lines,
        [
            "1000.000ms checkpoint 1: started, Checkpoint, aligned",
            "1000.000ms checkpoint 1: triggered v0/0",
            "1000.000ms checkpoint 1: v0/0 acknowledged, 1 missing",
            "1000.000ms checkpoint 1: ignored a doubled acknowledgement of v0/0",
            "2000.000ms checkpoints: trigger held, as many checkpoints are pending as \
             max-concurrent-checkpoints allows",
            "2100.000ms checkpoint 1: v1/0 finished, its last state counts, 0 missing",
            "2100.000ms checkpoint 1: all in",
            "2100.000ms checkpoint 1: ready, waits for its turn",
            "2100.000ms checkpoint 1: writing decision Complete",
            "2100.000ms checkpoint 1: decided Complete",
            "2100.000ms checkpoint 2: started, Checkpoint, aligned",
        ]
    );
    rig.enumerators(2);
    let lines = steps(&rig.decline(2, sub(0, 0), DeclineReason::PrepareRefused));
    assert_eq!(
        lines[0],
        "2100.000ms checkpoint 2: failed: an operator refused the snapshot"
    );
}

#[test]
fn without_the_option_nothing_is_traced() {
    let mut rig = Rig::running(every_second(), pair());
    assert_eq!(steps(&rig.after(1000)), [""; 0]);
}
