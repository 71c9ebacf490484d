//! Whether stored types are still the program's.

use tidegate_types::shape::Shape;
use tidegate_types::snapshot::{Encoding, SectionHead};

use crate::describe::{StateKind, TypePart};
use crate::error::{StateError, StatePlace};

/// The parts of a kind's types, in the order of a section's shapes.
pub(crate) fn parts(kind: StateKind) -> &'static [TypePart] {
    match kind {
        StateKind::Value | StateKind::List | StateKind::Reducing | StateKind::Aggregating => {
            &[TypePart::Key, TypePart::Value]
        }
        StateKind::Map | StateKind::Timers => &[TypePart::Key, TypePart::MapKey, TypePart::Value],
        StateKind::ListSplit | StateKind::ListUnion => &[TypePart::Value],
        StateKind::Broadcast => &[TypePart::MapKey, TypePart::Value],
    }
}

/// Compares a native section's shapes with those of the program. Canonical sections are read whatever their
/// types were.
pub(crate) fn check_shapes(
    place: &StatePlace,
    kind: StateKind,
    head: &SectionHead,
    now: &[Shape],
    native: bool,
) -> Result<(), StateError> {
    if head.encoding != Encoding::Native {
        return Ok(());
    }
    let parts = parts(kind);
    let changed = |part: TypePart, difference: String| StateError::ShapeChanged {
        place: place.clone(),
        part,
        difference,
    };
    if !native {
        // Which of the types it is isn't known here, and keys are rarely what has no shape.
        let part = parts.last().copied().unwrap_or(TypePart::Value);
        let difference =
            "it was stored natively, and a type of this state has no native form any more".into();
        return Err(changed(part, difference));
    }
    if head.shapes.len() != now.len() {
        let reason = format!(
            "{} shapes where the state has {} types",
            head.shapes.len(),
            now.len()
        );
        return Err(StateError::Corrupt {
            place: place.clone(),
            offset: 0,
            reason,
        });
    }
    for ((was, is), part) in head.shapes.iter().zip(now).zip(parts) {
        if let Some(difference) = was.difference(is) {
            return Err(changed(*part, difference.to_string()));
        }
    }
    Ok(())
}
