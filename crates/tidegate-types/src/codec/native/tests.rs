use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use proptest::prelude::*;
use serde::de::{DeserializeOwned, Deserializer, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq, SerializeStruct, Serializer};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::*;
use crate::codec::CodecErrorKind;

fn encoded<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    encode_into(value, &mut out).unwrap();
    out
}

fn decoded<T: DeserializeOwned>(mut bytes: &[u8]) -> Result<T, CodecError> {
    decode_from(&mut bytes)
}

fn refusal<T: Serialize + ?Sized>(value: &T) -> CodecErrorKind {
    let mut out = vec![1, 2, 3];
    let error = encode_into(value, &mut out).unwrap_err();
    assert_eq!(out, [1, 2, 3], "nothing is left of a refused value");
    error.kind().clone()
}

/// The kind of error and the offset for bytes that are no `T`.
fn failure<T: DeserializeOwned + fmt::Debug>(bytes: &[u8]) -> (CodecErrorKind, u64) {
    let mut input = bytes;
    let error = decode_from::<T>(&mut input).unwrap_err();
    assert_eq!(input.len(), bytes.len(), "the input stays where it was");
    (error.kind().clone(), error.offset().unwrap())
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    name: String,
    lines: Vec<Line>,
    note: Option<Box<Order>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Line(u16, f64);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Meters(i32);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Marker;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Event {
    Quit,
    Move(Meters),
    Pair(u8, i8),
    Key { code: char, down: bool },
}

#[test]
fn bytes_are_pinned() {
    assert_eq!(encoded(&0x0102_0304u32), [4, 3, 2, 1]);
    assert_eq!(encoded(&-2i16), [0xfe, 0xff]);
    assert_eq!(encoded(&1.0f32), [0, 0, 0x80, 0x3f]);
    assert_eq!(encoded(&1u128)[..2], [1, 0]);
    assert_eq!(encoded(&'ß'), [0xdf, 0, 0, 0]);
    assert_eq!(encoded(&(true, false)), [1, 0]);
    assert_eq!(encoded("ab"), [2, b'a', b'b']);
    assert_eq!(encoded(&"a".repeat(300))[..3], [0xac, 0x02, b'a']);
    assert_eq!(encoded(&ByteBuf::from([7, 8])), [2, 7, 8]);
    assert_eq!(encoded(&vec![1u16, 2]), [2, 1, 0, 2, 0]);
    assert_eq!(encoded(&[1u16, 2]), [1, 0, 2, 0]);
    assert_eq!(encoded(&BTreeMap::from([(1u8, 2u8), (3, 4)])), [2, 1, 2, 3, 4]);
    assert_eq!(encoded(&None::<u8>), [0]);
    assert_eq!(encoded(&Some(Some(5u8))), [1, 1, 5]);
    assert!(encoded(&((), Marker)).is_empty());
    assert_eq!(encoded(&Meters(1)), [1, 0, 0, 0]);
    assert_eq!(encoded(&Line(1, 0.0)), [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(encoded(&Event::Quit), [0]);
    assert_eq!(encoded(&Event::Move(Meters(1))), [1, 1, 0, 0, 0]);
    assert_eq!(encoded(&Event::Pair(1, -1)), [2, 2, 1, 0xff]);
    assert_eq!(
        encoded(&Event::Key {
            code: 'a',
            down: true
        }),
        [3, b'a', 0, 0, 0, 1]
    );
    let order = Order {
        id: 1,
        name: "x".into(),
        lines: vec![],
        note: None,
    };
    assert_eq!(encoded(&order), [1, 0, 0, 0, 0, 0, 0, 0, 1, b'x', 0, 0]);
}

#[test]
fn values_follow_each_other() {
    let mut bytes = encoded(&Event::Quit);
    encode_into("two", &mut bytes).unwrap();
    encode_into(&3u8, &mut bytes).unwrap();
    let mut input = bytes.as_slice();
    assert_eq!(decode_from::<Event>(&mut input), Ok(Event::Quit));
    assert_eq!(decode_from::<String>(&mut input), Ok("two".into()));
    assert_eq!(decode_from::<u8>(&mut input), Ok(3));
    assert!(input.is_empty());
}

fn order() -> impl Strategy<Value = Order> {
    let line = (any::<u16>(), -1e9..1e9f64).prop_map(|(a, b)| Line(a, b));
    let plain =
        (any::<u64>(), ".{0,20}", proptest::collection::vec(line, 0..5)).prop_map(|(id, name, lines)| {
            Order {
                id,
                name,
                lines,
                note: None,
            }
        });
    plain.prop_recursive(4, 8, 1, |inner| {
        (inner.clone(), inner).prop_map(|(outer, note)| Order {
            note: Some(Box::new(note)),
            ..outer
        })
    })
}

proptest! {
    #[test]
    fn any_value_comes_back(
        order in order(),
        numbers in any::<(i8, i16, i32, i64, i128, u8, u16, u32, u64, u128)>(),
        floats in any::<(f32, f64)>(),
        others in any::<(bool, char, Option<Option<u8>>, String)>(),
        map in proptest::collection::hash_map(any::<i16>(), ".{0,3}", 0..9),
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        prop_assert_eq!(decoded::<Order>(&encoded(&order)).unwrap(), order);
        type Numbers = (i8, i16, i32, i64, i128, u8, u16, u32, u64, u128);
        prop_assert_eq!(decoded::<Numbers>(&encoded(&numbers)).unwrap(), numbers);
        let (a, b) = decoded::<(f32, f64)>(&encoded(&floats)).unwrap();
        prop_assert_eq!((a.to_bits(), b.to_bits()), (floats.0.to_bits(), floats.1.to_bits()));
        prop_assert_eq!(&decoded::<(bool, char, Option<Option<u8>>, String)>(&encoded(&others)).unwrap(), &others);
        prop_assert_eq!(&decoded::<HashMap<i16, String>>(&encoded(&map)).unwrap(), &map);
        prop_assert_eq!(decoded::<ByteBuf>(&encoded(&ByteBuf::from(bytes.clone()))).unwrap().into_vec(), bytes);
    }

    #[test]
    fn every_cut_is_an_error(order in order()) {
        let bytes = encoded(&order);
        for cut in 0..bytes.len() {
            let error = decoded::<Order>(&bytes[..cut]).unwrap_err();
            let cut_off = matches!(error.kind(), CodecErrorKind::Truncated { .. } | CodecErrorKind::OverLimit { .. });
            prop_assert!(cut_off, "{}", error);
            prop_assert!(error.offset().unwrap() <= cut as u64);
        }
    }
}

#[test]
fn errors_say_what_and_where() {
    let invalid = |what: &str| CodecErrorKind::InvalidValue(what.into());
    assert_eq!(
        failure::<(u8, u32)>(&[1, 2, 3]),
        (
            CodecErrorKind::Truncated {
                needed: 4,
                available: 2
            },
            1
        )
    );
    assert_eq!(
        failure::<String>(&[9, b'a']),
        (
            CodecErrorKind::Truncated {
                needed: 9,
                available: 1
            },
            1
        )
    );
    assert_eq!(failure::<bool>(&[2]), (invalid("2 where a bool is 0 or 1"), 1));
    assert_eq!(
        failure::<Option<u8>>(&[7, 7]),
        (invalid("7 where an option begins with 0 or 1"), 1)
    );
    assert_eq!(
        failure::<char>(&[0, 0xd8, 0, 0]),
        (invalid("0xd800 is no character"), 4)
    );
    assert_eq!(
        failure::<(u8, String)>(&[0, 3, b'a', 0xff, b'b']),
        (invalid("a string that is not UTF-8"), 3)
    );
    assert_eq!(
        failure::<Line>(&[3, 0, 0]),
        (invalid("3 fields where the type has 2"), 1)
    );
    assert_eq!(
        failure::<String>(&[0x80, 0x00]),
        (invalid("a number with needless zeros"), 0)
    );
    assert_eq!(
        failure::<String>(&[0xff; 10]),
        (invalid("a number of more than 64 bits"), 0)
    );
    assert_eq!(
        failure::<String>(&[0xff; 9]),
        (
            CodecErrorKind::Truncated {
                needed: 10,
                available: 9
            },
            0
        )
    );
    let (kind, offset) = failure::<Event>(&[4]);
    assert!(
        matches!(&kind, CodecErrorKind::Message(m) if m.contains("variant index 0 <= i < 4")),
        "{kind}"
    );
    assert_eq!(offset, 1);
    let limit = 3 + u64::from(MAX_ZERO_SIZED);
    let kind = CodecErrorKind::OverLimit {
        what: "number of elements",
        length: 1 << 32,
        limit,
    };
    assert_eq!(
        failure::<Vec<u32>>(&[0x80, 0x80, 0x80, 0x80, 0x10, 0, 0, 0]),
        (kind, 5)
    );
}

/// A one-field type in a longer sequence than it takes: the rest must not be read as what follows.
#[test]
fn leftover_elements_are_an_error() {
    #[derive(Debug)]
    struct First;
    impl<'de> Deserialize<'de> for First {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            struct TakeOne;
            impl<'de> Visitor<'de> for TakeOne {
                type Value = First;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("at least one")
                }
                fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<First, A::Error> {
                    seq.next_element::<u8>().map(|_| First)
                }
            }
            d.deserialize_seq(TakeOne)
        }
    }
    let left = |n: u8| CodecErrorKind::InvalidValue(format!("{n} more elements than the type takes"));
    assert_eq!(failure::<First>(&[3, 1, 2, 3]), (left(2), 2));
    assert!(decoded::<First>(&[1, 1]).is_ok());
}

#[derive(Serialize)]
struct Skips {
    id: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<u8>,
}

#[derive(Serialize)]
enum SkipsInside {
    A {
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<u8>,
    },
}

#[derive(Serialize)]
struct Flat {
    #[serde(flatten)]
    more: BTreeMap<String, u8>,
}

/// Serialises `announced` elements as `elements` of them.
struct Miscounted {
    announced: Option<usize>,
    elements: usize,
}

impl Serialize for Miscounted {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut seq = s.serialize_seq(self.announced)?;
        for _ in 0..self.elements {
            seq.serialize_element(&0u8)?;
        }
        seq.end()
    }
}

