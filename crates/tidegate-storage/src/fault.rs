//! A store that fails on purpose, the same way every time: for the simulator and the tests of whatever stores.
//!
//! [`FaultStore`] wraps any store and asks a plan about each operation before it runs: let it be, delay it by some
//! polls, fail it before or after it took effect, leave a torn staging file, or crash, after which nothing works. A
//! plan is a closure, so a seed can draw the faults; [`Script`] is the plan for "the second write of
//! `chk-3/_metadata` fails". Deterministic: no clock, no thread, no randomness of its own. One operation is one
//! step, so a scheduler that polls one future at a time chooses the interleaving.
//!
//! Does not own: local system calls that bypass the store (directory syncs, walks).

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpKind {
    /// Writes an object at once.
    Put,
    /// Begins a write in parts; nothing is visible yet.
    BeginUpload,
    /// Writes a part.
    PutPart,
    /// Makes a write in parts visible.
    CompleteUpload,
    /// Reads an object, or a range, or only its size.
    Get,
    /// Lists.
    List,
    /// Deletes one object.
    Delete,
    /// Copies or renames an object; the path is the target's.
    Copy,
}

impl OpKind {
    /// Whether it changes what others see.
    pub fn is_write(self) -> bool {
        matches!(self, Self::Put | Self::CompleteUpload | Self::Delete | Self::Copy)
    }
}

/// One operation, as a plan sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    /// How many came before it in this store.
    pub index: u64,
    /// How many writes came before it.
    pub writes_before: u64,
    /// What it does.
    pub kind: OpKind,
    /// On which object, or under which prefix.
    pub path: String,
    /// Bytes it writes.
    pub bytes: u64,
}

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// A passing fault: a timeout, a lost connection.
    Unavailable,
    /// No space is left.
    DiskFull,
    /// The caller may not do this.
    NotPermitted,
}

/// What happens to an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It is pending for some polls (it wakes itself), then this happens.
    Delay {
        /// Polls before it goes on.
        polls: u32,
        /// What happens then.
        then: Box<Fault>,
    },
    /// It fails without an effect.
    Before(Failure),
    /// It takes effect and reports a failure all the same.
    After(Failure),
    /// Its writer dies half-way: of a put to a local store a staging file with this many bytes stays; nothing works
    /// afterwards.
    Torn {
        /// Bytes that had been written.
        bytes: usize,
    },
    /// The process dies before it: it and everything later fails, without an effect.
    Crash,
    /// The process dies right after its effect.
    CrashAfter,
}

impl Fault {
    /// Nothing, after some polls.
    pub fn delay(polls: u32) -> Self {
        Self::Delay {
            polls,
            then: Box::new(Self::None),
        }
    }
}

type Plan = Box<dyn FnMut(&Op) -> Fault + Send>;

struct State {
    plan: Plan,
    ops: u64,
    writes: u64,
    crashed: bool,
}

/// A store that does to each operation what its plan says. Clones share the plan and the counts.
#[derive(Clone)]
pub struct FaultStore {
    inner: Arc<dyn ObjectStore>,
    local: Option<PathBuf>,
    state: Arc<Mutex<State>>,
}

