//! C19, changed types: two integer fields swapped, a field added, a variant renamed, a type with `flatten`; restored
//! natively and from a canonical savepoint. Each is refused by uid, state and field, or read right; never misread.

use serde::{Deserialize, Serialize};
use tidegate::prelude::*;
use tidegate_protocol::coordinator::CheckpointStatus;
use tidegate_runtime::master::RestoreChoice;
use tidegate_sim::log::{LogSink, Topic};
use tidegate_sim::process::Job;
use tidegate_types::SavepointFormat;
use tidegate_types::codec::Record;

use crate::kit::{Feed, World, configure, job_of};

/// A version of a state's type.
trait Version: Record {
    /// What stands in state after key `n`.
    fn make(n: u64) -> Self;

    /// What it says, in the words of the newest version.
    fn tell(&self) -> String;
}

macro_rules! version {
    ($type:ident, $make:expr, $tell:expr) => {
        impl Version for $type {
            fn make(n: u64) -> Self {
                let make: fn(u64) -> Self = $make;
                make(n)
            }

            fn tell(&self) -> String {
                let tell: fn(&Self) -> String = $tell;
                tell(self)
            }
        }
    };
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Pair {
    left: u64,
    right: u64,
}
version!(
    Pair,
    |n| Self {
        left: n,
        right: n + 1000
    },
    |p| format!("{} {}", p.left, p.right)
);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Swapped {
    right: u64,
    left: u64,
}
version!(
    Swapped,
    |n| Self {
        left: n,
        right: n + 1000
    },
    |p| format!("{} {}", p.left, p.right)
);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Added {
    left: u64,
    #[serde(default)]
    middle: u64,
    right: u64,
}
version!(
    Added,
    |n| Self {
        left: n,
        middle: 0,
        right: n + 1000
    },
    |p| format!("{} {}", p.left, p.right)
);

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Choice {
    First(u64),
    Second { of: u64 },
}
version!(
    Choice,
    |n| if n % 2 == 0 {
        Self::First(n)
    } else {
        Self::Second { of: n }
    },
    |c| match c {
        Choice::First(n) => format!("first {n}"),
        Choice::Second { of } => format!("second {of}"),
    }
);

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Renamed {
    First(u64),
    Other { of: u64 },
}
version!(Renamed, |n| Self::First(n), |c| match c {
    Renamed::First(n) => format!("first {n}"),
    Renamed::Other { of } => format!("second {of}"),
});

/// The user knows that it was renamed, and says so to serde.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Aliased {
    First(u64),
    #[serde(alias = "Second")]
    Other {
        of: u64,
    },
}
version!(Aliased, |n| Self::First(n), |c| match c {
    Aliased::First(n) => format!("first {n}"),
    Aliased::Other { of } => format!("second {of}"),
});

/// Serialises as a map of unknown length: it has no native form.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Flat {
    left: u64,
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Rest {
    right: u64,
}
version!(
    Flat,
    |n| Self {
        left: n,
        rest: Rest { right: n + 1000 }
    },
    |p| format!("{} {}", p.left, p.rest.right)
);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct FlatSwapped {
    #[serde(flatten)]
    rest: Rest,
    left: u64,
}
version!(
    FlatSwapped,
    |n| Self {
        left: n,
        rest: Rest { right: n + 1000 }
    },
    |p| format!("{} {}", p.left, p.rest.right)
);

/// Keeps a value per key, and tells it at the end.
struct Keep<V: Version> {
    kept: ValueState<u64, V>,
}

impl<V: Version> ProcessFunction<u64, u64, (String, u64)> for Keep<V> {
    fn state(&mut self, states: &mut States<'_, u64>) {
        states.value("kept", &mut self.kept);
    }

    fn process(
        &mut self,
        value: u64,
        cx: &mut ProcessContext<'_, u64, (String, u64)>,
    ) -> Result<(), BoxError> {
        self.kept.set(cx.at(), V::make(value));
        cx.register_event_timer(i64::MAX);
        Ok(())
    }

    fn on_timer(
        &mut self,
        _: Timer,
        cx: &mut ProcessContext<'_, u64, (String, u64)>,
    ) -> Result<(), BoxError> {
        let told = self.kept.get(cx.at()).map(V::tell).unwrap_or_default();
        cx.collect((told, *cx.key()));
        Ok(())
    }
}

/// A job that keeps `V`, and whose records in flight are `V` too if `flying`.
fn job<V: Version>(feed: &Feed<u64>, topic: &Topic<(String, u64)>, mode: &str, flying: bool) -> Job {
    let mut env = Environment::new("changed");
    configure(
        &mut env,
        &[
            ("execution.checkpointing.mode", mode),
            ("task.gate.budget", "fixed:64"),
            ("restart-strategy.type", "fixed-delay"),
            ("restart-strategy.fixed-delay.attempts", "infinite"),
        ],
    );
    let source = env.source("source", feed.clone()).uid("source");
    let told = if flying {
        source
            .map("make", |n: u64| (n, V::make(n)))
            .uid("make")
            .rebalance()
            .map("tell", |(n, v): (u64, V)| (v.tell(), n))
            .uid("tell")
    } else {
        source
            .key_by(|n: &u64| *n)
            .process("keep", || Keep::<V> {
                kept: ValueState::default(),
            })
            .uid("keep")
    };
    let _sink = told.sink("out", LogSink::new(topic.clone())).uid("out");
    job_of(&env)
}

const KEYS: u64 = 20;

