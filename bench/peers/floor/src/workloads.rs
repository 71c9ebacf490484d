//! The workloads, each as threads joined by gates.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::ops::Range;
use std::thread;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tidegate_bench_common::expected::{first, kept, third};
use tidegate_bench_common::generate::{self, BUCKET_MS, WORDS_PER_LINE, mix};
use tidegate_bench_common::measure::Lanes;
use tidegate_bench_common::{Arguments, Lane, Workload};

use crate::batch::{Outputs, Texts};
use crate::gate::{Receiver, gates};

/// Records in a batch.
const BATCH: usize = 1024;
/// And if they are of a kilobyte each, so that those on their way stay in the cache.
const LARGE_BATCH: usize = 64;

type Counts<K> = HashMap<K, u64, FixedState>;

/// Runs a workload to its end.
pub fn run(arguments: &Arguments, lanes: &Lanes) {
    let (records, keys) = (arguments.records, arguments.keys);
    let threads = arguments.parallelism;
    match arguments.workload {
        Workload::Chain => chain(records, threads, lanes),
        Workload::KeyedCount => keyed_count(records, keys, threads, lanes),
        Workload::StringKeys => count_texts(records, threads, lanes, |numbers, emit| {
            numbers.for_each(|n| emit(&generate::text_key(n, keys)));
        }),
        Workload::Words => count_texts(records / WORDS_PER_LINE, threads, lanes, |numbers, emit| {
            numbers.for_each(|n| generate::line(n).split(' ').for_each(&mut *emit));
        }),
        Workload::Kilobyte => kilobyte(records, threads, lanes),
        Workload::Buckets => buckets(records, threads, lanes),
    }
}

/// The part of `0..records` that source `source` of `sources` emits.
fn part(records: u64, source: usize, sources: usize) -> Range<u64> {
    let at = |s: usize| (u128::from(records) * s as u128 / sources as u128) as u64;
    at(source)..at(source + 1)
}

/// Another hasher than the maps': all keys of a thread have bits in common in the one that picks the thread.
fn routing() -> FixedState {
    FixedState::with_seed(0x7469_6465)
}

fn chain(records: u64, threads: usize, lanes: &Lanes) {
    thread::scope(|scope| {
        for source in 0..threads {
            let mut lane = lanes.lane();
            scope.spawn(move || {
                part(records, source, threads)
                    .map(first)
                    .filter(|x| kept(*x))
                    .for_each(|x| lane.count_result(third(x)));
            });
        }
    });
}

fn keyed_count(records: u64, keys: u64, threads: usize, lanes: &Lanes) {
    let (senders, receivers) = gates::<Vec<u64>>(threads, threads);
    thread::scope(|scope| {
        for (source, senders) in senders.into_iter().enumerate() {
            scope.spawn(move || {
                let mut outputs = Outputs::new(senders, BATCH);
                for key in part(records, source, threads).map(|n| generate::key(n, keys)) {
                    let receiver = outputs.of_hash(mix(key));
                    outputs.put(receiver, |batch| batch.push(key));
                }
            });
        }
        for receiver in receivers {
            let lane = lanes.lane();
            scope.spawn(move || count_numbers(&receiver, lane, |key| *key));
        }
    });
}

/// Counts records by a number that stands in them.
fn count_numbers<T>(receiver: &Receiver<Vec<T>>, mut lane: Lane, key: impl Fn(&T) -> u64) {
    let mut counts = Counts::default();
    let mut counted = Vec::with_capacity(BATCH);
    while let Some(mut batch) = receiver.next() {
        counted.extend(batch.drain(..).map(|record| {
            let count = counts.entry(key(&record)).or_insert(0);
            *count += 1;
            *count
        }));
        receiver.give_back(batch);
        sink(&mut counted, &mut lane);
    }
}

/// What stands at the end of each job that counts.
fn sink(counted: &mut Vec<u64>, lane: &mut Lane) {
    counted.drain(..).for_each(|count| lane.count_result(count));
}

/// Counts texts: `emit` is handed the numbers of a source and where its texts go.
fn count_texts(
    numbers: u64,
    threads: usize,
    lanes: &Lanes,
    emit: impl Fn(Range<u64>, &mut dyn FnMut(&str)) + Sync,
) {
    let (senders, receivers) = gates::<Texts>(threads, threads);
    let emit = &emit;
    thread::scope(|scope| {
        for (source, senders) in senders.into_iter().enumerate() {
            scope.spawn(move || {
                let routing = routing();
                let mut outputs = Outputs::new(senders, BATCH);
                emit(part(numbers, source, threads), &mut |text| {
                    let receiver = outputs.of_hash(routing.hash_one(text));
                    outputs.put(receiver, |batch| batch.push(text));
                });
            });
        }
        for receiver in receivers {
            let mut lane = lanes.lane();
            scope.spawn(move || {
                let mut counts = Counts::<String>::default();
                let mut counted = Vec::with_capacity(BATCH);
                while let Some(mut batch) = receiver.next() {
                    counted.extend(batch.iter().map(|text| {
                        let count = counts.entry_ref(text).or_insert(0);
                        *count += 1;
                        *count
                    }));
                    batch.clear();
                    receiver.give_back(batch);
                    sink(&mut counted, &mut lane);
                }
            });
        }
    });
}

