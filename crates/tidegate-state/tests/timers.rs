//! Timers: order, deduplication, cuts in the middle of firing, restore.

mod support;

use std::collections::BTreeSet;

use support::{at, cut, finish, opened, restore, snapshot};
use tidegate_state::conformance::Seeded;
use tidegate_state::{KeyedTable, Timers};
use tidegate_types::snapshot::{Encoding, SectionKind};

fn fire_all(timers: &mut Timers<u64>, up_to: i64) -> Vec<(i64, u64)> {
    std::iter::from_fn(|| timers.pop_due(up_to))
        .map(|due| (due.time, due.key))
        .collect()
}

#[test]
fn timers_fire_in_time_order_and_once() {
    let mut timers = opened(Timers::<u64>::new());
    for time in [30, 10, 20, 10] {
        assert_eq!(
            timers.register(at(&1, 0), time),
            !(time == 10 && timers.len() == 3)
        );
    }
    assert!(
        timers.register(at(&2, 0), 10),
        "another key's timer is another timer"
    );
    assert!(timers.delete(at(&1, 0), 20));
    assert!(!timers.delete(at(&1, 0), 20));
    assert_eq!((timers.next_due(), timers.len()), (Some(10), 3));
    let mut first = fire_all(&mut timers, 29);
    first.sort_unstable();
    assert_eq!(first, [(10, 1), (10, 2)]);
    assert_eq!(timers.next_due(), Some(30));
    assert_eq!(timers.pop_due(29), None);
    assert_eq!(fire_all(&mut timers, i64::MAX), [(30, 1)]);
    assert!(timers.is_empty());
    assert_eq!(timers.next_due(), None);
}

#[test]
fn a_timer_registered_while_firing_fires_if_it_is_due() {
    let mut timers = opened(Timers::<u64>::new());
    timers.register(at(&1, 0), 10);
    assert_eq!(timers.pop_due(50).map(|due| due.time), Some(10));
    timers.register(at(&1, 0), 10);
    timers.register(at(&1, 0), 60);
    assert_eq!(fire_all(&mut timers, 50), [(10, 1)]);
}

#[test]
fn extreme_times_are_times() {
    let mut timers = opened(Timers::<u64>::new());
    timers.register(at(&1, 0), i64::MAX);
    timers.register(at(&1, 0), i64::MIN);
    assert_eq!(fire_all(&mut timers, i64::MAX), [(i64::MIN, 1), (i64::MAX, 1)]);
}

#[test]
fn a_cut_in_the_middle_of_firing_has_exactly_the_rest() {
    let mut timers = opened(Timers::<u64>::new());
    for key in 0..300 {
        for time in 0..(1 + key % 7) {
            timers.register(at(&key, 0), time as i64 * 10 + (key % 3) as i64);
        }
    }
    // One key with so many that they have blocks of their own.
    for time in 0..1000 {
        timers.register(at(&1000, 0), time);
    }
    let all = timers.len();
    let fired: Vec<_> = (0..500)
        .map_while(|_| timers.pop_due(1000))
        .map(|due| (due.time, due.key))
        .collect();
    timers.cut(cut(1, Encoding::Native, 0));
    // Firing goes on before the sweep.
    let rest = fire_all(&mut timers, 1000);
    assert_eq!(fired.len() + rest.len(), all);
    let sections = finish(&mut timers).expect("times can be encoded");
    assert_eq!(sections[0].head.kind, SectionKind::Timers);
    let mut restored = restore(Timers::<u64>::new(), &sections).expect("nothing changed");
    assert_eq!(restored.len(), rest.len());
    assert_eq!(fire_all(&mut restored, 1000), rest, "in the same order");
}

#[test]
fn random_timers_agree_with_a_set() {
    for seed in 0..100 {
        let mut random = Seeded::new(seed);
        let (mut timers, mut model) = (opened(Timers::<u64>::new()), BTreeSet::new());
        let mut watermark = 0;
        for _ in 0..600 {
            let (key, time) = (random.below(20), watermark + random.below(50) as i64);
            match random.below(10) {
                0..=5 => assert_eq!(timers.register(at(&key, 0), time), model.insert((time, key))),
                6 => assert_eq!(timers.delete(at(&key, 0), time), model.remove(&(time, key))),
                7 => {
                    let sections = snapshot(&mut timers, Encoding::Canonical, 0);
                    let mut restored = restore(Timers::<u64>::new(), &sections).expect("nothing changed");
                    let fired: BTreeSet<_> = fire_all(&mut restored, i64::MAX).into_iter().collect();
                    assert_eq!(fired, model, "seed {seed}");
                }
                _ => {
                    watermark += random.below(20) as i64;
                    for (time, key) in fire_all(&mut timers, watermark) {
                        assert!(model.remove(&(time, key)) && time <= watermark, "seed {seed}");
                    }
                    assert!(
                        model.first().is_none_or(|(time, _)| *time > watermark),
                        "seed {seed}"
                    );
                }
            }
            assert_eq!(
                (timers.len(), timers.next_due()),
                (model.len(), model.first().map(|(time, _)| *time))
            );
        }
    }
}
