//! Text: each line is a record, as it is or with the place where it stands.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::BadRecordReason;
use super::format::{Line, LineFormat};
use super::source::FileSource;

/// Each line of UTF-8 text as a `String`, blank ones too.
#[derive(Debug, Clone, Copy, Default)]
pub struct Text;

/// Each line of UTF-8 text with its place, as a [`TextRecord`].
#[derive(Debug, Clone, Copy, Default)]
pub struct PlacedText;

/// A line and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TextRecord {
    /// The file's absolute path.
    pub file: Arc<str>,
    /// The byte at which the line begins.
    pub offset: u64,
    /// The line without its end.
    pub line: String,
}

impl LineFormat for Text {
    type Out = String;

    #[inline]
    fn parse(&self, line: Line<'_>) -> Result<Option<String>, BadRecordReason> {
        Ok(Some(line.as_str()?.to_owned()))
    }
}

impl LineFormat for PlacedText {
    type Out = TextRecord;

    fn parse(&self, line: Line<'_>) -> Result<Option<TextRecord>, BadRecordReason> {
        let text = line.as_str()?.to_owned();
        Ok(Some(TextRecord {
            file: line.file.clone(),
            offset: line.offset,
            line: text,
        }))
    }
}

impl FileSource<Text> {
    /// Emits each line with its file and offset.
    #[must_use]
    pub fn with_places(self) -> FileSource<PlacedText> {
        self.with_format(PlacedText)
    }
}
