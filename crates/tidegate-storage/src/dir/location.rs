//! What a person writes to name a directory: a plain path, `file:///…`, `memory:///…`.

use std::path::PathBuf;

use object_store::path::Path;

use crate::error::{Problem, StorageError};

/// A location as a person writes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Location {
    Local(PathBuf),
    Memory { prefix: Path },
}

impl Location {
    pub(super) fn parse(text: &str) -> Result<Self, StorageError> {
        let bad = |reason: String| Err(StorageError::new("open", text, Problem::BadLocation { reason }));
        if text.trim().is_empty() {
            return bad("it is empty".to_owned());
        }
        match text.split_once("://") {
            None => match std::path::absolute(text) {
                Ok(path) => Ok(Self::Local(path)),
                Err(error) => bad(error.to_string()),
            },
            Some(("file", _)) => match url::Url::parse(text).ok().and_then(|url| url.to_file_path().ok()) {
                Some(path) => Ok(Self::Local(path)),
                None => bad("a file URL needs an absolute path: file:///dir/checkpoints".to_owned()),
            },
            Some(("memory", path)) => match Path::parse(path) {
                Ok(prefix) => Ok(Self::Memory { prefix }),
                Err(error) => bad(error.to_string()),
            },
            Some((scheme, _)) => bad(format!(
                "this program can't open {scheme}://. It knows a plain path, file:/// and memory:///"
            )),
        }
    }
}
