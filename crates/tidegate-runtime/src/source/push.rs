//! A source whose user code runs on a thread of its own and pushes records when it likes.
//!
//! Two locks, never taken in the other order: the *emission lock* of the source, and the snapshot fence
//! ([`crate::operators::SnapshotFence`]). What is collected and changed under the emission lock is inside or outside
//! of a snapshot as a whole.
//!
//! Room is awaited when the emission lock is *taken*. Under it records are staged, and published when it is let go;
//! beyond `max_staged` the staged part is published although the lock is held (no cut can fall meanwhile) and
//! `collect` waits for room. The task only ever *tries* the lock: if it is held, a flag is left. The next `lock`
//! lets the snapshot go first, and letting go with the flag up wakes the task. So a producer that waits
//! for room under the lock puts a snapshot off, and never deadlocks with it: the task goes on taking records. If the
//! snapshot is given up meanwhile the flag goes down again.

mod split;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

use parking_lot::{Condvar, Mutex};
use tidegate_types::codec::Record;
use tidegate_types::{CheckpointId, EventTime, SubtaskIndex};

use crate::chain::OutBatch;
use crate::driver::threads::panic_text;
use crate::error::{BoxError, chain_of};
use crate::operators::SnapshotSources;
use crate::signal::TaskSignal;

use super::{Poll, PollContext, ReaderContext, Source, SplitEnumerator, SplitReader};

use split::Instances;
pub use split::PushSplit;

/// Published records that may wait for the task before a producer waits.
const QUEUE_RECORDS: usize = 1024;

/// The job doesn't want records any more: user code should return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the source was stopped")]
pub struct Stopped;

type Run<T> = Arc<dyn Fn(&SourceContext<T>) -> Result<(), BoxError> + Send + Sync>;

/// Runs user code that pushes records.
pub struct PushSource<T> {
    run: Run<T>,
    instances: u32,
    /// `None`: as the job's settings say.
    max_staged: Option<usize>,
}

impl<T: Record> PushSource<T> {
    /// Calls `run` once, on a thread of its own; the stream ends when it returns.
    pub fn new(run: impl Fn(&SourceContext<T>) -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        Self {
            run: Arc::new(run),
            instances: 1,
            max_staged: None,
        }
    }

    /// Calls `run` so many times at once, spread over the source's subtasks.
    #[must_use]
    pub fn instances(self, instances: u32) -> Self {
        Self {
            instances: instances.max(1),
            ..self
        }
    }

    /// Records staged under the lock before they are published although it is held, whatever
    /// `source.max-staged-records` says.
    #[must_use]
    pub fn max_staged(self, records: usize) -> Self {
        Self {
            max_staged: Some(records.max(1)),
            ..self
        }
    }
}

impl<T: Record> Source for PushSource<T> {
    type Out = T;
    type Split = PushSplit<T>;
    type Enumeration = u32;

    fn enumerator(
        &self,
        restored: Option<u32>,
    ) -> Result<Box<dyn SplitEnumerator<PushSplit<T>, u32>>, BoxError> {
        Ok(Box::new(Instances {
            next: restored.unwrap_or(0),
            count: self.instances,
        }))
    }

    fn reader(&self, cx: ReaderContext) -> Result<Box<dyn SplitReader<T, PushSplit<T>>>, BoxError> {
        Ok(Box::new(PushReader {
            run: self.run.clone(),
            max_staged: self.max_staged.unwrap_or(cx.max_staged_records),
            signal: cx.signal,
            instances: Vec::new(),
        }))
    }
}

struct Held {
    /// Who holds the emission lock, and how often.
    owner: Option<(Owner, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Producer(ThreadId),
    Task,
}

struct Queue<T> {
    held: Held,
    staged: Vec<(T, Option<EventTime>)>,
    published: VecDeque<(T, Option<EventTime>)>,
    /// The user code returned.
    ended: Option<Result<(), String>>,
}

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    changed: Condvar,
    /// The task wants to cut and found the lock held.
    wants_cut: AtomicBool,
    stopped: AtomicBool,
    max_staged: usize,
    signal: Arc<TaskSignal>,
    sources: SnapshotSources,
    instance: u32,
}

impl<T> Shared<T> {
    fn publish(&self, queue: &mut Queue<T>) {
        if !queue.staged.is_empty() {
            let staged = std::mem::take(&mut queue.staged);
            queue.published.extend(staged);
            self.signal.wake();
        }
    }

    fn lock(&self) -> Result<(), Stopped> {
        let me = Owner::Producer(std::thread::current().id());
        let mut queue = self.queue.lock();
        loop {
            let has_room = queue.published.len() < QUEUE_RECORDS;
            match &mut queue.held.owner {
                Some((owner, depth)) if *owner == me => {
                    *depth += 1;
                    return Ok(());
                }
                _ if self.stopped.load(Ordering::Acquire) => return Err(Stopped),
                None if has_room && !self.wants_cut.load(Ordering::Acquire) => {
                    queue.held.owner = Some((me, 1));
                    return Ok(());
                }
                _ => self.changed.wait(&mut queue),
            }
        }
    }