fn kilobyte(records: u64, threads: usize, lanes: &Lanes) {
    let (from_sources, to_stamps) = gates::<Vec<Vec<u8>>>(threads, threads);
    let (from_stamps, to_counts) = gates::<Vec<Vec<u8>>>(threads, threads);
    thread::scope(|scope| {
        for (source, senders) in from_sources.into_iter().enumerate() {
            scope.spawn(move || {
                let mut outputs = Outputs::new(senders, LARGE_BATCH);
                let mut turn = source;
                for record in part(records, source, threads).map(generate::kilobyte) {
                    outputs.put(turn, |batch| batch.push(record));
                    turn = if turn + 1 == outputs.receivers() {
                        0
                    } else {
                        turn + 1
                    };
                }
            });
        }
        for (receiver, senders) in to_stamps.into_iter().zip(from_stamps) {
            scope.spawn(move || {
                let mut outputs = Outputs::new(senders, LARGE_BATCH);
                while let Some(mut batch) = receiver.next() {
                    for mut record in batch.drain(..) {
                        generate::stamp(&mut record);
                        let to = outputs.of_hash(mix(generate::stamped(&record)));
                        outputs.put(to, |batch| batch.push(record));
                    }
                    receiver.give_back(batch);
                }
            });
        }
        for receiver in to_counts {
            let lane = lanes.lane();
            scope.spawn(move || count_numbers(&receiver, lane, |record| generate::stamped(record)));
        }
    });
}

/// Records of one source, in the order of their times.
#[derive(Default)]
struct Timed {
    source: usize,
    records: Vec<(u64, u64, i64)>,
}

impl crate::batch::Batch for Timed {
    fn len(&self) -> usize {
        self.records.len()
    }
}

fn buckets(records: u64, threads: usize, lanes: &Lanes) {
    let (senders, receivers) = gates::<Timed>(threads, threads);
    thread::scope(|scope| {
        for (source, senders) in senders.into_iter().enumerate() {
            let mut lane = lanes.lane();
            scope.spawn(move || {
                let mut outputs = Outputs::new(senders, BATCH);
                // In turns, so that all sources are at about the same time.
                for number in (source as u64..records).step_by(threads) {
                    let record = generate::bucket_record(number);
                    lane.count();
                    let receiver = outputs.of_hash(mix(record.0));
                    outputs.put(receiver, |batch| {
                        batch.source = source;
                        batch.records.push(record);
                    });
                }
            });
        }
        for receiver in receivers {
            let lane = lanes.lane();
            scope.spawn(move || sum_buckets(&receiver, threads, lane));
        }
    });
}

/// Sums of keys by bucket; those of a bucket are put out when all sources have come to a later one.
fn sum_buckets(receiver: &Receiver<Timed>, sources: usize, mut lane: Lane) {
    let mut open = VecDeque::<Counts<u64>>::new();
    let mut first_open = 0;
    let mut spare = Vec::new();
    // The bucket that each source is in.
    let mut reached = vec![0; sources];
    let mut close = |sums: &mut Counts<u64>| sums.drain().for_each(|(_, sum)| lane.result(mix(sum)));
    while let Some(mut batch) = receiver.next() {
        for (key, value, time) in batch.records.drain(..) {
            let bucket = time / BUCKET_MS;
            let at = (bucket - first_open) as usize;
            while open.len() <= at {
                open.push_back(spare.pop().unwrap_or_default());
            }
            *open[at].entry(key).or_insert(0) += value;
            reached[batch.source] = bucket;
        }
        receiver.give_back(batch);
        let all_reached = reached.iter().copied().min().unwrap_or(0);
        while first_open < all_reached {
            if let Some(mut sums) = open.pop_front() {
                close(&mut sums);
                spare.push(sums);
            }
            first_open += 1;
        }
    }
    open.iter_mut().for_each(close);
}

#[cfg(test)]
mod tests {
    use tidegate_bench_common::{Measure, expected};

    use super::*;

    /// Batches are full and not, threads have unequal parts, buckets are closed while the job runs and at its end.
    #[test]
    fn every_workload_computes_what_it_should() {
        for workload in Workload::ALL {
            for (threads, records) in [(1, 5_000), (3, 2_100_100)] {
                let line = [
                    workload.name(),
                    &format!("records={records}"),
                    &format!("p={threads}"),
                    "keys=1000",
                ]
                .map(str::to_owned);
                let arguments = Arguments::parse(line).expect("the line is right");
                let measure = Measure::begin(&arguments);
                run(&arguments, &measure.lanes());
                assert_eq!(measure.result(), expected(&arguments), "{workload:?}, {threads}");
            }
        }
    }
}
