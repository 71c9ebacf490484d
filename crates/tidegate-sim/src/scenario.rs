//! What is run: a job that can be built again and again, and what must come of it.

use std::sync::Arc;

use crate::checks::commits::Witness;
use crate::clock::SimClock;
use crate::faults::Faults;
use crate::process::Job;
use crate::seed::Seed;
use crate::trace::Violations;

/// What user code of a scenario may use.
#[derive(Clone)]
pub struct Tools {
    /// To take its time.
    pub clock: Arc<SimClock>,
    /// To fail.
    pub faults: Faults,
    /// To complain.
    pub violations: Violations,
}

/// A job with its oracle. Its sinks write into topics that outlive processes.
pub trait Scenario {
    /// What it is, for a report.
    fn describe(&self) -> String;

    /// Builds the job for a process that starts. `start` is drawn anew for each: the parallelism of operators may
    /// depend on it.
    fn build(&self, start: Seed) -> Job;

    /// Who judges commits.
    fn set_witness(&self, witness: Witness);

    /// What is wrong with the output at the end.
    fn problems(&self) -> Vec<String>;

    /// Whether the job may be drained before its input is read: then it must know what comes of a part of that.
    fn can_be_cut_short(&self) -> bool {
        false
    }

    /// From here on the job may end before its input is read.
    fn on_cut_short(&self) {}

    /// Records that one record or timer may bring out at once, at most; `None` if nobody knows.
    fn burst(&self) -> Option<u64> {
        None
    }
}
