//! Handing out splits: the files that were listed, cut into ranges as readers ask.
//!
//! Owns: which ranges nobody has got yet. Its state grows with the number of files, not of splits; files that
//! are handed out whole are forgotten.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_runtime::error::BoxError;
use tidegate_runtime::source::{NextSplit, SplitEnumerator};
use tidegate_types::SubtaskIndex;

use super::split::{FileSplit, Fingerprint};

/// What of the listed files no reader has got yet. Part of the snapshot format.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileEnumeration {
    /// In the order in which they are handed out.
    files: VecDeque<ListedFile>,
    /// Splits that came back, to be handed out first.
    returned: VecDeque<FileSplit>,
}

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListedFile {
    pub(crate) path: Arc<str>,
    pub(crate) file: Fingerprint,
    /// First byte that nobody has got.
    pub(crate) next: u64,
}

impl FileEnumeration {
    pub(crate) fn new(files: Vec<ListedFile>) -> Self {
        Self {
            files: files.into(),
            returned: VecDeque::new(),
        }
    }
}

/// Hands out splits in the order of files and offsets.
pub(crate) struct FileEnumerator {
    state: FileEnumeration,
    /// `None`: whole files.
    split_size: Option<u64>,
}

impl FileEnumerator {
    pub(crate) fn new(state: FileEnumeration, split_size: Option<u64>) -> Self {
        Self { state, split_size }
    }

    fn next(&mut self) -> Option<FileSplit> {
        if let Some(split) = self.state.returned.pop_front() {
            return Some(split);
        }
        loop {
            let file = self.state.files.front_mut()?;
            let (start, size) = (file.next, file.file.size);
            let end = self
                .split_size
                .map_or(size, |bytes| start.saturating_add(bytes).min(size));
            file.next = end;
            let split = (start < end).then(|| FileSplit::new(file.path.clone(), start, end, file.file));
            if end >= size {
                self.state.files.pop_front();
            }
            // An empty file has nothing to hand out.
            if split.is_some() {
                return split;
            }
        }
    }
}

impl FileEnumerator {
    /// Counts a file as handed out up to the end of a split; what that takes along is returned.
    fn hand_out_up_to(&mut self, held: &FileSplit) {
        let Some(at) = self.state.files.iter().position(|f| f.path == held.path) else {
            return;
        };
        let file = &mut self.state.files[at];
        if file.next < held.end {
            let skipped = FileSplit::new(file.path.clone(), file.next, held.end, file.file);
            file.next = held.end;
            self.state.returned.push_back(skipped);
        }
        if file.next >= file.file.size {
            self.state.files.remove(at);
        }
    }
}

impl SplitEnumerator<FileSplit, FileEnumeration> for FileEnumerator {
    fn next_split(&mut self, _: SubtaskIndex) -> Result<NextSplit<FileSplit>, BoxError> {
        Ok(self.next().map_or(NextSplit::NoMore, NextSplit::Split))
    }

    fn take_over(&mut self, splits: Vec<FileSplit>) {
        for held in splits {
            self.hand_out_up_to(&held);
            let free = std::mem::take(&mut self.state.returned);
            self.state.returned = free.into_iter().flat_map(|free| free.without(&held)).collect();
        }
    }

    fn snapshot(&mut self) -> Result<FileEnumeration, BoxError> {
        Ok(self.state.clone())
    }
}
