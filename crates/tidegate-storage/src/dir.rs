//! A directory in a store: the few operations that everything else is made of.
//!
//! Owns: opening a location (a path, `file:///…`, `memory:///…`), and create, read, list, copy, delete with
//! errors that name operation and path. All of it is plain `object_store`; a local directory is known besides,
//! for what that interface can't see (`local.rs`).
//!
//! Does not own: names ([`crate::layout`]), what objects mean, retries, or any order of writes
//! ([`crate::decision`]).

use std::fmt;
use std::ops::Range;
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
};

use crate::error::{Problem, StorageError};
use crate::layout;
use crate::local;

mod copy;
mod location;

use location::Location;

/// A directory (a prefix) in a store. Cheap to clone.
#[derive(Clone)]
pub struct StoreDir {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    local: Option<PathBuf>,
    url: Arc<str>,
}

/// One object of a listing, its path relative to the directory that was listed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    /// Relative path with `/`.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
}

/// What a create-only write met.
#[derive(Debug)]
pub(crate) enum Create {
    /// Nothing; the object is there and durable now.
    Created,
    /// An object of that name.
    Exists,
}

impl StoreDir {
    /// A directory of a store that somebody else opened: `prefix` inside it; `local` is the same directory on
    /// this machine's disk if there is one; `url` names it in messages.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        prefix: Path,
        local: Option<PathBuf>,
        url: impl Into<Arc<str>>,
    ) -> Self {
        Self {
            store,
            prefix,
            local,
            url: url.into(),
        }
    }

    /// Opens a location and creates a local directory that is missing.
    ///
    /// # Errors
    /// A scheme that is unknown here, a file in the way, a directory that may not be created.
    pub fn create(location: &str) -> Result<Self, StorageError> {
        match Location::parse(location)? {
            Location::Memory { prefix } => Ok(Self::in_memory(prefix, location)),
            Location::Local(path) => {
                local::ensure_dir(&path)
                    .map_err(|error| StorageError::of_io("create the directory", display(&path), error))?;
                Self::open_local(&path)
            }
        }
    }

    /// Opens a location that must exist already; creates nothing.
    ///
    /// # Errors
    /// As [`StoreDir::create`], and [`Problem::NotThere`].
    pub fn open(location: &str) -> Result<Self, StorageError> {
        match Location::parse(location)? {
            Location::Memory { prefix } => Ok(Self::in_memory(prefix, location)),
            Location::Local(path) => Self::open_local(&path),
        }
    }

    fn in_memory(prefix: Path, location: &str) -> Self {
        let url = if prefix.is_root() {
            location.to_owned()
        } else {
            format!("memory:///{prefix}")
        };
        Self::new(Arc::new(InMemory::new()), prefix, None, url)
    }

    fn open_local(path: &FsPath) -> Result<Self, StorageError> {
        let text = display(path);
        let path = path
            .canonicalize()
            .map_err(|error| StorageError::of_io("open", &*text, error))?;
        if !path.is_dir() {
            let reason = "it is a file, a directory is needed".to_owned();
            return Err(StorageError::new("open", text, Problem::BadLocation { reason }));
        }
        let store = LocalFileSystem::new_with_prefix(&path)
            .map_err(|error| StorageError::of_store("open", &*text, error))?
            .with_fsync(true);
        let url = display(&path);
        Ok(Self::new(Arc::new(store), Path::ROOT, Some(path), url))
    }

    /// The directory `segment` inside this one; nothing is created.
    #[must_use]
    pub fn child(&self, segment: &str) -> Self {
        let prefix = match self.prefix.as_ref() {
            "" => segment.to_owned(),
            prefix => format!("{prefix}/{segment}"),
        };
        Self {
            store: Arc::clone(&self.store),
            // A segment of the layout's making is always valid; of any other text the store makes one that is.
            prefix: Path::parse(&prefix).unwrap_or_else(|_| self.prefix.clone().join(segment)),
            local: self.local.as_ref().map(|dir| dir.join(segment)),
            url: self.describe(segment).into(),
        }
    }

    /// The directory at `location` if that is in this one and this one is in memory: opened by its location it would be
    /// a store of its own. A directory on disk is found by its path anyway.
    pub(crate) fn find(&self, location: &str) -> Option<Self> {
        let below = location.strip_prefix(self.url.trim_end_matches('/'))?;
        let is_inside = below.is_empty() || below.starts_with('/');
        (self.local.is_none() && is_inside).then(|| {
            let segments = below.split('/').filter(|segment| !segment.is_empty());
            segments.fold(self.clone(), |dir, segment| dir.child(segment))
        })
    }

    /// The directory that contains this one, with this one's name in it.
    pub(crate) fn split_parent(&self) -> Option<(Self, String)> {
        if let Some(name) = self.prefix.filename() {
            let parent = Self {
                store: Arc::clone(&self.store),
                prefix: self.prefix.parent()?,
                local: self
                    .local
                    .as_ref()
                    .and_then(|dir| dir.parent())
                    .map(FsPath::to_owned),
                url: self.url.rsplit_once('/')?.0.into(),
            };
            return Some((parent, name.to_owned()));
        }
        let path = self.local.as_ref()?;
        let name = path.file_name()?.to_str()?.to_owned();
        Some((Self::open_local(path.parent()?).ok()?, name))
    }

    /// Where it is, as a person writes it; [`StoreDir::open`] takes it back.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The directory on this machine's disk, if it is one.
    pub fn local_path(&self) -> Option<&FsPath> {
        self.local.as_deref()
    }

    /// Whether both are directories of one opened store.
    pub(crate) fn same_store(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.store, &other.store)
    }

    /// This directory's path below `root`, if it is in it and of the same opened store.
    pub(crate) fn below(&self, root: &Self) -> Option<String> {
        if !self.same_store(root) || self.prefix == root.prefix {
            return None;
        }
        let segments: Vec<String> = self
            .prefix
            .prefix_match(&root.prefix)?
            .map(|part| part.as_ref().to_owned())
            .collect();
        Some(segments.join("/"))
    }

    /// `path` inside this directory, for messages.
    pub(crate) fn describe(&self, path: &str) -> String {
        format!("{}/{path}", self.url.strip_suffix('/').unwrap_or(&self.url))
    }

    /// The file of a local store behind `path`.
    pub(crate) fn local_file(&self, path: &str) -> Option<PathBuf> {
        self.local
            .as_ref()
            .map(|dir| path.split('/').fold(dir.clone(), |at, segment| at.join(segment)))
    }

    fn object(&self, operation: &'static str, path: &str) -> Result<Path, StorageError> {
        let full = match self.prefix.as_ref() {
            "" => path.to_owned(),
            prefix => format!("{prefix}/{path}"),
        };
        // `parse` refuses `..`, empty segments and control characters: a path out of a file can't leave here.
        let bad = |reason: String| {
            StorageError::new(
                operation,
                self.describe(path),
                Problem::Corrupt { detail: reason },
            )
        };
        if layout::staged_for(path).is_some() {
            return Err(bad(
                "a staging file's name stands where an object's should".to_owned()
            ));
        }
        Path::parse(&full).map_err(|error| bad(format!("not a path inside the directory ({error})")))
    }

    fn error(&self, operation: &'static str, path: &str, source: object_store::Error) -> StorageError {
        StorageError::of_store(operation, self.describe(path), source)
    }

    /// Writes an object that must not exist yet. After an error it may be there all the same.
    pub(crate) async fn put_new(
        &self,
        operation: &'static str,
        path: &str,
        payload: PutPayload,
    ) -> Result<Create, StorageError> {
        let object = self.object(operation, path)?;
        match self
            .store
            .put_opts(&object, payload, PutOptions::from(PutMode::Create))
            .await
        {
            Ok(_) => Ok(Create::Created),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(Create::Exists)
            }
            Err(error) => Err(self.error(operation, path, error)),
        }
    }

    /// Begins a write in parts.
    pub(crate) async fn upload(
        &self,
        operation: &'static str,
        path: &str,
    ) -> Result<Box<dyn MultipartUpload>, StorageError> {
        let object = self.object(operation, path)?;
        self.store
            .put_multipart(&object)
            .await
            .map_err(|error| self.error(operation, path, error))
    }

    /// The whole object; `None` if there is none. One larger than `limit` bytes is refused unread.
    pub(crate) async fn read(
        &self,
        operation: &'static str,
        path: &str,
        limit: u64,
    ) -> Result<Option<Bytes>, StorageError> {
        let object = self.object(operation, path)?;
        let result = match self.store.get(&object).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            other => other.map_err(|error| self.error(operation, path, error))?,
        };
        let size = result.meta.size;
        if size > limit {
            return Err(StorageError::new(
                operation,
                self.describe(path),
                Problem::TooLarge { size, limit },
            ));
        }
        match result.bytes().await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.error(operation, path, error)),
        }
    }

    /// The bytes of a range, as many of them as the object has, and the object's size. A range that begins
    /// beyond the end gives no bytes.
    pub(crate) async fn read_range(
        &self,
        operation: &'static str,
        path: &str,
        range: Range<u64>,
    ) -> Result<(Bytes, u64), StorageError> {
        let object = self.object(operation, path)?;
        let size = || async {
            let meta = self
                .store
                .head(&object)
                .await
                .map_err(|error| self.error(operation, path, error))?;
            Ok::<u64, StorageError>(meta.size)
        };
        if range.is_empty() {
            return Ok((Bytes::new(), size().await?));
        }
        let start = range.start;
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            ..GetOptions::default()
        };
        match self.store.get_opts(&object, options).await {
            Ok(result) => {
                let size = result.meta.size;
                let bytes = result
                    .bytes()
                    .await
                    .map_err(|error| self.error(operation, path, error))?;
                Ok((bytes, size))
            }
            Err(error @ object_store::Error::NotFound { .. }) => Err(self.error(operation, path, error)),
            // Stores have different words for a range beyond the end; the size tells.
            Err(error) => match size().await? {
                size if size <= start => Ok((Bytes::new(), size)),
                _ => Err(self.error(operation, path, error)),
            },
        }
    }

    /// Deletes an object; fine if it is gone.
    pub(crate) async fn delete(&self, operation: &'static str, path: &str) -> Result<(), StorageError> {
        let object = self.object(operation, path)?;
        match self.store.delete(&object).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.error(operation, path, error)),
        }
    }

    /// Deletes objects, as many in one request as the store can; what came of each. Fine if one is gone.
    pub(crate) async fn delete_many(
        &self,
        operation: &'static str,
        paths: Vec<String>,
    ) -> Vec<(String, Result<(), StorageError>)> {
        let objects: Vec<_> = paths.iter().map(|path| self.object(operation, path)).collect();
        let valid: Vec<_> = objects
            .iter()
            .filter_map(|object| object.as_ref().ok().cloned())
            .collect();
        let count = valid.len();
        let mut answers: Vec<_> = self
            .store
            .delete_stream(stream::iter(valid).map(Ok).boxed())
            .collect::<Vec<_>>()
            .await;
        if answers.len() != count {
            // A store that deletes in bulk answers once for a failed request. Which paths it held isn't said, so
            // all are reported; those that are gone after all are found gone next time.
            let error = answers
                .into_iter()
                .find_map(Result::err)
                .map_or("no answer".to_owned(), |e| e.to_string());
            answers = (0..count)
                .map(|_| {
                    Err(object_store::Error::Generic {
                        store: "bulk delete",
                        source: error.clone().into(),
                    })
                })
                .collect();
        }
        let mut answers = answers.into_iter();
        let judge = |(path, object): (String, Result<Path, StorageError>)| {
            let result = object.and_then(|_| match answers.next() {
                Some(Ok(_) | Err(object_store::Error::NotFound { .. })) | None => Ok(()),
                Some(Err(error)) => Err(self.error(operation, &path, error)),
            });
            (path, result)
        };
        paths.into_iter().zip(objects).map(judge).collect()
    }

    /// Every object in the directory and below, by path. Of a local store staging files are not among them.
    pub(crate) async fn list(&self, operation: &'static str) -> Result<Vec<Object>, StorageError> {
        let listed: Vec<_> = self
            .store
            .list(Some(&self.prefix))
            .try_collect()
            .await
            .map_err(|error| StorageError::of_store(operation, &*self.url, error))?;
        let mut objects: Vec<Object> = listed
            .into_iter()
            .filter_map(|meta| {
                let segments: Vec<_> = meta
                    .location
                    .prefix_match(&self.prefix)?
                    .map(|part| part.as_ref().to_owned())
                    .collect();
                (!segments.is_empty()).then(|| Object {
                    path: segments.join("/"),
                    size_bytes: meta.size,
                })
            })
            .collect();
        objects.sort();
        Ok(objects)
    }

    /// Makes the entries of a local directory durable; a no-op elsewhere and if it doesn't exist.
    pub(crate) fn sync_local(&self, operation: &'static str, path: &str) -> Result<bool, StorageError> {
        let dir = if path.is_empty() {
            self.local.clone()
        } else {
            self.local_file(path)
        };
        let Some(dir) = dir else { return Ok(false) };
        local::sync_dir_if_there(&dir).map_err(|error| StorageError::of_io(operation, display(&dir), error))
    }

    /// Creates this directory on a local disk, durably; a no-op elsewhere.
    pub(crate) fn ensure_local(&self, operation: &'static str) -> Result<(), StorageError> {
        let Some(dir) = &self.local else { return Ok(()) };
        local::ensure_dir(dir).map_err(|error| StorageError::of_io(operation, display(dir), error))
    }

    /// Everything on a local disk below this directory, staging files too; nothing elsewhere.
    pub(crate) fn walk_local(&self, operation: &'static str) -> Result<local::Walk, StorageError> {
        let Some(dir) = &self.local else {
            return Ok(local::Walk::default());
        };
        local::walk(dir).map_err(|error| StorageError::of_io(operation, display(dir), error))
    }
}

impl fmt::Debug for StoreDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreDir")
            .field("url", &self.url)
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for StoreDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

fn display(path: &FsPath) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