    fn unlock(&self) {
        let mut queue = self.queue.lock();
        let me = Owner::Producer(std::thread::current().id());
        let Some((owner, depth)) = &mut queue.held.owner else {
            return;
        };
        debug_assert_eq!(*owner, me, "only the holder lets go");
        *depth -= 1;
        if *depth == 0 {
            queue.held.owner = None;
            self.publish(&mut queue);
            self.changed.notify_all();
            if self.wants_cut.load(Ordering::Acquire) {
                self.signal.interrupt();
            }
        }
    }

    /// One record, with the lock held by this thread.
    fn stage(&self, record: T, time: Option<EventTime>) -> Result<(), Stopped> {
        let mut queue = self.queue.lock();
        queue.staged.push((record, time));
        if queue.staged.len() >= self.max_staged {
            self.publish(&mut queue);
            while queue.published.len() >= QUEUE_RECORDS {
                if self.stopped.load(Ordering::Acquire) {
                    return Err(Stopped);
                }
                self.changed.wait(&mut queue);
            }
        }
        Ok(())
    }

    /// The task's try: true if it holds the lock now.
    fn try_hold(&self) -> bool {
        let mut queue = self.queue.lock();
        match queue.held.owner {
            None | Some((Owner::Task, _)) => {
                queue.held.owner = Some((Owner::Task, 1));
                true
            }
            Some((Owner::Producer(_), _)) => {
                self.wants_cut.store(true, Ordering::Release);
                false
            }
        }
    }

    /// The user code returned. A guard that it forgot holds nothing up.
    fn end(&self, ended: Result<(), String>) {
        let mut queue = self.queue.lock();
        queue.held.owner = queue.held.owner.filter(|(owner, _)| *owner == Owner::Task);
        self.publish(&mut queue);
        queue.ended = Some(ended);
        self.signal.interrupt();
    }

    /// Whoever waits for the lock or for room is told to return. Under the queue's mutex: else somebody who has looked
    /// at the flag and doesn't wait yet would miss the notice.
    fn stop(&self) {
        let _queue = self.queue.lock();
        self.stopped.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    fn let_go(&self) {
        let mut queue = self.queue.lock();
        if matches!(queue.held.owner, Some((Owner::Task, _))) {
            queue.held.owner = None;
        }
        self.wants_cut.store(false, Ordering::Release);
        self.changed.notify_all();
    }
}

/// What user code pushes with.
pub struct SourceContext<T> {
    shared: Arc<Shared<T>>,
}

impl<T: Record> SourceContext<T> {
    /// Which instance of the user code this is.
    pub fn instance(&self) -> u32 {
        self.shared.instance
    }

    /// Emits one record. Waits while there is no room.
    ///
    /// # Errors
    /// [`Stopped`]: return.
    pub fn collect(&self, record: T) -> Result<(), Stopped> {
        self.emit(record, None)
    }

    /// Emits one record with its event time, in milliseconds since the epoch.
    ///
    /// # Errors
    /// [`Stopped`]: return.
    pub fn collect_with_timestamp(&self, record: T, time: EventTime) -> Result<(), Stopped> {
        self.emit(record, Some(time))
    }

    fn emit(&self, record: T, time: Option<EventTime>) -> Result<(), Stopped> {
        self.shared.lock()?;
        let staged = self.shared.stage(record, time);
        self.shared.unlock();
        staged
    }

    /// Holds the emission lock: what is collected, and what of registered snapshot sources is changed, until the
    /// guard is dropped is inside or outside of a snapshot as a whole. Reentrant within a thread.
    ///
    /// # Errors
    /// [`Stopped`]: return.
    pub fn checkpoint_lock(&self) -> Result<CheckpointGuard<'_, T>, Stopped> {
        self.shared.lock()?;
        Ok(CheckpointGuard { cx: self })
    }

    /// Whether the job doesn't want records any more.
    pub fn is_stopped(&self) -> bool {
        self.shared.stopped.load(Ordering::Acquire)
    }

    /// Where the user code registers its position and whatever else must be in the cut. A source that registers
    /// after a restore gets its state then.
    pub fn snapshot_sources(&self) -> &SnapshotSources {
        &self.shared.sources
    }
}

/// Holds the emission lock.
pub struct CheckpointGuard<'a, T: Record> {
    cx: &'a SourceContext<T>,
}

