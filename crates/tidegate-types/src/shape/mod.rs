//! Shapes: what a type looks like on the wire, taken from the type itself.

use serde::{Deserialize, Serialize};

/// The structure of a serialised type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Shape {
    /// No content.
    Unit,
}
