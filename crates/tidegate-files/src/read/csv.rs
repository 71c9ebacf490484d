//! CSV as RFC 4180 has it: quoted fields may hold delimiters and line ends, a header names the fields.
//!
//! A file is one split: whether a line end ends a record depends on all quotes before it, so no reader can begin in
//! the middle. The tokenizer (`csv-core`) is fed piece by piece, so a record over the limit, which a single
//! quote that is never closed makes of the rest of a file, is passed over without being held in memory.
//!
//! Owns: where CSV records begin, end and are bad. Does not own: how fields become a `T` (crate `csv`).

use std::fmt;
use std::marker::PhantomData;

use csv::ByteRecord;
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use serde::de::DeserializeOwned;
use tidegate_types::codec::Record;

use super::error::{BadRecord, BadRecordReason, SourceError};
use super::format::{Cursor, Format, Position, Step};
use super::input::Input;
use super::source::FileSource;
use super::split::FileSplit;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// More fields than this make a record too long: their ends take memory that the record's own bytes don't show.
const MAX_FIELDS: usize = 1 << 16;

/// One CSV record each, as serde reads it into a `T`: by the header's names into a struct, by position into a
/// tuple or, without a header, into either.
pub struct Csv<T> {
    delimiter: u8,
    quote: u8,
    comment: Option<u8>,
    header: bool,
    flexible: bool,
    record: PhantomData<fn() -> T>,
}

impl<T> Default for Csv<T> {
    fn default() -> Self {
        Self {
            delimiter: b',',
            quote: b'"',
            comment: None,
            header: true,
            flexible: false,
            record: PhantomData,
        }
    }
}

impl<T> Clone for Csv<T> {
    fn clone(&self) -> Self {
        Self {
            record: PhantomData,
            ..*self
        }
    }
}

impl<T> fmt::Debug for Csv<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Csv")
            .field("delimiter", &char::from(self.delimiter))
            .field("quote", &char::from(self.quote))
            .field("header", &self.header)
            .field("flexible", &self.flexible)
            .finish_non_exhaustive()
    }
}

impl<T> FileSource<Csv<T>> {
    /// What stands between fields; a comma if not set.
    #[must_use]
    pub fn delimiter(self, byte: u8) -> Self {
        self.map_format(|format| Csv {
            delimiter: byte,
            ..format
        })
    }

    /// What a field is quoted with; `"` if not set.
    #[must_use]
    pub fn quote(self, byte: u8) -> Self {
        self.map_format(|format| Csv {
            quote: byte,
            ..format
        })
    }

    /// Passes over lines that begin with this byte.
    #[must_use]
    pub fn comment(self, byte: u8) -> Self {
        self.map_format(|format| Csv {
            comment: Some(byte),
            ..format
        })
    }

    /// Whether each file's first record names its fields; true if not set.
    #[must_use]
    pub fn header(self, there: bool) -> Self {
        self.map_format(|format| Csv {
            header: there,
            ..format
        })
    }

    /// Takes records with more or fewer fields than the first one as they are, instead of as bad records.
    #[must_use]
    pub fn flexible(self, flexible: bool) -> Self {
        self.map_format(|format| Csv { flexible, ..format })
    }
}

impl<T: Record + DeserializeOwned> Format for Csv<T> {
    type Out = T;
    type Cursor = CsvCursor<T>;

    fn splits_files(&self) -> bool {
        false
    }

    fn open(&self, split: &FileSplit, record_limit: usize) -> Result<CsvCursor<T>, SourceError> {
        let mut cursor = CsvCursor::new(self, Input::open(split, 0)?, record_limit);
        // The first record is read on going on, too: it says how many fields there are, and what they are called.
        if self.header || split.position > 0 {
            cursor.read_first(self.header)?;
        }
        if !self.header || split.position > cursor.input.offset() {
            cursor.go_to(Input::open(split, split.position)?, split.lines);
        }
        Ok(cursor)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Between records, at the beginning of a line.
    Between,
    /// In a comment.
    Comment,
    /// In a record.
    Inside,
    /// In a record over the limit, which is not kept.
    Discarding,
}

/// Reads the records of a CSV file.
pub struct CsvCursor<T> {
    input: Input,
    tokens: Reader,
    comment: Option<u8>,
    /// How many fields a record must have.
    width: Option<usize>,
    flexible: bool,
    limit: usize,
    header: Option<ByteRecord>,
    /// The fields of the record at hand, one behind the other.
    fields: Vec<u8>,
    fields_len: usize,
    ends: Vec<usize>,
    ends_len: usize,
    mode: Mode,
    lines: u64,
    /// Where the record or comment at hand begins.
    record: Position,
    scratch: ByteRecord,
    out: PhantomData<fn() -> T>,
}

/// What the tokenizer came to.
enum Token {
    Record,
    Nothing,
    Bad(BadRecordReason),
    Working,
    End,
}

impl<T> CsvCursor<T> {
    pub(super) fn new(format: &Csv<T>, input: Input, limit: usize) -> Self {
        let tokens = ReaderBuilder::new()
            .delimiter(format.delimiter)
            .quote(format.quote)
            .build();
        Self {
            input,
            tokens,
            comment: format.comment,
            width: None,
            flexible: format.flexible,
            limit,
            header: None,
            fields: vec![0; 4096],
            fields_len: 0,
            ends: vec![0; 64],
            ends_len: 0,
            mode: Mode::Between,
            lines: 0,
            record: Position {
                offset: 0,
                lines: Some(0),
            },
            scratch: ByteRecord::new(),
            out: PhantomData,
        }
    }

