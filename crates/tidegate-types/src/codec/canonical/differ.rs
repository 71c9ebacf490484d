//! Where two canonical values differ, as a path that a person can follow: `.orders[3].price`.
//!
//! Owns the walk over two encodings at once. Does not own the judgement that they differ: elements of sets and maps may
//! stand in any order, which is for `unordered` to say.

use super::skim::{Token, token, value_len};
use crate::codec::CodecError;

/// The path to the first difference; empty if the values as a whole have nothing in common, `None` if there is
/// none.
pub(super) fn difference(first: &[u8], second: &[u8]) -> Result<Option<String>, CodecError> {
    // Skimmed, so what follows is bounded in depth and length.
    value_len(first)?;
    value_len(second)?;
    let mut path = String::new();
    let differ = walk(&mut { first }, &mut { second }, &mut path)?;
    Ok(differ.then_some(path))
}

/// Takes one value from each side. On a difference `path` leads there, and the rest isn't taken.
fn walk(first: &mut &[u8], second: &mut &[u8], path: &mut String) -> Result<bool, CodecError> {
    let (left, right) = (*first, *second);
    let pair = (token(first)?, token(second)?);
    let (count, named) = match pair {
        (Token::Leaf, Token::Leaf) => {
            return Ok(left[..left.len() - first.len()] != right[..right.len() - second.len()]);
        }
        (Token::Array(a), Token::Array(b)) if a == b => (a, false),
        (Token::Map(a), Token::Map(b)) if a == b => (a, true),
        _ => return Ok(true),
    };
    for index in 0..count {
        let before = path.len();
        if named {
            let key = *first;
            if walk(first, second, path)? {
                path.truncate(before);
                path.push_str(&format!("[key {index}]"));
                return Ok(true);
            }
            let key = &key[..key.len() - first.len()];
            match rmp_serde::from_slice::<&str>(key) {
                Ok(name) => path.push_str(&format!(".{name}")),
                Err(_) => path.push_str(&format!("[{index}]")),
            }
        } else {
            path.push_str(&format!("[{index}]"));
        }
        if walk(first, second, path)? {
            return Ok(true);
        }
        path.truncate(before);
    }
    Ok(false)
}
