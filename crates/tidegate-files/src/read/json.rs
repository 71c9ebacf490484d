//! JSON lines: each line is one JSON value; blank lines are none.

use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use tidegate_types::codec::Record;

use super::error::BadRecordReason;
use super::format::{Line, LineFormat};

/// One JSON value per line, as serde reads it into a `T`. Fields that `T` doesn't have are passed over.
pub struct JsonLines<T>(PhantomData<fn() -> T>);

impl<T> Default for JsonLines<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T> Clone for JsonLines<T> {
    fn clone(&self) -> Self {
        Self(PhantomData)
    }
}

impl<T> fmt::Debug for JsonLines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JsonLines")
    }
}

impl<T: Record + DeserializeOwned> LineFormat for JsonLines<T> {
    type Out = T;

    fn parse(&self, line: Line<'_>) -> Result<Option<T>, BadRecordReason> {
        if line.bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        // Checked first, because what serde_json says of wrong bytes inside a string is "invalid unicode code point".
        let text = line.as_str()?;
        serde_json::from_str(text).map(Some).map_err(|e| {
            let message = e.to_string();
            // It counts lines within what it is given, which is always one.
            let place = format!(" at line {} column {}", e.line(), e.column());
            let message = message.strip_suffix(&place).unwrap_or(&message).to_owned();
            BadRecordReason::Json {
                column: e.column(),
                message,
            }
        })
    }
}
