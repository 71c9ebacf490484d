use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::*;

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

/// Where the bytes are refused, and why.
fn failure<T: DeserializeOwned + std::fmt::Debug>(bytes: &[u8]) -> (CodecErrorKind, u64) {
    let mut input = bytes;
    let error = decode_from::<T>(&mut input).unwrap_err();
    assert_eq!(input.len(), bytes.len(), "the input stays where it was");
    (error.kind().clone(), error.offset().unwrap())
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Everything {
    numbers: (i8, i16, i32, i64, i128),
    unsigned: (u8, u16, u32, u64, u128),
    floats: [f64; 2],
    small: f32,
    text: String,
    letter: char,
    yes: bool,
    bytes: ByteBuf,
    list: Vec<Option<u8>>,
    map: BTreeMap<i16, Everyone>,
    unit: (),
    marker: Marker,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Marker;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Meters(i32);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Everyone {
    Quit,
    Move(Meters),
    Pair(u8, i8),
    Key { code: char, down: Option<bool> },
}

#[test]
fn bytes_are_pinned() {
    assert_eq!(encoded(&Everyone::Quit), b"\xa4Quit");
    assert_eq!(encoded(&Everyone::Move(Meters(1))), b"\x81\xa4Move\x01");
    assert_eq!(encoded(&Everyone::Pair(1, -1)), b"\x81\xa4Pair\x92\x01\xff");
    assert_eq!(
        encoded(&Everyone::Key {
            code: 'a',
            down: None
        }),
        b"\x81\xa3Key\x82\xa4code\xa1a\xa4down\xc0"
    );
    assert_eq!(encoded(&Marker), b"\x90");
    assert_eq!(encoded(&()), b"\xc0");
    assert_eq!(encoded(&1u128), b"\xc4\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01");
}

fn reference<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value
        .serialize(&mut rmp_serde::Serializer::new(&mut out).with_struct_map())
        .unwrap();
    out
}

/// Lengths and numbers around every change of marker.
#[test]
fn the_layout_is_that_of_rmp_serde() {
    for len in [0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536] {
        let text = "x".repeat(len);
        assert_eq!(encoded(&text), reference(&text));
        let bytes = ByteBuf::from(text.clone().into_bytes());
        assert_eq!(encoded(&bytes), reference(&bytes));
        let list = vec![true; len];
        assert_eq!(encoded(&list), reference(&list));
        let map: BTreeMap<usize, ()> = (0..len).map(|i| (i, ())).collect();
        assert_eq!(encoded(&map), reference(&map));
    }
    for shift in 0..64 {
        for n in [(1u64 << shift) - 1, 1 << shift, (1 << shift) + 1] {
            assert_eq!(encoded(&n), reference(&n));
            for i in [
                n as i64,
                (n as i64).wrapping_neg(),
                (n as i64).wrapping_neg().wrapping_sub(1),
            ] {
                assert_eq!(encoded(&i), reference(&i), "{i}");
            }
        }
    }
}

fn everyone() -> impl Strategy<Value = Everyone> {
    prop_oneof![
        Just(Everyone::Quit),
        any::<i32>().prop_map(|n| Everyone::Move(Meters(n))),
        any::<(u8, i8)>().prop_map(|(a, b)| Everyone::Pair(a, b)),
        any::<(char, Option<bool>)>().prop_map(|(code, down)| Everyone::Key { code, down }),
    ]
}

fn everything() -> impl Strategy<Value = Everything> {
    (
        (
            any::<(i8, i16, i32, i64, i128)>(),
            any::<(u8, u16, u32, u64, u128)>(),
        ),
        (any::<[u32; 2]>(), any::<u16>(), any::<char>(), any::<bool>()),
        (".{0,40}", proptest::collection::vec(any::<u8>(), 0..300)),
        proptest::collection::vec(any::<Option<u8>>(), 0..40),
        proptest::collection::btree_map(any::<i16>(), everyone(), 0..20),
    )
        .prop_map(
            |((numbers, unsigned), (floats, small, letter, yes), (text, bytes), list, map)| Everything {
                numbers,
                unsigned,
                floats: floats.map(f64::from),
                small: f32::from(small),
                text,
                letter,
                yes,
                bytes: ByteBuf::from(bytes),
                list,
                map,
                unit: (),
                marker: Marker,
            },
        )
}

proptest! {
    #[test]
    fn any_value_comes_back(value in everything()) {
        let bytes = encoded(&value);
        prop_assert_eq!(&bytes, &reference(&value));
        let mut followed = bytes.clone();
        followed.extend([1, 2, 3]);
        let mut input = followed.as_slice();
        prop_assert_eq!(decode_from::<Everything>(&mut input).unwrap(), value);
        prop_assert_eq!(input, [1, 2, 3], "exactly one value was taken");
        for cut in 0..bytes.len() {
            let error = decoded::<Everything>(&bytes[..cut]).unwrap_err();
            let truncated = matches!(error.kind(), CodecErrorKind::Truncated { .. });
            prop_assert!(truncated, "{}", error);
        }
    }

    #[test]
    fn order_in_maps_and_sets_is_no_difference(
        map in proptest::collection::hash_map(any::<u16>(), any::<Vec<u8>>(), 0..20)
    ) {
        let again: HashMap<u16, Vec<u8>> = map.clone().into_iter().collect();
        prop_assert_eq!(unordered(&encoded(&map)).unwrap(), unordered(&encoded(&again)).unwrap());
        let mut other = map.clone();
        if let Some(list) = other.values_mut().next() {
            list.push(1);
            prop_assert_ne!(unordered(&encoded(&map)).unwrap(), unordered(&encoded(&other)).unwrap());
        }
    }
}

#[test]
fn what_would_be_read_as_none_is_refused() {
    let not_canonical = |kind| matches!(kind, CodecErrorKind::NotCanonical(_));
    assert!(not_canonical(refusal(&Some(None::<u8>))));
    assert!(not_canonical(refusal(&vec![Some(())])));
    assert_eq!(
        decoded::<Option<Option<u8>>>(&encoded(&Some(Some(1u8)))),
        Ok(Some(Some(1)))
    );
    assert_eq!(
        decoded::<Option<Marker>>(&encoded(&Some(Marker))),
        Ok(Some(Marker))
    );
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Flat {
    id: u8,
    #[serde(flatten)]
    more: BTreeMap<String, u32>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(u64),
    Text(String),
    Flat(Flat),
}

#[test]
fn what_native_cannot_hold_comes_back() {
    let flat = || Flat {
        id: 1,
        more: (0..40).map(|i| (i.to_string(), i)).collect(),
    };
    assert_eq!(
        encoded(&flat()),
        reference(&flat()),
        "a header of three bytes is put before the entries"
    );
    assert_eq!(decoded::<Flat>(&encoded(&flat())), Ok(flat()));
    for value in [
        Untagged::Number(7),
        Untagged::Text("x".into()),
        Untagged::Flat(flat()),
    ] {
        assert_eq!(decoded::<Untagged>(&encoded(&value)), Ok(value));
    }
    let json = serde_json::json!({"a": [1, -2, 0.5, null, true], "b": {"c": "d"}});
    assert_eq!(decoded::<serde_json::Value>(&encoded(&json)), Ok(json));
}

struct Count {
    announced: Option<usize>,
    elements: usize,
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut seq = s.serialize_seq(self.announced)?;
        (0..self.elements).try_for_each(|_| seq.serialize_element(&(1u8, self.elements)))?;
        seq.end()
    }
}

#[test]
fn lengths_are_checked_or_found_out() {
    for elements in [0, 1, 15, 16, 70_000] {
        assert_eq!(
            encoded(&Count {
                announced: None,
                elements
            }),
            reference(&vec![(1u8, elements); elements])
        );
    }
    assert!(matches!(
        refusal(&Count {
            announced: Some(2),
            elements: 3
        }),
        CodecErrorKind::Message(_)
    ));
    struct Map;
    impl Serialize for Map {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            let mut map = s.serialize_map(None)?;
            map.serialize_entry("a", &1u8)?;
            map.serialize_entry("b", &2u8)?;
            map.end()
        }
    }
    assert_eq!(encoded(&Map), b"\x82\xa1a\x01\xa1b\x02");
}