impl<T: Record> CheckpointGuard<'_, T> {
    /// Emits one record.
    ///
    /// # Errors
    /// [`Stopped`]: return.
    pub fn collect(&self, record: T) -> Result<(), Stopped> {
        self.cx.shared.stage(record, None)
    }

    /// Emits one record with its event time.
    ///
    /// # Errors
    /// [`Stopped`]: return.
    pub fn collect_with_timestamp(&self, record: T, time: EventTime) -> Result<(), Stopped> {
        self.cx.shared.stage(record, Some(time))
    }
}

impl<T: Record> Drop for CheckpointGuard<'_, T> {
    fn drop(&mut self) {
        self.cx.shared.unlock();
    }
}

struct PushReader<T> {
    run: Run<T>,
    max_staged: usize,
    signal: Arc<TaskSignal>,
    instances: Vec<Arc<Shared<T>>>,
}

impl<T: Record> SplitReader<T, PushSplit<T>> for PushReader<T> {
    fn add_split(&mut self, split: PushSplit<T>) -> Result<(), BoxError> {
        let sources = SnapshotSources::default();
        sources.restore(
            split
                .named
                .into_iter()
                .flat_map(|(name, values)| values.into_iter().map(move |(s, b)| (name.clone(), s, b))),
            |_| true,
        );
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue {
                held: Held { owner: None },
                staged: Vec::new(),
                published: split.untaken.into(),
                ended: None,
            }),
            changed: Condvar::new(),
            wants_cut: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            max_staged: self.max_staged,
            signal: self.signal.clone(),
            sources,
            instance: split.instance,
        });
        let (run, theirs) = (self.run.clone(), shared.clone());
        std::thread::Builder::new()
            .name(format!("push-{}", split.instance))
            .spawn(move || {
                let cx = SourceContext {
                    shared: theirs.clone(),
                };
                let returned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&cx)));
                let ended = match returned {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(e)) if e.downcast_ref::<Stopped>().is_some() => Ok(()),
                    Ok(Err(e)) => Err(chain_of(&*e)),
                    Err(panic) => Err(format!("user code panicked: {}", panic_text(&*panic))),
                };
                theirs.end(ended);
            })?;
        self.instances.push(shared);
        Ok(())
    }

    fn poll(&mut self, out: &mut OutBatch<T>, cx: &mut PollContext<'_>) -> Result<Poll, BoxError> {
        let mut left = false;
        let mut at = 0;
        while at < self.instances.len() {
            let shared = self.instances[at].clone();
            let mut queue = shared.queue.lock();
            while !out.is_full() && !(cx.urgent)() {
                let Some((record, time)) = queue.published.pop_front() else {
                    break;
                };
                out.push(record, time);
            }
            shared.changed.notify_all();
            left |= !queue.published.is_empty();
            match (
                &queue.ended,
                queue.published.is_empty() && queue.staged.is_empty(),
            ) {
                (Some(Err(e)), _) => return Err(e.clone().into()),
                (Some(Ok(())), true) => {
                    drop(queue);
                    self.instances.remove(at);
                }
                (Some(Ok(())), false) | (None, _) => at += 1,
            }
        }
        Ok(if left {
            Poll::More
        } else if self.instances.is_empty() {
            Poll::SplitsDone
        } else {
            Poll::Wait(None)
        })
    }

    fn hold_for_cut(&mut self) -> bool {
        if self.instances.iter().all(|i| i.try_hold()) {
            return true;
        }
        // One producer is in the middle: the others must not stand still for it.
        for instance in &self.instances {
            let mut queue = instance.queue.lock();
            if matches!(queue.held.owner, Some((Owner::Task, _))) {
                queue.held.owner = None;
                instance.changed.notify_all();
            }
        }
        false
    }

    fn release_after_cut(&mut self) {
        self.instances.iter().for_each(|i| i.let_go());
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Vec<PushSplit<T>>, BoxError> {
        let take = |shared: &Arc<Shared<T>>| {
            let fence = shared.sources.fence();
            let _held = fence.hold();
            let named = shared.sources.snapshot()?;
            let queue = shared.queue.lock();
            debug_assert!(
                matches!(queue.held.owner, Some((Owner::Task, _))) || queue.held.owner.is_none(),
                "a cut falls with the emission lock held by the task"
            );
            Ok(PushSplit {
                instance: shared.instance,
                untaken: queue.published.iter().cloned().collect(),
                named: named
                    .into_iter()
                    .map(|(n, b)| (n, vec![(SubtaskIndex(shared.instance), b)]))
                    .collect(),
            })
        };
        self.instances.iter().map(take).collect()
    }

    fn stop(&mut self) -> bool {
        self.instances.iter().for_each(|i| i.stop());
        self.instances.is_empty()
    }

    fn close(&mut self) {
        self.stop();
    }
}

impl<T> Drop for PushReader<T> {
    fn drop(&mut self) {
        self.instances.iter().for_each(|i| i.stop());
    }
}
