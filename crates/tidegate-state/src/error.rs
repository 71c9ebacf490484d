//! What can go wrong with state, always with operator uid and state name.

use thiserror::Error;
use tidegate_types::OperatorUid;
use tidegate_types::codec::CodecError;

use crate::describe::{StateKind, TypePart};

/// Which state an error is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatePlace {
    /// The operator.
    pub uid: OperatorUid,
    /// The state's name.
    pub name: String,
}

impl std::fmt::Display for StatePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "state {:?} of operator {:?}", self.name, self.uid.as_str())
    }
}

/// Why state could not be opened, stored or restored.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StateError {
    /// Two handles of one operator were declared under one name. Fix the job.
    #[error("{place} is declared twice; state names must be unique within an operator")]
    DuplicateName {
        /// Which state.
        place: StatePlace,
    },
    /// A snapshot holds a state that the operator doesn't declare. Declare it, or allow non-restored state.
    #[error("the snapshot holds {place}, which the operator no longer declares")]
    NotDeclared {
        /// Which state.
        place: StatePlace,
    },
    /// A state is stored as another kind than it is declared. Fix the job.
    #[error("{place} is declared as {declared}, but the snapshot holds it as {stored}")]
    KindChanged {
        /// Which state.
        place: StatePlace,
        /// What the program says.
        declared: StateKind,
        /// What the snapshot says.
        stored: StateKind,
    },
    /// A type changed since the snapshot was written natively. Fix the job, or go through a canonical
    /// savepoint.
    #[error(
        "the {part} type of {place} changed: {difference}; native state is readable only with unchanged types: \
         take a savepoint in canonical format with the old program and restore that"
    )]
    ShapeChanged {
        /// Which state.
        place: StatePlace,
        /// Key, value, ….
        part: TypePart,
        /// The path to the first difference and what differs.
        difference: String,
    },
    /// A stored key hashes to something else now: the key's `Serialize` changed, or isn't stable. Fix the job.
    #[error(
        "a key of {place} lies outside the hashes its section covers (hash {hash:#018x} now): the key type \
         serialises differently than when the snapshot was taken"
    )]
    KeyHashChanged {
        /// Which state.
        place: StatePlace,
        /// The hash that the key has now.
        hash: u64,
    },
    /// A key has no hash: it serialises to something without a stable order. Fix the job.
    #[error("a key of {place} can't be hashed: {reason}")]
    KeyHash {
        /// Which state.
        place: StatePlace,
        /// Said by the hasher.
        reason: String,
    },
    /// Stored bytes are damaged. Restore another snapshot.
    #[error("the stored bytes of {place} are damaged at byte {offset}: {reason}")]
    Corrupt {
        /// Which state.
        place: StatePlace,
        /// Where in the section.
        offset: u64,
        /// What was found.
        reason: String,
    },
    /// The section was written by a newer version of this crate.
    #[error("the stored bytes of {place} have version {found}; this program reads up to {supported}")]
    Version {
        /// Which state.
        place: StatePlace,
        /// The version found.
        found: u8,
        /// The newest version understood.
        supported: u8,
    },
    /// A value could not be encoded: the snapshot fails, the state is untouched.
    #[error("a value of {place} can't be stored: {source}")]
    Encode {
        /// Which state.
        place: StatePlace,
        /// Said by the codec.
        source: CodecError,
    },
    /// A value could not be decoded.
    #[error("a value of {place} can't be read: {source}")]
    Decode {
        /// Which state.
        place: StatePlace,
        /// Said by the codec.
        source: CodecError,
    },
}
