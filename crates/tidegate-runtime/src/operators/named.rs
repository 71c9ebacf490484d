//! Named snapshot sources: what user code keeps outside of declared states and wants in the cut all the same.
//!
//! A source is `(name, snapshot, restore)` and belongs to an operator's subtask: its bytes are taken in the cut,
//! under the *snapshot fence*. Other threads of the user hold the fence while they change what belongs together;
//! a cut waits for them, so it sees all of a change or nothing of it. The fence is reentrant, and must not be held
//! across a queue, a poll or I/O.
//!
//! The registry itself is locked for a moment at a time and never around user code, which may look things up in it
//! and register more sources while its own state comes back. While a cut is being taken the set of sources is fixed:
//! who would register from inside it gets an error, as that source might be in the cut or not.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, ReentrantMutex, ReentrantMutexGuard};
use tidegate_types::SubtaskIndex;

use crate::error::BoxError;

/// Takes a source's bytes.
pub type TakeSnapshot = Box<dyn FnMut() -> Result<Vec<u8>, BoxError> + Send>;

/// A source that can't be registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The name is taken.
    #[error("a snapshot source named `{0}` is registered already; names are unique within an operator")]
    Duplicate(String),
    /// A source's own snapshot registers another one.
    #[error(
        "snapshot source `{0}` can't be registered while a snapshot of this operator is being taken: it would not be in \
         it. Register it before, or while state is restored"
    )]
    DuringSnapshot(String),
    /// Its restored bytes were refused.
    #[error("snapshot source `{name}` could not take its restored state: {error}")]
    Restore {
        /// The source.
        name: String,
        /// Why.
        error: BoxError,
    },
}

/// Held around one record's changes by user threads, and around the cut by the task.
#[derive(Debug, Clone, Default)]
pub struct SnapshotFence {
    lock: Arc<ReentrantMutex<()>>,
}

impl SnapshotFence {
    /// Keeps cuts out until the guard is dropped. Reentrant within a thread.
    pub fn hold(&self) -> ReentrantMutexGuard<'_, ()> {
        self.lock.lock()
    }
}

/// A source's code, apart from the registry: locked by whoever takes the cut.
type Taker = Arc<Mutex<TakeSnapshot>>;

#[derive(Default)]
struct Registry {
    /// `None`: its name is taken, and its state is just coming back.
    sources: BTreeMap<String, Option<Taker>>,
    /// A cut is being taken, by the thread that holds the fence.
    cutting: bool,
    restored: BTreeMap<String, Vec<(SubtaskIndex, Bytes)>>,
    /// What this subtask stores again of that, for sources that haven't registered yet.
    keeps: BTreeMap<String, Vec<Bytes>>,
}

/// The named snapshot sources of one operator subtask. Cheap to clone; sources may be registered at any time.
#[derive(Clone, Default)]
pub struct SnapshotSources {
    registry: Arc<Mutex<Registry>>,
    fence: SnapshotFence,
}

impl std::fmt::Debug for SnapshotSources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.registry.lock().sources.keys())
            .finish()
    }
}

impl SnapshotSources {
    /// Registers a source. If a restored snapshot has something under its name, it gets that now, from all old
    /// subtasks.
    ///
    /// # Errors
    /// When the name is taken, or the source refuses what it gets.
    pub fn register(
        &self,
        name: impl Into<String>,
        snapshot: impl FnMut() -> Result<Vec<u8>, BoxError> + Send + 'static,
        mut restore: impl FnMut(&[(SubtaskIndex, Bytes)]) -> Result<(), BoxError> + Send + 'static,
    ) -> Result<(), RegisterError> {
        let name = name.into();
        // Until the source is in its place, no cut falls.
        let _held = self.fence.hold();
        let restored = {
            let mut registry = self.registry.lock();
            if registry.cutting {
                return Err(RegisterError::DuringSnapshot(name));
            }
            if registry.sources.contains_key(&name) {
                return Err(RegisterError::Duplicate(name));
            }
            registry.sources.insert(name.clone(), None);
            registry.restored.get(&name).cloned()
        };
        let given = restored.map_or(Ok(()), |restored| restore(&restored));
        let mut registry = self.registry.lock();
        match given {
            Ok(()) => {
                let snapshot: TakeSnapshot = Box::new(snapshot);
                registry
                    .sources
                    .insert(name, Some(Arc::new(Mutex::new(snapshot))));
                Ok(())
            }
            Err(error) => {
                registry.sources.remove(&name);
                Err(RegisterError::Restore { name, error })
            }
        }
    }

