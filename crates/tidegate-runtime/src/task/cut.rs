//! The cut of a task: waiting for its moment, taking it, sweeping what it owes, handing it to the writer.

use std::sync::Arc;
use std::time::Duration;

use tidegate_protocol::barrier::Cut;
use tidegate_protocol::message::FromTask;
use tidegate_protocol::subtask::{CutMeasured, CutTimes, SnapshotEvent, Written};
use tidegate_types::snapshot::SubtaskStats;
use tidegate_types::{Barrier, CheckpointId, CheckpointKind, Nanos, SavepointFormat, SnapshotMode};

use crate::chain::{Control, CutParts, Overdraft, Pass, Progress, SnapshotPart};
use crate::error::{OpError, chain_of};

use super::io::{AckRace, WriteJob, WriteReply};
use super::mailbox::Mail;
use super::metrics::TaskMetrics;
use super::step::Task;

/// Blocks that one sweep call preserves at most, whatever the clock says.
const MAX_SWEEP: usize = 4096;

/// What a pending cut waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CutWait {
    /// None is pending.
    No,
    /// The chain to run empty, or a record in progress to finish: passes bring it on.
    Chain,
    /// User code to let go of its source's lock: that wakes the task. Until then the source is read on, as its user
    /// code may hold the lock and wait for room.
    Lock,
}

/// A cut that may not be taken yet.
#[derive(Debug)]
pub(super) struct PendingCut {
    pub(super) barrier: Barrier,
    /// When the machine said "proceed".
    at: Nanos,
    /// When the chain was run empty, or the record in progress finished, and how long that took.
    chain_delay: Duration,
    record_delay: Duration,
    /// Bytes of records in progress that were put out beyond a full output.
    overdrawn: u64,
    /// It doesn't wait for the chain any more.
    overtakes: bool,
}

impl PendingCut {
    /// When an adaptive cut stops waiting for its chain and captures what stands there.
    pub(super) fn overtakes_at(&self) -> Option<Nanos> {
        match self.barrier.mode {
            SnapshotMode::Adaptive { timeout } if !self.overtakes => {
                Some(self.at + timeout.saturating_sub(self.barrier.age))
            }
            _ => None,
        }
    }
}

/// What is known of a snapshot between its cut and its decision.
#[derive(Default)]
pub(super) struct OpenSnapshot {
    pub(super) cut: Option<Cut>,
    parts: Vec<SnapshotPart>,
    pub(super) captured: Vec<SnapshotPart>,
    /// Positions of nodes in the chain whose sweep isn't done.
    sweeping: Vec<usize>,
    pub(super) race: Arc<AckRace>,
    finished: bool,
    first_records: u64,
    processed: u64,
}

impl Task {
    /// The snapshot machine lets a cut go ahead.
    pub(super) fn proceed(&mut self, now: Nanos, barrier: Barrier) {
        if let Some(open) = self.open.get_mut(&barrier.id) {
            open.first_records = self.records;
        }
        self.cuts.push_back(PendingCut {
            barrier,
            at: now,
            chain_delay: Duration::ZERO,
            record_delay: Duration::ZERO,
            overdrawn: 0,
            overtakes: false,
        });
    }

