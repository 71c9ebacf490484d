//! What people ask of a job while it runs: savepoints, and to stop it, to go on later or for good.

use tidegate_protocol::coordinator::{Request, SavepointOrder};
use tidegate_types::SavepointFormat;

use crate::seed::{Rng, Seed};

/// How often people want what; drawn once per run.
#[derive(Debug, Clone)]
pub struct People {
    rng: Rng,
    /// A savepoint, per million turns.
    savepoint: u64,
    /// A stop, to go on later, per million turns.
    suspend: u64,
    /// A stop for good, per million turns.
    drain: u64,
}

impl People {
    /// Nobody is there.
    pub fn nobody() -> Self {
        Self {
            rng: Seed(0).rng(),
            savepoint: 0,
            suspend: 0,
            drain: 0,
        }
    }

    /// Draws how often. Nobody drains a job that must come to its end.
    pub fn draw(seed: Seed, may_drain: bool) -> Self {
        let mut rng = seed.rng();
        Self {
            savepoint: rng.pick(&[0, 0, 300, 3_000]),
            suspend: rng.pick(&[0, 0, 300, 1_500]),
            drain: if may_drain { rng.pick(&[200, 1_000]) } else { 0 },
            rng,
        }
    }

    /// Whether a job may end suspended.
    pub fn may_suspend(&self) -> bool {
        self.suspend > 0
    }

    /// What somebody wants at this turn.
    pub fn wants(&mut self) -> Option<Request> {
        if self.rng.chance(self.savepoint, 1_000_000) {
            return Some(Request::Savepoint(self.order()));
        }
        if self.rng.chance(self.suspend, 1_000_000) {
            let savepoint = self.maybe_order();
            return Some(Request::Suspend { savepoint });
        }
        if self.rng.chance(self.drain, 1_000_000) {
            let savepoint = self.maybe_order();
            return Some(Request::Drain { savepoint });
        }
        None
    }

    fn maybe_order(&mut self) -> Option<SavepointOrder> {
        self.rng.chance(1, 2).then(|| self.order())
    }

    fn order(&mut self) -> SavepointOrder {
        SavepointOrder {
            format: self
                .rng
                .pick(&[SavepointFormat::Canonical, SavepointFormat::Native]),
            target: None,
            unaligned: self.rng.chance(1, 3),
        }
    }
}
