//! The operator around a [`ProcessFunction`]: keys, hashes a pass ahead, states, timers.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::marker::PhantomData;
use std::sync::Arc;

use tidegate_state::{
    Cut, DueTimer, Formats, KeyContext, OperatorSnapshot, Outcome as StateOutcome, Share, StateSet, StateSetup, States,
};
use tidegate_types::codec::{Key, Record};
use tidegate_types::key_group::HashRange;
use tidegate_types::snapshot::{Encoding, SectionBytes, SectionHead, SectionKind};
use tidegate_types::time::MIN_WATERMARK;
use tidegate_types::{CheckpointId, EventTime, OperatorUid};

use crate::chain::{
    Cursor, CutParts, Flow, OpenContext, Operator, OutBatch, Outcome, Pass, Progress, SnapshotPart,
};
use crate::error::OpError;

use super::key::KeySelector;
use super::process::{
    FunctionContext, InitializeContext, ProcessContext, ProcessFunction, SnapshotContext, Timer, TimerKind, TimerPair,
};

/// Records whose state is fetched at once, ahead of their turn.
const AHEAD: usize = 32;

const EVENT_TIMERS: &str = "_timers/event";
const PROCESSING_TIMERS: &str = "_timers/processing";

/// A process function with its key selector.
pub struct KeyedProcessOp<K: Key, I, O, F> {
    function: F,
    select: Arc<dyn KeySelector<I, K>>,
    formats: Formats,
    uid: OperatorUid,
    set: Option<StateSet>,
    timers: TimerPair<K>,
    watermark: EventTime,
    /// Owners of these hashes had come further before the parallelism changed.
    floors: Vec<(HashRange, EventTime)>,
    finished: BTreeMap<CheckpointId, OperatorSnapshot>,
    savepoints: BTreeSet<CheckpointId>,
    /// Keys of the records ahead; their hashes are the last ones of `hashes`.
    keys: VecDeque<K>,
    hashes: Vec<u64>,
    wall_ms: EventTime,
    _io: PhantomData<fn(I) -> O>,
}

impl<K: Key, I: Record, O, F: ProcessFunction<K, I, O>> KeyedProcessOp<K, I, O, F> {
    /// The operator for one subtask.
    pub fn new(function: F, select: Arc<dyn KeySelector<I, K>>, formats: Formats, uid: OperatorUid) -> Self {
        Self {
            function,
            select,
            formats,
            uid,
            set: None,
            timers: TimerPair::default(),
            watermark: MIN_WATERMARK,
            floors: Vec::new(),
            finished: BTreeMap::new(),
            savepoints: BTreeSet::new(),
            keys: VecDeque::new(),
            hashes: Vec::new(),
            wall_ms: 0,
            _io: PhantomData,
        }
    }

