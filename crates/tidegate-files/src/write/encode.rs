//! From records to bytes of a file.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tidegate_runtime::error::BoxError;

/// Makes bytes of records. Each subtask works on a clone of its own.
pub trait Encoder<T>: Clone + Send + Sync + 'static {
    /// A file begins; what is appended here stands at its head, before any record.
    ///
    /// # Errors
    /// Fail the attempt.
    fn begin(&mut self, out: &mut Vec<u8>) -> Result<(), BoxError> {
        let _ = out;
        Ok(())
    }

    /// Appends a record with what ends it.
    ///
    /// # Errors
    /// Fail the attempt; what was appended is dropped.
    fn encode(&mut self, record: &T, out: &mut Vec<u8>) -> Result<(), BoxError>;
}

/// A line per record, as its `Display` writes it. A record whose text holds line ends takes several lines.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextEncoder;

impl<T: Display> Encoder<T> for TextEncoder {
    fn encode(&mut self, record: &T, out: &mut Vec<u8>) -> Result<(), BoxError> {
        writeln!(out, "{record}")?;
        Ok(())
    }
}

/// A line of JSON per record.
#[derive(Debug, Clone, Copy, Default)]
pub struct JsonLinesEncoder;

impl<T: Serialize> Encoder<T> for JsonLinesEncoder {
    fn encode(&mut self, record: &T, out: &mut Vec<u8>) -> Result<(), BoxError> {
        serde_json::to_writer(&mut *out, record)?;
        out.push(b'\n');
        Ok(())
    }
}

/// A CSV record per record, with the names of a struct's fields at the head of each file.
#[derive(Debug)]
pub struct CsvEncoder {
    delimiter: u8,
    header: bool,
    writer: Option<(csv::Writer<Shared>, Shared)>,
}

impl Default for CsvEncoder {
    fn default() -> Self {
        Self {
            delimiter: b',',
            header: true,
            writer: None,
        }
    }
}

impl Clone for CsvEncoder {
    fn clone(&self) -> Self {
        Self {
            writer: None,
            ..*self
        }
    }
}

impl CsvEncoder {
    /// What stands between fields; a comma if not set.
    #[must_use]
    pub fn delimiter(self, byte: u8) -> Self {
        Self {
            delimiter: byte,
            ..self
        }
    }

    /// Whether each file begins with the names of the fields; true if not set. Only structs have names.
    #[must_use]
    pub fn header(self, wanted: bool) -> Self {
        Self {
            header: wanted,
            ..self
        }
    }
}

impl<T: Serialize> Encoder<T> for CsvEncoder {
    fn begin(&mut self, _: &mut Vec<u8>) -> Result<(), BoxError> {
        // A new writer puts the header before its first record.
        self.writer = None;
        Ok(())
    }

    fn encode(&mut self, record: &T, out: &mut Vec<u8>) -> Result<(), BoxError> {
        let (writer, bytes) = self.writer.get_or_insert_with(|| {
            let bytes = Shared::default();
            let mut builder = csv::WriterBuilder::new();
            builder.delimiter(self.delimiter).has_headers(self.header);
            (builder.from_writer(bytes.clone()), bytes)
        });
        writer.serialize(record)?;
        writer.flush()?;
        out.append(&mut bytes.0.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }
}

/// Where `csv` writes to: it gives back what it writes to only when it is done.
#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a closure makes of a record.
#[derive(Clone)]
pub struct FnEncoder<F>(pub(crate) F);

impl<F> fmt::Debug for FnEncoder<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FnEncoder")
    }
}

impl<T, F> Encoder<T> for FnEncoder<F>
where
    F: Fn(&T, &mut Vec<u8>) -> Result<(), BoxError> + Clone + Send + Sync + 'static,
{
    fn encode(&mut self, record: &T, out: &mut Vec<u8>) -> Result<(), BoxError> {
        (self.0)(record, out)
    }
}
