//! The source: what to read, in which format, and what to do with what can't be read.

use std::path::PathBuf;

use tidegate_runtime::error::BoxError;
use tidegate_runtime::source::{ReaderContext, Source, SplitEnumerator, SplitReader};

use super::discover::discover;
use super::enumerator::{FileEnumeration, FileEnumerator};
use super::error::SourceError;
use super::format::Format;
use super::reader::FileReader;
use super::skipped::SkippedRecords;
use super::split::FileSplit;

/// Bytes of a split if nothing else is said.
pub const DEFAULT_SPLIT_SIZE: u64 = 16 << 20;

/// Bytes of a record at most if nothing else is said.
pub const DEFAULT_RECORD_LIMIT: usize = 8 << 20;

/// What becomes of a record that can't be read: invalid UTF-8, over the limit, malformed, or of another form
/// than its type; and of a file that can't be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBadRecord {
    /// The job fails, with file, line and byte.
    #[default]
    Fail,
    /// It is passed over and counted, see [`FileSource::skipped`].
    Skip,
}

/// How files are read, whatever their format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadOptions {
    pub(crate) split_size: u64,
    pub(crate) record_limit: usize,
    pub(crate) on_bad_record: OnBadRecord,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            split_size: DEFAULT_SPLIT_SIZE,
            record_limit: DEFAULT_RECORD_LIMIT,
            on_bad_record: OnBadRecord::Fail,
        }
    }
}

/// Reads files once: each record of each file that was there when the job began, in parallel, from where it was
/// after a restart.
///
/// Inputs are files, directories (read with everything below them, in the order of names, without what begins with
/// a dot) and patterns (`logs/*.log`, `data/**/part-?`). Relative ones are looked up once, when the job begins;
/// snapshots hold absolute paths. A file that is reached by several inputs or symbolic links is read once; hard links
/// are files of their own. What is appended to a file after it was listed is not read, except for the end of its last
/// line.
///
/// Between two subtasks there is no order among records, nor among those of two splits; within a split they come in
/// the file's order.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use tidegate_files::{CsvFiles, JsonLinesFiles, OnBadRecord, TextFiles};
///
/// let lines = TextFiles::new(["logs/"]).split_size(4 << 20).on_bad_record(OnBadRecord::Skip);
///
/// #[derive(Clone, Serialize, Deserialize)]
/// struct Order {
///     id: u64,
///     customer: String,
/// }
/// let orders = CsvFiles::<Order>::new(["orders.csv"]).delimiter(b';');
/// let events = JsonLinesFiles::<Order>::new(["events/*.jsonl"]);
/// ```
#[derive(Debug, Clone)]
pub struct FileSource<F> {
    inputs: Vec<PathBuf>,
    format: F,
    options: ReadOptions,
    skipped: SkippedRecords,
}

impl<F: Default> FileSource<F> {
    /// Files, directories and patterns to read. Looked up when the job starts, not here.
    pub fn new(inputs: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self {
            inputs: inputs.into_iter().map(Into::into).collect(),
            format: F::default(),
            options: ReadOptions::default(),
            skipped: SkippedRecords::default(),
        }
    }
}

impl<F> FileSource<F> {
    /// How many bytes of a file one reader gets at a time; 16 MiB if not set. Smaller ones spread work more
    /// evenly and cost a message to the job master each. Formats that can't be split (CSV) get whole files.
    #[must_use]
    pub fn split_size(mut self, bytes: u64) -> Self {
        self.options.split_size = bytes;
        self
    }

    /// How many bytes a line or CSV record may have; 8 MiB if not set. A longer one is a bad record, and isn't
    /// held in memory. Each subtask may need up to twice this.
    #[must_use]
    pub fn record_limit(mut self, bytes: usize) -> Self {
        self.options.record_limit = bytes;
        self
    }

    /// What becomes of records and files that can't be read; [`OnBadRecord::Fail`] if not set.
    #[must_use]
    pub fn on_bad_record(mut self, policy: OnBadRecord) -> Self {
        self.options.on_bad_record = policy;
        self
    }

    /// Where skipped records and files are counted. Take it before the source is handed to a job.
    pub fn skipped(&self) -> SkippedRecords {
        self.skipped.clone()
    }

    /// The same files in another format.
    #[must_use]
    pub fn with_format<G>(self, format: G) -> FileSource<G> {
        self.map_format(|_| format)
    }

    pub(crate) fn map_format<G>(self, change: impl FnOnce(F) -> G) -> FileSource<G> {
        FileSource {
            inputs: self.inputs,
            format: change(self.format),
            options: self.options,
            skipped: self.skipped,
        }
    }

    fn check(&self) -> Result<(), SourceError> {
        let zero = |option| SourceError::Option {
            option,
            reason: "must be at least one byte".to_owned(),
        };
        if self.options.split_size == 0 {
            return Err(zero("split_size"));
        }
        if self.options.record_limit == 0 {
            return Err(zero("record_limit"));
        }
        Ok(())
    }
}

impl<F: Format> Source for FileSource<F> {
    type Out = F::Out;
    type Split = FileSplit;
    type Enumeration = FileEnumeration;

    fn enumerator(
        &self,
        restored: Option<FileEnumeration>,
    ) -> Result<Box<dyn SplitEnumerator<FileSplit, FileEnumeration>>, BoxError> {
        self.check().map_err(SourceError::boxed)?;
        let state = match restored {
            Some(state) => state,
            None => {
                let files = discover(&self.inputs, self.options.on_bad_record, &self.skipped)
                    .map_err(SourceError::boxed)?;
                tracing::info!(files = files.len(), "listed the files to read");
                FileEnumeration::new(files)
            }
        };
        let split_size = self.format.splits_files().then_some(self.options.split_size);
        Ok(Box::new(FileEnumerator::new(state, split_size)))
    }

    fn reader(&self, _: ReaderContext) -> Result<Box<dyn SplitReader<F::Out, FileSplit>>, BoxError> {
        self.check().map_err(SourceError::boxed)?;
        Ok(Box::new(FileReader::new(
            self.format.clone(),
            self.options,
            self.skipped.clone(),
        )))
    }
}