    /// Goes on elsewhere in the file.
    fn go_to(&mut self, input: Input, lines: Option<u64>) {
        self.input = input;
        self.tokens.reset();
        self.mode = Mode::Between;
        self.lines = lines.unwrap_or(0);
        (self.fields_len, self.ends_len) = (0, 0);
    }

    /// Reads the file's first good record for its fields' number and, if it is a header, names.
    fn read_first(&mut self, header: bool) -> Result<(), SourceError> {
        loop {
            match self.token()? {
                Token::Record => {
                    self.take_record();
                    self.width = Some(self.scratch.len());
                    if header {
                        self.header = Some(self.scratch.clone());
                    }
                    return Ok(());
                }
                Token::Bad(reason) if header => return Err(SourceError::Bad(self.bad(reason))),
                Token::End => return Ok(()),
                Token::Bad(_) | Token::Nothing | Token::Working => {}
            }
        }
    }

    fn consume(&mut self, bytes: usize) {
        self.lines += memchr::memchr_iter(b'\n', &self.input.bytes()[..bytes]).count() as u64;
        self.input.consume(bytes);
    }

    /// A step: at most one record and at most one read.
    fn token(&mut self) -> Result<Token, SourceError> {
        match self.mode {
            Mode::Between => self.between(),
            Mode::Comment => self.comment(),
            Mode::Inside | Mode::Discarding => self.inside(),
        }
    }

    /// Passes over line ends and finds out what begins.
    fn between(&mut self) -> Result<Token, SourceError> {
        let bytes = self.input.bytes();
        if self.input.offset() == 0 {
            if bytes.len() < BYTE_ORDER_MARK.len() && !self.input.has_ended() {
                self.input.fill()?;
                return Ok(Token::Working);
            }
            if bytes.starts_with(BYTE_ORDER_MARK) {
                self.input.consume(BYTE_ORDER_MARK.len());
                return Ok(Token::Nothing);
            }
        }
        let blank = bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
        if blank > 0 {
            self.consume(blank);
            return Ok(Token::Nothing);
        }
        let Some(first) = bytes.first() else {
            if self.input.has_ended() {
                return Ok(Token::End);
            }
            self.input.fill()?;
            return Ok(Token::Working);
        };
        let is_comment = Some(*first) == self.comment;
        self.record = Position {
            offset: self.input.offset(),
            lines: Some(self.lines),
        };
        if is_comment {
            self.mode = Mode::Comment;
            return self.comment();
        }
        self.mode = Mode::Inside;
        (self.fields_len, self.ends_len) = (0, 0);
        self.inside()
    }

    fn comment(&mut self) -> Result<Token, SourceError> {
        match memchr::memchr(b'\n', self.input.bytes()) {
            Some(at) => {
                self.mode = Mode::Between;
                self.consume(at + 1);
                Ok(Token::Nothing)
            }
            None => {
                self.consume(self.input.bytes().len());
                if self.input.has_ended() {
                    return Ok(Token::End);
                }
                self.input.fill()?;
                Ok(Token::Working)
            }
        }
    }