#[test]
fn errors_say_what_and_where() {
    let truncated = |needed, available| CodecErrorKind::Truncated { needed, available };
    assert_eq!(failure::<String>(b""), (truncated(1, 0), 0));
    assert_eq!(failure::<String>(b"\xd9"), (truncated(1, 0), 0));
    assert_eq!(failure::<(u8, String)>(b"\x92\x01\xa5ab"), (truncated(5, 2), 2));
    assert_eq!(
        failure::<Vec<u8>>(b"\xdd\xff\xff\xff\xff\x01"),
        (truncated(0xffff_ffff, 1), 0)
    );
    assert_eq!(
        failure::<BTreeMap<u8, u8>>(b"\xdf\xff\xff\xff\xff\x01"),
        (truncated(2 * 0xffff_ffff, 1), 0)
    );
    assert_eq!(
        failure::<ByteBuf>(b"\xc6\xff\xff\xff\xff"),
        (truncated(0xffff_ffff, 0), 0)
    );
    assert!(matches!(
        failure::<u8>(b"\xc1"),
        (CodecErrorKind::InvalidValue(_), 0)
    ));
    assert!(matches!(
        failure::<u8>(b"\xcd\x01\x00"),
        (CodecErrorKind::Message(_), 3)
    ));
    assert!(matches!(
        failure::<Everyone>(b"\xa4Quiz"),
        (CodecErrorKind::Message(_), 5)
    ));
    assert!(matches!(
        failure::<(u8, u8)>(b"\x93\x01\x02\x03"),
        (CodecErrorKind::InvalidValue(_), _)
    ));
}

#[derive(Debug, Serialize, Deserialize)]
struct Nest {
    inner: Vec<Nest>,
}

#[derive(Debug, Serialize, Deserialize)]
struct OnlyOptions(Option<Box<OnlyOptions>>);

/// What can be written can be read, and nothing deeper is tried.
#[test]
fn nesting_is_bounded_alike_on_both_sides() {
    let nest = |depth| (1..depth).fold(Nest { inner: vec![] }, |inner, _| Nest { inner: vec![inner] });
    let levels = MAX_DEPTH / 2;
    assert!(decoded::<Nest>(&encoded(&nest(levels))).is_ok());
    assert!(matches!(
        refusal(&nest(levels + 1)),
        CodecErrorKind::OverLimit {
            what: "nesting depth",
            ..
        }
    ));
    let deep = b"\x91".repeat(100_000);
    assert!(matches!(
        failure::<serde_json::Value>(&deep).0,
        CodecErrorKind::OverLimit { .. }
    ));
    let options = (0..10_000).fold(OnlyOptions(None), |inner, _| OnlyOptions(Some(Box::new(inner))));
    assert!(matches!(refusal(&options), CodecErrorKind::OverLimit { .. }));
    drop_slowly(options);
}

/// Without the recursion of a derived drop.
fn drop_slowly(mut options: OnlyOptions) {
    while let Some(mut inner) = options.0.take() {
        options.0 = inner.0.take();
    }
}
