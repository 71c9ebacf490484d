//! What every operator around user functions shares: states, timers, raw sections, named snapshot sources, and the
//! watermark per key.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidegate_state::{
    Cut, DueTimer, Formats, KeyContext, OperatorSnapshot, Outcome as StateOutcome, Share, StateSet,
    StateSetup, States,
};
use tidegate_types::codec::Key;
use tidegate_types::key_group::HashRange;
use tidegate_types::snapshot::{Encoding, SectionBytes, SectionHead, SectionKind};
use tidegate_types::time::MIN_WATERMARK;
use tidegate_types::{CheckpointId, EventTime, OperatorUid};

use crate::chain::{CutParts, Flow, OpenContext, OutBatch, Outcome, Pass, Progress, SnapshotPart};
use crate::error::{BoxError, OpError};

use super::keyed::WINDOW;
use super::named::SnapshotSources;
use super::process::{
    FunctionContext, InitializeContext, ProcessContext, SnapshotContext, Timer, TimerKind, TimerPair,
};

const EVENT_TIMERS: &str = "_timers/event";
const PROCESSING_TIMERS: &str = "_timers/processing";

/// What the core calls of a function, whatever its inputs.
pub(super) trait Callbacks<K: Key, O>: Send {
    fn state(&mut self, states: &mut States<'_, K>);
    fn initialize(&mut self, cx: &mut InitializeContext) -> Result<(), BoxError>;
    fn open(&mut self, cx: &FunctionContext) -> Result<(), BoxError>;
    fn on_timer(&mut self, timer: Timer, cx: &mut ProcessContext<'_, K, O>) -> Result<(), BoxError>;
    fn snapshot(&mut self, cx: &mut SnapshotContext) -> Result<(), BoxError>;
    fn checkpoint_completed(&mut self, id: CheckpointId) -> Result<(), BoxError>;
}

/// Where a walk over the timers below the floors is.
#[derive(Debug, Clone, Copy)]
struct FloorWalk {
    at: (EventTime, u64),
    fired: bool,
}

impl Default for FloorWalk {
    fn default() -> Self {
        Self {
            at: (EventTime::MIN, 0),
            fired: false,
        }
    }
}

/// The engine's side of one function's subtask.
pub(super) struct Core<K: Key> {
    formats: Formats,
    pub(super) uid: OperatorUid,
    set: Option<StateSet>,
    pub(super) timers: TimerPair<K>,
    watermark: EventTime,
    /// Owners of these hashes had come further before the parallelism changed.
    floors: Vec<(HashRange, EventTime)>,
    floor_walk: FloorWalk,
    finished: BTreeMap<CheckpointId, OperatorSnapshot>,
    savepoints: BTreeSet<CheckpointId>,
    pub(super) wall_ms: EventTime,
    sources: SnapshotSources,
}

fn declare<'f, K: Key, O, F: Callbacks<K, O>>(
    function: &'f mut F,
    timers: &'f mut TimerPair<K>,
) -> impl FnMut(&mut States<'_, K>) + use<'f, K, O, F> {
    |s: &mut States<'_, K>| {
        function.state(s);
        s.timers(EVENT_TIMERS, &mut timers.event);
        s.timers(PROCESSING_TIMERS, &mut timers.processing);
    }
}

impl<K: Key> Core<K> {
    pub(super) fn new(formats: Formats, uid: OperatorUid) -> Self {
        Self {
            formats,
            uid,
            set: None,
            timers: TimerPair::default(),
            watermark: MIN_WATERMARK,
            floors: Vec::new(),
            floor_walk: FloorWalk::default(),
            finished: BTreeMap::new(),
            savepoints: BTreeSet::new(),
            wall_ms: 0,
            sources: SnapshotSources::default(),
        }
    }

    fn user(&self, e: BoxError) -> OpError {
        OpError::user(&self.uid, e)
    }

    /// How far event time has come for a hash.
    #[inline]
    pub(super) fn watermark_of(&self, hash: u64) -> EventTime {
        if self.floors.is_empty() {
            return self.watermark;
        }
        let floor = self
            .floors
            .iter()
            .find(|(range, _)| range.contains(hash))
            .map(|(_, w)| *w);
        floor.map_or(self.watermark, |f| f.max(self.watermark))
    }

    pub(super) fn prefetch<O, F: Callbacks<K, O>>(&mut self, function: &mut F, hashes: &[u64]) {
        if let Some(set) = &self.set {
            set.prefetch(hashes, declare(function, &mut self.timers));
        }
    }

