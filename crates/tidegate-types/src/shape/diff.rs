//! The first difference between two shapes, in words for the person who changed the type.

use std::collections::BTreeSet;
use std::fmt;

use super::{Field, Payload, Shape, Variant};

/// Where two shapes differ first, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeDiff {
    path: String,
    place: String,
    change: String,
}

impl ShapeDiff {
    /// Structs, fields and variants from outside in, like `Order.lines[].price`; empty if the whole type differs.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What changed there, without the place: "was u32, is u64".
    pub fn change(&self) -> &str {
        &self.change
    }
}

impl fmt::Display for ShapeDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.place.is_empty(), self.path.matches(['.', '[']).count()) {
            (true, _) => f.write_str(&self.change),
            (false, 0..=1) => write!(f, "{}: {}", self.place, self.change),
            (false, _) => write!(f, "{} (at `{}`): {}", self.place, self.path, self.change),
        }
    }
}

/// The first difference, depth first, in the order of the fields.
pub(super) fn first(was: &Shape, is: &Shape) -> Option<ShapeDiff> {
    Comparison {
        path: Vec::new(),
        place: String::new(),
    }
    .shapes(was, is)
}

/// Where the comparison stands.
struct Comparison {
    path: Vec<String>,
    /// The innermost struct or variant part, in words.
    place: String,
}

impl Comparison {
    fn differ(&self, change: String) -> Option<ShapeDiff> {
        Some(ShapeDiff {
            path: self.path.concat(),
            place: self.place.clone(),
            change,
        })
    }

    /// Compares one step further in.
    fn inside(
        &mut self,
        step: String,
        place: Option<String>,
        compare: impl FnOnce(&mut Self) -> Option<ShapeDiff>,
    ) -> Option<ShapeDiff> {
        let outer = place.map(|inner| std::mem::replace(&mut self.place, inner));
        self.path.push(step);
        let found = compare(self);
        self.path.pop();
        if let Some(outer) = outer {
            self.place = outer;
        }
        found
    }

    fn shapes(&mut self, was: &Shape, is: &Shape) -> Option<ShapeDiff> {
        match (was, is) {
            (Shape::Option(a), Shape::Option(b)) => self.shapes(a, b),
            (Shape::Seq(a), Shape::Seq(b)) => self.inside("[]".into(), None, |c| c.shapes(a, b)),
            (Shape::Tuple(a), Shape::Tuple(b)) => self.tuple(a, b, "tuple"),
            (Shape::Array { element: a, len: m }, Shape::Array { element: b, len: n }) => {
                if m != n {
                    return self.differ(format!("was an array of {m}, is one of {n}"));
                }
                self.inside("[]".into(), None, |c| c.shapes(a, b))
            }
            (Shape::Map { key: k, value: v }, Shape::Map { key: l, value: w }) => self
                .inside("[key]".into(), None, |c| c.shapes(k, l))
                .or_else(|| self.inside("[value]".into(), None, |c| c.shapes(v, w))),
            (Shape::UnitStruct { .. }, Shape::UnitStruct { .. }) => None,
            (Shape::Newtype { inner: a, .. }, Shape::Newtype { inner: b, name }) => {
                let place = format!("content of newtype `{name}`");
                self.inside(self.root_name(name), Some(place), |c| c.shapes(a, b))
            }
            (Shape::TupleStruct { fields: a, .. }, Shape::TupleStruct { fields: b, name }) => {
                let of = format!("tuple struct `{name}`");
                self.inside(self.root_name(name), None, |c| c.tuple(a, b, &of))
            }
            (Shape::Struct { fields: a, .. }, Shape::Struct { fields: b, name }) => {
                let of = format!("struct `{name}`");
                self.inside(self.root_name(name), None, |c| c.fields(a, b, &of))
            }
            (Shape::Enum { variants: a, .. }, Shape::Enum { variants: b, name }) => {
                self.inside(self.root_name(name), None, |c| c.variants(a, b, name))
            }
            (Shape::Recursive { up: m, .. }, Shape::Recursive { up: n, .. }) if m == n => None,
            (a, b) if a == b => None,
            (a, b) => self.differ(format!("was {a}, is {b}")),
        }
    }

