//! Renoir as a contestant of Tidegate's benchmark: `tidegate-bench-renoir WORKLOAD key=value…`, see [`Arguments`].

use std::hash::BuildHasher;
use std::process::ExitCode;

use foldhash::fast::FixedState;
use renoir::operator::{DataKey, ExchangeData, Operator};
use renoir::prelude::*;
use renoir::{KeyedStream, Stream};
use tidegate_bench_common::expected::{first, kept, third};
use tidegate_bench_common::generate::{self, Text, WORDS_PER_LINE};
use tidegate_bench_common::measure::Lanes;
use tidegate_bench_common::peer::peer;
use tidegate_bench_common::{Arguments, Lane, Workload};

/// Records in a batch. Batches of a fixed size are Renoir's fastest: those that are also sent after a while are
/// behind a mutex, which is then locked for every record.
const BATCH: usize = 1024;

fn main() -> ExitCode {
    peer("renoir 0.6.0", |arguments, lanes| {
        let env = StreamContext::new(RuntimeConfig::local(arguments.parallelism as u64)?);
        let does = build(&env, arguments, lanes);
        if does {
            env.execute_blocking();
        }
        Ok(does)
    })
}

/// Builds the job, if it is one that this program does.
fn build(env: &StreamContext, arguments: &Arguments, lanes: &Lanes) -> bool {
    let (records, keys) = (arguments.records, arguments.keys);
    match arguments.workload {
        Workload::Chain => {
            let mut sink = Sink::new(lanes);
            numbers(env, records)
                .map(first)
                .filter(|x| kept(*x))
                .map(third)
                .for_each(move |x| sink.add(x));
        }
        Workload::KeyedCount => {
            let keyed = numbers(env, records)
                .map(move |n| generate::key(n, keys))
                .group_by(|key| *key);
            count(keyed, lanes);
        }
        Workload::StringKeys => {
            let texts = numbers(env, records).map(move |n| generate::text_key(n, keys));
            count(by_text(texts), lanes);
        }
        Workload::Words => {
            let words = numbers(env, records / WORDS_PER_LINE)
                .map(|n| generate::line(n).to_owned())
                .flat_map(|line| line.split(' ').map(Text::from).collect::<Vec<_>>());
            count(by_text(words), lanes);
        }
        Workload::Kilobyte => {
            let keyed = numbers(env, records)
                .map(generate::kilobyte)
                .shuffle()
                .map(|mut record| {
                    generate::stamp(&mut record);
                    record
                })
                .group_by(|record| generate::stamped(record));
            count(keyed, lanes);
        }
        Workload::Buckets => return false,
    }
    true
}

/// The numbers below `records`, an equal range of them from each source.
fn numbers(env: &StreamContext, records: u64) -> Stream<impl Operator<Out = u64> + use<>> {
    env.stream_par_iter(0..records)
        .batch_mode(BatchMode::fixed(BATCH))
}

/// Texts by themselves: what `group_by(Text::clone)` does, without its two clones of each.
fn by_text(
    texts: Stream<impl Operator<Out = Text> + 'static>,
) -> KeyedStream<impl Operator<Out = (Text, ())>> {
    let hasher = FixedState::default();
    texts
        .map(|text| (text, ()))
        .repartition_by(Replication::Unlimited, move |(text, ())| hasher.hash_one(text))
        .to_keyed()
}

/// Counts per key and puts each count out.
fn count<K: DataKey, T: ExchangeData>(
    keyed: KeyedStream<impl Operator<Out = (K, T)> + 'static>,
    lanes: &Lanes,
) {
    let mut sink = Sink::new(lanes);
    let mut seen = 0;
    keyed
        .rich_map(move |_| {
            seen += 1;
            seen
        })
        .for_each(move |(_, count)| sink.add(count));
}

/// Counts into a lane of its own. Renoir clones the last operator for each worker, and the clone that is never run
/// must have no lane that it leaves behind.
struct Sink {
    lanes: Lanes,
    lane: Option<Lane>,
}

impl Sink {
    fn new(lanes: &Lanes) -> Self {
        Self {
            lanes: lanes.clone(),
            lane: None,
        }
    }

    #[inline]
    fn add(&mut self, value: u64) {
        let lane = self.lane.get_or_insert_with(|| self.lanes.lane());
        lane.count_result(value);
    }
}

impl Clone for Sink {
    fn clone(&self) -> Self {
        Self::new(&self.lanes)
    }
}
