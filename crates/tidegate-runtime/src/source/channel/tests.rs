//! The channel by itself: its reader is driven by hand, senders run on threads of their own.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tidegate_types::{CheckpointId, Nanos, Parallelism, SubtaskIndex};

use super::*;
use crate::clock::SystemClock;
use crate::error::is_permanent;

/// Nothing that is waited for takes nearly as long; a test that would wait for ever fails.
const LIMIT: Duration = Duration::from_secs(120);

type Reader = Box<dyn SplitReader<u64, ChannelSplit>>;

fn reader(source: &ChannelSource<u64>, periodic_checkpoints: bool) -> Reader {
    let cx = ReaderContext {
        subtask: SubtaskIndex(0),
        parallelism: Parallelism(1),
        signal: Arc::new(TaskSignal::new()),
        max_staged_records: 1,
        periodic_checkpoints,
    };
    source.reader(cx).expect("opens")
}

/// The split of a job that starts without a snapshot.
fn first_split(source: &ChannelSource<u64>) -> ChannelSplit {
    let mut enumerator = source.enumerator(None).expect("makes one");
    match enumerator.next_split(SubtaskIndex(0)) {
        Ok(NextSplit::Split(split)) => split,
        other => panic!("there is one split, not {other:?}"),
    }
}

/// A reader that begins without a snapshot.
fn fresh(source: &ChannelSource<u64>, periodic_checkpoints: bool) -> Reader {
    let mut reader = reader(source, periodic_checkpoints);
    reader.add_split(first_split(source)).expect("begins");
    reader
}

fn poll(reader: &mut Reader) -> (Vec<u64>, Poll) {
    let mut out = OutBatch::with_room(100);
    let mut cx = PollContext {
        wall_ms: 0,
        now: Nanos(0),
        clock: &SystemClock::new(),
        urgent: &|| false,
    };
    let polled = reader.poll(&mut out, &mut cx).expect("polls");
    (out.into_batch().values, polled)
}

/// Sends on a thread of its own.
fn sends(sender: &ChannelSender<u64>, id: u64) -> Receiver<Result<(), SendError>> {
    let (told, sent) = channel();
    let sender = sender.clone();
    std::thread::spawn(move || told.send(sender.send(id, id)));
    sent
}

#[track_caller]
fn come<T>(told: &Receiver<T>) -> T {
    told.recv_timeout(LIMIT).expect("it comes")
}

/// Does something at the moment in which a sender that waits for room has been woken and hasn't looked yet.
fn as_it_wakes(shared: &Shared<u64>, then: impl FnOnce(&mut State<u64>)) {
    loop {
        let mut state = shared.state.lock();
        // Whoever was woken needs the mutex that is held here.
        if shared.changed.notify_one() {
            return then(&mut state);
        }
        drop(state);
        std::hint::spin_loop();
    }
}

fn item(id: u64) -> Item<u64> {
    Item {
        id,
        time: None,
        record: id,
    }
}

#[test]
fn a_sender_that_was_overtaken_while_it_waited_for_room_is_told_and_nothing_is_lost() {
    let (sender, source) = ChannelSource::with_capacity(1);
    let mut reader = fresh(&source, true);
    sender.send(1, 1).expect("there is room");
    let second = sends(&sender, 2);
    as_it_wakes(&source.shared, |state| {
        // Room is there, and another sender is quicker.
        state.items.clear();
        state.accept(item(3));
        state.capacity = 2;
    });
    assert_eq!(come(&second), Err(SendError::NotRising { id: 2, last: 3 }));
    sender.send(4, 4).expect("there is room");
    assert_eq!(poll(&mut reader).0, [3, 4]);
}

#[test]
fn without_periodic_checkpoints_what_was_read_makes_room() {
    let (sender, source) = ChannelSource::with_capacity(3);
    let mut reader = fresh(&source, false);
    let mut seen = Vec::new();
    for id in 1..=10 {
        sender.send(id, id).expect("there is room");
        seen.extend(poll(&mut reader).0);
    }
    assert_eq!(seen, (1..=10).collect::<Vec<_>>());
    // A sender that waits is woken by reading alone.
    (11..=13).for_each(|id| sender.send(id, id).expect("there is room"));
    let waits = sends(&sender, 14);
    as_it_wakes(&source.shared, |state| {
        assert!(!state.has_room(), "none of these was read")
    });
    assert_eq!(poll(&mut reader).0, [11, 12, 13]);
    assert_eq!(come(&waits), Ok(()));
    assert_eq!(poll(&mut reader).0, [14]);
}

