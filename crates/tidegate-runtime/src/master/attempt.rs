//! Split enumerators of one attempt: who asked, what was assigned, what is in the cut.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tidegate_protocol::coordinator::ReaderSplits;
use tidegate_protocol::message::ToTask;
use tidegate_storage::Snapshot;
use tidegate_types::snapshot::{Encoding, Section, SectionHead, SectionKind};
use tidegate_types::{OperatorUid, SubtaskId};

use crate::error::{BoxError, guarded};
use crate::graph::JobGraph;
use crate::source::{AnyEnumerator, Assignment};

use super::error::JobError;
use super::io::Executor;

/// The enumerators of a job's sources.
#[derive(Default)]
pub(super) struct Enumerators {
    by_uid: BTreeMap<OperatorUid, Box<dyn AnyEnumerator>>,
    /// Readers that asked when there was nothing to give.
    waiting: BTreeSet<(OperatorUid, SubtaskId)>,
}

fn source_error(uid: &OperatorUid, error: &BoxError) -> JobError {
    JobError::Source {
        uid: uid.to_string(),
        reason: crate::error::chain_of(&**error),
        permanent: crate::error::is_permanent(&**error),
    }
}

impl Enumerators {
    /// Makes all enumerators, from the snapshot if there is one.
    pub(super) fn make(
        graph: &JobGraph,
        snapshot: Option<&Snapshot>,
        executor: &Executor,
    ) -> Result<Self, JobError> {
        let mut enumerators = Self::default();
        for node in &graph.nodes {
            let Some(source) = &node.source else { continue };
            let stored = snapshot.and_then(|s| {
                let of_source =
                    |x: &&Section| x.head.kind == SectionKind::Enumerator && x.head.uid == node.uid;
                Some((s, s.metadata().master.iter().find(of_source)?))
            });
            let state = match stored {
                Some((snapshot, section)) => Some(
                    executor
                        .block_on(snapshot.reader().read_section(section))
                        .map_err(JobError::Store)?,
                ),
                None => None,
            };
            let made =
                guarded(|| (source.enumerator)(state.as_deref())).map_err(|e| source_error(&node.uid, &e))?;
            enumerators.by_uid.insert(node.uid.clone(), made);
        }
        Ok(enumerators)
    }

    /// A reader asks. The answer may be nothing for now.
    pub(super) fn on_request(
        &mut self,
        uid: &OperatorUid,
        reader: SubtaskId,
    ) -> Result<Option<ToTask>, JobError> {
        let Some(enumerator) = self.by_uid.get_mut(uid) else {
            return Ok(None);
        };
        let next = guarded(|| enumerator.next_split(reader.index)).map_err(|e| source_error(uid, &e))?;
        Ok(match next {
            Assignment::Split(split) => Some(ToTask::AssignSplits {
                uid: uid.clone(),
                splits: vec![split],
            }),
            Assignment::NoMore => Some(ToTask::NoMoreSplits { uid: uid.clone() }),
            Assignment::Later => {
                self.waiting.insert((uid.clone(), reader));
                None
            }
        })
    }

    /// A reader asks before anything may be given.
    pub(super) fn wait(&mut self, uid: OperatorUid, reader: SubtaskId) {
        self.waiting.insert((uid, reader));
    }

    /// Readers have these splits, which the enumerators' state doesn't know of.
    pub(super) fn take_over(&mut self, held: &[ReaderSplits]) -> Result<(), JobError> {
        for ReaderSplits { uid, splits, .. } in held {
            if let Some(enumerator) = self.by_uid.get_mut(uid) {
                guarded(|| enumerator.take_over(splits)).map_err(|e| source_error(uid, &e))?;
            }
        }
        Ok(())
    }

    /// Whether readers wait for splits that may turn up.
    pub(super) fn anybody_waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Asks again on behalf of everybody who waits.
    pub(super) fn ask_again(&mut self) -> Result<Vec<(SubtaskId, ToTask)>, JobError> {
        let mut answers = Vec::new();
        for (uid, reader) in std::mem::take(&mut self.waiting) {
            if let Some(answer) = self.on_request(&uid, reader)? {
                answers.push((reader, answer));
            }
        }
        Ok(answers)
    }

    /// Every enumerator's state.
    pub(super) fn snapshot(&mut self) -> Result<Vec<Section>, (OperatorUid, BoxError)> {
        let mut sections = Vec::new();
        for (uid, enumerator) in &mut self.by_uid {
            let bytes: Bytes = guarded(|| enumerator.snapshot()).map_err(|e| (uid.clone(), e))?;
            let head = SectionHead {
                uid: uid.clone(),
                kind: SectionKind::Enumerator,
                name: String::new(),
                hashes: None,
                encoding: Encoding::Canonical,
                shapes: Vec::new(),
                records: 1,
            };
            sections.push(Section::inline(head, bytes));
        }
        Ok(sections)
    }
}
