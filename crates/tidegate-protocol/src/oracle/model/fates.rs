//! What a model remembers of checkpoints.

use std::hash::{Hash, Hasher};

use tidegate_types::CheckpointId;

/// A set of checkpoint ids, all below 64.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct IdSet(pub(super) u64);

impl IdSet {
    /// Whether it holds the id.
    pub fn contains(self, id: CheckpointId) -> bool {
        self.0 >> id.0 & 1 == 1
    }

    /// Adds an id; whether it is new.
    pub fn insert(&mut self, id: CheckpointId) -> bool {
        assert!(id.0 < 64, "a model's checkpoint ids are below 64");
        let is_new = !self.contains(id);
        self.0 |= 1 << id.0;
        is_new
    }

    /// Adds all ids below this one.
    pub fn insert_below(&mut self, id: CheckpointId) {
        assert!(id.0 < 64, "a model's checkpoint ids are below 64");
        self.0 |= (1 << id.0) - 1;
    }

    /// The ids, lowest first.
    pub fn iter(self) -> impl Iterator<Item = CheckpointId> {
        (0..64).map(CheckpointId).filter(move |id| self.contains(*id))
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What is known of checkpoints, by id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Fates {
    /// The handler knows of a barrier or trigger of it.
    pub seen: IdSet,
    /// There was a cause to give it up.
    pub doomed: IdSet,
    /// Its cut was taken.
    pub cut: IdSet,
    /// All its barriers are in.
    pub complete: IdSet,
    /// A cancel marker went downstream.
    pub cancelled: IdSet,
    /// The coordinator was told.
    pub declined: IdSet,
    /// The handler has given it up.
    pub dropped: IdSet,
    /// It may overtake, as far as it alone is concerned.
    pub hurried: IdSet,
    /// It must not be made to overtake by others: savepoints, quiesced and at-least-once ones.
    pub steady: IdSet,
    /// It counts and doesn't block.
    pub counting: IdSet,
    /// A timeout was asked for.
    pub armed: IdSet,
    /// Something in flight was captured for it, feedback channels aside.
    pub overtook: IdSet,
}

impl Fates {
    /// What was known of a checkpoint that is over makes no difference, but that it is over and who was told.
    pub(super) fn hash_into(&self, live: IdSet, state: &mut impl Hasher) {
        (
            self.cut,
            self.complete,
            self.dropped,
            self.cancelled,
            self.declined,
        )
            .hash(state);
        for set in [
            self.doomed,
            self.hurried,
            self.steady,
            self.counting,
            self.armed,
            self.overtook,
            self.seen,
        ] {
            set.and(live).hash(state);
        }
    }
}
