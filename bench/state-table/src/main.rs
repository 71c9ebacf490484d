//! What the block table costs next to a good hash map, in one run and on one thread.
//!
//! For each number of keys given: random updates of `ValueState<u64, u64>` in passes of 1,024 records, keys
//! hashed and prefetched eight records ahead, as a keyed operator does it; the same updates of hashbrown,
//! hashing and updating record by record. Then a cut, updates while every block is still to be preserved, the
//! sweep of the rest, laying the sections out and restoring them. Figures are the best of several rounds, taken
//! in turns, since other programs run too.

use std::time::Duration;

use hashbrown::HashMap;
use tidegate_state::{Cut, Formats, KeyContext, KeyedTable, Progress, StateSetup, ValueState};
use tidegate_types::CheckpointId;
use tidegate_types::hash::key_hash;
use tidegate_types::key_group::HashRange;
use tidegate_types::snapshot::Encoding;

const PASS: usize = 1024;
const WINDOW: usize = 8;
const ROUNDS: u64 = 6;
const UPDATES: u64 = 4_000_000;

type State = ValueState<u64, u64>;
type Map = HashMap<u64, u64, foldhash::fast::FixedState>;

/// A moment in the thread's processor time.
#[derive(Clone, Copy)]
struct Cpu(Duration);