impl FaultStore {
    /// Wraps a store. For several processes on one store wrap it once for each.
    pub fn new(inner: Arc<dyn ObjectStore>, plan: impl FnMut(&Op) -> Fault + Send + 'static) -> Self {
        let state = State {
            plan: Box::new(plan),
            ops: 0,
            writes: 0,
            crashed: false,
        };
        Self {
            inner,
            local: None,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The local directory that the wrapped store's root is, so that [`Fault::Torn`] can leave a staging file there.
    #[must_use]
    pub fn with_local(mut self, root: impl Into<PathBuf>) -> Self {
        self.local = Some(root.into());
        self
    }

    /// Replaces the plan; the counts go on.
    pub fn set_plan(&self, plan: impl FnMut(&Op) -> Fault + Send + 'static) {
        self.with(|state| state.plan = Box::new(plan));
    }

    /// Operations asked for so far.
    pub fn ops(&self) -> u64 {
        self.with(|state| state.ops)
    }

    /// Writes among them.
    pub fn writes(&self) -> u64 {
        self.with(|state| state.writes)
    }

    /// Whether a crash has happened.
    pub fn is_crashed(&self) -> bool {
        self.with(|state| state.crashed)
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        // A plan that panicked leaves counts that are still counts.
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts an operation and asks the plan.
    fn ask(&self, kind: OpKind, path: &Path, bytes: u64) -> Fault {
        self.with(|state| {
            let op = Op {
                index: state.ops,
                writes_before: state.writes,
                kind,
                path: path.to_string(),
                bytes,
            };
            state.ops += 1;
            state.writes += u64::from(kind.is_write());
            if state.crashed {
                Fault::Crash
            } else {
                (state.plan)(&op)
            }
        })
    }

    fn crash(&self) {
        self.with(|state| state.crashed = true);
    }

    /// Lets an operation run as the plan says.
    async fn run<T>(
        &self,
        kind: OpKind,
        path: &Path,
        bytes: u64,
        operation: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let fault = self.ask(kind, path, bytes);
        self.apply(fault, operation).await
    }

    async fn apply<T>(&self, mut fault: Fault, operation: impl Future<Output = Result<T>>) -> Result<T> {
        while let Fault::Delay { polls, then } = fault {
            pending(polls).await;
            // The process may have died meanwhile.
            fault = if self.is_crashed() { Fault::Crash } else { *then };
        }
        match fault {
            Fault::None | Fault::Delay { .. } => operation.await,
            Fault::Before(failure) => Err(error(failure)),
            Fault::After(failure) => operation.await.and(Err(error(failure))),
            Fault::Torn { .. } | Fault::Crash => {
                self.crash();
                Err(crashed())
            }
            Fault::CrashAfter => {
                let _ = operation.await;
                self.crash();
                Err(crashed())
            }
        }
    }

    /// What a writer that died left of a put.
    fn leave_staging(&self, path: &Path, payload: &PutPayload, bytes: usize) {
        let Some(root) = &self.local else { return };
        let file = root.join(format!("{path}#1"));
        let content: Vec<u8> = payload.iter().flatten().copied().take(bytes).collect();
        if let Some(parent) = file.parent() {
            // A test whose disk fails fails by what it then misses.
            let _ = std::fs::create_dir_all(parent);
        }
        let _ = std::fs::write(file, content);
    }
}

/// Pending for some polls.
async fn pending(polls: u32) {
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn error(failure: Failure) -> object_store::Error {
    let kind = match failure {
        Failure::Unavailable => io::ErrorKind::TimedOut,
        Failure::DiskFull => io::ErrorKind::StorageFull,
        Failure::NotPermitted => io::ErrorKind::PermissionDenied,
    };
    object_store::Error::Generic {
        store: "FaultStore",
        source: Box::new(io::Error::from(kind)),
    }
}

fn crashed() -> object_store::Error {
    object_store::Error::Generic {
        store: "FaultStore",
        source: "the process has crashed".into(),
    }
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultStore")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultStore({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FaultStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let fault = self.ask(OpKind::Put, location, payload.content_length() as u64);
        if let Fault::Torn { bytes } = fault {
            self.leave_staging(location, &payload, bytes);
        }
        self.apply(fault, self.inner.put_opts(location, payload, opts))
            .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let begin = self.inner.put_multipart_opts(location, opts);
        let inner = self.run(OpKind::BeginUpload, location, 0, begin).await?;
        Ok(Box::new(FaultUpload {
            inner,
            store: self.clone(),
            path: location.clone(),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.run(OpKind::Get, location, 0, self.inner.get_opts(location, options))
            .await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        locations
            .then(move |location| {
                let store = store.clone();
                async move {
                    let location = location?;
                    store
                        .run(OpKind::Delete, &location, 0, store.inner.delete(&location))
                        .await?;
                    Ok(location)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned());
        let listing = async move {
            let listed = async { store.inner.list(prefix.as_ref()).try_collect::<Vec<_>>().await };
            let listed = store
                .run(OpKind::List, &prefix.clone().unwrap_or_default(), 0, listed)
                .await?;
            Ok::<_, object_store::Error>(stream::iter(listed).map(Ok))
        };
        listing.into_stream().try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let path = prefix.cloned().unwrap_or_default();
        self.run(OpKind::List, &path, 0, self.inner.list_with_delimiter(prefix))
            .await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.run(OpKind::Copy, to, 0, self.inner.copy_opts(from, to, options))
            .await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.run(OpKind::Copy, to, 0, self.inner.rename_opts(from, to, options))
            .await
    }
}

/// A write in parts to a [`FaultStore`].
#[derive(Debug)]
struct FaultUpload {
    inner: Box<dyn MultipartUpload>,
    store: FaultStore,
    path: Path,
}

#[async_trait]
impl MultipartUpload for FaultUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let fault = self
            .store
            .ask(OpKind::PutPart, &self.path, data.content_length() as u64);
        // The inner store takes a part's place in the file when it is handed the part.
        let (store, part) = (self.store.clone(), self.inner.put_part(data));
        async move { store.apply(fault, part).await }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (store, path) = (self.store.clone(), self.path.clone());
        store
            .run(OpKind::CompleteUpload, &path, 0, self.inner.complete())
            .await
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}

/// A plan made of rules: "the n-th operation of this kind on a path that contains this fails so".
#[derive(Debug, Clone, Default)]
pub struct Script {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    kind: OpKind,
    path: String,
    skip: u32,
    fault: Fault,
}

impl Script {
    /// No rule: nothing fails.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next operation of this kind whose path contains `path`, after `skip` such ones, meets `fault`. Once;
    /// a rule doesn't see what an earlier rule has taken.
    #[must_use]
    pub fn on(mut self, kind: OpKind, path: &str, skip: u32, fault: Fault) -> Self {
        self.rules.push(Rule {
            kind,
            path: path.to_owned(),
            skip,
            fault,
        });
        self
    }

    /// The plan.
    pub fn plan(mut self) -> impl FnMut(&Op) -> Fault + Send + 'static {
        move |op| {
            for at in 0..self.rules.len() {
                let rule = &mut self.rules[at];
                if rule.kind != op.kind || !op.path.contains(&rule.path) {
                    continue;
                }
                if rule.skip == 0 {
                    return self.rules.remove(at).fault;
                }
                rule.skip -= 1;
            }
            Fault::None
        }
    }
}

/// The plan of a process that dies at its n-th write, before or right after its effect.
pub fn crash_at_write(n: u64, after_effect: bool) -> impl FnMut(&Op) -> Fault + Send + 'static {
    move |op| match op.kind.is_write() && op.writes_before == n {
        true if after_effect => Fault::CrashAfter,
        true => Fault::Crash,
        false => Fault::None,
    }
}
