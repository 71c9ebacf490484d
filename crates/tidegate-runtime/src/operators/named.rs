//! Named snapshot sources: what user code keeps outside of declared states and wants in the cut all the same.
//!
//! A source is `(name, snapshot, restore)` and belongs to an operator's subtask: its bytes are taken in the cut,
//! under the *snapshot fence*. Other threads of the user hold the fence while they change what belongs together;
//! a cut waits for them, so it sees all of a change or nothing of it. The fence is reentrant, and must not be held
//! across a queue, a poll or I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, ReentrantMutex, ReentrantMutexGuard};
use tidegate_types::SubtaskIndex;

use crate::error::BoxError;

/// Takes a source's bytes.
pub type TakeSnapshot = Box<dyn FnMut() -> Result<Vec<u8>, BoxError> + Send>;

/// Gives a source back what every old subtask had.
pub type GiveBack = Box<dyn FnMut(&[(SubtaskIndex, Bytes)]) -> Result<(), BoxError> + Send>;

/// A source that can't be registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The name is taken.
    #[error("a snapshot source named `{0}` is registered already; names are unique within an operator")]
    Duplicate(String),
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

#[derive(Default)]
struct Registry {
    sources: BTreeMap<String, (TakeSnapshot, GiveBack)>,
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
        let _held = self.fence.hold();
        let mut registry = self.registry.lock();
        if registry.sources.contains_key(&name) {
            return Err(RegisterError::Duplicate(name));
        }
        if let Some(restored) = registry.restored.get(&name) {
            restore(restored).map_err(|error| RegisterError::Restore {
                name: name.clone(),
                error,
            })?;
        }
        registry
            .sources
            .insert(name, (Box::new(snapshot), Box::new(restore)));
        Ok(())
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
        let mut guard = self.registry.lock();
        let registry = &mut *guard;
        let mut taken = Vec::new();
        for (name, kept) in &registry.keeps {
            if !registry.sources.contains_key(name) {
                taken.extend(kept.iter().map(|bytes| (name.clone(), bytes.clone())));
            }
        }
        for (name, (snapshot, _)) in &mut registry.sources {
            let bytes = snapshot().map_err(|e| format!("snapshot source `{name}`: {e}"))?;
            taken.push((name.clone(), Bytes::from(bytes)));
        }
        Ok(taken)
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
