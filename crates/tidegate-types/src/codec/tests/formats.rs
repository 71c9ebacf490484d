//! The choice of a format per type, and the checks that back it.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};

use serde::de::Deserializer;
use serde::ser::{SerializeStruct, Serializer};
use serde::{Deserialize, Serialize};

use crate::codec::{CodecErrorKind, Record, TypeFormat, decode_as, encode_as};
use crate::shape::Shape;
use crate::snapshot::Encoding;

/// The encoding that a type gets, and why.
fn decision<T: Record>() -> (Encoding, String) {
    let format = TypeFormat::<T>::of();
    (format.encoding(), format.warning().unwrap_or_default().into())
}

fn assert_canonical<T: Record>(because: &str) {
    let (encoding, warning) = decision::<T>();
    assert_eq!(encoding, Encoding::Canonical, "{warning}");
    assert!(warning.contains(because), "{warning}");
}

#[test]
fn ordinary_types_are_native_without_a_word() {
    assert_eq!(decision::<u64>(), (Encoding::Native, String::new()));
    assert_eq!(
        decision::<(String, Option<Vec<u8>>)>(),
        (Encoding::Native, String::new())
    );
    assert_eq!(
        decision::<HashMap<String, HashSet<char>>>(),
        (Encoding::Native, String::new())
    );
    assert_eq!(
        decision::<std::net::SocketAddr>(),
        (Encoding::Native, String::new())
    );
    assert_eq!(decision::<Shape>(), (Encoding::Native, String::new()));
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Skips {
    id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum SkipsDeepInside {
    Other,
    Here(Option<Vec<Skips>>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SkipsZero(u8, #[serde(skip_serializing_if = "is_zero", default)] u64);

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Skipping is found when the job is built, not when the first `None` arrives.
#[test]
fn skipped_fields_make_a_type_canonical() {
    assert_canonical::<Skips>("field `note` is skipped");
    assert_canonical::<SkipsDeepInside>("field `note` is skipped");
    assert_canonical::<SkipsZero>("1 fields where the type has 2");
    let format = TypeFormat::<Skips>::of();
    assert!(format.shape().is_some(), "native bytes from before can be read");
    for note in [None, Some("x".into())] {
        format.check_roundtrip(&Skips { id: 1, note }).unwrap();
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum SkippedVariant {
    A,
    #[serde(skip)]
    B,
    C,
    D,
}

/// serde's index of `C` is 2 when written and 1 when read.
#[test]
fn a_skipped_variant_makes_a_type_canonical() {
    assert_canonical::<SkippedVariant>("is stored canonically");
    let format = TypeFormat::<SkippedVariant>::of();
    format.check_roundtrip(&SkippedVariant::C).unwrap();
    format.check_roundtrip(&SkippedVariant::D).unwrap();
    assert!(format.check_roundtrip(&SkippedVariant::B).is_err());
    let mut native = Vec::new();
    encode_as(Encoding::Native, &SkippedVariant::C, &mut native).unwrap();
    assert_eq!(
        decode_as::<SkippedVariant>(Encoding::Native, &mut native.as_slice()),
        Ok(SkippedVariant::D),
        "if this reads C, serde was repaired"
    );
}

/// Written in another order than read; by name nobody would notice.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Crossed {
    a: u32,
    b: u32,
}

impl Serialize for Crossed {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut fields = s.serialize_struct("Crossed", 2)?;
        fields.serialize_field("b", &self.b)?;
        fields.serialize_field("a", &self.a)?;
        fields.end()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct OneWay {
    #[serde(rename(serialize = "out", deserialize = "in"))]
    name: u8,
}

/// Written as text, read as a number.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Unequal(u64);

impl Serialize for Unequal {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct WriteOnly {
    id: u8,
    #[serde(skip_deserializing)]
    derived: u8,
}

#[test]
fn serialize_and_deserialize_that_disagree_are_found() {
    assert_canonical::<Crossed>("is stored canonically");
    TypeFormat::<Crossed>::of()
        .check_roundtrip(&Crossed { a: 1, b: 2 })
        .unwrap();
    assert_canonical::<WriteOnly>("bytes left after the value");
    let (encoding, warning) = decision::<OneWay>();
    assert_eq!(encoding, Encoding::Native);
    assert!(
        warning.starts_with("canonical savepoints can't hold every"),
        "{warning}"
    );
    assert_canonical::<Unequal>("not every value of it can be stored so");
    assert!(TypeFormat::<Unequal>::of().check_roundtrip(&Unequal(1)).is_err());
}

#[test]
fn nested_options_are_native_with_a_word_about_savepoints() {
    let (encoding, warning) = decision::<Vec<Option<Option<u8>>>>();
    assert_eq!(encoding, Encoding::Native);
    assert!(
        warning.starts_with("canonical savepoints can't hold every"),
        "{warning}"
    );
    let format = TypeFormat::<Option<Option<u8>>>::of();
    format.check_roundtrip(&Some(None)).unwrap();
    let error = format
        .check_roundtrip_as(Encoding::Canonical, &Some(None))
        .unwrap_err();
    assert!(matches!(error.kind(), CodecErrorKind::NotCanonical(_)));
}

/// Hash maps and sets are walked in another order after they were read back.
#[test]
fn the_order_of_hash_maps_is_no_difference() {
    let set: HashSet<u32> = (0..100).collect();
    let value: HashMap<String, HashSet<u32>> = (0..20).map(|i| (i.to_string(), set.clone())).collect();
    let format = TypeFormat::of();
    format.check_roundtrip(&value).unwrap();
    format.check_roundtrip_as(Encoding::Canonical, &value).unwrap();
}

thread_local! {
    static DRIFT: Cell<u64> = const { Cell::new(0) };
}

/// Read back as something else, every time.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Drifting(u64);

impl<'de> Deserialize<'de> for Drifting {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        DRIFT.set(DRIFT.get() + 1);
        u64::deserialize(d).map(|n| Self(n + DRIFT.get()))
    }
}

#[test]
fn a_changed_value_is_no_roundtrip() {
    for encoding in [Encoding::Native, Encoding::Canonical] {
        let error = TypeFormat::<Vec<Drifting>>::of()
            .check_roundtrip_as(encoding, &vec![Drifting(1)])
            .unwrap_err();
        assert!(matches!(error.kind(), CodecErrorKind::InvalidValue(_)), "{error}");
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Panics(BTreeSet<Fussy>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Fussy(u64);

impl Serialize for Fussy {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        assert!(self.0 > 10_000, "such a value doesn't exist in my job");
        s.serialize_u64(self.0)
    }
}

/// A type may only know the values that its job makes. It is stored by name, and building goes on.
#[test]
fn a_panic_on_an_invented_value_is_a_warning() {
    assert_canonical::<Panics>("panics on a value");
    TypeFormat::of()
        .check_roundtrip(&Panics(BTreeSet::from([Fussy(20_000)])))
        .unwrap();
}

#[test]
fn canonical_can_be_forced() {
    let format = TypeFormat::<(u8, String)>::of().into_canonical();
    let mut bytes = Vec::new();
    format.encode_into(&(1, "a".into()), &mut bytes).unwrap();
    assert_eq!(bytes, b"\x92\x01\xa1a");
    assert_eq!(
        format.clone().decode_from(&mut bytes.as_slice()),
        Ok((1, "a".into()))
    );
    assert!(format.shape().is_some());
}

#[test]
fn raw_bytes_have_no_codec() {
    assert_eq!(
        encode_as(Encoding::Raw, &1u8, &mut Vec::new())
            .unwrap_err()
            .kind(),
        &CodecErrorKind::NoCodec
    );
    assert_eq!(
        decode_as::<u8>(Encoding::Raw, &mut [1u8].as_slice())
            .unwrap_err()
            .kind(),
        &CodecErrorKind::NoCodec
    );
}

#[test]
fn a_value_that_comes_back_as_another_is_refused_with_its_place() {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Cart {
        owner: String,
        items: Vec<Item>,
    }
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    struct Item {
        price: u64,
    }
    impl Serialize for Item {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            let mut fields = s.serialize_struct("Item", 1)?;
            // Large ones grow each time.
            let price = self.price + u64::from(self.price > 1_000 && self.price < u64::MAX);
            fields.serialize_field("price", &price)?;
            fields.end()
        }
    }
    let cart = |price| Cart {
        owner: "me".into(),
        items: vec![Item { price: 1 }, Item { price }],
    };
    let format = TypeFormat::<Cart>::of();
    for encoding in [Encoding::Native, Encoding::Canonical] {
        let error = format
            .check_first(encoding, &cart(1_001))
            .unwrap_err()
            .to_string();
        assert!(error.contains("at `.items[1].price`"), "{encoding:?}: {error}");
        format.check_first(encoding, &cart(1_000)).unwrap();
        // Once is enough; a hash of every value would cost more than storing it.
        format.clone().check_first(encoding, &cart(1_001)).unwrap();
    }
}
