//! The workloads as jobs.

use std::hash::Hash;
use std::marker::PhantomData;

use tidegate::prelude::*;
use tidegate::types::codec::Key;
use tidegate_bench_common::expected::{first, kept, third};
use tidegate_bench_common::generate::{self, BUCKET_MS, Text, WORDS_PER_LINE, mix};
use tidegate_bench_common::measure::Lanes;
use tidegate_bench_common::{Arguments, Lane, Workload};

use crate::sink::CountSink;

/// Builds the job that does `arguments.workload`.
pub fn build(env: &Environment, arguments: &Arguments, lanes: &Lanes) {
    let (records, keys) = (arguments.records, arguments.keys);
    match arguments.workload {
        Workload::Chain => {
            let _ = env
                .source("numbers", GeneratorSource::new(|n| n).count(records))
                .map("first", first)
                .filter("second", |x| kept(*x))
                .map("third", third)
                .sink("sink", CountSink::new(lanes, Lane::count_result))
                .uid("sink");
        }
        Workload::KeyedCount => {
            let keyed = env
                .source(
                    "numbers",
                    GeneratorSource::new(move |n| generate::key(n, keys)).count(records),
                )
                .key_by(|k| *k);
            count(&keyed, lanes);
        }
        Workload::StringKeys => {
            let keyed = env
                .source(
                    "texts",
                    GeneratorSource::new(move |n| generate::text_key(n, keys)).count(records),
                )
                .key_by(Text::clone);
            count(&keyed, lanes);
        }
        Workload::Words => {
            let lines =
                GeneratorSource::new(|n| generate::line(n).to_owned()).count(records / WORDS_PER_LINE);
            let keyed = env
                .source("lines", lines)
                .flat_map("words", |line: String| {
                    line.split(' ').map(Text::from).collect::<Vec<_>>()
                })
                .key_by(Text::clone);
            count(&keyed, lanes);
        }
        Workload::Kilobyte => {
            let keyed = env
                .source("records", GeneratorSource::new(generate::kilobyte).count(records))
                .rebalance()
                .map("stamp", |mut record| {
                    generate::stamp(&mut record);
                    record
                })
                .key_by(|record| generate::stamped(record));
            count(&keyed, lanes);
        }
        Workload::Buckets => buckets(env, records, lanes),
    }
}

fn buckets(env: &Environment, records: u64, lanes: &Lanes) {
    let offered = lanes.clone();
    let _ = env
        .source(
            "records",
            GeneratorSource::new(generate::bucket_record).count(records),
        )
        .assign_timestamps("times", WatermarkStrategy::monotonous(), |r: &(u64, u64, i64)| {
            r.2
        })
        .process("offered", move || Offered(offered.lane()))
        .uid("offered")
        .key_by(|r: &(u64, u64, i64)| (r.0, r.2.div_euclid(BUCKET_MS)))
        .process("sum", Sum::default)
        .uid("sum")
        .sink(
            "sink",
            CountSink::new(lanes, |lane: &mut Lane, sum: u64| lane.result(mix(sum))),
        )
        .uid("sink");
}

/// Counts per key and puts each count out.
fn count<K: Key + Hash, T: tidegate::types::codec::Record>(keyed: &KeyedStream<K, T>, lanes: &Lanes) {
    let _ = keyed
        .process("count", Count::<K, T>::default)
        .uid("count")
        .sink("sink", CountSink::new(lanes, Lane::count_result))
        .uid("sink");
}

struct Count<K: Key, T> {
    seen: ValueState<K, u64>,
    _record: PhantomData<fn(T)>,
}

impl<K: Key, T> Default for Count<K, T> {
    fn default() -> Self {
        Self {
            seen: ValueState::default(),
            _record: PhantomData,
        }
    }
}

impl<K: Key, T: 'static> ProcessFunction<K, T, u64> for Count<K, T> {
    fn state(&mut self, states: &mut States<'_, K>) {
        states.value("seen", &mut self.seen);
    }

    fn process(&mut self, _: T, cx: &mut ProcessContext<'_, K, u64>) -> Result<(), BoxError> {
        let seen = self.seen.update(cx.at(), |seen| {
            *seen += 1;
            *seen
        });
        cx.collect(seen);
        Ok(())
    }
}

/// Counts what goes by.
struct Offered(Lane);

impl ProcessFunction<(), (u64, u64, i64), (u64, u64, i64)> for Offered {
    fn process(
        &mut self,
        record: (u64, u64, i64),
        cx: &mut ProcessContext<'_, (), (u64, u64, i64)>,
    ) -> Result<(), BoxError> {
        self.0.count();
        cx.collect(record);
        Ok(())
    }
}

/// The sum of one key in one bucket of event time, put out when the watermark has passed it.
#[derive(Default)]
struct Sum {
    sum: ValueState<(u64, i64), u64>,
}

impl ProcessFunction<(u64, i64), (u64, u64, i64), u64> for Sum {
    fn state(&mut self, states: &mut States<'_, (u64, i64)>) {
        states.value("sum", &mut self.sum);
    }

    fn process(
        &mut self,
        (_, value, _): (u64, u64, i64),
        cx: &mut ProcessContext<'_, (u64, i64), u64>,
    ) -> Result<(), BoxError> {
        if let Some(sum) = self.sum.get_mut(cx.at()) {
            *sum += value;
        } else {
            self.sum.set(cx.at(), value);
            cx.register_event_timer((cx.key().1 + 1) * BUCKET_MS - 1);
        }
        Ok(())
    }

    fn on_timer(&mut self, _: Timer, cx: &mut ProcessContext<'_, (u64, i64), u64>) -> Result<(), BoxError> {
        if let Some(sum) = self.sum.take(cx.at()) {
            cx.collect(sum);
        }
        Ok(())
    }
}