    pub(super) fn open<O, F: Callbacks<K, O>>(
        &mut self,
        function: &mut F,
        cx: &mut OpenContext,
    ) -> Result<(), OpError> {
        self.wall_ms = cx.wall_ms;
        let setup = StateSetup {
            uid: cx.uid.clone(),
            range: cx.hash_range(),
            formats: self.formats.clone(),
            now_ms: cx.wall_ms,
        };
        let set = StateSet::open(setup, declare(function, &mut self.timers))
            .map_err(|e| OpError::fatal(&cx.uid, "states", e))?;
        self.set = Some(set);
        self.restore(function, cx)?;
        self.floors = std::mem::take(&mut cx.watermark_floors);
        let mut initialize = InitializeContext::default();
        for section in cx.take(|k| *k == SectionKind::Raw) {
            initialize
                .sections
                .push((section.subtask, section.head.name, section.bytes));
        }
        function.initialize(&mut initialize).map_err(|e| self.user(e))?;
        let named = cx.take(|k| *k == SectionKind::Named);
        self.sources.restore(
            named.into_iter().map(|s| (s.head.name, s.subtask, s.bytes)),
            |old| old.0 % cx.parallelism.0 == cx.subtask.0,
        );
        let function_cx = FunctionContext {
            uid: cx.uid.clone(),
            subtask: cx.subtask,
            parallelism: cx.parallelism,
            max_parallelism: cx.max_parallelism,
            is_restored: cx.is_restored(),
            sources: self.sources.clone(),
        };
        function.open(&function_cx).map_err(|e| self.user(e))
    }

    fn restore<O, F: Callbacks<K, O>>(
        &mut self,
        function: &mut F,
        cx: &mut OpenContext,
    ) -> Result<(), OpError> {
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
        let Some(set) = &mut self.set else { return Ok(()) };
        let mut before = HashMap::<String, u64>::new();
        let mut broadcast = HashMap::new();
        for section in sections {
            if section.head.kind == SectionKind::Broadcast {
                // Every old subtask wrote the same: one copy is enough.
                let from = *broadcast
                    .entry(section.head.name.clone())
                    .or_insert(section.subtask);
                if from != section.subtask {
                    continue;
                }
            }
            let seen = before.entry(section.head.name.clone()).or_default();
            let share = Share {
                before: *seen,
                subtask: cx.subtask.0,
                parallelism: cx.parallelism.0,
            };
            *seen += section.head.records;
            set.restore(
                &section.head,
                &section.bytes,
                share,
                declare(function, &mut self.timers),
            )
            .map_err(|e| OpError::fatal(&cx.uid, format!("state `{}`", section.head.name), e))?;
        }
        Ok(())
    }

    pub(super) fn on_watermark<O, F: Callbacks<K, O>>(
        &mut self,
        function: &mut F,
        w: EventTime,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        self.watermark = self.watermark.max(w);
        if !self.floors.is_empty() {
            let flow = self.fire_floors(function, out, pass)?;
            if flow != Flow::Done {
                return Ok(flow);
            }
            self.floors.retain(|(_, floor)| *floor > w);
        }
        self.fire(function, TimerKind::EventTime, w, out, pass)
    }

    pub(super) fn fire<O, F: Callbacks<K, O>>(
        &mut self,
        function: &mut F,
        kind: TimerKind,
        up_to: EventTime,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        let mut fired = 0usize;
        loop {
            let timers = self.timers.of(kind);
            if timers.next_due().is_none_or(|t| t > up_to) {
                return Ok(Flow::Done);
            }
            if pass.must_yield() {
                return Ok(Flow::Yielded);
            }
            if out.is_full() {
                return Ok(Flow::Full);
            }
            if fired.is_multiple_of(WINDOW) {
                self.prefetch_due(function, kind, up_to, fired);
            }
            let timers = self.timers.of(kind);
            let Some(due) = timers.pop_due(up_to) else {
                return Ok(Flow::Done);
            };
            self.fire_one(function, &due, kind, out, pass)?;
            fired += 1;
        }
    }

    /// Fetches the state of the next timers' keys, a window ahead of the one at hand.
    fn prefetch_due<O, F: Callbacks<K, O>>(
        &mut self,
        function: &mut F,
        kind: TimerKind,
        up_to: EventTime,
        fired: usize,
    ) {
        let mut hashes = [0; 2 * WINDOW];
        let due = self.timers.of(kind).due_hashes(up_to, &mut hashes);
        let already = if fired == 0 { 0 } else { WINDOW.min(due) };
        if let Some(set) = &self.set {
            set.prefetch(&hashes[already..due], declare(function, &mut self.timers));
        }
    }