/// How the snapshot was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Taken {
    Natively,
    Canonically,
    /// Natively, with all values in flight.
    InFlight,
}

/// What came of restoring.
#[derive(Debug, PartialEq)]
enum Restored {
    Right,
    Refused(String),
}

/// Takes a snapshot with `Old` values and restores it into a job with `New` ones.
fn change<Old: Version, New: Version>(taken: Taken) -> Restored {
    let mut world = World::new(taken as u64);
    let feed = Feed::new(1);
    feed.append(0, 0..KEYS);
    let topic = world.topic("out", (0..KEYS).map(|n| (Old::make(n).tell(), n)).collect());
    let flying = taken == Taken::InFlight;
    let old = job::<Old>(
        &feed,
        &topic,
        if flying { "unaligned" } else { "aligned" },
        flying,
    );
    world.run(old);
    if flying {
        world.hold("tell");
    }
    world.until("all is read", |w| w.records_out(w.id("source", 0)) == KEYS);
    let restore = if taken == Taken::Canonically {
        let request = world.trigger_savepoint(SavepointFormat::Canonical, false);
        world.until("the savepoint is complete", |w| w.answer(request).is_some());
        let stats = world.newest_complete().expect("it is complete");
        assert_eq!(stats.status, CheckpointStatus::Completed);
        RestoreChoice::Path(stats.path.expect("a savepoint says where it is"))
    } else {
        let (request, id) = world.begin();
        world.until("the source has cut", |w| w.has_acked(id, w.id("source", 0)));
        if flying {
            world.release("tell");
        }
        world.until("it is complete", |w| w.answer(request).is_some());
        let stats = world.newest_complete().expect("it is complete");
        let stored: u64 = if flying {
            world.in_flight(&stats, "tell").values().sum()
        } else {
            KEYS
        };
        assert_eq!(stored, KEYS);
        world.path_of(stats.id)
    };
    world.crash();

    feed.end_all();
    let new = Job {
        restore,
        ..job::<New>(&feed, &topic, "aligned", flying)
    };
    world.start(new);
    match world.ended() {
        Ok(JobOutcome::Finished) => {
            assert_eq!(
                topic.problems(),
                Vec::<String>::new(),
                "misread: {}",
                world.tail()
            );
            world.assert_clean();
            Restored::Right
        }
        Err(error) => {
            assert_eq!(topic.visible(), 0, "what is refused puts nothing out");
            let error = error.to_string();
            assert!(!error.contains("restart"), "no restart can help: {error}");
            Restored::Refused(error)
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_refused(restored: Restored, names: &[&str]) {
    let Restored::Refused(error) = restored else {
        panic!("it was read")
    };
    for name in names {
        assert!(error.contains(name), "`{name}` isn't in: {error}");
    }
}

#[test]
fn natively_a_changed_type_is_refused_by_uid_state_and_field() {
    let place = ["keep", "kept"];
    let with = |field: &'static str| [place[0], place[1], field];
    assert_refused(change::<Pair, Swapped>(Taken::Natively), &with("left"));
    assert_refused(change::<Pair, Added>(Taken::Natively), &with("middle"));
    assert_refused(change::<Choice, Renamed>(Taken::Natively), &with("Other"));
    // An alias keeps serde from saying what the variants are, so the new type has no native form.
    assert_refused(change::<Choice, Aliased>(Taken::Natively), &with("native form"));
    assert_refused(change::<Pair, Choice>(Taken::Natively), &place);
}

#[test]
fn from_a_canonical_savepoint_it_is_read_right_or_refused() {
    assert_eq!(change::<Pair, Swapped>(Taken::Canonically), Restored::Right);
    assert_eq!(change::<Pair, Added>(Taken::Canonically), Restored::Right);
    assert_eq!(change::<Choice, Aliased>(Taken::Canonically), Restored::Right);
    // Without the alias serde doesn't know the variant.
    let renamed = change::<Choice, Renamed>(Taken::Canonically);
    assert_refused(renamed, &["keep", "kept", "Second"]);
    let other = change::<Pair, Choice>(Taken::Canonically);
    assert_refused(other, &["keep", "kept"]);
}

/// Such a type is stored self-describing in every snapshot.
#[test]
fn a_type_with_flatten_is_read_right_from_both() {
    for taken in [Taken::Natively, Taken::Canonically] {
        assert_eq!(change::<Flat, Flat>(taken), Restored::Right, "{taken:?}");
        assert_eq!(change::<Flat, FlatSwapped>(taken), Restored::Right, "{taken:?}");
    }
    assert_eq!(change::<Flat, Pair>(Taken::Canonically), Restored::Right);
}

#[test]
fn an_unchanged_type_is_read_right_from_both() {
    for taken in [Taken::Natively, Taken::Canonically, Taken::InFlight] {
        assert_eq!(change::<Pair, Pair>(taken), Restored::Right, "{taken:?}");
        assert_eq!(change::<Choice, Choice>(taken), Restored::Right, "{taken:?}");
    }
}

#[test]
fn records_in_flight_of_a_changed_type_are_refused_by_their_edge_and_field() {
    let refused = |restored, field| assert_refused(restored, &["tell", "in-flight", "input 0", field]);
    refused(change::<Pair, Swapped>(Taken::InFlight), "left");
    refused(change::<Pair, Added>(Taken::InFlight), "middle");
    refused(change::<Choice, Renamed>(Taken::InFlight), "Other");
    assert_eq!(change::<Flat, FlatSwapped>(Taken::InFlight), Restored::Right);
}
