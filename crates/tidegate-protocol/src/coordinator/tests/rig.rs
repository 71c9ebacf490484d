//! A coordinator with its surroundings played by the test.

use std::time::Duration;

use bytes::Bytes;
use tidegate_types::snapshot::{
    Encoding, Location, Section, SectionHead, SectionKind, SubtaskSnapshot, SubtaskStats,
};
use tidegate_types::{
    AttemptNumber, Barrier, CheckpointId, CheckpointKind, EdgeKind, JobId, LeaderEpoch, MaxParallelism,
    Nanos, OperatorUid, Parallelism, SavepointFormat, SnapshotMode, SubtaskId, SubtaskIndex, VertexId,
};

use crate::coordinator::*;
use crate::message::{DeclineReason, Envelope, FromTask, ToTask};

pub(super) const EPOCH: LeaderEpoch = LeaderEpoch(7);

pub(super) struct Rig {
    pub(super) c: Coordinator,
    pub(super) now: Nanos,
}

pub(super) fn id(n: u64) -> CheckpointId {
    CheckpointId(n)
}

pub(super) fn sub(vertex: u32, index: u32) -> SubtaskId {
    SubtaskId::new(VertexId(vertex), SubtaskIndex(index))
}

pub(super) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(super) fn at(n: u64) -> Nanos {
    Nanos(n * 1_000_000)
}

pub(super) fn vertex(v: u32, name: &str, parallelism: u32) -> PlanVertex {
    PlanVertex {
        id: VertexId(v),
        name: name.to_owned(),
        parallelism: Parallelism(parallelism),
        max_parallelism: MaxParallelism(128),
        operators: vec![OperatorUid::new(format!("{name}-op"))],
    }
}

pub(super) fn edge(from: u32, to: u32, pattern: EdgePattern) -> PlanEdge {
    PlanEdge {
        from: VertexId(from),
        to: VertexId(to),
        kind: EdgeKind::Normal,
        pattern,
    }
}

/// source (2) -> hash -> sum (2) -> forward -> sink (2)
pub(super) fn line() -> Plan {
    Plan::new(
        vec![vertex(0, "source", 2), vertex(1, "sum", 2), vertex(2, "sink", 2)],
        vec![
            edge(0, 1, EdgePattern::AllToAll),
            edge(1, 2, EdgePattern::Pointwise),
        ],
    )
    .expect("a line is a graph")
}

/// source (1) -> sink (1)
pub(super) fn pair() -> Plan {
    Plan::new(
        vec![vertex(0, "source", 1), vertex(1, "sink", 1)],
        vec![edge(0, 1, EdgePattern::AllToAll)],
    )
    .expect("a pair is a graph")
}

/// Checkpoints every second.
pub(super) fn every_second() -> CoordinatorSettings {
    CoordinatorSettings {
        interval: Some(ms(1000)),
        mode: SnapshotMode::Aligned,
        timeout: ms(600_000),
        ..CoordinatorSettings::default()
    }
}

pub(super) fn section(path: &str, kind: SectionKind) -> Section {
    Section {
        head: SectionHead {
            uid: OperatorUid::new("op"),
            kind,
            name: String::new(),
            hashes: None,
            encoding: Encoding::Raw,
            shapes: Vec::new(),
            records: 0,
        },
        crc: 0,
        location: Location::File {
            path: path.to_owned(),
            offset: 0,
            len: 10,
        },
    }
}

pub(super) fn inline() -> Section {
    Section {
        location: Location::Inline(Bytes::from_static(b"splits")),
        ..section("", SectionKind::Enumerator)
    }
}

/// What `subtask` stores for `id`: one file of ten bytes.
pub(super) fn snapshot(id: CheckpointId, subtask: SubtaskId) -> SubtaskSnapshot {
    SubtaskSnapshot {
        subtask,
        sections: vec![section(&format!("chk-{id}/{subtask}"), SectionKind::Keyed)],
        finished: false,
    }
}

/// What a finished subtask leaves.
pub(super) fn last_state(subtask: SubtaskId) -> SubtaskSnapshot {
    SubtaskSnapshot {
        subtask,
        sections: Vec::new(),
        finished: true,
    }
}

pub(super) fn order() -> SavepointOrder {
    SavepointOrder {
        format: SavepointFormat::Canonical,
        target: Some("/save".to_owned()),
        unaligned: false,
    }
}

impl Rig {
    /// Not even claimed.
    pub(super) fn new(settings: CoordinatorSettings, plan: Plan) -> Self {
        Self::starting(settings, plan, StartMode::Deploy)
    }

    pub(super) fn starting(settings: CoordinatorSettings, plan: Plan, mode: StartMode) -> Self {
        let identity = Identity {
            job: JobId::from("job"),
            epoch: EPOCH,
            attempt: AttemptNumber(0),
        };
        Self {
            c: Coordinator::new(settings, plan, identity, mode, None),
            now: Nanos(0),
        }
    }

