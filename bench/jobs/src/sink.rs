//! A sink that counts into a lane per subtask.

use tidegate::prelude::*;
use tidegate::runtime::operators::{Committer, Prepared, Sink, SinkContext, SinkWriter};
use tidegate_bench_common::Lane;
use tidegate_bench_common::measure::Lanes;

/// Counts results.
pub struct CountSink<F> {
    lanes: Lanes,
    add: F,
}

impl<F> CountSink<F> {
    /// Each record is handed to `add`.
    pub fn new(lanes: &Lanes, add: F) -> Self {
        Self {
            lanes: lanes.clone(),
            add,
        }
    }
}

struct Writer<F> {
    lane: Lane,
    add: F,
}

impl<T: Send + 'static, F: Fn(&mut Lane, T) + Copy + Send + Sync + 'static> Sink<T> for CountSink<F> {
    type Committable = ();

    fn writer(&self, _: SinkContext) -> Result<Box<dyn SinkWriter<T, ()>>, BoxError> {
        Ok(Box::new(Writer {
            lane: self.lanes.lane(),
            add: self.add,
        }))
    }

    fn committer(&self, _: SinkContext) -> Result<Option<Box<dyn Committer<()>>>, BoxError> {
        Ok(None)
    }
}

impl<T: Send, F: Fn(&mut Lane, T) + Send> SinkWriter<T, ()> for Writer<F> {
    #[inline]
    fn write(&mut self, record: T, _: Option<EventTime>) -> Result<(), BoxError> {
        (self.add)(&mut self.lane, record);
        Ok(())
    }

    fn prepare(&mut self, _: CheckpointId) -> Result<Option<Prepared<()>>, BoxError> {
        Ok(None)
    }
}
