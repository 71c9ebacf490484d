//! The sinks' committers of one job: brought to agree with a snapshot, taken over, told to commit.
//!
//! Owns: which committables belong to which sink. Does not own: when (the master), what committing means (the sink).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tidegate_storage::{Snapshot, StateReader, StoreDir};
use tidegate_types::OperatorUid;
use tidegate_types::snapshot::{Section, SectionKind};

use crate::error::{BoxError, guarded};
use crate::graph::{Attempt, JobGraph};
use crate::operators::{AnyCommitter, SinkContext, read_committables};

use super::env::Refusal;
use super::io::Executor;

/// Which sink failed, and why.
type SinkFailure = (OperatorUid, BoxError);

type BySink = BTreeMap<OperatorUid, Vec<Bytes>>;

/// The committers of all sinks of a job.
pub(super) struct Commits {
    graph: Arc<JobGraph>,
    dir: StoreDir,
    executor: Executor,
    committers: Mutex<BTreeMap<OperatorUid, Box<dyn AnyCommitter>>>,
}

impl Commits {
    /// None yet.
    pub(super) fn new(graph: Arc<JobGraph>, dir: StoreDir, executor: Executor) -> Self {
        Self {
            graph,
            dir,
            executor,
            committers: Mutex::default(),
        }
    }

    /// Makes every sink agree with the snapshot: commits what it lists, discards the rest; or lets those refuse whose
    /// output would be wrong.
    pub(super) fn settle(
        &self,
        snapshot: Option<&Snapshot>,
        attempt: Attempt,
        refusal: Option<Refusal>,
    ) -> Result<(), SinkFailure> {
        self.make(snapshot, attempt, |committer, listed| match refusal {
            // What only this process sees is of this run alone.
            Some(Refusal::Twice { .. }) if !committer.outlives_process() => committer.settle(listed),
            Some(refusal) => Err(in_words(refusal)),
            None => committer.settle(listed),
        })
    }

    /// Commits what the newest checkpoint lists: an earlier leader may have died before it did. Everything else is in
    /// the hands of running writers.
    pub(super) fn take_over(&self, snapshot: Option<&Snapshot>, attempt: Attempt) -> Result<(), SinkFailure> {
        self.make(snapshot, attempt, |committer, listed| {
            if listed.is_empty() {
                Ok(())
            } else {
                committer.commit(listed)
            }
        })
    }

    fn make(
        &self,
        snapshot: Option<&Snapshot>,
        attempt: Attempt,
        begin: impl Fn(&mut dyn AnyCommitter, &[Bytes]) -> Result<(), BoxError>,
    ) -> Result<(), SinkFailure> {
        let mut committers = self.committers.lock().unwrap_or_else(PoisonError::into_inner);
        committers.clear();
        let mut listed = match snapshot {
            None => BTreeMap::new(),
            Some(snapshot) => {
                let committables = snapshot.metadata().sections();
                let committables = committables.filter(|s| s.head.kind == SectionKind::Committables);
                self.read(&snapshot.reader(), committables.collect())?
            }
        };
        for node in &self.graph.nodes {
            let Some(sink) = &node.sink else { continue };
            let uid = &node.uid;
            let fail = |e: BoxError| (uid.clone(), e);
            let cx = SinkContext {
                job: self.graph.job.clone(),
                uid: uid.clone(),
                subtask: tidegate_types::SubtaskIndex(0),
                parallelism: node.parallelism,
                attempt: attempt.number,
                epoch: attempt.epoch,
                lineage: attempt.lineage,
                restored: snapshot.map(Snapshot::id),
                wall_ms: 0,
            };
            if let Some(mut committer) = guarded(|| (sink.committer)(cx)).map_err(fail)? {
                let listed = listed.remove(uid).unwrap_or_default();
                guarded(|| begin(&mut *committer, &listed)).map_err(fail)?;
                committers.insert(uid.clone(), committer);
            }
        }
        match listed
            .into_iter()
            .find(|(_, committables)| !committables.is_empty())
        {
            None => Ok(()),
            Some((uid, committables)) => Err((uid, orphaned(committables.len()))),
        }
    }

    /// Commits what a complete checkpoint lists.
    pub(super) fn commit(&self, committables: &[Section]) -> Result<(), SinkFailure> {
        let reader = StateReader::new(self.dir.clone());
        let listed = self.read(&reader, committables.iter().collect())?;
        let mut committers = self.committers.lock().unwrap_or_else(PoisonError::into_inner);
        for (uid, list) in listed {
            if let Some(committer) = committers.get_mut(&uid) {
                guarded(|| committer.commit(&list)).map_err(|e| (uid, e))?;
            }
        }
        Ok(())
    }

    fn read(&self, reader: &StateReader, sections: Vec<&Section>) -> Result<BySink, SinkFailure> {
        let Some(first) = sections.first() else {
            return Ok(BySink::new());
        };
        let payloads = self
            .executor
            .block_on(reader.read_sections(&sections))
            .map_err(|e| (first.head.uid.clone(), BoxError::from(e)))?;
        let mut listed = BySink::new();
        for (section, payload) in sections.into_iter().zip(payloads) {
            let uid = &section.head.uid;
            let committables = read_committables(&payload).map_err(|e| (uid.clone(), e))?;
            listed.entry(uid.clone()).or_default().extend(committables);
        }
        Ok(listed)
    }
}

fn in_words(refusal: Refusal) -> BoxError {
    match refusal {
        Refusal::NoLastCheckpoint => "it commits what a checkpoint holds, and \
             execution.checkpointing.checkpoints-after-tasks-finish is false: what it gets behind the last checkpoint \
             before the end of the input would be lost. Set it to true"
            .into(),
        Refusal::Twice {
            committed,
            from,
            foreign,
        } => {
            let from = match (from, foreign) {
                (None, _) => "the beginning".to_owned(),
                (Some(id), false) => format!("checkpoint {id}"),
                (Some(id), true) => {
                    format!("checkpoint {id}, of another directory or older than what this one still keeps,")
                }
            };
            format!(
                "output up to checkpoint {committed} of this checkpoint directory is committed: a run from {from} would \
                 write it twice. Go on from the newest checkpoint (--restore latest, execution.state-recovery.path: \
                 latest), begin a new line of output beside it (--new-lineage, \
                 execution.state-recovery.new-lineage: true), or use another directory"
            )
            .into()
        }
    }
}

fn orphaned(committables: usize) -> BoxError {
    format!(
        "the snapshot lists {committables} pieces of prepared output of it, and the job has no such two-phase sink: they \
         would never become visible. Give the sink that uid again"
    )
    .into()
}