#[test]
fn what_native_cannot_hold_is_told_apart() {
    let not_native = |why: &str| CodecErrorKind::NotNative(why.into());
    assert_eq!(encoded(&Skips { id: 1, note: Some(2) }), [1, 1, 2]);
    assert_eq!(
        refusal(&Skips { id: 1, note: None }),
        not_native("field `note` is skipped")
    );
    assert_eq!(
        refusal(&vec![SkipsInside::A { note: None }]),
        not_native("field `note` is skipped")
    );
    assert_eq!(
        refusal(&Flat {
            more: BTreeMap::new()
        }),
        not_native("a map of unknown length, or a struct with `flatten`")
    );
    assert_eq!(
        refusal(&Miscounted {
            announced: None,
            elements: 0
        }),
        not_native("a sequence of unknown length")
    );
    assert!(matches!(
        decoded::<serde_json::Value>(&[0]).unwrap_err().kind(),
        CodecErrorKind::NotNative(_)
    ));
}

#[test]
fn a_miscounting_type_is_refused() {
    for elements in [1, 3] {
        assert!(matches!(
            refusal(&Miscounted {
                announced: Some(2),
                elements
            }),
            CodecErrorKind::Message(_)
        ));
    }
    assert_eq!(
        encoded(&Miscounted {
            announced: Some(2),
            elements: 2
        }),
        [2, 0, 0]
    );
    struct Map;
    impl Serialize for Map {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            let mut map = s.serialize_map(Some(2))?;
            map.serialize_entry(&1u8, &1u8)?;
            map.end()
        }
    }
    assert!(matches!(refusal(&Map), CodecErrorKind::Message(_)));
    struct Struct;
    impl Serialize for Struct {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            let mut fields = s.serialize_struct("Struct", 1)?;
            fields.serialize_field("a", &1u8)?;
            fields.serialize_field("b", &1u8)?;
            fields.end()
        }
    }
    assert!(matches!(refusal(&Struct), CodecErrorKind::Message(_)));
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Nest(Vec<Nest>);

