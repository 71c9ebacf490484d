//! From inputs to files: walks, patterns, order, and what is wrong with an input before anything is read.
//!
//! The order is the same for the same files: inputs as given, below a directory by name, files and directories
//! mixed. Names that begin with a dot are hidden and are only read if an input names them. Symbolic links are
//! followed; one that leads back to a directory above it is passed over. Owns: the list of files. Does not own: how
//! they are cut ([`super::enumerator`]).

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use glob::MatchOptions;

use super::enumerator::ListedFile;
use super::error::SourceError;
use super::skipped::{SkipReason, SkippedRecords};
use super::source::OnBadRecord;
use super::split::Fingerprint;

/// How many directories deep a walk goes.
const MAX_DEPTH: usize = 64;

/// Hidden files are matched by no pattern, and `*` doesn't go past a `/`.
const MATCH: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// The files that the inputs name.
pub(crate) fn discover(
    inputs: &[PathBuf],
    on_bad_record: OnBadRecord,
    skipped: &SkippedRecords,
) -> Result<Vec<ListedFile>, SourceError> {
    if inputs.is_empty() {
        return Err(SourceError::NoInputs);
    }
    let mut search = Search {
        on_bad_record,
        skipped,
        files: Vec::new(),
        seen: HashSet::new(),
    };
    for input in inputs {
        search.input(input)?;
    }
    Ok(search.files)
}

struct Search<'a> {
    on_bad_record: OnBadRecord,
    skipped: &'a SkippedRecords,
    files: Vec<ListedFile>,
    seen: HashSet<PathBuf>,
}

/// What a walk below one directory came to.
#[derive(Default)]
struct Walked {
    files: u64,
    skipped: u64,
    hidden: u64,
}

impl Search<'_> {
    fn input(&mut self, input: &Path) -> Result<(), SourceError> {
        let missing = || SourceError::Missing {
            input: input.display().to_string(),
            looked_at: input.to_owned(),
        };
        let path = std::path::absolute(input).map_err(|_| missing())?;
        match fs::metadata(&path) {
            Ok(meta) => self.named(&path, &meta),
            Err(e) if is_missing(&e) => match input.to_str().filter(|text| text.contains(['*', '?', '['])) {
                Some(pattern) => self.pattern(pattern),
                None if fs::symlink_metadata(&path).is_ok() => {
                    self.unreadable(path, e, &mut Walked::default())
                }
                None => Err(SourceError::Missing {
                    input: input.display().to_string(),
                    looked_at: path,
                }),
            },
            Err(e) => self.unreadable(path, e, &mut Walked::default()),
        }
    }

    fn pattern(&mut self, pattern: &str) -> Result<(), SourceError> {
        let bad = |reason: String| SourceError::BadPattern {
            pattern: pattern.to_owned(),
            reason,
        };
        let found = glob::glob_with(pattern, MATCH).map_err(|e| bad(e.to_string()))?;
        let mut any = false;
        for path in found {
            match path {
                Ok(path) => {
                    any = true;
                    let path = std::path::absolute(&path).map_err(|e| bad(e.to_string()))?;
                    match fs::metadata(&path) {
                        Ok(meta) => self.named(&path, &meta)?,
                        Err(e) => self.unreadable(path, e, &mut Walked::default())?,
                    }
                }
                Err(e) => {
                    let path = e.path().to_owned();
                    self.unreadable(path, e.into(), &mut Walked::default())?;
                }
            }
        }
        if any {
            Ok(())
        } else {
            Err(SourceError::NoMatch {
                pattern: pattern.to_owned(),
            })
        }
    }

    /// Something that an input names, hidden or not.
    fn named(&mut self, path: &Path, meta: &Metadata) -> Result<(), SourceError> {
        if meta.is_file() {
            return self.file(path, &mut Walked::default());
        }
        if !meta.is_dir() {
            return Err(SourceError::NotAFile {
                path: path.to_owned(),
            });
        }
        let mut walked = Walked::default();
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(e) => return self.unreadable(path.to_owned(), e, &mut walked),
        };
        self.directory(path, &mut vec![real], &mut walked)?;
        if walked.files == 0 {
            let Walked { skipped, hidden, .. } = walked;
            return Err(SourceError::NoFiles {
                path: path.to_owned(),
                skipped,
                hidden,
            });
        }
        Ok(())
    }

    /// Everything below a directory. `above` are the real paths of it and the directories that led to it.
    fn directory(
        &mut self,
        path: &Path,
        above: &mut Vec<PathBuf>,
        walked: &mut Walked,
    ) -> Result<(), SourceError> {
        if above.len() > MAX_DEPTH {
            return Err(SourceError::TooDeep {
                path: path.to_owned(),
                limit: MAX_DEPTH,
            });
        }
        let entries = fs::read_dir(path).and_then(|entries| {
            entries
                .map(|e| e.map(|e| e.file_name()))
                .collect::<io::Result<Vec<_>>>()
        });
        let mut names = match entries {
            Ok(names) => names,
            Err(e) => return self.unreadable(path.to_owned(), e, walked),
        };
        names.sort_unstable();
        for name in names {
            if is_hidden(&name) {
                walked.hidden += 1;
                continue;
            }
            self.entry(&path.join(&name), &name, above, walked)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        path: &Path,
        name: &OsStr,
        above: &mut Vec<PathBuf>,
        walked: &mut Walked,
    ) -> Result<(), SourceError> {
        let looked_at = fs::symlink_metadata(path).and_then(|link| Ok((link, fs::metadata(path)?)));
        let (link, meta) = match looked_at {
            Ok(both) => both,
            Err(e) => return self.unreadable(path.to_owned(), e, walked),
        };
        if meta.is_file() {
            return self.file(path, walked);
        }
        if !meta.is_dir() {
            tracing::debug!(path = %path.display(), "neither a file nor a directory; passed over");
            return Ok(());
        }
        let parent = above.last().expect("a walk begins with a directory");
        let real = if link.is_symlink() {
            fs::canonicalize(path)
        } else {
            Ok(parent.join(name))
        };
        let real = match real {
            Ok(real) => real,
            Err(e) => return self.unreadable(path.to_owned(), e, walked),
        };
        if link.is_symlink() && above.iter().any(|dir| dir.starts_with(&real)) {
            tracing::warn!(path = %path.display(), "leads back to a directory above it; passed over");
            return Ok(());
        }
        above.push(real);
        let below = self.directory(path, above, walked);
        above.pop();
        below
    }

    fn file(&mut self, path: &Path, walked: &mut Walked) -> Result<(), SourceError> {
        // Opened once here, so that a file without permission is an error now and not after an hour.
        let meta = match File::open(path).and_then(|file| file.metadata()) {
            Ok(meta) => meta,
            Err(e) => return self.unreadable(path.to_owned(), e, walked),
        };
        walked.files += 1;
        let Some(text) = path.to_str() else {
            return Err(SourceError::NotUnicode {
                path: path.to_owned(),
            });
        };
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(e) => return self.unreadable(path.to_owned(), e, walked),
        };
        if self.seen.insert(real) {
            self.files.push(ListedFile {
                path: text.into(),
                file: Fingerprint::of(&meta),
                next: 0,
            });
        }
        Ok(())
    }

    fn unreadable(&self, path: PathBuf, source: io::Error, walked: &mut Walked) -> Result<(), SourceError> {
        let error = SourceError::Unreadable { path, source };
        match self.on_bad_record {
            OnBadRecord::Fail => Err(error),
            OnBadRecord::Skip => {
                walked.skipped += 1;
                self.skipped.note(SkipReason::UnreadableFile, &error);
                Ok(())
            }
        }
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}
