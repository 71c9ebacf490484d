//! The job behind the golden snapshots. It is part of the fixtures: a change of it makes them another job's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::files::FileSink;
use tidegate::prelude::*;
use tidegate::runtime::operators::{FunctionContext, InitializeContext, SnapshotContext};
use tidegate::state::Aggregate;

/// How many records go through it.
pub const RECORDS: u64 = 300;
/// The record before which a checkpoint is taken.
const SNAPSHOT_AT: u64 = 150;
/// A savepoint is taken behind so many records.
pub const SAVED: u64 = 200;
/// So many records are sent before the checkpoint has been copied. Less than a gate holds behind that one.
pub const BEFORE_COPY: u64 = 160;
const KEYS: u64 = 5;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub number: u64,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Kind {
    Plain,
    Tagged { tag: Option<String> },
}

fn event(number: u64) -> Event {
    let tag = (!number.is_multiple_of(2)).then(|| format!("tag {number}"));
    let kind = match number % 3 {
        0 => Kind::Plain,
        _ => Kind::Tagged { tag },
    };
    Event { number, kind }
}

fn time(number: u64) -> i64 {
    number as i64 * 10
}

/// Stops the job where a snapshot is wanted.
#[derive(Default)]
pub struct Gate {
    /// The job waits for a checkpoint.
    is_shut: bool,
    passed: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    /// One that stops the job for a checkpoint, or only says that a savepoint's records are through.
    pub fn new(is_shut: bool) -> Self {
        Self {
            is_shut,
            ..Self::default()
        }
    }

    fn set(&self, set: impl Fn(&mut (bool, bool))) {
        set(&mut self.passed.lock().expect("nobody panics here"));
        self.changed.notify_all();
    }

    fn wait(&self, is: impl Fn(&(bool, bool)) -> bool) {
        let passed = self.passed.lock().expect("nobody panics here");
        let for_ever = Duration::from_secs(120);
        let waited = self.changed.wait_timeout_while(passed, for_ever, |p| !is(p));
        assert!(
            !waited.expect("nobody panics here").1.timed_out(),
            "the gate stays shut"
        );
    }

    /// Waits until the job has come to where the snapshot is wanted.
    pub fn arrived(&self) {
        self.wait(|p| p.0);
    }
}

#[derive(Clone, Copy)]
pub struct Mean;

impl Aggregate for Mean {
    type Input = u64;
    type Accumulator = (u64, u64);
    type Output = u64;

    fn create(&self) -> (u64, u64) {
        (0, 0)
    }

    fn add(&self, (sum, count): &mut (u64, u64), value: u64) {
        *sum += value;
        *count += 1;
    }

    fn result(&self, (sum, count): &(u64, u64)) -> u64 {
        sum / (*count).max(1)
    }

    fn merge(&self, into: &mut (u64, u64), other: (u64, u64)) {
        into.0 += other.0;
        into.1 += other.1;
    }
}

/// Every kind of keyed state, and timers.
struct Fold {
    last: ValueState<u64, Event>,
    all: ListState<u64, u64>,
    by_kind: MapState<u64, String, u64>,
    highest: ReducingState<u64, u64>,
    mean: AggregatingState<u64, Mean>,
    fired: ValueState<u64, u64>,
    gate: Option<Arc<Gate>>,
}

impl ProcessFunction<u64, Event, String> for Fold {
    fn state(&mut self, states: &mut States<'_, u64>) {
        states.value("last", &mut self.last);
        states.list("all", &mut self.all);
        states.map("by-kind", &mut self.by_kind);
        states.reducing("highest", &mut self.highest);
        states.aggregating("mean", &mut self.mean);
        states.value("fired", &mut self.fired);
    }