#[test]
fn a_restart_that_needs_what_was_dropped_is_one_error_that_says_what_and_why() {
    let (sender, source) = ChannelSource::with_capacity(3);
    let mut first = fresh(&source, false);
    for id in 1..=3 {
        sender.send(id, id).expect("there is room");
    }
    poll(&mut first);
    // Nothing was dropped yet: all of it is read again.
    let mut second = fresh(&source, false);
    assert_eq!(poll(&mut second).0, [1, 2, 3]);
    for id in 4..=5 {
        sender.send(id, id).expect("there is room");
    }
    // A start beside the running job changes nothing for that one.
    source.job_starts();
    let mut third = reader(&source, false);
    let error = third
        .add_split(first_split(&source))
        .expect_err("1 and 2 are gone");
    assert!(is_permanent(&*error));
    let text = error.to_string();
    assert!(
        text.contains("its records 1 to 2 ") && text.contains("execution.checkpointing.interval"),
        "{text}"
    );
    // A snapshot behind them needs none of them.
    let mut restored = reader(&source, false);
    restored
        .add_split(ChannelSplit { read_to: 2 })
        .expect("3 and up are there");
    assert_eq!(poll(&mut restored).0, [3, 4, 5]);
}

#[test]
fn with_periodic_checkpoints_only_a_complete_one_makes_room() {
    let (sender, source) = ChannelSource::with_capacity(1);
    let mut reader = fresh(&source, true);
    sender.send(1, 1).expect("there is room");
    assert_eq!(poll(&mut reader).0, [1]);
    let second = sends(&sender, 2);
    as_it_wakes(&source.shared, |state| {
        assert!(!state.has_room(), "1 may be needed")
    });
    reader.snapshot(CheckpointId(1)).expect("cuts");
    reader.completed(CheckpointId(1)).expect("makes room");
    assert_eq!(come(&second), Ok(()));
}

#[test]
fn the_end_of_the_job_closes_the_channel_and_a_new_start_opens_it() {
    let (sender, source) = ChannelSource::with_capacity(2);
    source.job_starts();
    let mut reader = fresh(&source, false);
    for id in 1..=3 {
        sender.send(id, id).expect("there is room");
        poll(&mut reader);
    }
    sender.send(4, 4).expect("3 was read");
    // Taken out of its turn: 5 waits for one of these to be read.
    source.shared.state.lock().read_to = 2;
    let waits = sends(&sender, 5);
    as_it_wakes(&source.shared, |state| assert!(!state.has_room()));
    source.job_ended();
    assert_eq!(come(&waits), Err(SendError::Closed));
    assert_eq!(sender.send(5, 5), Err(SendError::Closed));
    source.job_starts();
    // It begins with what is still there: no error, as nobody asked for what earlier runs had dropped.
    let mut reader = fresh(&source, false);
    assert_eq!(poll(&mut reader), (vec![3, 4], Poll::Wait(None)));
    sender.send(5, 5).expect("open again");
    assert_eq!(poll(&mut reader).0, [5]);
}

#[test]
fn the_stream_ends_when_the_last_sender_goes() {
    let (sender, source) = ChannelSource::with_capacity(2);
    let mut reader = fresh(&source, true);
    let other = sender.clone();
    sender.send(1, 1).expect("there is room");
    drop(sender);
    assert_eq!(poll(&mut reader), (vec![1], Poll::Wait(None)));
    other.send(2, 2).expect("it is open still");
    drop(other);
    assert_eq!(poll(&mut reader), (vec![2], Poll::SplitsDone));
}

/// The reader is gone and the next one isn't there yet: what that will need isn't dropped, however much is sent.
#[test]
fn between_two_readers_nothing_is_dropped() {
    let (sender, source) = ChannelSource::with_capacity(3);
    let mut first = fresh(&source, false);
    (1..=3).for_each(|id| sender.send(id, id).expect("there is room"));
    assert_eq!(poll(&mut first).0, [1, 2, 3]);
    drop(first);
    let waits = sends(&sender, 4);
    as_it_wakes(&source.shared, |state| {
        assert!(!state.has_room(), "the next reader may need 1")
    });
    let mut second = fresh(&source, false);
    assert_eq!(poll(&mut second).0, [1, 2, 3]);
    assert_eq!(come(&waits), Ok(()));
    assert_eq!(poll(&mut second).0, [4]);
}

/// A newer complete checkpoint made room: going back behind it is an error and not a gap.
#[test]
fn an_older_snapshot_than_a_complete_one_is_an_error() {
    let (sender, source) = ChannelSource::with_capacity(3);
    let mut first = fresh(&source, true);
    (1..=3).for_each(|id| sender.send(id, id).expect("there is room"));
    poll(&mut first);
    first.snapshot(CheckpointId(1)).expect("cuts");
    first.completed(CheckpointId(1)).expect("makes room");
    let older = reader(&source, true).add_split(ChannelSplit { read_to: 1 });
    let text = older.expect_err("2 and 3 are gone").to_string();
    assert!(text.contains("its records 2 to 3 "), "{text}");
    let same = reader(&source, true).add_split(ChannelSplit { read_to: 3 });
    same.expect("needs nothing of it");
}

#[test]
fn a_source_that_gets_into_no_job_closes_its_channel() {
    let (sender, source) = ChannelSource::with_capacity(1);
    sender.send(1, 1u64).expect("there is room");
    let waits = sends(&sender, 2);
    as_it_wakes(&source.shared, |state| assert!(!state.has_room()));
    drop(source);
    assert_eq!(come(&waits), Err(SendError::Closed));
}
