//! Making prepared files visible, once: the order of steps and why a crash between any two does no harm.
//!
//! A commit is, for all files of a checkpoint: (1) link the hidden file to its final name, which fails if that is
//! taken; (2) make the directory durable; (3) take the hidden name away.
//!
//! - A crash before or during (1): the hidden files are still there (they were durable before the checkpoint
//!   completed, and only (3) takes them away), and doing it again links the rest.
//! - Between (1) and (2): the link may or may not survive; the hidden file does. Doing it again finds
//!   two names of one file, or links again.
//! - During (3), or if a removal isn't durable: an old hidden name comes back, and is removed by the next commit or
//!   by settling. The final name is durable by then.
//! - Done again after (3): the final file has the committable's length and checksum, so it is that file.
//!
//! Nobody but the committer of the job's leader creates final names, and a snapshot lists a file only with
//! its name, so a final file of other content is foreign: an error, never overwritten. Where a file system has
//! no hard links, (1) is a rename after a look that the name is free. That isn't create-only in one step, but what
//! it would have to guard against is a stranger taking a name, with this job's tag and checkpoint in it, between
//! the look and the rename; in exchange a file is never visible half written, as it would be with a copy. (3) has
//! nothing to do then.
//!
//! *Settling* commits what the restored snapshot lists and then removes every other hidden file of this job's
//! sink, whichever subtask, attempt or lineage began it. A writer of an older attempt that still runs keeps writing
//! into a file without a name, or creates files under names of its own that the next settling removes.

use std::collections::{BTreeSet, HashSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_runtime::error::BoxError;
use tidegate_runtime::operators::{Committer, OutputLost, SinkContext};

use super::committable::FileCommittable;
use super::disk::{Disk, Stat};
use super::error::SinkError;
use super::names::{Names, is_plain};

/// How often a file is looked at again because it changed under the look.
const LOOKS: u32 = 3;

/// What a committer is made of.
pub(crate) struct CommitterParts {
    pub(crate) cx: SinkContext,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: Arc<Path>,
    pub(crate) names: Names,
    pub(crate) taken_away: bool,
}

/// Commits the files of one sink.
pub(crate) struct FileCommitter {
    parts: CommitterParts,
    /// Final names of the last commit: a list that names them again needn't be checked by reading them.
    done: HashSet<String>,
}

/// How much of a prepared file is checked before it becomes visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// It was prepared by this attempt: its length.
    Length,
    /// A crash lies between: its content.
    Content,
}

/// Where a file stands after step (1).
enum Placed {
    /// Under its final name in this directory; the hidden name is to be removed if it is there.
    There { dir: PathBuf, hidden: bool },
    /// Nowhere, and that is right.
    TakenAway,
}

impl FileCommitter {
    pub(crate) fn new(parts: CommitterParts) -> Self {
        Self {
            parts,
            done: HashSet::new(),
        }
    }

    fn error(&self, doing: &'static str, path: &Path, source: io::Error) -> SinkError {
        SinkError::io(doing, &self.parts.dir, path.to_owned(), source)
    }

    fn commit_all(&mut self, files: &[FileCommittable], check: Check) -> Result<(), SinkError> {
        for name in files.iter().flat_map(|file| [&file.staging, &file.name]) {
            if !is_plain(name) {
                return Err(SinkError::Corrupt { name: name.clone() });
            }
        }
        let mut placed = Vec::with_capacity(files.len());
        for file in files {
            placed.push(self.place(file, check)?);
        }
        let dirs: BTreeSet<&Path> = placed
            .iter()
            .filter_map(|p| match p {
                Placed::There { dir, .. } => Some(dir.as_path()),
                Placed::TakenAway => None,
            })
            .collect();
        for dir in dirs {
            self.parts
                .disk
                .sync_dir(dir)
                .map_err(|e| self.error("make durable", dir, e))?;
        }
        for (file, placed) in files.iter().zip(&placed) {
            if let Placed::There { dir, hidden: true } = placed {
                let path = dir.join(&file.staging);
                self.parts
                    .disk
                    .remove(&path)
                    .map_err(|e| self.error("remove", &path, e))?;
            }
        }
        self.done = files.iter().map(|file| file.name.clone()).collect();
        Ok(())
    }

