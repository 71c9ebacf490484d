//! What a handler knows of one channel, whatever the checkpoint.

use tidegate_types::{CheckpointId, EdgeKind};

/// How far a channel's end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Ending {
    /// Barriers may come.
    Open,
    /// No barrier follows what is queued.
    Queued,
    /// Everything was taken.
    Reached,
}

/// One channel of the task.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Channel {
    pub(super) kind: EdgeKind,
    pub(super) ending: Ending,
    /// The greatest id whose barrier was announced or reached here. Ids rise within a channel, so a lower one
    /// that wasn't seen was skipped.
    pub(super) newest: CheckpointId,
    /// The uncut checkpoint whose barrier was reached here and holds the channel.
    pub(super) blocked: Option<CheckpointId>,
}

impl Channel {
    pub(super) fn new(kind: EdgeKind) -> Self {
        Self {
            kind,
            ending: Ending::Open,
            newest: CheckpointId(0),
            blocked: None,
        }
    }

    /// Whether a barrier of `id`, not seen here so far, can't come any more although the channel goes on.
    pub(super) fn skipped(&self, id: CheckpointId) -> bool {
        self.ending != Ending::Reached && self.newest > id
    }
}
