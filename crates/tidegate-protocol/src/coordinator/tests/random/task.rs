//! Tasks as the coordinator sees them: they cut in order, pass barriers and ends on, wait, and finish.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidegate_types::snapshot::SubtaskSnapshot;
use tidegate_types::{
    AttemptNumber, CheckpointId, CheckpointKind, JobId, LeaderEpoch, SnapshotMode, SubtaskId,
};

use super::super::rig::{last_state, snapshot};
use super::rng::Rng;
use crate::message::{DeclineReason, Envelope, FromTask, ToTask};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Starting,
    Running,
    /// Everything is flushed; waits for a checkpoint it cuts from now on.
    Waiting,
    Gone,
}

#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) id: SubtaskId,
    pub(super) producers: Vec<usize>,
    /// Whether it holds output that only a commit makes visible.
    pub(super) sink: bool,
    pub(super) state: State,
    /// A source that has been told to end, or runs dry.
    pub(super) ends: bool,
    /// Stands still for this checkpoint.
    pub(super) at_rest: Option<CheckpointId>,
    /// Up to here it doesn't.
    let_go: CheckpointId,
    pub(super) epoch: LeaderEpoch,
    pub(super) attempt: AttemptNumber,
    pub(super) seen: CheckpointId,
    /// Triggered by message, and not cut.
    triggered: BTreeMap<CheckpointId, (CheckpointKind, SnapshotMode)>,
    /// Cut, or passed over. What barriers say travels with them.
    pub(super) cut: BTreeMap<CheckpointId, (CheckpointKind, SnapshotMode)>,
    /// Will not come from here.
    pub(super) cancelled: BTreeSet<CheckpointId>,
    /// What it waited for is complete.
    may_leave: bool,
    /// Cut while waiting.
    cut_waiting: BTreeSet<CheckpointId>,
    /// Being written.
    writing: BTreeMap<CheckpointId, SubtaskSnapshot>,
    /// Acknowledged, and not decided as far as it knows.
    pub(super) held: BTreeMap<CheckpointId, SubtaskSnapshot>,
    pub(super) inbox: VecDeque<(LeaderEpoch, ToTask)>,
    pub(super) outbox: VecDeque<Envelope<FromTask>>,
}

/// What a task can see of its producers.
pub(super) struct Upstream<'a> {
    pub(super) cut: &'a BTreeMap<CheckpointId, (CheckpointKind, SnapshotMode)>,
    pub(super) cancelled: &'a BTreeSet<CheckpointId>,
    pub(super) ended: bool,
}

impl Task {
    pub(super) fn new(
        id: SubtaskId,
        producers: Vec<usize>,
        sink: bool,
        epoch: LeaderEpoch,
        attempt: AttemptNumber,
    ) -> Self {
        Self {
            id,
            producers,
            sink,
            state: State::Starting,
            ends: false,
            at_rest: None,
            let_go: CheckpointId(0),
            epoch,
            attempt,
            seen: CheckpointId(0),
            triggered: BTreeMap::new(),
            cut: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            may_leave: false,
            cut_waiting: BTreeSet::new(),
            writing: BTreeMap::new(),
            held: BTreeMap::new(),
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, State::Waiting | State::Gone)
    }

    pub(super) fn say(&mut self, body: FromTask) {
        let (attempt, epoch, subtask) = (self.attempt, self.epoch, self.id);
        self.outbox.push_back(Envelope {
            job: JobId::from("job"),
            attempt,
            epoch,
            subtask,
            body,
        });
    }

    pub(super) fn hear(&mut self, epoch: LeaderEpoch, message: ToTask) {
        if epoch < self.epoch {
            return;
        }
        if self.state == State::Gone {
            // Whoever keeps its end offers that again.
            if message == ToTask::Reoffer && epoch >= self.epoch {
                self.epoch = epoch;
                self.say(FromTask::Finished {
                    snapshot: last_state(self.id),
                    newest_seen: self.seen,
                });
            }
            return;
        }
        match message {
            ToTask::Trigger(barrier) => {
                self.seen = self.seen.max(barrier.id);
                if self.is_open(barrier.id) {
                    self.triggered.insert(barrier.id, (barrier.kind, barrier.mode));
                }
            }
            ToTask::Aborted { id, oldest_pending } => {
                self.cancelled.insert(id);
                self.held.remove(&id);
                self.writing.remove(&id);
                self.below(oldest_pending);
            }
            ToTask::Completed { id, oldest_pending } => {
                self.held.remove(&id);
                self.below(oldest_pending);
                self.may_leave |= self.state == State::Waiting && self.cut_waiting.contains(&id);
            }
            ToTask::Resume { id } => {
                self.let_go = self.let_go.max(id);
                if self.at_rest.is_some_and(|at_rest| at_rest <= id) {
                    self.at_rest = None;
                }
            }
            ToTask::Reoffer => self.offer_everything(epoch),
            ToTask::Stop { drain } => {
                self.ends = true;
                self.at_rest = None;
                self.may_leave |= !drain && self.state == State::Waiting;
            }
            ToTask::AssignSplits { .. } | ToTask::NoMoreSplits { .. } | ToTask::Cancel => {}
        }
    }

