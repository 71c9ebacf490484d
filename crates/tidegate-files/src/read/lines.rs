//! Lines of a split: which are its own, where each begins, and how to get past one that is too long.
//!
//! A line belongs to the split in which its first byte stands. So a split that doesn't begin at the file's first byte
//! looks for the first line end from the byte *before* its range on: if that byte is a line end, the line at
//! `start` is its own. And it reads the last line that begins in its range to the end, however far that is. For any
//! cut of a file into ranges each line is read exactly once.
//!
//! Owns: that rule and the limit on a line's length. Does not own: what a line means ([`super::format::LineFormat`]).

use memchr::memchr;

use super::error::{BadRecord, BadRecordReason, SourceError};
use super::format::{Cursor, Line, LineFormat, Position, Step};
use super::input::Input;
use super::split::FileSplit;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Looking for the first line that begins in the range that began at `start`.
    Aligning { start: u64 },
    /// At the beginning of a line.
    Reading,
    /// Inside a line that is over the limit and that began at `start`.
    Discarding { start: u64 },
}

/// Reads the lines of a split.
pub struct LineCursor<L> {
    format: L,
    input: Input,
    end: u64,
    limit: usize,
    /// So many of the bytes at hand hold no line end.
    scanned: usize,
    mode: Mode,
    lines: Option<u64>,
}

impl<L: LineFormat> LineCursor<L> {
    /// Where reading begins for a split at this position.
    pub(crate) fn first_byte(split: &FileSplit) -> u64 {
        // At `start` itself it isn't known whether a line begins there.
        if split.position == split.start {
            split.start.saturating_sub(1)
        } else {
            split.position
        }
    }

    /// A cursor over `input`, which stands at [`first_byte`](Self::first_byte).
    pub(crate) fn new(format: L, input: Input, split: &FileSplit, limit: usize) -> Self {
        let aligns = split.position == split.start && split.start > 0;
        let mode = if aligns {
            Mode::Aligning { start: split.start }
        } else {
            Mode::Reading
        };
        Self {
            format,
            input,
            end: split.end,
            limit,
            scanned: 0,
            mode,
            lines: split.lines,
        }
    }

    /// Bytes that the cursor has room for in memory.
    #[cfg(test)]
    pub(crate) fn buffered(&self) -> usize {
        self.input.capacity()
    }

    /// Consumes up to the next line end; whether there was one.
    fn skip_line(&mut self) -> bool {
        match memchr(b'\n', self.input.bytes()) {
            Some(at) => {
                self.input.consume(at + 1);
                true
            }
            None => {
                self.input.consume(self.input.bytes().len());
                false
            }
        }
    }

    fn align(&mut self) -> Result<Step<L::Out>, SourceError> {
        if self.skip_line() || self.input.offset() >= self.end || self.input.has_ended() {
            self.mode = Mode::Reading;
            return Ok(Step::Nothing);
        }
        self.input.fill()?;
        Ok(Step::Working)
    }

    fn discard(&mut self) -> Result<Step<L::Out>, SourceError> {
        if self.skip_line() || self.input.has_ended() {
            self.mode = Mode::Reading;
            self.lines = self.lines.map(|n| n + 1);
            return Ok(Step::Nothing);
        }
        self.input.fill()?;
        Ok(Step::Working)
    }

    fn read(&mut self) -> Result<Step<L::Out>, SourceError> {
        if self.input.offset() >= self.end {
            return Ok(Step::End);
        }
        let bytes = self.input.bytes();
        if let Some(at) = memchr(b'\n', &bytes[self.scanned..]) {
            let length = self.scanned + at;
            let text = length - usize::from(length > 0 && bytes[length - 1] == b'\r');
            return Ok(self.line(text, length + 1));
        }
        self.scanned = bytes.len();
        if self.input.has_ended() {
            if bytes.is_empty() {
                return Ok(Step::End);
            }
            return Ok(self.line(self.scanned, self.scanned));
        }
        // One byte of it may be the `\r` of the line end.
        if self.scanned > self.limit.saturating_add(1) {
            let bad = self.bad(BadRecordReason::TooLong { limit: self.limit });
            self.mode = Mode::Discarding {
                start: self.input.offset(),
            };
            self.input.consume(self.scanned);
            self.scanned = 0;
            return Ok(Step::Bad(bad));
        }
        self.input.fill()?;
        Ok(Step::Working)
    }

    /// The line of `text` bytes at hand, consuming it with its line end.
    #[inline]
    fn line(&mut self, text: usize, consume: usize) -> Step<L::Out> {
        let offset = self.input.offset();
        let mut bytes = &self.input.bytes()[..text];
        if offset == 0 {
            bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        }
        let parsed = if bytes.len() > self.limit {
            Err(BadRecordReason::TooLong { limit: self.limit })
        } else {
            self.format.parse(Line {
                bytes,
                file: self.input.path(),
                offset,
            })
        };
        let step = match parsed {
            Ok(Some(record)) => Step::Record(record),
            Ok(None) => Step::Nothing,
            Err(reason) => Step::Bad(self.bad(reason)),
        };
        self.input.consume(consume);
        self.scanned = 0;
        self.lines = self.lines.map(|n| n + 1);
        step
    }

    #[cold]
    fn bad(&self, reason: BadRecordReason) -> BadRecord {
        BadRecord {
            file: self.input.path().clone(),
            line: self.lines.map(|before| before + 1),
            offset: self.input.offset(),
            reason,
        }
    }
}

impl<L: LineFormat> Cursor<L::Out> for LineCursor<L> {
    #[inline]
    fn step(&mut self) -> Result<Step<L::Out>, SourceError> {
        match self.mode {
            Mode::Reading => self.read(),
            Mode::Aligning { .. } => self.align(),
            Mode::Discarding { .. } => self.discard(),
        }
    }

    fn position(&self) -> Position {
        let offset = match self.mode {
            Mode::Reading => self.input.offset(),
            Mode::Aligning { start } | Mode::Discarding { start } => start,
        };
        Position {
            offset,
            lines: self.lines,
        }
    }

    fn consumed(&self) -> u64 {
        self.input.offset()
    }
}
