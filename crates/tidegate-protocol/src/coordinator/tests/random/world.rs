//! A job, its store and its leaders, moved by a seeded choice of what happens next.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_types::{
    AttemptNumber, CheckpointId, CheckpointKind, JobId, LeaderEpoch, Nanos, Parallelism, SavepointFormat,
    SnapshotMode, SubtaskId, SubtaskIndex,
};

use super::super::rig::{edge, ms, vertex};
use super::checks::{Object, Store, check};
use super::leader::Leader;
use super::rng::Rng;
use super::task::{State, Task, Upstream};
use crate::coordinator::last::Ending;
use crate::coordinator::*;
use crate::message::{DeclineReason, FromTask, ToTask};

/// How much happens with faults.
const FAULTY_STEPS: usize = 400;
/// Within how many steps without faults the job must have got where it is going. A few hundred are usual.
const BOUND: usize = 20_000;

/// What runs have seen; a test whose runs see little tests little.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Summary {
    counts: BTreeMap<&'static str, u64>,
}

impl Summary {
    pub(super) fn add(&mut self, other: &Self) {
        for (what, count) in &other.counts {
            *self.counts.entry(what).or_default() += count;
        }
    }

    fn saw(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(super) fn is_rich(&self) -> bool {
        let all = [
            "complete",
            "aborted",
            "foreign",
            "unclear",
            "unclear but complete",
            "takeover",
            "deploy",
            "job failed",
            "savepoint",
            "suspended",
            "drained",
            "waited",
            "external phase",
            "late files",
            "retired",
            "closed",
            "subsumed",
            "expired",
        ];
        all.iter()
            .all(|what| self.counts.get(what).is_some_and(|count| *count >= 20))
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    ToTask(usize),
    FromTask(usize),
    Cut(usize),
    GiveUp(usize),
    Write(usize),
    End(usize),
    Store(usize),
    Answer(usize),
    Commit(usize),
    Time,
    Ask,
    RunDry(usize),
    Replace,
    Stop,
}

pub(super) struct World {
    rng: Rng,
    now: Nanos,
    plan: Plan,
    settings: CoordinatorSettings,
    store: Store,
    tasks: Vec<Task>,
    leaders: Vec<Leader>,
    attempt: AttemptNumber,
    faults: bool,
    requests: u64,
    summary: Summary,
}

/// Who has a channel to whom, as (producer, consumer).
pub(super) fn channels(plan: &Plan) -> Vec<(SubtaskId, SubtaskId)> {
    let parallelism = |id| {
        let found = plan.vertices().iter().find(|vertex| vertex.id == id);
        found.map_or(Parallelism(0), |vertex| vertex.parallelism)
    };
    let mut channels = Vec::new();
    for edge in plan.edges() {
        let (from, to) = (parallelism(edge.from), parallelism(edge.to));
        for consumer in 0..to.0 {
            let producers = match edge.pattern {
                EdgePattern::AllToAll => 0..from.0,
                EdgePattern::Pointwise => pointwise_producers(SubtaskIndex(consumer), from, to),
            };
            let consumer = SubtaskId::new(edge.to, SubtaskIndex(consumer));
            channels.extend(producers.map(|p| (SubtaskId::new(edge.from, SubtaskIndex(p)), consumer)));
        }
    }
    channels
}

fn draw_plan(rng: &mut Rng) -> Plan {
    let p = |rng: &mut Rng| 1 + rng.below(3) as u32;
    let pattern = |rng: &mut Rng| rng.pick(&[EdgePattern::AllToAll, EdgePattern::Pointwise]);
    let (vertices, pairs): (u32, &[(u32, u32)]) = rng.pick(&[
        (1, &[][..]),
        (2, &[(0, 1)][..]),
        (3, &[(0, 1), (1, 2)][..]),
        (3, &[(0, 2), (1, 2)][..]),
        (4, &[(0, 1), (2, 3)][..]),
        (4, &[(0, 1), (0, 2), (1, 3), (2, 3)][..]),
        (5, &[(0, 1), (1, 2), (3, 4)][..]),
    ]);
    let vertices = (0..vertices).map(|v| vertex(v, "v", p(rng))).collect();
    let edges = pairs
        .iter()
        .map(|(from, to)| edge(*from, *to, pattern(rng)))
        .collect();
    Plan::new(vertices, edges).expect("the shapes are graphs")
}

fn draw_settings(rng: &mut Rng) -> CoordinatorSettings {
    let max_concurrent = rng.pick(&[1, 1, 2, 3]);
    let min_pause = if max_concurrent == 1 {
        rng.pick(&[0, 0, 700])
    } else {
        0
    };
    CoordinatorSettings {
        interval: rng.pick(&[Some(ms(1000)), Some(ms(1000)), Some(ms(100)), None]),
        timeout: ms(rng.pick(&[50, 2000, 60_000])),
        min_pause: ms(min_pause),
        max_concurrent,
        tolerable_failures: rng.pick(&[0, 3, u32::MAX, u32::MAX]),
        mode: rng.pick(&[
            SnapshotMode::Aligned,
            SnapshotMode::Unaligned,
            SnapshotMode::Adaptive { timeout: ms(50) },
            SnapshotMode::AtLeastOnce,
            SnapshotMode::Quiesce { limit: ms(500) },
        ]),
        num_retained: rng.pick(&[1, 1, 3]),
        after_tasks_finish: !rng.one_in(5),
        storage: true,
        history_size: 10,
        trace: rng.one_in(4),
    }
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let (plan, settings) = (draw_plan(&mut rng), draw_settings(&mut rng));
        let mut world = Self {
            rng,
            now: Nanos(0),
            plan,
            settings,
            store: Store::default(),
            tasks: Vec::new(),
            leaders: Vec::new(),
            attempt: AttemptNumber(0),
            faults: true,
            requests: 0,
            summary: Summary::default(),
        };
        world.deploy();
        world
    }

    pub(super) fn summary(self) -> Summary {
        self.summary
    }

    fn current(&self) -> usize {
        self.leaders.len() - 1
    }

    /// What a claim does to the store; the epoch is the id that was claimed.
    fn claim(&mut self) -> (LeaderEpoch, Claim) {
        let newest = self
            .store
            .newest_complete()
            .map(|(id, content)| (id, content.kind, content.retained.clone()));
        let mut id = newest.as_ref().map_or(CheckpointId(1), |(id, ..)| id.next());
        while self.store.objects.contains_key(&id) {
            id = id.next();
        }
        let epoch = LeaderEpoch(id.0);
        self.store.objects.insert(id, Object { epoch, content: None });
        let claim = Claim {
            newest: newest
                .as_ref()
                .map(|(id, kind, _)| NewestComplete { id: *id, kind: *kind }),
            retained: newest.map(|(.., retained)| retained).unwrap_or_default(),
            next_id: id.next(),
            highest_used: None,
            restored: None,
        };
        (epoch, claim)
    }

    /// All tasks anew, under a new leadership.
    fn deploy(&mut self) {
        self.summary.saw("deploy");
        self.attempt = AttemptNumber(self.attempt.0 + 1);
        let (epoch, mut claim) = self.claim();
        // The same process knows which ids it has given out; another one doesn't, and needn't.
        if let Some(before) = self.leaders.last()
            && self.rng.one_in(2)
        {
            claim.highest_used = Some(CheckpointId(before.c.next_id().0 - 1));
        }
        let channels = channels(&self.plan);
        let ids: Vec<_> = self.plan.subtasks().collect();
        let sinks = self.rng.one_in(4);
        self.tasks = ids
            .iter()
            .map(|id| {
                let producers: Vec<_> = channels
                    .iter()
                    .filter(|(_, consumer)| consumer == id)
                    .map(|(producer, _)| *producer)
                    .collect();
                let at = |producer| {
                    ids.iter()
                        .position(|other| *other == producer)
                        .expect("it is in the plan")
                };
                let last = !channels.iter().any(|(producer, _)| producer == id);
                let sink = !sinks && (last || self.rng.one_in(6));
                Task::new(
                    *id,
                    producers.into_iter().map(at).collect(),
                    sink,
                    epoch,
                    self.attempt,
                )
            })
            .collect();
        self.lead(epoch, StartMode::Deploy, claim);
    }

    /// The tasks run on; another leadership takes them over.
    fn take_over(&mut self) {
        self.summary.saw("takeover");
        let (epoch, claim) = self.claim();
        self.lead(epoch, StartMode::Takeover, claim);
    }

    fn lead(&mut self, epoch: LeaderEpoch, mode: StartMode, claim: Claim) {
        let identity = Identity {
            job: JobId::from("job"),
            epoch,
            attempt: self.attempt,
        };
        let history = self.leaders.last().map(|before| before.c.history().clone());
        let c = Coordinator::new(self.settings.clone(), self.plan.clone(), identity, mode, history);
        self.leaders.push(Leader::new(epoch, c));
        self.tell(self.current(), CoordinatorEvent::Claimed(claim));
    }

    /// Tells a leader something and carries out what it wants.
    fn tell(&mut self, l: usize, event: CoordinatorEvent) {
        let leader = &mut self.leaders[l];
        let deposed = leader.c.is_deposed();
        let actions = leader.c.on_event(self.now, event);
        for action in actions {
            check(
                &action,
                &mut self.leaders[l],
                &self.store,
                &self.settings,
                self.now,
            );
            assert!(
                !deposed || matches!(action, CoordinatorAction::Answer { .. }),
                "deposed, and wants {action:?}"
            );
            self.carry_out(l, action);
        }
        if !self.leaders[l].c.is_deposed() {
            let asked = &self.leaders[l].asked;
            let open = asked.difference(&self.leaders[l].answered).count();
            assert!(open <= 64, "requests pile up");
        }
    }

    fn carry_out(&mut self, l: usize, action: CoordinatorAction) {
        let current = self.current();
        let leader = &mut self.leaders[l];
        match action {
            CoordinatorAction::Send { to, message } => self.send(l, &to, &message),
            CoordinatorAction::SnapshotEnumerators { id } => {
                if l == current {
                    let seen = self.tasks.iter().find(|task| task.seen >= id);
                    assert!(seen.is_none(), "{id} has been seen by {seen:?}");
                }
                let failed = self.faults && self.rng.one_in(30);
                leader.answers.push(if failed {
                    CoordinatorEvent::EnumeratorsFailed {
                        id,
                        error: String::new(),
                    }
                } else {
                    CoordinatorEvent::EnumeratorsSnapshotted {
                        id,
                        sections: Vec::new(),
                    }
                });
            }
            CoordinatorAction::RestoreEnumerators { .. } => {
                leader.answers.push(CoordinatorEvent::EnumeratorsRestored);
            }
            CoordinatorAction::ExternalPhase { id } => {
                self.summary.saw("external phase");
                let failed = self.faults && self.rng.one_in(10);
                leader.answers.push(if failed {
                    CoordinatorEvent::ExternalPhaseFailed {
                        id,
                        error: String::new(),
                    }
                } else {
                    CoordinatorEvent::ExternalPhaseDone {
                        id,
                        sections: Vec::new(),
                    }
                });
            }
            CoordinatorAction::CopySavepoint { id, .. } => {
                let failed = self.faults && self.rng.one_in(10);
                leader.answers.push(if failed {
                    CoordinatorEvent::SavepointCopyFailed {
                        id,
                        error: String::new(),
                    }
                } else {
                    CoordinatorEvent::SavepointCopied {
                        id,
                        path: format!("/save/{id}"),
                    }
                });
            }
            CoordinatorAction::WriteDecision { id, decision } => leader.writes.push((id, decision)),
            CoordinatorAction::Commit { id, .. } => {
                leader.commits.insert(id);
            }
            CoordinatorAction::FailJob(_) => {
                self.summary.saw("job failed");
                leader.failed_job = true;
            }
            CoordinatorAction::Close => {
                self.summary.saw("closed");
                leader.closed = true;
            }
            CoordinatorAction::DiscardSnapshot { .. } => self.summary.saw("late files"),
            CoordinatorAction::Retire { .. } => self.summary.saw("retired"),
            CoordinatorAction::StepDown { .. } => self.summary.saw("foreign"),
            CoordinatorAction::Trace(event) => self.note(&event),
            CoordinatorAction::DeleteFiles { .. }
            | CoordinatorAction::DiscardSavepoint { .. }
            | CoordinatorAction::Answer { .. } => {}
        }
    }

    fn note(&mut self, event: &TraceEvent) {
        match &event.step {
            TraceStep::Failed(FailureReason::Subsumed) => self.summary.saw("subsumed"),
            TraceStep::Failed(FailureReason::Expired) => self.summary.saw("expired"),
            _ => {}
        }
        assert!(!event.to_string().is_empty());
    }

    fn send(&mut self, l: usize, to: &[SubtaskId], message: &ToTask) {
        let epoch = self.leaders[l].epoch;
        for task in self.tasks.iter_mut().filter(|task| to.contains(&task.id)) {
            let may_be_lost = match message {
                ToTask::Trigger(_) | ToTask::Aborted { .. } | ToTask::Completed { .. } | ToTask::Reoffer => {
                    true
                }
                // Nobody says these again.
                _ => false,
            };
            if !(self.faults && may_be_lost && self.rng.one_in(25)) {
                task.inbox.push_back((epoch, message.clone()));
            }
        }
    }

    fn upstream(&self, t: usize) -> Vec<Upstream<'_>> {
        let of = |producer: &usize| {
            let producer = &self.tasks[*producer];
            Upstream {
                cut: &producer.cut,
                cancelled: &producer.cancelled,
                ended: producer.has_ended(),
            }
        };
        self.tasks[t].producers.iter().map(of).collect()
    }

