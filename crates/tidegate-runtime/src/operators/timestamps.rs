//! Event times and watermarks.

use std::sync::Arc;
use std::time::Duration;

use tidegate_types::snapshot::{Encoding, SectionBytes, SectionHead, SectionKind};
use tidegate_types::time::{MAX_WATERMARK, MIN_WATERMARK};
use tidegate_types::{Activity, EventTime, OperatorUid};

use crate::chain::{Cursor, CutParts, Flow, OpenContext, Operator, OutBatch, Pass, SnapshotPart, Strider};
use crate::error::OpError;

use super::stateless::strides;

/// When a stream without records stops holding others back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Idleness {
    /// As `source.idle-timeout` says.
    #[default]
    Configured,
    /// Never: a silent stream holds back whatever waits for its watermark.
    Never,
    /// After so long without a record.
    After(Duration),
}

/// How watermarks follow from event times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatermarkStrategy {
    /// How far behind the highest event time a record may come: the watermark is `highest - bound - 1 ms`.
    pub out_of_orderness: Duration,
    /// When the stream counts as idle.
    pub idleness: Idleness,
    /// How often a watermark is sent; zero: after every pass. `None`: as `pipeline.auto-watermark-interval` says.
    pub interval: Option<Duration>,
}

impl WatermarkStrategy {
    /// Records come at most `bound` out of order.
    pub fn bounded_out_of_orderness(bound: Duration) -> Self {
        Self {
            out_of_orderness: bound,
            idleness: Idleness::Configured,
            interval: None,
        }
    }

    /// Event times never fall.
    pub fn monotonous() -> Self {
        Self::bounded_out_of_orderness(Duration::ZERO)
    }

    /// Counts the stream as idle after so long without a record, whatever `source.idle-timeout` says.
    #[must_use]
    pub fn with_idleness(self, after: Duration) -> Self {
        Self {
            idleness: Idleness::After(after),
            ..self
        }
    }

    /// Never counts the stream as idle, whatever `source.idle-timeout` says.
    #[must_use]
    pub fn without_idleness(self) -> Self {
        Self {
            idleness: Idleness::Never,
            ..self
        }
    }

    /// Sends watermarks this often, whatever `pipeline.auto-watermark-interval` says.
    #[must_use]
    pub fn with_interval(self, interval: Duration) -> Self {
        Self {
            interval: Some(interval),
            ..self
        }
    }
}

/// Gives records their event time and sends watermarks.
pub struct TimestampsOp<F> {
    extract: Arc<F>,
    strider: Strider,
    strategy: WatermarkStrategy,
    /// What comes of the strategy and the job's settings.
    interval: Duration,
    idle_after: Option<Duration>,
    uid: OperatorUid,
    highest: EventTime,
    sent: EventTime,
    /// On the wall clock.
    next_send: EventTime,
    last_record: EventTime,
    idle: bool,
}

impl<F> TimestampsOp<F> {
    /// Times come from `extract` (milliseconds since the epoch).
    pub fn new(extract: Arc<F>, strategy: WatermarkStrategy, uid: OperatorUid) -> Self {
        Self {
            extract,
            strider: Strider::default(),
            strategy,
            interval: Duration::ZERO,
            idle_after: None,
            uid,
            highest: MIN_WATERMARK,
            sent: MIN_WATERMARK,
            next_send: 0,
            last_record: 0,
            idle: false,
        }
    }

    fn watermark(&self) -> EventTime {
        if self.highest == MIN_WATERMARK {
            return MIN_WATERMARK;
        }
        self.highest
            .saturating_sub(millis(self.strategy.out_of_orderness))
            .saturating_sub(1)
    }

    fn send<T>(&mut self, wall_ms: EventTime, out: &mut OutBatch<T>) {
        self.next_send = wall_ms.saturating_add(millis(self.interval));
        let watermark = self.watermark();
        if watermark > self.sent {
            self.sent = watermark;
            out.emit_watermark(watermark);
        }
    }
}

