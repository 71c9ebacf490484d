//! What happens to the operations of one process's store.

use tidegate_storage::fault::{Fault, Op, OpKind};
use tidegate_storage::layout::METADATA;
use tidegate_types::JobId;

use crate::process::Shared;

/// Draws each operation's fate, notes what changes the store, and judges deletions.
pub(crate) fn plan(shared: Shared, name: u32, job: JobId) -> impl FnMut(&Op) -> Fault + Send + 'static {
    move |op| {
        let fault = shared.faults.store(op);
        if op.kind.is_write() || fault != Fault::None {
            shared.note(&format!("p{name} store {:?} {} {fault:?}", op.kind, op.path));
        }
        if op.kind == OpKind::Delete
            && let Some(problem) = shared.deletions.saw(&shared.store, &job, &op.path)
        {
            shared.violations.note(problem);
        }
        if op.kind.is_write() && op.path.ends_with(METADATA) {
            shared.deletions.forget();
        }
        fault
    }
}
