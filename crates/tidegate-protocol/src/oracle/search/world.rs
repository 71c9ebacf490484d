//! A model task with producers and a coordinator that can do whatever the setup allows.

use std::hash::{Hash, Hasher};

use tidegate_types::CheckpointId;

use super::super::Violation;
use super::super::fingerprint::Fingerprint;
use super::super::model::{IdSet, Model};
use super::setup::{Cancels, Records, Setup};

/// One thing that can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A record is queued.
    Record(usize),
    /// A barrier is queued.
    Barrier {
        /// Where.
        channel: usize,
        /// Which.
        id: CheckpointId,
        /// Whether it became unaligned upstream.
        upgraded: bool,
    },
    /// A cancel marker is sent.
    Cancel(usize, CheckpointId),
    /// A channel's end is queued.
    End(usize),
    /// An announcement is delivered.
    Announce(usize),
    /// An element is taken.
    Take(usize),
    /// A timeout passes.
    Timeout(CheckpointId),
    /// An abort comes by message.
    Abort(CheckpointId),
    /// A trigger comes by message.
    Trigger(CheckpointId),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Producer {
    /// The greatest barrier sent.
    newest: CheckpointId,
    cancelled: IdSet,
    /// A record was sent since the last barrier.
    has_record: bool,
    ended: bool,
}

/// Model, producers and coordinator.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) model: Model,
    producers: Vec<Producer>,
    timed_out: IdSet,
    aborted: IdSet,
    triggered: IdSet,
}

impl World {
    pub(super) fn new(setup: &Setup) -> Self {
        let mut model = Model::new(&setup.kinds);
        if setup.alphabet.records == Records::Fixed {
            let sent = (0..setup.kinds.len()).try_for_each(|channel| model.send_record(channel));
            sent.expect("nothing is captured yet");
        }
        Self {
            model,
            producers: vec![Producer::default(); setup.kinds.len()],
            timed_out: IdSet::default(),
            aborted: IdSet::default(),
            triggered: IdSet::default(),
        }
    }

    pub(super) fn fingerprint(&self) -> u64 {
        let mut state = Fingerprint::default();
        let model = self.model.fingerprint(|at, state| self.producers[at].hash(state));
        (model, self.timed_out, self.aborted, self.triggered).hash(&mut state);
        state.finish()
    }

    pub(super) fn steps(&self, setup: &Setup, out: &mut Vec<Step>) {
        for channel in 0..self.producers.len() {
            if self.model.can_announce(channel) {
                out.push(Step::Announce(channel));
            }
            let can_take = match setup.alphabet.records {
                Records::Fixed => self.model.can_take_marker(channel),
                Records::UpToOne => self.model.can_take(channel),
            };
            if can_take {
                out.push(Step::Take(channel));
            }
            self.producer_steps(setup, channel, out);
        }
        let alphabet = &setup.alphabet;
        for id in setup.ids() {
            let fates = self.model.fates();
            let is_over = fates.complete.contains(id) || fates.dropped.contains(id);
            let is_welcome = !is_over || alphabet.strays;
            if alphabet.timeouts && is_welcome && fates.armed.contains(id) && !self.timed_out.contains(id) {
                out.push(Step::Timeout(id));
            }
            if alphabet.aborts && is_welcome && !self.aborted.contains(id) {
                out.push(Step::Abort(id));
            }
            let no_barrier = |p: &Producer| p.newest < id && !p.cancelled.contains(id);
            let is_next = !self.triggered.iter().any(|t| t >= id);
            if alphabet.triggers && is_next && self.producers.iter().all(no_barrier) {
                out.push(Step::Trigger(id));
            }
        }
    }

