//! The figures of a run in sum, in words and as JSON.

use std::time::Duration;

use serde::Serialize;
use tidegate_types::options::OptionValue;

use super::super::keyed::{Proof, Workload};
use super::Plan;
use super::row::{Persisted, Row};
use crate::error::CliError;
use crate::render::{Spread, count, ms, plural, size, spread, spread_of_times, table, time};

/// What a run came to, as `--json` prints it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Summary {
    pub(super) mode: String,
    pub(super) in_flight: String,
    /// Checkpoints that were measured: all but the first.
    checkpoints: u64,
    duration_min_ms: f64,
    duration_median_ms: f64,
    duration_max_ms: f64,
    size_min_bytes: u64,
    size_median_bytes: u64,
    size_max_bytes: u64,
    in_flight_median_bytes: u64,
    in_flight_median_records: u64,
    /// Subtasks in which a barrier overtook, and those in which none did, over all these checkpoints.
    switched: u64,
    unswitched: u64,
    /// A bare durable write of `durable_write_bytes` in the same directory.
    durable_write_ms: f64,
    durable_write_bytes: u64,
    exact: bool,
    lost: u64,
    duplicated: u64,
    records: u64,
    keys: u64,
    restore_ms: f64,
    replayed_records: u64,
    persisted: Persisted,
    #[serde(skip)]
    durations: Spread<Duration>,
    #[serde(skip)]
    durable: Duration,
    #[serde(skip)]
    restored: Duration,
}

impl Summary {
    /// Over the checkpoints measured; `durable` is a bare write's size and time.
    pub(super) fn of(
        mode: &str,
        in_flight: &str,
        rows: &[Row],
        durable: (u64, Duration),
        restored: Duration,
        proof: Proof,
    ) -> Self {
        let none = Spread {
            min: 0,
            median: 0,
            max: 0,
        };
        let zero = Duration::ZERO;
        let durations = spread_of_times(rows.iter().map(|r| r.duration));
        let durations = durations.unwrap_or(Spread {
            min: zero,
            median: zero,
            max: zero,
        });
        let sizes = spread(rows.iter().map(|r| r.size_bytes)).unwrap_or(none);
        let mut persisted = Persisted::default();
        rows.iter().for_each(|row| persisted.add(&row.persisted));
        Self {
            mode: mode.to_owned(),
            in_flight: in_flight.to_owned(),
            checkpoints: rows.len() as u64,
            duration_min_ms: ms(durations.min),
            duration_median_ms: ms(durations.median),
            duration_max_ms: ms(durations.max),
            size_min_bytes: sizes.min,
            size_median_bytes: sizes.median,
            size_max_bytes: sizes.max,
            in_flight_median_bytes: spread(rows.iter().map(|r| r.in_flight_bytes))
                .unwrap_or(none)
                .median,
            in_flight_median_records: spread(rows.iter().map(|r| r.in_flight_records))
                .unwrap_or(none)
                .median,
            switched: rows.iter().map(|r| r.switched).sum(),
            unswitched: rows.iter().map(|r| r.unswitched).sum(),
            durable_write_ms: ms(durable.1),
            durable_write_bytes: durable.0,
            exact: proof.exact,
            lost: proof.lost,
            duplicated: proof.duplicated,
            records: proof.records,
            keys: proof.keys,
            restore_ms: ms(restored),
            replayed_records: proof.replayed,
            persisted,
            durations,
            durable: durable.1,
            restored,
        }
    }

    fn counts(&self) -> String {
        match (self.exact, self.lost) {
            (true, _) => "exact".to_owned(),
            (false, 0) => format!("{} twice", count(self.duplicated)),
            (false, lost) => format!("{} LOST, {} twice", count(lost), count(self.duplicated)),
        }
    }
}

/// What will be seen.
pub(super) fn introduction(plan: &Plan, workload: &Workload) -> String {
    let n = workload.parallelism.0;
    format!(
        "{} at full speed, {} a record, by key ({} keys), {} of work per record; a checkpoint every {}",
        plural(u64::from(n), "generator"),
        size(u64::from(workload.payload)),
        count(u64::from(workload.keys)),
        time(workload.work),
        plan.interval.render()
    )
}