    /// All tasks run, nothing was ever taken.
    pub(super) fn running(settings: CoordinatorSettings, plan: Plan) -> Self {
        let mut rig = Self::new(settings, plan);
        assert_eq!(
            rig.claim(Claim {
                next_id: id(1),
                ..Claim::default()
            }),
            []
        );
        for subtask in rig.all() {
            assert_eq!(rig.say(subtask, FromTask::Running), []);
        }
        rig
    }

    /// The first checkpoint collects: triggers are out.
    pub(super) fn collecting(settings: CoordinatorSettings, plan: Plan) -> Self {
        let mut rig = Self::running(settings, plan);
        rig.after(1000);
        rig.enumerators(1);
        rig
    }

    pub(super) fn all(&self) -> Vec<SubtaskId> {
        self.c.tasks.plan().subtasks().collect()
    }

    pub(super) fn on(&mut self, event: CoordinatorEvent) -> Vec<CoordinatorAction> {
        self.c.on_event(self.now, event)
    }

    pub(super) fn claim(&mut self, claim: Claim) -> Vec<CoordinatorAction> {
        self.on(CoordinatorEvent::Claimed(claim))
    }

    /// Lets time pass, and the timer fire at the end of it.
    pub(super) fn after(&mut self, millis: u64) -> Vec<CoordinatorAction> {
        self.now = self.now + ms(millis);
        self.on(CoordinatorEvent::Timeout)
    }

    pub(super) fn envelope(&self, subtask: SubtaskId, body: FromTask) -> Envelope<FromTask> {
        Envelope {
            job: JobId::from("job"),
            attempt: AttemptNumber(0),
            epoch: EPOCH,
            subtask,
            body,
        }
    }

    pub(super) fn say(&mut self, subtask: SubtaskId, body: FromTask) -> Vec<CoordinatorAction> {
        self.on(CoordinatorEvent::FromTask(self.envelope(subtask, body)))
    }

    pub(super) fn enumerators(&mut self, n: u64) -> Vec<CoordinatorAction> {
        self.on(CoordinatorEvent::EnumeratorsSnapshotted {
            id: id(n),
            sections: vec![inline()],
        })
    }

    pub(super) fn ack(&mut self, n: u64, subtask: SubtaskId) -> Vec<CoordinatorAction> {
        self.ack_with(n, snapshot(id(n), subtask))
    }

    pub(super) fn ack_with(&mut self, n: u64, snapshot: SubtaskSnapshot) -> Vec<CoordinatorAction> {
        let stats = SubtaskStats {
            state_bytes: 10,
            ..SubtaskStats::default()
        };
        self.say(
            snapshot.subtask,
            FromTask::Acknowledged {
                id: id(n),
                snapshot,
                stats,
            },
        )
    }

    /// Acknowledges for everyone; what the last one brings.
    pub(super) fn ack_all(&mut self, n: u64) -> Vec<CoordinatorAction> {
        let missing = self.c.tasks.unfinished();
        let mut last = Vec::new();
        for subtask in missing {
            assert_eq!(last, [], "only the last acknowledgement brings something");
            last = self.ack(n, subtask);
        }
        last
    }

    pub(super) fn decline(
        &mut self,
        n: u64,
        subtask: SubtaskId,
        reason: DeclineReason,
    ) -> Vec<CoordinatorAction> {
        self.say(
            subtask,
            FromTask::Declined {
                id: id(n),
                reason,
                detail: "because".to_owned(),
            },
        )
    }

    pub(super) fn finish(&mut self, subtask: SubtaskId) -> Vec<CoordinatorAction> {
        self.finish_having_seen(subtask, 0)
    }

    pub(super) fn finish_having_seen(
        &mut self,
        subtask: SubtaskId,
        newest_seen: u64,
    ) -> Vec<CoordinatorAction> {
        let body = FromTask::Finished {
            snapshot: last_state(subtask),
            newest_seen: id(newest_seen),
        };
        self.say(subtask, body)
    }

    pub(super) fn wait(&mut self, subtask: SubtaskId) -> Vec<CoordinatorAction> {
        self.say(subtask, FromTask::AwaitingLastCheckpoint)
    }

    pub(super) fn decided(&mut self, n: u64, outcome: DecisionOutcome) -> Vec<CoordinatorAction> {
        self.on(CoordinatorEvent::DecisionWritten { id: id(n), outcome })
    }

    pub(super) fn complete_stands(&mut self, n: u64) -> Vec<CoordinatorAction> {
        self.decided(n, DecisionOutcome::Mine(Verdict::Complete))
    }

    pub(super) fn aborted_stands(&mut self, n: u64) -> Vec<CoordinatorAction> {
        self.decided(n, DecisionOutcome::Mine(Verdict::Aborted))
    }

    pub(super) fn write_fails(&mut self, n: u64) -> Vec<CoordinatorAction> {
        self.decided(
            n,
            DecisionOutcome::Failed {
                error: "disk full".to_owned(),
            },
        )
    }

    pub(super) fn committed(&mut self, n: u64) -> Vec<CoordinatorAction> {
        self.on(CoordinatorEvent::Committed { id: id(n) })
    }