#[derive(Debug, Serialize, Deserialize)]
enum Peano {
    Zero,
    Next(Box<Peano>),
}

fn too_deep() -> CodecErrorKind {
    let limit = u64::from(MAX_DEPTH);
    CodecErrorKind::OverLimit {
        what: "nesting depth",
        length: limit + 1,
        limit,
    }
}

/// What can be written can be read, and nothing deeper is tried.
#[test]
fn nesting_is_bounded_alike_on_both_sides() {
    let nest = |depth| (1..depth).fold(Nest::default(), |inner, _| Nest(vec![inner]));
    assert!(decoded::<Nest>(&encoded(&nest(MAX_DEPTH))).is_ok());
    assert_eq!(refusal(&nest(MAX_DEPTH + 1)), too_deep());
    assert_eq!(failure::<Nest>(&[1; 100_000]).0, too_deep());
    let peano = |depth| (0..depth).fold(Peano::Zero, |inner, _| Peano::Next(Box::new(inner)));
    assert!(decoded::<Peano>(&encoded(&peano(MAX_DEPTH))).is_ok());
    assert_eq!(refusal(&peano(MAX_DEPTH + 1)), too_deep());
    assert_eq!(failure::<Peano>(&[1; 100_000]).0, too_deep());
}

/// Siblings don't add up to depth.
#[test]
fn depth_is_given_back() {
    let many = vec![Some(Event::Move(Meters(1))); 3 * MAX_DEPTH as usize];
    assert_eq!(decoded::<Vec<Option<Event>>>(&encoded(&many)), Ok(many));
}

