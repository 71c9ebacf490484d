//! Changed types (case C19 at this level): what was stored by one version of a type is refused by the next, with
//! the field that changed, or read right; never misread.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::codec::{Record, TypeFormat, UnreadableError, decode_as, encode_as};
use crate::shape::Shape;
use crate::snapshot::Encoding;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Order")]
struct Order {
    amount: u32,
    count: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Order")]
struct Swapped {
    count: u32,
    amount: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Order")]
struct Added {
    amount: u32,
    count: u32,
    #[serde(default)]
    note: Option<String>,
    #[serde(default = "seven")]
    weight: u64,
}

fn seven() -> u64 {
    7
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Order")]
struct Required {
    amount: u32,
    count: u32,
    weight: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Order")]
struct Removed {
    count: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Order")]
struct Renamed {
    #[serde(alias = "amount")]
    sum: u32,
    count: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Order")]
struct Narrower {
    amount: u8,
    count: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Order")]
struct Flattened {
    count: u32,
    #[serde(flatten)]
    more: HashMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Event")]
enum Event {
    Click(u32),
    View { page: String },
    Quit,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Event")]
enum RenamedVariant {
    Click(u32),
    Look { page: String },
    Quit,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Event")]
enum ReorderedVariants {
    Quit,
    View { page: String },
    Click(u32),
}

const STORED: Order = Order {
    amount: 3,
    count: 500,
};

/// What a section is: its encoding, the shape in its head, its bytes.
fn stored<T: Record>(encoding: Encoding, value: &T) -> (Encoding, Option<Shape>, Vec<u8>) {
    let mut bytes = Vec::new();
    encode_as(encoding, value, &mut bytes).unwrap();
    (encoding, TypeFormat::<T>::of().shape().cloned(), bytes)
}

/// Reads a section as another version of its type, as a backend does: first the head is compared.
fn read<T: Record>(section: &(Encoding, Option<Shape>, Vec<u8>)) -> Result<T, String> {
    let (encoding, shape, bytes) = section;
    TypeFormat::<T>::of()
        .check_readable(*encoding, shape.as_ref())
        .map_err(|e| match e {
            UnreadableError::Changed(difference) => difference.to_string(),
            other => other.to_string(),
        })?;
    let mut input = bytes.as_slice();
    let value = decode_as(*encoding, &mut input).map_err(|e| e.to_string())?;
    assert!(input.is_empty());
    Ok(value)
}

#[test]
fn swapped_fields() {
    assert_eq!(
        read::<Swapped>(&stored(Encoding::Native, &STORED)),
        Err("field #1 of struct `Order`: was `amount`, is `count` (swapped?)".into())
    );
    assert_eq!(
        read::<Swapped>(&stored(Encoding::Canonical, &STORED)),
        Ok(Swapped {
            amount: 3,
            count: 500
        })
    );
}

#[test]
fn an_added_field() {
    assert_eq!(
        read::<Added>(&stored(Encoding::Native, &STORED)),
        Err("field `note` of struct `Order`: was added".into())
    );
    assert_eq!(
        read::<Added>(&stored(Encoding::Canonical, &STORED)),
        Ok(Added {
            amount: 3,
            count: 500,
            note: None,
            weight: 7
        })
    );
    let error = read::<Required>(&stored(Encoding::Canonical, &STORED)).unwrap_err();
    assert!(error.starts_with("missing field `weight`"), "{error}");
}

#[test]
fn a_removed_field() {
    assert_eq!(
        read::<Removed>(&stored(Encoding::Native, &STORED)),
        Err("field `amount` of struct `Order`: was removed".into())
    );
    assert_eq!(
        read::<Removed>(&stored(Encoding::Canonical, &STORED)),
        Ok(Removed { count: 500 })
    );
}

#[test]
fn a_renamed_field() {
    let error = read::<Renamed>(&stored(Encoding::Native, &STORED)).unwrap_err();
    assert!(
        error.contains("it doesn't read as many parts as it names (`alias`)"),
        "{error}"
    );
    assert_eq!(
        read::<Renamed>(&stored(Encoding::Canonical, &STORED)),
        Ok(Renamed { sum: 3, count: 500 })
    );
}

#[test]
fn a_narrower_field() {
    let large = Order {
        amount: 300,
        count: 1,
    };
    assert_eq!(
        read::<Narrower>(&stored(Encoding::Native, &STORED)),
        Err("field `amount` of struct `Order`: was u32, is u8".into())
    );
    assert_eq!(
        read::<Narrower>(&stored(Encoding::Canonical, &STORED)),
        Ok(Narrower {
            amount: 3,
            count: 500
        })
    );
    let error = read::<Narrower>(&stored(Encoding::Canonical, &large)).unwrap_err();
    assert!(
        error.contains("300"),
        "a value that doesn't fit is refused, not cut: {error}"
    );
}

#[test]
fn a_renamed_variant() {
    let view = Event::View { page: "a".into() };
    assert_eq!(
        read::<RenamedVariant>(&stored(Encoding::Native, &Event::Quit)),
        Err("variant `View` of enum `Event`: is missing; renamed to `Look`?".into())
    );
    assert_eq!(
        read::<RenamedVariant>(&stored(Encoding::Canonical, &Event::Quit)),
        Ok(RenamedVariant::Quit)
    );
    let error = read::<RenamedVariant>(&stored(Encoding::Canonical, &view)).unwrap_err();
    assert!(
        error.contains("unknown variant `View`, expected one of `Click`, `Look`, `Quit`"),
        "{error}"
    );
}

#[test]
fn reordered_variants() {
    assert_eq!(
        read::<ReorderedVariants>(&stored(Encoding::Native, &Event::Quit)),
        Err("variant #1 of enum `Event`: was `Click`, is `Quit` (swapped?)".into())
    );
    assert_eq!(
        read::<ReorderedVariants>(&stored(Encoding::Canonical, &Event::Click(4))),
        Ok(ReorderedVariants::Click(4))
    );
}

/// A type with `flatten` is stored canonically from the start, so it is read right in both directions.
#[test]
fn a_flattened_type() {
    let format = TypeFormat::<Flattened>::of();
    assert_eq!((format.encoding(), format.shape()), (Encoding::Canonical, None));
    assert!(
        format.warning().is_some_and(|w| w.contains("flatten")),
        "{:?}",
        format.warning()
    );
    let flat = Flattened {
        count: 500,
        more: HashMap::from([("amount".into(), 3)]),
    };
    assert_eq!(
        read::<Flattened>(&stored(Encoding::Canonical, &flat)),
        Ok(flat.clone())
    );
    assert_eq!(read::<Order>(&stored(Encoding::Canonical, &flat)), Ok(STORED));
    assert_eq!(read::<Flattened>(&stored(Encoding::Canonical, &STORED)), Ok(flat));
    let error = read::<Flattened>(&stored(Encoding::Native, &STORED)).unwrap_err();
    assert!(error.starts_with("it was stored natively, and now "), "{error}");
}

#[test]
fn the_unchanged_type() {
    for encoding in [Encoding::Native, Encoding::Canonical] {
        assert_eq!(read::<Order>(&stored(encoding, &STORED)), Ok(STORED));
    }
    let format = TypeFormat::<Order>::of();
    assert_eq!(
        format.check_readable(Encoding::Native, None),
        Err(UnreadableError::NotDescribed)
    );
    assert_eq!(
        format.check_readable(Encoding::Raw, None),
        Err(UnreadableError::NoCodec)
    );
}
