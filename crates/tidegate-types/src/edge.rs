//! What an edge of the dataflow can do about barriers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Decides whether a barrier may overtake records on an edge. A capability of the edge, never of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EdgeKind {
    /// Can be overtaken: hash, rebalance, rescale, forward, custom. What was overtaken is routed anew on restore.
    Normal,
    /// Aligned in every mode but at-least-once: broadcast, and edges inside a sink. Restoring captured records
    /// of such an edge would deliver them to the wrong number of consumers.
    Sealed,
    /// Closes a loop: never blocked, recorded from the cut until its barrier comes back.
    Feedback,
}

impl fmt::Display for EdgeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "normal",
            Self::Sealed => "sealed",
            Self::Feedback => "feedback",
        })
    }
}