    /// The outermost type's name begins the path; further in the fields say enough.
    fn root_name(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.into()
        } else {
            String::new()
        }
    }

    fn tuple(&mut self, was: &[Shape], is: &[Shape], of: &str) -> Option<ShapeDiff> {
        if was.len() != is.len() {
            return self.differ(format!("{of} had {} parts, has {}", was.len(), is.len()));
        }
        was.iter().zip(is).enumerate().find_map(|(i, (a, b))| {
            let place = format!("part #{} of {of}", i + 1);
            self.inside(format!(".{i}"), Some(place), |c| c.shapes(a, b))
        })
    }

    fn fields(&mut self, was: &[Field], is: &[Field], of: &str) -> Option<ShapeDiff> {
        let names = |fields: &[Field]| fields.iter().map(|f| f.name.clone()).collect::<Vec<_>>();
        if let Some((at, change)) = names_differ(&names(was), &names(is), "field", of) {
            self.place = at;
            return self.differ(change);
        }
        was.iter().zip(is).find_map(|(a, b)| {
            let place = format!("field `{}` of {of}", b.name);
            self.inside(format!(".{}", b.name), Some(place), |c| {
                c.shapes(&a.shape, &b.shape)
            })
        })
    }

    fn variants(&mut self, was: &[Variant], is: &[Variant], name: &str) -> Option<ShapeDiff> {
        let of = format!("enum `{name}`");
        let names = |variants: &[Variant]| variants.iter().map(|v| v.name.clone()).collect::<Vec<_>>();
        if let Some((at, change)) = names_differ(&names(was), &names(is), "variant", &of) {
            self.place = at;
            return self.differ(change);
        }
        was.iter().zip(is).find_map(|(a, b)| {
            let of = format!("variant `{}` of enum `{name}`", b.name);
            self.inside(format!("::{}", b.name), Some(of.clone()), |c| {
                match (&a.payload, &b.payload) {
                    (Payload::Unit, Payload::Unit) => None,
                    (Payload::Newtype(a), Payload::Newtype(b)) => c.shapes(a, b),
                    (Payload::Tuple(a), Payload::Tuple(b)) => c.tuple(a, b, &of),
                    (Payload::Struct(a), Payload::Struct(b)) => c.fields(a, b, &of),
                    (a, b) => c.differ(format!("carried {}, carries {}", carried(a), carried(b))),
                }
            })
        })
    }
}

fn carried(payload: &Payload) -> String {
    match payload {
        Payload::Unit => "nothing".into(),
        Payload::Newtype(inner) => inner.to_string(),
        Payload::Tuple(parts) => format!("{} unnamed fields", parts.len()),
        Payload::Struct(_) => "named fields".into(),
    }
}

/// Place and change of the first difference between two lists of names, with a guess at what was done.
fn names_differ(was: &[String], is: &[String], what: &str, of: &str) -> Option<(String, String)> {
    if was == is {
        return None;
    }
    let before: BTreeSet<_> = was.iter().collect();
    let after: BTreeSet<_> = is.iter().collect();
    let removed = was.iter().find(|name| !after.contains(name));
    let added = is.iter().find(|name| !before.contains(name));
    match (removed, added) {
        (Some(old), Some(new)) if was.len() == is.len() => {
            let place = format!("{what} `{old}` of {of}");
            let renamed = was.iter().position(|name| name == old) == is.iter().position(|name| name == new);
            let change = if renamed {
                "is missing; renamed to"
            } else {
                "is missing; there is now"
            };
            Some((place, format!("{change} `{new}`?")))
        }
        (Some(old), _) => Some((format!("{what} `{old}` of {of}"), "was removed".into())),
        (None, Some(new)) => Some((format!("{what} `{new}` of {of}"), "was added".into())),
        (None, None) => {
            let (i, (old, new)) = was
                .iter()
                .zip(is)
                .enumerate()
                .find(|(_, (old, new))| old != new)?;
            Some((
                format!("{what} #{} of {of}", i + 1),
                format!("was `{old}`, is `{new}` (swapped?)"),
            ))
        }
    }
}