    /// Step (1) for one file: in the sink's directory, or where it was prepared if the sink was moved since.
    fn place(&self, file: &FileCommittable, check: Check) -> Result<Placed, SinkError> {
        for dir in self.places(file) {
            for _ in 0..LOOKS {
                let staging = dir.join(&file.staging);
                let target = dir.join(&file.name);
                match (self.stat(&staging)?, self.stat(&target)?) {
                    (None, None) => break,
                    (Some(hidden), Some(there)) if hidden.id.is_some() && hidden.id == there.id => {
                        return Ok(Placed::There { dir, hidden: true });
                    }
                    (hidden, Some(there)) => {
                        self.expect_committed(file, &target, there)?;
                        return Ok(Placed::There {
                            dir,
                            hidden: hidden.is_some(),
                        });
                    }
                    (Some(hidden), None) => {
                        self.expect_prepared(file, &staging, hidden, check)?;
                        if let Some(hidden) = self.show(&staging, &target)? {
                            return Ok(Placed::There { dir, hidden });
                        }
                    }
                }
            }
        }
        if self.parts.taken_away {
            return Ok(Placed::TakenAway);
        }
        Err(SinkError::Lost {
            path: self.parts.dir.join(&file.name),
            staging: file.staging.clone(),
        })
    }

    fn places(&self, file: &FileCommittable) -> Vec<PathBuf> {
        let here = self.parts.dir.to_path_buf();
        let there = PathBuf::from(&file.dir);
        if file.dir.is_empty() || there == here {
            vec![here]
        } else {
            vec![here, there]
        }
    }

    /// Makes a hidden file visible; whether its hidden name is still there. `None` if either name changed meanwhile.
    fn show(&self, staging: &Path, target: &Path) -> Result<Option<bool>, SinkError> {
        let disk = &self.parts.disk;
        match disk.link(staging, target) {
            Ok(()) => return Ok(Some(true)),
            Err(e) if matches!(e.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
                return Ok(None);
            }
            Err(e) if !has_no_links(&e) => return Err(self.error("link to its final name", staging, e)),
            Err(_) => {}
        }
        match disk.rename(staging, target) {
            Ok(()) => Ok(Some(false)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.error("rename to its final name", staging, e)),
        }
    }

    fn expect_prepared(
        &self,
        file: &FileCommittable,
        path: &Path,
        stat: Stat,
        check: Check,
    ) -> Result<(), SinkError> {
        let found = match check {
            Check::Length if stat.is_file && stat.bytes == file.bytes => return Ok(()),
            Check::Length => describe(stat, None),
            Check::Content => match self.content_if_equal(file, path, stat)? {
                Ok(()) => return Ok(()),
                Err(found) => found,
            },
        };
        Err(SinkError::Damaged {
            path: path.to_owned(),
            expected: wanted(file),
            found,
        })
    }

    fn expect_committed(&self, file: &FileCommittable, path: &Path, stat: Stat) -> Result<(), SinkError> {
        if self.done.contains(&file.name) && stat.is_file && stat.bytes == file.bytes {
            return Ok(());
        }
        match self.content_if_equal(file, path, stat)? {
            Ok(()) => Ok(()),
            Err(found) => Err(SinkError::Different {
                path: path.to_owned(),
                expected: wanted(file),
                found,
            }),
        }
    }

    /// Whether a file has the committable's length and checksum; what it has if not.
    fn content_if_equal(
        &self,
        file: &FileCommittable,
        path: &Path,
        stat: Stat,
    ) -> Result<Result<(), String>, SinkError> {
        if !stat.is_file || stat.bytes != file.bytes {
            return Ok(Err(describe(stat, None)));
        }
        let crc = self.checksum(path).map_err(|e| self.error("read", path, e))?;
        Ok(if crc == file.crc32c {
            Ok(())
        } else {
            Err(describe(stat, Some(crc)))
        })
    }

