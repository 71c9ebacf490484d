//! What the declaration of one option consists of.
//!
//! Owns the shape of a declaration, typed ([`Opt`]) and with the type erased ([`Declared`]). The declarations
//! themselves are in `keys`; nothing else in the engine knows a key's text or default.

use super::value::OptionValue;

/// One option whose value has type `T`. All there are stand in [`keys`](super::keys).
pub struct Opt<T: 'static> {
    pub(super) spec: Spec,
    /// Whether a value of the type is one the option takes; `spec.range` says the same in words.
    pub(super) accepts: fn(&T) -> bool,
}

/// A declaration without its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// Dotted lower-case key.
    pub key: &'static str,
    /// The part of the documentation it stands in.
    pub group: &'static str,
    /// What holds when nobody sets it.
    pub default: DefaultValue,
    /// Which values of its type it takes, to follow the type's description; `None` if all.
    pub range: Option<&'static str>,
    /// What it does, with the unit where the type doesn't say it.
    pub meaning: &'static str,
    /// Its counterpart in Flink 2.
    pub flink: Flink,
    /// Names under which a reader may know it from Flink 1. They aren't read; the error names the new one.
    pub former: &'static [&'static str],
}

/// What holds when nobody sets an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    /// This value, as it would be written.
    Value(&'static str),
    /// No value; the words say what that means.
    Unset(&'static str),
}

impl DefaultValue {
    /// As the documentation shows it.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Value(text) | Self::Unset(text) => text,
        }
    }
}

/// How an option relates to Flink 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flink {
    /// The same key, meaning and default.
    Same,
    /// The same key; the words say what differs.
    Differs(&'static str),
    /// Another key, and what differs.
    Other(&'static str, &'static str),
    /// No counterpart.
    None,
}

/// An option with its type erased, as the loader and the documentation see it.
pub trait Declared: Sync {
    /// The declaration.
    fn spec(&self) -> &Spec;

    /// The type's name.
    fn type_name(&self) -> &'static str;

    /// What a valid value looks like, range included.
    fn expected(&self) -> String;

    /// The value in its usual notation, or `None` if the option doesn't take it.
    fn canonical(&self, text: &str) -> Option<String>;
}

impl<T: OptionValue> Opt<T> {
    /// The option's key.
    pub fn key(&self) -> &'static str {
        self.spec.key
    }

    /// Reads a value and checks its range.
    pub(super) fn parse(&self, text: &str) -> Option<T> {
        T::parse(text.trim()).filter(self.accepts)
    }
}

impl<T: OptionValue> Declared for Opt<T> {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn type_name(&self) -> &'static str {
        T::type_name()
    }

    fn expected(&self) -> String {
        match self.spec.range {
            Some(range) => format!("{}, {range}", T::expected()),
            None => T::expected(),
        }
    }

    fn canonical(&self, text: &str) -> Option<String> {
        self.parse(text).map(|value| value.render())
    }
}
