//! In-flight elements as bytes: the payload of an `InFlight` section.
//!
//! Layout (version 1), all integers little-endian; see `docs/formats.md`:
//! `u8 version`, then elements until the end: `u8 tag`; tag 1 watermark: `i64`; tag 2 status: `u8` (0 active,
//! 1 idle); tag 0 batch: `u8 encoding` (0 native, 1 canonical), `u8` 1 if event times follow, `u32 records`,
//! `u64` length of the encoded values, the values one after another, then `records` × `i64` times.
//! Key hashes are not stored: the consumer computes them anew with its own key function.

use std::sync::Arc;

use tidegate_types::codec::{self, CodecError, Record, TypeFormat};
use tidegate_types::snapshot::Encoding;
use tidegate_types::{Activity, Batch, EventTime};

use crate::gate::CapturedElement;

const VERSION: u8 = 1;
const BATCH: u8 = 0;
const WATERMARK: u8 = 1;
const STATUS: u8 = 2;

/// An element of a restored channel.
pub type InFlightElement<T> = CapturedElement<T>;

/// Why bytes aren't in-flight elements.
#[derive(Debug, thiserror::Error)]
pub enum InFlightError {
    /// Ends too early, or says nonsense.
    #[error("in-flight data is damaged at byte {at}: {what}")]
    Damaged {
        /// Offset in the section.
        at: usize,
        /// What was expected.
        what: &'static str,
    },
    /// Written by a newer version.
    #[error("in-flight data has format version {0}, this build reads version {VERSION}")]
    Version(u8),
    /// A record can't be read.
    #[error("an in-flight record can't be decoded: {0}")]
    Record(#[from] CodecError),
}

/// Encodes elements; returns the payload and the number of records.
///
/// # Errors
/// When a record can't be encoded in either way.
pub fn encode_in_flight<T: Record>(
    elements: &[InFlightElement<T>],
    format: &TypeFormat<T>,
) -> Result<(Vec<u8>, u64), CodecError> {
    let mut out = vec![VERSION];
    let mut records = 0;
    for element in elements {
        match element {
            CapturedElement::Watermark(w) => {
                out.push(WATERMARK);
                out.extend_from_slice(&w.to_le_bytes());
            }
            CapturedElement::Status(a) => {
                out.push(STATUS);
                out.push(u8::from(*a == Activity::Idle));
            }
            CapturedElement::Batch(batch) => {
                records += batch.len() as u64;
                encode_batch(batch, format, &mut out)?;
            }
        }
    }
    Ok((out, records))
}

fn encode_batch<T: Record>(
    batch: &Batch<T>,
    format: &TypeFormat<T>,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let start = out.len();
    let mut encoding = format.encoding();
    loop {
        out.push(BATCH);
        out.push(u8::from(encoding == Encoding::Canonical));
        out.push(u8::from(batch.times.is_some()));
        out.extend_from_slice(&(batch.len() as u32).to_le_bytes());
        let length_at = out.len();
        out.extend_from_slice(&[0; 8]);
        // A type whose `Serialize` and `Deserialize` disagree fails the snapshot, not the restore from it.
        let first = batch.values.first();
        let written = first.map_or(Ok(()), |v| format.check_first(encoding, v));
        let written = written.and_then(|()| {
            let mut values = batch.values.iter();
            values.try_for_each(|v| codec::encode_as(encoding, v, out))
        });
        match written {
            Ok(()) => {
                let length = (out.len() - length_at - 8) as u64;
                out[length_at..length_at + 8].copy_from_slice(&length.to_le_bytes());
                break;
            }
            // A skipped field or a map of unknown length: this batch is stored self-describing.
            Err(e) if encoding == Encoding::Native && e.is_not_native() => {
                out.truncate(start);
                encoding = Encoding::Canonical;
            }
            Err(e) => return Err(e),
        }
    }
    for time in batch.times.iter().flatten() {
        out.extend_from_slice(&time.to_le_bytes());
    }
    Ok(())
}

struct Reader<'a> {
    all: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], InFlightError> {
        if self.rest.len() < n {
            return Err(self.damaged(what));
        }
        let (taken, rest) = self.rest.split_at(n);
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], InFlightError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    fn damaged(&self, what: &'static str) -> InFlightError {
        InFlightError::Damaged {
            at: self.all - self.rest.len(),
            what,
        }
    }
}

/// Reads what [`encode_in_flight`] wrote. `section` is what its head says: only a native section, whose shape was
/// compared with the type's, may hold native batches.
///
/// # Errors
/// On damaged or foreign bytes; never panics and never allocates more than the bytes justify.
pub fn decode_in_flight<T: Record>(
    bytes: &[u8],
    section: Encoding,
) -> Result<Vec<InFlightElement<T>>, InFlightError> {
    let mut r = Reader {
        all: bytes.len(),
        rest: bytes,
    };
    let [version] = r.array("a version")?;
    if version != VERSION {
        return Err(InFlightError::Version(version));
    }
    let mut elements = Vec::new();
    while !r.rest.is_empty() {
        let [tag] = r.array("a tag")?;
        elements.push(match tag {
            WATERMARK => CapturedElement::Watermark(EventTime::from_le_bytes(r.array("a watermark")?)),
            STATUS => CapturedElement::Status(match r.array("a status")? {
                [0] => Activity::Active,
                [1] => Activity::Idle,
                _ => return Err(r.damaged("a status of 0 or 1")),
            }),
            BATCH => CapturedElement::Batch(Arc::new(decode_batch(&mut r, section)?)),
            _ => return Err(r.damaged("a known tag")),
        });
    }
    Ok(elements)
}

fn decode_batch<T: Record>(r: &mut Reader<'_>, section: Encoding) -> Result<Batch<T>, InFlightError> {
    let encoding = match r.array("an encoding")? {
        [0] if section == Encoding::Native => Encoding::Native,
        [0] => return Err(r.damaged("no native batch in a section without a shape")),
        [1] => Encoding::Canonical,
        _ => return Err(r.damaged("an encoding of 0 or 1")),
    };
    let [timed] = r.array("a times flag")?;
    let records = u32::from_le_bytes(r.array("a record count")?) as usize;
    let length = u64::from_le_bytes(r.array("a length")?);
    let length = usize::try_from(length).map_err(|_| r.damaged("a length that fits"))?;
    let mut values_bytes = r.take(length, "the records")?;
    // A record of a zero-sized type takes no byte, so the count alone justifies nothing: grow as we read.
    let mut values = Vec::with_capacity(records.min(length));
    for _ in 0..records {
        values.push(codec::decode_as(encoding, &mut values_bytes)?);
        if length == 0 && values.len() > super::flow::PASS_RECORDS * 64 {
            return Err(r.damaged("a believable record count"));
        }
    }
    if !values_bytes.is_empty() {
        return Err(r.damaged("no bytes after the last record"));
    }
    let times = match timed {
        0 => None,
        1 => {
            let bytes = r.take(records.saturating_mul(8), "event times")?;
            let times = bytes.chunks_exact(8).map(|c| {
                let mut eight = [0; 8];
                eight.copy_from_slice(c);
                EventTime::from_le_bytes(eight)
            });
            Some(times.collect())
        }
        _ => return Err(r.damaged("a times flag of 0 or 1")),
    };
    Ok(Batch {
        values,
        times,
        hashes: None,
    })
}
