//! What holds between any two events, in release builds too.
//!
//! Owns: the assertions on leaving a step. Each is cheap (the undecided are few) and says a property that the rest of
//! the engine rests on; a broken one is a bug here, and going on would risk a wrong decision.

use super::Coordinator;
use super::decider::Periodic;
use super::pending::Stage;
use super::requests::MAX_UNDECIDED;
use super::takeover::MAX_INHERITED;

impl Coordinator {
    pub(super) fn check_invariants(&self) {
        self.check_order();
        self.check_stages();
        if let Some(at) = self.next_timeout() {
            assert!(
                at > self.now,
                "the timeout {at} is not behind {}: it would fire without end",
                self.now
            );
        }
        assert!(
            self.committing.len() <= 1,
            "commits of {:?} overlap",
            self.committing
        );
        match self.periodic {
            Periodic::Off => {}
            Periodic::Due(_) | Periodic::Held(_) => {
                assert!(
                    self.settings.interval.is_some(),
                    "there is a periodic trigger without an interval"
                );
            }
        }
    }

    /// Ids are decided in order: the undecided ones are those up to the next id, without a gap, and only the lowest is
    /// being written.
    fn check_order(&self) {
        let count = self.undecided.len() as u64;
        let bound = MAX_UNDECIDED as u64 + MAX_INHERITED;
        assert!(count <= bound, "{count} ids are undecided");
        if let Some((lowest, _)) = self.undecided.first_key_value() {
            assert_eq!(lowest.0 + count, self.next_id.0, "an undecided id is missing");
            assert!(
                self.decided.newest().is_none_or(|(newest, _)| newest < *lowest),
                "{lowest} was overtaken"
            );
        }
        let writing = self
            .undecided
            .values()
            .skip(1)
            .find(|pending| pending.is_writing());
        assert!(writing.is_none(), "{writing:?} is being written out of turn");
    }

    fn check_stages(&self) {
        for (id, pending) in &self.undecided {
            match &pending.stage {
                Stage::Collecting { missing, parts } => {
                    assert!(!missing.is_empty(), "checkpoint {id} waits for nobody");
                    let all = missing.len() + parts.subtasks.len();
                    assert_eq!(
                        all,
                        self.tasks.plan().subtask_count(),
                        "subtasks of checkpoint {id}"
                    );
                }
                Stage::ExternalPhase(parts)
                | Stage::CopyingSavepoint(parts)
                | Stage::AwaitingTurn(parts)
                | Stage::WritingComplete(parts) => {
                    let all = self.tasks.plan().subtask_count();
                    assert_eq!(parts.subtasks.len(), all, "subtasks of checkpoint {id}");
                }
                Stage::SnapshottingEnumerators | Stage::Aborting { .. } => {}
            }
        }
    }
}
