//! The machine: one state per checkpoint that the subtask has cut or is about to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_types::snapshot::{SubtaskSnapshot, SubtaskStats};
use tidegate_types::{CheckpointId, Nanos, SnapshotMode};

use crate::barrier::Cut;
use crate::message::DeclineReason;

use super::{CutMeasured, CutTimes, Outcome, SnapshotAction, SnapshotEvent, WriteFailed, Written};

/// How long an acknowledgement may stay without a decision before it is said again: the message, or the hint
/// that would have answered it, may be lost.
pub const REOFFER_EVERY: Duration = Duration::from_secs(10);

/// How many early aborts are remembered; their barriers follow soon or never do. Beyond that the lowest are
/// forgotten, which costs a snapshot that is thrown away.
const MAX_ABORTED: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    /// The handler said "cut"; the task prepares (perhaps waits for its chain to run empty). The barrier hasn't
    /// left.
    Preparing { times: CutTimes, parts_done: u32 },
    /// The barrier is forwarded and the cut taken; sweeps or captures are open.
    Collecting { times: CutTimes, parts_open: u32 },
    /// The pool writes, or has written and acknowledged and the news isn't here yet.
    Writing,
    /// The pool writes something that nobody wants any more. Unless it is `aborted` for certain, the writer may
    /// have acknowledged it in time to become part of a complete checkpoint.
    Discarding { aborted: bool },
    /// Acknowledged and not decided.
    Acknowledged { kept: Box<Kept>, offered_at: Nanos },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    snapshot: SubtaskSnapshot,
    stats: SubtaskStats,
    files: Vec<String>,
}

impl std::hash::Hash for Kept {
    /// By files alone, which are unique per snapshot; equality looks at everything.
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.files.hash(state);
    }
}

/// Follows each snapshot of one subtask from the handler's "cut" to the coordinator's decision.
///
/// # Driving it
///
/// [`on_event`](Self::on_event) for everything that [`SnapshotEvent`] lists, from the task's thread, then carry
/// out the actions appended to `out` in order. What the barrier handler says passes through here:
/// [`BarrierAction::Cut`](crate::barrier::BarrierAction::Cut) as [`SnapshotEvent::Begin`],
/// [`AllBarriersIn`](crate::barrier::BarrierAction::AllBarriersIn) as [`SnapshotEvent::PartDone`] once the captures
/// are taken, [`Decline`](crate::barrier::BarrierAction::Decline) as [`SnapshotEvent::Declined`]. The coordinator's
/// abort and completion go to both machines, to the handler first (a cancel marker might be sent twice
/// otherwise). [`next_tick`](Self::next_tick) says when to send [`SnapshotEvent::Tick`].
///
/// The writer acknowledges, see [`SnapshotAction::StartWrite`]; nothing that the coordinator says in answer may reach
/// the machine before [`SnapshotEvent::WriteDone`], but a barrier may.
///
/// Events about a checkpoint that is off (a late part, a late cut) are ignored; a late write has its files
/// deleted unless it may be part of a complete checkpoint. Before the barrier has left, an abort makes a cancel
/// marker go in its place; the handler, for which the checkpoint may be over by then, doesn't send one.
///
/// # Panics
/// [`on_event`](Self::on_event) panics if the driver breaks the contract: a checkpoint begun twice, more parts
/// than were announced, a write that wasn't asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SubtaskSnapshots {
    states: BTreeMap<CheckpointId, State>,
    /// Aborted or declined without a state here; a [`SnapshotEvent::Begin`] may still be on its way.
    aborted: BTreeSet<CheckpointId>,
    oldest_pending: CheckpointId,
}

