//! `--trace-checkpoint N`: one checkpoint's way through the tasks.
//!
//! Owns: collecting the coordinator's steps of that checkpoint and printing them, together with what the subtasks
//! measured, once it is decided. Does not own: the steps.

use std::sync::{Arc, Mutex, PoisonError};
use tidegate::runtime::master::local::{RunningJob, TraceSink};
use tidegate_protocol::coordinator::{CheckpointStats, CheckpointStatus, TraceEvent, TraceStep};
use tidegate_types::snapshot::SubtaskStats;
use tidegate_types::{CheckpointId, Nanos, SnapshotMode, SubtaskId};

use crate::console::Console;
use crate::error::CliError;
use crate::render::{count, size, table, time};

/// Steps that are kept: a checkpoint has a few per subtask.
const MAX_STEPS: usize = 100_000;

/// The steps of one checkpoint.
pub(crate) struct Walk {
    id: CheckpointId,
    seen: Arc<Mutex<Seen>>,
    shown: Mutex<bool>,
}

/// What came by.
#[derive(Debug, Default)]
struct Seen {
    steps: Vec<TraceEvent>,
    /// The first checkpoint of the run and the last one.
    range: Option<(CheckpointId, CheckpointId)>,
}

impl Seen {
    fn take(&mut self, wanted: CheckpointId, event: &TraceEvent) {
        let Some(id) = event.id else { return };
        if matches!(event.step, TraceStep::Started { .. }) {
            let (first, last) = self.range.unwrap_or((id, id));
            self.range = Some((first.min(id), last.max(id)));
        }
        if id == wanted && self.steps.len() < MAX_STEPS {
            self.steps.push(event.clone());
        }
    }

    /// Why there was nothing to show.
    fn missed(&self, wanted: CheckpointId) -> String {
        if !self.steps.is_empty() {
            return format!("checkpoint {wanted} wasn't decided in this run");
        }
        match self.range {
            None => format!("no checkpoint {wanted} in this run: it took none"),
            Some((first, last)) if first == last => {
                format!("no checkpoint {wanted} in this run: its only one was {first}")
            }
            Some((first, last)) => {
                format!("no checkpoint {wanted} in this run: its checkpoints were {first} to {last}")
            }
        }
    }
}

impl Walk {
    /// Of the checkpoint with this id.
    pub(crate) fn of(id: CheckpointId) -> Self {
        Self {
            id,
            seen: Arc::default(),
            shown: Mutex::new(false),
        }
    }

    /// Takes steps of all checkpoints and keeps its own.
    pub(crate) fn sink(&self) -> TraceSink {
        let (id, seen) = (self.id, self.seen.clone());
        Arc::new(move |event| {
            seen.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(id, event);
        })
    }

    /// Prints it, if the checkpoint has been decided since.
    pub(crate) fn show(&self, console: &Console, job: &RunningJob) -> Result<(), CliError> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if *shown {
            return Ok(());
        }
        let decided = job
            .board()
            .with(|status| status.history.get(self.id).filter(|c| is_decided(c)).cloned());
        let Some(stats) = decided else { return Ok(()) };
        *shown = true;
        let names: Vec<String> = job
            .board()
            .with(|s| s.vertices.iter().map(|v| v.name.clone()).collect());
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        lines(&stats, &seen.steps, &names)
            .into_iter()
            .try_for_each(|line| console.line(line))
    }

    /// At the end of the run: says that nothing was shown, and why.
    pub(crate) fn say_if_missed(&self, console: &Console) {
        if !*self.shown.lock().unwrap_or_else(PoisonError::into_inner) {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            console.clear();
            console.note(seen.missed(self.id));
        }
    }
}

fn is_decided(stats: &CheckpointStats) -> bool {
    stats.status != CheckpointStatus::InProgress
}

fn lines(stats: &CheckpointStats, steps: &[TraceEvent], names: &[String]) -> Vec<String> {
    let name = |subtask: SubtaskId| {
        let vertex = names.get(subtask.vertex.0 as usize).map_or("?", String::as_str);
        format!("{vertex} #{}", subtask.index)
    };
    let mut lines = vec![format!(
        "checkpoint {} ({}) on its way through the tasks:",
        stats.id, stats.mode
    )];
    for step in steps {
        let at = time(step.at.since(stats.triggered_at));
        let what = match &step.step {
            TraceStep::Triggered { to } => {
                let to: Vec<String> = to.iter().map(|subtask| name(*subtask)).collect();
                format!("triggered {}", to.join(", "))
            }
            TraceStep::Acknowledged { subtask, missing } => {
                format!("{} acknowledged, {missing} missing", name(*subtask))
            }
            TraceStep::CountedFinished { subtask, missing } => {
                format!("{} had finished, {missing} missing", name(*subtask))
            }
            TraceStep::Ignored { subtask, what } => format!("ignored {what} of {}", name(*subtask)),
            _ => without_head(&step.to_string()),
        };
        lines.push(format!("  {at:>8}  {what}"));
    }
    let measured = measured(stats, names);
    lines.extend(table(&HEAD, &measured));
    lines
}

