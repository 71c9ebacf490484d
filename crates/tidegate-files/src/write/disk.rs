//! What the sink asks of a file system, so that its tests can put one in its place that fails, fills up and
//! loses power.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

/// A file that is being written.
pub(crate) trait Staged: Send {
    /// Appends.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes what was written durable. The file's name is its directory's.
    fn sync(&mut self) -> io::Result<()>;
}

/// What stands under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) bytes: u64,
    pub(crate) is_file: bool,
    /// Which file it is, where two names of one file can be told from two files.
    pub(crate) id: Option<(u64, u64)>,
}

/// A file system.
pub(crate) trait Disk: fmt::Debug + Send + Sync {
    /// Makes a directory and what is missing above it, durably.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes a file that isn't there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Staged>>;
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>>;
    /// What stands there; links aren't followed.
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>>;
    /// Gives a file a second name that isn't taken.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file another name, whatever has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes a name away; fine if it is gone.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Names in a directory; those that aren't text are left out.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// Directories above the one that is made whose entries are made durable in any case.
const SYNCED_ABOVE: usize = 2;

/// The operating system's.
#[derive(Debug)]
pub(crate) struct LocalDisk;

impl Staged for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

impl Disk for LocalDisk {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        let missing = dir.ancestors().take_while(|d| !d.is_dir()).count();
        fs::create_dir_all(dir)?;
        // Some above what was made, too: a process that died may have made them without getting to the sync.
        for parent in dir.ancestors().skip(1).take(missing + SYNCED_ABOVE) {
            match self.sync_dir(parent) {
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => break,
                other => other?,
            }
        }
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Staged>> {
        Ok(Box::new(
            OpenOptions::new().write(true).create_new(true).open(path)?,
        ))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(path)?))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        let meta = match fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        #[cfg(unix)]
        let id = {
            use std::os::unix::fs::MetadataExt;
            Some((meta.dev(), meta.ino()))
        };
        #[cfg(not(unix))]
        let id = None;
        Ok(Some(Stat {
            bytes: meta.len(),
            is_file: meta.is_file(),
            id,
        }))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // Elsewhere directories can't be opened, and their entries are durable with the file.
        #[cfg(unix)]
        File::open(dir)?.sync_all()?;
        #[cfg(not(unix))]
        let _ = dir;
        Ok(())
    }
}
