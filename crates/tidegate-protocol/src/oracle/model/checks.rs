//! What holds of a task between any two steps, stated without knowing how its handler works.

use tidegate_types::EdgeKind;

use super::super::Violation;
use super::{Model, expect, index, wrong};

impl Model {
    /// What holds between steps.
    pub(super) fn check(&self) -> Result<(), Violation> {
        let fates = &self.fates;
        for (at, queue) in self.queues.iter().enumerate().filter(|(_, q)| q.blocked) {
            let id = queue.reached;
            let holds = id.0 > 0
                && !fates.cut.contains(id)
                && !fates.dropped.contains(id)
                && !fates.counting.contains(id);
            if !holds {
                return Err(wrong(id, index(at), "held without a reason"));
            }
        }
        let lost = fates
            .seen
            .and(fates.doomed)
            .minus(fates.complete)
            .minus(fates.dropped);
        if let Some(id) = lost.iter().next() {
            return Err(Violation::WrongFate {
                id,
                what: "not given up although it can't complete",
            });
        }
        self.check_prompt()
    }

    /// The lowest checkpoint that isn't cut has something to wait for.
    fn check_prompt(&self) -> Result<(), Violation> {
        let uncut = self.fates.seen.minus(self.fates.cut).minus(self.fates.doomed);
        let Some(id) = uncut.iter().next() else {
            return Ok(());
        };
        let waits_for = |wanted: fn(EdgeKind) -> bool| {
            self.queues
                .iter()
                .any(|q| wanted(q.kind) && !q.end_reached && q.reached < id)
        };
        let firm = uncut
            .and(self.fates.steady)
            .minus(self.fates.hurried)
            .iter()
            .next();
        let hurry = uncut
            .and(self.fates.hurried)
            .iter()
            .find(|h| firm.is_none_or(|firm| *h < firm));
        let waits = match hurry {
            Some(_) => waits_for(|kind| kind == EdgeKind::Sealed),
            None => waits_for(|kind| kind != EdgeKind::Feedback),
        };
        expect(waits, id, "not cut although nothing is awaited")
    }
}
