//! Arbitrary and damaged bytes: every decoder answers, none panics, and what is read can be written again.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::codec::{Record, canonical, decode_as, encode_as};
use crate::shape::{self, Shape};
use crate::snapshot::Encoding;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Anything {
    Nothing,
    Number(i64),
    Text(String),
    Raw(ByteBuf),
    Units(Vec<()>),
    Pair(char, Option<bool>),
    List(Vec<Anything>),
    Map(BTreeMap<String, Anything>),
    Maybe(Option<Box<Anything>>),
    Fields {
        a: u128,
        b: (f32, [u16; 3]),
        c: HashMap<u8, Vec<String>>,
    },
}

fn anything() -> impl Strategy<Value = Anything> {
    let leaf = prop_oneof![
        Just(Anything::Nothing),
        any::<i64>().prop_map(Anything::Number),
        ".{0,10}".prop_map(Anything::Text),
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| Anything::Raw(ByteBuf::from(bytes))),
        (0..50usize).prop_map(|n| Anything::Units(vec![(); n])),
        any::<(char, Option<bool>)>().prop_map(|(a, b)| Anything::Pair(a, b)),
        (any::<u128>(), any::<[u16; 3]>(), any::<u8>(), ".{0,5}").prop_map(|(a, b, k, v)| Anything::Fields {
            a,
            b: (1.5, b),
            c: HashMap::from([(k, vec![v])]),
        }),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Anything::List),
            proptest::collection::btree_map(".{0,3}", inner.clone(), 0..5).prop_map(Anything::Map),
            inner.prop_map(|value| Anything::Maybe(Some(Box::new(value)))),
        ]
    })
}

/// Reads bytes of unknown origin. What can be read must have a stable form.
fn read_as<T: Record>(encoding: Encoding, bytes: &[u8]) -> Result<(), TestCaseError> {
    let mut input = bytes;
    match decode_as::<T>(encoding, &mut input) {
        Err(_) => prop_assert_eq!(input.len(), bytes.len()),
        Ok(value) => {
            prop_assert!(input.len() <= bytes.len());
            let mut again = Vec::new();
            // Canonical bytes can hold what canonical encoding refuses to write (nil inside an option).
            if encode_as(encoding, &value, &mut again).is_ok() {
                prop_assert!(decode_as::<T>(encoding, &mut again.as_slice()).is_ok());
            }
        }
    }
    Ok(())
}

fn read_as_everything(bytes: &[u8]) -> Result<(), TestCaseError> {
    for encoding in [Encoding::Native, Encoding::Canonical] {
        read_as::<Anything>(encoding, bytes)?;
        read_as::<Shape>(encoding, bytes)?;
        read_as::<serde_json::Value>(encoding, bytes)?;
        read_as::<(bool, char, String, Option<u64>)>(encoding, bytes)?;
        read_as::<HashMap<String, Vec<(u8, f64)>>>(encoding, bytes)?;
    }
    let shape = Shape::of::<Anything>().expect("a traceable type");
    // Their answer doesn't matter here, only that there is one.
    let _ = shape::unordered(&shape, bytes);
    let _ = canonical::unordered(bytes);
    Ok(())
}

/// Undoes nothing: flips, overwrites, cuts or repeats a part.
fn damage(bytes: &mut Vec<u8>, at: usize, how: u8, with: u8) {
    if bytes.is_empty() {
        return;
    }
    let at = at % bytes.len();
    match how % 5 {
        0 => bytes[at] ^= 1 << (with % 8),
        1 => bytes[at] = with,
        2 => bytes.truncate(at),
        3 => bytes.insert(at, with),
        _ => {
            let part = bytes[at..].to_vec();
            bytes.extend(part);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_as_everything(&bytes)?;
    }

    /// Small numbers are tags, variants and lengths: these go deeper into a decoder.
    #[test]
    fn plausible_bytes(bytes in proptest::collection::vec(0..12u8, 0..200)) {
        read_as_everything(&bytes)?;
    }

    /// Markers of MessagePack's containers and lengths.
    #[test]
    fn plausible_markers(
        bytes in proptest::collection::vec(
            prop_oneof![0x80..0x94u8, 0xa0..0xa5u8, 0xc0..0xe1u8, 0..3u8],
            0..200,
        )
    ) {
        read_as_everything(&bytes)?;
    }

    #[test]
    fn damaged_values(
        value in anything(),
        damages in proptest::collection::vec((any::<usize>(), any::<u8>(), any::<u8>()), 1..4),
    ) {
        for encoding in [Encoding::Native, Encoding::Canonical] {
            let mut bytes = Vec::new();
            encode_as(encoding, &value, &mut bytes).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(&decode_as::<Anything>(encoding, &mut bytes.as_slice()).unwrap(), &value);
            for (at, how, with) in &damages {
                damage(&mut bytes, *at, *how, *with);
            }
            read_as_everything(&bytes)?;
        }
    }
}
