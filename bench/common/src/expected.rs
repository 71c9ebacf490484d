//! What a right run computes, by the plainest program that does it.

use serde::{Deserialize, Serialize};

use crate::generate::{self, BUCKET_KEYS, BUCKET_MS, KILOBYTE_KEYS, LINES, WORDS, WORDS_PER_LINE, mix};
use crate::{Arguments, Workload};

/// What every contestant's sinks must have seen, in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// Records.
    pub outputs: u64,
    /// The wrapping sum of their values.
    pub digest: u64,
}

impl Expected {
    const NOTHING: Self = Self {
        outputs: 0,
        digest: 0,
    };

    #[inline]
    fn add(&mut self, value: u64) {
        self.outputs += 1;
        self.digest = self.digest.wrapping_add(value);
    }
}

/// The first operator of [`Workload::Chain`].
#[inline(always)]
pub fn first(x: u64) -> u64 {
    x.wrapping_mul(2).wrapping_add(1)
}

/// What its second one keeps.
#[inline(always)]
pub fn kept(x: u64) -> bool {
    !x.is_multiple_of(3)
}

/// Its third one.
#[inline(always)]
pub fn third(x: u64) -> u64 {
    x ^ (x >> 7)
}

/// Runs a workload in one loop.
pub fn expected(arguments: &Arguments) -> Expected {
    let (records, keys) = (arguments.records, arguments.keys);
    match arguments.workload {
        Workload::Chain => {
            let mut expected = Expected::NOTHING;
            (0..records)
                .map(first)
                .filter(|x| kept(*x))
                .for_each(|x| expected.add(third(x)));
            expected
        }
        Workload::KeyedCount | Workload::StringKeys => {
            running_counts(keys, (0..records).map(|n| generate::key(n, keys)))
        }
        Workload::Kilobyte => running_counts(
            KILOBYTE_KEYS,
            (0..records).map(|n| generate::key(n, KILOBYTE_KEYS)),
        ),
        Workload::Words => {
            let lines = records / WORDS_PER_LINE;
            let words = |line: u64| generate::words_of((line % LINES as u64) as usize);
            running_counts(WORDS as u64, (0..lines).flat_map(words).map(u64::from))
        }
        Workload::Buckets => buckets(records),
    }
}

fn running_counts(keys: u64, records: impl Iterator<Item = u64>) -> Expected {
    let mut counts = vec![0u64; keys as usize];
    let mut expected = Expected::NOTHING;
    for key in records {
        let count = &mut counts[key as usize];
        *count += 1;
        expected.add(*count);
    }
    expected
}

fn buckets(records: u64) -> Expected {
    let mut expected = Expected::NOTHING;
    let mut sums = vec![None; BUCKET_KEYS as usize];
    let mut bucket = 0;
    for number in 0..records {
        let (key, value, time) = generate::bucket_record(number);
        if time / BUCKET_MS != bucket {
            bucket = time / BUCKET_MS;
            sums.iter_mut()
                .filter_map(Option::take)
                .for_each(|s| expected.add(mix(s)));
        }
        *sums[key as usize].get_or_insert(0) += value;
    }
    sums.iter_mut()
        .filter_map(Option::take)
        .for_each(|s| expected.add(mix(s)));
    expected
}
