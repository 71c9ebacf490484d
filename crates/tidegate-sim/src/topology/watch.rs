//! What user code of a random job carries with it: faults, time, and the checkers that it reports to.

use std::sync::Arc;
use std::time::Duration;

use tidegate::prelude::{BoxError, ProcessContext};

use super::item::Item;
use crate::checks::state::StateCheck;
use crate::checks::watermarks::WatermarkCheck;
use crate::scenario::Tools;

/// One operator's way to the world outside. Clones share it.
#[derive(Clone)]
pub struct Watch {
    tools: Tools,
    states: StateCheck,
    place: Arc<str>,
    work: Duration,
}

impl Watch {
    /// The operator with this uid, whose user code takes so long for a record.
    pub fn new(tools: &Tools, states: &StateCheck, place: &str, work: Duration) -> Self {
        Self {
            tools: tools.clone(),
            states: states.clone(),
            place: place.into(),
            work,
        }
    }

    /// User code has a record: time passes, and it may fail.
    ///
    /// # Errors
    /// An injected one.
    pub fn record(&self) -> Result<(), BoxError> {
        if !self.work.is_zero() {
            self.tools.clock.spend(self.work);
        }
        self.tools.faults.user_code(&self.place)
    }

    /// A key has seen everything: this is what it saw.
    pub fn saw(&self, key: u64, n: i64) {
        if let Some(problem) = self.states.saw(&self.place, key, n) {
            self.tools.violations.note(problem);
        }
    }

    /// Looks at event time as one subtask of this operator sees it.
    pub fn watermarks(&self) -> KeyWatermarks {
        KeyWatermarks {
            check: WatermarkCheck::default(),
            watch: self.clone(),
        }
    }
}

/// Event time as the keys of one subtask see it.
pub struct KeyWatermarks {
    check: WatermarkCheck<u64>,
    watch: Watch,
}

impl KeyWatermarks {
    /// A key has a record or timer.
    pub fn look(&mut self, cx: &ProcessContext<'_, u64, Item>) {
        if let Some(problem) = self.check.saw(*cx.key(), cx.watermark()) {
            let place = &self.watch.place;
            self.watch
                .tools
                .violations
                .note(format!("`{place}`, key: {problem}"));
        }
    }
}
