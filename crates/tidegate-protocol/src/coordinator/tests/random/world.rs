//! A job, its store and its leaders.

use tidegate_types::{AttemptNumber, CheckpointId, JobId, LeaderEpoch, Nanos, SubtaskId};

use super::checks::{Object, Store, check};
use super::draw::{channels, draw_plan, draw_settings};
use super::leader::Leader;
use super::rng::Rng;
use super::seen::Summary;
use super::task::Task;
use crate::coordinator::*;
use crate::message::ToTask;

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) now: Nanos,
    pub(super) plan: Plan,
    pub(super) settings: CoordinatorSettings,
    pub(super) store: Store,
    pub(super) tasks: Vec<Task>,
    pub(super) leaders: Vec<Leader>,
    pub(super) attempt: AttemptNumber,
    pub(super) faults: bool,
    pub(super) requests: u64,
    pub(super) summary: Summary,
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

    pub(super) fn current(&self) -> usize {
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
    pub(super) fn deploy(&mut self) {
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
    pub(super) fn take_over(&mut self) {
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
        // Only the same process has the history of the attempt before.
        let before = self.leaders.last().filter(|_| claim.highest_used.is_some());
        let history = before.map(|before| before.c.clone().into_history());
        let c = Coordinator::new(self.settings.clone(), self.plan.clone(), identity, mode, history);
        self.leaders.push(Leader::new(epoch, c));
        self.tell(self.current(), CoordinatorEvent::Claimed(claim));
    }

    /// Tells a leader something and carries out what it wants.
    pub(super) fn tell(&mut self, l: usize, event: CoordinatorEvent) {
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
                let sections = Vec::new();
                let good = CoordinatorEvent::EnumeratorsSnapshotted { id, sections };
                let error = String::new();
                self.answer_one_of(l, 30, good, CoordinatorEvent::EnumeratorsFailed { id, error });
            }
            CoordinatorAction::RestoreEnumerators { .. } => {
                leader.answers.push(CoordinatorEvent::EnumeratorsRestored);
            }
            CoordinatorAction::ExternalPhase { id } => {
                self.summary.saw("external phase");
                let sections = Vec::new();
                let good = CoordinatorEvent::ExternalPhaseDone { id, sections };
                let error = String::new();
                self.answer_one_of(l, 10, good, CoordinatorEvent::ExternalPhaseFailed { id, error });
            }
            CoordinatorAction::CopySavepoint { id, .. } => {
                let good = CoordinatorEvent::SavepointCopied {
                    id,
                    path: format!("/save/{id}"),
                };
                let error = String::new();
                self.answer_one_of(l, 10, good, CoordinatorEvent::SavepointCopyFailed { id, error });
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

    /// The good answer, or with faults the bad one, once in `n`.
    fn answer_one_of(&mut self, l: usize, n: u64, good: CoordinatorEvent, bad: CoordinatorEvent) {
        let fails = self.faults && self.rng.one_in(n);
        self.leaders[l].answers.push(if fails { bad } else { good });
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
            // Nobody says the others again.
            let may_be_lost = matches!(
                message,
                ToTask::Trigger(_) | ToTask::Aborted { .. } | ToTask::Completed { .. } | ToTask::Reoffer
            );
            if !(self.faults && may_be_lost && self.rng.one_in(25)) {
                task.inbox.push_back((epoch, message.clone()));
            }
        }
    }
}
