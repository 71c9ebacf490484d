//! Walks over MessagePack without making values of it.
//!
//! A decoder that meets "array of four billion" or a thousand opening brackets has already believed it when it
//! fails. So bytes are walked once before they are decoded: afterwards it is known where the value ends, that
//! every length in it is backed by bytes, and how deep it nests.

use super::MAX_DEPTH;
use crate::codec::{CodecError, CodecErrorKind};

/// One step: what stands at the front.
pub(super) enum Token {
    /// A value without parts.
    Leaf,
    /// An array; so many values follow.
    Array(u64),
    /// A map; so many pairs follow.
    Map(u64),
}

/// The length of the one value at the front of `input`.
pub(super) fn value_len(input: &[u8]) -> Result<usize, CodecError> {
    let mut rest = input;
    // Values still to come, per open array or map.
    let mut open: Vec<u64> = Vec::new();
    loop {
        let at = (input.len() - rest.len()) as u64;
        let values = match token(&mut rest).map_err(|e| e.at(at))? {
            Token::Leaf => 0,
            Token::Array(n) => n,
            Token::Map(n) => 2 * n,
        };
        if values > rest.len() as u64 {
            let kind = CodecErrorKind::Truncated {
                needed: values,
                available: rest.len() as u64,
            };
            return Err(CodecError::new(kind).at(at));
        }
        if values > 0 {
            if open.len() >= MAX_DEPTH {
                let (length, limit) = (MAX_DEPTH as u64 + 1, MAX_DEPTH as u64);
                return Err(CodecError::new(CodecErrorKind::OverLimit {
                    what: "nesting depth",
                    length,
                    limit,
                })
                .at(at));
            }
            open.push(values);
            continue;
        }
        // A value is complete, and with it every array or map whose last one it was.
        while let Some(left) = open.last_mut() {
            *left -= 1;
            if *left > 0 {
                break;
            }
            open.pop();
        }
        if open.is_empty() {
            return Ok(input.len() - rest.len());
        }
    }
}

/// Copies one value to `out` with sorted elements. The value has been skimmed, so recursion is bounded.
pub(super) fn unordered(input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    let start = *input;
    let (count, per_item) = match token(input)? {
        Token::Leaf => (0, 1),
        Token::Array(n) => (n, 1),
        Token::Map(n) => (n, 2),
    };
    out.extend_from_slice(&start[..start.len() - input.len()]);
    let mut items = Vec::new();
    for _ in 0..count {
        let mut item = Vec::new();
        for _ in 0..per_item {
            unordered(input, &mut item)?;
        }
        items.push(item);
    }
    items.sort_unstable();
    out.extend(items.into_iter().flatten());
    Ok(())
}

/// Takes the token at the front, a leaf with its content.
pub(super) fn token(input: &mut &[u8]) -> Result<Token, CodecError> {
    let marker = number(input, 1)? as u8;
    let content = match marker {
        0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => 0,
        0x80..=0x8f => return Ok(Token::Map(u64::from(marker & 0x0f))),
        0x90..=0x9f => return Ok(Token::Array(u64::from(marker & 0x0f))),
        0xa0..=0xbf => u64::from(marker & 0x1f),
        0xc1 => return Err(CodecErrorKind::InvalidValue("0xc1 begins no MessagePack value".into()).into()),
        0xc4 | 0xd9 => number(input, 1)?,
        0xc5 | 0xda => number(input, 2)?,
        0xc6 | 0xdb => number(input, 4)?,
        // Extensions have a byte for their type.
        0xc7 => number(input, 1)? + 1,
        0xc8 => number(input, 2)? + 1,
        0xc9 => number(input, 4)? + 1,
        0xd4..=0xd8 => (1 << (marker - 0xd4)) + 1,
        0xcc | 0xd0 => 1,
        0xcd | 0xd1 => 2,
        0xca | 0xce | 0xd2 => 4,
        0xcb | 0xcf | 0xd3 => 8,
        0xdc => return Ok(Token::Array(number(input, 2)?)),
        0xdd => return Ok(Token::Array(number(input, 4)?)),
        0xde => return Ok(Token::Map(number(input, 2)?)),
        0xdf => return Ok(Token::Map(number(input, 4)?)),
    };
    take(input, content)?;
    Ok(Token::Leaf)
}

/// A big-endian number of `width` bytes.
fn number(input: &mut &[u8], width: u64) -> Result<u64, CodecError> {
    Ok(take(input, width)?
        .iter()
        .fold(0, |n, &byte| n << 8 | u64::from(byte)))
}

fn take<'a>(input: &mut &'a [u8], len: u64) -> Result<&'a [u8], CodecError> {
    let Some((bytes, rest)) = usize::try_from(len).ok().and_then(|n| input.split_at_checked(n)) else {
        return Err(CodecErrorKind::Truncated {
            needed: len,
            available: input.len() as u64,
        }
        .into());
    };
    *input = rest;
    Ok(bytes)
}