fn millis(d: Duration) -> EventTime {
    EventTime::try_from(d.as_millis()).unwrap_or(EventTime::MAX)
}

impl<T, F> Operator<T, T> for TimestampsOp<F>
where
    T: Send,
    F: Fn(&T) -> EventTime + Send + Sync,
{
    fn open(&mut self, cx: &mut OpenContext) -> Result<(), OpError> {
        self.last_record = cx.wall_ms;
        self.interval = self.strategy.interval.unwrap_or(cx.defaults.watermark_interval);
        self.idle_after = match self.strategy.idleness {
            Idleness::Configured => cx.defaults.idle_after,
            Idleness::Never => None,
            Idleness::After(after) => Some(after),
        };
        let sections = cx.take(|k| *k == SectionKind::Generator);
        // Splits may have moved between subtasks, so only what all of them had seen is known to hold.
        let mut least: Option<EventTime> = None;
        for section in sections {
            let bytes: [u8; 8] = section.bytes[..].try_into().map_err(|_| {
                OpError::fatal(
                    &cx.uid,
                    "watermark generator",
                    "its restored state is not 8 bytes",
                )
            })?;
            let highest = EventTime::from_le_bytes(bytes);
            least = Some(least.map_or(highest, |l| l.min(highest)));
        }
        self.highest = least.unwrap_or(MIN_WATERMARK);
        Ok(())
    }

    fn process(
        &mut self,
        input: &mut Cursor<T>,
        out: &mut OutBatch<T>,
        pass: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        if self.idle && !input.is_empty() {
            self.idle = false;
            out.emit_status(Activity::Active);
        }
        self.last_record = pass.wall_ms();
        let flow = strides!(self.strider, input, out, pass, |records| {
            for (value, _) in input.take(records) {
                let time = (self.extract)(&value);
                self.highest = self.highest.max(time);
                out.push(value, Some(time));
            }
        });
        if input.is_empty() && pass.wall_ms() >= self.next_send {
            self.send(pass.wall_ms(), out);
        }
        flow
    }

    fn forwards_watermarks(&self) -> bool {
        false
    }

    fn on_watermark(
        &mut self,
        w: EventTime,
        out: &mut OutBatch<T>,
        _: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        // Watermarks from above mean another stream's times; only the last one, which ends the stream, counts.
        if w == MAX_WATERMARK {
            out.emit_watermark(w);
        } else if self.highest > MIN_WATERMARK && self.sent == MIN_WATERMARK {
            // The first call after a restore: successors hear again where this stream was.
            self.send(0, out);
        }
        Ok(Flow::Done)
    }

    fn on_time(
        &mut self,
        wall_ms: EventTime,
        out: &mut OutBatch<T>,
        _: &mut Pass<'_>,
    ) -> Result<Flow, OpError> {
        if wall_ms >= self.next_send {
            self.send(wall_ms, out);
        }
        if let Some(after) = self.idle_after
            && !self.idle
            && wall_ms >= self.last_record.saturating_add(millis(after))
        {
            self.idle = true;
            out.emit_status(Activity::Idle);
        }
        Ok(Flow::Done)
    }

    fn next_time(&self) -> Option<EventTime> {
        let send = (self.watermark() > self.sent).then_some(self.next_send);
        let idle = self
            .idle_after
            .filter(|_| !self.idle)
            .map(|a| self.last_record.saturating_add(millis(a)));
        send.into_iter().chain(idle).min()
    }

    fn cut(&mut self, parts: &mut CutParts) -> Result<(), OpError> {
        let head = SectionHead {
            uid: self.uid.clone(),
            kind: SectionKind::Generator,
            name: String::new(),
            hashes: None,
            encoding: Encoding::Raw,
            shapes: Vec::new(),
            records: 1,
        };
        let bytes = self.highest.to_le_bytes().to_vec().into();
        parts
            .parts
            .push(SnapshotPart::ready(SectionBytes { head, bytes }));
        Ok(())
    }
}