    fn process(&mut self, event: Event, cx: &mut ProcessContext<'_, u64, String>) -> Result<(), BoxError> {
        let number = event.number;
        if let Some(gate) = &self.gate {
            match number {
                SNAPSHOT_AT if gate.is_shut => {
                    gate.set(|p| p.0 = true);
                    gate.wait(|p| p.1);
                }
                _ if number + 1 == SAVED => gate.set(|p| p.0 = true),
                _ => {}
            }
        }
        let kind = match &event.kind {
            Kind::Plain => "plain",
            Kind::Tagged { tag: None } => "untagged",
            Kind::Tagged { tag: Some(_) } => "tagged",
        };
        self.all.add(cx.at(), number);
        *self.by_kind.get_or_insert_with(cx.at(), kind.to_owned(), || 0) += 1;
        self.highest.add(cx.at(), number);
        self.mean.add(cx.at(), number);
        self.last.set(cx.at(), event);
        cx.register_event_timer(time(number) + 500);
        cx.register_event_timer(i64::MAX);
        if number.is_multiple_of(10) {
            cx.collect(format!("passed {number}"));
        }
        Ok(())
    }

    fn on_timer(&mut self, timer: Timer, cx: &mut ProcessContext<'_, u64, String>) -> Result<(), BoxError> {
        if timer.time < i64::MAX {
            *self.fired.get_or_insert_with(cx.at(), || 0) += 1;
            return Ok(());
        }
        let mut kinds: Vec<_> = self.by_kind.iter(cx.at()).map(|(k, n)| (k.clone(), *n)).collect();
        kinds.sort();
        let all: Vec<u64> = self.all.iter(cx.at()).copied().collect();
        cx.collect(format!(
            "key {} last {:?} all {all:?} kinds {kinds:?} highest {:?} mean {:?} fired {:?}",
            cx.key(),
            self.last.get(cx.at()),
            self.highest.get(cx.at()),
            self.mean.get(cx.at()),
            self.fired.get(cx.at()),
        ));
        Ok(())
    }
}

/// Every kind of operator state, a raw section and a named snapshot source; hands its records on.
struct Notes {
    split: OperatorListState<u64>,
    union: OperatorListState<u64>,
    broadcast: BroadcastState<String, u64>,
    raw: u64,
    named: Arc<AtomicU64>,
    summary: SideTag<String>,
    gate: Option<Arc<Gate>>,
}

impl ProcessFunction<(), Event, Event> for Notes {
    fn state(&mut self, states: &mut States<'_, ()>) {
        states.operator_list("split", &mut self.split);
        states.operator_list("union", &mut self.union);
        states.broadcast("broadcast", &mut self.broadcast);
    }

    fn initialize(&mut self, cx: &mut InitializeContext) -> Result<(), BoxError> {
        for (_, bytes) in cx.sections("raw") {
            self.raw += u64::from_le_bytes(bytes.try_into()?);
        }
        Ok(())
    }

    fn open(&mut self, cx: &FunctionContext) -> Result<(), BoxError> {
        let (take, give) = (self.named.clone(), self.named.clone());
        cx.snapshot_sources().register(
            "named",
            move || Ok(take.load(Ordering::Relaxed).to_le_bytes().to_vec()),
            move |old| {
                for (_, bytes) in old {
                    give.fetch_add(u64::from_le_bytes(bytes[..].try_into()?), Ordering::Relaxed);
                }
                Ok(())
            },
        )?;
        Ok(())
    }

    fn process(&mut self, event: Event, cx: &mut ProcessContext<'_, (), Event>) -> Result<(), BoxError> {
        if event.number.is_multiple_of(50) {
            self.split.add(event.number);
            self.union.add(event.number + 1);
        }
        self.broadcast.insert("newest".to_owned(), event.number);
        self.raw += 1;
        self.named.fetch_add(2, Ordering::Relaxed);
        cx.register_event_timer(i64::MAX);
        cx.collect(event);
        Ok(())
    }

    fn on_timer(&mut self, _: Timer, cx: &mut ProcessContext<'_, (), Event>) -> Result<(), BoxError> {
        let summary = format!(
            "split {:?} union {:?} broadcast {:?} raw {} named {}",
            self.split.entries(),
            self.union.entries(),
            self.broadcast.get(&"newest".to_owned()),
            self.raw,
            self.named.load(Ordering::Relaxed),
        );
        cx.side(&self.summary, summary);
        Ok(())
    }

