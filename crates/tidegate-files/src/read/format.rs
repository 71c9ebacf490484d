//! What a file's bytes mean: the formats, and the cursor that a reader drives over a split.

use std::sync::Arc;

use tidegate_types::codec::Record;

use super::error::{BadRecord, BadRecordReason, SourceError};
use super::input::Input;
use super::lines::LineCursor;
use super::split::FileSplit;

/// What a file's bytes mean. Implemented by [`Csv`](super::Csv) and by every [`LineFormat`]; a format of your own
/// implements [`LineFormat`].
pub trait Format: Clone + Send + Sync + 'static {
    /// What a record becomes.
    type Out: Record;
    /// Reads a split.
    #[doc(hidden)]
    type Cursor: Cursor<Self::Out>;

    /// Whether a reader can begin in the middle of a file.
    #[doc(hidden)]
    fn splits_files(&self) -> bool;

    /// Opens a split at its position.
    #[doc(hidden)]
    fn open(&self, split: &FileSplit, record_limit: usize) -> Result<Self::Cursor, SourceError>;
}

/// A format in which each line is a record, or none.
///
/// ```
/// use tidegate_files::{BadRecordReason, FileSource, Line, LineFormat};
///
/// /// Lines of the form `<seconds> <message>`.
/// #[derive(Clone, Default)]
/// struct Stamped;
///
/// impl LineFormat for Stamped {
///     type Out = (u64, String);
///
///     fn parse(&self, line: Line<'_>) -> Result<Option<(u64, String)>, BadRecordReason> {
///         let text = line.as_str()?;
///         if text.starts_with('#') {
///             return Ok(None);
///         }
///         let (seconds, message) =
///             text.split_once(' ').ok_or_else(|| BadRecordReason::Other("there is no message".into()))?;
///         let seconds = seconds.parse().map_err(|e| BadRecordReason::Other(Box::new(e)))?;
///         Ok(Some((seconds, message.to_owned())))
///     }
/// }
///
/// let source = FileSource::<Stamped>::new(["app.log"]);
/// ```
pub trait LineFormat: Clone + Send + Sync + 'static {
    /// What a line becomes.
    type Out: Record;

    /// Makes a record of a line; `None` if the line is none, such as a blank one.
    ///
    /// # Errors
    /// When the line is a bad record.
    fn parse(&self, line: Line<'_>) -> Result<Option<Self::Out>, BadRecordReason>;
}

/// A line of a file.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// Its bytes, without the line end and without a byte order mark at the file's beginning.
    pub bytes: &'a [u8],
    /// The file's absolute path.
    pub file: &'a Arc<str>,
    /// Where in the file it begins.
    pub offset: u64,
}

impl<'a> Line<'a> {
    /// The line as text.
    ///
    /// # Errors
    /// [`BadRecordReason::InvalidUtf8`].
    pub fn as_str(&self) -> Result<&'a str, BadRecordReason> {
        std::str::from_utf8(self.bytes).map_err(|e| BadRecordReason::InvalidUtf8 { at: e.valid_up_to() })
    }
}

impl<L: LineFormat> Format for L {
    type Out = L::Out;
    type Cursor = LineCursor<L>;

    fn splits_files(&self) -> bool {
        true
    }

    fn open(&self, split: &FileSplit, record_limit: usize) -> Result<LineCursor<L>, SourceError> {
        let input = Input::open(split, LineCursor::<L>::first_byte(split))?;
        Ok(LineCursor::new(self.clone(), input, split, record_limit))
    }
}

/// Where a cursor stands: behind the last record that it gave out or skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Bytes before it.
    pub offset: u64,
    /// Line ends before it, if they were counted.
    pub lines: Option<u64>,
}

/// Goes through a split record by record.
pub trait Cursor<T>: Send {
    /// A step: at most one record, and at most one read from the file.
    fn step(&mut self) -> Result<Step<T>, SourceError>;

    /// Where to go on after a restore.
    fn position(&self) -> Position;

    /// How far the file is consumed; runs ahead of the position within a long record.
    fn consumed(&self) -> u64;
}

/// What a step came to.
#[derive(Debug)]
pub enum Step<T> {
    /// A record.
    Record(T),
    /// Something that is no record.
    Nothing,
    /// A bad record; the next step goes on behind it.
    Bad(BadRecord),
    /// More was read from the file.
    Working,
    /// The split is read.
    End,
}
