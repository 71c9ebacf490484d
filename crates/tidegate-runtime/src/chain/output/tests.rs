//! Hashed edges: whatever comes, each batch that leaves has its columns whole and its records where their key belongs.

use tidegate_types::EdgeKind;
use tidegate_types::hash::key_hash;

use super::*;
use crate::chain::{Cursor, KeyHasher};
use crate::gate::{BudgetSettings, Gate, GateReader, Taken};
use crate::signal::TaskSignal;

fn edge(per_channel: u64) -> (Output<u64>, Vec<GateReader<u64>>) {
    let signal = || Arc::new(TaskSignal::new());
    let gates: Vec<_> = (0..3)
        .map(|_| Gate::new(signal(), vec![(EdgeKind::Normal, signal())]))
        .collect();
    let channels = gates
        .iter()
        .map(|g| OutputChannel::new(GateSender::new(g.clone(), 0)))
        .collect();
    let budget = BudgetSettings::FixedPerChannel(per_channel);
    let readers = gates.into_iter().map(|g| GateReader::new(g, budget)).collect();
    let settings = OutputSettings {
        buffer_timeout: Duration::from_secs(1),
        max_parallelism: MaxParallelism(128),
    };
    let hasher: KeyHasher<u64> = Arc::new(|values, hashes| {
        for value in values {
            hashes.push(key_hash(value)?);
        }
        Ok(())
    });
    let uid = OperatorUid::new("source".to_owned());
    let output = Output::new(uid, Partitioner::Hash(hasher), channels, settings, 0);
    (output, readers)
}

/// Everything that stands in the gates: channel, record, time.
fn sent(readers: &mut [GateReader<u64>]) -> Vec<(usize, u64, Option<EventTime>)> {
    let mut all = Vec::new();
    for (channel, reader) in readers.iter_mut().enumerate() {
        loop {
            match reader.take(Nanos(0)) {
                Taken::Batch(_, batch) => {
                    let hashes = batch.hashes.as_ref().expect("a keyed edge has hashes");
                    assert_eq!(hashes.len(), batch.len());
                    assert!(batch.times.as_ref().is_none_or(|t| t.len() == batch.len()));
                    for (i, value) in batch.values.iter().enumerate() {
                        assert_eq!(hashes[i], key_hash(value).expect("a number has a hash"));
                        all.push((channel, *value, batch.times.as_ref().map(|t| t[i])));
                    }
                }
                Taken::Nothing => break,
                _ => {}
            }
        }
    }
    all
}

fn push(output: &mut Output<u64>, values: std::ops::Range<u64>, timed: bool) {
    let times = timed.then(|| values.clone().map(|v| v as EventTime).collect());
    let batch = Batch {
        values: values.collect(),
        times,
        hashes: None,
    };
    output.push(ChainItem::Batch(0, Cursor::new(batch)));
}

#[test]
fn batches_with_and_without_times_mix_and_no_column_is_short() {
    // 8 a channel: batches go at two records, so flushes fall into the middle of every push; 400: seldom.
    for per_channel in [8, 400] {
        let (mut output, mut readers) = edge(per_channel);
        push(&mut output, 0..50, false);
        push(&mut output, 50..101, true);
        push(&mut output, 101..170, false);
        output.control(Control::Flush, Nanos(0));
        push(&mut output, 170..200, true);
        output.push(ChainItem::Watermark(0, 199));
        push(&mut output, 200..230, false);
        output.control(Control::Flush, Nanos(0));
        let mut all = sent(&mut readers);
        all.sort_unstable_by_key(|(_, value, _)| *value);
        assert!(all.iter().map(|(_, value, _)| *value).eq(0..230));
        for (channel, value, time) in all {
            let hash = key_hash(&value).expect("a number has a hash");
            let owner = u64::from(key_group(hash, MaxParallelism(128))) * 3 / 128;
            assert_eq!(channel as u64, owner, "{value}");
            match value {
                50..=100 | 170..=199 => assert_eq!(time, Some(value as EventTime)),
                _ => assert!(time.is_none_or(|t| t == EventTime::MIN), "{value}: {time:?}"),
            }
        }
    }
}