    /// Takes the cuts whose moment has come, in order. While one still waits nothing may be taken from the inputs,
    /// except from a source whose lock it waits for.
    pub(super) fn advance_cuts(&mut self, now: Nanos) -> Result<CutWait, OpError> {
        while let Some(cut) = self.cuts.front_mut() {
            let waited = now.since(cut.at);
            let overtakes = match cut.barrier.mode {
                SnapshotMode::Unaligned => true,
                SnapshotMode::Adaptive { timeout } => cut.overtakes || cut.barrier.age + waited >= timeout,
                SnapshotMode::Aligned | SnapshotMode::AtLeastOnce | SnapshotMode::Quiesce { .. } => false,
            };
            cut.overtakes = overtakes;
            if overtakes {
                // Before anything is overdrawn: while the lock is held records come, and nothing can be cut.
                if !self.holds_source() {
                    return Ok(CutWait::Lock);
                }
                let Some(cut) = self.cuts.front() else { break };
                let begun = self.clock.now();
                let clock = self.clock.clone();
                // What earlier steps used up for this cut isn't granted again.
                let until = begun + self.settings.max_overdraft.saturating_sub(cut.record_delay);
                let bytes = self.settings.max_overdraft_bytes.saturating_sub(cut.overdrawn);
                let mut overdraft = Overdraft::new(&*clock, until, bytes);
                let finished = self.body.chain().finish_records(&mut overdraft)?;
                let overdrawn = overdraft.spent();
                if let Some(cut) = self.cuts.front_mut() {
                    cut.overdrawn += overdrawn;
                    cut.record_delay += clock.now().since(begun);
                    cut.chain_delay = waited.saturating_sub(cut.record_delay);
                }
                if !finished {
                    // The overdraft is used up: the record goes on by ordinary passes, as there is room.
                    return Ok(CutWait::Chain);
                }
            } else {
                if !self.body.chain_is_empty() {
                    return Ok(CutWait::Chain);
                }
                if let Some(cut) = self.cuts.front_mut() {
                    cut.chain_delay = waited;
                }
            }
            if !self.holds_source() {
                return Ok(CutWait::Lock);
            }
            if let Some(cut) = self.cuts.pop_front() {
                let taken = self.take_cut(cut, overtakes);
                if let Some(source) = self.body.source() {
                    source.release_after_cut();
                }
                taken?;
            }
        }
        Ok(CutWait::No)
    }

    /// Whether none of a source's user code is in the middle of something; it is kept out from here on.
    fn holds_source(&mut self) -> bool {
        self.body.source().is_none_or(|s| s.hold_for_cut())
    }

    /// A cut won't be taken: who was kept out for it may go on.
    pub(super) fn drop_cut(&mut self, id: CheckpointId) {
        let before = self.cuts.len();
        self.cuts.retain(|c| c.barrier.id != id);
        if self.cuts.len() < before
            && let Some(source) = self.body.source()
        {
            // If another cut is pending it asks for the lock itself, when its turn comes.
            source.release_after_cut();
        }
    }

    fn take_cut(&mut self, pending: PendingCut, overtakes: bool) -> Result<(), OpError> {
        let begun = self.clock.now();
        let id = pending.barrier.id;
        let (signal, clock) = (self.signal.clone(), self.clock.clone());
        let captures = overtakes && !self.body.chain_is_empty();
        let mut pass = Pass::overdraft(&signal, &*clock);
        let run_on = (!overtakes).then_some(&mut pass);
        let prepared = self.body.chain().prepare_snapshot(id, run_on);
        TaskMetrics::add(&self.metrics.records_skipped, pass.skipped());
        if let Err(e) = prepared {
            let detail = chain_of(&e);
            return self.on_snapshot_event(begun, SnapshotEvent::PrepareRefused { id, detail });
        }
        let mut forwarded = pending.barrier.aged(clock.now().since(pending.at));
        if overtakes {
            forwarded = forwarded.to_unaligned();
        }
        self.body
            .chain()
            .control(Control::Barrier(&forwarded), clock.now());
        let mut parts = CutParts {
            id,
            base: forwarded.base,
            savepoint: forwarded.kind.is_savepoint(),
            canonical: matches!(
                forwarded.kind,
                CheckpointKind::Savepoint {
                    format: SavepointFormat::Canonical,
                    ..
                }
            ),
            capture_remainders: overtakes,
            parts: Vec::new(),
        };
        let mut nodes = 0;
        self.body.chain().visit(&mut |node| {
            nodes += 1;
            node.cut(&mut parts)
        })?;
        self.last_cut = id;
        let finished = self.has_ended();
        let records = self.records;
        let open = self.open.entry(id).or_default();
        open.parts = parts.parts;
        open.sweeping = (0..nodes).collect();
        open.finished = finished;
        open.processed = records - open.first_records;
        let quiesces = matches!(forwarded.mode, SnapshotMode::Quiesce { .. });
        let stops = matches!(forwarded.kind, CheckpointKind::Savepoint { stop: true, .. });
        if quiesces || stops {
            self.pause(id);
        }
        let measured = CutMeasured {
            chain_delay: pending.chain_delay,
            record_delay: pending.record_delay,
            sync: clock.now().since(begun),
            overtook: captures,
        };
        // One part for what the input side records, one for the sweep of the whole chain.
        self.on_snapshot_event(
            clock.now(),
            SnapshotEvent::CutTaken {
                id,
                parts: 2,
                measured,
            },
        )?;
        let until = clock.now() + self.settings.first_sweep;
        self.sweep(id, &mut || clock.now() < until)?;
        Ok(())
    }

