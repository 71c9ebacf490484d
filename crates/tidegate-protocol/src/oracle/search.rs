//! Exhaustive search over a small task: every order in which elements can be queued, announced and taken, and
//! messages and timeouts can come in between.
//!
//! Owns: which steps a world of producers and a coordinator can take ([`Setup`]), and walking through all of
//! them, each state once ([`search`]). Does not own what must hold: the [`Model`] fails on the first violation,
//! and the search adds that nothing is left waiting when nothing moves any more.
//!
//! States are told apart by 64-bit fingerprints (hash compaction): with 10⁸ states the chance that two collide
//! and one goes unvisited is about 3 in 10,000. Everything that can't make a difference any more is left out of
//! a fingerprint (absolute record numbers, barriers of checkpoints that are over, the order of channels of one
//! kind), so a state stands for all histories that lead to it.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::time::Duration;

use tidegate_types::{
    Barrier, CheckpointId, CheckpointKind, EdgeKind, LeaderEpoch, SavepointFormat, SnapshotMode,
};

use super::Violation;
use super::fingerprint::Fingerprint;
use super::model::{IdSet, Model};

/// A checkpoint of the coordinator's plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// How it is taken.
    pub mode: SnapshotMode,
    /// Whether it is a savepoint.
    pub savepoint: bool,
    /// The lowest undecided id when it is triggered.
    pub oldest_pending: u64,
}

/// What may happen beside barriers being sent and elements being taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alphabet {
    /// Where records stand.
    pub records: Records,
    /// Where cancel markers come.
    pub cancels: Cancels,
    /// Producers leave out checkpoints of which they never heard.
    pub skips: bool,
    /// Channels end.
    pub ends: bool,
    /// Timeouts pass.
    pub timeouts: bool,
    /// The coordinator's aborts come by message.
    pub aborts: bool,
    /// Triggers come by message.
    pub triggers: bool,
    /// Barriers may have become unaligned upstream.
    pub upgrades: bool,
    /// Aborts and timeouts come even if the task is through with their checkpoint.
    pub strays: bool,
    /// Announcements are delivered late, instead of at once.
    pub late: bool,
}

/// Where records stand in a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Records {
    /// One at the beginning and one right behind each barrier, taken together with the barrier or end that follows.
    /// As telling as [`Self::UpToOne`], because a handler doesn't see records, with a fifth of the states.
    Fixed,
    /// None or one between barriers.
    UpToOne,
}

/// Where cancel markers come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancels {
    /// Nowhere.
    Never,
    /// In the place of a barrier, once all lower ones were sent.
    InPlace,
    /// Also ahead of lower barriers, and behind the barrier itself.
    Anywhere,
}

impl Alphabet {
    /// Everything but late announcements.
    pub const ALL: Self = Self {
        records: Records::Fixed,
        cancels: Cancels::Anywhere,
        skips: true,
        ends: true,
        timeouts: true,
        aborts: true,
        triggers: true,
        upgrades: true,
        strays: true,
        late: false,
    };

    /// Records and barriers alone.
    pub const BARRIERS: Self = Self {
        records: Records::Fixed,
        cancels: Cancels::Never,
        skips: false,
        ends: false,
        timeouts: false,
        aborts: false,
        triggers: false,
        upgrades: false,
        strays: false,
        late: false,
    };
}

/// One small world to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The task's channels.
    pub kinds: Vec<EdgeKind>,
    /// The checkpoints, from id 1.
    pub plans: Vec<Plan>,
    /// What may happen.
    pub alphabet: Alphabet,
}

/// What a search came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Different states.
    pub states: u64,
    /// Steps from one to another.
    pub steps: u64,
    /// States in which nothing can happen any more.
    pub ends: u64,
    /// Checkpoints that completed, over all end states.
    pub completed: u64,
}

impl Figures {
    /// Adds another search's.
    pub fn add(&mut self, other: Self) {
        self.states += other.states;
        self.steps += other.steps;
        self.ends += other.ends;
        self.completed += other.completed;
    }
}

/// A violation with the steps that lead to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counterexample {
    /// What must not happen and does.
    pub violation: Violation,
    /// From the beginning.
    pub steps: Vec<Step>,
    /// In which world.
    pub setup: Setup,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\nin {:?}\nafter", self.violation, self.setup)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step:?}"))
    }
}

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
struct World {
    model: Model,
    producers: Vec<Producer>,
    timed_out: IdSet,
    aborted: IdSet,
    triggered: IdSet,
}