    fn checksum(&self, path: &Path) -> io::Result<u32> {
        let mut file = self.parts.disk.open(path)?;
        let mut buffer = vec![0; 256 * 1024];
        let mut crc = 0;
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(crc),
                Ok(n) => crc = crc32c::crc32c_append(crc, &buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>, SinkError> {
        match self.parts.disk.stat(path) {
            // A directory that was given to an earlier run may be gone.
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => Ok(None),
            other => other.map_err(|e| self.error("look at", path, e)),
        }
    }

    /// Makes the directory and tries whether files can be created in it.
    fn open_directory(&self) -> Result<(), SinkError> {
        let CommitterParts { disk, dir, names, .. } = &self.parts;
        let refuse = |source: io::Error| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => SinkError::DiskFull {
                dir: dir.to_path_buf(),
                doing: "create a file",
                source,
            },
            _ => SinkError::Directory {
                dir: dir.to_path_buf(),
                source,
            },
        };
        disk.make_dir(dir).map_err(refuse)?;
        let probe = dir.join(names.probe());
        disk.remove(&probe).map_err(refuse)?;
        disk.create(&probe).map_err(refuse)?;
        disk.remove(&probe).map_err(refuse)
    }

    /// A run that starts from the beginning must not add to what an earlier one committed. That shows in a final
    /// file of its own line of output (the earlier run's checkpoints are gone, say because it was cancelled), or in
    /// one whose checkpoint isn't below the epoch: every leadership's epoch is above all checkpoints that were
    /// decided before it in its store, so that file comes from a run that this store knows nothing of.
    fn refuse_earlier_output(&self) -> Result<(), SinkError> {
        let CommitterParts {
            cx, disk, dir, names, ..
        } = &self.parts;
        if cx.restored.is_some() {
            return Ok(());
        }
        let there = disk.list(dir).map_err(|e| self.error("list", dir, e))?;
        let unknown: Vec<&String> = there
            .iter()
            .filter(|name| {
                names
                    .parse(name)
                    .is_some_and(|n| n.lineage == cx.lineage || n.checkpoint.0 >= cx.epoch.0)
            })
            .collect();
        match unknown.iter().min() {
            None => Ok(()),
            Some(example) => Err(SinkError::EarlierOutput {
                dir: dir.to_path_buf(),
                count: unknown.len(),
                example: (**example).clone(),
            }),
        }
    }

    /// Removes every hidden file of this sink. What is listed is committed by now and has none.
    fn discard(&self, listed: &[FileCommittable]) -> Result<(), SinkError> {
        let CommitterParts { disk, dir, names, .. } = &self.parts;
        let mut dirs = BTreeSet::from([dir.to_path_buf()]);
        dirs.extend(listed.iter().flat_map(|file| self.places(file)));
        for dir in dirs {
            let there = match disk.list(&dir) {
                Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    continue;
                }
                other => other.map_err(|e| self.error("list", &dir, e))?,
            };
            let mut removed = 0;
            for name in there.iter().filter(|name| names.is_staging(name)) {
                let path = dir.join(name);
                disk.remove(&path).map_err(|e| self.error("remove", &path, e))?;
                removed += 1;
            }
            if removed > 0 {
                disk.sync_dir(&dir)
                    .map_err(|e| self.error("make durable", &dir, e))?;
                let uid = &self.parts.cx.uid;
                tracing::info!(%uid, dir = %dir.display(), removed, "discarded unfinished output of earlier attempts");
            }
        }
        Ok(())
    }
}

impl Committer<FileCommittable> for FileCommitter {
    fn settle(&mut self, listed: Vec<FileCommittable>) -> Result<(), BoxError> {
        self.open_directory()?;
        self.refuse_earlier_output()?;
        self.commit_all(&listed, Check::Content).map_err(lost)?;
        self.discard(&listed)?;
        Ok(())
    }

    fn commit(&mut self, committables: Vec<FileCommittable>) -> Result<(), BoxError> {
        self.commit_all(&committables, Check::Length).map_err(lost)
    }
}

/// What no attempt heals ends the job; everything else is tried again.
fn lost(error: SinkError) -> BoxError {
    match error {
        SinkError::Lost { .. }
        | SinkError::Different { .. }
        | SinkError::Corrupt { .. }
        | SinkError::Damaged { .. } => Box::new(OutputLost(error.into())),
        error => error.into(),
    }
}

/// Whether a link failed because the file system has none, as opposed to for want of something.
fn has_no_links(error: &io::Error) -> bool {
    // EPERM is what link(2) says of such file systems; ENOSYS and EOPNOTSUPP are what some in user space say.
    matches!(
        error.kind(),
        io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied | io::ErrorKind::TooManyLinks
    )
}

fn wanted(file: &FileCommittable) -> String {
    format!("{} bytes, CRC-32C {:08x}", file.bytes, file.crc32c)
}

fn describe(stat: Stat, crc: Option<u32>) -> String {
    match crc {
        _ if !stat.is_file => "not a file".to_owned(),
        Some(crc) => format!("{} bytes, CRC-32C {crc:08x}", stat.bytes),
        None => format!("{} bytes", stat.bytes),
    }
}