/// The head of a run's rows.
pub(super) struct Head {
    title: String,
}

impl Head {
    pub(super) fn new(mode: &str, in_flight: &str) -> Self {
        let queues = match in_flight.strip_prefix("fixed:") {
            Some(records) => format!("gates queue {records} records per channel"),
            None => format!("gates queue {in_flight} of work"),
        };
        Self {
            title: format!("{mode}; {queues}"),
        }
    }

    pub(super) fn lines(&self) -> [String; 3] {
        let head = cells(
            "checkpoint",
            [
                "duration",
                "bytes",
                "state",
                "in flight",
                "records",
                "overtook in",
            ],
        );
        [String::new(), self.title.clone(), head]
    }
}

fn cells<T: AsRef<str>>(first: &str, others: [T; 6]) -> String {
    let others: Vec<String> = others
        .iter()
        .map(|cell| format!("{:>12}", cell.as_ref()))
        .collect();
    format!("{first:>10}{}", others.concat())
}

/// A row as people read it.
pub(super) fn row_in_words(row: &Row) -> String {
    let subtasks = row.switched + row.unswitched;
    cells(
        &row.checkpoint.to_string(),
        [
            time(row.duration),
            size(row.size_bytes),
            size(row.state_bytes),
            size(row.in_flight_bytes),
            count(row.in_flight_records),
            format!("{} of {subtasks}", row.switched),
        ],
    )
}

/// What a run came to, in words.
pub(super) fn in_words(s: &Summary) -> Vec<String> {
    let mut lines = vec![format!(
        "  {} after the first: {} (min) {} (median) {} (max); {} {} {}; a bare durable write of {}: {}",
        plural(s.checkpoints, "checkpoint"),
        time(s.durations.min),
        time(s.durations.median),
        time(s.durations.max),
        size(s.size_min_bytes),
        size(s.size_median_bytes),
        size(s.size_max_bytes),
        size(s.durable_write_bytes),
        time(s.durable)
    )];
    let parts = [
        ("producer", &s.persisted.by_producer),
        ("consumer", &s.persisted.by_consumer),
        ("edge", &s.persisted.by_edge),
    ];
    for (what, bytes) in parts {
        if !bytes.is_empty() {
            let each: Vec<String> = bytes
                .iter()
                .map(|(name, bytes)| format!("{name} {}", size(*bytes)))
                .collect();
            lines.push(format!("  in flight by {what}: {}", each.join(", ")));
        }
    }
    lines.push(format!(
        "  a task was killed: the next record was counted {} later, {} processed again",
        time(s.restored),
        plural(s.replayed_records, "record")
    ));
    let of = format!("{} of {}", plural(s.records, "record"), plural(s.keys, "key"));
    lines.push(match s.exact {
        true => format!("  counts: exact, {of}"),
        false => format!(
            "  counts: {} lost and {} counted twice, {of}",
            count(s.lost),
            count(s.duplicated)
        ),
    });
    lines
}

/// All runs side by side.
pub(super) fn overview(all: &[Summary]) -> Vec<String> {
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|s| {
            vec![
                format!("{}, {}", s.mode, s.in_flight),
                time(s.durations.min),
                time(s.durations.median),
                time(s.durations.max),
                size(s.size_median_bytes),
                size(s.in_flight_median_bytes),
                format!("{} of {}", s.switched, s.switched + s.unswitched),
                time(s.durable),
                time(s.restored),
                count(s.replayed_records),
                s.counts(),
            ]
        })
        .collect();
    let head = [
        "mode, gates",
        "min",
        "median",
        "max",
        "bytes",
        "in flight",
        "overtook in",
        "bare write",
        "restored in",
        "replayed",
        "counts",
    ];
    std::iter::once(String::new())
        .chain(table(&head, &rows))
        .collect()
}

