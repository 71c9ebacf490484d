//! A directory in a store: the few operations that everything else is made of.
//!
//! Owns: opening a location (a path, `file:///…`, `memory:///…`), and create, read, list, copy, delete with
//! errors that name operation and path. All of it is plain `object_store`; a local directory is known besides,
//! for what that interface can't see ([`crate::local`]).
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
    CopyMode, CopyOptions, GetOptions, GetRange, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload,
};

use crate::error::{Problem, StorageError};
use crate::layout;
use crate::local;

/// Bytes copied at a time between two stores.
const COPY_PART_BYTES: u64 = 16 << 20;

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
    pub fn new(store: Arc<dyn ObjectStore>, prefix: Path, local: Option<PathBuf>, url: impl Into<Arc<str>>) -> Self {
        Self { store, prefix, local, url: url.into() }
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
        let url = if prefix.is_root() { location.to_owned() } else { format!("memory:///{prefix}") };
        Self::new(Arc::new(InMemory::new()), prefix, None, url)
    }

    fn open_local(path: &FsPath) -> Result<Self, StorageError> {
        let text = display(path);
        let path = path.canonicalize().map_err(|error| StorageError::of_io("open", &*text, error))?;
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

    /// The directory that contains this one, with this one's name in it.
    pub(crate) fn split_parent(&self) -> Option<(Self, String)> {
        if let Some(name) = self.prefix.filename() {
            let parent = Self {
                store: Arc::clone(&self.store),
                prefix: self.prefix.parent()?,
                local: self.local.as_ref().and_then(|dir| dir.parent()).map(FsPath::to_owned),
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
        let segments: Vec<String> =
            self.prefix.prefix_match(&root.prefix)?.map(|part| part.as_ref().to_owned()).collect();
        Some(segments.join("/"))
    }

    /// `path` inside this directory, for messages.
    pub(crate) fn describe(&self, path: &str) -> String {
        format!("{}/{path}", self.url.strip_suffix('/').unwrap_or(&self.url))
    }

    /// The file of a local store behind `path`.
    pub(crate) fn local_file(&self, path: &str) -> Option<PathBuf> {
        self.local.as_ref().map(|dir| path.split('/').fold(dir.clone(), |at, segment| at.join(segment)))
    }

    fn object(&self, operation: &'static str, path: &str) -> Result<Path, StorageError> {
        let full = match self.prefix.as_ref() {
            "" => path.to_owned(),
            prefix => format!("{prefix}/{path}"),
        };
        // `parse` refuses `..`, empty segments and control characters: a path out of a file can't leave here.
        let bad = |reason: String| {
            StorageError::new(operation, self.describe(path), Problem::Corrupt { detail: reason })
        };
        if layout::staged_for(path).is_some() {
            return Err(bad("a staging file's name stands where an object's should".to_owned()));
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
        match self.store.put_opts(&object, payload, PutOptions::from(PutMode::Create)).await {
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
        self.store.put_multipart(&object).await.map_err(|error| self.error(operation, path, error))
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
            return Err(StorageError::new(operation, self.describe(path), Problem::TooLarge { size, limit }));
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
            let meta = self.store.head(&object).await.map_err(|error| self.error(operation, path, error))?;
            Ok::<u64, StorageError>(meta.size)
        };
        if range.is_empty() {
            return Ok((Bytes::new(), size().await?));
        }
        let start = range.start;
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        match self.store.get_opts(&object, options).await {
            Ok(result) => {
                let size = result.meta.size;
                let bytes = result.bytes().await.map_err(|error| self.error(operation, path, error))?;
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
        let valid: Vec<_> = objects.iter().filter_map(|object| object.as_ref().ok().cloned()).collect();
        let count = valid.len();
        let mut answers: Vec<_> =
            self.store.delete_stream(stream::iter(valid).map(Ok).boxed()).collect::<Vec<_>>().await;
        if answers.len() != count {
            // A store that deletes in bulk answers once for a failed request. Which paths it held isn't said, so
            // all are reported; those that are gone after all are found gone next time.
            let error = answers.into_iter().find_map(Result::err).map_or("no answer".to_owned(), |e| e.to_string());
            answers = (0..count)
                .map(|_| Err(object_store::Error::Generic { store: "bulk delete", source: error.clone().into() }))
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
                let segments: Vec<_> =
                    meta.location.prefix_match(&self.prefix)?.map(|part| part.as_ref().to_owned()).collect();
                (!segments.is_empty()).then(|| Object { path: segments.join("/"), size_bytes: meta.size })
            })
            .collect();
        objects.sort();
        Ok(objects)
    }

    /// Copies an object of `from` here under a name that must not exist yet: a hard link or the store's own copy
    /// inside one store, through this process otherwise. The sizes are compared afterwards.
    pub(crate) async fn copy_from(
        &self,
        operation: &'static str,
        from: &Self,
        source: &str,
        target: &str,
    ) -> Result<u64, StorageError> {
        let source_object = from.object(operation, source)?;
        let target_object = self.object(operation, target)?;
        let size = from.store.head(&source_object).await.map_err(|e| from.error(operation, source, e))?.size;
        let linked = if self.same_store(from) {
            let options = CopyOptions::new().with_mode(CopyMode::Create);
            // Not every store and file system can (another mount, a size limit): then the bytes travel.
            self.store.copy_opts(&source_object, &target_object, options).await.is_ok()
        } else {
            false
        };
        if !linked {
            self.copy_bytes(operation, from, source, target, size).await?;
        }
        let copied = self.store.head(&target_object).await.map_err(|e| self.error(operation, target, e))?.size;
        if copied == size {
            return Ok(size);
        }
        let detail = format!("{copied} bytes of {size} arrived");
        Err(StorageError::new(operation, self.describe(target), Problem::Corrupt { detail }))
    }

    async fn copy_bytes(
        &self,
        operation: &'static str,
        from: &Self,
        source: &str,
        target: &str,
        size: u64,
    ) -> Result<(), StorageError> {
        let mut upload = self.upload(operation, target).await?;
        let mut at = 0;
        while at < size {
            let end = size.min(at + COPY_PART_BYTES);
            let (bytes, _) = from.read_range(operation, source, at..end).await?;
            if bytes.is_empty() {
                break; // Truncated meanwhile; the size check says so.
            }
            at += bytes.len() as u64;
            upload.put_part(bytes.into()).await.map_err(|error| self.error(operation, target, error))?;
        }
        upload.complete().await.map_err(|error| self.error(operation, target, error))?;
        Ok(())
    }

    /// Makes the entries of a local directory durable; a no-op elsewhere and if it doesn't exist.
    pub(crate) fn sync_local(&self, operation: &'static str, path: &str) -> Result<bool, StorageError> {
        let dir = if path.is_empty() { self.local.clone() } else { self.local_file(path) };
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
        let Some(dir) = &self.local else { return Ok(local::Walk::default()) };
        local::walk(dir).map_err(|error| StorageError::of_io(operation, display(dir), error))
    }
}

impl fmt::Debug for StoreDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreDir").field("url", &self.url).field("local", &self.local).finish_non_exhaustive()
    }
}

impl fmt::Display for StoreDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// A location as a person writes it.
#[derive(Debug, PartialEq, Eq)]
enum Location {
    Local(PathBuf),
    Memory { prefix: Path },
}

impl Location {
    fn parse(text: &str) -> Result<Self, StorageError> {
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
            Some((scheme, _)) => {
                bad(format!("this program can't open {scheme}://. It knows a plain path, file:/// and memory:///"))
            }
        }
    }
}

fn display(path: &FsPath) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::block_on;

    #[test]
    fn locations_are_told_apart() {
        assert_eq!(Location::parse("/a b/c").unwrap(), Location::Local("/a b/c".into()));
        assert_eq!(Location::parse("file:///a%20b/c").unwrap(), Location::Local("/a b/c".into()));
        assert_eq!(Location::parse("memory:///x").unwrap(), Location::Memory { prefix: Path::from("x") });
        assert_eq!(Location::parse("memory:///").unwrap(), Location::Memory { prefix: Path::ROOT });
        for bad in ["", "  ", "s3://bucket/x", "file://relative/x", "memory://a//b"] {
            let error = Location::parse(bad).unwrap_err();
            assert!(matches!(error.problem(), Problem::BadLocation { .. }), "{bad}: {error}");
        }
    }

    #[test]
    fn a_path_out_of_a_file_never_leaves_the_directory() {
        let dir = StoreDir::create("memory:///job").unwrap();
        for path in ["../other/x", "chk-1/../../x", "a//b", "x#1", "chk-1/\u{1}"] {
            let error = block_on(dir.read("read", path, 10)).unwrap_err();
            assert!(matches!(error.problem(), Problem::Corrupt { .. }), "{path}: {error}");
        }
    }

    #[test]
    fn a_file_in_the_way_and_a_missing_directory_are_named() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        std::fs::write(&file, b"x").unwrap();
        for location in [file.display().to_string(), file.join("below").display().to_string()] {
            let error = StoreDir::create(&location).unwrap_err();
            assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
        }
        let gone = root.path().join("gone");
        assert!(StoreDir::open(gone.to_str().unwrap()).unwrap_err().is_not_there());
    }

    #[test]
    fn parents_and_children_are_the_same_directories_in_every_store() {
        let root = tempfile::tempdir().unwrap();
        for base in [StoreDir::create("memory:///base").unwrap(), StoreDir::create(root.path().to_str().unwrap()).unwrap()] {
            let job = base.child("a%2Fb");
            let payload = PutPayload::from_static(b"hello");
            block_on(job.put_new("write", "chk-1/x", payload.clone())).unwrap();
            assert!(matches!(block_on(job.put_new("write", "chk-1/x", payload)).unwrap(), Create::Exists));
            let (parent, name) = job.child("chk-1").split_parent().unwrap();
            assert_eq!(name, "chk-1");
            assert_eq!(block_on(parent.read("read", "chk-1/x", 5)).unwrap().unwrap(), "hello");
            assert!(block_on(parent.read("read", "chk-1/x", 4)).is_err());
            let listed = block_on(base.list("list")).unwrap();
            assert_eq!(listed, [Object { path: "a%2Fb/chk-1/x".into(), size_bytes: 5 }]);
            assert_eq!(job.below(&base).as_deref(), Some("a%2Fb"));
            assert_eq!(block_on(job.read_range("read", "chk-1/x", 3..9)).unwrap(), (Bytes::from("lo"), 5));
            assert_eq!(block_on(job.read_range("read", "chk-1/x", 5..9)).unwrap(), (Bytes::new(), 5));
            assert!(block_on(job.read_range("read", "chk-1/y", 5..9)).unwrap_err().is_not_there());
        }
    }
}