impl Cpu {
    fn now() -> Self {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the clock exists on every Linux, and `time` is a timespec to be written.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        Self(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    fn elapsed(self) -> Duration {
        Self::now().0 - self.0
    }
}

fn mix(mut x: u64) -> u64 {
    for _ in 0..2 {
        x ^= x >> 32;
        x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    x ^ (x >> 32)
}

fn hash(key: u64) -> u64 {
    key_hash(&key).expect("numbers have hashes")
}

fn open() -> State {
    let mut state = State::new();
    let range = Some(HashRange::ALL);
    let setup = StateSetup {
        uid: "bench".into(),
        range,
        formats: Formats::new(),
        now_ms: 0,
    };
    state.open("count", &setup).expect("opening succeeds");
    state
}

/// Random updates from number `start` on; nanoseconds per update and the longest pass.
fn update(state: &mut State, keys: u64, start: u64, count: u64) -> (f64, Duration) {
    let mut records = [(0u64, 0u64); PASS];
    let mut hashes = [0u64; PASS];
    let mut times = Vec::with_capacity((count / PASS as u64) as usize);
    for pass in 0..count / PASS as u64 {
        let at = Cpu::now();
        for (i, record) in records.iter_mut().enumerate() {
            let key = mix(start + pass * PASS as u64 + i as u64) % keys;
            *record = (key, hash(key));
            hashes[i] = record.1;
        }
        state.prefetch(&hashes[..WINDOW]);
        for (i, window) in records.chunks_exact(WINDOW).enumerate() {
            let next = (i + 1) * WINDOW;
            if next < PASS {
                state.prefetch(&hashes[next..next + WINDOW]);
            }
            for (key, hash) in window {
                state.update(KeyContext::new(key, *hash, 0), |count| *count += 1);
            }
        }
        times.push(at.elapsed());
    }
    summary(times)
}

/// Nanoseconds per record of the pass that a tenth of all is faster than, and the longest pass. The mean would
/// measure what else runs on the machine.
fn summary(mut times: Vec<Duration>) -> (f64, Duration) {
    times.sort_unstable();
    let typical = times.get(times.len() / 10).copied().unwrap_or_default();
    (
        typical.as_nanos() as f64 / PASS as f64,
        times.last().copied().unwrap_or_default(),
    )
}

fn update_map(map: &mut Map, keys: u64, start: u64, count: u64) -> f64 {
    let mut times = Vec::with_capacity((count / PASS as u64) as usize);
    for pass in 0..count / PASS as u64 {
        let at = Cpu::now();
        for i in 0..PASS as u64 {
            *map.entry(mix(start + pass * PASS as u64 + i) % keys).or_insert(0) += 1;
        }
        times.push(at.elapsed());
    }
    summary(times).0
}

/// What making and hashing the keys of [`update`] costs by itself.
fn hash_only(keys: u64) -> f64 {
    let mut times = Vec::new();
    let mut sum = 0u64;
    for pass in 0..1000 {
        let at = Cpu::now();
        for i in 0..PASS as u64 {
            sum = sum.wrapping_add(hash(mix(pass * PASS as u64 + i) % keys));
        }
        times.push(at.elapsed());
    }
    std::hint::black_box(sum);
    summary(times).0
}

fn insert_all(state: &mut State, keys: u64) -> (f64, Duration) {
    let mut longest = Duration::ZERO;
    let began = Cpu::now();
    for from in (0..keys).step_by(PASS) {
        let at = Cpu::now();
        let records: Vec<(u64, u64)> = (from..(from + PASS as u64).min(keys))
            .map(|key| (key, hash(key)))
            .collect();
        let hashes: Vec<u64> = records.iter().map(|(_, hash)| *hash).collect();
        for (i, window) in records.chunks(WINDOW).enumerate() {
            let next = hashes.get((i + 1) * WINDOW..).unwrap_or_default();
            state.prefetch(&next[..next.len().min(WINDOW)]);
            for (key, hash) in window {
                state.update(KeyContext::new(key, *hash, 0), |count| *count += 1);
            }
        }
        longest = longest.max(at.elapsed());
    }
    (began.elapsed().as_nanos() as f64 / keys as f64, longest)
}

fn cut(state: &mut State, id: u64) -> Duration {
    let began = Cpu::now();
    let (id, base) = (CheckpointId(id), None);
    state.cut(Cut {
        id,
        base,
        encoding: Encoding::Native,
        now_ms: 0,
    });
    began.elapsed()
}

/// Sweeps in steps of 100 µs; the whole time and the longest step.
fn sweep(state: &mut State) -> (Duration, Duration) {
    let (mut whole, mut longest) = (Duration::ZERO, Duration::ZERO);
    loop {
        let began = Cpu::now();
        let progress = state.sweep(&mut || began.elapsed() < Duration::from_micros(100));
        let took = began.elapsed();
        (whole, longest) = (whole + took, longest.max(took));
        if progress == Progress::Done {
            return (whole, longest);
        }
    }
}

fn measure(keys: u64) {
    println!("{keys} keys");
    let mut map = Map::default();
    let began = Cpu::now();
    for key in 0..keys {
        map.insert(key, 0);
    }
    let map_insert = began.elapsed().as_nanos() as f64 / keys as f64;
    let mut state = open();
    let (insert, longest) = insert_all(&mut state, keys);
    let bytes = state.metrics().table_bytes as f64 / keys as f64;
    println!("  insert        {insert:6.1} ns (hashbrown {map_insert:.1}), longest pass {longest:?}");
    println!("  bytes per key {bytes:6.1}");

    let (mut best, mut best_map) = (f64::MAX, f64::MAX);
    for round in 0..ROUNDS {
        best = best.min(update(&mut state, keys, round << 32, UPDATES).0);
        best_map = best_map.min(update_map(&mut map, keys, round << 32 | 1 << 31, UPDATES));
    }
    let hashing = hash_only(keys);
    println!(
        "  update        {best:6.1} ns (hashbrown {best_map:.1}), {hashing:.1} of it making and hashing keys"
    );
    drop(map);

    for id in 1..=3 {
        let cut = cut(&mut state, id);
        let (after, longest) = update(&mut state, keys, (100 + id) << 32, keys.min(2_000_000));
        println!("  cut {id}: {cut:?}; updates after it {after:.1} ns, longest pass {longest:?}");
        let (swept, longest) = sweep(&mut state);
        let snapshot = state.take_finished().expect("the sweep is done");
        println!(
            "    sweep of the rest {swept:?} in steps of at most {longest:?}, {} bytes",
            snapshot.size_bytes()
        );
    }
    let cut = cut(&mut state, 4);
    let (swept, longest) = sweep(&mut state);
    println!("  cut 4: {cut:?}; sweep of everything {swept:?} in steps of at most {longest:?}");
    let snapshot = state.take_finished().expect("the sweep is done");
    let began = Cpu::now();
    let sections = snapshot.into_sections().expect("numbers can be encoded");
    let laid_out = began.elapsed();
    let steady = update(&mut state, keys, 200 << 32, UPDATES).0;
    println!("  update again  {steady:6.1} ns");
    drop(state);
    let began = Cpu::now();
    let mut restored = open();
    for section in &sections {
        restored
            .restore(&section.head, &section.bytes)
            .expect("just written");
    }
    let took = began.elapsed();
    let each = took.as_nanos() as f64 / keys as f64;
    let bytes = restored.metrics().table_bytes as f64 / keys as f64;
    println!(
        "  {} sections laid out in {laid_out:?}; restored in {took:?} ({each:.1} ns a key, {bytes:.1} bytes)",
        sections.len()
    );
    let after = (0..3)
        .map(|r| update(&mut restored, keys, (300 + r) << 32, UPDATES).0)
        .fold(f64::MAX, f64::min);
    println!("  update after the restore {after:.1} ns");
}

fn main() {
    let keys: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|arg| arg.parse().ok())
        .collect();
    for keys in if keys.is_empty() {
        vec![1_000_000, 10_000_000]
    } else {
        keys
    } {
        measure(keys);
    }
}
