//! Crashes at every step, with and without loss of power: what is visible is what complete checkpoints hold, once.
//!
//! A small job stands in for the engine: four partitions of numbered records, a checkpoint every few records,
//! one of which is aborted after it was prepared, and a store that decides atomically. After each crash it is
//! restored, with two subtasks instead of four.

use std::collections::BTreeMap;

use super::model::{Loss, ModelDisk};
use super::*;

const PARTITIONS: u64 = 4;
const RECORDS: u64 = 7;
const PER_CHECKPOINT: u64 = 2;

/// The newest complete checkpoint.
#[derive(Debug, Clone, Default)]
struct Complete {
    id: Option<CheckpointId>,
    /// The next record of each partition.
    next: [u64; PARTITIONS as usize],
    listed: Vec<FileCommittable>,
}

struct Job {
    disk: ModelDisk,
    sink: FileSink<TextEncoder>,
    complete: Complete,
    next_id: u64,
    attempts: u32,
}

impl Job {
    fn new(disk: ModelDisk) -> Self {
        let sink = FileSink::text("/out")
            .roll_at(6)
            .on(std::sync::Arc::new(disk.clone()));
        Self {
            disk,
            sink,
            complete: Complete::default(),
            next_id: 1,
            attempts: 0,
        }
    }

    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Runs until the end or the disk's death.
    fn attempt(&mut self, parallelism: u64) -> Result<(), BoxError> {
        self.attempts += 1;
        let cx = SinkContext {
            attempt: AttemptNumber(self.attempts),
            epoch: LeaderEpoch(self.take_id()),
            restored: self.complete.id,
            ..cx(0)
        };
        let mut committer = committer(&self.sink, cx.clone());
        committer.settle(self.complete.listed.clone())?;
        let mut writers: Vec<Writer<String>> = (0..parallelism)
            .map(|s| {
                writer(
                    &self.sink,
                    SinkContext {
                        subtask: SubtaskIndex(s as u32),
                        ..cx.clone()
                    },
                )
            })
            .collect();
        let mut next = self.complete.next;
        let mut carried = Vec::new();
        for round in 0.. {
            for (p, at) in next.iter_mut().enumerate() {
                let until = (*at + PER_CHECKPOINT).min(RECORDS);
                for n in *at..until {
                    writers[p % parallelism as usize].write(format!("{p}:{n}"), None)?;
                }
                *at = until;
            }
            let id = self.take_id();
            let mut prepared = std::mem::take(&mut carried);
            for writer in &mut writers {
                prepared.extend(prepare(writer, id)?);
            }
            if round == 1 {
                // Aborted after it was prepared: what it lists goes into the next.
                carried = prepared;
                continue;
            }
            self.complete = Complete {
                id: Some(CheckpointId(id)),
                next,
                listed: prepared.clone(),
            };
            committer.commit(prepared.clone())?;
            // The news of completion may be lost, and a commit be asked for again.
            committer.commit(prepared)?;
            if next == [RECORDS; PARTITIONS as usize] {
                break;
            }
        }
        writers.iter_mut().for_each(|w| w.close());
        Ok(())
    }

    /// Visible records with how often each is there.
    fn visible(&self) -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        for (name, content) in self.disk.files() {
            if !name.starts_with('.') {
                for line in content.lines() {
                    *found.entry(line.to_owned()).or_default() += 1;
                }
            }
        }
        found
    }

    /// Nothing is visible twice, nor before its checkpoint is complete.
    fn check(&self, what: &str) {
        for (record, times) in self.visible() {
            let (p, n) = record.split_once(':').unwrap();
            let (p, n): (usize, u64) = (p.parse().unwrap(), n.parse().unwrap());
            assert_eq!(times, 1, "{record} is there {times} times, {what}");
            assert!(
                n < self.complete.next[p],
                "{record} is visible and in no complete checkpoint, {what}"
            );
        }
    }

    fn check_end(&self, what: &str) {
        self.check(what);
        assert_eq!(
            self.visible().len() as u64,
            PARTITIONS * RECORDS,
            "records are missing, {what}"
        );
        let hidden: Vec<String> = self
            .disk
            .files()
            .into_keys()
            .filter(|name| name.starts_with('.'))
            .collect();
        assert_eq!(hidden, Vec::<String>::new(), "hidden files stay, {what}");
    }
}

fn steps_without_a_crash(disk: ModelDisk) -> u64 {
    let mut job = Job::new(disk);
    job.attempt(4).unwrap();
    job.check_end("without a crash");
    job.disk.steps()
}

const LOSSES: [Loss; 5] = [
    Loss::Nothing,
    Loss::Everything,
    Loss::Some(1),
    Loss::Some(2),
    Loss::Some(3),
];

fn crash_once(disk: impl Fn() -> ModelDisk) {
    let steps = steps_without_a_crash(disk());
    assert!(steps > 100, "a job of {steps} steps tests little");
    for at in 1..=steps {
        for loss in LOSSES {
            let what = format!("crash at step {at} of {steps}, {loss:?}");
            let mut job = Job::new(disk());
            job.disk.die_after(at);
            assert!(job.attempt(4).is_err(), "{what}");
            job.disk.restart(loss);
            job.check(&what);
            job.attempt(2).unwrap();
            job.check_end(&what);
        }
    }
}

#[test]
fn a_crash_at_every_step() {
    crash_once(ModelDisk::default);
}

#[test]
fn a_crash_at_every_step_without_hard_links() {
    crash_once(|| ModelDisk::default().without_links());
}

/// The second crash falls into settling, or soon after.
#[test]
fn a_crash_during_recovery_from_a_crash() {
    let steps = steps_without_a_crash(ModelDisk::default());
    for first in (1..=steps).step_by(3) {
        for second in 1..=40 {
            for loss in [Loss::Nothing, Loss::Everything, Loss::Some(first * 100 + second)] {
                let what = format!("crashes at step {first} and {second} after, {loss:?}");
                let mut job = Job::new(ModelDisk::default());
                job.disk.die_after(first);
                assert!(job.attempt(4).is_err(), "{what}");
                job.disk.restart(loss);
                job.disk.die_after(second);
                if job.attempt(2).is_err() {
                    job.disk.restart(loss);
                    job.check(&what);
                    job.attempt(3).unwrap();
                }
                job.check_end(&what);
            }
        }
    }
}

#[test]
fn settling_again_and_again_changes_nothing() {
    let mut job = Job::new(ModelDisk::default());
    job.disk
        .die_after(steps_without_a_crash(ModelDisk::default()) / 2);
    assert!(job.attempt(4).is_err());
    job.disk.restart(Loss::Nothing);
    let cx = SinkContext {
        restored: job.complete.id,
        epoch: LeaderEpoch(job.next_id),
        ..cx(0)
    };
    let mut settled = Vec::new();
    for _ in 0..3 {
        committer(&job.sink, cx.clone())
            .settle(job.complete.listed.clone())
            .unwrap();
        settled.push(job.disk.files());
    }
    assert!(
        settled[0].keys().all(|name| !name.starts_with('.')),
        "{settled:?}"
    );
    assert!(settled.windows(2).all(|pair| pair[0] == pair[1]));
    job.check("settled");
}