    fn inside(&mut self) -> Result<Token, SourceError> {
        let at_end = self.input.bytes().is_empty() && self.input.has_ended();
        // Nothing to feed it with doesn't mean the end to us, as it does to the tokenizer.
        if self.input.bytes().is_empty() && !at_end {
            self.input.fill()?;
            return Ok(Token::Working);
        }
        // The tokenizer would take the end of the file for the end of an open quote. A line end ends the last record
        // just as well, unless there is one.
        let feed = if at_end { b"\n" } else { self.input.bytes() };
        let (fields, ends) = (
            &mut self.fields[self.fields_len..],
            &mut self.ends[self.ends_len..],
        );
        let (result, consumed, fields, ends) = self.tokens.read_record(feed, fields, ends);
        self.fields_len += fields;
        self.ends_len += ends;
        if !at_end {
            self.consume(consumed);
        } else if consumed > 0 && result != ReadRecordResult::Record {
            let discarding = self.mode == Mode::Discarding;
            self.mode = Mode::Between;
            self.tokens.reset();
            return Ok(if discarding {
                Token::Nothing
            } else {
                Token::Bad(BadRecordReason::OpenQuote)
            });
        }
        Ok(self.judge(&result))
    }

    /// What follows from what the tokenizer said.
    fn judge(&mut self, result: &ReadRecordResult) -> Token {
        let discarding = self.mode == Mode::Discarding;
        // Its line end may be one or two bytes.
        let too_long = self.input.offset() - self.record.offset > (self.limit as u64).saturating_add(2);
        match result {
            ReadRecordResult::Record => {
                self.mode = Mode::Between;
                match (discarding, too_long) {
                    (true, _) => return Token::Nothing,
                    (false, true) => return self.too_long(),
                    (false, false) => return Token::Record,
                }
            }
            ReadRecordResult::End => return Token::End,
            ReadRecordResult::InputEmpty
            | ReadRecordResult::OutputFull
            | ReadRecordResult::OutputEndsFull => {}
        }
        if discarding || too_long || self.ends_len >= MAX_FIELDS {
            self.mode = Mode::Discarding;
            (self.fields_len, self.ends_len) = (0, 0);
            return if discarding {
                Token::Working
            } else {
                self.too_long()
            };
        }
        match result {
            ReadRecordResult::OutputFull => self.fields.resize(self.fields.len() * 2, 0),
            ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
            ReadRecordResult::InputEmpty | ReadRecordResult::Record | ReadRecordResult::End => {}
        }
        Token::Working
    }

    fn too_long(&self) -> Token {
        Token::Bad(BadRecordReason::TooLong { limit: self.limit })
    }

    /// Puts the record at hand where `csv` can deserialise it.
    fn take_record(&mut self) {
        self.scratch.clear();
        let mut from = 0;
        for end in &self.ends[..self.ends_len] {
            self.scratch.push_field(&self.fields[from..*end]);
            from = *end;
        }
        (self.fields_len, self.ends_len) = (0, 0);
    }

    #[cold]
    fn bad(&self, reason: BadRecordReason) -> BadRecord {
        BadRecord {
            file: self.input.path().clone(),
            line: self.record.lines.map(|before| before + 1),
            offset: self.record.offset,
            reason,
        }
    }
}

impl<T: DeserializeOwned> CsvCursor<T> {
    fn parse(&mut self) -> Result<T, BadRecordReason> {
        self.take_record();
        let found = self.scratch.len();
        let expected = *self.width.get_or_insert(found);
        if found != expected && !self.flexible {
            return Err(BadRecordReason::FieldCount { expected, found });
        }
        self.scratch.deserialize(self.header.as_ref()).map_err(|e| {
            if let csv::ErrorKind::Deserialize { err, .. } = e.kind()
                && let csv::DeserializeErrorKind::InvalidUtf8(utf8) = err.kind()
            {
                return BadRecordReason::InvalidUtf8 {
                    at: utf8.valid_up_to(),
                };
            }
            BadRecordReason::Csv(e)
        })
    }
}

impl<T: DeserializeOwned + Send> Cursor<T> for CsvCursor<T> {
    fn step(&mut self) -> Result<Step<T>, SourceError> {
        Ok(match self.token()? {
            Token::Record => match self.parse() {
                Ok(record) => Step::Record(record),
                Err(reason) => Step::Bad(self.bad(reason)),
            },
            Token::Nothing => Step::Nothing,
            Token::Bad(reason) => Step::Bad(self.bad(reason)),
            Token::Working => Step::Working,
            Token::End => Step::End,
        })
    }

    fn position(&self) -> Position {
        match self.mode {
            Mode::Between => Position {
                offset: self.input.offset(),
                lines: Some(self.lines),
            },
            Mode::Comment | Mode::Inside | Mode::Discarding => self.record,
        }
    }

    fn consumed(&self) -> u64 {
        self.input.offset()
    }
}
