//! `tidegate demo interval`: the same job under the same load at several checkpoint intervals.
//!
//! Records are due on a schedule that the job can keep. A short interval costs checkpoints; a long one costs what
//! has to be done again after a kill, and the time until the job has caught up. Each round kills at another moment
//! after a checkpoint, so that the rounds are spread over the interval.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tidegate_protocol::coordinator::CheckpointStatus;
use tidegate_types::options::{OptionValue, keys};
use tidegate_types::{Nanos, SnapshotMode};

use super::keyed::{self, Probe, Proof, Workload, build, configure, drain, prove};
use super::own_directory;
use crate::args::{Global, IntervalArgs};
use crate::console::Console;
use crate::error::CliError;
use crate::render::{count, ms, size, spread, spread_of_times, table, time};
use crate::session::{Running, Session};
use crate::settings::Decided;

/// Checkpoints before the kill; the first is left out of the figures.
const CHECKPOINTS: u64 = 3;

/// A job whose lag is at most this many times what it was before the kill has caught up.
const CAUGHT_UP: u64 = 2;

/// One run, as `--json` prints it.
#[derive(Debug, Clone, Serialize)]
struct Round {
    interval_ms: f64,
    round: u32,
    checkpoints: u64,
    duration_median_ms: f64,
    duration_max_ms: f64,
    /// Records that were due and hadn't been read, before the kill and at the worst moment after it.
    lag_median_records: u64,
    lag_peak_records: u64,
    /// How long after the newest checkpoint's trigger the task was killed.
    killed_after_ms: f64,
    replayed_records: u64,
    restore_ms: f64,
    caught_up_ms: f64,
    exact: bool,
    lost: u64,
    duplicated: u64,
    records: u64,
    /// The mode is at-least-once.
    #[serde(skip)]
    may_repeat: bool,
    #[serde(skip)]
    times: Times,
}

#[derive(Debug, Clone, Copy)]
struct Times {
    interval: Duration,
    median: Duration,
    max: Duration,
    restored: Duration,
    caught_up: Duration,
}

/// The options that the demo decides.
fn decided() -> Vec<Decided> {
    let mut all = keyed::decided().to_vec();
    all.push((keys::CHECKPOINT_INTERVAL.key(), Some("--intervals")));
    all
}

/// Runs the demo.
pub(super) fn run(console: &Console, global: &Global, args: &IntervalArgs) -> Result<(), CliError> {
    let session = Session::start(console, global, "interval", &decided())?;
    let workload = Workload {
        parallelism: args.parallelism,
        work: args.work,
        payload: args.payload,
        keys: args.keys,
        per_second: Some(args.rate),
    };
    let done = measure(&session, &workload, args);
    session.end(done)
}

fn measure(session: &Session<'_>, workload: &Workload, args: &IntervalArgs) -> Result<(), CliError> {
    let console = session.console;
    session.until_interrupted(async {
        if !args.json {
            console.line(introduction(workload))?;
            console.line(row(HEAD.map(str::to_owned)))?;
        }
        let mut rounds = Vec::new();
        for interval in &args.intervals {
            for number in 1..=args.rounds {
                let measure = Measure {
                    session,
                    args,
                    workload: *workload,
                    interval: *interval,
                    number,
                };
                let round = measure.round().await?;
                match args.json {
                    true => console.line(serde_json::json!(round))?,
                    false => console.line(in_words(&round))?,
                }
                rounds.push(round);
            }
        }
        console.clear();
        report(console, args, &rounds)?;
        let wrong = rounds
            .iter()
            .find(|round| round.lost > 0 || (round.duplicated > 0 && !round.may_repeat));
        match wrong {
            None => Ok(()),
            Some(r) => Err(CliError::Failed(format!(
                "the counts are wrong at interval {}, round {}: {} lost, {} twice",
                r.times.interval.render(),
                r.round,
                r.lost,
                r.duplicated
            ))),
        }
    })
}

struct Measure<'a> {
    session: &'a Session<'a>,
    args: &'a IntervalArgs,
    workload: Workload,
    interval: Duration,
    number: u32,
}