/// Visits every state that the setup allows.
///
/// # Errors
/// The first violation found, with the steps to it.
pub fn search(setup: &Setup) -> Result<Figures, Box<Counterexample>> {
    let mut walk = Walk {
        setup,
        visited: Visited::default(),
        path: Vec::new(),
        figures: Figures::default(),
    };
    let world = World::new(setup);
    walk.visited.insert(world.fingerprint());
    walk.figures.states = 1;
    walk.from(&world)?;
    Ok(walk.figures)
}

/// A fingerprint is as good as its own hash.
#[derive(Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("fingerprints are hashed as u64")
    }

    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }
}

type Visited = HashSet<u64, BuildHasherDefault<Itself>>;

struct Walk<'a> {
    setup: &'a Setup,
    visited: Visited,
    path: Vec<Step>,
    figures: Figures,
}

impl Walk<'_> {
    /// Depth first. As deep as a history is long: every channel sends a bounded number of elements, each of which is
    /// announced and taken once.
    fn from(&mut self, world: &World) -> Result<(), Box<Counterexample>> {
        let mut steps = Vec::new();
        world.steps(self.setup, &mut steps);
        if steps.is_empty() {
            self.figures.ends += 1;
            self.figures.completed += world.model.fates().complete.iter().count() as u64;
        }
        if let Err(violation) = world.check_settled(&steps) {
            return Err(self.counterexample(violation));
        }
        for step in steps {
            let mut next = world.clone();
            self.path.push(step);
            self.figures.steps += 1;
            if let Err(violation) = next.take(self.setup, step) {
                return Err(self.counterexample(violation));
            }
            if self.visited.insert(next.fingerprint()) {
                self.figures.states += 1;
                self.from(&next)?;
            }
            self.path.pop();
        }
        Ok(())
    }

    fn counterexample(&self, violation: Violation) -> Box<Counterexample> {
        Box::new(Counterexample {
            violation,
            steps: self.path.clone(),
            setup: self.setup.clone(),
        })
    }
}

impl Setup {
    /// The barrier of a checkpoint as the coordinator triggers it.
    pub fn barrier(&self, id: CheckpointId) -> Barrier {
        let plan = self.plans[id.0 as usize - 1];
        Barrier {
            id,
            oldest_pending: CheckpointId(plan.oldest_pending),
            kind: match plan.savepoint {
                true => CheckpointKind::Savepoint {
                    format: SavepointFormat::Canonical,
                    stop: false,
                },
                false => CheckpointKind::Checkpoint,
            },
            mode: plan.mode,
            age: Duration::ZERO,
            epoch: LeaderEpoch(1),
            base: None,
        }
    }

    fn ids(&self) -> impl Iterator<Item = CheckpointId> + use<> {
        (1..=self.plans.len() as u64).map(CheckpointId)
    }

    /// Whether its barriers may have been made unaligned upstream: by their own timeout, or by a higher unaligned
    /// checkpoint.
    fn may_upgrade(&self, id: CheckpointId) -> bool {
        let plan = self.plans[id.0 as usize - 1];
        match plan.mode {
            SnapshotMode::Adaptive { .. } => true,
            SnapshotMode::Aligned => {
                !plan.savepoint
                    && self.plans[id.0 as usize..].iter().any(|p| match p.mode {
                        SnapshotMode::Adaptive { .. } | SnapshotMode::Unaligned => true,
                        SnapshotMode::Aligned | SnapshotMode::AtLeastOnce | SnapshotMode::Quiesce { .. } => {
                            false
                        }
                    })
            }
            SnapshotMode::Unaligned | SnapshotMode::AtLeastOnce | SnapshotMode::Quiesce { .. } => false,
        }
    }
}

impl World {
    fn new(setup: &Setup) -> Self {
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

    fn fingerprint(&self) -> u64 {
        let mut state = Fingerprint::default();
        let model = self.model.fingerprint(|at, state| self.producers[at].hash(state));
        (model, self.timed_out, self.aborted, self.triggered).hash(&mut state);
        state.finish()
    }

    fn steps(&self, setup: &Setup, out: &mut Vec<Step>) {
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

    fn take(&mut self, setup: &Setup, step: Step) -> Result<(), Violation> {
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
    fn check_settled(&self, steps: &[Step]) -> Result<(), Violation> {
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
