use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde::Serialize;
use serde_bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::short::hash_of;
use super::{HashError, key_hash};

#[derive(Serialize)]
enum Kind {
    Unit,
    Newtype(u64),
    Tuple(u8, u8),
    Struct { a: u32, b: String },
}

#[derive(Serialize)]
struct Outer<'a> {
    id: u64,
    name: &'a str,
    inner: Inner,
}

#[derive(Serialize)]
struct Inner {
    x: i32,
    y: Option<String>,
}

#[derive(Serialize)]
struct UserId(u64);

fn hash<K: Serialize + ?Sized>(key: &K) -> u64 {
    key_hash(key).unwrap()
}

/// Made with the reference implementation of XXH3 (Python's `xxhash`) over streams written out by hand. These
/// are part of the snapshot format: if one changes, no stored state is found again.
#[test]
fn hashes_are_pinned() {
    let a = |n: usize| "a".repeat(n);
    let outer = Outer {
        id: 7,
        name: "n",
        inner: Inner {
            x: -1,
            y: Some("z".into()),
        },
    };
    let vectors = [
        ("0u64", hash(&0u64), 0xc77b_3abb_6f87_acd9),
        ("7u64", hash(&7u64), 0x8167_1e58_d6b5_96af),
        ("u64::MAX", hash(&u64::MAX), 0x5111_c7e4_7d78_4413),
        ("-1i64", hash(&-1i64), 0x5111_c7e4_7d78_4413),
        ("7usize", hash(&7usize), 0x8167_1e58_d6b5_96af),
        ("7u32", hash(&7u32), 0x57ae_4481_1628_c14c),
        ("7u16", hash(&7u16), 0xf632_74ea_eedf_0eec),
        ("7u8", hash(&7u8), 0x4c5c_ca45_d0f4_811f),
        ("7u128", hash(&7u128), 0x47d3_1199_58a8_dbbe),
        ("true", hash(&true), 0xe12e_f9d2_eb86_ceeb),
        ("char", hash(&'ß'), 0x4b26_0a42_388c_5521),
        ("unit", hash(&()), 0x2d06_8005_38d3_94c2),
        ("newtype struct", hash(&UserId(7)), 0x8167_1e58_d6b5_96af),
        ("empty string", hash(""), 0xc77b_3abb_6f87_acd9),
        ("tidegate", hash("tidegate"), 0x2b66_fbf4_2b71_7787),
        ("24 a", hash(&a(24)), 0x879a_288d_e5de_2c96),
        ("25 a", hash(&a(25)), 0x794a_2838_6509_361e),
        ("232 a", hash(&a(232)), 0x395f_1880_2131_7190),
        ("233 a", hash(&a(233)), 0x7f8d_534c_368e_1f78),
        ("1000 a", hash(&a(1000)), 0x2961_0ab1_d118_c872),
        (
            "(u32, String)",
            hash(&(7u32, String::from("user"))),
            0xc70e_0496_1d31_1dcf,
        ),
        ("(u32, 300 a)", hash(&(7u32, a(300))), 0x3102_faee_d31b_410f),
        ("unit variant", hash(&Kind::Unit), 0x054a_02f7_eef5_1dc9),
        ("newtype variant", hash(&Kind::Newtype(7)), 0x70d7_ddcb_c2bf_1bd2),
        ("tuple variant", hash(&Kind::Tuple(1, 2)), 0x354e_374b_15bf_6bca),
        (
            "struct variant",
            hash(&Kind::Struct { a: 1, b: "x".into() }),
            0x70fb_2275_eb07_b11c,
        ),
        ("None", hash(&None::<u64>), 0xc44b_dff4_074e_ecdb),
        ("Some", hash(&Some(7u64)), 0xa37a_4d57_e745_7851),
        ("nested struct", hash(&outer), 0x68d3_9f03_5a93_1992),
        ("sequence", hash(&vec![1u32, 2, 3]), 0xe371_f8ad_f620_4c5d),
        ("bytes", hash(Bytes::new(&[1, 2, 3])), 0xc703_05c8_5a04_4cde),
    ];
    for (what, is, pinned) in vectors {
        assert_eq!(is, pinned, "{what}: {is:#018x}");
    }
}

