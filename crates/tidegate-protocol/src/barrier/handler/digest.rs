//! What tells two handlers apart, for a search that visits each state once.

use std::hash::{Hash, Hasher};

use super::super::pending::Progress;
use super::BarrierHandler;

impl BarrierHandler {
    /// Feeds what the handler knows of one channel: a search over tasks whose channels are interchangeable tells
    /// states apart by these, in any order, and by [`Self::hash_common`].
    pub(crate) fn hash_channel(&self, at: usize, state: &mut impl Hasher) {
        self.channels[at].hash(state);
        for pending in &self.pending {
            match &pending.progress {
                Progress::Collecting(collecting) => collecting.arrivals[at].hash(state),
                Progress::Capturing(capturing) => capturing.open[at].hash(state),
            }
        }
    }

    /// Feeds what the handler knows beside [`Self::hash_channel`]; times aside.
    pub(crate) fn hash_common(&self, state: &mut impl Hasher) {
        (self.last_cut, self.oldest_pending, &self.dead).hash(state);
        for pending in &self.pending {
            pending.barrier.hash(state);
            match &pending.progress {
                Progress::Collecting(collecting) => (0u8, collecting.urgency).hash(state),
                Progress::Capturing(_) => 1u8.hash(state),
            }
        }
    }
}
