//! A sink that counts into a lane per subtask.

use tidegate::prelude::*;
use tidegate::runtime::operators::{Committer, Prepared, Sink, SinkContext, SinkWriter};
use tidegate_bench_common::Lane;
use tidegate_bench_common::measure::Lanes;

/// Counts results of type `T`.
pub struct CountSink<T> {
    lanes: Lanes,
    add: fn(&mut Lane, T),
}

impl<T> CountSink<T> {
    /// Each record is handed to `add`.
    pub fn new(lanes: &Lanes, add: fn(&mut Lane, T)) -> Self {
        Self {
            lanes: lanes.clone(),
            add,
        }
    }
}

struct Writer<T> {
    lane: Lane,
    add: fn(&mut Lane, T),
}

impl<T: Send + 'static> Sink<T> for CountSink<T> {
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

impl<T: Send> SinkWriter<T, ()> for Writer<T> {
    #[inline]
    fn write(&mut self, record: T, _: Option<EventTime>) -> Result<(), BoxError> {
        (self.add)(&mut self.lane, record);
        Ok(())
    }

    fn prepare(&mut self, _: CheckpointId) -> Result<Option<Prepared<()>>, BoxError> {
        Ok(None)
    }
}
