//! A task whose head is a source.

use std::time::Duration;

use bytes::Bytes;
use tidegate_protocol::barrier::BarrierEvent;
use tidegate_types::codec::canonical;
use tidegate_types::snapshot::{Encoding, SectionBytes, SectionHead, SectionKind};
use tidegate_types::time::{MAX_WATERMARK, MIN_WATERMARK};
use tidegate_types::{ChannelIndex, CheckpointId, EdgeKind, EventTime, Generation, Nanos, OperatorUid};

use crate::chain::{
    Chain, Control, CutParts, Event, Flow, Node, NodeMeta, OpenContext, Outcome, Outlet, Overdraft, Pass,
    Progress, SnapshotPart,
};
use crate::error::OpError;
use crate::source::{AnyReader, AnySource, Poll, PollContext, ReaderContext};

use super::body::{Body, BodyTaken, SourceControl};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reading,
    /// Told to end; what was accepted already is still emitted.
    Stopping(bool),
    /// The end (with or without drain) is to be sent.
    Ending(bool),
    Ended,
}

/// A source reader and the chain behind it.
pub struct SourceBody<T> {
    head: SourceNode<T>,
}

struct SourceNode<T> {
    meta: NodeMeta,
    source: std::sync::Arc<dyn AnySource<T>>,
    reader: Option<Box<dyn AnyReader<T>>>,
    outlet: Outlet<T>,
    phase: Phase,
    paused: bool,
    no_more: bool,
    asked: bool,
    wants: bool,
    drains: bool,
}

impl<T: Send + 'static> SourceBody<T> {
    /// A source in front of `outlet`.
    pub fn new(meta: NodeMeta, source: std::sync::Arc<dyn AnySource<T>>, outlet: Outlet<T>) -> Self {
        Self {
            head: SourceNode {
                meta,
                source,
                reader: None,
                outlet,
                phase: Phase::Reading,
                paused: false,
                no_more: false,
                asked: false,
                wants: false,
                drains: true,
            },
        }
    }
}

impl<T: Send + 'static> SourceNode<T> {
    fn take(&mut self, pass: &mut Pass<'_>) -> Result<BodyTaken, OpError> {
        match self.phase {
            Phase::Ended => return Ok(BodyTaken::Nothing(None)),
            Phase::Ending(drain) => {
                if drain {
                    self.outlet.event(Event::Watermark(MAX_WATERMARK));
                }
                self.outlet.event(Event::End(drain));
                self.drains = drain;
                self.phase = Phase::Ended;
                return Ok(BodyTaken::Element(0));
            }
            Phase::Reading if self.paused => return Ok(BodyTaken::Nothing(None)),
            Phase::Reading | Phase::Stopping(_) => {}
        }
        if pass.must_yield() {
            return Ok(BodyTaken::Yield);
        }
        if !self.outlet.make_room(pass) {
            return Ok(BodyTaken::Full);
        }
        let Some(reader) = &mut self.reader else {
            return Ok(BodyTaken::Nothing(None));
        };
        let before = self.outlet.out().len();
        let urgent = || pass.must_yield();
        let mut cx = PollContext {
            wall_ms: pass.wall_ms(),
            now: pass.now(),
            clock: pass.clock(),
            urgent: &urgent,
        };
        let poll = reader
            .poll(self.outlet.out(), &mut cx)
            .map_err(|e| OpError::user(&self.meta.uid, e))?;
        let read = self.outlet.out().len() - before;
        pass.spend_run(read);
        pass.note_skipped(self.outlet.out().take_skipped());
        let put_out = !self.outlet.out().is_empty();
        self.outlet.hand_on();
        Ok(match poll {
            _ if put_out => BodyTaken::Element(read as u64),
            Poll::More => BodyTaken::Element(0),
            Poll::Wait(until) => {
                if reader.takes_more() && !self.asked && !self.no_more {
                    self.asked = true;
                    self.wants = true;
                }
                BodyTaken::Nothing(until)
            }
            Poll::SplitsDone if matches!(self.phase, Phase::Stopping(_)) => {
                if let Phase::Stopping(drain) = self.phase {
                    self.phase = Phase::Ending(drain);
                }
                BodyTaken::Element(0)
            }
            Poll::SplitsDone if self.no_more => {
                self.phase = Phase::Ending(true);
                BodyTaken::Element(0)
            }
            Poll::SplitsDone => {
                if !self.asked {
                    self.asked = true;
                    self.wants = true;
                }
                BodyTaken::Nothing(None)
            }
        })
    }
}