    fn fire_one<O, F: Callbacks<K, O>>(
        &mut self,
        function: &mut F,
        due: &DueTimer<K>,
        kind: TimerKind,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<(), OpError> {
        let at = KeyContext::new(&due.key, due.hash, pass.wall_ms());
        let time = (kind == TimerKind::EventTime).then_some(due.time);
        let watermark = self.watermark_of(due.hash);
        let mut cx = ProcessContext {
            at,
            time,
            watermark,
            out,
            timers: &mut self.timers,
        };
        function
            .on_timer(Timer { time: due.time, kind }, &mut cx)
            .map_err(|e| OpError::user(&self.uid, e))?;
        pass.spend();
        Ok(())
    }

    /// Fires what was due for its old owner although this subtask's watermark is lower: a crash in the middle of
    /// that owner's firing left it. What isn't due is passed over, and a walk that had to yield goes on where it was:
    /// there may be more timers below the highest floor than fit into a pass.
    fn fire_floors<O, F: Callbacks<K, O>>(
        &mut self,
        function: &mut F,
        out: &mut OutBatch<O>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        let highest = self.floors.iter().map(|(_, w)| *w).max().unwrap_or(MIN_WATERMARK);
        loop {
            let Some(place) = self.timers.event.next_from(self.floor_walk.at, highest) else {
                // What fired may have registered something before where the walk was.
                let fired = self.floor_walk.fired;
                self.floor_walk = FloorWalk::default();
                if fired {
                    continue;
                }
                return Ok(Flow::Done);
            };
            if pass.must_yield() {
                return Ok(Flow::Yielded);
            }
            if out.is_full() {
                return Ok(Flow::Full);
            }
            let (time, hash) = place;
            self.floor_walk.at = place;
            if time > self.watermark_of(hash) {
                self.floor_walk.at = match hash.checked_add(1) {
                    Some(next) => (time, next),
                    None => (time.saturating_add(1), 0),
                };
                pass.spend();
            } else if let Some(due) = self.timers.event.pop_at(place) {
                self.floor_walk.fired = true;
                self.fire_one(function, &due, TimerKind::EventTime, out, pass)?;
            }
        }
    }

    pub(super) fn next_time(&self) -> Option<EventTime> {
        self.set.as_ref().and_then(|_| self.timers.processing.next_due())
    }

    pub(super) fn cut<O, F: Callbacks<K, O>>(
        &mut self,
        function: &mut F,
        parts: &mut CutParts,
    ) -> Result<(), OpError> {
        let encoding = if parts.canonical {
            Encoding::Canonical
        } else {
            Encoding::Native
        };
        let cut = Cut {
            id: parts.id,
            base: parts.base,
            encoding,
            now_ms: self.wall_ms,
        };
        if parts.savepoint {
            self.savepoints.insert(parts.id);
        }
        // What other threads of the user change under the fence is inside or outside of the cut as a whole.
        let fence = self.sources.fence();
        let _held = fence.hold();
        if let Some(set) = &mut self.set {
            set.cut(cut, declare(function, &mut self.timers));
        }
        let mut cx = SnapshotContext {
            id: parts.id,
            sections: Vec::new(),
        };
        function.snapshot(&mut cx).map_err(|e| self.user(e))?;
        for (name, bytes) in cx.sections {
            parts.parts.push(self.part(SectionKind::Raw, name, bytes));
        }
        for (name, bytes) in self.sources.snapshot().map_err(|e| self.user(e))? {
            parts.parts.push(self.part(SectionKind::Named, name, bytes));
        }
        Ok(())
    }

    fn part(&self, kind: SectionKind, name: String, bytes: bytes::Bytes) -> SnapshotPart {
        let head = SectionHead {
            uid: self.uid.clone(),
            kind,
            name,
            hashes: None,
            encoding: Encoding::Raw,
            shapes: Vec::new(),
            records: 1,
        };
        SnapshotPart::ready(SectionBytes { head, bytes })
    }

    pub(super) fn sweep<O, F: Callbacks<K, O>>(
        &mut self,
        function: &mut F,
        id: CheckpointId,
        may_go_on: &mut dyn FnMut() -> bool,
        parts: &mut Vec<SnapshotPart>,
    ) -> Result<Progress, OpError> {
        let Some(set) = &mut self.set else {
            return Ok(Progress::Done);
        };
        set.sweep(may_go_on, declare(function, &mut self.timers));
        // Cuts finish in order, and this call may have been for a later one.
        while let Some(snapshot) = set.take_finished(declare(function, &mut self.timers)) {
            self.finished.insert(snapshot.id(), snapshot);
        }
        let Some(snapshot) = self.finished.remove(&id) else {
            return Ok(Progress::More);
        };
        let uid = self.uid.clone();
        parts.push(SnapshotPart::later(move || {
            snapshot
                .into_sections()
                .map_err(|e| OpError::fatal(&uid, "states", e))
        }));
        Ok(Progress::Done)
    }

    pub(super) fn decided<O, F: Callbacks<K, O>>(
        &mut self,
        function: &mut F,
        id: CheckpointId,
        outcome: Outcome,
    ) -> Result<(), OpError> {
        // No later checkpoint builds on a savepoint, so what it marked as written stays marked.
        let of_state = match outcome {
            Outcome::Completed if !self.savepoints.remove(&id) => StateOutcome::Completed,
            Outcome::Completed | Outcome::Aborted => StateOutcome::Aborted,
        };
        self.savepoints.retain(|s| *s > id);
        self.finished.remove(&id);
        if let Some(set) = &mut self.set {
            set.decided(id, of_state, declare(function, &mut self.timers));
        }
        match outcome {
            Outcome::Completed => function.checkpoint_completed(id).map_err(|e| self.user(e)),
            Outcome::Aborted => Ok(()),
        }
    }
}
