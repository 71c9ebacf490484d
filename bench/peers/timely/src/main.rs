//! Timely dataflow as a contestant of Tidegate's benchmark: `tidegate-bench-timely WORKLOAD key=value…`, see
//! [`Arguments`].

use std::hash::{BuildHasher, Hash};
use std::process::ExitCode;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tidegate_bench_common::expected::{first, kept, third};
use tidegate_bench_common::generate::{self, Text, WORDS_PER_LINE, mix};
use tidegate_bench_common::measure::Lanes;
use tidegate_bench_common::peer::peer;
use tidegate_bench_common::{Arguments, Lane, Workload};
use timely::ExchangeData;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::vec::{Filter, Map};
use timely::dataflow::operators::{Inspect, Operator, Probe};
use timely::dataflow::{InputHandle, ProbeHandle, StreamVec};
use timely::worker::Worker;

/// Records that a worker puts in before it moves its time on and lets the operators run.
const ROUND: usize = 20_000;
/// Rounds that a worker may be ahead of the slowest: what bounds the records in flight.
const LEAD: usize = 4;

fn main() -> ExitCode {
    peer("timely 0.32.0", |arguments, lanes| {
        if matches!(arguments.workload, Workload::Kilobyte | Workload::Buckets) {
            return Ok(false);
        }
        let (of_workers, lanes) = (arguments.clone(), lanes.clone());
        let config = timely::Config::process(arguments.parallelism);
        let workers = timely::execute(config, move |worker| work(worker, &of_workers, &lanes))?;
        for worker in workers.join() {
            worker?;
        }
        Ok(true)
    })
}

/// One worker's part of the job.
fn work(worker: &mut Worker, arguments: &Arguments, lanes: &Lanes) {
    let (records, keys) = (arguments.records, arguments.keys);
    let lane = lanes.lane();
    match arguments.workload {
        Workload::Chain => drive(
            worker,
            records,
            |n| n,
            move |numbers| {
                let thirds = numbers.map(first).filter(|x| kept(*x)).map(third);
                sink(thirds, lane)
            },
        ),
        Workload::KeyedCount => drive(
            worker,
            records,
            |n| generate::key(n, keys),
            move |keyed| sink(count(keyed, |key| mix(*key)), lane),
        ),
        Workload::StringKeys => drive(
            worker,
            records,
            |n| generate::text_key(n, keys),
            move |keyed| sink(count(keyed, of_text()), lane),
        ),
        Workload::Words => {
            let line = |n| generate::line(n).to_owned();
            drive(worker, records / WORDS_PER_LINE, line, move |lines| {
                let words =
                    lines.flat_map(|line: String| line.split(' ').map(Text::from).collect::<Vec<_>>());
                sink(count(words, of_text()), lane)
            });
        }
        Workload::Kilobyte | Workload::Buckets => {}
    }
}

/// Runs a dataflow over `generate` of this worker's numbers, every so manieth below `records`.
fn drive<D: Clone + 'static>(
    worker: &mut Worker,
    records: u64,
    generate: impl Fn(u64) -> D,
    build: impl for<'s> FnOnce(StreamVec<'s, usize, D>) -> StreamVec<'s, usize, u64>,
) {
    let mut input = InputHandle::new();
    let probe = ProbeHandle::new();
    worker.dataflow::<usize, _, _>(|scope| {
        build(input.to_stream(scope)).probe_with(&probe);
    });
    let mut numbers = (worker.index() as u64..records)
        .step_by(worker.peers())
        .peekable();
    let mut round = 0;
    while numbers.peek().is_some() {
        let of_round = numbers.by_ref().take(ROUND);
        of_round.for_each(|n| input.send(generate(n)));
        round += 1;
        input.advance_to(round);
        while probe.less_than(&round.saturating_sub(LEAD)) {
            // Not `step`, which takes the processor from the worker that is waited for.
            worker.step_or_park(None);
        }
    }
    input.close();
    while worker.step_or_park(None) {}
}

/// Hashes texts to workers, unlike the maps do: there all keys of a worker would have bits in common.
fn of_text() -> impl Fn(&Text) -> u64 {
    let routing = FixedState::with_seed(0x7469_6465);
    move |text| routing.hash_one(text)
}

/// Counts per key and puts each count out.
fn count<'s, K: ExchangeData + Hash + Eq>(
    keyed: StreamVec<'s, usize, K>,
    hash: impl Fn(&K) -> u64 + 'static,
) -> StreamVec<'s, usize, u64> {
    keyed.unary(Exchange::new(hash), "count", |_, _| {
        let mut counts: HashMap<K, u64, FixedState> = HashMap::default();
        move |input, output| {
            input.for_each_stamp(|stamp, batches| {
                let mut session = output.session(&stamp);
                for batch in batches {
                    for key in batch.drain(..) {
                        let count = counts.entry(key).or_insert(0);
                        *count += 1;
                        session.give(*count);
                    }
                }
            });
        }
    })
}

fn sink(results: StreamVec<'_, usize, u64>, mut lane: Lane) -> StreamVec<'_, usize, u64> {
    results.inspect(move |value| lane.count_result(*value))
}