    /// Registers a source under the first of `prefix-0`, `prefix-1`, … that isn't in use. Says which.
    ///
    /// # Errors
    /// When the source refuses what it gets.
    pub fn register_generated(
        &self,
        prefix: &str,
        snapshot: impl FnMut() -> Result<Vec<u8>, BoxError> + Send + 'static,
        restore: impl FnMut(&[(SubtaskIndex, Bytes)]) -> Result<(), BoxError> + Send + 'static,
    ) -> Result<String, RegisterError> {
        // The fence is reentrant: nobody can take the name between the look and the registration.
        let _held = self.fence.hold();
        let name = {
            let registry = self.registry.lock();
            (0u64..)
                .map(|n| format!("{prefix}-{n}"))
                .find(|n| !registry.sources.contains_key(n))
        };
        let name = name.expect("there are more numbers than sources");
        self.register(name.clone(), snapshot, restore)?;
        Ok(name)
    }

    /// What a restored snapshot holds under a name, from all old subtasks, registered or not.
    pub fn restored(&self, name: &str) -> Vec<(SubtaskIndex, Bytes)> {
        self.registry
            .lock()
            .restored
            .get(name)
            .cloned()
            .unwrap_or_default()
    }

    /// The fence that cuts take.
    pub fn fence(&self) -> SnapshotFence {
        self.fence.clone()
    }

    /// Keeps what a snapshot holds for sources that register later. Every new subtask gets what all old ones had;
    /// `keeps` says of which of them this one is the successor, that stores it again while nobody has registered.
    pub(crate) fn restore(
        &self,
        sections: impl Iterator<Item = (String, SubtaskIndex, Bytes)>,
        keeps: impl Fn(SubtaskIndex) -> bool,
    ) {
        let mut registry = self.registry.lock();
        for (name, subtask, bytes) in sections {
            if keeps(subtask) {
                registry
                    .keeps
                    .entry(name.clone())
                    .or_default()
                    .push(bytes.clone());
            }
            registry.restored.entry(name).or_default().push((subtask, bytes));
        }
    }

    /// Takes every source's bytes. The caller holds the fence. What was restored under a name that nobody registered
    /// is kept: it is somebody's state who hasn't come yet.
    pub(crate) fn snapshot(&self) -> Result<Vec<(String, Bytes)>, BoxError> {
        let cut = Cutting::begin(&self.registry);
        let mut taken = Vec::new();
        let sources: Vec<(String, Taker)> = {
            let registry = self.registry.lock();
            let missing = |name: &String| !matches!(registry.sources.get(name), Some(Some(_)));
            for (name, kept) in registry.keeps.iter().filter(|(name, _)| missing(name)) {
                taken.extend(kept.iter().map(|bytes| (name.clone(), bytes.clone())));
            }
            let there = registry.sources.iter();
            there
                .filter_map(|(name, taker)| Some((name.clone(), taker.clone()?)))
                .collect()
        };
        for (name, taker) in sources {
            let bytes = (taker.lock())().map_err(|e| format!("snapshot source `{name}`: {e}"))?;
            taken.push((name, Bytes::from(bytes)));
        }
        drop(cut);
        Ok(taken)
    }
}

/// Keeps the set of sources as it is; ends with whatever a source's code does, a panic too.
struct Cutting<'a>(&'a Mutex<Registry>);

impl<'a> Cutting<'a> {
    fn begin(registry: &'a Mutex<Registry>) -> Self {
        registry.lock().cutting = true;
        Self(registry)
    }
}

