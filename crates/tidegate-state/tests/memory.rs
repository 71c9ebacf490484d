//! The table's own memory under a checker: the stress below runs again under valgrind, which fails it on any
//! access outside of what is allocated, on any read of what was never written, and on anything lost.

mod support;

use std::process::Command;

use support::{at, cut, opened, restore};
use tidegate_state::conformance::Seeded;
use tidegate_state::{KeyedTable, ListState, MapState, Ttl, ValueState};
use tidegate_types::CheckpointId;
use tidegate_types::snapshot::Encoding;

/// Keys and values that own memory, splits, removals, cuts, aborts, collections that grow apart, restores.
fn stress(seed: u64, steps: u64) {
    let mut random = Seeded::new(seed);
    let mut values = opened(ValueState::<String, Option<Box<u64>>>::with_ttl(
        Ttl::from_millis(400),
    ));
    let mut lists = opened(ListState::<String, String>::new());
    let mut maps = opened(MapState::<String, String, Vec<u8>>::new());
    let mut id = 0;
    for step in 0..steps {
        let now = step as i64;
        let key = format!("key {}", random.below(300));
        let at = at(&key, now);
        match random.below(8) {
            0 => values.clear(at),
            1 => drop(values.get(at)),
            _ => values.update(at, |value| *value = Some(Box::new(step))),
        }
        match random.below(60) {
            0 => drop(lists.take(at)),
            _ => lists.add(at, "element ".repeat(random.below(4) as usize)),
        }
        // One map in fifty gets most of the entries.
        let owner = if random.one_in(2) {
            "favourite".to_owned()
        } else {
            format!("key {}", random.below(50))
        };
        let owner = support::at(&owner, now);
        let inner = format!("inner {}", random.below(200));
        match random.below(4) {
            0 => drop(maps.remove(owner, &inner)),
            _ => drop(maps.insert(owner, inner, vec![step as u8; 5])),
        }
        if random.one_in(150) {
            id += 1;
            for table in [&mut values as &mut dyn KeyedTable<String>, &mut lists, &mut maps] {
                table.cut(cut(id, Encoding::Native, now));
            }
        }
        if random.one_in(20) {
            for table in [&mut values as &mut dyn KeyedTable<String>, &mut lists, &mut maps] {
                let mut budget = 3;
                table.sweep(&mut || {
                    budget -= 1;
                    budget > 0
                });
                if random.one_in(20) {
                    table.decided(CheckpointId(id), tidegate_state::Outcome::Aborted);
                }
            }
        }
        if let Some(snapshot) = values.take_finished() {
            let sections = snapshot.into_sections().expect("everything can be encoded");
            let restored =
                restore(ValueState::<String, Option<Box<u64>>>::new(), &sections).expect("nothing changed");
            assert!(restored.len() <= 300);
        }
    }
    lists.cut(cut(id + 1, Encoding::Native, 0));
    lists.sweep(&mut || true);
    let mut total = 0;
    for key in 0..300 {
        total += lists.len(at(&format!("key {key}"), 0));
    }
    assert!(total > 0, "the stress did something");
}

/// Set for the run under the checker, which is some thirty times slower.
const SHORT: &str = "TIDEGATE_SHORT_STRESS";

#[test]
fn stress_leaves_the_tables_whole() {
    let (seeds, steps) = if std::env::var_os(SHORT).is_some() {
        (2, 1500)
    } else {
        (20, 3000)
    };
    (0..seeds).for_each(|seed| stress(seed, steps));
}

#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn memory_is_used_rightly_under_valgrind() {
    let program = std::env::current_exe().expect("a test knows its program");
    let output = Command::new("valgrind")
        .args([
            "--quiet",
            "--error-exitcode=99",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
        ])
        .arg(program)
        .args(["stress_leaves_the_tables_whole", "--exact", "--test-threads=1"])
        .env(SHORT, "yes")
        .output()
        .expect("valgrind is installed (Debian: apt-get install valgrind)");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