#[test]
fn elements_without_content_are_bounded_alike_on_both_sides() {
    let limit = MAX_ZERO_SIZED as usize;
    let over = CodecErrorKind::OverLimit {
        what: "number of elements without content",
        length: limit as u64 + 1,
        limit: limit as u64,
    };
    assert!(decoded::<Vec<()>>(&encoded(&vec![(); limit])).is_ok());
    assert_eq!(refusal(&vec![(); limit + 1]), over);
    let halves = vec![vec![Marker; limit / 2]; 2];
    assert_eq!(decoded::<Vec<Vec<Marker>>>(&encoded(&halves)), Ok(halves));
    assert_eq!(refusal(&vec![vec![Marker; limit / 2 + 1]; 2]), over);
    let maps = vec![BTreeMap::from([((), 1u8)]); limit + 1];
    assert_eq!(decoded::<Vec<BTreeMap<(), u8>>>(&encoded(&maps)), Ok(maps));
    // Several honest-looking lengths, one after the other.
    let mut bytes = vec![200, 1];
    bytes.extend([0x80, 0x10].repeat(200));
    assert!(matches!(
        failure::<Vec<Vec<()>>>(&bytes).0,
        CodecErrorKind::OverLimit { .. }
    ));
}

thread_local! {
    static HINTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Writes down how many elements it is told to expect.
#[derive(Debug)]
struct Hinted;

impl<'de> Deserialize<'de> for Hinted {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Note;
        impl<'de> Visitor<'de> for Note {
            type Value = Hinted;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Hinted, A::Error> {
                HINTS.with_borrow_mut(|hints| hints.extend(seq.size_hint()));
                while seq.next_element::<Hinted>()?.is_some() {}
                Ok(Hinted)
            }
        }
        d.deserialize_seq(Note)
    }
}

/// Collections allocate by what they are told to expect: in all never more elements than there are bytes, however
/// lengths are nested.
#[test]
fn expectations_are_backed_by_input() {
    let bytes = [100u8; 150];
    assert!(decoded::<Hinted>(&bytes).is_err());
    let hints = HINTS.take();
    assert!(hints.len() > 10, "{hints:?}");
    assert!(hints.iter().sum::<usize>() <= bytes.len(), "{hints:?}");
    assert!(decoded::<Hinted>(&[3, 0, 0, 0]).is_ok());
    assert_eq!(HINTS.take(), [3, 0, 0, 0], "honest lengths are told");
}
