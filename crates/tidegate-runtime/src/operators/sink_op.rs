//! The operator around a sink's writer.
//!
//! What a writer prepared at one cut is listed by every later one until a checkpoint that lists it is known to be
//! complete: an aborted checkpoint's output isn't lost, it is committed with the next. The list may name what was
//! committed already (the news is a hint and may be lost), which is why commits are idempotent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use bytes::Bytes;
use tidegate_types::codec::{Record, canonical};
use tidegate_types::snapshot::{Encoding, SectionBytes, SectionHead, SectionKind};
use tidegate_types::{CheckpointId, EventTime};

use crate::chain::{Cursor, CutParts, Flow, OpenContext, Operator, OutBatch, Outcome, Pass, SnapshotPart};
use crate::error::{BoxError, OpError, chain_of};

use super::sink::{AnySink, AnyWriter, SinkContext, SinkRecords};

/// What one cut prepared: run once, by whichever checkpoint's write comes first.
enum Slot {
    Waiting(super::sink::AnyPrepared),
    Done(Vec<Bytes>),
    Failed(String),
}

type Shared = Arc<Mutex<Slot>>;

/// A sink's writer in its chain. It puts nothing out.
pub struct SinkOp<T> {
    sink: Arc<dyn AnySink<T>>,
    cx: SinkContext,
    writer: Option<Box<dyn AnyWriter<T>>>,
    prepared: BTreeMap<CheckpointId, Shared>,
}

impl<T> SinkOp<T> {
    /// The operator for one subtask.
    pub fn new(sink: Arc<dyn AnySink<T>>, cx: SinkContext) -> Self {
        Self {
            sink,
            cx,
            writer: None,
            prepared: BTreeMap::new(),
        }
    }

    fn user(&self, e: BoxError) -> OpError {
        OpError::user(&self.cx.uid, e)
    }

    /// What an earlier cut was to prepare is gone: nothing that this attempt completes could contain it, so it must
    /// end, whatever number of failed checkpoints is tolerated.
    fn check_prepared(&self) -> Result<(), OpError> {
        for (id, slot) in &self.prepared {
            let slot = match slot.try_lock() {
                Ok(slot) => slot,
                Err(TryLockError::Poisoned(slot)) => slot.into_inner(),
                // It is being prepared at this moment.
                Err(TryLockError::WouldBlock) => continue,
            };
            if let Slot::Failed(e) = &*slot {
                return Err(self.user(format!("output could not be prepared at checkpoint {id}: {e}").into()));
            }
        }
        Ok(())
    }
}

fn resolve(slot: &Shared) -> Result<Vec<Bytes>, String> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Slot::Waiting(_) = &*slot {
        let taken = std::mem::replace(
            &mut *slot,
            Slot::Failed("the writer's preparation panicked".into()),
        );
        if let Slot::Waiting(prepare) = taken {
            *slot = match prepare() {
                Ok(committables) => Slot::Done(committables),
                Err(e) => Slot::Failed(chain_of(&*e)),
            };
        }
    }
    match &*slot {
        Slot::Done(committables) => Ok(committables.clone()),
        // What was to be prepared is gone: no later checkpoint may pretend that it has it.
        Slot::Failed(e) => Err(e.clone()),
        Slot::Waiting(_) => unreachable!("resolved above"),
    }
}

impl<T: Record> Operator<T, ()> for SinkOp<T> {
    fn open(&mut self, cx: &mut OpenContext) -> Result<(), OpError> {
        self.cx.wall_ms = cx.wall_ms;
        self.writer = Some(self.sink.writer(self.cx.clone()).map_err(|e| self.user(e))?);
        Ok(())
    }

    fn process(
        &mut self,
        input: &mut Cursor<T>,
        _: &mut OutBatch<()>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        let Some(writer) = &mut self.writer else {
            return Ok(Flow::Done);
        };
        if pass.must_yield() {
            return Ok(Flow::Yielded);
        }
        let before = input.len();
        writer
            .write_all(&mut SinkRecords::new(input, pass))
            .map_err(|e| OpError::user(&self.cx.uid, e))?;
        pass.spend_run(before - input.len());
        Ok(if input.is_empty() {
            Flow::Done
        } else {
            Flow::Yielded
        })
    }

    fn on_watermark(
        &mut self,
        _: EventTime,
        _: &mut OutBatch<()>,
        _: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        Ok(Flow::Done)
    }

    fn on_end(&mut self, _: &mut OutBatch<()>, _: &mut Pass<'_>) -> Result<Flow, OpError> {
        if let Some(writer) = &mut self.writer {
            writer.flush().map_err(|e| OpError::user(&self.cx.uid, e))?;
        }
        Ok(Flow::Done)
    }

    fn cut(&mut self, parts: &mut CutParts) -> Result<(), OpError> {
        self.check_prepared()?;
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        let prepared = writer
            .prepare(parts.id)
            .map_err(|e| OpError::user(&self.cx.uid, e))?;
        if let Some(prepared) = prepared {
            self.prepared
                .insert(parts.id, Arc::new(Mutex::new(Slot::Waiting(prepared))));
        }
        if self.prepared.is_empty() {
            return Ok(());
        }
        let slots: Vec<Shared> = self.prepared.values().cloned().collect();
        let uid = self.cx.uid.clone();
        parts.parts.push(SnapshotPart::later(move || {
            let mut all: Vec<Bytes> = Vec::new();
            for slot in &slots {
                all.extend(resolve(slot).map_err(|e| OpError::user(&uid, e))?);
            }
            let mut bytes = Vec::new();
            canonical::encode_into(&all, &mut bytes).map_err(|e| OpError::fatal(&uid, "committables", e))?;
            let head = SectionHead {
                uid: uid.clone(),
                kind: SectionKind::Committables,
                name: String::new(),
                hashes: None,
                encoding: Encoding::Canonical,
                shapes: Vec::new(),
                records: all.len() as u64,
            };
            Ok(vec![SectionBytes {
                head,
                bytes: bytes.into(),
            }])
        }));
        Ok(())
    }

    fn decided(&mut self, id: CheckpointId, outcome: Outcome) -> Result<(), OpError> {
        if outcome == Outcome::Completed {
            self.prepared.retain(|prepared_at, _| *prepared_at > id);
        }
        self.check_prepared()
    }

    fn close(&mut self) {
        if let Some(writer) = &mut self.writer {
            writer.close();
        }
    }
}

/// Reads a `Committables` section.
///
/// # Errors
/// When it is damaged.
pub fn read_committables(bytes: &[u8]) -> Result<Vec<Bytes>, BoxError> {
    Ok(canonical::decode_from(&mut &bytes[..])?)
}