/// Whether the demo showed what it is to show: nothing is lost in any mode, and only at-least-once counts twice.
pub(super) fn verdict(all: &[Summary]) -> Result<(), CliError> {
    let wrong = |s: &&Summary| s.lost > 0 || (s.duplicated > 0 && s.mode != "at-least-once");
    let wrong: Vec<String> = all
        .iter()
        .filter(wrong)
        .map(|s| format!("{}, {}: {}", s.mode, s.in_flight, s.counts()))
        .collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(CliError::Failed(format!(
            "the counts are wrong. {}",
            wrong.join("; ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(duration_ms: u64, bytes: u64) -> Row {
        let json = |name: &str| (name.to_owned(), bytes);
        Row {
            mode: "unaligned".into(),
            in_flight: "fixed:150".into(),
            checkpoint: 2,
            duration_ms: duration_ms as f64,
            acknowledged_ms: 0.0,
            size_bytes: bytes,
            state_bytes: 0,
            in_flight_bytes: bytes,
            in_flight_records: 3,
            switched: 3,
            unswitched: 1,
            subtasks: Vec::new(),
            duration: Duration::from_millis(duration_ms),
            persisted: Persisted {
                by_edge: [json("a to b")].into(),
                ..Persisted::default()
            },
        }
    }

    fn proof(lost: u64, duplicated: u64) -> Proof {
        Proof {
            exact: lost + duplicated == 0,
            lost,
            duplicated,
            records: 100,
            keys: 7,
            replayed: 5,
        }
    }

    fn summary(mode: &str, proof: Proof) -> Summary {
        let rows = [row(10, 1000), row(30, 3000)];
        Summary::of(
            mode,
            "fixed:150",
            &rows,
            (2000, Duration::from_millis(1)),
            Duration::from_millis(40),
            proof,
        )
    }

    #[test]
    fn json_has_the_names_that_others_read() {
        let value = serde_json::json!(summary("unaligned", proof(0, 0)));
        for (name, expected) in [
            ("mode", serde_json::json!("unaligned")),
            ("in_flight", "fixed:150".into()),
            ("duration_median_ms", 20.0.into()),
            ("size_max_bytes", 3000.into()),
            ("exact", true.into()),
            ("lost", 0.into()),
            ("duplicated", 0.into()),
            ("restore_ms", 40.0.into()),
            ("replayed_records", 5.into()),
            ("durable_write_ms", 1.0.into()),
        ] {
            assert_eq!(value[name], expected, "{name}");
        }
        assert_eq!(value["persisted"]["by_edge"]["a to b"], 4000);
        let row = serde_json::json!(row(10, 1000));
        for name in [
            "mode",
            "in_flight",
            "checkpoint",
            "duration_ms",
            "size_bytes",
            "state_bytes",
            "in_flight_bytes",
        ] {
            assert!(!row[name].is_null(), "{name}");
        }
        assert!(row["duration"].is_null() && row["subtasks"].is_array());
    }

    #[test]
    fn only_at_least_once_may_count_twice_and_nothing_may_be_lost() {
        assert!(
            verdict(&[
                summary("aligned", proof(0, 0)),
                summary("at-least-once", proof(0, 9))
            ])
            .is_ok()
        );
        assert!(verdict(&[summary("aligned", proof(0, 1))]).is_err());
        let error = verdict(&[summary("at-least-once", proof(1, 0))]).expect_err("one is lost");
        assert!(error.to_string().contains("1 LOST"), "{error}");
    }

    #[test]
    fn words_say_the_same_as_the_figures() {
        let words = in_words(&summary("at-least-once", proof(0, 9))).join("\n");
        for part in [
            "10.0 ms (min) 20.0 ms (median) 30.0 ms (max)",
            "edge: a to b 4.0 KB",
            "40.0 ms later",
            "9 counted twice",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
        let head = Head::new("aligned", "100 ms").lines();
        assert_eq!(head[1], "aligned; gates queue 100 ms of work");
        assert_eq!(head[2].chars().count(), row_in_words(&row(1, 1)).chars().count());
        let overview = overview(&[summary("aligned", proof(0, 0))]);
        assert!(
            overview[2].starts_with("aligned, fixed:150") && overview[2].ends_with("exact"),
            "{overview:?}"
        );
    }
}
