//! Encodes and writes subtasks' snapshots: the part of a checkpoint that runs on the pool.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_protocol::subtask::WriteFailed;
use tidegate_storage::{JobStore, Nonce, Nonces, Place, StateFileName, Writer};
use tidegate_types::AttemptNumber;
use tidegate_types::snapshot::{Section, SectionBytes, SectionKind, SubtaskSnapshot, SubtaskStats};

use crate::chain::SnapshotPart;
use crate::driver::threads::panic_text;
use crate::error::chain_of;
use crate::task::{SnapshotIo, WriteJob, WrittenFiles};

use super::io::Executor;

/// Runs jobs somewhere else than on the task's thread.
pub trait Spawner: Send + Sync {
    /// Runs a job later, in any order.
    fn spawn(&self, job: Box<dyn FnOnce() + Send>);
}

/// Writes snapshots of one attempt into a job's store.
pub struct StoreIo {
    store: JobStore,
    executor: Executor,
    spawner: Arc<dyn Spawner>,
    attempt: AttemptNumber,
    inline_threshold_bytes: u64,
    nonces: Mutex<Nonces>,
}

impl StoreIo {
    /// The writer of one attempt.
    pub fn new(
        store: JobStore,
        executor: Executor,
        spawner: Arc<dyn Spawner>,
        attempt: AttemptNumber,
        inline_threshold_bytes: u64,
        nonces: Nonces,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            executor,
            spawner,
            attempt,
            inline_threshold_bytes,
            nonces: Mutex::new(nonces),
        })
    }

    fn draw(&self) -> Nonce {
        self.nonces.lock().unwrap_or_else(PoisonError::into_inner).draw()
    }
}

struct Work {
    store: JobStore,
    executor: Executor,
    name: StateFileName,
    inline_threshold_bytes: u64,
}

impl SnapshotIo for StoreIo {
    fn write(&self, job: WriteJob) {
        let work = Work {
            store: self.store.clone(),
            executor: self.executor.clone(),
            name: StateFileName {
                checkpoint: job.id,
                writer: Writer::Subtask(job.subtask),
                attempt: self.attempt,
                epoch: job.epoch,
                nonce: self.draw(),
            },
            inline_threshold_bytes: self.inline_threshold_bytes,
        };
        self.spawner.spawn(Box::new(move || work.run(job)));
    }

    fn delete(&self, files: Vec<String>) {
        let (store, executor) = (self.store.clone(), self.executor.clone());
        self.spawner.spawn(Box::new(move || {
            for file in files {
                if let Err(error) = executor.block_on(store.delete_unacknowledged(&file)) {
                    tracing::debug!(%file, %error, "a file of a snapshot that is off stays for the next clean-up");
                }
            }
        }));
    }
}

impl Work {
    fn run(self, job: WriteJob) {
        let WriteJob {
            subtask,
            parts,
            finished,
            stats,
            race,
            reply,
            ..
        } = job;
        let failed = |detail: String| WriteFailed {
            detail,
            files: Vec::new(),
        };
        if race.is_cancelled() {
            return reply(Err(failed(
                "the checkpoint was given up before it was written".into(),
            )));
        }
        // User code encodes here: what it panics on fails the snapshot, not the pool.
        let encoded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| encode(parts)));
        let sections = match encoded {
            Ok(Ok(sections)) => sections,
            Ok(Err(error)) => return reply(Err(failed(error))),
            Err(panic) => {
                return reply(Err(failed(format!("encoding panicked: {}", panic_text(&*panic)))));
            }
        };
        let stats = measure(stats, &sections);
        // Later checkpoints go on showing what outlives the subtask, wherever this one's files are by then.
        let (kept, sections): (Vec<_>, Vec<_>) = sections
            .into_iter()
            .partition(|s| finished && s.head.kind.outlives_its_subtask());
        let kept = kept.into_iter().map(|s| Section::inline(s.head, s.bytes));
        let write = self.store.write_state_file(
            &self.name,
            Place::Checkpoint,
            self.inline_threshold_bytes,
            sections,
        );
        reply(match self.executor.block_on(write) {
            Ok(written) => Ok(WrittenFiles {
                files: written.path().map(str::to_owned).into_iter().collect(),
                snapshot: SubtaskSnapshot {
                    subtask,
                    sections: kept.chain(written.sections).collect(),
                    finished,
                },
                stats,
            }),
            Err(error) => Err(failed(chain_of(&error))),
        });
    }
}

fn encode(parts: Vec<SnapshotPart>) -> Result<Vec<SectionBytes>, String> {
    let mut sections = Vec::with_capacity(parts.len());
    for part in parts {
        sections.append(&mut (part.job)().map_err(|e| chain_of(&e))?);
    }
    Ok(sections)
}

fn measure(mut stats: SubtaskStats, sections: &[SectionBytes]) -> SubtaskStats {
    use tidegate_types::snapshot::ChannelStats;
    for section in sections {
        let bytes = section.bytes.len() as u64;
        match section.head.kind {
            SectionKind::InFlight(address) => {
                stats.persisted_bytes += bytes;
                stats.persisted_records += section.head.records;
                stats.channels.push(ChannelStats {
                    uid: section.head.uid.clone(),
                    address,
                    bytes,
                    records: section.head.records,
                });
            }
            _ => stats.state_bytes += bytes,
        }
    }
    stats
}
