//! Random types: structs, enums, options and sequences that refer to each other in every way that leaves the
//! type with values. Each must be traced to the end, to the shape that the description gives.

use std::cell::RefCell;

use proptest::prelude::*;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, SeqAccess, VariantAccess, Visitor};

use crate::shape::{Field, Payload, Shape, Variant, trace};

#[derive(Debug, Clone)]
enum Part {
    Number,
    Text,
    Option(Box<Part>),
    Seq(Box<Part>),
    Type(usize),
}

#[derive(Debug, Clone)]
enum Type {
    /// Fields; a direct one refers to later structs or to enums only, or there were no end.
    Struct(Vec<Part>),
    /// Variants with fields; one has none, so there is an end.
    Enum(Vec<Vec<Part>>),
}

const NAMES: [&str; 5] = ["T0", "T1", "T2", "T3", "T4"];
const PARTS: [&[&str]; 4] = [&[], &["a"], &["a", "b"], &["a", "b", "c"]];

thread_local! {
    static TYPES: RefCell<Vec<Type>> = const { RefCell::new(Vec::new()) };
}

/// Whatever [`TYPES`] says.
struct Described;

impl<'de> Deserialize<'de> for Described {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Read(Part::Type(0)).deserialize(d).map(|()| Self)
    }
}

struct Read(Part);

impl<'de> DeserializeSeed<'de> for Read {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        match self.0 {
            Part::Number => u32::deserialize(d).map(drop),
            Part::Text => String::deserialize(d).map(drop),
            Part::Option(inner) => d.deserialize_option(Parts(vec![*inner])),
            Part::Seq(element) => d.deserialize_seq(Elements(*element)),
            Part::Type(i) => match TYPES.with_borrow(|types| types[i].clone()) {
                Type::Struct(fields) => d.deserialize_struct(NAMES[i], PARTS[fields.len()], Parts(fields)),
                Type::Enum(variants) => {
                    d.deserialize_enum(NAMES[i], PARTS[variants.len()], Variants(variants))
                }
            },
        }
    }
}

struct Parts(Vec<Part>);

impl<'de> Visitor<'de> for Parts {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("parts")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(mut self, d: D) -> Result<(), D::Error> {
        Read(self.0.remove(0)).deserialize(d)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        for part in self.0 {
            seq.next_element_seed(Read(part))?
                .expect("as many parts as were asked for");
        }
        Ok(())
    }
}

struct Elements(Part);

impl<'de> Visitor<'de> for Elements {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Read(self.0.clone()))?.is_some() {}
        Ok(())
    }
}

struct Variants(Vec<Vec<Part>>);

impl<'de> Visitor<'de> for Variants {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("variants")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<(), A::Error> {
        let (index, access) = data.variant::<u32>()?;
        let fields = self.0[index as usize].clone();
        match fields.len() {
            0 => access.unit_variant(),
            n => access.tuple_variant(n, Parts(fields)),
        }
    }
}

/// The shape by the description.
fn expected(part: &Part, types: &[Type], around: &mut Vec<usize>) -> Shape {
    let boxed = |part, around: &mut Vec<usize>| Box::new(expected(part, types, around));
    let i = match part {
        Part::Number => return Shape::U32,
        Part::Text => return Shape::Str,
        Part::Option(inner) => return Shape::Option(boxed(inner, around)),
        Part::Seq(element) => return Shape::Seq(boxed(element, around)),
        Part::Type(i) => *i,
    };
    let name = NAMES[i].to_string();
    if let Some(up) = around.iter().rev().position(|outer| *outer == i) {
        return Shape::Recursive { up: up as u32, name };
    }
    around.push(i);
    let shape = match &types[i] {
        Type::Struct(fields) => {
            let named = fields.iter().zip(PARTS[fields.len()]);
            let fields = named.map(|(part, name)| Field {
                name: (*name).into(),
                shape: expected(part, types, around),
            });
            Shape::Struct {
                name,
                fields: fields.collect(),
            }
        }
        Type::Enum(variants) => {
            let named = variants.iter().zip(PARTS[variants.len()]);
            let variants = named.map(|(fields, name)| {
                let parts: Vec<_> = fields.iter().map(|part| expected(part, types, around)).collect();
                let payload = if parts.is_empty() {
                    Payload::Unit
                } else {
                    Payload::Tuple(parts)
                };
                Variant {
                    name: (*name).into(),
                    payload,
                }
            });
            Shape::Enum {
                name,
                variants: variants.collect(),
            }
        }
    };
    around.pop();
    shape
}

fn part() -> impl Strategy<Value = Part> {
    let leaf = prop_oneof![
        Just(Part::Number),
        Just(Part::Text),
        (0..NAMES.len()).prop_map(Part::Type)
    ];
    leaf.prop_recursive(2, 4, 1, |inner| {
        prop_oneof![
            inner.clone().prop_map(|p| Part::Option(Box::new(p))),
            inner.prop_map(|p| Part::Seq(Box::new(p))),
        ]
    })
}

fn types() -> impl Strategy<Value = Vec<Type>> {
    let fields = || proptest::collection::vec(part(), 0..=2);
    let one = prop_oneof![
        fields().prop_map(Type::Struct),
        (
            proptest::collection::vec(fields(), 1..=3),
            any::<proptest::sample::Index>()
        )
            .prop_map(|(mut variants, i)| {
                let plain = i.index(variants.len());
                variants[plain].clear();
                Type::Enum(variants)
            }),
    ];
    proptest::collection::vec(one, NAMES.len()).prop_map(|mut types| {
        let is_struct: Vec<_> = types.iter().map(|t| matches!(t, Type::Struct(_))).collect();
        for (i, t) in types.iter_mut().enumerate() {
            if let Type::Struct(fields) = t {
                for field in fields {
                    if matches!(field, Part::Type(j) if is_struct[*j] && *j <= i) {
                        *field = Part::Number;
                    }
                }
            }
        }
        types
    })
}

proptest! {
    #[test]
    fn any_type_with_values_is_traced(types in types()) {
        let shape = expected(&Part::Type(0), &types, &mut Vec::new());
        TYPES.set(types);
        let traced = trace::<Described>();
        let traced = traced.map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(traced.shape, shape);
        prop_assert!(traced.samples.len() < 100, "{} passes", traced.samples.len());
    }
}
