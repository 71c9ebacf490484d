//! What is told to the person who changed a type.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::shape::Shape;

/// Declares versions of a type under one name for serde, so that errors speak of one type.
macro_rules! versions {
    ($($version:ident { $($(#[$attribute:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        $(#[derive(Clone, Serialize, Deserialize)]
        #[serde(rename = "Order")]
        struct $version { $($(#[$attribute])* $field: $type),* })*
    };
}

versions! {
    V1 { id: u64, amount: u32, count: u32 }
    Wider { id: u64, amount: u64, count: u32 }
    Swapped { id: u64, count: u32, amount: u32 }
    Added { id: u64, amount: u32, count: u32, note: String }
    Inserted { id: u64, note: String, amount: u32, count: u32 }
    Removed { id: u64, count: u32 }
    Renamed { id: u64, sum: u32, count: u32 }
    Replaced { id: u64, count: u32, sum: u32 }
    Optional { id: u64, amount: Option<u32>, count: u32 }
    Restored { id: u64, #[serde(rename = "amount")] sum: u32, count: u32 }
}

#[derive(Clone, Serialize, Deserialize)]
struct OtherName {
    id: u64,
    amount: u32,
    count: u32,
}

fn difference<A: serde::de::DeserializeOwned, B: serde::de::DeserializeOwned>() -> Option<String> {
    let (was, is) = (Shape::of::<A>().unwrap(), Shape::of::<B>().unwrap());
    let difference = was.difference(&is);
    assert_eq!(
        is.difference(&was).is_some(),
        difference.is_some(),
        "a difference is one both ways"
    );
    difference.map(|d| d.to_string())
}

fn told<A: serde::de::DeserializeOwned, B: serde::de::DeserializeOwned>() -> String {
    difference::<A, B>().expect("they differ")
}

#[test]
fn fields() {
    assert_eq!(difference::<V1, V1>(), None);
    assert_eq!(
        told::<V1, Wider>(),
        "field `amount` of struct `Order`: was u32, is u64"
    );
    assert_eq!(
        told::<V1, Swapped>(),
        "field #2 of struct `Order`: was `amount`, is `count` (swapped?)"
    );
    assert_eq!(told::<V1, Added>(), "field `note` of struct `Order`: was added");
    assert_eq!(
        told::<V1, Inserted>(),
        "field `note` of struct `Order`: was added"
    );
    assert_eq!(
        told::<V1, Removed>(),
        "field `amount` of struct `Order`: was removed"
    );
    assert_eq!(
        told::<V1, Renamed>(),
        "field `amount` of struct `Order`: is missing; renamed to `sum`?"
    );
    assert_eq!(
        told::<V1, Replaced>(),
        "field `amount` of struct `Order`: is missing; there is now `sum`?"
    );
    assert_eq!(
        told::<V1, Optional>(),
        "field `amount` of struct `Order`: was u32, is option of u32"
    );
}

#[test]
fn names_of_types_and_rust_fields_are_free() {
    assert_eq!(difference::<V1, OtherName>(), None);
    assert_eq!(
        difference::<V1, Restored>(),
        None,
        "serde's name counts, not Rust's"
    );
    assert_eq!(
        difference::<Vec<V1>, std::collections::VecDeque<OtherName>>(),
        None
    );
}

#[derive(Clone, Serialize, Deserialize)]
struct Cart<T> {
    orders: BTreeMap<String, Vec<T>>,
}

#[test]
fn the_way_to_a_deep_difference() {
    let (was, is) = (
        Shape::of::<Cart<V1>>().unwrap(),
        Shape::of::<Cart<Wider>>().unwrap(),
    );
    let difference = was.difference(&is).unwrap();
    assert_eq!(difference.path(), "Cart.orders[value][].amount");
    assert_eq!(difference.change(), "was u32, is u64");
    assert_eq!(
        difference.to_string(),
        "field `amount` of struct `Order` (at `Cart.orders[value][].amount`): was u32, is u64"
    );
}

macro_rules! enums {
    ($($version:ident { $($variant:tt)* })*) => {
        $(#[derive(Clone, Serialize, Deserialize)]
        #[serde(rename = "Event")]
        enum $version { $($variant)* })*
    };
}

enums! {
    E1 { Click(u32), View { page: String }, Quit }
    ERenamed { Click(u32), Look { page: String }, Quit }
    ESwapped { View { page: String }, Click(u32), Quit }
    EMore { Click(u32), View { page: String }, Quit, Buy(u8) }
    EPayload { Click(u64), View { page: String }, Quit }
    EKind { Click(u32, u32), View { page: String }, Quit }
    EField { Click(u32), View { page: String, at: u64 }, Quit }
}

#[test]
fn variants() {
    assert_eq!(difference::<E1, E1>(), None);
    assert_eq!(
        told::<E1, ERenamed>(),
        "variant `View` of enum `Event`: is missing; renamed to `Look`?"
    );
    assert_eq!(
        told::<E1, ESwapped>(),
        "variant #1 of enum `Event`: was `Click`, is `View` (swapped?)"
    );
    assert_eq!(told::<E1, EMore>(), "variant `Buy` of enum `Event`: was added");
    assert_eq!(told::<EMore, E1>(), "variant `Buy` of enum `Event`: was removed");
    assert_eq!(
        told::<E1, EPayload>(),
        "variant `Click` of enum `Event`: was u32, is u64"
    );
    assert_eq!(
        told::<E1, EKind>(),
        "variant `Click` of enum `Event`: carried u32, carries 2 unnamed fields"
    );
    assert_eq!(
        told::<E1, EField>(),
        "field `at` of variant `View` of enum `Event`: was added"
    );
}

#[derive(Clone, Serialize, Deserialize)]
struct List {
    next: Option<Box<List>>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Chain {
    next: Option<Box<Chain>>,
}

#[test]
fn other_kinds() {
    assert_eq!(
        difference::<List, Chain>(),
        None,
        "a recursion is one under any name"
    );
    assert_eq!(told::<u32, i32>(), "was u32, is i32");
    assert_eq!(
        told::<Vec<u8>, serde_bytes::ByteBuf>(),
        "was sequence of u8, is bytes"
    );
    assert_eq!(told::<(u8, u8), (u8, u16)>(), "part #2 of tuple: was u8, is u16");
    assert_eq!(told::<(u8, u8), (u8, u8, u8)>(), "tuple had 2 parts, has 3");
    assert_eq!(told::<[u8; 16], [u8; 32]>(), "was an array of 16, is one of 32");
    assert_eq!(told::<BTreeMap<u8, u8>, BTreeMap<u16, u8>>(), "was u8, is u16");
}
