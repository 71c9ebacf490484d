//! A gate by itself: order, room, blocking, overtaking and capture.

use std::sync::Arc;
use std::time::Duration;

use tidegate_types::{
    Barrier, Batch, CheckpointId, CheckpointKind, EdgeKind, Element, LeaderEpoch, Nanos, SnapshotMode,
};

use super::*;
use crate::signal::TaskSignal;

const NOW: Nanos = Nanos(0);

fn barrier(id: u64, mode: SnapshotMode) -> Barrier {
    Barrier {
        id: CheckpointId(id),
        oldest_pending: CheckpointId(id),
        kind: CheckpointKind::Checkpoint,
        mode,
        age: Duration::ZERO,
        epoch: LeaderEpoch(1),
        base: None,
    }
}

fn gate(channels: usize) -> (GateReader<u64>, Vec<GateSender<u64>>, Arc<TaskSignal>) {
    let consumer = Arc::new(TaskSignal::new());
    let producers = (0..channels)
        .map(|_| (EdgeKind::Normal, Arc::new(TaskSignal::new())))
        .collect();
    let gate = Gate::new(consumer.clone(), producers);
    let senders = (0..channels).map(|c| GateSender::new(gate.clone(), c)).collect();
    (
        GateReader::new(gate, BudgetSettings::FixedPerChannel(4)),
        senders,
        consumer,
    )
}

fn batch(values: &[u64]) -> Arc<Batch<u64>> {
    Arc::new(Batch::of(values.to_vec()))
}

fn values(captured: &[Captured<u64>]) -> Vec<(usize, Vec<u64>)> {
    captured
        .iter()
        .map(|c| {
            let values = c.elements.iter().flat_map(|e| match e {
                CapturedElement::Batch(b) => b.values.clone(),
                _ => vec![],
            });
            (c.channel, values.collect())
        })
        .collect()
}

#[test]
fn room_is_what_is_neither_queued_nor_in_the_chain_nor_open() {
    let (mut reader, senders, _) = gate(1);
    assert_eq!(senders[0].room(0), 4);
    senders[0].push_batch(batch(&[1, 2, 3]), NOW);
    assert_eq!(senders[0].room(0), 1);
    assert_eq!(senders[0].room(1), 0);
    assert!(senders[0].wait_for_room(1), "no room: it may sleep");
    let Taken::Batch(0, taken) = reader.take(NOW) else {
        panic!("a batch")
    };
    assert_eq!(senders[0].room(0), 1, "what stands in the chain still counts");
    reader.give_back(0, taken.len() as u64);
    assert_eq!(senders[0].room(0), 4);
    assert!(!senders[0].wait_for_room(0), "there is room");
}

#[test]
fn a_blocked_channel_keeps_its_elements_and_the_other_goes_on() {
    let (mut reader, senders, _) = gate(2);
    for s in &senders {
        s.push_batch(batch(&[1]), NOW);
    }
    reader.block(0);
    assert!(matches!(reader.take(NOW), Taken::Batch(1, _)));
    assert!(matches!(reader.take(NOW), Taken::Nothing));
    reader.release(0);
    assert!(matches!(reader.take(NOW), Taken::Batch(0, _)));
}

#[test]
fn an_overtaking_barrier_records_what_it_passes_and_interrupts() {
    let (mut reader, senders, consumer) = gate(2);
    let id = CheckpointId(1);
    senders[0].push_batch(batch(&[1, 2]), NOW);
    senders[0].push_barrier(barrier(1, SnapshotMode::Unaligned), NOW);
    senders[0].push_batch(batch(&[3]), NOW);
    senders[1].push_batch(batch(&[10]), NOW);
    assert!(consumer.is_urgent());
    let mut announced = Vec::new();
    reader.take_announced(Nanos(5), &mut announced);
    assert!(matches!(&announced[..], [Announcement::Barrier(0, b, _)] if b.age == Duration::from_nanos(5)));
    reader.begin_capture(id, 0);
    reader.begin_capture(id, 1);
    reader.overtake(id, 0);
    assert!(reader.is_capturing(id));
    // What arrives on the other channel before its barrier is recorded, taken or not.
    senders[1].push_batch(batch(&[11]), NOW);
    while !matches!(reader.take(NOW), Taken::Nothing) {}
    senders[1].push_batch(batch(&[12]), NOW);
    senders[1].push_barrier(barrier(1, SnapshotMode::Unaligned), NOW);
    senders[1].push_batch(batch(&[13]), NOW);
    reader.overtake(id, 1);
    assert!(!reader.is_capturing(id));
    assert_eq!(
        values(&reader.take_captures(id)),
        vec![(0, vec![1, 2]), (1, vec![10, 11, 12])]
    );
    assert!(
        matches!(reader.take(NOW), Taken::Batch(1, b) if b.values == [12]),
        "recorded data stays queued"
    );
}

#[test]
fn two_snapshots_record_one_channel_each_up_to_its_barrier() {
    let (mut reader, senders, _) = gate(1);
    let (one, two) = (CheckpointId(1), CheckpointId(2));
    let s = &senders[0];
    s.push_batch(batch(&[1]), NOW);
    reader.begin_capture(one, 0);
    reader.begin_capture(two, 0);
    s.push_batch(batch(&[2]), NOW);
    s.push_barrier(barrier(1, SnapshotMode::Unaligned), NOW);
    reader.overtake(one, 0);
    s.push_batch(batch(&[3]), NOW);
    s.push_barrier(barrier(2, SnapshotMode::Unaligned), NOW);
    reader.overtake(two, 0);
    assert_eq!(values(&reader.take_captures(one)), vec![(0, vec![1, 2])]);
    assert_eq!(values(&reader.take_captures(two)), vec![(0, vec![1, 2, 3])]);
}

#[test]
fn a_revoked_gate_accepts_everything_and_hands_out_nothing() {
    let (mut reader, senders, _) = gate(1);
    senders[0].push_batch(batch(&[1, 2, 3, 4]), NOW);
    reader.gate_for_test().revoke();
    assert!(
        senders[0].room(100) > 0,
        "a producer never waits for an abandoned task"
    );
    senders[0].push_batch(batch(&[5]), NOW);
    assert!(matches!(reader.take(NOW), Taken::Nothing));
}

#[test]
fn ended_channels_leave_their_share_to_the_others() {
    let consumer = Arc::new(TaskSignal::new());
    let producers = (0..2)
        .map(|_| (EdgeKind::Normal, Arc::new(TaskSignal::new())))
        .collect();
    let gate = Gate::<u64>::new(consumer, producers);
    let senders = (0..2)
        .map(|c| GateSender::new(gate.clone(), c))
        .collect::<Vec<_>>();
    let mut reader = GateReader::new(gate, BudgetSettings::default());
    for _ in 0..4 {
        senders[1].note_limited();
        reader.on_busy(Duration::from_millis(10), 1);
    }
    assert_eq!(senders[1].room(0), 5);
    senders[0].push_event(Element::End { drain: true }, NOW);
    assert!(matches!(reader.take(NOW), Taken::End(0, true)));
    assert_eq!(senders[1].room(0), 10);
}