    /// Sweeps for a while what open cuts are owed. True if more is to be done.
    pub(super) fn sweep_some(&mut self) -> Result<bool, OpError> {
        let ids: Vec<CheckpointId> = self
            .open
            .iter()
            .filter(|(_, o)| !o.sweeping.is_empty())
            .map(|(id, _)| *id)
            .collect();
        let clock = self.clock.clone();
        let until = clock.now() + self.settings.first_sweep;
        let mut more = false;
        for id in ids {
            more |= self.sweep(id, &mut || clock.now() < until)?;
        }
        Ok(more)
    }

    fn sweep(&mut self, id: CheckpointId, within: &mut dyn FnMut() -> bool) -> Result<bool, OpError> {
        let Some(open) = self.open.get_mut(&id) else {
            return Ok(false);
        };
        if open.sweeping.is_empty() {
            return Ok(false);
        }
        let mut calls = 0;
        let mut may_go_on = || {
            calls += 1;
            calls <= MAX_SWEEP && within()
        };
        let mut left = Vec::new();
        let mut at = 0;
        let sweeping = std::mem::take(&mut open.sweeping);
        let parts = &mut open.parts;
        let swept = self.body.chain().visit(&mut |node| {
            if sweeping.contains(&at) && node.sweep(id, &mut may_go_on, parts)? == Progress::More {
                left.push(at);
            }
            at += 1;
            Ok(())
        });
        if let Err(e) = swept {
            let detail = chain_of(&e);
            let reason = tidegate_protocol::message::DeclineReason::AsyncFailed;
            self.on_snapshot_event(self.clock.now(), SnapshotEvent::Declined { id, reason, detail })?;
            return Ok(false);
        }
        let done = left.is_empty();
        open.sweeping = left;
        if done {
            self.on_snapshot_event(self.clock.now(), SnapshotEvent::PartDone(id))?;
        }
        Ok(!done)
    }

    /// Everything is collected: the pool encodes and writes it, and acknowledges it without waiting for the task.
    pub(super) fn start_write(&mut self, id: CheckpointId, times: CutTimes) {
        let savepoint = self.open.get(&id).and_then(OpenSnapshot::savepoint);
        let (mailbox, outbox, clock) = (self.mailbox(), self.outbox(), self.clock.clone());
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        let mut parts = std::mem::take(&mut open.parts);
        // What stood in the chain comes before what was queued behind it.
        parts.append(&mut open.captured);
        let stats = SubtaskStats {
            processed_records: open.processed,
            processed_bytes: self.body.estimate_bytes(open.processed),
            ..SubtaskStats::default()
        };
        let race = open.race.clone();
        let epoch = times.epoch();
        let reply = move |result: WriteReply| {
            let result = result.map(|files| {
                Box::new(Written {
                    snapshot: files.snapshot,
                    stats: times.stats(clock.now(), files.stats),
                    files: files.files,
                    acknowledged: race.acknowledge(),
                })
            });
            let acknowledged = result.as_ref().ok().filter(|w| w.acknowledged);
            let acknowledgement = acknowledged.map(|w| FromTask::Acknowledged {
                id,
                snapshot: w.snapshot.clone(),
                stats: w.stats.clone(),
            });
            // In this order: what the master answers must find the task informed.
            mailbox.send(Mail::Written { id, result });
            if let Some(acknowledgement) = acknowledgement {
                outbox.send(acknowledgement);
            }
        };
        self.io.write(WriteJob {
            id,
            subtask: self.id,
            epoch,
            parts,
            finished: open.finished,
            savepoint,
            stats,
            race: open.race.clone(),
            reply: Box::new(reply),
        });
    }
}