    fn producer_steps(&self, setup: &Setup, channel: usize, out: &mut Vec<Step>) {
        let producer = &self.producers[channel];
        if producer.ended {
            return;
        }
        if setup.alphabet.records == Records::UpToOne && !producer.has_record {
            out.push(Step::Record(channel));
        }
        for id in setup.ids() {
            // Once the task itself is triggered, its producers have finished: what they send was on its way.
            if self.triggered.contains(id) {
                break;
            }
            let cancelled = producer.cancelled.contains(id);
            let skipped =
                (producer.newest.0 + 1..id.0).any(|s| !producer.cancelled.contains(CheckpointId(s)));
            let cancels = match setup.alphabet.cancels {
                Cancels::Never => false,
                Cancels::InPlace => id > producer.newest && (!skipped || setup.alphabet.skips),
                Cancels::Anywhere => true,
            };
            if cancels && !cancelled {
                out.push(Step::Cancel(channel, id));
            }
            if id > producer.newest && !cancelled && (!skipped || setup.alphabet.skips) {
                out.push(Step::Barrier {
                    channel,
                    id,
                    upgraded: false,
                });
                if setup.alphabet.upgrades && setup.may_upgrade(id) {
                    out.push(Step::Barrier {
                        channel,
                        id,
                        upgraded: true,
                    });
                }
            }
        }
        if setup.alphabet.ends {
            out.push(Step::End(channel));
        }
    }

    pub(super) fn take(&mut self, setup: &Setup, step: Step) -> Result<(), Violation> {
        match step {
            Step::Record(channel) => {
                self.producers[channel].has_record = true;
                return self.model.send_record(channel);
            }
            Step::Barrier {
                channel,
                id,
                upgraded,
            } => {
                let producer = &mut self.producers[channel];
                (producer.newest, producer.has_record) = (id, false);
                let barrier = setup.barrier(id);
                let barrier = if upgraded { barrier.to_unaligned() } else { barrier };
                self.model.send_barrier(channel, barrier);
                if setup.alphabet.records == Records::Fixed {
                    self.model.send_record(channel)?;
                }
            }
            Step::Cancel(channel, id) => {
                self.producers[channel].cancelled.insert(id);
                self.model.send_cancel(channel, id);
            }
            Step::End(channel) => {
                self.producers[channel].ended = true;
                self.model.send_end(channel);
            }
            Step::Announce(channel) => return self.model.announce(channel),
            Step::Take(channel) => {
                return match setup.alphabet.records {
                    Records::Fixed => self.model.take_marker(channel),
                    Records::UpToOne => self.model.take(channel),
                };
            }
            Step::Timeout(id) => {
                self.timed_out.insert(id);
                return self.model.time_out(&setup.barrier(id));
            }
            Step::Abort(id) => {
                self.aborted.insert(id);
                return self.model.abort(id, self.oldest_pending(setup, id));
            }
            Step::Trigger(id) => {
                self.triggered.insert(id);
                return self.model.trigger(setup.barrier(id));
            }
        }
        if setup.alphabet.late {
            return Ok(());
        }
        (0..self.producers.len()).try_for_each(|channel| self.model.announce_all(channel))
    }

    /// The lowest id that the coordinator hasn't decided when it aborts `id`.
    fn oldest_pending(&self, setup: &Setup, id: CheckpointId) -> CheckpointId {
        let known = setup.barrier(id).oldest_pending;
        let is_decided = |i: CheckpointId| {
            i < known || self.aborted.contains(i) || self.model.fates().complete.contains(i)
        };
        let mut oldest = CheckpointId(1);
        while is_decided(oldest) {
            oldest = oldest.next();
        }
        oldest
    }

    /// If the task can do nothing by itself, nothing may be pending for which every producer has said what it has
    /// to say.
    pub(super) fn check_settled(&self, steps: &[Step]) -> Result<(), Violation> {
        let moves = |step: &Step| matches!(step, Step::Announce(_) | Step::Take(_));
        if steps.iter().any(moves) {
            return Ok(());
        }
        self.model.check_settled(|id| {
            self.producers
                .iter()
                .all(|p| p.ended || p.newest >= id || p.cancelled.contains(id))
        })
    }
}
