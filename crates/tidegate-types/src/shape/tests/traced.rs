//! Types that have a shape.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::{NonZeroI8, NonZeroU64};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::shape::{Field, Payload, Shape, Variant, trace};

fn field(name: &str, shape: Shape) -> Field {
    Field {
        name: name.into(),
        shape,
    }
}

fn of<T: serde::de::DeserializeOwned>() -> Shape {
    Shape::of::<T>().unwrap()
}

#[test]
fn plain_types() {
    assert_eq!(of::<()>(), Shape::Unit);
    assert_eq!(of::<bool>(), Shape::Bool);
    assert_eq!(of::<i8>(), Shape::I8);
    assert_eq!(of::<u128>(), Shape::U128);
    assert_eq!(of::<f32>(), Shape::F32);
    assert_eq!(of::<char>(), Shape::Char);
    assert_eq!(of::<String>(), Shape::Str);
    assert_eq!(of::<Box<str>>(), Shape::Str);
    assert_eq!(of::<serde_bytes::ByteBuf>(), Shape::Bytes);
    assert_eq!(of::<Vec<u8>>(), Shape::Seq(Box::new(Shape::U8)));
    assert_eq!(of::<HashSet<i64>>(), Shape::Seq(Box::new(Shape::I64)));
    assert_eq!(
        of::<Option<Option<u8>>>(),
        Shape::Option(Box::new(Shape::Option(Box::new(Shape::U8))))
    );
    assert_eq!(of::<(u8, u16)>(), Shape::Tuple(vec![Shape::U8, Shape::U16]));
    assert_eq!(
        of::<[u8; 32]>(),
        Shape::Array {
            element: Box::new(Shape::U8),
            len: 32
        }
    );
    assert_eq!(of::<[u8; 0]>(), Shape::Tuple(vec![]));
    let map = Shape::Map {
        key: Box::new(Shape::Str),
        value: Box::new(Shape::U32),
    };
    assert_eq!(of::<HashMap<String, u32>>(), map);
    assert_eq!(of::<BTreeMap<String, u32>>(), map);
}

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    id: u64,
    lines: Vec<Line>,
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(skip)]
    _cache: (),
    #[serde(default)]
    note: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Line(u32, f64);

#[derive(Clone, Serialize, Deserialize)]
struct UserId(u64);

#[derive(Clone, Serialize, Deserialize)]
struct Marker;

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Plain,
    ByUser(UserId),
    Pair(u8, Marker),
    Full { at: u64, by: Option<UserId> },
}

#[test]
fn structs_and_enums() {
    let user = Shape::Newtype {
        name: "UserId".into(),
        inner: Box::new(Shape::U64),
    };
    let kind = Shape::Enum {
        name: "Kind".into(),
        variants: vec![
            Variant {
                name: "plain".into(),
                payload: Payload::Unit,
            },
            Variant {
                name: "by-user".into(),
                payload: Payload::Newtype(Box::new(user.clone())),
            },
            Variant {
                name: "pair".into(),
                payload: Payload::Tuple(vec![
                    Shape::U8,
                    Shape::UnitStruct {
                        name: "Marker".into(),
                    },
                ]),
            },
            Variant {
                name: "full".into(),
                payload: Payload::Struct(vec![
                    field("at", Shape::U64),
                    field("by", Shape::Option(Box::new(user))),
                ]),
            },
        ],
    };
    let line = Shape::TupleStruct {
        name: "Line".into(),
        fields: vec![Shape::U32, Shape::F64],
    };
    let order = Shape::Struct {
        name: "Order".into(),
        fields: vec![
            field("id", Shape::U64),
            field("lines", Shape::Seq(Box::new(line))),
            field("type", kind),
            field("note", Shape::Option(Box::new(Shape::Str))),
        ],
    };
    assert_eq!(of::<Order>(), order);
}

#[derive(Clone, Serialize, Deserialize)]
struct Node {
    children: Vec<Node>,
    next: Option<Box<Node>>,
    by_name: BTreeMap<String, Node>,
    value: u8,
}

#[derive(Clone, Serialize, Deserialize)]
enum Expr {
    Add(Box<Expr>, Box<Expr>),
    Neg(Box<Expr>),
    Call { name: String, args: Vec<Expr> },
    Lit(i64),
}

/// Two types that contain each other, and no variant that ends the recursion comes first.
#[derive(Clone, Serialize, Deserialize)]
enum Even {
    Next(Box<Odd>),
    Zero,
}

#[derive(Clone, Serialize, Deserialize)]
enum Odd {
    Next(Box<Even>),
    Skip { even: Box<Even>, odd: Vec<Odd> },
}

fn recursive(up: u32, name: &str) -> Shape {
    Shape::Recursive {
        up,
        name: name.into(),
    }
}

