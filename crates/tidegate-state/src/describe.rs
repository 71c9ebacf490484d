//! What a declared state is: its kind, its types and how they are stored.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_types::codec::{Record, TypeFormat};
use tidegate_types::shape::Shape;
use tidegate_types::snapshot::{Encoding, SectionKind};

use crate::ttl::Ttl;

/// The kinds of state that an operator can declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StateKind {
    /// One value per key.
    Value = 1,
    /// A list per key.
    List = 2,
    /// A map per key.
    Map = 3,
    /// One value per key into which others are reduced.
    Reducing = 4,
    /// One accumulator per key.
    Aggregating = 5,
    /// Timers per key.
    Timers = 6,
    /// A list per subtask whose entries are dealt out on restore.
    ListSplit = 7,
    /// A list per subtask of which everyone gets everything on restore.
    ListUnion = 8,
    /// A map that is the same in every subtask.
    Broadcast = 9,
}

impl StateKind {
    /// The kind with this number in a section's head.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Value,
            2 => Self::List,
            3 => Self::Map,
            4 => Self::Reducing,
            5 => Self::Aggregating,
            6 => Self::Timers,
            7 => Self::ListSplit,
            8 => Self::ListUnion,
            9 => Self::Broadcast,
            _ => return None,
        })
    }

    /// How a snapshot files sections of this kind.
    pub fn section(self) -> SectionKind {
        match self {
            Self::Value | Self::List | Self::Map | Self::Reducing | Self::Aggregating => SectionKind::Keyed,
            Self::Timers => SectionKind::Timers,
            Self::ListSplit => SectionKind::ListSplit,
            Self::ListUnion => SectionKind::ListUnion,
            Self::Broadcast => SectionKind::Broadcast,
        }
    }
}

impl fmt::Display for StateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Value => "value state",
            Self::List => "list state",
            Self::Map => "map state",
            Self::Reducing => "reducing state",
            Self::Aggregating => "aggregating state",
            Self::Timers => "timers",
            Self::ListSplit => "split list state",
            Self::ListUnion => "union list state",
            Self::Broadcast => "broadcast state",
        })
    }
}

/// Which of a state's types is meant. The order of a section's shapes is the order of a state's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TypePart {
    /// The key that the stream is partitioned by.
    Key,
    /// The value, list element, accumulator or map value.
    Value,
    /// The key within a map.
    MapKey,
}

impl fmt::Display for TypePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "key",
            Self::Value => "value",
            Self::MapKey => "map key",
        })
    }
}

/// One type of a state.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeDescription {
    /// Which one.
    pub part: TypePart,
    /// Its Rust name, for people.
    pub type_name: &'static str,
    /// How it is stored unless a savepoint asks for canonical.
    pub encoding: Encoding,
    /// What its native bytes look like; `None` if the type can't be traced.
    pub shape: Option<Shape>,
    /// Why it isn't stored natively, or what else to log.
    pub warning: Option<String>,
}

impl TypeDescription {
    pub(crate) fn of<T: Record>(part: TypePart, formats: &Formats) -> Self {
        let format = formats.of::<T>();
        Self {
            part,
            type_name: type_name::<T>(),
            encoding: format.encoding(),
            shape: format.shape().cloned(),
            warning: format.warning().map(str::to_owned),
        }
    }
}

/// What a declared state is.
#[derive(Debug, Clone, PartialEq)]
pub struct StateDescription {
    /// Its kind.
    pub kind: StateKind,
    /// Its types, in the order of a section's shapes.
    pub types: Vec<TypeDescription>,
    /// When entries expire, if they do.
    pub ttl: Option<Ttl>,
}

/// The formats of a job's types, each worked out once: [`TypeFormat::of`] takes up to milliseconds.
///
/// One per job, cloned into every task; the lock is held only while a state is opened or described.
#[derive(Clone, Default)]
pub struct Formats {
    known: Arc<Mutex<HashMap<TypeId, Box<dyn Any + Send>>>>,
}

impl Formats {
    /// Nothing worked out yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The format of `T`.
    pub fn of<T: Record>(&self) -> TypeFormat<T> {
        // A panic while the lock was held leaves at worst one format out.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = known
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Box::new(TypeFormat::<T>::of()));
        match entry.downcast_ref::<TypeFormat<T>>() {
            Some(format) => format.clone(),
            None => TypeFormat::of(),
        }
    }
}

impl fmt::Debug for Formats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Formats").finish_non_exhaustive()
    }
}