    pub(super) fn request(&mut self, request: u64, what: Request) -> Vec<CoordinatorAction> {
        self.on(CoordinatorEvent::Request {
            request: RequestId(request),
            what,
        })
    }

    /// From triggers to committed.
    pub(super) fn complete(&mut self, n: u64) {
        self.ack_all(n);
        self.complete_stands(n);
        self.committed(n);
        assert_eq!(self.c.newest_complete(), Some(id(n)));
    }

    /// Waits out the interval and takes a whole checkpoint.
    pub(super) fn take(&mut self, n: u64) {
        self.after(1000);
        self.enumerators(n);
        self.complete(n);
    }

    /// The barrier of checkpoint `n` as the first triggers carry it.
    pub(super) fn barrier(&self, n: u64) -> Barrier {
        Barrier {
            id: id(n),
            oldest_pending: id(n),
            kind: CheckpointKind::Checkpoint,
            mode: SnapshotMode::Aligned,
            age: Duration::ZERO,
            epoch: EPOCH,
            base: None,
        }
    }

    /// What the decision on a complete checkpoint holds when every subtask acknowledged by [`snapshot`] at once.
    pub(super) fn content(&self, n: u64) -> CheckpointContent {
        let plan = self.c.tasks.plan();
        let operators = plan.vertices().iter().map(|vertex| OperatorSummary {
            uid: vertex.operators[0].clone(),
            vertex: vertex.id,
            parallelism: vertex.parallelism,
            max_parallelism: vertex.max_parallelism,
            finished: OperatorFinish::None,
        });
        CheckpointContent {
            job: JobId::from("job"),
            id: id(n),
            epoch: EPOCH,
            kind: CheckpointKind::Checkpoint,
            savepoint: None,
            mode: SnapshotMode::Aligned,
            base: None,
            retained: Vec::new(),
            subtasks: plan.subtasks().map(|subtask| snapshot(id(n), subtask)).collect(),
            enumerators: vec![inline()],
            external: Vec::new(),
            operators: operators.collect(),
            triggered_at: self.now,
            duration: Duration::ZERO,
        }
    }
}

pub(super) fn snapshot_enumerators(n: u64) -> CoordinatorAction {
    CoordinatorAction::SnapshotEnumerators { id: id(n) }
}

pub(super) fn send(to: &[SubtaskId], message: ToTask) -> CoordinatorAction {
    CoordinatorAction::Send {
        to: to.to_vec(),
        message,
    }
}

pub(super) fn trigger(to: &[SubtaskId], barrier: Barrier) -> CoordinatorAction {
    send(to, ToTask::Trigger(barrier))
}

pub(super) fn completed(to: &[SubtaskId], n: u64, oldest_pending: u64) -> CoordinatorAction {
    send(
        to,
        ToTask::Completed {
            id: id(n),
            oldest_pending: id(oldest_pending),
        },
    )
}

pub(super) fn aborted(to: &[SubtaskId], n: u64, oldest_pending: u64) -> CoordinatorAction {
    send(
        to,
        ToTask::Aborted {
            id: id(n),
            oldest_pending: id(oldest_pending),
        },
    )
}

pub(super) fn resume(to: &[SubtaskId], n: u64) -> CoordinatorAction {
    send(to, ToTask::Resume { id: id(n) })
}

pub(super) fn write_complete(content: CheckpointContent) -> CoordinatorAction {
    CoordinatorAction::WriteDecision {
        id: content.id,
        decision: Decision::Complete(Box::new(content)),
    }
}

pub(super) fn write_aborted(record: FailureRecord) -> CoordinatorAction {
    CoordinatorAction::WriteDecision {
        id: record.id.expect("of a checkpoint"),
        decision: Decision::Aborted(record),
    }
}

pub(super) fn failure(
    n: u64,
    reason: FailureReason,
    subtask: Option<SubtaskId>,
    detail: &str,
) -> FailureRecord {
    FailureRecord {
        id: Some(id(n)),
        reason,
        subtask,
        detail: detail.to_owned(),
        counted: reason.counts(),
    }
}

pub(super) fn commit(n: u64) -> CoordinatorAction {
    CoordinatorAction::Commit {
        id: id(n),
        committables: Vec::new(),
    }
}

pub(super) fn delete_files(n: u64) -> CoordinatorAction {
    CoordinatorAction::DeleteFiles { id: id(n) }
}

pub(super) fn retire(ids: &[u64]) -> CoordinatorAction {
    CoordinatorAction::Retire {
        ids: ids.iter().copied().map(CheckpointId).collect(),
    }
}

pub(super) fn answer(request: u64, result: Result<RequestDone, RequestFailure>) -> CoordinatorAction {
    CoordinatorAction::Answer {
        request: RequestId(request),
        result,
    }
}

pub(super) fn done(n: u64, path: Option<&str>) -> Result<RequestDone, RequestFailure> {
    Ok(RequestDone {
        id: Some(id(n)),
        path: path.map(str::to_owned),
    })
}

pub(super) fn failed(record: FailureRecord) -> Result<RequestDone, RequestFailure> {
    Err(RequestFailure::Failed(Box::new(record)))
}
