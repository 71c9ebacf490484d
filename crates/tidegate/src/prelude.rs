//! What a job program usually needs: `use tidegate::prelude::*`.

pub use crate::{
    BuildErrors, Collected, ConnectedKeyedStreams, ConnectedStreams, Drain, Environment, JobGraph, JobHandle,
    KeyedStream, StartOptions, Stream,
};
pub use tidegate_files::{CsvFiles, FileSink, JsonLinesFiles, OnBadRecord, TextFiles};
pub use tidegate_runtime::error::{BoxError, Permanent};
pub use tidegate_runtime::master::{JobError, JobOutcome, JobState};
pub use tidegate_runtime::operators::{
    CoProcessFunction, FunctionContext, InitializeContext, OnError, ProcessContext, ProcessFunction, SideTag,
    SnapshotContext, Timer, TimerKind, WatermarkStrategy,
};
pub use tidegate_runtime::source::{
    ChannelSender, ChannelSource, CollectionSource, DroppedRecords, GeneratorSource, PushSource, SendError,
    SourceContext,
};
pub use tidegate_state::{
    Aggregate, AggregatingState, BroadcastState, KeyContext, ListState, MapState, OperatorListState,
    ReducingState, States, Ttl, TtlUpdate, TtlVisibility, ValueState,
};
pub use tidegate_types::options::{Configuration, keys};
pub use tidegate_types::{CheckpointId, EventTime, SavepointFormat};
