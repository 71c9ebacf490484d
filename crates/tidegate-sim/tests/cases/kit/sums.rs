//! A keyed sum that puts out every record once and, at the end, each key's sum: what is lost, doubled or seen by
//! somebody who doesn't own its key shows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate::prelude::*;
use tidegate_runtime::operators::FunctionContext;
use tidegate_sim::scenario::Tools;
use tidegate_types::hash::key_hash;
use tidegate_types::key_group::subtask_for;

/// What a case sees of its functions, across processes.
#[derive(Clone, Default)]
pub struct Probe(Arc<AtomicU64>);

impl Probe {
    /// One more.
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn seen(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Begins anew.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Whether this subtask owns a key.
pub fn is_owner(key: u64, cx: &FunctionContext) -> bool {
    key_hash(&key).is_ok_and(|hash| subtask_for(hash, cx.max_parallelism, cx.parallelism) == cx.subtask)
}

/// Sums the values of each key. Puts out `("n", value)` per record if it tells, and `("sum k", sum)` per key when
/// the stream ends.
pub struct Sum {
    tools: Tools,
    place: Option<FunctionContext>,
    probe: Probe,
    /// Virtual time that a record takes.
    takes: Duration,
    tells: bool,
    sum: ValueState<u64, (u64, u64)>,
}

impl Sum {
    /// One that tells each record.
    pub fn new(tools: &Tools, probe: &Probe) -> Self {
        Self {
            tools: tools.clone(),
            place: None,
            probe: probe.clone(),
            takes: Duration::ZERO,
            tells: true,
            sum: ValueState::default(),
        }
    }

    /// One that puts nothing out before the end.
    pub fn silent(tools: &Tools, probe: &Probe) -> Self {
        Self {
            tells: false,
            ..Self::new(tools, probe)
        }
    }

    /// A slow one.
    pub fn takes(self, takes: Duration) -> Self {
        Self { takes, ..self }
    }
}

impl ProcessFunction<u64, u64, (String, u64)> for Sum {
    fn state(&mut self, states: &mut States<'_, u64>) {
        states.value("sum", &mut self.sum);
    }

    fn open(&mut self, cx: &FunctionContext) -> Result<(), BoxError> {
        self.place = Some(cx.clone());
        Ok(())
    }

    fn process(
        &mut self,
        value: u64,
        cx: &mut ProcessContext<'_, u64, (String, u64)>,
    ) -> Result<(), BoxError> {
        if let Some(place) = &self.place
            && !is_owner(*cx.key(), place)
        {
            let here = format!("{} of {}", place.subtask, place.parallelism);
            self.tools.violations.note(format!(
                "key {} of value {value} was seen by subtask {here}",
                cx.key()
            ));
        }
        self.tools.clock.spend(self.takes);
        let (sum, count) = self.sum.get(cx.at()).copied().unwrap_or_default();
        self.sum.set(cx.at(), (sum + value, count + 1));
        if count == 0 {
            cx.register_event_timer(i64::MAX);
        }
        if self.tells {
            cx.collect(("n".to_owned(), value));
        }
        self.probe.count();
        Ok(())
    }

    fn on_timer(
        &mut self,
        _: Timer,
        cx: &mut ProcessContext<'_, u64, (String, u64)>,
    ) -> Result<(), BoxError> {
        let (sum, count) = self.sum.get(cx.at()).copied().unwrap_or_default();
        cx.collect((format!("sum {} of {count}", cx.key()), sum));
        Ok(())
    }
}

/// What a silent [`Sum`] puts out over these values, keyed by value mod `keys`.
pub fn sums(values: impl IntoIterator<Item = u64>, keys: u64) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for value in values {
        let (sum, count) = sums.entry(value % keys).or_default();
        *sum += value;
        *count += 1;
    }
    sums.into_iter()
        .map(|(key, (sum, count))| (format!("sum {key} of {count}"), sum))
        .collect()
}

/// What a telling [`Sum`] puts out.
pub fn ids_and_sums(values: impl IntoIterator<Item = u64> + Clone, keys: u64) -> Vec<(String, u64)> {
    let ids = values.clone().into_iter().map(|v| ("n".to_owned(), v));
    ids.chain(sums(values, keys)).collect()
}
