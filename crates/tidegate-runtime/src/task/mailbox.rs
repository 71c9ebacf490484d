//! What others want of a task, in two lanes: urgent mail goes first and interrupts, ordinary mail keeps its place.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_protocol::message::ToTask;
use tidegate_protocol::subtask::{WriteFailed, Written};
use tidegate_types::{CheckpointId, LeaderEpoch, SnapshotMode};

use crate::signal::TaskSignal;

/// One mail.
#[derive(Debug, Clone, PartialEq)]
pub enum Mail {
    /// From the job master, under one leadership.
    Master(LeaderEpoch, ToTask),
    /// From the pool: a snapshot's write has ended.
    Written {
        /// The checkpoint.
        id: CheckpointId,
        /// How.
        result: Result<Box<Written>, WriteFailed>,
    },
}

impl Mail {
    fn is_urgent(&self) -> bool {
        match self {
            Self::Master(_, ToTask::Trigger(barrier)) => barrier.mode == SnapshotMode::Unaligned,
            Self::Master(
                _,
                ToTask::Aborted { .. }
                | ToTask::Resume { .. }
                | ToTask::Stop { .. }
                | ToTask::Cancel
                | ToTask::Reoffer,
            )
            | Self::Written { .. } => true,
            Self::Master(
                _,
                ToTask::Completed { .. } | ToTask::AssignSplits { .. } | ToTask::NoMoreSplits { .. },
            ) => false,
        }
    }

    fn assigns(&self) -> bool {
        matches!(
            self,
            Self::Master(_, ToTask::AssignSplits { .. } | ToTask::NoMoreSplits { .. })
        )
    }
}

#[derive(Default)]
struct Lanes {
    /// The highest leadership that was heard of: what lower ones say counts no more.
    leader: LeaderEpoch,
    urgent: VecDeque<Mail>,
    ordinary: VecDeque<Mail>,
}

impl Lanes {
    /// Whether a message of this leadership counts; a new one makes those before it count no more.
    fn admit(&mut self, epoch: LeaderEpoch) -> bool {
        if epoch > self.leader {
            self.leader = epoch;
            let stays = |mail: &Mail| match mail {
                Mail::Master(of, _) => *of >= epoch,
                Mail::Written { .. } => true,
            };
            self.urgent.retain(stays);
            self.ordinary.retain(stays);
        }
        epoch == self.leader
    }
}

/// The mailbox of one task.
pub struct Mailbox {
    lanes: Mutex<Lanes>,
    signal: Arc<TaskSignal>,
}

impl Mailbox {
    /// An empty mailbox of the task with this signal.
    pub fn new(signal: Arc<TaskSignal>) -> Self {
        Self {
            lanes: Mutex::default(),
            signal,
        }
    }

    /// Puts a mail in and wakes the task; an urgent one interrupts it. The first word of a new leader drops what
    /// earlier ones said and the task hasn't read: they may have decided something else than what stands.
    pub fn send(&self, mail: Mail) {
        let urgent = mail.is_urgent();
        {
            let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
            if let Mail::Master(epoch, _) = &mail
                && !lanes.admit(*epoch)
            {
                return;
            }
            if urgent {
                if matches!(mail, Mail::Master(_, ToTask::Trigger(_))) {
                    // Splits that were assigned before the trigger belong inside its cut.
                    let (assigned, rest) = std::mem::take(&mut lanes.ordinary)
                        .into_iter()
                        .partition(Mail::assigns);
                    lanes.ordinary = rest;
                    let mut assigned: VecDeque<Mail> = assigned;
                    lanes.urgent.append(&mut assigned);
                }
                lanes.urgent.push_back(mail);
            } else {
                lanes.ordinary.push_back(mail);
            }
        }
        if urgent {
            self.signal.interrupt()
        } else {
            self.signal.wake()
        }
    }

    /// The next urgent mail.
    pub fn next_urgent(&self) -> Option<Mail> {
        self.lanes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .urgent
            .pop_front()
    }

    /// The next mail, urgent ones first.
    pub fn next(&self) -> Option<Mail> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.urgent.pop_front().or_else(|| lanes.ordinary.pop_front())
    }
}
