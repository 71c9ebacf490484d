//! What the coordinator knows of each subtask, and what follows from it: who is to be triggered, who could still end.
//!
//! Owns: the states of the subtasks of one attempt. Does not own: pending checkpoints, messages.
//!
//! A subtask has *ended* when it sends its consumers nothing more: it has finished, or it waits for its last
//! checkpoint, its outputs being closed already. A barrier can come only from a producer that hasn't ended.

use std::collections::BTreeSet;

use tidegate_types::snapshot::SubtaskSnapshot;
use tidegate_types::{CheckpointId, SubtaskId, SubtaskIndex};

use super::plan::{EdgePattern, Plan, pointwise_producers};

/// One subtask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TaskState {
    /// It hasn't said that it runs.
    Deploying,
    /// Records flow.
    Running,
    /// It has sent its end and waits for a checkpoint, for which:
    Awaiting(Covered),
    /// It is gone and left this.
    Finished(SubtaskSnapshot),
}

/// Which checkpoint an awaiting subtask's wait ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Covered {
    /// None was triggered since it waits.
    No,
    /// This one, which is pending.
    By(CheckpointId),
    /// This one, which is complete: the subtask has been told.
    Done(CheckpointId),
}

/// All subtasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tasks {
    plan: Plan,
    /// By vertex position and index.
    states: Vec<Vec<TaskState>>,
    /// By vertex position: subtasks that haven't ended.
    not_ended: Vec<u32>,
    deploying: u32,
    finished: u32,
    awaiting: u32,
}

