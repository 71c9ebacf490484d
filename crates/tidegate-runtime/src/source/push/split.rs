//! The splits of a push source: instances of the user code, handed out by number.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidegate_types::codec::Record;
use tidegate_types::{EventTime, SubtaskIndex};

use super::super::{NextSplit, Split, SplitEnumerator};
use crate::error::BoxError;

/// One instance of the user code, with what it had collected and the task hadn't taken, and its named state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PushSplit<T> {
    pub(super) instance: u32,
    pub(super) untaken: Vec<(T, Option<EventTime>)>,
    pub(super) named: BTreeMap<String, Vec<(SubtaskIndex, Bytes)>>,
}

impl<T> PushSplit<T> {
    /// What the user code had collected and the task hadn't taken, for whoever looks into a snapshot.
    pub fn untaken(&self) -> impl Iterator<Item = &(T, Option<EventTime>)> {
        self.untaken.iter()
    }

    /// What the user code's named snapshot source had.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &Bytes> {
        self.named.get(name).into_iter().flatten().map(|(_, bytes)| bytes)
    }
}

impl<T: Record> Split for PushSplit<T> {
    fn id(&self) -> String {
        format!("instance {}", self.instance)
    }
}

/// Hands instances out by number.
pub(super) struct Instances {
    pub(super) next: u32,
    pub(super) count: u32,
}

impl<T: Record> SplitEnumerator<PushSplit<T>, u32> for Instances {
    fn next_split(&mut self, _: SubtaskIndex) -> Result<NextSplit<PushSplit<T>>, BoxError> {
        if self.next == self.count {
            return Ok(NextSplit::NoMore);
        }
        self.next += 1;
        Ok(NextSplit::Split(PushSplit {
            instance: self.next - 1,
            untaken: Vec::new(),
            named: BTreeMap::new(),
        }))
    }

    fn take_over(&mut self, splits: Vec<PushSplit<T>>) {
        let behind = splits.iter().map(|s| s.instance + 1).max();
        self.next = self.next.max(behind.unwrap_or(0));
    }

    fn snapshot(&mut self) -> Result<u32, BoxError> {
        Ok(self.next)
    }
}
