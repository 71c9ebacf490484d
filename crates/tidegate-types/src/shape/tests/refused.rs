//! Types that have no shape: each must be refused with a reason, not traced wrongly.

use std::collections::HashMap;

use serde::de::{Deserializer, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::shape::{Shape, ShapeError, ShapeErrorReason};

fn error<T: serde::de::DeserializeOwned>() -> ShapeError {
    Shape::of::<T>().unwrap_err()
}

#[derive(Clone, Serialize, Deserialize)]
struct Outer<T> {
    before: u8,
    inner: Vec<T>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Flat {
    id: u8,
    #[serde(flatten)]
    more: Extra,
}

#[derive(Clone, Serialize, Deserialize)]
struct Extra {
    x: u8,
}

#[derive(Clone, Serialize, Deserialize)]
struct FlatMap {
    #[serde(flatten)]
    more: HashMap<String, u8>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    A(u8),
    B(String),
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "type")]
enum Internal {
    A { x: u8 },
    B { y: String },
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "t", content = "c")]
enum Adjacent {
    A(u8),
    B(String),
    C,
}

#[derive(Clone, Serialize, Deserialize)]
struct Aliased {
    #[serde(alias = "old")]
    new: u8,
    other: u8,
}

#[derive(Clone, Serialize, Deserialize)]
enum AliasedVariant {
    #[serde(alias = "Old")]
    New,
    Other(u8),
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String")]
struct Never(String);

impl TryFrom<String> for Never {
    type Error = &'static str;

    fn try_from(_: String) -> Result<Self, &'static str> {
        Err("never good enough")
    }
}

#[derive(Clone, Serialize, Deserialize)]
enum Nothing {}

#[test]
fn each_with_its_reason_and_place() {
    let cases = [
        (error::<serde_json::Value>(), "", ShapeErrorReason::SelfDescribing),
        (error::<IgnoredAny>(), "", ShapeErrorReason::SelfDescribing),
        (
            error::<Outer<Untagged>>(),
            "Outer.inner[]",
            ShapeErrorReason::SelfDescribing,
        ),
        (
            error::<Outer<Internal>>(),
            "Outer.inner[]",
            ShapeErrorReason::SelfDescribing,
        ),
        (
            error::<Outer<Flat>>(),
            "Outer.inner[][key]",
            ShapeErrorReason::Names,
        ),
        (error::<FlatMap>(), "[key]", ShapeErrorReason::Names),
        (
            error::<Outer<Adjacent>>(),
            "Outer.inner[].t",
            ShapeErrorReason::Names,
        ),
        (error::<Aliased>(), "Aliased", ShapeErrorReason::Unread),
        (
            error::<Outer<AliasedVariant>>(),
            "Outer.inner[]::Other",
            ShapeErrorReason::Unread,
        ),
        (
            error::<Outer<Never>>(),
            "Outer.inner[]",
            ShapeErrorReason::Rejected("never good enough".into()),
        ),
        (
            error::<Nothing>(),
            "Nothing",
            ShapeErrorReason::TooLarge("a recursion without an end"),
        ),
    ];
    for (error, place, reason) in cases {
        assert_eq!((error.place.as_str(), &error.reason), (place, &reason), "{error}");
    }
}

#[derive(Clone, Serialize)]
struct Swallows(u8);

impl<'de> Deserialize<'de> for Swallows {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Self(Untagged::deserialize(d).map_or(0, |_| 1)))
    }
}

/// "Or a default" hides the error from the type's own result.
#[test]
fn a_swallowed_refusal_is_still_one() {
    assert_eq!(error::<(u8, Swallows)>().reason, ShapeErrorReason::SelfDescribing);
}

#[derive(Clone, Serialize)]
struct Blind;

impl<'de> Deserialize<'de> for Blind {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Ok(Self)
    }
}

#[test]
fn a_type_that_reads_nothing_has_no_shape() {
    assert_eq!(error::<(u8, Blind)>().reason, ShapeErrorReason::Incomplete);
}

#[derive(Clone, Serialize)]
struct Moody(u64);

impl<'de> Deserialize<'de> for Moody {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let n = u64::deserialize(d)?;
        assert!(n > 10_000, "too small: {n}");
        Ok(Self(n))
    }
}

#[test]
fn a_panicking_check_is_an_error() {
    let error = error::<Outer<Moody>>();
    assert_eq!(error.place, "Outer.inner[]");
    assert!(
        matches!(&error.reason, ShapeErrorReason::Panicked(m) if m.starts_with("too small")),
        "{error}"
    );
}

#[derive(Clone, Serialize, Deserialize)]
struct Endless {
    again: Box<Endless>,
}

#[test]
fn an_infinite_type_is_refused() {
    assert!(matches!(error::<Endless>().reason, ShapeErrorReason::TooLarge(_)));
}

#[test]
fn a_huge_type_is_refused() {
    type Wide<T> = (T, T, T, T, T, T, T, T);
    type Huge = Wide<Wide<Wide<Wide<Wide<(u8, u16)>>>>>;
    assert!(matches!(error::<Huge>().reason, ShapeErrorReason::TooLarge(_)));
}

#[test]
fn errors_read_well() {
    let error = error::<Outer<Flat>>().to_string();
    assert!(error.contains("Outer<"), "{error}");
    assert!(error.ends_with(
        "has no fixed shape at `Outer.inner[][key]`: it reads names as data \
         (`flatten`, an adjacently tagged enum, or a `Deserialize` written by hand)"
    ));
}
