//! Ids and counts as newtypes, so that a subtask is never taken for a vertex or a parallelism.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a name; any text is accepted here, the graph builder checks what a job may use.
            pub fn new(name: impl Into<Arc<str>>) -> Self {
                Self(name.into())
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                Self::new(name)
            }
        }
    };
}

text!(
    /// A job's stable identity: `--job-id`, else the job's name. It names the checkpoint directory, so two
    /// runs of one job agree on it.
    JobId
);
text!(
    /// The stable identity of an operator across restarts and changes of the program. State is found by it.
    OperatorUid
);

number!(
    /// A checkpoint or savepoint of one job. Grows by one per trigger and is never used twice; the first is 1,
    /// so 0 is below every real id.
    CheckpointId(u64)
);
number!(
    /// Which leadership of the coordinator a message belongs to. A later leader has a greater epoch; messages of
    /// an earlier one are ignored.
    LeaderEpoch(u64)
);
number!(
    /// How often the job was (re)started under this leader; messages of an earlier attempt are ignored.
    AttemptNumber(u32)
);
number!(
    /// A vertex of the execution graph: one chain of operators, run as several subtasks.
    VertexId(u32)
);
number!(
    /// Which of its vertex's or operator's parallel subtasks, from 0.
    SubtaskIndex(u32)
);
number!(
    /// One logical input (one incoming edge) of an operator, from 0.
    InputIndex(u32)
);
number!(
    /// One channel of a task, counted over all its gates, from 0.
    ChannelIndex(u32)
);
number!(
    /// How many restores lie behind in-flight data: what was captured first has the lowest generation and is
    /// delivered first.
    Generation(u32)
);
number!(
    /// How many subtasks an operator has; at least 1.
    Parallelism(u32)
);
number!(
    /// How many key groups a job's keys fall into; the upper bound of its parallelism, fixed for its life.
    MaxParallelism(u32)
);

impl CheckpointId {
    /// The id after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl MaxParallelism {
    /// What a job gets when it names none.
    pub const DEFAULT: Self = Self(128);
    /// The most a job may ask for, as in Flink.
    pub const LIMIT: Self = Self(1 << 15);
}

/// One subtask of one vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SubtaskId {
    /// The chain that runs.
    pub vertex: VertexId,
    /// Which of its parallel copies.
    pub index: SubtaskIndex,
}

impl SubtaskId {
    /// Subtask `index` of `vertex`.
    pub fn new(vertex: VertexId, index: SubtaskIndex) -> Self {
        Self { vertex, index }
    }
}

impl fmt::Display for SubtaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}/{}", self.vertex, self.index)
    }
}