impl Drop for Cutting<'_> {
    fn drop(&mut self) {
        self.0.lock().cutting = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Result<Vec<u8>, BoxError> {
        Ok(Vec::new())
    }

    #[test]
    fn names_are_unique_and_generated_ones_skip_those_in_use() {
        let sources = SnapshotSources::default();
        sources
            .register("watermark-0", nothing, |_| Ok(()))
            .expect("free");
        let again = sources.register("watermark-0", nothing, |_| Ok(()));
        assert!(matches!(again, Err(RegisterError::Duplicate(name)) if name == "watermark-0"));
        assert_eq!(
            sources
                .register_generated("watermark", nothing, |_| Ok(()))
                .expect("free"),
            "watermark-1"
        );
    }

    #[test]
    fn a_late_source_gets_its_state_when_it_registers() {
        let sources = SnapshotSources::default();
        let old = |s: u32, b: &'static [u8]| ("late".to_owned(), SubtaskIndex(s), Bytes::from_static(b));
        sources.restore([old(0, b"a"), old(1, b"b")].into_iter(), |s| s.0 == 1);
        let kept = sources.snapshot().expect("snapshots");
        assert_eq!(
            kept,
            [("late".to_owned(), Bytes::from("b"))],
            "a checkpoint in between holds it"
        );
        let (tx, rx) = std::sync::mpsc::channel();
        sources
            .register("late", nothing, move |values| {
                tx.send(values.to_vec()).map_err(|e| e.to_string())?;
                Ok(())
            })
            .expect("free");
        let values = rx.try_recv().expect("given at once");
        assert_eq!(
            values,
            vec![
                (SubtaskIndex(0), Bytes::from("a")),
                (SubtaskIndex(1), Bytes::from("b"))
            ]
        );
    }

    /// Runs on a thread of its own: what deadlocks fails.
    fn in_time<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
        let (told, done) = std::sync::mpsc::channel();
        std::thread::spawn(move || told.send(f()));
        let limit = std::time::Duration::from_secs(120);
        done.recv_timeout(limit).expect("user code may use the registry")
    }

    #[test]
    fn a_source_whose_state_comes_back_may_look_around_and_register_others() {
        let taken = in_time(|| {
            let sources = SnapshotSources::default();
            let old = |n: &str, b: &'static [u8]| (n.to_owned(), SubtaskIndex(0), Bytes::from_static(b));
            sources.restore([old("index", b"part"), old("part", b"x")].into_iter(), |_| true);
            let inner = sources.clone();
            sources
                .register("index", nothing, move |_| {
                    assert_eq!(inner.restored("part").len(), 1);
                    let again = inner.register("index", nothing, |_| Ok(()));
                    assert!(matches!(again, Err(RegisterError::Duplicate(_))));
                    Ok(inner.register("part", || Ok(b"y".to_vec()), |_| Ok(()))?)
                })
                .expect("free");
            sources.snapshot().expect("snapshots")
        });
        let y = Bytes::from_static(b"y");
        assert_eq!(
            taken,
            [("index".to_owned(), Bytes::new()), ("part".to_owned(), y)]
        );
    }

    #[test]
    fn a_refused_state_leaves_its_name_free_and_is_kept() {
        let sources = SnapshotSources::default();
        let old = ("late".to_owned(), SubtaskIndex(0), Bytes::from_static(b"a"));
        sources.restore([old].into_iter(), |_| true);
        let refused = sources.register("late", nothing, |_| Err("no".into()));
        assert!(matches!(refused, Err(RegisterError::Restore { .. })));
        assert_eq!(
            sources.snapshot().expect("snapshots")[0].1,
            Bytes::from_static(b"a")
        );
        sources.register("late", nothing, |_| Ok(())).expect("free");
    }

    #[test]
    fn a_source_that_registers_another_while_it_is_cut_gets_an_error() {
        let (refused, taken) = in_time(|| {
            let sources = SnapshotSources::default();
            let (inner, refused) = (sources.clone(), Arc::new(Mutex::new(None)));
            let into = refused.clone();
            let snapshot = move || {
                assert!(inner.restored("late").is_empty());
                *into.lock() = Some(inner.register("late", nothing, |_| Ok(())));
                nothing()
            };
            sources.register("early", snapshot, |_| Ok(())).expect("free");
            let taken = sources.snapshot().expect("snapshots");
            sources
                .register("later", nothing, |_| Ok(()))
                .expect("the cut is over");
            let refused = refused.lock().take();
            (refused, taken)
        });
        let error = refused.expect("it was called").expect_err("a cut is being taken");
        assert!(
            matches!(&error, RegisterError::DuringSnapshot(name) if name == "late"),
            "{error}"
        );
        assert_eq!(taken.len(), 1);
    }

    #[test]
    fn a_cut_waits_for_who_holds_the_fence() {
        let sources = SnapshotSources::default();
        let pair = Arc::new(Mutex::new((0u64, 0u64)));
        let of = pair.clone();
        sources
            .register(
                "pair",
                move || {
                    let (a, b) = *of.lock();
                    Ok([a.to_le_bytes(), b.to_le_bytes()].concat())
                },
                |_| Ok(()),
            )
            .expect("free");
        let fence = sources.fence();
        let writer = std::thread::spawn(move || {
            for n in 0..20_000u64 {
                let _held = fence.hold();
                pair.lock().0 = n;
                pair.lock().1 = n;
            }
        });
        for _ in 0..200 {
            let _held = sources.fence.hold();
            let taken = sources.snapshot().expect("snapshots");
            let (a, b) = taken[0].1.split_at(8);
            assert_eq!(a, b, "no snapshot holds half a pair");
        }
        writer.join().expect("writes");
    }
}
