//! What a local disk needs beyond `object_store`: directory entries made durable, and walks that see everything.
//!
//! Facts about `object_store` 0.14.2's local store, read in its source, on which this crate builds:
//! - it syncs files and directories only with `with_fsync(true)`; a create-only write is then staging file →
//!   `fsync` → hard link → `fsync` of the directory → unlink of the staging file. An error after the link (the
//!   directory's `fsync` failed) leaves the object *visible and not known durable*;
//! - of a directory that another writer has just created it syncs the entries, not the directory's own entry
//!   in its parent. So whoever relies on files of others syncs the parent itself ([`sync_dir`]);
//! - deletes are never synced: after a power cut deleted files may be back;
//! - `PutMode::Update` is not implemented, so nothing here uses it;
//! - staging files are called `<name>#<digits>`; `list()` hides them, and they stay after a crash;
//! - outside a tokio context it works on the calling thread, inside one it moves to tokio's blocking pool.
//!
//! Everything here blocks the calling thread for a few system calls, as small as a directory's `fsync`. Does not
//! own: what may be deleted ([`crate::retention`]).

use std::fs;
use std::io;
use std::path::Path;

/// How deep a walk goes; a job's directory is two levels deep.
const MAX_DEPTH: usize = 4;

/// What a walk found below a directory, paths relative to it with `/`, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Walk {
    /// Every file, staging files too, with its size in bytes.
    pub(crate) files: Vec<(String, u64)>,
    /// Directories without any entry.
    pub(crate) empty_dirs: Vec<String>,
}

/// Makes `dir` and what is missing above it, all entries durable.
pub(crate) fn ensure_dir(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    // Even if it stood already: a process that died may have created it without getting to the sync.
    for dir in dir.ancestors().take(3) {
        match sync_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => break,
            other => other?,
        }
    }
    Ok(())
}

/// Makes the entries of `dir` durable. A no-op where directories can't be synced.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    #[cfg(unix)]
    fs::File::open(dir)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = dir;
    Ok(())
}

/// Makes the entries of `dir` durable if it exists; whether it does.
pub(crate) fn sync_dir_if_there(dir: &Path) -> io::Result<bool> {
    match sync_dir(dir) {
        Ok(()) => Ok(dir.exists()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Everything below `dir`, staging files too. What vanishes meanwhile is left out; links aren't followed.
pub(crate) fn walk(dir: &Path) -> io::Result<Walk> {
    let mut found = Walk::default();
    walk_into(dir, "", MAX_DEPTH, &mut found)?;
    found.files.sort();
    found.empty_dirs.sort();
    Ok(found)
}

fn walk_into(dir: &Path, prefix: &str, depth_left: usize, found: &mut Walk) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let mut empty = true;
    for entry in entries {
        let entry = entry?;
        empty = false;
        // Names that are no text are none of ours.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = if prefix.is_empty() {
            name
        } else {
            format!("{prefix}/{name}")
        };
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth_left > 0 {
            walk_into(&entry.path(), &path, depth_left - 1, found)?;
        } else if kind.is_file()
            && let Ok(meta) = entry.metadata()
        {
            found.files.push((path, meta.len()));
        }
    }
    if empty && !prefix.is_empty() {
        found.empty_dirs.push(prefix.to_owned());
    }
    Ok(())
}

/// Removes a file; fine if it is gone.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Removes a directory if nothing stands in it. A writer that is about to create a file there makes it again:
/// `object_store` retries with the parent created.
pub(crate) fn remove_dir_if_empty(path: &Path) -> io::Result<()> {
    match fs::remove_dir(path) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_sees_staging_files_and_empty_directories() {
        let root = tempfile::tempdir().unwrap();
        ensure_dir(&root.path().join("chk-1")).unwrap();
        ensure_dir(&root.path().join("chk-2")).unwrap();
        fs::write(root.path().join("chk-1/a.state#1"), b"xyz").unwrap();
        fs::write(root.path().join("top"), b"").unwrap();
        let walk = walk(root.path()).unwrap();
        assert_eq!(
            walk.files,
            [("chk-1/a.state#1".to_owned(), 3), ("top".to_owned(), 0)]
        );
        assert_eq!(walk.empty_dirs, ["chk-2"]);
        assert_eq!(super::walk(&root.path().join("gone")).unwrap(), Walk::default());
    }

    #[test]
    fn only_an_empty_directory_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("chk-1");
        ensure_dir(&dir).unwrap();
        fs::write(dir.join("a"), b"x").unwrap();
        remove_dir_if_empty(&dir).unwrap();
        assert!(dir.exists());
        remove_file(&dir.join("a")).unwrap();
        remove_file(&dir.join("a")).unwrap();
        remove_dir_if_empty(&dir).unwrap();
        remove_dir_if_empty(&dir).unwrap();
        assert!(!dir.exists());
        assert!(!sync_dir_if_there(&dir).unwrap());
    }
}