impl<T: Send + 'static> Chain for SourceNode<T> {
    fn run(&mut self, pass: &mut Pass<'_>) -> Result<Flow, OpError> {
        self.outlet.run(pass)
    }

    fn room(&self) -> usize {
        self.outlet.room()
    }

    fn is_empty(&self) -> bool {
        self.outlet.is_empty()
    }

    fn watermark(&self) -> EventTime {
        MIN_WATERMARK
    }

    fn emitted(&self) -> u64 {
        self.outlet.emitted()
    }

    fn control(&mut self, control: Control<'_>, now: Nanos) {
        self.outlet.control(control, now);
    }

    fn wait_for_room(&self) -> bool {
        self.outlet.wait_for_room()
    }

    fn deadlines(&self) -> (Option<Nanos>, Option<EventTime>) {
        self.outlet.deadlines()
    }

    fn on_time(&mut self, wall_ms: EventTime) {
        self.outlet.on_time(wall_ms);
    }

    fn visit(&mut self, f: &mut dyn FnMut(&mut dyn Node) -> Result<(), OpError>) -> Result<(), OpError> {
        f(self)?;
        self.outlet.visit(f)
    }

    fn finish_records(&mut self, overdraft: &mut Overdraft<'_>) -> Result<bool, OpError> {
        self.outlet.finish_records(overdraft)
    }

    fn prepare_snapshot(&mut self, id: CheckpointId, run_on: Option<&mut Pass<'_>>) -> Result<(), OpError> {
        self.outlet.prepare_snapshot(id, run_on)
    }
}

impl<T: Send + 'static> Node for SourceNode<T> {
    fn meta(&self) -> &NodeMeta {
        &self.meta
    }

    fn open(&mut self, mut cx: OpenContext) -> Result<(), OpError> {
        let uid = cx.uid.clone();
        let reader_cx = ReaderContext {
            subtask: cx.subtask,
            parallelism: cx.parallelism,
            signal: cx.signal.clone(),
            max_staged_records: cx.defaults.max_staged_records,
            periodic_checkpoints: cx.defaults.periodic_checkpoints,
        };
        let mut reader = self
            .source
            .reader(reader_cx)
            .map_err(|e| OpError::user(&uid, e))?;
        let same = cx.old_parallelism == Some(cx.parallelism);
        let mut index = 0u32;
        for section in cx.take(|k| *k == SectionKind::Splits) {
            let splits: Vec<Bytes> = canonical::decode_from(&mut &section.bytes[..])
                .map_err(|e| OpError::fatal(&uid, "restored splits", e))?;
            for split in splits {
                // At another parallelism the splits of all old readers are dealt out in turn.
                let mine = if same {
                    section.subtask == cx.subtask
                } else {
                    index % cx.parallelism.0 == cx.subtask.0
                };
                index += 1;
                if mine {
                    reader
                        .add_split(&split)
                        .map_err(|e| OpError::fatal(&uid, "restored split", e))?;
                }
            }
        }
        self.reader = Some(reader);
        Ok(())
    }

    fn cut(&mut self, parts: &mut CutParts) -> Result<(), OpError> {
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        let splits = if self.phase == Phase::Ended {
            Vec::new()
        } else {
            reader
                .snapshot(parts.id)
                .map_err(|e| OpError::user(&self.meta.uid, e))?
        };
        let mut bytes = Vec::new();
        canonical::encode_into(&splits, &mut bytes)
            .map_err(|e| OpError::fatal(&self.meta.uid, "splits", e))?;
        let head = SectionHead {
            uid: self.meta.uid.clone(),
            kind: SectionKind::Splits,
            name: String::new(),
            hashes: None,
            encoding: Encoding::Canonical,
            shapes: Vec::new(),
            records: splits.len() as u64,
        };
        parts.parts.push(SnapshotPart::ready(SectionBytes {
            head,
            bytes: bytes.into(),
        }));
        Ok(())
    }

    fn sweep(
        &mut self,
        _: CheckpointId,
        _: &mut dyn FnMut() -> bool,
        _: &mut Vec<SnapshotPart>,
    ) -> Result<Progress, OpError> {
        Ok(Progress::Done)
    }

    fn decided(&mut self, id: CheckpointId, outcome: Outcome) -> Result<(), OpError> {
        match (&mut self.reader, outcome) {
            (Some(reader), Outcome::Completed) => {
                reader.completed(id).map_err(|e| OpError::user(&self.meta.uid, e))
            }
            _ => Ok(()),
        }
    }

    fn is_suspended(&self) -> bool {
        false
    }

    fn close(&mut self) {
        if let Some(reader) = &mut self.reader {
            reader.close();
        }
    }
}