    /// What can happen next without a fault and without time passing.
    fn enabled(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (t, task) in self.tasks.iter().enumerate() {
            let upstream = self.upstream(t);
            let may = [
                (Step::ToTask(t), !task.inbox.is_empty()),
                (
                    Step::FromTask(t),
                    !task.outbox.is_empty() || task.state == State::Starting,
                ),
                (Step::Cut(t), task.next_cut(&upstream).is_some()),
                (Step::GiveUp(t), task.next_cancel(&upstream).is_some()),
                (Step::Write(t), task.is_writing()),
                (Step::End(t), task.may_end(&upstream)),
            ];
            steps.extend(may.into_iter().filter(|(_, may)| *may).map(|(step, _)| step));
        }
        for (l, leader) in self.leaders.iter().enumerate() {
            let may = [
                (Step::Store(l), !leader.writes.is_empty()),
                (Step::Answer(l), !leader.answers.is_empty()),
                (Step::Commit(l), !leader.commits.is_empty()),
            ];
            steps.extend(may.into_iter().filter(|(_, may)| *may).map(|(step, _)| step));
        }
        steps
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::ToTask(t) => {
                if let Some((epoch, message)) = self.tasks[t].inbox.pop_front() {
                    self.tasks[t].hear(epoch, message);
                }
            }
            Step::FromTask(t) => self.from_task(t),
            Step::Cut(t) => {
                if let Some((id, kind, mode)) = self.tasks[t].next_cut(&self.upstream(t)) {
                    if self.faults && self.rng.one_in(40) {
                        let reason = self
                            .rng
                            .pick(&[DeclineReason::PrepareRefused, DeclineReason::NotReady]);
                        self.tasks[t].cancel(id, reason);
                    } else {
                        self.tasks[t].cut(id, kind, mode);
                    }
                }
            }
            Step::GiveUp(t) => {
                if let Some(id) = self.tasks[t].next_cancel(&self.upstream(t)) {
                    self.tasks[t].cancel(id, DeclineReason::CancelMarker);
                }
            }
            Step::Write(t) => {
                let fails = self.faults && self.rng.one_in(30);
                self.tasks[t].write(&mut self.rng, fails);
            }
            Step::End(t) => {
                if self.tasks[t].sink {
                    self.summary.saw("waited");
                }
                self.tasks[t].end();
            }
            Step::Store(l) => self.write(l),
            Step::Answer(l) => self.answer(l),
            Step::Commit(l) => {
                if let Some(id) = self.leaders[l].commits.pop_first() {
                    self.leaders[l].answers.push(CoordinatorEvent::Committed { id });
                }
            }
            Step::Time => self.pass_time(),
            Step::Ask => self.ask(),
            Step::RunDry(t) => self.tasks[t].ends = true,
            Step::Replace => {
                if self.rng.one_in(2) && self.tasks.iter().all(|task| task.state != State::Starting) {
                    self.take_over();
                } else {
                    self.deploy();
                }
            }
            Step::Stop => {
                let discard_retained = self.rng.one_in(2);
                self.tell(self.current(), CoordinatorEvent::Stop { discard_retained });
            }
        }
    }

    fn from_task(&mut self, t: usize) {
        if self.tasks[t].state == State::Starting {
            self.tasks[t].state = State::Running;
            self.tasks[t].say(FromTask::Running);
            return;
        }
        let Some(envelope) = self.tasks[t].outbox.pop_front() else {
            return;
        };
        let may_be_lost = match envelope.body {
            FromTask::Acknowledged { .. }
            | FromTask::Declined { .. }
            | FromTask::AwaitingLastCheckpoint
            | FromTask::StillRunning { .. } => true,
            _ => false,
        };
        if self.faults && may_be_lost && self.rng.one_in(20) {
            return;
        }
        if self.faults && self.rng.one_in(20) {
            self.tasks[t].outbox.push_back(envelope.clone());
        }
        // Everybody hears it; who it isn't for ignores it.
        for l in 0..self.leaders.len() {
            self.tell(l, CoordinatorEvent::FromTask(envelope.clone()));
        }
    }

    /// The store carries out a write, well, not at all, or without saying so.
    fn write(&mut self, l: usize) {
        let Some((id, decision)) = self.leaders[l].writes.pop() else {
            return;
        };
        let epoch = self.leaders[l].epoch;
        let how = if self.faults { self.rng.below(10) } else { 9 };
        let error = String::new;
        if how == 0 {
            let outcome = DecisionOutcome::Failed { error: error() };
            return self.leaders[l]
                .answers
                .push(CoordinatorEvent::DecisionWritten { id, outcome });
        }
        let unclear_before = self
            .store
            .objects
            .get(&id)
            .is_some_and(|object| object.epoch == epoch);
        let object = self.store.objects.entry(id).or_insert_with(|| Object {
            epoch,
            content: match decision {
                Decision::Complete(content) => Some(*content),
                Decision::Aborted(_) => None,
            },
        });
        let outcome = if object.epoch == epoch {
            DecisionOutcome::Mine(object.verdict())
        } else {
            DecisionOutcome::Foreign
        };
        let complete = object.content.as_ref().map(|content| content.kind);
        let outcome = if how == 1 {
            self.summary.saw("unclear");
            DecisionOutcome::Failed { error: error() }
        } else {
            match complete {
                Some(kind) => {
                    self.summary.saw("complete");
                    if unclear_before {
                        self.summary.saw("unclear but complete");
                    }
                    match kind {
                        CheckpointKind::Checkpoint => {}
                        CheckpointKind::Savepoint { stop: true, .. } => self.summary.saw("suspended"),
                        CheckpointKind::Savepoint { stop: false, .. } => self.summary.saw("savepoint"),
                    }
                }
                None => self.summary.saw("aborted"),
            }
            outcome
        };
        self.leaders[l]
            .answers
            .push(CoordinatorEvent::DecisionWritten { id, outcome });
    }

    fn answer(&mut self, l: usize) {
        let n = self.rng.below(self.leaders[l].answers.len());
        let event = self.leaders[l].answers.remove(n);
        // All but this can be told apart from an answer to what is asked next.
        let failed_write = matches!(
            event,
            CoordinatorEvent::DecisionWritten {
                outcome: DecisionOutcome::Failed { .. },
                ..
            }
        );
        if self.faults && !failed_write && self.rng.one_in(20) {
            self.leaders[l].answers.push(event.clone());
        }
        self.tell(l, event);
    }

    /// To the next timeout, or some other way ahead; tasks say again what they may have said in vain.
    fn pass_time(&mut self) {
        let l = self.current();
        let next = self.leaders[l].c.next_timeout();
        let jump = self.now + Duration::from_millis(1 + self.rng.next() % 3000);
        self.now = match next {
            Some(next) if !self.faults || self.rng.one_in(2) => next,
            Some(_) | None => jump,
        };
        for task in self.tasks.iter_mut().filter(|task| task.outbox.is_empty()) {
            task.offer_again();
        }
        for l in 0..self.leaders.len() {
            if l == self.current() || self.rng.one_in(3) {
                self.tell(l, CoordinatorEvent::Timeout);
            }
        }
    }

    fn ask(&mut self) {
        let order = |rng: &mut Rng| SavepointOrder {
            format: rng.pick(&[SavepointFormat::Canonical, SavepointFormat::Native]),
            target: None,
            unaligned: rng.one_in(3),
        };
        let savepoint = order(&mut self.rng);
        let maybe = if self.rng.one_in(2) {
            Some(savepoint.clone())
        } else {
            None
        };
        let what = match self.rng.below(9) {
            0..3 => Request::Checkpoint {
                full: self.rng.one_in(2),
            },
            3..6 => Request::Savepoint(savepoint),
            6 | 7 => Request::Suspend { savepoint: maybe },
            _ => Request::Drain { savepoint: maybe },
        };
        self.request(what);
    }

    fn request(&mut self, what: Request) -> RequestId {
        let request = RequestId(self.requests);
        self.requests += 1;
        let l = self.current();
        self.leaders[l].asked.insert(request);
        self.tell(l, CoordinatorEvent::Request { request, what });
        request
    }

    pub(super) fn with_faults(&mut self) {
        for _ in 0..FAULTY_STEPS {
            let mut steps = self.enabled();
            // Now and then time passes though something could still happen.
            if steps.is_empty() || self.rng.one_in(12) {
                steps = vec![Step::Time];
            }
            match self.rng.below(200) {
                0..3 => steps = vec![Step::Ask],
                3 => steps = vec![Step::RunDry(self.rng.below(self.tasks.len()))],
                4 => steps = vec![Step::Replace],
                5 if self.rng.one_in(4) => steps = vec![Step::Stop],
                _ => {}
            }
            let step = self.rng.pick(&steps);
            self.take(step);
        }
    }

    fn is_over(&self) -> bool {
        let leader = &self.leaders[self.current()];
        let stopping = leader.c.is_drained() || leader.closed;
        leader.failed_job
            || stopping
            || !matches!(
                leader.c.phase,
                Phase::Adopting(_) | Phase::RestoringEnumerators | Phase::Active
            )
    }

    /// Runs without faults until `done`; a job that still fails for what happened before is started again.
    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..BOUND {
            if self.is_over() {
                self.deploy();
                continue;
            }
            if done(self) {
                return;
            }
            let steps = self.enabled();
            let step = if steps.is_empty() {
                Step::Time
            } else {
                self.rng.pick(&steps)
            };
            self.take(step);
        }
        let leader = &self.leaders[self.current()];
        panic!(
            "{what}: no end in {BOUND} steps\n{:#?}\n{:#?}",
            leader.c, self.tasks
        );
    }

    fn until_running(&mut self) {
        self.until("start", |world| {
            let running = world.tasks.iter().all(|task| task.state != State::Starting);
            let leader = &world.leaders[world.current()];
            running && leader.c.phase == Phase::Active && leader.c.tasks.all_started()
        });
    }

    /// The liveness half: a checkpoint completes, then the job drains, then everything it was asked is answered.
    pub(super) fn without_faults(&mut self) {
        self.faults = false;
        self.until_running();
        let before = self.store.newest_complete().map(|(id, _)| id);
        let goes_on = |world: &Self| world.store.newest_complete().map(|(id, _)| id) > before;
        let gone = |world: &Self| world.tasks.iter().all(|task| task.state == State::Gone);
        let ending =
            |world: &Self| world.tasks.iter().any(Task::has_ended) && !world.settings.after_tasks_finish;
        let through = |world: &Self| goes_on(world) || gone(world) || ending(world);
        // What the faults left behind can fail some more (`aborted` is tried again after a second, and the shortest
        // timeout is a twentieth of that); without an interval nobody else asks again.
        self.until("suspension", |world| {
            world.leaders[world.current()].c.ending != Ending::Suspending
        });
        for _ in 0..40 {
            self.until_running();
            if through(self) {
                break;
            }
            let request = self.request(Request::Checkpoint { full: false });
            self.until("checkpoint", |world| {
                let leader = &world.leaders[world.current()];
                through(world) || !leader.asked.contains(&request) || leader.answered.contains(&request)
            });
        }
        self.until("checkpoint", |world| {
            let asked_only = world.settings.interval.is_none();
            through(world) || (asked_only && world.leaders[world.current()].c.ending == Ending::Not)
        });
        let history = self.leaders[self.current()].c.history();
        assert!(
            through(self),
            "many requests in a row failed: {:#?}",
            history.recent().collect::<Vec<_>>()
        );
        let savepoint = SavepointOrder {
            format: SavepointFormat::Native,
            target: None,
            unaligned: false,
        };
        let savepoint = if self.rng.one_in(2) { Some(savepoint) } else { None };
        loop {
            let l = self.current();
            // A suspension under way is refused nothing: it ends the job, or fails and lets it be drained.
            self.until("suspension", |world| {
                let current = world.current();
                current != l || world.leaders[current].c.ending != Ending::Suspending
            });
            if self.current() == l {
                self.request(Request::Drain {
                    savepoint: savepoint.clone(),
                });
            }
            self.until("drain", |world| {
                let current = world.current();
                current != l || world.leaders[current].c.is_finished()
            });
            if self.current() == l {
                break;
            }
            self.until_running();
        }
        self.summary.saw("drained");
        let leader = &self.leaders[self.current()];
        assert_eq!(leader.asked, leader.answered, "requests without an answer");
        assert!(
            self.tasks
                .iter()
                .all(|task| task.at_rest.is_none() || task.state == State::Gone)
        );
        self.tell(
            self.current(),
            CoordinatorEvent::Stop {
                discard_retained: false,
            },
        );
        assert!(self.leaders[self.current()].c.is_drained());
    }
}