    fn offer_everything(&mut self, epoch: LeaderEpoch) {
        self.epoch = epoch;
        self.say(FromTask::StillRunning {
            newest_seen: self.seen,
            held: Vec::new(),
        });
        self.offer_again();
    }

    pub(super) fn offer_again(&mut self) {
        for (id, snapshot) in self.held.clone() {
            self.say(FromTask::Acknowledged {
                id,
                snapshot,
                stats: Default::default(),
            });
        }
        if self.state == State::Waiting {
            self.say(FromTask::AwaitingLastCheckpoint);
        }
    }

    fn below(&mut self, oldest_pending: CheckpointId) {
        self.held = self.held.split_off(&oldest_pending);
        self.triggered = self.triggered.split_off(&oldest_pending);
    }

    fn is_open(&self, id: CheckpointId) -> bool {
        !self.cut.contains_key(&id) && !self.cancelled.contains(&id)
    }

    /// The lowest checkpoint whose barrier is through on every channel that can bring one.
    pub(super) fn next_cut(
        &self,
        upstream: &[Upstream<'_>],
    ) -> Option<(CheckpointId, CheckpointKind, SnapshotMode)> {
        if matches!(self.state, State::Starting | State::Gone) {
            return None;
        }
        let highest_cut = self.cut.last_key_value().map_or(CheckpointId(0), |(id, _)| *id);
        let came = upstream
            .iter()
            .flat_map(|producer| producer.cut.range(highest_cut.next()..));
        let candidates: BTreeMap<_, _> = came
            .chain(&self.triggered)
            .map(|(id, what)| (*id, *what))
            .collect();
        candidates
            .into_iter()
            .filter(|(id, _)| *id > highest_cut && self.is_open(*id))
            .find(|(id, _)| {
                upstream
                    .iter()
                    .all(|producer| producer.cut.contains_key(id) || producer.ended)
            })
            .map(|(id, (kind, mode))| (id, kind, mode))
    }

    /// A checkpoint that a producer gave up and this one hasn't.
    pub(super) fn next_cancel(&self, upstream: &[Upstream<'_>]) -> Option<CheckpointId> {
        let given_up = upstream
            .iter()
            .flat_map(|producer| producer.cancelled.iter().copied());
        given_up
            .filter(|id| self.is_open(*id) && self.state != State::Gone)
            .min()
    }

    pub(super) fn cancel(&mut self, id: CheckpointId, reason: DeclineReason) {
        self.seen = self.seen.max(id);
        self.cancelled.insert(id);
        self.say(FromTask::Declined {
            id,
            reason,
            detail: String::new(),
        });
    }

    pub(super) fn cut(&mut self, id: CheckpointId, kind: CheckpointKind, mode: SnapshotMode) {
        self.seen = self.seen.max(id);
        self.triggered = self.triggered.split_off(&id.next());
        self.cut.insert(id, (kind, mode));
        let mut taken = snapshot(id, self.id);
        if self.state == State::Waiting {
            self.cut_waiting.insert(id);
            taken.finished = true;
        }
        self.writing.insert(id, taken);
        let stops = matches!(kind, CheckpointKind::Savepoint { stop: true, .. });
        let rests = matches!(mode, SnapshotMode::Quiesce { .. }) || (stops && self.producers.is_empty());
        if rests && self.state == State::Running && id > self.let_go {
            self.at_rest = Some(id);
        }
    }

    pub(super) fn is_writing(&self) -> bool {
        !self.writing.is_empty()
    }

    /// One of its writes ends, well or not.
    pub(super) fn write(&mut self, rng: &mut Rng, fails: bool) {
        let ids: Vec<_> = self.writing.keys().copied().collect();
        let id = rng.pick(&ids);
        let Some(snapshot) = self.writing.remove(&id) else {
            return;
        };
        if fails {
            self.say(FromTask::Declined {
                id,
                reason: DeclineReason::AsyncFailed,
                detail: String::new(),
            });
        } else {
            self.held.insert(id, snapshot.clone());
            self.say(FromTask::Acknowledged {
                id,
                snapshot,
                stats: Default::default(),
            });
        }
    }

    /// Whether it can go on to its end: nothing that it has seen of a checkpoint is left undone.
    pub(super) fn may_end(&self, upstream: &[Upstream<'_>]) -> bool {
        let nothing_more = match self.state {
            State::Running if self.producers.is_empty() => self.ends,
            State::Running => upstream.iter().all(|producer| producer.ended),
            State::Waiting => self.may_leave,
            State::Starting | State::Gone => false,
        };
        nothing_more && self.at_rest.is_none() && self.next_cut(upstream).is_none() && !self.is_writing()
    }

    pub(super) fn end(&mut self) {
        if self.sink && self.state == State::Running {
            self.state = State::Waiting;
            self.say(FromTask::AwaitingLastCheckpoint);
        } else {
            self.leave();
        }
    }

    fn leave(&mut self) {
        self.state = State::Gone;
        self.held.clear();
        self.say(FromTask::Finished {
            snapshot: last_state(self.id),
            newest_seen: self.seen,
        });
    }
}