impl Measure<'_> {
    async fn round(&self) -> Result<Round, CliError> {
        let dir = own_directory(self.args.dir.as_deref())?;
        let measured = self.measured(dir.path()).await;
        if measured.is_err() {
            self.session.give_up().await;
        }
        measured
    }

    async fn measured(&self, dir: &Path) -> Result<Round, CliError> {
        let probe = Probe::new(&self.session.engine, &self.workload);
        let mut configured = Ok(());
        let env = self.session.environment(|c| {
            configured = configure(c, &self.workload, dir, ("--intervals", self.interval));
            if let Some(mode) = self.args.mode {
                c.set_flag("--mode", &keys::CHECKPOINT_MODE, mode);
            }
        });
        configured?;
        build(&env, &self.workload, &probe);
        let running = self.session.launch(&env)?;

        let mut lags = self.until_checkpoints(&running, &probe).await?;
        let triggered = self.until_kill(&running, &probe, &mut lags).await?;
        let before = spread(lags).map_or(0, |lag| lag.median);
        let durations = running.board().with(|status| {
            let complete = status
                .history
                .recent()
                .filter(|c| c.status == CheckpointStatus::Completed && c.id.0 > 1);
            let took = complete.map(|c| {
                c.ended_at
                    .map_or_else(|| c.end_to_end(), |at| at.since(c.triggered_at))
            });
            took.collect::<Vec<Duration>>()
        });
        let killed = self.session.engine.now();
        probe.kill();
        let after = self.until_caught_up(&running, &probe, before).await?;
        self.say("draining");
        drain(&running).await?;
        let round = self.summed_up(
            &durations,
            killed.since(triggered),
            before,
            &after,
            prove(&probe, &self.workload),
        );
        let mode = running.running().settings().checkpoints.mode;
        Ok(Round {
            may_repeat: mode == SnapshotMode::AtLeastOnce,
            ..round
        })
    }

    fn summed_up(
        &self,
        took: &[Duration],
        killed_after: Duration,
        lag: u64,
        after: &After,
        proof: Proof,
    ) -> Round {
        let durations = spread_of_times(took.iter().copied());
        let times = Times {
            interval: self.interval,
            median: durations.map_or(Duration::ZERO, |d| d.median),
            max: durations.map_or(Duration::ZERO, |d| d.max),
            restored: after.restored,
            caught_up: after.caught_up,
        };
        Round {
            interval_ms: ms(self.interval),
            round: self.number,
            checkpoints: took.len() as u64,
            duration_median_ms: ms(times.median),
            duration_max_ms: ms(times.max),
            lag_median_records: lag,
            lag_peak_records: after.peak,
            killed_after_ms: ms(killed_after),
            replayed_records: proof.replayed,
            restore_ms: ms(times.restored),
            caught_up_ms: ms(times.caught_up),
            exact: proof.exact,
            lost: proof.lost,
            duplicated: proof.duplicated,
            records: proof.records,
            may_repeat: false,
            times,
        }
    }

    fn say(&self, what: &str) {
        let Self {
            interval,
            number,
            session,
            ..
        } = self;
        session
            .console
            .progress(|| format!("interval {}, round {number}: {what}", interval.render()));
    }

    /// Waits for some checkpoints, and looks at the lag meanwhile.
    async fn until_checkpoints(&self, running: &Running<'_>, probe: &Probe) -> Result<Vec<u64>, CliError> {
        let mut lags = Vec::new();
        running
            .until(|| {
                let complete = running.board().with(|status| status.history.counts().completed);
                if complete > 0 {
                    lags.push(probe.tally.behind(probe.now()));
                }
                self.say(&format!("{complete} of {CHECKPOINTS} checkpoints"));
                Ok((complete >= CHECKPOINTS).then_some(()))
            })
            .await?;
        Ok(lags)
    }

    /// Waits until this round's moment after the newest checkpoint's trigger, and says when that was.
    async fn until_kill(
        &self,
        running: &Running<'_>,
        probe: &Probe,
        lags: &mut Vec<u64>,
    ) -> Result<Nanos, CliError> {
        let wait = self.interval * (2 * self.number - 1) / (2 * self.args.rounds);
        running
            .until(|| {
                lags.push(probe.tally.behind(probe.now()));
                let newest = running
                    .board()
                    .with(|s| s.history.latest_completed().map(|c| c.triggered_at));
                Ok(newest.filter(|at| self.session.engine.now().since(*at) >= wait))
            })
            .await
    }

    async fn until_caught_up(
        &self,
        running: &Running<'_>,
        probe: &Probe,
        before: u64,
    ) -> Result<After, CliError> {
        let killed = self.session.engine.now();
        let mut peak = 0;
        running
            .until(|| {
                let lag = probe.tally.behind(probe.now());
                peak = peak.max(lag);
                self.say(&format!("killed, {} records behind", count(lag)));
                let Some((restored, _)) = probe.restored() else {
                    return Ok(None);
                };
                let caught_up = self.session.engine.now().since(killed);
                Ok((lag <= (before * CAUGHT_UP).max(1)).then_some(After {
                    restored,
                    caught_up,
                    peak,
                }))
            })
            .await
    }
}