impl Tasks {
    pub(super) fn new(plan: Plan) -> Self {
        let of = |parallelism: u32| vec![TaskState::Deploying; parallelism as usize];
        Self {
            states: plan
                .vertices()
                .iter()
                .map(|vertex| of(vertex.parallelism.0))
                .collect(),
            not_ended: plan
                .vertices()
                .iter()
                .map(|vertex| vertex.parallelism.0)
                .collect(),
            deploying: plan.vertices().iter().map(|vertex| vertex.parallelism.0).sum(),
            finished: 0,
            awaiting: 0,
            plan,
        }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(super) fn state(&self, subtask: SubtaskId) -> Option<&TaskState> {
        self.states
            .get(self.plan.position(subtask.vertex)?)?
            .get(subtask.index.0 as usize)
    }

    /// Puts a subtask into a state and returns the one before. States only ever go forward.
    pub(super) fn set(&mut self, subtask: SubtaskId, state: TaskState) -> TaskState {
        let position = self
            .plan
            .position(subtask.vertex)
            .expect("the subtask was looked up before");
        let place = &mut self.states[position][subtask.index.0 as usize];
        let before = std::mem::replace(place, state);
        let after = place.clone();
        assert!(
            rank(&before) <= rank(&after) && !matches!(before, TaskState::Finished(_)),
            "{subtask} would go back from {before:?}"
        );
        self.count(&before, position, false);
        self.count(&after, position, true);
        before
    }

    fn count(&mut self, state: &TaskState, position: usize, add: bool) {
        let adjust = |n: &mut u32| if add { *n += 1 } else { *n -= 1 };
        match state {
            TaskState::Deploying => {
                adjust(&mut self.deploying);
                adjust(&mut self.not_ended[position]);
            }
            TaskState::Running => adjust(&mut self.not_ended[position]),
            TaskState::Awaiting(_) => adjust(&mut self.awaiting),
            TaskState::Finished(_) => adjust(&mut self.finished),
        }
    }

    /// Whether every subtask has run.
    pub(super) fn all_started(&self) -> bool {
        self.deploying == 0
    }

    pub(super) fn all_finished(&self) -> bool {
        self.finished as usize == self.plan.subtask_count()
    }

    pub(super) fn any_finished(&self) -> bool {
        self.finished > 0
    }

    pub(super) fn all_ended(&self) -> bool {
        self.not_ended.iter().all(|&n| n == 0)
    }

    /// Those that can hear a message.
    pub(super) fn unfinished(&self) -> Vec<SubtaskId> {
        self.select(|state| !matches!(state, TaskState::Finished(_)))
    }

    pub(super) fn deploying(&self) -> Vec<SubtaskId> {
        self.select(|state| matches!(state, TaskState::Deploying))
    }

    /// Those of vertices without inputs that still read.
    pub(super) fn running_sources(&self) -> Vec<SubtaskId> {
        let mut sources = self.select(|state| matches!(state, TaskState::Deploying | TaskState::Running));
        sources.retain(|subtask| self.plan.is_source(subtask.vertex));
        sources
    }

    /// Those that wait for a last checkpoint that isn't complete.
    pub(super) fn uncovered(&self) -> Vec<SubtaskId> {
        self.select(|state| matches!(state, TaskState::Awaiting(Covered::No | Covered::By(_))))
    }

    pub(super) fn finished(&self) -> impl Iterator<Item = (SubtaskId, &SubtaskSnapshot)> {
        self.iter().filter_map(|(subtask, state)| match state {
            TaskState::Finished(snapshot) => Some((subtask, snapshot)),
            TaskState::Deploying | TaskState::Running | TaskState::Awaiting(_) => None,
        })
    }

    /// Those of `among` that no barrier can reach through a channel: they are triggered by message.
    pub(super) fn starters<'a>(
        &'a self,
        among: &'a BTreeSet<SubtaskId>,
    ) -> impl Iterator<Item = SubtaskId> + 'a {
        among.iter().copied().filter(|&subtask| self.is_starter(subtask))
    }

    fn is_starter(&self, subtask: SubtaskId) -> bool {
        let Some(position) = self.plan.position(subtask.vertex) else {
            return false;
        };
        self.plan
            .inputs(position)
            .iter()
            .all(|&(from, pattern)| match pattern {
                EdgePattern::AllToAll => self.not_ended[from] == 0,
                EdgePattern::Pointwise => {
                    let range = self.producers(subtask.index, from, position);
                    self.states[from][range].iter().all(has_ended)
                }
            })
    }

    fn producers(&self, consumer: SubtaskIndex, from: usize, to: usize) -> std::ops::Range<usize> {
        let vertices = self.plan.vertices();
        let range = pointwise_producers(consumer, vertices[from].parallelism, vertices[to].parallelism);
        range.start as usize..range.end as usize
    }

    /// Marks those that wait and aren't covered as covered by `id`.
    pub(super) fn cover(&mut self, id: CheckpointId) {
        self.for_awaiting(|covered| {
            if *covered == Covered::No {
                *covered = Covered::By(id);
            }
        });
    }

    /// What `id` covered is told of its completion, or waits anew. Whether it covered any.
    pub(super) fn uncover(&mut self, id: CheckpointId, complete: bool) -> bool {
        let mut any = false;
        self.for_awaiting(|covered| {
            if *covered == Covered::By(id) {
                *covered = if complete { Covered::Done(id) } else { Covered::No };
                any = true;
            }
        });
        any
    }

    fn for_awaiting(&mut self, mut each: impl FnMut(&mut Covered)) {
        if self.awaiting == 0 {
            return;
        }
        for state in self.states.iter_mut().flatten() {
            match state {
                TaskState::Awaiting(covered) => each(covered),
                TaskState::Deploying | TaskState::Running | TaskState::Finished(_) => {}
            }
        }
    }

    /// Whether anyone waits for a last checkpoint that isn't triggered.
    pub(super) fn any_uncovered(&self) -> bool {
        self.awaiting > 0
            && self
                .iter()
                .any(|(_, state)| *state == TaskState::Awaiting(Covered::No))
    }

    /// Whether a last checkpoint is worth triggering now: in some connected part of the graph a subtask waits for
    /// one, and no other there is about to wait as well (its sources have all ended, it only has to get through
    /// what is queued). Subtasks with a source that still reads may never end; nobody waits for those.
    pub(super) fn wants_last(&self) -> bool {
        if !self.any_uncovered() {
            return false;
        }
        let count = self.plan.vertices().len();
        let (mut waits, mut about_to) = (vec![false; count], vec![false; count]);
        // By position and index: whether nothing comes into the graph before this subtask any more.
        let mut dry: Vec<Vec<bool>> = vec![Vec::new(); count];
        let mut all_dry = vec![false; count];
        for &position in self.plan.order() {
            let component = self.plan.component(position);
            let states = self.states[position].iter().enumerate();
            dry[position] = states
                .map(|(index, state)| match state {
                    TaskState::Finished(_) => true,
                    TaskState::Awaiting(covered) => {
                        waits[component] |= *covered == Covered::No;
                        true
                    }
                    TaskState::Deploying | TaskState::Running => {
                        let fed = self.is_fed(SubtaskIndex(index as u32), position, &dry, &all_dry);
                        about_to[component] |= !fed;
                        !fed
                    }
                })
                .collect();
            all_dry[position] = dry[position].iter().all(|&dry| dry);
        }
        waits
            .iter()
            .zip(&about_to)
            .any(|(&waits, &about_to)| waits && !about_to)
    }

    /// Whether records can still come into the graph and reach this subtask.
    fn is_fed(&self, subtask: SubtaskIndex, position: usize, dry: &[Vec<bool>], all_dry: &[bool]) -> bool {
        let inputs = self.plan.inputs(position);
        inputs.is_empty()
            || inputs.iter().any(|&(from, pattern)| match pattern {
                EdgePattern::AllToAll => !all_dry[from],
                EdgePattern::Pointwise => dry[from][self.producers(subtask, from, position)]
                    .iter()
                    .any(|&dry| !dry),
            })
    }

    fn select(&self, wanted: impl Fn(&TaskState) -> bool) -> Vec<SubtaskId> {
        let mut selected: Vec<_> = self
            .iter()
            .filter(|(_, state)| wanted(state))
            .map(|(subtask, _)| subtask)
            .collect();
        selected.sort_unstable();
        selected
    }

    fn iter(&self) -> impl Iterator<Item = (SubtaskId, &TaskState)> {
        self.plan
            .vertices()
            .iter()
            .zip(&self.states)
            .flat_map(|(vertex, states)| {
                let ids = (0u32..).map(|index| SubtaskId::new(vertex.id, SubtaskIndex(index)));
                ids.zip(states)
            })
    }
}

fn rank(state: &TaskState) -> u8 {
    match state {
        TaskState::Deploying => 0,
        TaskState::Running => 1,
        TaskState::Awaiting(_) => 2,
        TaskState::Finished(_) => 3,
    }
}

fn has_ended(state: &TaskState) -> bool {
    match state {
        TaskState::Deploying | TaskState::Running => false,
        TaskState::Awaiting(_) | TaskState::Finished(_) => true,
    }
}
