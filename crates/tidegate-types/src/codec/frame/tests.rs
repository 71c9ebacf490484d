use proptest::prelude::*;

use super::*;

const MAGIC: Magic = Magic(*b"TGTEST\0\0");

fn hello() -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(MAGIC, 3, b"hello", &mut out);
    out
}

/// The frame's bytes, written out by hand; the checksum was made by another implementation of CRC-32C.
#[test]
fn layout_is_pinned() {
    let mut expected = Vec::from(*b"TGTEST\0\0");
    expected.extend([3, 0]);
    expected.extend([5, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend(b"hello");
    expected.extend(0x9d56_508e_u32.to_le_bytes());
    assert_eq!(hello(), expected);
    assert_eq!(expected.len(), HEADER_BYTES + 5 + TRAILER_BYTES);
}

#[test]
fn body_and_version_come_back() {
    let bytes = hello();
    assert_eq!(
        read_frame(&bytes, MAGIC, 1..=3),
        Ok(Frame {
            version: 3,
            body: b"hello"
        })
    );
}

#[test]
fn frames_follow_each_other() {
    let mut bytes = hello();
    let open = begin_frame(MAGIC, 1, &mut bytes);
    bytes.extend(b"second");
    end_frame(open, &mut bytes);
    let mut input = bytes.as_slice();
    assert_eq!(split_frame(&mut input, MAGIC, 1..=3).unwrap().body, b"hello");
    assert_eq!(
        split_frame(&mut input, MAGIC, 1..=3).unwrap(),
        Frame {
            version: 1,
            body: b"second"
        }
    );
    assert!(input.is_empty());
    let error = read_frame(&bytes, MAGIC, 1..=3).unwrap_err();
    assert_eq!(error, FrameError::TrailingBytes { at: 27, count: 28 });
}

#[test]
fn foreign_and_newer_files_are_told_apart() {
    let other = Magic(*b"TGOTHER\0");
    assert_eq!(
        read_frame(&hello(), other, 1..=3),
        Err(FrameError::WrongMagic {
            expected: other,
            found: MAGIC
        })
    );
    assert_eq!(
        read_frame(&hello(), MAGIC, 1..=2),
        Err(FrameError::UnsupportedVersion {
            found: 3,
            supported: 1..=2
        })
    );
    assert!(matches!(
        read_frame(b"{\"a\"", MAGIC, 1..=3),
        Err(FrameError::WrongMagic { .. })
    ));
}

#[test]
fn every_cut_is_seen() {
    let bytes = hello();
    for cut in 0..bytes.len() {
        let error = read_frame(&bytes[..cut], MAGIC, 1..=3).unwrap_err();
        let needed = if cut < HEADER_BYTES {
            HEADER_BYTES
        } else {
            bytes.len()
        };
        assert_eq!(
            error,
            FrameError::Truncated {
                needed: needed as u64,
                available: cut as u64
            }
        );
    }
}

#[test]
fn every_flipped_bit_is_seen() {
    let bytes = hello();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let mut input = damaged.as_slice();
        assert!(split_frame(&mut input, MAGIC, 0..=u16::MAX).is_err(), "bit {bit}");
        assert_eq!(input.len(), bytes.len(), "the input stays where it was");
    }
}

#[test]
fn an_absurd_length_is_a_cut_file() {
    let mut bytes = hello();
    bytes[LENGTH_AT..HEADER_BYTES].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(
        read_frame(&bytes, MAGIC, 1..=3),
        Err(FrameError::Truncated {
            needed: u64::MAX,
            available: bytes.len() as u64
        })
    );
}

proptest! {
    #[test]
    fn any_body_comes_back(version: u16, body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = Vec::new();
        write_frame(MAGIC, version, &body, &mut bytes);
        prop_assert_eq!(read_frame(&bytes, MAGIC, version..=version), Ok(Frame { version, body: &body }));
    }

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let mut framed = Vec::from(MAGIC.0);
        framed.extend(&bytes);
        prop_assert!(read_frame(&bytes, MAGIC, 0..=u16::MAX).is_err());
        prop_assert!(read_frame(&framed, MAGIC, 0..=u16::MAX).is_err());
    }
}