impl<T: Send + 'static> Body for SourceBody<T> {
    fn kinds(&self) -> Vec<EdgeKind> {
        Vec::new()
    }

    fn chain(&mut self) -> &mut dyn Chain {
        &mut self.head
    }

    fn chain_is_empty(&self) -> bool {
        self.head.is_empty()
    }

    fn set_generation(&mut self, _: Generation) {}

    fn pass_limit(&self) -> usize {
        usize::MAX
    }

    fn take(&mut self, pass: &mut Pass<'_>) -> Result<BodyTaken, OpError> {
        self.head.take(pass)
    }

    fn announcements(&mut self, _: Nanos, _: &mut Vec<BarrierEvent>) {}

    fn give_back(&mut self) {}

    fn on_busy(&mut self, _: Duration, _: u64) {}

    fn has_ended(&self) -> bool {
        self.head.phase == Phase::Ended && self.head.is_empty()
    }

    fn ends_for_good(&self) -> bool {
        self.head.drains
    }

    fn fill(&self) -> (u64, u64) {
        (0, 0)
    }

    fn block(&mut self, _: ChannelIndex) {}
    fn release(&mut self, _: ChannelIndex) {}
    fn begin_capture(&mut self, _: CheckpointId, _: ChannelIndex) {}
    fn overtake(&mut self, _: CheckpointId, _: ChannelIndex) {}
    fn capture_rest(&mut self, _: CheckpointId, _: ChannelIndex) {}
    fn end_capture(&mut self, _: CheckpointId, _: ChannelIndex) {}
    fn drop_captures(&mut self, _: CheckpointId) {}

    fn take_captures(&mut self, _: CheckpointId) -> Vec<SnapshotPart> {
        Vec::new()
    }

    fn estimate_bytes(&self, _: u64) -> u64 {
        0
    }

    fn source(&mut self) -> Option<&mut dyn SourceControl> {
        Some(&mut self.head)
    }

    fn revoke(&self) -> Box<dyn Fn() + Send + Sync> {
        Box::new(|| {})
    }
}

impl<T: Send + 'static> SourceControl for SourceNode<T> {
    fn assign(&mut self, splits: &[Bytes]) -> Result<(), OpError> {
        self.asked = false;
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        for split in splits {
            reader
                .add_split(split)
                .map_err(|e| OpError::user(&self.meta.uid, e))?;
        }
        Ok(())
    }

    fn no_more_splits(&mut self) {
        self.no_more = true;
    }

    fn pause(&mut self) {
        self.paused = true;
    }

    fn resume(&mut self) {
        self.paused = false;
    }

    fn stop(&mut self, drain: bool) {
        if self.phase != Phase::Reading {
            return;
        }
        let nothing_left = self.reader.as_mut().is_none_or(|r| r.stop());
        // A job that is being suspended emits nothing behind its snapshot; what is left is in there.
        self.phase = if nothing_left || !drain {
            Phase::Ending(drain)
        } else {
            Phase::Stopping(drain)
        };
    }

    fn hold_for_cut(&mut self) -> bool {
        self.reader.as_mut().is_none_or(|r| r.hold_for_cut())
    }

    fn release_after_cut(&mut self) {
        if let Some(reader) = &mut self.reader {
            reader.release_after_cut();
        }
    }

    fn is_reading(&self) -> bool {
        matches!(self.phase, Phase::Reading | Phase::Stopping(_))
    }

    fn wants_split(&mut self) -> bool {
        std::mem::take(&mut self.wants)
    }

    fn ask_again(&mut self) {
        self.wants |= self.asked && !self.no_more;
    }

    fn uid(&self) -> &OperatorUid {
        &self.meta.uid
    }
}