    /// The states of the function and the engine's own, in one declaration.
    fn with_set<R>(&mut self, f: impl FnOnce(&mut StateSet, &mut dyn FnMut(&mut States<'_, K>)) -> R) -> Option<R> {
        let Self { function, timers, set, .. } = self;
        let mut declare = |s: &mut States<'_, K>| {
            function.state(s);
            s.timers(EVENT_TIMERS, &mut timers.event);
            s.timers(PROCESSING_TIMERS, &mut timers.processing);
        };
        set.as_mut().map(|set| f(set, &mut declare))
    }

    /// How far event time has come for a hash.
    fn watermark_of(&self, hash: u64) -> EventTime {
        let floor = self.floors.iter().find(|(range, _)| range.contains(hash)).map(|(_, w)| *w);
        floor.map_or(self.watermark, |f| f.max(self.watermark))
    }

    /// Takes the keys of the next records, and fetches what they will touch.
    fn look_ahead(&mut self, input: &Cursor<I>) -> Result<(), OpError> {
        let run = &input.values()[..input.len().min(AHEAD)];
        self.keys.clear();
        self.select.select(run, &mut self.keys);
        let mut hashes = std::mem::take(&mut self.hashes);
        hashes.clear();
        match input.hashes() {
            Some(known) => hashes.extend_from_slice(&known[..run.len()]),
            None => {
                self.select.hash(run, &mut hashes).map_err(|e| OpError::fatal(&self.uid, "key", e))?;
            }
        }
        self.with_set(|set, declare| set.prefetch(&hashes, declare));
        self.hashes = hashes;
        Ok(())
    }

    fn fire(
        &mut self,
        kind: TimerKind,
        up_to: EventTime,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        loop {
            let timers = match kind {
                TimerKind::EventTime => &mut self.timers.event,
                TimerKind::ProcessingTime => &mut self.timers.processing,
            };
            if timers.next_due().is_none_or(|t| t > up_to) {
                return Ok(Flow::Done);
            }
            if pass.must_yield() {
                return Ok(Flow::Yielded);
            }
            if out.is_full() {
                return Ok(Flow::Full);
            }
            let Some(due) = timers.pop_due(up_to) else { return Ok(Flow::Done) };
            self.fire_one(&due, kind, out, pass)?;
        }
    }

    fn fire_one(
        &mut self,
        due: &DueTimer<K>,
        kind: TimerKind,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<(), OpError> {
        let at = KeyContext::new(&due.key, due.hash, pass.wall_ms());
        let time = (kind == TimerKind::EventTime).then_some(due.time);
        let watermark = self.watermark_of(due.hash);
        let mut cx = ProcessContext { at, time, watermark, out, timers: &mut self.timers };
        self.function
            .on_timer(Timer { time: due.time, kind }, &mut cx)
            .map_err(|e| OpError::user(&self.uid, e))?;
        pass.spend();
        Ok(())
    }

    /// Fires what was due for its old owner although this subtask's watermark is lower: a crash in the middle of
    /// that owner's firing left it. Rare and short, so what isn't due is simply put back.
    fn fire_floors(&mut self, out: &mut OutBatch<O>, pass: &mut Pass<'_>) -> Result<Flow, OpError> {
        let highest = self.floors.iter().map(|(_, w)| *w).max().unwrap_or(MIN_WATERMARK);
        let mut not_due = Vec::new();
        let flow = loop {
            if self.timers.event.next_due().is_none_or(|t| t > highest) {
                break Flow::Done;
            }
            if pass.must_yield() {
                break Flow::Yielded;
            }
            if out.is_full() {
                break Flow::Full;
            }
            let Some(due) = self.timers.event.pop_due(highest) else { break Flow::Done };
            if due.time <= self.watermark_of(due.hash) {
                self.fire_one(&due, TimerKind::EventTime, out, pass)?;
            } else {
                not_due.push(due);
            }
        };
        for due in &not_due {
            self.timers.event.register(KeyContext::new(&due.key, due.hash, pass.wall_ms()), due.time);
        }
        Ok(flow)
    }

    fn restore(&mut self, cx: &mut OpenContext) -> Result<(), OpError> {
        let sections = cx.take(|k| {
            matches!(
                k,
                SectionKind::Keyed
                    | SectionKind::Timers
                    | SectionKind::ListSplit
                    | SectionKind::ListUnion
                    | SectionKind::Broadcast
            )
        });
        let uid = cx.uid.clone();
        let mut before = HashMap::<String, u64>::new();
        let mut broadcast = HashMap::new();
        for section in sections {
            if section.head.kind == SectionKind::Broadcast {
                // Every old subtask wrote the same: one copy is enough.
                let from = *broadcast.entry(section.head.name.clone()).or_insert(section.subtask);
                if from != section.subtask {
                    continue;
                }
            }
            let seen = before.entry(section.head.name.clone()).or_default();
            let share = Share { before: *seen, subtask: cx.subtask.0, parallelism: cx.parallelism.0 };
            *seen += section.head.records;
            let place = format!("state `{}`", section.head.name);
            let restored =
                self.with_set(|set, declare| set.restore(&section.head, &section.bytes, share, declare));
            if let Some(Err(e)) = restored {
                return Err(OpError::fatal(&uid, place, e));
            }
        }
        Ok(())
    }
}

impl<K, I, O, F> Operator<I, O> for KeyedProcessOp<K, I, O, F>
where
    K: Key,
    I: Record,
    O: Send + 'static,
    F: ProcessFunction<K, I, O>,
{
    fn open(&mut self, cx: &mut OpenContext) -> Result<(), OpError> {
        let setup = StateSetup {
            uid: cx.uid.clone(),
            range: cx.hash_range(),
            formats: self.formats.clone(),
            now_ms: cx.wall_ms,
        };
        let Self { function, timers, .. } = self;
        let set = StateSet::open(setup, |s: &mut States<'_, K>| {
            function.state(s);
            s.timers(EVENT_TIMERS, &mut timers.event);
            s.timers(PROCESSING_TIMERS, &mut timers.processing);
        })
        .map_err(|e| OpError::fatal(&cx.uid, "states", e))?;
        self.set = Some(set);
        self.restore(cx)?;
        self.floors = std::mem::take(&mut cx.watermark_floors);
        let mut initialize = InitializeContext::default();
        for section in cx.take(|k| *k == SectionKind::Raw) {
            initialize.sections.push((section.subtask, section.head.name, section.bytes));
        }
        self.function.initialize(&mut initialize).map_err(|e| OpError::user(&self.uid, e))?;
        let function_cx = FunctionContext {
            uid: cx.uid.clone(),
            subtask: cx.subtask,
            parallelism: cx.parallelism,
            max_parallelism: cx.max_parallelism,
            is_restored: cx.is_restored(),
        };
        self.function.open(&function_cx).map_err(|e| OpError::user(&self.uid, e))
    }

    fn process(&mut self, input: &mut Cursor<I>, out: &mut OutBatch<O>, pass: &mut Pass<'_>) -> Result<Flow, OpError> {
        self.wall_ms = pass.wall_ms();
        // What was looked up ahead counts for this call only: the records may come back in another cursor.
        self.keys.clear();
        loop {
            if input.is_empty() {
                return Ok(Flow::Done);
            }
            if pass.must_yield() {
                return Ok(Flow::Yielded);
            }
            if out.is_full() {
                return Ok(Flow::Full);
            }
            if self.keys.is_empty() {
                self.look_ahead(input)?;
            }
            let hash = self.hashes[self.hashes.len() - self.keys.len()];
            let (Some(key), Some((record, time))) = (self.keys.pop_front(), input.next()) else {
                return Ok(Flow::Done);
            };
            let watermark = if self.floors.is_empty() { self.watermark } else { self.watermark_of(hash) };
            let at = KeyContext::new(&key, hash, self.wall_ms);
            let mut cx = ProcessContext { at, time, watermark, out, timers: &mut self.timers };
            self.function.process(record, &mut cx).map_err(|e| OpError::user(&self.uid, e))?;
            pass.spend();
        }
    }

    fn on_watermark(&mut self, w: EventTime, out: &mut OutBatch<O>, pass: &mut Pass<'_>) -> Result<Flow, OpError> {
        self.watermark = self.watermark.max(w);
        if !self.floors.is_empty() {
            let flow = self.fire_floors(out, pass)?;
            if flow != Flow::Done {
                return Ok(flow);
            }
            self.floors.retain(|(_, floor)| *floor > w);
        }
        self.fire(TimerKind::EventTime, w, out, pass)
    }

    fn on_time(&mut self, wall_ms: EventTime, out: &mut OutBatch<O>, pass: &mut Pass<'_>) -> Result<Flow, OpError> {
        self.fire(TimerKind::ProcessingTime, wall_ms, out, pass)
    }

    fn next_time(&self) -> Option<EventTime> {
        self.set.as_ref().and_then(|_| self.timers.processing.next_due())
    }

    fn cut(&mut self, parts: &mut CutParts) -> Result<(), OpError> {
        let encoding = if parts.canonical { Encoding::Canonical } else { Encoding::Native };
        let cut = Cut { id: parts.id, base: parts.base, encoding, now_ms: self.wall_ms };
        if parts.savepoint {
            self.savepoints.insert(parts.id);
        }
        self.with_set(|set, declare| set.cut(cut, declare));
        let mut cx = SnapshotContext { id: parts.id, sections: Vec::new() };
        self.function.snapshot(&mut cx).map_err(|e| OpError::user(&self.uid, e))?;
        for (name, bytes) in cx.sections {
            let head = SectionHead {
                uid: self.uid.clone(),
                kind: SectionKind::Raw,
                name,
                hashes: None,
                encoding: Encoding::Raw,
                shapes: Vec::new(),
                records: 1,
            };
            parts.parts.push(SnapshotPart::ready(SectionBytes { head, bytes }));
        }
        Ok(())
    }

    fn sweep(
        &mut self,
        id: CheckpointId,
        may_go_on: &mut dyn FnMut() -> bool,
        parts: &mut Vec<SnapshotPart>,
    ) -> Result<Progress, OpError> {
        let swept = self.with_set(|set, declare| {
            set.sweep(may_go_on, &mut *declare);
            std::iter::from_fn(|| set.take_finished(&mut *declare)).collect::<Vec<_>>()
        });
        // Cuts finish in order, and this call may have been for a later one.
        self.finished.extend(swept.into_iter().flatten().map(|s| (s.id(), s)));
        let Some(snapshot) = self.finished.remove(&id) else { return Ok(Progress::More) };
        let uid = self.uid.clone();
        parts.push(SnapshotPart::later(move || {
            snapshot.into_sections().map_err(|e| OpError::fatal(&uid, "states", e))
        }));
        Ok(Progress::Done)
    }

    fn decided(&mut self, id: CheckpointId, outcome: Outcome) -> Result<(), OpError> {
        // No later checkpoint builds on a savepoint, so what it marked as written stays marked.
        let of_state = match outcome {
            Outcome::Completed if !self.savepoints.remove(&id) => StateOutcome::Completed,
            Outcome::Completed | Outcome::Aborted => StateOutcome::Aborted,
        };
        self.savepoints.retain(|s| *s > id);
        self.finished.remove(&id);
        self.with_set(|set, declare| set.decided(id, of_state, declare));
        if outcome == Outcome::Completed {
            self.function.checkpoint_completed(id).map_err(|e| OpError::user(&self.uid, e))?;
        }
        Ok(())
    }

    fn close(&mut self) {
        self.function.close();
    }
}