    fn snapshot(&mut self, cx: &mut SnapshotContext) -> Result<(), BoxError> {
        cx.put("raw", self.raw.to_le_bytes().to_vec());
        // The barrier stands before the next task by now: what that has not worked on is in flight.
        if let Some(gate) = &self.gate {
            gate.set(|p| p.1 = true);
        }
        Ok(())
    }
}

/// Sends these records from a thread of its own, after the last one the end; what a restored snapshot holds is dropped.
pub fn send(numbers: &ChannelSender<Event>, which: std::ops::Range<u64>) -> std::thread::JoinHandle<()> {
    let numbers = numbers.clone();
    std::thread::spawn(move || {
        for number in which.clone() {
            numbers.send(number + 1, event(number)).expect("the job takes it");
        }
        if which.end == RECORDS {
            numbers.close();
        }
    })
}

/// The job: its input, and what it says of its operator state at its end; the rest goes into files below `output`.
pub fn grow(
    env: &Environment,
    output: &std::path::Path,
    gate: Option<Arc<Gate>>,
) -> (ChannelSender<Event>, Collected<String>) {
    let (numbers, source) = ChannelSource::with_capacity(2 * RECORDS as usize);
    let summary = SideTag::<String>::new(0, "summary");
    let (tag, at_notes, at_fold) = (summary.clone(), gate.clone(), gate);
    let notes = env
        .source("numbers", source)
        .uid("numbers")
        .parallelism(1)
        .assign_timestamps(
            "times",
            WatermarkStrategy::monotonous().with_interval(Duration::ZERO),
            |e: &Event| time(e.number),
        )
        .uid("times")
        .parallelism(1)
        .process("notes", move || Notes {
            split: OperatorListState::split(),
            union: OperatorListState::union(),
            broadcast: BroadcastState::new(),
            raw: 0,
            named: Arc::default(),
            summary: tag.clone(),
            gate: at_notes.clone(),
        })
        .uid("notes")
        .parallelism(1);
    notes
        .key_by(|e: &Event| e.number % KEYS)
        .process("fold", move || Fold {
            last: ValueState::new(),
            all: ListState::new(),
            by_kind: MapState::new(),
            highest: ReducingState::new(|into, value| *into = (*into).max(value)),
            mean: AggregatingState::new(Mean),
            fired: ValueState::new(),
            gate: at_fold.clone(),
        })
        .uid("fold")
        .sink("lines", FileSink::text(output))
        .uid("lines");
    let summary = notes.side_output(&summary);
    let summary = summary.collect_with("summary", |sink| sink.uid("summary").parallelism(1));
    (numbers, summary)
}

/// All lines of the output, sorted.
pub fn expected_lines() -> Vec<String> {
    let mut lines: Vec<String> = (0..RECORDS).step_by(10).map(|n| format!("passed {n}")).collect();
    for key in 0..KEYS {
        let all: Vec<u64> = (key..RECORDS).step_by(KEYS as usize).collect();
        let mut kinds = std::collections::BTreeMap::<&str, u64>::new();
        for number in &all {
            let kind = match event(*number).kind {
                Kind::Plain => "plain",
                Kind::Tagged { tag: None } => "untagged",
                Kind::Tagged { tag: Some(_) } => "tagged",
            };
            *kinds.entry(kind).or_default() += 1;
        }
        let kinds: Vec<_> = kinds.into_iter().map(|(k, n)| (k.to_owned(), n)).collect();
        let last = all.last().copied();
        lines.push(format!(
            "key {key} last {:?} all {all:?} kinds {kinds:?} highest {last:?} mean {:?} fired {:?}",
            last.map(event),
            Some(all.iter().sum::<u64>() / all.len() as u64),
            Some(all.len() as u64),
        ));
    }
    lines.sort();
    lines
}

/// What the operator state must come to.
pub fn expected_summary() -> Vec<String> {
    let split: Vec<u64> = (0..RECORDS).step_by(50).collect();
    let union: Vec<u64> = split.iter().map(|n| n + 1).collect();
    let newest = Some(RECORDS - 1);
    let (raw, named) = (RECORDS, 2 * RECORDS);
    vec![format!(
        "split {split:?} union {union:?} broadcast {newest:?} raw {raw} named {named}"
    )]
}