#[test]
fn what_has_no_stable_order_is_refused() {
    assert_eq!(key_hash(&1.5f64), Err(HashError::Float));
    assert_eq!(key_hash(&(1u8, 1.5f32)), Err(HashError::Float));
    assert_eq!(key_hash(&BTreeMap::from([(1u8, 2u8)])), Err(HashError::Map));
    assert_eq!(key_hash(&Some(BTreeMap::<u8, u8>::new())), Err(HashError::Map));
    assert_eq!(key_hash(&Endless), Err(HashError::UnknownLength));
    assert!(
        key_hash(&BTreeSet::from([1u8])).is_ok(),
        "an ordered set is a sequence"
    );
}

#[test]
fn a_failing_serialize_is_reported() {
    let error = key_hash(&Failing).unwrap_err();
    assert_eq!(error.to_string(), "no key today");
}

/// Keys with a text form for people (addresses, ids) are hashed by their compact form.
#[test]
fn the_compact_form_is_hashed() {
    let address = std::net::Ipv4Addr::new(127, 0, 0, 1);
    assert_eq!(hash(&address), hash_of([127, 0, 0, 1]));
}

#[test]
fn short_paths_agree_with_the_reference() {
    fn check<const N: usize>(seed: u64) {
        let bytes: [u8; N] = std::array::from_fn(|i| (seed.rotate_left(8 * i as u32) ^ i as u64) as u8);
        assert_eq!(hash_of(bytes), xxh3_64(&bytes), "{bytes:?}");
    }
    let mut seed = 1u64;
    for _ in 0..1000 {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        check::<1>(seed);
        check::<2>(seed);
        check::<3>(seed);
        check::<4>(seed);
        check::<5>(seed);
        check::<6>(seed);
        check::<7>(seed);
        check::<8>(seed);
        check::<16>(seed);
    }
}

#[test]
fn texts_of_every_length_agree_with_the_reference() {
    let text: String = (0..400u32)
        .map(|i| char::from(b'!' + (i * 37 % 90) as u8))
        .collect();
    for len in 0..text.len() {
        let mut stream = Vec::from((len as u64).to_le_bytes());
        stream.extend(&text.as_bytes()[..len]);
        assert_eq!(hash(&text[..len]), xxh3_64(&stream), "{len} bytes");
    }
}

struct Endless;

impl Serialize for Endless {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_seq(None).and_then(serde::ser::SerializeSeq::end)
    }
}

struct Failing;

impl Serialize for Failing {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("no key today"))
    }
}

proptest! {
    /// A tuple feeds its fields and nothing else, so a key alone (one-shot) and in a tuple of one (through the
    /// stream) must hash alike.
    #[test]
    fn one_shot_and_stream_agree(u in any::<u64>(), i in any::<i32>(), s in ".{0,300}", w in any::<u128>(), b in any::<u8>()) {
        prop_assert_eq!(hash(&u), hash(&(u,)));
        prop_assert_eq!(hash(&i), hash(&(i,)));
        prop_assert_eq!(hash(&w), hash(&(w,)));
        prop_assert_eq!(hash(&b), hash(&(b,)));
        prop_assert_eq!(hash(&s), hash(&(&s,)));
        prop_assert_eq!(hash(&Kind::Unit), hash("Unit"));
    }

    /// The spill into the streaming state is invisible, wherever it happens.
    #[test]
    fn spilled_and_one_shot_agree(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..90), 0..12)
    ) {
        let mut stream = Vec::from((parts.len() as u64).to_le_bytes());
        for part in &parts {
            stream.extend((part.len() as u64).to_le_bytes());
            stream.extend(part);
        }
        prop_assert_eq!(hash(&parts), xxh3_64(&stream));
    }
}