#[test]
fn recursion_is_a_reference() {
    let boxed = |up| Box::new(recursive(up, "Node"));
    let node = Shape::Struct {
        name: "Node".into(),
        fields: vec![
            field("children", Shape::Seq(boxed(0))),
            field("next", Shape::Option(boxed(0))),
            field(
                "by_name",
                Shape::Map {
                    key: Box::new(Shape::Str),
                    value: boxed(0),
                },
            ),
            field("value", Shape::U8),
        ],
    };
    assert_eq!(of::<Node>(), node);
    let expr = || recursive(0, "Expr");
    let variant = |name: &str, payload| Variant {
        name: name.into(),
        payload,
    };
    assert_eq!(
        of::<Expr>(),
        Shape::Enum {
            name: "Expr".into(),
            variants: vec![
                variant("Add", Payload::Tuple(vec![expr(), expr()])),
                variant("Neg", Payload::Newtype(Box::new(expr()))),
                variant(
                    "Call",
                    Payload::Struct(vec![
                        field("name", Shape::Str),
                        field("args", Shape::Seq(Box::new(expr()))),
                    ])
                ),
                variant("Lit", Payload::Newtype(Box::new(Shape::I64))),
            ],
        }
    );
    let even = || recursive(1, "Even");
    let odd = Shape::Enum {
        name: "Odd".into(),
        variants: vec![
            variant("Next", Payload::Newtype(Box::new(even()))),
            variant(
                "Skip",
                Payload::Struct(vec![
                    field("even", even()),
                    field("odd", Shape::Seq(Box::new(recursive(0, "Odd")))),
                ]),
            ),
        ],
    };
    assert_eq!(
        of::<Even>(),
        Shape::Enum {
            name: "Even".into(),
            variants: vec![
                variant("Next", Payload::Newtype(Box::new(odd))),
                variant("Zero", Payload::Unit)
            ],
        }
    );
}

#[derive(Clone, Serialize, Deserialize)]
struct Wrap<T> {
    inner: T,
}

/// Generic types share serde's name; that must not make one a recursion of the other.
#[test]
fn generic_types_are_told_apart() {
    let wrap = |inner| Shape::Struct {
        name: "Wrap".into(),
        fields: vec![field("inner", inner)],
    };
    assert_eq!(of::<Wrap<Wrap<u8>>>(), wrap(wrap(Shape::U8)));
    assert_eq!(
        of::<(Wrap<u8>, Wrap<String>)>(),
        Shape::Tuple(vec![wrap(Shape::U8), wrap(Shape::Str)])
    );
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
struct Small(u8);

impl TryFrom<u8> for Small {
    type Error = String;

    fn try_from(n: u8) -> Result<Self, String> {
        if n == 1 {
            Ok(Self(n))
        } else {
            Err(format!("{n} is not 1"))
        }
    }
}

impl From<Small> for u8 {
    fn from(small: Small) -> u8 {
        small.0
    }
}

/// Types that check their values are traced if one of the usual values pleases them.
#[test]
fn checked_types_with_usual_values() {
    assert_eq!(of::<NonZeroU64>(), Shape::U64);
    assert_eq!(
        of::<Vec<(NonZeroI8, bool)>>(),
        Shape::Seq(Box::new(Shape::Tuple(vec![Shape::I8, Shape::Bool])))
    );
    assert_eq!(of::<(u8, Small, u8)>(), Shape::Tuple(vec![Shape::U8; 3]));
    assert!(matches!(of::<Duration>(), Shape::Struct { fields, .. } if fields.len() == 2));
    assert!(matches!(of::<SystemTime>(), Shape::Struct { fields, .. } if fields.len() == 2));
    assert!(matches!(of::<std::net::IpAddr>(), Shape::Enum { variants, .. } if variants.len() == 2));
    assert!(matches!(of::<Result<u8, String>>(), Shape::Enum { variants, .. } if variants.len() == 2));
    assert!(matches!(of::<std::ops::Range<u8>>(), Shape::Struct { fields, .. } if fields.len() == 2));
}

#[derive(Clone, Serialize, Deserialize)]
enum Many {
    A(Few),
    B(Few, Few),
    C,
}

#[derive(Clone, Serialize, Deserialize)]
enum Few {
    X(Option<u8>),
    Y,
    Z { deep: Option<Vec<Small>> },
}

#[test]
fn samples_show_everything_once() {
    let samples = trace::<Many>().unwrap().samples;
    assert!(samples.len() < 30, "{}", samples.len());
    let text: Vec<String> = samples
        .iter()
        .map(|s| serde_json::to_string(s).unwrap())
        .collect();
    let all = text.join(" ");
    for part in [
        "\"C\"",
        "\"B\"",
        "\"Y\"",
        "{\"X\":null}",
        "\"deep\":null",
        "\"deep\":[]",
        "\"deep\":[1]",
        "{\"X\":0}",
    ] {
        assert!(all.contains(part), "{part} in {all}");
    }
}

/// The shape of a shape: what every snapshot's metadata carries.
#[test]
fn shapes_are_traceable_themselves() {
    let shape = of::<Shape>();
    let Shape::Enum { variants, .. } = &shape else {
        panic!("{shape:?}")
    };
    assert_eq!(variants.len(), 28);
    assert_eq!(shape.difference(&of::<Shape>()), None);
}

#[test]
fn a_wide_type_is_traced_quickly() {
    // 6 levels of 4 variants each: 4096 paths, of which a handful of passes suffices.
    type Level<T> = Result<Result<T, (T, u8)>, Result<Vec<T>, Option<T>>>;
    let traced = trace::<Level<Level<Level<u8>>>>().unwrap();
    assert!(traced.samples.len() < 200, "{}", traced.samples.len());
}
