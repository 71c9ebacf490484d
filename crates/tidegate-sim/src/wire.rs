//! Ways of messages inside one process: every one is encoded when it is sent and decoded when it arrives.
//!
//! Owns: the lanes (messages of one task, and to one task, keep their order), and the queue of jobs that production
//! gives to its pool. Does not own: when something is delivered ([`crate::process`] offers it, the scheduler
//! chooses).

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_protocol::message::FromTask;
use tidegate_runtime::master::Spawner;
use tidegate_runtime::task::Outbox;
use tidegate_types::codec::canonical;
use tidegate_types::{AttemptNumber, SubtaskId};

/// The bytes of a message on its way.
pub type Encoded = Vec<u8>;

/// Encodes a message.
///
/// # Panics
/// If it can't be encoded, or comes back as another one: a bug of ours.
pub fn encode<M: Serialize + DeserializeOwned + PartialEq + Debug>(message: &M) -> Encoded {
    let mut bytes = Vec::new();
    canonical::encode_into(message, &mut bytes).expect("messages are plain data");
    let back: M = decode(&bytes);
    assert_eq!(back, *message, "a message comes back as it was sent");
    bytes
}

/// Decodes a message.
///
/// # Panics
/// If it can't be decoded: a bug of ours.
pub fn decode<M: DeserializeOwned>(bytes: &[u8]) -> M {
    canonical::decode_from(&mut &bytes[..]).expect("what was encoded is decoded")
}

/// What comes from a task.
#[derive(Debug)]
pub enum FromWire {
    /// A message.
    Message(Encoded),
    /// Its driver is gone; nothing follows.
    Gone,
}

/// Where a task's messages stand in line.
pub type Lane = (AttemptNumber, SubtaskId);

/// What the pool would run.
pub type PoolJob = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queues {
    from_tasks: BTreeMap<Lane, VecDeque<FromWire>>,
    jobs: Vec<PoolJob>,
}

/// What tasks and snapshot writers of one process put in from inside their steps. Clones share it.
#[derive(Clone, Default)]
pub struct Wires(Arc<Mutex<Queues>>);

impl Wires {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of a task's way to its master.
    pub fn outbox(&self, lane: Lane) -> Arc<dyn Outbox> {
        Arc::new(TaskOutbox {
            wires: self.clone(),
            lane,
        })
    }

    /// The task's driver is gone.
    pub fn gone(&self, lane: Lane) {
        self.queues()
            .from_tasks
            .entry(lane)
            .or_default()
            .push_back(FromWire::Gone);
    }

    /// Lanes in which something waits.
    pub fn lanes(&self) -> Vec<Lane> {
        self.queues().from_tasks.keys().copied().collect()
    }

    /// What is first in a lane.
    pub fn take(&self, lane: Lane) -> Option<FromWire> {
        let mut queues = self.queues();
        let queue = queues.from_tasks.get_mut(&lane)?;
        let first = queue.pop_front();
        if queue.is_empty() {
            queues.from_tasks.remove(&lane);
        }
        first
    }

    /// What tasks sent and nobody heard is lost, except for how they ended: their driver says that again.
    pub(crate) fn lose_unheard(&self) {
        for lane in self.queues().from_tasks.values_mut() {
            lane.retain(|said| match said {
                FromWire::Gone => true,
                FromWire::Message(bytes) => {
                    matches!(decode(bytes), FromTask::Finished { .. } | FromTask::Failed { .. })
                }
            });
        }
        self.queues().from_tasks.retain(|_, lane| !lane.is_empty());
    }

    /// How many jobs wait for the pool.
    pub fn jobs(&self) -> usize {
        self.queues().jobs.len()
    }

    /// Takes one of them.
    pub fn take_job(&self, index: usize) -> Option<PoolJob> {
        let jobs = &mut self.queues().jobs;
        (index < jobs.len()).then(|| jobs.remove(index))
    }
}

struct TaskOutbox {
    wires: Wires,
    lane: Lane,
}

impl Outbox for TaskOutbox {
    fn send(&self, message: FromTask) {
        let encoded = encode(&message);
        let mut queues = self.wires.queues();
        queues
            .from_tasks
            .entry(self.lane)
            .or_default()
            .push_back(FromWire::Message(encoded));
    }
}

impl Spawner for Wires {
    fn spawn(&self, job: PoolJob) {
        self.queues().jobs.push(job);
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::{SubtaskIndex, VertexId};

    use super::*;

    #[test]
    fn a_lane_keeps_its_order_and_vanishes_when_empty() {
        let wires = Wires::default();
        let lane = (AttemptNumber(1), SubtaskId::new(VertexId(0), SubtaskIndex(0)));
        let outbox = wires.outbox(lane);
        outbox.send(FromTask::Running);
        outbox.send(FromTask::AwaitingLastCheckpoint);
        wires.gone(lane);
        assert_eq!(wires.lanes(), [lane]);
        let mut taken = Vec::new();
        while let Some(item) = wires.take(lane) {
            taken.push(match item {
                FromWire::Message(bytes) => Some(decode::<FromTask>(&bytes)),
                FromWire::Gone => None,
            });
        }
        assert_eq!(
            taken,
            [
                Some(FromTask::Running),
                Some(FromTask::AwaitingLastCheckpoint),
                None
            ]
        );
        assert!(wires.lanes().is_empty());
    }
}
