//! Which consumer a record goes to: on a live edge, and again when a stored record is restored.

use std::sync::Arc;

use tidegate_protocol::coordinator::pointwise_producers;
use tidegate_types::hash::HashError;
use tidegate_types::key_group::subtask_for;
use tidegate_types::{MaxParallelism, Parallelism, SubtaskIndex};

use crate::error::BoxError;

use super::operator::OpenContext;

/// Computes the key hashes of records. One call per batch; the key function is inlined into its loop.
pub type KeyHasher<T> = Arc<dyn Fn(&[T], &mut Vec<u64>) -> Result<(), HashError> + Send + Sync>;

/// Picks a consumer for a record, given how many there are.
pub type CustomPartitioner<T> = Arc<dyn Fn(&T, u32) -> u32 + Send + Sync>;

/// How records spread over the channels of one edge.
pub enum Partitioner<T> {
    /// Subtask i to subtask i.
    Forward,
    /// By key, so that equal keys meet.
    Hash(KeyHasher<T>),
    /// One after another over all consumers.
    Rebalance,
    /// One after another over the consumers next to this producer.
    Rescale,
    /// Every record to every consumer.
    Broadcast,
    /// By a function of the record. A stable one doesn't depend on anything else and may be asked again when
    /// records are restored at another parallelism.
    Custom(CustomPartitioner<T>, bool),
}

impl<T> Clone for Partitioner<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Forward => Self::Forward,
            Self::Hash(h) => Self::Hash(h.clone()),
            Self::Rebalance => Self::Rebalance,
            Self::Rescale => Self::Rescale,
            Self::Broadcast => Self::Broadcast,
            Self::Custom(c, stable) => Self::Custom(c.clone(), *stable),
        }
    }
}

/// Where stored in-flight records of an input belong after a restore.
pub enum Route<T> {
    /// By key: the input's edge is hashed, or its operator is keyed.
    Keyed(KeyHasher<T>),
    /// With the subtask that takes the place of the one that held them: `old * p' / p`.
    Position,
    /// Anywhere: dealt out one by one.
    Spread,
    /// By the user's function, which says that it is stable.
    Custom(CustomPartitioner<T>),
    /// Only where they were: a custom partitioner that doesn't say that it is stable.
    Unchanged,
}

impl<T> Clone for Route<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Keyed(h) => Self::Keyed(h.clone()),
            Self::Position => Self::Position,
            Self::Spread => Self::Spread,
            Self::Custom(c) => Self::Custom(c.clone()),
            Self::Unchanged => Self::Unchanged,
        }
    }
}

/// Where the records of one batch belong.
pub struct Targets {
    /// Per record.
    pub subtasks: Vec<SubtaskIndex>,
    /// Their key hashes, if the route computes them.
    pub hashes: Option<Vec<u64>>,
}

impl<T> Route<T> {
    /// The route for the input behind an edge.
    pub fn of(partitioner: &Partitioner<T>) -> Self {
        match partitioner {
            Partitioner::Hash(h) => Self::Keyed(h.clone()),
            Partitioner::Forward | Partitioner::Rescale | Partitioner::Broadcast => Self::Position,
            Partitioner::Rebalance => Self::Spread,
            Partitioner::Custom(c, true) => Self::Custom(c.clone()),
            Partitioner::Custom(_, false) => Self::Unchanged,
        }
    }

    /// Whether records belong where their key does.
    pub fn is_keyed(&self) -> bool {
        matches!(self, Self::Keyed(_))
    }

    /// The subtask that takes the place of an old one.
    pub fn position(&self, old: SubtaskIndex, before: Parallelism, now: Parallelism) -> SubtaskIndex {
        let place = u64::from(old.0) * u64::from(now.0) / u64::from(before.0.max(1));
        SubtaskIndex(place as u32)
    }

    /// Says for each record of a batch that `holder` stored where it belongs now. `index` counts the records
    /// of the channel so far.
    ///
    /// # Errors
    /// When a key can't be hashed, or the parallelism changed behind a partitioner that isn't stable.
    pub fn targets(
        &self,
        values: &[T],
        holder: SubtaskIndex,
        index: &mut u64,
        before: Parallelism,
        cx: &OpenContext,
    ) -> Result<Targets, BoxError> {
        let now = cx.parallelism;
        let mut hashes = None;
        let subtasks = match self {
            Self::Keyed(hasher) => {
                let mut computed = Vec::with_capacity(values.len());
                hasher(values, &mut computed)?;
                let owners = computed
                    .iter()
                    .map(|h| subtask_for(*h, cx.max_parallelism, now))
                    .collect();
                hashes = Some(computed);
                owners
            }
            _ if before == now => vec![holder; values.len()],
            Self::Position => vec![self.position(holder, before, now); values.len()],
            Self::Spread => (0..values.len() as u64)
                .map(|i| SubtaskIndex(((u64::from(holder.0) + *index + i) % u64::from(now.0)) as u32))
                .collect(),
            Self::Custom(partition) => values
                .iter()
                .map(|v| checked(partition(v, now.0), now))
                .collect::<Result<_, _>>()?,
            Self::Unchanged => {
                return Err(format!(
                    "{} records were in flight behind a custom partitioner, and the parallelism changed from \
                     {before} to {now}. Restore at {before}, take a savepoint there, or declare the partitioner \
                     stable",
                    values.len()
                )
                .into());
            }
        };
        *index += values.len() as u64;
        Ok(Targets { subtasks, hashes })
    }
}

/// A custom partitioner's answer, if there is such a consumer.
///
/// # Errors
/// When there isn't.
pub fn checked(target: u32, parallelism: Parallelism) -> Result<SubtaskIndex, BoxError> {
    if target < parallelism.0 {
        Ok(SubtaskIndex(target))
    } else {
        Err(format!("the custom partitioner chose consumer {target} of {parallelism}").into())
    }
}

/// The consumers that a producer has a channel to, in channel order. The one place that lays out channels.
pub fn consumers_of<T>(
    partitioner: &Partitioner<T>,
    producer: SubtaskIndex,
    producers: Parallelism,
    consumers: Parallelism,
) -> Vec<SubtaskIndex> {
    match partitioner {
        Partitioner::Forward => vec![producer],
        Partitioner::Rescale => (0..consumers.0)
            .map(SubtaskIndex)
            .filter(|c| pointwise_producers(*c, producers, consumers).contains(&producer.0))
            .collect(),
        _ => (0..consumers.0).map(SubtaskIndex).collect(),
    }
}

/// Which subtask each key group goes to.
pub fn group_table(max: MaxParallelism, consumers: Parallelism) -> Vec<u16> {
    (0..u64::from(max.0))
        .map(|g| (g * u64::from(consumers.0) / u64::from(max.0)) as u16)
        .collect()
}