impl SubtaskSnapshots {
    /// A machine that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Checkpoints that were acknowledged and not decided as far as this subtask knows, lowest first.
    pub fn acknowledged(&self) -> impl Iterator<Item = CheckpointId> + '_ {
        self.states
            .iter()
            .filter(|(_, s)| matches!(s, State::Acknowledged { .. }))
            .map(|(id, _)| *id)
    }

    /// Whether something is being prepared, collected or written, even if only to be thrown away. A task that
    /// ends waits until there isn't.
    pub fn is_busy(&self) -> bool {
        self.states.values().any(|s| match s {
            State::Preparing { .. }
            | State::Collecting { .. }
            | State::Writing
            | State::Discarding { .. } => true,
            State::Acknowledged { .. } => false,
        })
    }

    /// When to send [`SnapshotEvent::Tick`]; [`Nanos::NEVER`] if nothing waits.
    pub fn next_tick(&self) -> Nanos {
        let offers = self.states.values().filter_map(|s| match s {
            State::Acknowledged { offered_at, .. } => Some(*offered_at + REOFFER_EVERY),
            State::Preparing { .. }
            | State::Collecting { .. }
            | State::Writing
            | State::Discarding { .. } => None,
        });
        offers.min().unwrap_or(Nanos::NEVER)
    }

    /// Takes note of an event and appends what is to be done about it.
    ///
    /// # Panics
    /// See the type's documentation.
    pub fn on_event(&mut self, now: Nanos, event: SnapshotEvent, out: &mut Vec<SnapshotAction>) {
        match event {
            SnapshotEvent::Begin(cut) => self.on_begin(now, cut, out),
            SnapshotEvent::PrepareRefused { id, detail } => self.on_prepare_refused(id, detail, out),
            SnapshotEvent::CutTaken { id, parts, measured } => {
                self.on_cut_taken(now, id, parts, measured, out);
            }
            SnapshotEvent::PartDone(id) => self.on_part_done(id, out),
            SnapshotEvent::OutputOvertook(id) => self.on_output_overtook(id),
            SnapshotEvent::WriteDone { id, result } => self.on_write_done(now, id, result, out),
            SnapshotEvent::Declined { id, reason, detail } => self.on_declined(id, reason, detail, out),
            SnapshotEvent::Aborted { id, oldest_pending } => {
                self.on_aborted(id, out);
                self.raise_oldest_pending(oldest_pending, out);
            }
            SnapshotEvent::Completed { id, oldest_pending } => {
                self.on_completed(id, out);
                self.raise_oldest_pending(oldest_pending, out);
            }
            SnapshotEvent::Reoffer => self.offer_again(now, Duration::ZERO, out),
            SnapshotEvent::Tick => self.offer_again(now, REOFFER_EVERY, out),
        }
    }

    fn on_begin(&mut self, now: Nanos, cut: Cut, out: &mut Vec<SnapshotAction>) {
        let id = cut.barrier.id;
        self.raise_oldest_pending(cut.barrier.oldest_pending, out);
        assert!(!self.states.contains_key(&id), "a checkpoint is cut once");
        if id < self.oldest_pending || self.aborted.contains(&id) {
            out.push(SnapshotAction::ForwardCancel(id));
            return;
        }
        out.push(SnapshotAction::Proceed(cut.barrier.clone()));
        let times = CutTimes::begun(cut, now);
        self.states.insert(id, State::Preparing { times, parts_done: 0 });
    }

    fn on_prepare_refused(&mut self, id: CheckpointId, detail: String, out: &mut Vec<SnapshotAction>) {
        match self.states.get(&id) {
            None => {}
            Some(State::Preparing { .. }) => {
                out.push(SnapshotAction::ForwardCancel(id));
                self.on_declined(id, DeclineReason::PrepareRefused, detail, out);
            }
            Some(
                State::Collecting { .. }
                | State::Writing
                | State::Discarding { .. }
                | State::Acknowledged { .. },
            ) => {
                panic!("an operator refuses before the cut")
            }
        }
    }

    fn on_cut_taken(
        &mut self,
        now: Nanos,
        id: CheckpointId,
        parts: u32,
        measured: CutMeasured,
        out: &mut Vec<SnapshotAction>,
    ) {
        let Some(state) = self.states.get_mut(&id) else {
            return;
        };
        let State::Preparing { times, parts_done } = state else {
            panic!("a cut is taken once")
        };
        let parts_open = parts
            .checked_sub(*parts_done)
            .expect("no more parts are collected than are counted");
        let times = CutTimes {
            measured,
            cut_at: now,
            ..times.clone()
        };
        *state = State::Collecting { times, parts_open };
        self.write_if_collected(id, out);
    }

    fn on_part_done(&mut self, id: CheckpointId, out: &mut Vec<SnapshotAction>) {
        match self.states.get_mut(&id) {
            None => {}
            Some(State::Preparing { parts_done, .. }) => *parts_done += 1,
            Some(State::Collecting { parts_open, .. }) => {
                *parts_open -= 1;
                self.write_if_collected(id, out);
            }
            // What was collected for a checkpoint that is off may be on its way when the write is given up.
            Some(State::Discarding { .. }) => {}
            Some(State::Writing | State::Acknowledged { .. }) => {
                panic!("no more parts are collected than are counted")
            }
        }
    }

    fn on_output_overtook(&mut self, id: CheckpointId) {
        match self.states.get_mut(&id) {
            Some(State::Collecting { times, .. }) => times.measured.overtook = true,
            Some(State::Preparing { times, .. }) => times.cut.mode = SnapshotMode::Unaligned,
            None | Some(State::Writing | State::Discarding { .. } | State::Acknowledged { .. }) => {}
        }
    }

    fn write_if_collected(&mut self, id: CheckpointId, out: &mut Vec<SnapshotAction>) {
        let Some(state) = self.states.get_mut(&id) else {
            return;
        };
        if let State::Collecting { times, parts_open: 0 } = state {
            let times = Box::new(times.clone());
            *state = State::Writing;
            out.push(SnapshotAction::StartWrite { id, times });
        }
    }

    fn on_write_done(
        &mut self,
        now: Nanos,
        id: CheckpointId,
        result: Result<Box<Written>, WriteFailed>,
        out: &mut Vec<SnapshotAction>,
    ) {
        let state = self.states.remove(&id);
        match (state, result) {
            (Some(State::Writing), Ok(written)) => {
                assert!(
                    written.acknowledged,
                    "what isn't cancelled is acknowledged by its writer"
                );
                let Written {
                    snapshot,
                    stats,
                    files,
                    acknowledged: _,
                } = *written;
                out.push(SnapshotAction::Acknowledged {
                    id,
                    snapshot: snapshot.clone(),
                });
                let kept = Box::new(Kept {
                    snapshot,
                    stats,
                    files,
                });
                self.states.insert(
                    id,
                    State::Acknowledged {
                        kept,
                        offered_at: now,
                    },
                );
            }
            (Some(State::Writing), Err(failed)) => {
                self.remember_aborted(id);
                delete(id, failed.files, out);
                out.push(SnapshotAction::Decline {
                    id,
                    reason: DeclineReason::AsyncFailed,
                    detail: failed.detail,
                });
                out.push(SnapshotAction::Settle(id, Outcome::Aborted));
            }
            (Some(State::Discarding { aborted }), Ok(written)) => {
                if aborted || !written.acknowledged {
                    delete(id, written.files, out);
                }
            }
            (Some(State::Discarding { .. }), Err(failed)) => delete(id, failed.files, out),
            (
                None | Some(State::Preparing { .. } | State::Collecting { .. } | State::Acknowledged { .. }),
                _,
            ) => {
                panic!("a write ends once, and only if it was asked for")
            }
        }
    }

    fn on_declined(
        &mut self,
        id: CheckpointId,
        reason: DeclineReason,
        detail: String,
        out: &mut Vec<SnapshotAction>,
    ) {
        match self.states.get(&id) {
            // Written and perhaps acknowledged: the handler had every barrier before, so it can't be in this;
            // nothing to take back. Discarding: the coordinator's abort was first.
            Some(State::Writing | State::Acknowledged { .. } | State::Discarding { .. }) => {}
            Some(State::Preparing { .. } | State::Collecting { .. }) => {
                out.push(SnapshotAction::Decline { id, reason, detail });
                self.drop_unwritten(id, out);
            }
            None => {
                if id >= self.oldest_pending && !self.aborted.contains(&id) {
                    out.push(SnapshotAction::Decline { id, reason, detail });
                    self.remember_aborted(id);
                }
            }
        }
    }

    fn on_aborted(&mut self, id: CheckpointId, out: &mut Vec<SnapshotAction>) {
        match self.states.get(&id) {
            None => self.remember_aborted(id),
            Some(State::Discarding { .. }) => {
                self.states.insert(id, State::Discarding { aborted: true });
            }
            Some(State::Preparing { .. }) => {
                out.push(SnapshotAction::ForwardCancel(id));
                self.drop_unwritten(id, out);
            }
            Some(State::Collecting { .. }) => self.drop_unwritten(id, out),
            Some(State::Writing) => {
                self.discard_write(id, true, out);
                self.remember_aborted(id);
                out.push(SnapshotAction::Settle(id, Outcome::Aborted));
            }
            Some(State::Acknowledged { .. }) => {
                if let Some(State::Acknowledged { kept, .. }) = self.states.remove(&id) {
                    delete(id, kept.files, out);
                }
                self.remember_aborted(id);
                out.push(SnapshotAction::Settle(id, Outcome::Aborted));
            }
        }
    }

    fn on_completed(&mut self, id: CheckpointId, out: &mut Vec<SnapshotAction>) {
        match self.states.get(&id) {
            Some(State::Acknowledged { .. }) => {
                self.states.remove(&id);
                out.push(SnapshotAction::Settle(id, Outcome::Completed));
            }
            // Not without this subtask's acknowledgement. What isn't acknowledged here goes when `oldest_pending`
            // passes it.
            None
            | Some(
                State::Preparing { .. }
                | State::Collecting { .. }
                | State::Writing
                | State::Discarding { .. },
            ) => {}
        }
    }

    fn raise_oldest_pending(&mut self, to: CheckpointId, out: &mut Vec<SnapshotAction>) {
        if to <= self.oldest_pending {
            return;
        }
        self.oldest_pending = to;
        self.aborted = self.aborted.split_off(&to);
        let decided = self.states.range(..to).map(|(id, _)| *id).collect::<Vec<_>>();
        for id in decided {
            match self.states.get(&id) {
                None | Some(State::Discarding { .. }) => {}
                Some(State::Acknowledged { .. }) => {
                    self.states.remove(&id);
                    out.push(SnapshotAction::Settle(id, Outcome::Unknown));
                }
                // Never acknowledged, so it can only have been aborted.
                Some(State::Preparing { .. }) => {
                    out.push(SnapshotAction::ForwardCancel(id));
                    self.drop_unwritten(id, out);
                }
                Some(State::Collecting { .. }) => self.drop_unwritten(id, out),
                Some(State::Writing) => {
                    self.discard_write(id, false, out);
                    out.push(SnapshotAction::Settle(id, Outcome::Unknown));
                }
            }
        }
    }

    /// Drops a checkpoint of which nothing was written.
    fn drop_unwritten(&mut self, id: CheckpointId, out: &mut Vec<SnapshotAction>) {
        self.states.remove(&id);
        self.remember_aborted(id);
        out.push(SnapshotAction::Settle(id, Outcome::Aborted));
    }

    /// The write goes on until it notices.
    fn discard_write(&mut self, id: CheckpointId, aborted: bool, out: &mut Vec<SnapshotAction>) {
        self.states.insert(id, State::Discarding { aborted });
        out.push(SnapshotAction::CancelWrite(id));
    }

    fn remember_aborted(&mut self, id: CheckpointId) {
        if id < self.oldest_pending {
            return;
        }
        self.aborted.insert(id);
        if self.aborted.len() > MAX_ABORTED {
            self.aborted.pop_first();
        }
    }

    fn offer_again(&mut self, now: Nanos, after: Duration, out: &mut Vec<SnapshotAction>) {
        for (id, state) in &mut self.states {
            if let State::Acknowledged { kept, offered_at } = state
                && now.since(*offered_at) >= after
            {
                *offered_at = now;
                out.push(SnapshotAction::AcknowledgeAgain {
                    id: *id,
                    snapshot: kept.snapshot.clone(),
                    stats: kept.stats.clone(),
                });
            }
        }
    }
}

fn delete(id: CheckpointId, files: Vec<String>, out: &mut Vec<SnapshotAction>) {
    if !files.is_empty() {
        out.push(SnapshotAction::DeleteFiles { id, files });
    }
}
