//! Reading files: listing, splitting, formats, positions.
//!
//! Follow a byte through it: [`discover`] lists files, [`enumerator`] cuts them into splits ([`split`]), a subtask's
//! [`reader`] drives a cursor ([`lines`], [`csv`]) over an [`input`], and a [`format`](mod@format) makes records
//! of what the cursor finds ([`text`], [`json`]). What can't be read is an [`error`] or [`skipped`].

mod csv;
mod discover;
mod enumerator;
mod error;
mod format;
mod input;
mod json;
mod lines;
mod reader;
mod skipped;
mod source;
mod split;
#[cfg(test)]
pub(crate) mod tests;
mod text;

pub use csv::Csv;
pub use enumerator::FileEnumeration;
pub use error::{BadRecord, BadRecordReason, Change, SourceError};
pub use format::{Format, Line, LineFormat};
pub use json::JsonLines;
pub use skipped::{SkipReason, SkippedRecords};
pub use source::{DEFAULT_RECORD_LIMIT, DEFAULT_SPLIT_SIZE, FileSource, OnBadRecord};
pub use split::{FileSplit, Fingerprint};
pub use text::{PlacedText, Text, TextRecord};

/// Each line of text files as a `String`.
pub type TextFiles = FileSource<Text>;
/// Each record of CSV files as a `T`.
pub type CsvFiles<T> = FileSource<Csv<T>>;
/// Each line of JSON files as a `T`.
pub type JsonLinesFiles<T> = FileSource<JsonLines<T>>;
