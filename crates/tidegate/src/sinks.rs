//! Where streams end.

use std::fmt::Debug;
use std::sync::Arc;

use tidegate_runtime::error::BoxError;
use tidegate_runtime::graph::{SinkSpec, TypedOps, make_sink_node};
use tidegate_runtime::operators::{Committer, Prepared, Sink, SinkContext, SinkWriter, erase_sink};
use tidegate_types::codec::Record;
use tidegate_types::{CheckpointId, EventTime};

use crate::build::NodeDraft;
use crate::collect::{CollectSink, Collected};
use crate::stream::Stream;

/// A sink, to be given a uid and a parallelism.
pub struct SinkHandle {
    operator: Stream<()>,
}

impl SinkHandle {
    /// Gives the sink its identity: prepared output is found by it.
    pub fn uid(self, uid: &str) -> Self {
        Self {
            operator: self.operator.uid(uid),
        }
    }

    /// Gives the sink so many subtasks.
    pub fn parallelism(self, subtasks: u32) -> Self {
        Self {
            operator: self.operator.parallelism(subtasks),
        }
    }

    /// The sink runs in a task of its own.
    pub fn disable_chaining(self) -> Self {
        Self {
            operator: self.operator.disable_chaining(),
        }
    }
}

impl<T: Record> Stream<T> {
    /// Ends the stream in a sink.
    pub fn sink<S: Sink<T>>(&self, name: &str, sink: S) -> SinkHandle {
        let sink = erase_sink(sink);
        let spec = SinkSpec {
            committer: {
                let sink = sink.clone();
                Arc::new(move |cx| sink.committer(cx))
            },
        };
        let draft = NodeDraft {
            sink: Some(spec),
            stateful: true,
            ..NodeDraft::new(name, make_sink_node(sink), TypedOps::<()>::shared())
        };
        SinkHandle {
            operator: self.then(draft),
        }
    }

    /// Collects the stream's records in this process, exactly once each: they are there when the checkpoint that
    /// contains them is complete, the last ones at the end of the job.
    pub fn collect(&self, name: &str) -> Collected<T> {
        self.collect_with(name, |sink| sink)
    }

    /// As [`collect`](Self::collect), with a sink that `configure` has given a uid or a parallelism.
    pub fn collect_with(&self, name: &str, configure: impl FnOnce(SinkHandle) -> SinkHandle) -> Collected<T> {
        let collected = Collected::new();
        let _sink = configure(self.sink(name, CollectSink::new(&collected)));
        collected
    }

    /// Calls `f` with every record, as it comes: at least once each after a restore.
    pub fn for_each(&self, name: &str, f: impl Fn(T) + Send + Sync + 'static) -> SinkHandle {
        self.try_for_each(name, move |record| {
            f(record);
            Ok::<(), BoxError>(())
        })
    }

    /// Calls `f` with every record, as it comes; an error fails the attempt.
    pub fn try_for_each<E: Into<BoxError> + 'static>(
        &self,
        name: &str,
        f: impl Fn(T) -> Result<(), E> + Send + Sync + 'static,
    ) -> SinkHandle {
        let f = Arc::new(move |record| f(record).map_err(Into::into));
        self.sink(name, Callback { f })
    }

    /// Prints every record to standard output.
    pub fn print(&self, name: &str) -> SinkHandle
    where
        T: Debug,
    {
        // The one verb whose purpose is to print.
        #[allow(clippy::print_stdout)]
        self.for_each(name, |record| println!("{record:?}"))
    }

    /// Drops every record.
    pub fn discard(&self, name: &str) -> SinkHandle {
        self.for_each(name, drop)
    }
}

type Call<T> = Arc<dyn Fn(T) -> Result<(), BoxError> + Send + Sync>;

struct Callback<T> {
    f: Call<T>,
}

struct CallbackWriter<T> {
    f: Call<T>,
}

impl<T: Record> Sink<T> for Callback<T> {
    type Committable = ();

    fn writer(&self, _: SinkContext) -> Result<Box<dyn SinkWriter<T, ()>>, BoxError> {
        Ok(Box::new(CallbackWriter { f: self.f.clone() }))
    }

    fn committer(&self, _: SinkContext) -> Result<Option<Box<dyn Committer<()>>>, BoxError> {
        Ok(None)
    }
}

impl<T: Record> SinkWriter<T, ()> for CallbackWriter<T> {
    fn write(&mut self, record: T, _: Option<EventTime>) -> Result<(), BoxError> {
        (self.f)(record)
    }

    fn prepare(&mut self, _: CheckpointId) -> Result<Option<Prepared<()>>, BoxError> {
        Ok(None)
    }
}
