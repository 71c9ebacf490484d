//! Tidegate's file connectors: sources over local files, and a sink that writes each record exactly once.
//!
//! Sources: [`TextFiles`], [`CsvFiles`] and [`JsonLinesFiles`] read files, directories and patterns in
//! parallel, by byte ranges, and go on behind the last record after a restart; a format of your own is a
//! [`LineFormat`].
//! Sink: [`FileSink`] writes text, CSV, JSON lines or what a closure makes into files that appear when their
//! checkpoint is complete.
//!
//! Owns: formats, positions in files, names and commits of output files (both specified in `docs/formats.md`).
//! Does not own: checkpoint storage (`tidegate-storage`) and when to read, prepare and commit
//! (`tidegate-runtime`). Read `read` or `write` next; both begin with a walk through their modules.

mod read;
mod write;

pub use read::{
    BadRecord, BadRecordReason, Change, Csv, CsvFiles, DEFAULT_RECORD_LIMIT, DEFAULT_SPLIT_SIZE,
    FileEnumeration, FileSource, FileSplit, Fingerprint, Format, JsonLines, JsonLinesFiles, Line, LineFormat,
    OnBadRecord, PlacedText, SkipReason, SkippedRecords, SourceError, Text, TextFiles, TextRecord,
};
pub use write::{
    CsvEncoder, Encoder, FileCommittable, FileSink, FnEncoder, JsonLinesEncoder, SinkError, TextEncoder,
};