/// What the kill cost.
#[derive(Debug, Clone, Copy)]
struct After {
    restored: Duration,
    caught_up: Duration,
    peak: u64,
}

fn introduction(workload: &Workload) -> String {
    format!(
        "{} records of {} due per second, {} of work each, {} subtasks; each round kills a task at another moment",
        count(u64::from(workload.per_second.unwrap_or(0))),
        size(u64::from(workload.payload)),
        time(workload.work),
        workload.parallelism
    )
}

const HEAD: [&str; 9] = [
    "interval",
    "round",
    "duration",
    "longest",
    "lag",
    "lag at worst",
    "replayed",
    "restored in",
    "caught up in",
];

fn row(cells: [String; 9]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>13}")).collect();
    cells.concat()
}

fn in_words(round: &Round) -> String {
    row([
        round.times.interval.render(),
        round.round.to_string(),
        time(round.times.median),
        time(round.times.max),
        count(round.lag_median_records),
        count(round.lag_peak_records),
        count(round.replayed_records),
        time(round.times.restored),
        time(round.times.caught_up),
    ])
}

/// The medians of each interval's rounds.
fn report(console: &Console, args: &IntervalArgs, rounds: &[Round]) -> Result<(), CliError> {
    let mut rows = Vec::new();
    let mut summary = Vec::new();
    for interval in &args.intervals {
        let of: Vec<&Round> = rounds
            .iter()
            .filter(|round| round.times.interval == *interval)
            .collect();
        let times = |f: fn(&Times) -> Duration| {
            spread_of_times(of.iter().map(|r| f(&r.times))).map_or(Duration::ZERO, |s| s.median)
        };
        let counts = |f: fn(&Round) -> u64| spread(of.iter().map(|r| f(r))).map_or(0, |s| s.median);
        let exact = of.iter().all(|round| round.exact);
        let figures = (
            times(|t| t.median),
            times(|t| t.caught_up),
            counts(|r| r.replayed_records),
        );
        let (lag, peak) = (counts(|r| r.lag_median_records), counts(|r| r.lag_peak_records));
        summary.push(serde_json::json!({
            "interval_ms": ms(*interval), "rounds": of.len(), "duration_median_ms": ms(figures.0),
            "lag_median_records": lag, "lag_peak_records": peak, "replayed_records": figures.2,
            "caught_up_ms": ms(figures.1), "exact": exact,
        }));
        rows.push(vec![
            interval.render(),
            time(figures.0),
            count(lag),
            count(peak),
            count(figures.2),
            time(figures.1),
            if exact {
                "exact".to_owned()
            } else {
                "see above".to_owned()
            },
        ]);
    }
    if args.json {
        return console.line(serde_json::json!({ "summary": summary }));
    }
    console.line("\nmedians over the rounds")?;
    let head = [
        "interval",
        "duration",
        "lag",
        "lag at worst",
        "replayed",
        "caught up in",
        "counts",
    ];
    table(&head, &rows)
        .into_iter()
        .try_for_each(|line| console.line(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_one_line_under_its_head() {
        let second = Duration::from_secs(1);
        let times = Times {
            interval: second,
            median: second / 100,
            max: second / 50,
            restored: second / 20,
            caught_up: second,
        };
        let round = Round {
            interval_ms: 1000.0,
            round: 2,
            checkpoints: 2,
            duration_median_ms: 10.0,
            duration_max_ms: 20.0,
            lag_median_records: 3,
            lag_peak_records: 456,
            killed_after_ms: 500.0,
            replayed_records: 400,
            restore_ms: 50.0,
            caught_up_ms: 1000.0,
            exact: true,
            lost: 0,
            duplicated: 0,
            records: 5000,
            may_repeat: false,
            times,
        };
        let line = in_words(&round);
        assert_eq!(line.chars().count(), row(HEAD.map(str::to_owned)).chars().count());
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>().join(" "),
            "1 s 2 10.0 ms 20.0 ms 3 456 400 50.0 ms 1.00 s"
        );
        assert!(serde_json::json!(round)["times"].is_null());
    }
}