const HEAD: [&str; 11] = [
    "  subtask",
    "start delay",
    "in chain",
    "alignment",
    "cut",
    "async",
    "end to end",
    "state",
    "in flight",
    "records",
    "barrier",
];

/// What the subtasks measured, in the order in which they acknowledged.
fn measured(stats: &CheckpointStats, names: &[String]) -> Vec<Vec<String>> {
    let mut rows: Vec<(Nanos, Vec<String>)> = Vec::new();
    for task in &stats.tasks {
        let vertex = names.get(task.vertex.0 as usize).map_or("?", String::as_str);
        for (index, part) in task.subtasks.iter().enumerate() {
            if let Some(part) = part {
                rows.push((
                    part.acked_at,
                    measured_row(&format!("  {vertex} #{index}"), &part.stats),
                ));
            }
        }
    }
    rows.sort_by_key(|(at, _)| *at);
    rows.into_iter().map(|(_, row)| row).collect()
}

fn measured_row(name: &str, s: &SubtaskStats) -> Vec<String> {
    let overtook = s.mode == Some(SnapshotMode::Unaligned);
    vec![
        name.to_owned(),
        time(s.start_delay),
        time(s.chain_delay + s.record_delay),
        time(s.alignment),
        time(s.sync),
        time(s.asynchronous),
        time(s.end_to_end),
        size(s.state_bytes),
        size(s.persisted_bytes),
        count(s.persisted_records),
        if overtook { "overtook" } else { "in turn" }.to_owned(),
    ]
}

/// A step's own text, without the time and id that stand before it.
fn without_head(text: &str) -> String {
    text.split_once(": ").map_or(text, |(_, what)| what).to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use tidegate_protocol::coordinator::{SubtaskCheckpoint, TaskStats, Verdict};

    use tidegate_types::{CheckpointKind, SubtaskIndex, VertexId};

    use super::*;

    #[test]
    fn a_checkpoint_that_never_came_is_told_from_those_that_did() {
        let wanted = CheckpointId(1);
        let mut seen = Seen::default();
        assert_eq!(seen.missed(wanted), "no checkpoint 1 in this run: it took none");
        let step = |id| TraceEvent {
            at: Nanos(0),
            id: Some(CheckpointId(id)),
            step: TraceStep::Started {
                kind: CheckpointKind::Checkpoint,
                mode: SnapshotMode::Aligned,
            },
        };
        seen.take(wanted, &step(2));
        assert_eq!(
            seen.missed(wanted),
            "no checkpoint 1 in this run: its only one was 2"
        );
        (3..10).for_each(|id| seen.take(wanted, &step(id)));
        assert_eq!(
            seen.missed(wanted),
            "no checkpoint 1 in this run: its checkpoints were 2 to 9"
        );
        seen.take(wanted, &step(1));
        assert_eq!(seen.missed(wanted), "checkpoint 1 wasn't decided in this run");
    }

    #[test]
    fn steps_are_told_from_the_trigger_on_and_subtasks_in_the_order_they_came_in() {
        let part = |acked_at, mode| {
            let stats = SubtaskStats {
                persisted_records: 7,
                mode: Some(mode),
                ..SubtaskStats::default()
            };
            Some(SubtaskCheckpoint {
                acked_at: Nanos(acked_at),
                state_bytes: 1,
                finished: false,
                stats,
            })
        };
        let subtasks = vec![
            part(9_000_000, SnapshotMode::Aligned),
            part(5_000_000, SnapshotMode::Unaligned),
        ];
        let stats = CheckpointStats {
            id: CheckpointId(3),
            kind: CheckpointKind::Checkpoint,
            mode: SnapshotMode::Adaptive {
                timeout: Duration::from_secs(1),
            },
            status: CheckpointStatus::Completed,
            triggered_at: Nanos(1_000_000),
            latest_ack_at: None,
            ended_at: None,
            tasks: vec![TaskStats {
                vertex: VertexId(1),
                subtasks,
            }],
            path: None,
            failure: None,
            discarded: false,
        };
        let subtask = SubtaskId::new(VertexId(1), SubtaskIndex(1));
        let event = |at, step| TraceEvent {
            at: Nanos(at),
            id: Some(CheckpointId(3)),
            step,
        };
        let steps = [
            event(5_000_000, TraceStep::Acknowledged { subtask, missing: 1 }),
            event(9_500_000, TraceStep::Decided(Verdict::Complete)),
        ];
        let names = ["source".to_owned(), "count".to_owned()];
        let lines = lines(&stats, &steps, &names);
        assert_eq!(lines[0], "checkpoint 3 (adaptive) on its way through the tasks:");
        assert_eq!(lines[1], "    4.0 ms  count #1 acknowledged, 1 missing");
        assert_eq!(lines[2], "    8.5 ms  decided Complete");
        assert!(
            lines[4].starts_with("  count #1") && lines[4].ends_with("overtook"),
            "{lines:#?}"
        );
        assert!(
            lines[5].starts_with("  count #0") && lines[5].ends_with("in turn"),
            "{lines:#?}"
        );
    }
}
